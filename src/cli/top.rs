//! `top`: agents and messages, live, on the whole terminal.
//!
//! [`model`] is the state with its changes, [`keys`] are its input, and [`view`] draws it. Threads
//! read keys ([`input`]), bring news from the daemon ([`feed`]) and carry out orders ([`jobs`]);
//! the main thread owns the state and the terminal, and waits for none of them.

mod action;
mod agent_list;
mod editor;
mod feed;
mod input;
mod jobs;
mod keys;
mod layout;
mod message_list;
mod model;
mod question;
mod screen;
mod view;
mod words;

use super::{
    context::context,
    failure::{DONE, FAILED, Failure},
    print::{Out, counted, has_colours},
    program::{AS_AGENT_RELAY, own_program},
    restore,
};
use crate::wrap;
use action::{Action, Effect, Order};
use argh::{ArgsInfo, FromArgs};
use client::{
    ClientError,
    home::{HomeOptions, agent_around},
};
use crossbeam_channel::{Receiver, Sender, bounded, select};
use feed::Source;
use input::Input;
use jobs::Job;
use model::{Model, Update};
use platform::{
    clock,
    pty::Size,
    stop_signals::{self, Signal},
    tty::{self, Standard, is_terminal},
};
use protocol::text::escaped;
use screen::Screen;
use std::{
    env, io,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// The least time between two drawings.
const DRAW_MS: u64 = 100;

/// The minimum interval between two drawings after a key.
const DRAW_KEY_MS: u64 = 20;

/// The time between two snapshots of an agent's screen.
const PREVIEW_MS: u64 = 1000;

/// The maximum number of pending updates. A thread that has more waits.
const UPDATES_MAX: usize = 1024;

/// The most orders that wait to be carried out.
const JOBS_MAX: usize = 8;

/// The longest wait for the threads at the end.
const END_MS: u64 = 300;

/// Show agents and messages, live, on the whole terminal.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "top",
    help_triggers("--help"),
    example = "agent-relay top",
    note = "Agents that wait for you are first. The last line shows keys, ? shows all of them."
)]
pub(super) struct Top {}

impl Top {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        check_terminal()?;
        if let Some(agent) = agent_around() {
            let message = "this command is for a person at a terminal";
            let hint = format!("run it outside of {}", escaped(&agent));
            return Err(Failure::failed(message).hint(hint));
        }
        let context = context(options)?;
        let (updates, received) = bounded(UPDATES_MAX);
        let has_title = context.config.title;
        let source = Source { options: options.clone(), context, updates };
        let mut top = Running::start(options.clone(), has_title, source, received)?;
        let result = top.run();
        top.end();
        result
    }
}

/// Checks that this process has a terminal that can be drawn on.
fn check_terminal() -> Result<(), Failure> {
    let hint = "`agent-relay agents` lists the agents";
    if !wrap::is_attached() {
        let message = "top needs a terminal, and standard input or output is none";
        return Err(Failure::usage(message).hint(hint));
    }
    if is_dumb() {
        let message = "top needs a terminal that can move its cursor, and TERM is dumb";
        return Err(Failure::usage(message).hint(hint));
    }
    Ok(())
}

fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Runs `agent-relay` without a command in a person's terminal: shows `top` if a daemon runs, or
/// else the possible next steps. `None` if this process has no such terminal.
pub(super) fn alone(options: &HomeOptions) -> Option<Result<i32, Failure>> {
    if check_terminal().is_err() || agent_around().is_some() {
        return None;
    }
    Some(context(options).and_then(|context| {
        let looking = super::identity::looking(&context);
        match context.try_join(&looking) {
            Err(ClientError::NoDaemon { .. }) => welcome(&context.home),
            // `top` shows what else is wrong.
            joined => {
                drop(joined);
                Top {}.run(options)
            }
        }
    }))
}

/// Prints the possible steps while no daemon runs.
fn welcome(home: &Path) -> Result<i32, Failure> {
    let mut out = Out::new();
    let cut_off = restore::cut_off(home)?.len() as u64;
    let restore = format!("  agent-relay restore   start {} again", counted(cut_off, "agent"));
    for line in [
        "Agent Relay lets AI coding agents on this machine talk to each other.",
        "No daemon runs here now.",
        "",
        "  agent-relay claude    start an agent (also codex, gemini, opencode, …)",
        restore.as_str(),
        "  agent-relay help      see all commands",
        "  agent-relay doctor    check that everything works",
    ] {
        if cut_off > 0 || line != restore {
            out.line(line)?;
        }
    }
    Ok(DONE)
}

