//! `spawn`: run a command as an agent in the background.

use super::{
    agent_options::agent_command,
    context::context,
    failure::{DONE, Failure, TIMED_OUT},
    folder_name::FolderName,
    join::endpoint_or_start,
    launch::make_home,
    log::{self, Ended},
    print::{Out, eprint_line},
    program::{AS_AGENT_RELAY, own_program},
    wrapped::{ANSWER, RUN_DIRECTORY, last_lines_of_log},
};
use crate::wrap::{self, control::client::ControlClient};
use client::home::{Context, HomeOptions};
use platform::{
    clock, paths,
    process::{self, Detached},
};
use protocol::{
    calendar::duration,
    control::{AgentState, Request},
    text::escaped,
};
use serde::Serialize;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// The longest wait until the agent runs and has joined.
const START_MS: u64 = 30_000;

/// How long an agent must run to count as started: a CLI that does not find its conversation ends
/// at once.
pub(super) const STARTED_MS: u64 = 2000;

/// The longest wait for the end of a wrapper after its command's end. Its last messages take less.
const END_MS: u64 = 10_000;

/// The pause between two requests to the new wrapper. Its socket may not exist yet.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

agent_command! {
    /// Run a command as an agent, in the background.
    #[argh(
        subcommand,
        name = "spawn",
        help_triggers("--help"),
        usage = "[<agent>] [--key-file <file>] [--cwd <dir>] [--inline] [--grid] [--accepts-text] [--brief] [--no-brief] [--no-hooks] [--mcp] [--topic <pattern...>] [--json] [--] <command...>",
        example = "agent-relay spawn codex",
        example = "agent-relay spawn Bob --cwd ../tests -- claude --continue",
        note = "Without a name, the agent is named after its directory.",
        note = "`agent-relay attach NAME` shows it, and `agent-relay stop NAME` ends it. logs/NAME.log in the home says how it ended."
    )]
    Spawn {
        /// the directory to run the command in; default: this one
        #[argh(option, arg_name = "dir")]
        cwd: Option<String>,
    } {
        /// print one JSON object
        #[argh(switch)]
        json: bool,
    }
}

#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    /// The process id of the wrapper; `None` if its command has already ended, with success.
    pid: Option<u32>,
    log: &'a Path,
}

impl Spawn {
    /// Runs `command`. Its words are not parsed, and need not be UTF-8.
    pub(super) fn run(self, options: &HomeOptions, command: Vec<OsString>) -> Result<i32, Failure> {
        let shared = self.agent_options();
        let given = shared.named(&command, "spawn")?;
        let directory = self.directory()?;
        let mut context = context(options)?;
        // This process holds the name until the agent has joined.
        let made_up = match given {
            Some(_) => None,
            None => Some(FolderName::choose(&mut context, &directory)?),
        };
        let name =
            given.or_else(|| made_up.as_ref().map(|made_up| &*made_up.name)).unwrap_or_default();
        let recipes = shared.recipes_for(&command, Some(&directory), &context.home)?;
        if !shared.accepts_text
            && let Some(line) =
                wrap::prospect(&command, Some(&directory), &recipes).startup_notice(name)
        {
            eprint_line(escaped(&line));
        }
        let agent =
            Agent { name, directory, options: shared.to_arguments()?, command, restored: None };
        let Started { pid, log, .. } = agent.start(&mut context)?;
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
            Some(directory) => paths::absolute(directory),
            None => paths::current_directory(),
        };
        let directory = directory
            .map_err(|error| Failure::because(error).hint("or name a directory with --cwd"))?;
        if directory.is_dir() {
            return Ok(directory);
        }
        Err(Failure::failed(format!("there is no directory {}", directory.display())))
    }
}

/// An agent that is started in the background.
pub(super) struct Agent<'a> {
    pub(super) name: &'a str,
    pub(super) directory: PathBuf,
    /// The options of `run`.
    pub(super) options: Vec<OsString>,
    pub(super) command: Vec<OsString>,
    /// For an agent that is restored, the conversation that the command resumes, if it does.
    pub(super) restored: Option<Option<&'a str>>,
}

/// An agent with a started wrapper.
pub(super) struct Starting {
    name: String,
    log: PathBuf,
    log_end: u64,
    wrapper: Detached,
    /// The moment of the monotonic clock when it must have started.
    deadline: u64,
}

/// An agent that was started.
pub(super) struct Started {
    /// The process id of its command; `None` if the command has already ended successfully.
    pub(super) pid: Option<u32>,
    /// The file with its log.
    pub(super) log: PathBuf,
    log_end: u64,
    wrapper: Detached,
}

impl Started {
    /// Fails if the agent of this name ends with an error before this moment of the monotonic
    /// clock.
    pub(super) fn check_until(&mut self, name: &str, deadline: u64) -> Result<(), Failure> {
        while self.pid.is_some() {
            match self.wrapper.exited().map_err(Failure::because)? {
                Some(DONE) => self.pid = None,
                Some(code) => {
                    let ended = Ended::read(&self.log, self.log_end, self.wrapper.pid());
                    return Err(Failure::failed(explain_end(name, code, &ended)));
                }
                None if clock::monotonic_ms() >= deadline => break,
                None => thread::sleep(POLL_INTERVAL),
            }
        }
        Ok(())
    }

