//! `spawn`: run an agent that has no terminal of its own.

use super::{
    AS_AGENT_RELAY, DONE, Failure, TIMED_OUT, argv,
    launch::{join_or_start, make_home, own_program, said_since},
    log,
    place::{Asked, Place},
    print::{Out, foreign_line, say},
    run::{LAST_LINE, RUN, check_accepts_text},
    wrapped::{ANSWER, check_name},
};
use crate::{
    client,
    config::recipes,
    protocol::control::{Answer, Request, State},
    wrap::{self, visit::Visit},
};
use argh::{ArgsInfo, FromArgs};
use platform::{
    clock, paths,
    process::{self, Detached},
};
use serde::Serialize;
use std::{
    env,
    ffi::OsString,
    path::{self, Path, PathBuf},
    thread,
    time::Duration,
};

/// How long it may take until the agent runs and has joined.
const START_MS: u64 = 30_000;

/// Between two looks at whether it does: nothing tells a stranger when a socket appears.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What begins a sentence of ours in a log.
const SENTENCE: &str = "agent-relay: ";

/// Run a command as an agent in the background, until it ends or `stop`.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "spawn",
    help_triggers("--help"),
    usage = "<name> [--key-file <path>] [--cwd <dir>] [--inline] [--grid] [--accepts-text] [--brief] [--json] [--] <command> [<argument>...]",
    example = "agent-relay spawn Bob --brief -- codex",
    example = "agent-relay spawn Bob --cwd ../tests -- claude --continue",
    note = "`agent-relay attach NAME` shows it. How it ended is in logs/NAME.log in the home."
)]
pub(super) struct Spawn {
    /// the agent's name
    #[argh(positional, from_str_fn(argv::text))]
    name: String,

    /// where the key is of the name, if it has one; keys/NAME in the home where absent
    #[argh(option, arg_name = "path", from_str_fn(argv::text))]
    key_file: Option<String>,

    /// the directory that it runs in; this one where absent
    #[argh(option, arg_name = "dir", from_str_fn(argv::text))]
    cwd: Option<String>,

    /// take `->relay:Bob hello` in one line for a message, too
    #[argh(switch)]
    inline: bool,

    /// read what the agent says off its screen, also where it writes a transcript
    #[argh(switch)]
    grid: bool,

    /// type messages into a command of which nothing is known but that it reads text; not into
    /// programs that it starts, nor into a shell, an interpreter or a multiplexer
    #[argh(switch)]
    accepts_text: bool,

    /// tell the agent first how to speak to others (see `agent-relay brief`); a shell or an interpreter is
    /// told nothing
    #[argh(switch)]
    brief: bool,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    /// None where it has ended already, and well.
    pid: Option<u32>,
    log: &'a Path,
}

impl Spawn {
    pub(super) fn run(self, asked: &Asked, command: Vec<OsString>) -> Result<i32, Failure> {
        let name = &self.name;
        check_name(name)?;
        if command.is_empty() {
            return Err(Failure::usage("no command to run: agent-relay spawn NAME -- COMMAND"));
        }
        let directory = self.directory()?;
        let mut place = asked.place()?;
        if Visit::to(&place.home.join(RUN), name).is_ok() {
            return Err(Failure::failed(format!(
                "{name} runs already: choose another name, or end it with `agent-relay stop {name}`"
            )));
        }
        let recipes = recipes::load(&place.home);
        let recipes = recipes.map_err(|error| Failure::failed(error.to_string()))?;
        check_accepts_text(self.accepts_text, &command, Some(&directory), &recipes)?;
        let guest = |endpoint: &str| client::Settings::guest(endpoint);
        let endpoint = join_or_start(&mut place, &guest)?.endpoint().to_owned();
        if !self.accepts_text
            && let Some(line) = wrap::prospect(&command, Some(&directory), &recipes).notice(name)
        {
            say(foreign_line(&line));
        }
        let (log, log_end) = log_for(&place.home, name)?;
        let arguments = self.arguments(&place, &endpoint, directory, command)?;
        let mut wrapper =
            process::spawn_detached(&own_program()?, &arguments, &log).map_err(Failure::because)?;
        let started = self.await_start(&place, &mut wrapper, &log, log_end)?;
        let pid = started.map(|state| state.pid);
        let mut out = Out::new();
        if self.json {
            out.json("spawn", &Report { name, pid, log: &log })?;
        } else if let Some(pid) = pid {
            out.line(format_args!(
                "{name} runs (process {pid}): `agent-relay attach {name}` shows it"
            ))?;
        } else {
            out.line(format_args!("{name} ran, and has ended already"))?;
        }
        Ok(DONE)
    }

