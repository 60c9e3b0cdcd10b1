//! `tap --events`: what happens to messages and agents, as JSON lines for scripts.

mod event;
mod past;
mod seen;

use super::{
    changes::{Changes, News, change_in, parse_change},
    failure::{DONE, Failure},
    join::join,
    print::{Out, eprint_line},
    request::each_agent,
    values::agent_of_any_machine,
};
use client::{Client, Delivery, home::HomeOptions};
use crossbeam_channel::{Sender, bounded};
use event::{Agents, Event, Filter};
use past::Past;
use platform::{clock, stop_signals::Signal, tty};
use protocol::{relay::ChangeKind, text::escaped};
use seen::Seen;
use std::{collections::HashSet, thread};

/// The most events of the past that are printed by default, and that are caught up on.
const PAST_MAX: u64 = 10_000;

/// The most events of the past that can be asked for. They are held in memory, to be sorted.
const LIMIT_MAX: u64 = 1_000_000;

/// The note about events that may be missing after the daemon was away.
const MISSING: &str = "the daemon was away: since then, at-most-once messages and some changes of \
                       agents may be missing";

/// The options of `tap` that need `--events`.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) follow: bool,
    pub(super) since: Option<u64>,
    pub(super) agent: Option<String>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) kind: Option<ChangeKind>,
    pub(super) limit: Option<u64>,
}

impl Events {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        for name in [&self.agent, &self.from, &self.to].into_iter().flatten() {
            check_agent(name)?;
        }
        let limit = self.limit.unwrap_or(PAST_MAX);
        if limit > LIMIT_MAX {
            return Err(Failure::usage(format!("--limit is at most {LIMIT_MAX}")));
        }
        if !self.follow && self.kind == Some(ChangeKind::Agent) {
            let failure = Failure::usage("only --follow shows agents");
            return Err(failure.hint("add --follow"));
        }
        let filter = Filter {
            agent: self.agent,
            from: self.from,
            to: self.to,
            topic: self.topic,
            kind: self.kind,
        };
        let since = self.since.unwrap_or(0);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if !self.follow {
            let past = Past::read(&join(options)?, &filter, since, limit)?;
            let mut printer = Printer { out: Out::new(), filter };
            say_what_is_left_out(&past);
            past.events.iter().try_for_each(|event| printer.print(event))?;
            return Ok(DONE);
        }
        let mut follower = Follower {
            printer: Printer { out: Out::new(), filter },
            seen: Seen::new(self.since.unwrap_or_else(clock::unix_ms)),
            agents: Agents::default(),
        };
        // The agents' activities before the daemon reports changes are not events.
        each_agent(&join(options)?, |row| {
            follower.agents.take_over(&row);
            Ok(())
        })?;
        let (closed, signals) = bounded(1);
        end_with_output(closed.clone())?;
        let changes = Changes::follow(options, signals)?;
        if let Some(client) = changes.client() {
            let endpoint = escaped(client.endpoint());
            eprint_line(format_args!("following the daemon at {endpoint}; Ctrl-C ends this"));
        }
        if let Some(since) = self.since {
            follower.print_past(&changes, since, limit)?;
        }
        let result = follower.run(changes);
        // The channel stays open until here, also where the end of the output cannot be known.
        drop(closed);
        result
    }
}

/// Sends a signal once nothing reads the output any more.
fn end_with_output(closed: Sender<Signal>) -> Result<(), Failure> {
    let wait = move || {
        if tty::wait_until_output_is_closed() {
            // Without a receiver, the command ends already.
            let _ = closed.send(Signal::HangUp);
        }
    };
    // Waits for: the end of the output, then the main thread's channel. Not joined: ends with the
    // output or the process.
    let thread = thread::Builder::new().name("closed output".to_owned()).spawn(wait);
    thread.map(drop).map_err(Failure::because)
}

/// Checks the name of an agent, of the operator or of a guest.
fn check_agent(name: &str) -> Result<(), Failure> {
    if name.starts_with('@') {
        return Ok(());
    }
    agent_of_any_machine(name).map(drop).map_err(Failure::usage)
}

/// Standard output, and the events that are wanted there.
struct Printer {
    out: Out,
    filter: Filter,
}

impl Printer {
    fn print(&mut self, event: &Event) -> Result<(), Failure> {
        match self.filter.includes(event) {
            true => self.out.line(event.line()),
            false => Ok(()),
        }
    }
}