    /// Waits for the end of a wrapper that ends. Returns its exit code, which is its command's;
    /// `None` if that takes too long.
    ///
    /// # Errors
    /// If the wrapper did not run its command.
    pub(super) fn end(mut self, name: &str) -> Result<Option<i32>, Failure> {
        let deadline = clock::monotonic_ms() + END_MS;
        while clock::monotonic_ms() < deadline {
            if let Some(code) = self.wrapper.exited().map_err(Failure::because)? {
                let ended = Ended::read(&self.log, self.log_end, self.wrapper.pid());
                return match ended.has_own_end() {
                    true => Ok(Some(code)),
                    false => Err(Failure::new(code, explain_end(name, code, &ended))),
                };
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(None)
    }
}

impl Agent<'_> {
    /// Starts the agent, and the daemon if there is none, and waits until its command runs.
    fn start(self, context: &mut Context) -> Result<Started, Failure> {
        self.begin(context)?.finish(context)
    }

    /// Starts the agent's wrapper, and the daemon if there is none.
    pub(super) fn begin(self, context: &mut Context) -> Result<Starting, Failure> {
        let name = self.name;
        if ControlClient::connect(&context.home.join(RUN_DIRECTORY), name).is_ok() {
            let hint = format!("`agent-relay attach {name}` shows it");
            return Err(Failure::failed(format!("{name} runs already")).hint(hint));
        }
        let endpoint = endpoint_or_start(context)?;
        let (log, log_end) = log_for(&context.home, name)?;
        let mut arguments: Vec<OsString> = vec![AS_AGENT_RELAY.into()];
        arguments.extend(["--home".into(), context.home.clone().into_os_string()]);
        arguments.extend(["--endpoint".into(), endpoint.into()]);
        arguments.extend(["run", "--detached", "-n", name].map(OsString::from));
        arguments.extend(["--cwd".into(), self.directory.into_os_string()]);
        arguments.extend(self.restored.map(|_| "--restored".into()));
        if let Some(conversation) = self.restored.flatten() {
            arguments.extend(["--conversation", conversation].map(OsString::from));
        }
        arguments.extend(self.options);
        arguments.push("--".into());
        arguments.extend(self.command);
        let wrapper =
            process::spawn_detached(&own_program()?, &arguments, &log).map_err(Failure::because)?;
        if wrapper.ends_with_others() {
            eprint_line(format_args!(
                "note: {name} ends together with the program that started it, such as an editor"
            ));
        }
        let deadline = clock::monotonic_ms() + START_MS;
        Ok(Starting { name: name.to_owned(), log, log_end, wrapper, deadline })
    }
}

impl Starting {
    /// Waits until the agent's command runs.
    pub(super) fn finish(mut self, context: &Context) -> Result<Started, Failure> {
        let started = self.await_command(context)?;
        let Self { log, log_end, wrapper, .. } = self;
        Ok(Started { pid: started.map(|state| state.pid), log, log_end, wrapper })
    }

    /// Waits until the wrapper answers. It answers once its command runs. `None` if the command has
    /// ended already, with success.
    fn await_command(&mut self, context: &Context) -> Result<Option<AgentState>, Failure> {
        let Self { name, log, log_end, wrapper, deadline } = self;
        let run_directory = context.home.join(RUN_DIRECTORY);
        let pid = wrapper.pid();
        loop {
            let answer = ControlClient::connect(&run_directory, name)
                .and_then(|client| client.request_state(&Request::State, ANSWER));
            // There may be no answer yet, or an answer of another wrapper with this name.
            if let Some(state) = answer.ok().filter(|state| state.wrapper_pid == pid) {
                return Ok(Some(state));
            }
            if let Some(code) = wrapper.exited().map_err(Failure::because)? {
                if code == DONE {
                    return Ok(None);
                }
                let ended = Ended::read(log, *log_end, pid);
                return Err(Failure::failed(explain_end(name, code, &ended)));
            }
            if clock::monotonic_ms() > *deadline {
                let late = format!("{name} does not answer after {}", duration(START_MS));
                let hint = format!("see its log, {}", log.display());
                return Err(Failure::new(TIMED_OUT, late).hint(hint));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Makes room in the agent's log. Returns its path and length.
pub(super) fn log_for(home: &Path, name: &str) -> Result<(PathBuf, u64), Failure> {
    make_home(home)?;
    let log = log::of_agent(home, name);
    paths::make_private_dir(log.parent().expect("the log is in a directory"))
        .map_err(Failure::because)?;
    let log_end =
        log::make_room(&log).map_err(|error| Failure::of_file("make room in", &log, &error))?;
    Ok((log, log_end))
}

/// Explains why a wrapper ended: by its own error, or by its command's last lines.
fn explain_end(name: &str, code: i32, wrapper: &Ended<'_>) -> String {
    if wrapper.has_own_end() {
        return format!(
            "{name} ended at once, with code {code}{}",
            last_lines_of_log(wrapper.text())
        );
    }
    format!("{name} did not start: {}", wrapper.reason(code))
}