/// A running `top`: the state, the threads' channels, and the terminal.
struct Running {
    model: Model,
    options: HomeOptions,
    updates: Receiver<Update>,
    jobs: Sender<Job>,
    /// Wakes the thread that lists agents, which ends when this is dropped.
    wake: Sender<()>,
    /// Ends the thread that receives messages when this is dropped.
    stop: Sender<()>,
    signals: Receiver<()>,
    /// Whether the terminal's title is this command's.
    has_title: bool,
    input: Input,
    _listening: stop_signals::Listening,
    /// The agent of the last snapshot request, and the moment of the next request.
    preview_of: String,
    preview_at: u64,
    awaits_preview: bool,
}

impl Running {
    fn start(
        options: HomeOptions,
        has_title: bool,
        source: Source,
        updates: Receiver<Update>,
    ) -> Result<Self, Failure> {
        let (sender, signals) = bounded(1);
        let listening = stop_signals::listen(move |signal| {
            if matches!(signal, Signal::Stop | Signal::HangUp) {
                // A full channel already holds a signal, which is enough.
                let _ = sender.try_send(());
            }
        });
        let (wake, woken) = bounded(1);
        let (stop, stopped) = bounded(1);
        let (jobs, to_do) = bounded(JOBS_MAX);
        let (agents, messages) = (source.clone(), source.clone());
        // Waits for: the daemon's and wrappers' answers (200 ms each), its channel, then the main
        // thread's channel. Not joined: the main thread waits 300 ms for its end.
        spawn("top agents", move || agents.follow_agents(&woken))?;
        // Waits for: the daemon, its channel, then the main thread's channel. Not joined, as `top
        // agents`.
        spawn("top messages", move || messages.follow_messages(&stopped))?;
        // Waits for: its channel, the daemon's and wrappers' answers (10 s at most), then the main
        // thread's channel. Not joined, as `top agents`.
        spawn("top orders", move || source.carry_out(&to_do))?;
        let (columns, rows) = size().unwrap_or((0, 0));
        let has_colours = has_colours(Standard::Output);
        Ok(Self {
            model: Model::new(columns, rows, has_colours, clock::unix_ms()),
            options,
            has_title,
            updates,
            jobs,
            wake,
            stop,
            signals,
            input: Input::start()?,
            _listening: listening.map_err(Failure::because)?,
            preview_of: String::new(),
            preview_at: 0,
            awaits_preview: false,
        })
    }

    /// Shows the state until the person quits, or this process is asked to stop.
    fn run(&mut self) -> Result<i32, Failure> {
        let mut screen = Screen::enter(self.has_title).map_err(failed)?;
        self.input.allow();
        let (mut drawn, mut pause) = (0, 0);
        loop {
            // A closed window may come without a signal, and brings no key.
            if !is_terminal(Standard::Input) {
                return Err(Failure::failed("the terminal is gone"));
            }
            let now = clock::monotonic_ms();
            self.renew(now);
            if now >= drawn + pause && self.model.take_changed() {
                screen.draw(&self.model).map_err(failed)?;
                (drawn, pause) = (now, DRAW_MS);
            }
            if !Screen::is_entered() {
                // A thread has panicked, and the panic hook has left the screen and said why.
                return Err(Failure::silent(FAILED));
            }
            let left = match (drawn + pause).saturating_sub(now) {
                0 => DRAW_MS,
                left => left,
            };
            // Waits for: keys, updates and signals, 100 ms at most; while a terminal is attached,
            // its command.
            let event = select! {
                recv(self.signals) -> _ => return Ok(FAILED),
                recv(self.input.events()) -> event => event.map_err(Failure::because)?,
                default(Duration::from_millis(left)) => continue,
            };
            pause = DRAW_KEY_MS;
            let event = event.map_err(failed)?;
            let action = keys::action(event, &self.model.mode);
            match action.and_then(|action| self.model.act(action)) {
                None => {}
                Some(Effect::Quit) => return Ok(DONE),
                Some(Effect::Attach(name)) => {
                    drop(screen);
                    self.attach(&name)?;
                    screen = Screen::enter(self.has_title).map_err(failed)?;
                }
                Some(Effect::Order(order)) => self.order(order),
            }
            self.input.allow();
        }
    }

