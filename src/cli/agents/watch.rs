//! `agents --watch`: the list, again when something changes.

use super::{
    Layout, SCHEMA, Shown,
    paint::{self, Screen},
};
use crate::cli::{
    changes::{Changes, News, POLL_MS},
    failure::{DONE, Failure},
    print::{Out, eprint_line},
    table,
};
use client::{Client, home::HomeOptions};
use crossbeam_channel::bounded;
use platform::{
    clock,
    stop_signals::{self, Signal},
    tty::{self, Standard},
};
use protocol::calendar::duration;
use std::{collections::HashMap, env};

/// The least time between two lists.
const LIST_MS: u64 = 1000;

/// The time before the list is made again without a change from the daemon: states have an age, and
/// wrappers have news that the daemon does not.
const AGE_MS: u64 = 5000;

/// The most signals that wait.
const SIGNALS_MAX: usize = 4;

/// The indent of the lines of a long remark.
const REMARK_INDENT: usize = 4;

/// Lists the agents until Ctrl-C, or until the output is closed.
pub(super) fn run(
    options: &HomeOptions,
    as_json: bool,
    layout: Layout,
    list: &dyn Fn(&Client) -> Result<Vec<Shown>, Failure>,
) -> Result<i32, Failure> {
    let (sender, signals) = bounded(SIGNALS_MAX);
    let changes = Changes::join(options, signals)?;
    let is_repainted = !as_json && can_repaint();
    // Called before the terminal is changed, since Ctrl-C must change it back.
    let _listening = if is_repainted {
        let sender = sender.clone();
        let listening = stop_signals::listen_with_keys(move |signal| match signal {
            // Ends at once, since the main thread may wait for a daemon that does not answer.
            Signal::Stop | Signal::HangUp => paint::leave_and_exit(DONE),
            // A full channel already wakes the main thread.
            signal => drop(sender.try_send(signal)),
        });
        Some(listening.map_err(Failure::because)?)
    } else {
        None
    };
    let mut view = View::new(as_json, is_repainted, layout)?;
    let result = follow(changes, &mut view, list);
    // The channel of signals stays open until here, also if nothing listens to them.
    drop((view, sender));
    result
}

/// Whether standard output is a terminal that can move its cursor.
fn can_repaint() -> bool {
    tty::is_terminal(Standard::Output) && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn follow(
    mut changes: Changes<'_>,
    view: &mut View,
    list: &dyn Fn(&Client) -> Result<Vec<Shown>, Failure>,
) -> Result<i32, Failure> {
    loop {
        let listed_at = clock::monotonic_ms();
        if let Some(client) = changes.client() {
            match list(client) {
                Ok(agents) => view.show(agents)?,
                Err(failure) if failure.is_refused() => return Err(failure),
                Err(failure) => {
                    view.away(&failure.into_message())?;
                    changes.lose();
                }
            }
        }
        let mut list_at = listed_at + if changes.is_notified() { AGE_MS } else { POLL_MS };
        loop {
            let left = list_at.saturating_sub(clock::monotonic_ms());
            if left == 0 {
                break;
            }
            match changes.next(Some(left))? {
                News::Change(_) => list_at = list_at.min(listed_at + LIST_MS),
                News::Again => {
                    view.is_back()?;
                    break;
                }
                News::Away(why) => view.away(&why)?,
                News::Time => break,
                News::Signal(Signal::Suspend) => view.suspend()?,
                News::Signal(_) => view.resized()?,
            }
        }
    }
}

/// The shown list and its form.
struct View {
    out: Out,
    style: Style,
    layout: Layout,
    agents: Vec<Shown>,
    /// The reason why the daemon is away, and since when.
    away: Option<(String, u64)>,
}

enum Style {
    Repainted(Screen),
    /// A table after each change of an agent. Holds the agents in the last table.
    Tables(Option<Vec<String>>),
    /// A line for each agent that has changed; the last line of each agent.
    Json(HashMap<String, String>),
}

impl View {
    fn new(as_json: bool, is_repainted: bool, layout: Layout) -> Result<Self, Failure> {
        let style = match (as_json, is_repainted) {
            (true, _) => Style::Json(HashMap::new()),
            (false, true) => Style::Repainted(Screen::enter().map_err(Failure::unwritten)?),
            (false, false) => Style::Tables(None),
        };
        Ok(Self { out: Out::new(), style, layout, agents: Vec::new(), away: None })
    }

    /// Shows a new list.
    fn show(&mut self, agents: Vec<Shown>) -> Result<(), Failure> {
        self.agents = agents;
        match &mut self.style {
            Style::Repainted(_) => return self.paint(),
            Style::Tables(last) => {
                // In JSON, states have no ages, but moments.
                let agents: Vec<_> = self.agents.iter().map(|agent| agent.json.clone()).collect();
                if last.as_ref() == Some(&agents) {
                    return Ok(());
                }
                if last.replace(agents).is_some() {
                    self.out.line("")?;
                }
            }
            Style::Json(last) => {
                for agent in &self.agents {
                    if last.get(&agent.name) != Some(&agent.json) {
                        self.out.json_text(SCHEMA, &agent.json)?;
                        last.insert(agent.name.clone(), agent.json.clone());
                    }
                }
                let is_listed = |name: &String| self.agents.iter().any(|it| it.name == *name);
                if last.len() > self.agents.len() {
                    last.retain(|name, _| is_listed(name));
                }
                return Ok(());
            }
        }
        self.layout.print(&self.agents, &mut self.out)
    }

    /// Shows that the daemon is away.
    fn away(&mut self, why: &str) -> Result<(), Failure> {
        if self.away.is_some() {
            return self.paint();
        }
        self.away = Some((why.to_owned(), clock::monotonic_ms()));
        if !matches!(self.style, Style::Repainted(_)) {
            eprint_line(format_args!("{why}; trying again"));
        }
        self.paint()
    }

    /// Shows that the daemon is back.
    fn is_back(&mut self) -> Result<(), Failure> {
        if self.away.take().is_some() && !matches!(self.style, Style::Repainted(_)) {
            eprint_line("connected again");
        }
        self.paint()
    }

    fn suspend(&mut self) -> Result<(), Failure> {
        if let Style::Repainted(screen) = &mut self.style {
            screen.suspend().map_err(Failure::unwritten)?;
        }
        self.paint()
    }

    fn resized(&mut self) -> Result<(), Failure> {
        if let Style::Repainted(screen) = &mut self.style {
            screen.forget();
        }
        self.paint()
    }

    /// Paints the screen, if the list is repainted.
    fn paint(&mut self) -> Result<(), Failure> {
        let Style::Repainted(screen) = &mut self.style else { return Ok(()) };
        let status = self.away.as_ref().map(|(why, since)| {
            let for_ms = clock::monotonic_ms().saturating_sub(*since);
            format!("away for {}: {why}; trying again", duration(for_ms))
        });
        let width = self.out.width();
        let (columns, rows, remarks) = self.layout.table(&self.agents);
        let mut lines = match () {
            () if !rows.is_empty() => table::lines(&columns, &rows, width),
            () if self.agents.is_empty() => broken(self.layout.empty, width),
            () => Vec::new(),
        };
        lines.extend(remarks.iter().flat_map(|remark| broken(remark, width)));
        screen.paint(&self.out, &lines, status.as_deref()).map_err(Failure::unwritten)
    }
}

fn broken(text: &str, width: usize) -> Vec<String> {
    table::broken(text, width, REMARK_INDENT).lines().map(ToOwned::to_owned).collect()
}