    fn directory(&self) -> Result<PathBuf, Failure> {
        let directory = match &self.cwd {
            Some(directory) => path::absolute(directory),
            None => env::current_dir(),
        };
        let directory = directory.map_err(Failure::because)?;
        if directory.is_dir() {
            return Ok(directory);
        }
        Err(Failure::failed(format!("there is no directory {}", directory.display())))
    }

    /// How this program is to be run as the wrapper.
    fn arguments(
        &self,
        place: &Place,
        endpoint: &str,
        directory: PathBuf,
        command: Vec<OsString>,
    ) -> Result<Vec<OsString>, Failure> {
        let mut arguments: Vec<OsString> = vec![AS_AGENT_RELAY.into()];
        arguments.extend(["--home".into(), place.home.clone().into_os_string()]);
        arguments.extend(["--endpoint".into(), endpoint.into()]);
        arguments.extend(["run", "--detached", "-n"].map(OsString::from));
        arguments.push(self.name.as_str().into());
        arguments.extend(["--cwd".into(), directory.into_os_string()]);
        if let Some(file) = &self.key_file {
            let file = path::absolute(file).map_err(Failure::because)?;
            arguments.extend(["--key-file".into(), file.into_os_string()]);
        }
        let switches = [
            ("--inline", self.inline),
            ("--grid", self.grid),
            ("--accepts-text", self.accepts_text),
            ("--brief", self.brief),
        ];
        arguments.extend(switches.iter().filter(|(_, on)| *on).map(|(switch, _)| switch.into()));
        arguments.push("--".into());
        arguments.extend(command);
        Ok(arguments)
    }

    /// Waits until the wrapper answers, which it does once its command runs; none where that is over.
    fn await_start(
        &self,
        place: &Place,
        wrapper: &mut Detached,
        log: &Path,
        log_end: u64,
    ) -> Result<Option<State>, Failure> {
        let name = &self.name;
        let run_directory = place.home.join(RUN);
        let deadline = clock::monotonic_ms() + START_MS;
        loop {
            let answer = Visit::to(&run_directory, name)
                .and_then(|visit| visit.ask(&Request::State, ANSWER));
            match answer {
                Ok(Answer::State(state)) if state.wrapper_pid == wrapper.pid() => {
                    return Ok(Some(state));
                }
                // Not yet, or not by this one.
                _ => {}
            }
            if let Some(code) = wrapper.exited().map_err(Failure::because)? {
                if code == DONE {
                    return Ok(None);
                }
                return Err(Failure::failed(why(name, code, log, log_end)));
            }
            if clock::monotonic_ms() > deadline {
                return Err(Failure::new(
                    TIMED_OUT,
                    format!(
                        "{name} does not answer {START_MS} ms after its start: its log is {}",
                        log.display()
                    ),
                ));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// The log, with room in it, and how long it is.
fn log_for(home: &Path, name: &str) -> Result<(PathBuf, u64), Failure> {
    make_home(home)?;
    let log = log::of_agent(home, name);
    paths::make_private_dir(log.parent().expect("it is in a directory"))
        .map_err(Failure::because)?;
    let log_end = log::make_room(&log)
        .map_err(|error| Failure::failed(format!("make room in {}: {error}", log.display())))?;
    Ok((log, log_end))
}

/// What the wrapper said about its end, or its command's last lines.
fn why(name: &str, code: i32, log: &Path, log_end: u64) -> String {
    let said = said_since(log, log_end).unwrap_or_default();
    if let Some(sentence) = said.lines().rev().find_map(|line| line.strip_prefix(SENTENCE)) {
        return format!("{name} did not start: {}", foreign_line(sentence));
    }
    let mark = LAST_LINE.trim_start_matches('\n');
    let lines = said.lines().filter_map(|line| line.strip_prefix(mark));
    let lines: String = lines.map(|line| format!("{LAST_LINE}{}", foreign_line(line))).collect();
    let colon = if lines.is_empty() { "" } else { "; the last lines on its screen:" };
    format!("{name} ended at once, with code {code}{colon}{lines}")
}