    fn order(&mut self, order: Order) {
        if self.jobs.try_send(Job::Order(order)).is_err() {
            self.model.set_notice("earlier orders are not carried out yet".to_owned());
        }
    }

    /// Brings the state up to date.
    fn renew(&mut self, now: u64) {
        // The thread that reads keys may learn of a new size only with the next key.
        if let Some((columns, rows)) = size().filter(|size| *size != self.model.size()) {
            self.model.act(Action::Resize(columns, rows));
        }
        self.take_updates();
        self.look_at_agent(now);
        self.model.tick(clock::unix_ms());
    }

    /// Applies the updates from the threads, at most as many as their channel holds.
    fn take_updates(&mut self) {
        for _ in 0..UPDATES_MAX {
            let Ok(update) = self.updates.try_recv() else { return };
            self.take(update);
        }
    }

    fn take(&mut self, update: Update) {
        match &update {
            Update::Preview(..) => self.awaits_preview = false,
            Update::Held(..) | Update::Chosen(..) | Update::Notice(_) => {
                // A full channel already wakes the thread.
                let _ = self.wake.try_send(());
            }
            _ => {}
        }
        self.model.update(update);
    }

    /// Asks for the screen of the selected agent, if it is shown and was not asked for just now.
    fn look_at_agent(&mut self, now: u64) {
        if self.awaits_preview {
            return;
        }
        let Some((name, area)) = self.model.wants_preview() else { return };
        if now >= self.preview_at || self.preview_of != name {
            let size = Size { rows: area.height, cols: area.width };
            self.awaits_preview = self.jobs.try_send(Job::Preview(name.clone(), size)).is_ok();
            (self.preview_at, self.preview_of) = (now + PREVIEW_MS, name);
        }
    }

    /// Runs `attach` in this terminal until it ends, and applies updates meanwhile.
    fn attach(&mut self, name: &str) -> Result<(), Failure> {
        let mut command = own_command(&self.options)?;
        command.args(["attach", name]).stderr(Stdio::piped());
        let mut attached = command.spawn().map_err(Failure::because)?;
        while attached.try_wait().map_err(Failure::because)?.is_none() {
            if let Ok(update) = self.updates.recv_timeout(Duration::from_millis(DRAW_MS)) {
                self.take(update);
            }
        }
        let output = attached.wait_with_output().map_err(Failure::because)?;
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().next().unwrap_or_default();
        self.model.set_notice(line.trim_start_matches(super::print::LINE_PREFIX).to_owned());
        Ok(())
    }

    /// Ends the threads. One that waits for a daemon that does not answer ends with the process.
    fn end(self) {
        let Self { updates, jobs, wake, stop, .. } = self;
        drop((jobs, wake, stop));
        let until = clock::monotonic_ms() + END_MS;
        loop {
            let left = until.saturating_sub(clock::monotonic_ms());
            // The channel ends with the last of the threads.
            if updates.recv_timeout(Duration::from_millis(left)).is_err() {
                return;
            }
        }
    }
}

/// This program, for the same home.
fn own_command(options: &HomeOptions) -> Result<Command, Failure> {
    let mut command = Command::new(own_program()?);
    command.arg(AS_AGENT_RELAY);
    let HomeOptions { endpoint, home } = options;
    for (option, value) in [("--endpoint", endpoint), ("--home", home)] {
        command.args(value.iter().flat_map(|value| [option, value]));
    }
    Ok(command)
}

/// The columns and rows of the terminal, limited to the drawn part.
fn size() -> Option<(u16, u16)> {
    tty::size().map(|size| layout::limited(size.cols, size.rows))
}

fn failed(error: io::Error) -> Failure {
    Failure::failed(format!("the terminal fails: {error}"))
}

fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<thread::JoinHandle<()>, Failure> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(Failure::because)
}
