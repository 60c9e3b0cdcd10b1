//! `agent-relay-wrap hook`: the command that agent CLIs run as their hook. It reports to the
//! wrapper of its agent, and prints the wrapper's answer.
//!
//! A hook must never hold up its CLI, nor fail in front of its user: whatever goes wrong, it prints
//! nothing and ends with 0.

mod edits;

use super::{failure::DONE, print::eprint_line};
use crate::wrap::{
    WrapperAddress,
    agents::{self, Agent},
    control::client::ControlClient,
    hooks::{self, Extension, Hooks, Printed, REPORT_BYTES_MAX},
};
use crossbeam_channel::bounded;
use protocol::{
    control::{Answer, Request},
    hook::{Point, Report},
};
use std::{
    env,
    ffi::OsString,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// The first argument of this command.
pub(super) const HOOK: &str = "hook";

const USAGE: &str = "usage: agent-relay-wrap hook CLI EVENT --to FILE (agent CLIs run this)";

/// The most time that a hook holds up its CLI. It ends at once if the wrapper has gone, so this
/// counts only on a busy machine, or if the wrapper hangs. Gemini CLI shows an error after 2 s if
/// its extension was installed by an earlier version.
const TIME: Duration = Duration::from_millis(1500);

/// The time limit of a waiting hook: longer than any CLI lets it wait.
const WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Runs a hook with the words behind `hook`. Returns the exit code.
pub(super) fn run(words: &[OsString]) -> i32 {
    let Some(hook) = Hook::of(words) else {
        eprint_line(USAGE);
        // Not 2: a hook of Claude Code forbids something with that code.
        return 1;
    };
    hook.run().map_or(DONE, |(wrapper, printed)| {
        // The CLI is gone, or has given up, if this fails.
        if print(&printed).is_ok() {
            wrapper.confirm_printed();
        }
        printed.code
    })
}

fn print(printed: &Printed) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(printed.out.as_bytes())?;
    out.flush()?;
    io::stderr().write_all(printed.error.as_bytes())
}

struct Hook {
    hooks: &'static Hooks,
    event: String,
    point: Point,
    /// The file with the wrapper's address; `None` if the agent has no wrapper.
    file: Option<PathBuf>,
}

impl Hook {
    fn of(words: &[OsString]) -> Option<Self> {
        let (cli, event, file) = match words {
            [cli, event, to, file] if to == "--to" => (cli, event, Some(file)),
            [cli, event] => (cli, event, None),
            _ => return None,
        };
        let agent = agents::named(cli.to_str()?)?;
        let (hooks, event) = (agent.hooks?, event.to_str()?.to_owned());
        let file = match file {
            Some(file) => Some(file.into()),
            None if hooks.extension.is_some() => wrapper_file(agent),
            None => return None,
        };
        Some(Self { hooks, point: hooks.point(&event)?, event, file })
    }

    /// Returns the connection to the wrapper, and what to print.
    fn run(self) -> Option<(ControlClient, Printed)> {
        let file = self.file?;
        let begun = Instant::now();
        let json = within(TIME, read_input)??;
        if self.point == Point::ToolEnded {
            tell_edits(&file, &self.event, &json);
        }
        let report = hooks::read(self.point, &json)?;
        let (wrapper, text) = match self.point {
            Point::Waits => ask(&file, report, WAIT)?,
            _ => {
                let time = TIME.saturating_sub(begun.elapsed());
                within(time, move || ask(&file, report, time))??
            }
        };
        Some((wrapper, (self.hooks.print)(&self.event, &text)))
    }
}

/// Returns the wrapper's file for a hook of an extension. A CLI that a command of an agent has
/// started is not the agent.
fn wrapper_file(agent: &Agent) -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let is_nested = agent.command_variable.and_then(variable).is_some();
    variable(Extension::WRAPPER_VARIABLE).filter(|_| !is_nested).map(PathBuf::from)
}

/// Tells the wrappers which files a tool has edited, for a limited time. The hook's own wrapper
/// then knows of collisions before it answers the report.
fn tell_edits(file: &Path, event: &str, json: &[u8]) {
    let edited = hooks::edited(event, json);
    if edited.paths.is_empty() {
        return;
    }
    let file = file.to_owned();
    let tell = move || {
        if let Ok(address) = WrapperAddress::read(&file)
            && address.tells_edits
        {
            edits::tell(&address, &edited);
        }
    };
    // Wrappers that were not told in time do not know of the edit.
    let _ = within(edits::TIME, tell);
}

/// Reports to the wrapper. Returns the connection, and the wrapper's text for the agent.
fn ask(file: &Path, report: Report, time: Duration) -> Option<(ControlClient, String)> {
    let WrapperAddress { run_directory, name, key, .. } = WrapperAddress::read(file).ok()?;
    let wrapper = ControlClient::connect(&run_directory, &name).ok()?;
    match wrapper.request(&Request::Hook { key, report }, time) {
        Ok(Answer::Hooked { text }) => text.map(|text| (wrapper, text)),
        _ => None,
    }
}

fn read_input() -> Option<Vec<u8>> {
    let mut json = Vec::new();
    io::stdin().lock().take(REPORT_BYTES_MAX as u64 + 1).read_to_end(&mut json).ok()?;
    (json.len() <= REPORT_BYTES_MAX).then_some(json)
}

/// Returns the result of `work`, unless it takes longer than `time`. Then `work` is left behind,
/// and ends with this process.
fn within<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = bounded(1);
    // Waits for: the system, wrappers. Not joined: the main thread waits a limited time, then the
    // process ends.
    thread::Builder::new()
        .name("hook".to_owned())
        .spawn(move || {
            // Nobody waits any more if the time is over.
            let _ = done.send(work());
        })
        .ok()?;
    result.recv_timeout(time).ok()
}