/// Prints a warning on standard error about the omitted part of the past.
fn say_what_is_left_out(past: &Past) {
    if let Some(why) = &past.left_out {
        eprint_line(why);
    }
}

/// The events in order, each printed once.
struct Follower {
    printer: Printer,
    seen: Seen,
    agents: Agents,
}

impl Follower {
    /// Prints the past. The daemon already reports changes, so that none is missed.
    fn print_past(
        &mut self,
        changes: &Changes<'_>,
        since: u64,
        limit: usize,
    ) -> Result<(), Failure> {
        let Some(client) = changes.client() else { return Ok(()) };
        let past = Past::read(client, &self.printer.filter, since, limit)?;
        say_what_is_left_out(&past);
        past.events.iter().try_for_each(|event| self.print_once(event))
    }

    /// Prints changes as long as the daemon reports them.
    fn run(mut self, mut changes: Changes<'_>) -> Result<i32, Failure> {
        let mut is_away = false;
        loop {
            match changes.next(None)? {
                News::Change(delivery) => self.change(&delivery)?,
                News::Away(why) => {
                    if !is_away {
                        eprint_line(format_args!("{why}; trying again"));
                    }
                    is_away = true;
                }
                News::Again => match self.catch_up(&changes) {
                    Ok(()) => {
                        is_away = false;
                        eprint_line("connected again");
                    }
                    Err(CatchUp::Print(failure)) => return Err(failure),
                    Err(CatchUp::Daemon(failure)) if failure.is_refused() => return Err(failure),
                    // It has gone again.
                    Err(CatchUp::Daemon(_)) => changes.lose(),
                },
                News::Signal(_) => return Ok(DONE),
                News::Time => {}
            }
        }
    }

    fn change(&mut self, delivery: &Delivery) -> Result<(), Failure> {
        let Some(json) = change_in(delivery) else { return Ok(()) };
        let event = Event::from(parse_change(json)?);
        self.seen.note_time(event.time);
        if event.kind == ChangeKind::Agent.as_str() && !self.agents.note(&event) {
            return Ok(());
        }
        self.print_once(&event)
    }

    /// Prints an event that was not printed before.
    fn print_once(&mut self, event: &Event) -> Result<(), Failure> {
        match self.printer.filter.includes(event) && self.seen.add(event) {
            true => self.printer.print(event),
            false => Ok(()),
        }
    }

    /// Prints the events since the connection was lost, as far as they are known.
    fn catch_up(&mut self, changes: &Changes<'_>) -> Result<(), CatchUp> {
        let Some(client) = changes.client() else { return Ok(()) };
        let (last, from) = (self.seen.last(), self.seen.floor());
        let limit = usize::try_from(PAST_MAX).unwrap_or(usize::MAX);
        let past = Past::read(client, &self.printer.filter, from, limit);
        let past = past.map_err(CatchUp::Daemon)?;
        let (agents, changed) = self.changed_agents(client, last).map_err(CatchUp::Daemon)?;
        let mut why = MISSING.to_owned();
        if let Some(left_out) = &past.left_out {
            why = format!("{why}; {left_out}");
        }
        let mut events = past.events;
        events.extend(changed);
        events.sort_by_key(|event| event.time);
        self.agents = agents;
        let gap = Event::gap(clock::unix_ms(), last, why);
        self.printer.print(&gap).map_err(CatchUp::Print)?;
        for event in &events {
            self.seen.note_time(event.time);
            self.print_once(event).map_err(CatchUp::Print)?;
        }
        Ok(())
    }

    /// Returns the agents' present states, and the events for those that have changed.
    fn changed_agents(&self, client: &Client, last: u64) -> Result<(Agents, Vec<Event>), Failure> {
        let (mut agents, mut events) = (Agents::default(), Vec::new());
        let mut names = HashSet::new();
        each_agent(client, |row| {
            events.extend(self.agents.changes_to(&row, last));
            agents.take_over(&row);
            names.insert(row.name.to_ascii_lowercase());
            Ok(())
        })?;
        events.extend(self.agents.missing_in(&names, clock::unix_ms()));
        Ok((agents, events))
    }
}

/// A failure to catch up.
enum CatchUp {
    Print(Failure),
    /// The daemon does not answer, or refuses.
    Daemon(Failure),
}
