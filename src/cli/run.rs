//! `run`: run a command as an agent. `agent-relay-wrap` is the same command under another name.

use super::{
    agent_options::agent_command,
    attach::{Attach, Show},
    context::{context, join_failure},
    failure::{DONE, FAILED, Failure},
    folder_name::{FolderName, folder_of},
    hook::HOOK,
    identity::{joining_key, key_of},
    input,
    join::endpoint_or_start,
    log,
    print::{Out, eprint_line},
    program::{AS_AGENT_RELAY, own_program},
    restart::Starter,
    spawn::{Agent, log_for},
    wrapped::{self, RUN_DIRECTORY, last_lines},
};
use crate::wrap::{
    self, Background, Book, Outcome, WrapError,
    attach::{DetachKey, Left},
    control::client::{ControlClient, ControlError},
};
use argh::{ArgsInfo, FromArgs};
use client::{
    self, ClientError,
    home::{Context, HomeOptions, Keys, OnHangup},
};
use log::Logging;
use platform::{
    front::{Forked, Front},
    paths, pty,
    shell::quoted,
    tty::{self, Interrupter},
};
use protocol::{control::Ended, text::escaped};
use std::{
    cell::RefCell,
    ffi::OsString,
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process,
    rc::Rc,
};

/// The longest recording that `extract` reads.
const RECORDING_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The argument after `--as-agent-relay` that runs [`console_members`].
pub(super) const CONSOLE_MEMBERS: &str = "console-members";

agent_command! {
    /// Run a command as an agent, in this terminal.
    #[argh(
        subcommand,
        name = "run",
        help_triggers("--help"),
        usage = "[<agent>] [--key-file <file>] [--record <file>] [--detach-key <key>] [--inline] [--grid] [--accepts-text] [--brief] [--no-brief] [--no-hooks] [--mcp] [--topic <pattern...>] [--] <command...>",
        example = "agent-relay run Ann -- claude",
        example = "agent-relay run codex",
        example = "agent-relay run --name Bob --record bob.bytes bash -i",
        note = "Without a name, the agent is named after its directory: run claude.",
        note = "To send, the command prints `->relay:NAME <<<`, a text, and `>>>`. Messages that it receives are typed into it.",
        note = "Ctrl-\\ detaches from an agent CLI, which runs on: `agent-relay attach NAME` shows it again.",
        note = "The exit code is the command's.",
        note = "`agent-relay-wrap extract FILE` prints the messages in a recording."
    )]
    Run {
        /// also write the command's output to this file
        #[argh(option, arg_name = "file")]
        record: Option<String>,

        /// the key that detaches from an agent CLI, which runs on: ctrl- and another key; default:
        /// ctrl-\\
        #[argh(option, arg_name = "key")]
        detach_key: Option<DetachKey>,
    } {
        /// run without a terminal, with a log in the home directory, as `spawn` does
        #[argh(switch, hidden_help)]
        detached: bool,

        /// start the command once a terminal has attached
        #[argh(switch, hidden_help)]
        awaits_terminal: bool,

        /// the directory to run the command in
        #[argh(option, arg_name = "dir", hidden_help)]
        cwd: Option<String>,

        /// start the agent as `restore` does
        #[argh(switch, hidden_help)]
        restored: bool,

        /// the id of the conversation that the command resumes
        #[argh(option, arg_name = "id", hidden_help)]
        conversation: Option<String>,
    }
}

impl Run {
    /// Runs `command`. Its words are not parsed, and need not be UTF-8.
    pub(super) fn run(self, options: &HomeOptions, command: Vec<OsString>) -> Result<i32, Failure> {
        let Some(name) = self.name.as_deref().filter(|_| self.detached) else {
            return match self.agent_to_attach(options)? {
                Some(name) => Attach::to(name).run(options),
                None => self.run_here(options, command),
            };
        };
        let logging = log::begin(Some(&log::of_agent(&options.home()?, name)))?;
        logging.conclude(self.run_here(options, command))
    }

    fn run_here(&self, options: &HomeOptions, command: Vec<OsString>) -> Result<i32, Failure> {
        let shared = self.agent_options();
        let given = shared.named(&command, "run")?;
        let mut context = context(options)?;
        let directory = self.cwd.as_ref().map(PathBuf::from);
        let recipes = shared.recipes_for(&command, directory.as_deref(), &context.home)?;
        let way = self.way(&context, &command, &recipes)?;
        let made_up = match given {
            Some(_) => None,
            None => Some(made_up_name(&mut context, &command)?),
        };
        let name =
            given.or_else(|| made_up.as_ref().map(|made_up| &*made_up.name)).unwrap_or_default();
        let front = match way {
            Way::Here(front) => front,
            Way::Background => {
                let left = self.run_in_background(&mut context, name, command);
                let runs_on = matches!(left, Ok(Left::Detached | Left::Stopped));
                give_back(made_up.as_ref().filter(|_| !runs_on), &context);
                return left.map(|left| conclude_shown(name, &left));
            }
        };
        let outcome = self.run_wrapper(&mut context, name, front, recipes, command);
        let has_messages = outcome.as_ref().is_ok_and(|it| it.ended.has_messages);
        give_back(made_up.as_ref().filter(|_| !has_messages), &context);
        Ok(outcome?.ended.code)
    }

    /// Runs the command in this process, and reports and returns how it ended.
    fn run_wrapper(
        &self,
        context: &mut Context,
        name: &str,
        front: Option<Front>,
        recipes: Book,
        command: Vec<OsString>,
    ) -> Result<Outcome, Failure> {
        let shared = self.agent_options();
        let key = key_of(&context.home, name, shared.key_file)?;
        let (keys, screen, interrupter) = self.streams().map_err(Failure::because)?;
        let later_log = LaterLog::default();
        let begin_log = begin_log(&context.home, name, &later_log);
        let background = self.background(front.zip(interrupter), begin_log);
        let endpoint = endpoint_or_start(context)?;
        let key = joining_key(key.as_ref(), &Keys::of(context), &endpoint);
        let starter = Starter::begin(context, name)?;
        let brief = shared.briefs(&command, &recipes);
        let mcp_command = shared.mcp.then(|| mcp_command(&context.home)).transpose()?;
        let settings = wrap::Settings {
            recipes,
            member_server: own_command(CONSOLE_MEMBERS)?,
            accepts_text: shared.accepts_text,
            name: name.to_owned(),
            key,
            topics: shared.topics.to_vec(),
            command,
            directory: self.cwd.as_ref().map(PathBuf::from),
            server: context.server(&endpoint),
            when_absent: Some(starter.when_absent(&endpoint)),
            endpoint,
            run_directory: context.home.join(RUN_DIRECTORY),
            options: shared.to_texts()?,
            restored: self.restored,
            conversation: self.conversation.clone(),
            home: context.home.clone(),
            title: context.config.title,
            notify: context.config.notify.clone(),
            collisions: context.config.collisions,
            record: self.record.as_ref().map(PathBuf::from),
            inline: shared.inline,
            grid: shared.grid,
            hook_command: if shared.no_hooks { None } else { Some(own_command(HOOK)?) },
            mcp_command,
            brief,
            attached: self.is_attached(),
            keys,
            screen,
            ends_with_input: !self.detached && tty::is_input_piped(),
            requires_control: self.detached,
            awaits_terminal: self.awaits_terminal,
            background,
            show_notice: |line| eprint_line(escaped(line)),
        };
        let outcome = wrap::run(settings).map_err(explain)?;
        self.conclude(name, &outcome);
        Ok(outcome)
    }

    /// Whether this process shows the command in a person's terminal.
    fn is_attached(&self) -> bool {
        !self.detached && wrap::is_attached()
    }

    /// Writes the end of the command to the log, or tells the person.
    fn conclude(&self, name: &str, outcome: &Outcome) {
        if self.detached || outcome.outlived_terminal {
            tracing::info!("{name} {}{}", outcome.ended, last_lines(&outcome.ended));
        } else if !outcome.is_terminal_stuck {
            report(name, &outcome.ended, self.is_attached());
        }
    }

    /// Returns the agent that is meant and runs in the background, if the person wants to attach to
    /// it: the named one, or one of this directory.
    fn agent_to_attach(&self, options: &HomeOptions) -> Result<Option<String>, Failure> {
        if !self.is_attached() {
            return Ok(None);
        }
        let (home, directory) = (options.home()?, current_directory()?);
        let is_meant = |name: &String| match &self.name {
            Some(given) => name.eq_ignore_ascii_case(given),
            None => folder_of(&home, name).is_some_and(|folder| folder == directory),
        };
        let Some(name) = wrapped::in_background(&home).find(is_meant) else { return Ok(None) };
        let question = format!("{} runs in the background; attach to it?", escaped(&name));
        Ok(input::agrees(&question)?.then_some(name))
    }

    /// Returns the way to run the command. This process may become the front of a child, and the
    /// function then returns in the child; no other thread may run.
    fn way(&self, context: &Context, command: &[OsString], recipes: &Book) -> Result<Way, Failure> {
        let obstacle = if context.config.on_hangup == OnHangup::End {
            "on_hangup is \"end\" in config.toml"
        } else if wrap::agent_cli(command, recipes).is_none() {
            "the command is not an agent CLI"
        } else if !self.is_attached() {
            "there is no terminal"
        } else if !pty::OUTLIVES_TERMINAL {
            return Ok(Way::Background);
        } else {
            return match Front::fork().map_err(Failure::because)? {
                Forked::Child(front) => Ok(Way::Here(Some(front))),
                Forked::Front(code) => process::exit(code),
            };
        };
        match self.detach_key {
            Some(_) => Err(Failure::usage(format!("--detach-key does not apply: {obstacle}"))
                .hint("leave it out")),
            None => Ok(Way::Here(None)),
        }
    }

    /// Starts the command as `spawn` does, and shows it in this terminal as `attach` does.
    fn run_in_background(
        &self,
        context: &mut Context,
        name: &str,
        command: Vec<OsString>,
    ) -> Result<Left, Failure> {
        // A command that cannot be run has a separate exit code.
        pty::check(&command, None).map_err(|error| explain(WrapError::Command(error)))?;
        let mut options = self.agent_options().to_arguments()?;
        if let Some(file) = &self.record {
            let file = paths::absolute(file).map_err(Failure::because)?;
            options.extend(["--record".into(), file.into_os_string()]);
        }
        options.push("--awaits-terminal".into());
        let agent =
            Agent { name, directory: current_directory()?, options, command, restored: None };
        let started = agent.begin(context)?.finish(context)?;
        let detach_key = self.detach_key.unwrap_or_default();
        let show = Show { name, drive: true, detach_key, has_notice: false };
        let left = ControlClient::connect(&context.home.join(RUN_DIRECTORY), name)
            .and_then(|wrapper| show.until_left(&wrapper));
        match left {
            Ok(Left::Ended(ended)) => {
                // The name is also free once the wrapper has ended, in whatever way.
                drop(started.end(name));
                Ok(Left::Ended(ended))
            }
            Err(ControlError::Ended | ControlError::NotRunning) => {
                let code = started.end(name)?.unwrap_or(FAILED);
                Ok(Left::Ended(Ended::new(code, "")))
            }
            left => left.map_err(|error| wrapped::explain(name, &error)),
        }
    }

    fn background(
        &self,
        leaving: Option<(Front, Interrupter)>,
        begin_log: BeginLog,
    ) -> Option<Background> {
        let (front, keys) = leaving?;
        let detach_key = self.detach_key.unwrap_or_default();
        Some(Background { detach_key, front, keys, begin_log })
    }

    /// The person's keys and screen, and the way to end the reading of keys.
    fn streams(&self) -> io::Result<Streams> {
        if self.detached {
            return Ok((Box::new(io::empty()), Box::new(io::sink()), None));
        }
        let keys = tty::Input::new()?;
        let interrupter = keys.interrupter();
        Ok((Box::new(keys), Box::new(tty::Output::new()?), Some(interrupter)))
    }
}

/// A way to run a command.
enum Way {
    /// In this process. With a front, it can continue without its terminal.
    Here(Option<Front>),
    /// In the background, and this process shows it.
    Background,
}

type Streams = (Box<dyn Read + Send>, Box<dyn Write + Send>, Option<Interrupter>);

/// The log that begins when an agent leaves its terminal.
type LaterLog = Rc<RefCell<Option<Logging>>>;

/// Begins a log, and returns its file.
type BeginLog = Box<dyn FnOnce() -> Option<File>>;

/// Returns the function for when an agent CLI continues without its terminal: it begins the log,
/// and returns it for use as standard output.
fn begin_log(home: &Path, name: &str, later: &LaterLog) -> BeginLog {
    let (home, name, later) = (home.to_owned(), name.to_owned(), Rc::clone(later));
    Box::new(move || {
        // A failure could not be reported, since the terminal is gone, or about to be left.
        let (log, _) = log_for(&home, &name).ok()?;
        paths::open_private_file(&log).ok()?;
        *later.borrow_mut() = log::begin(Some(&log)).ok();
        File::options().append(true).open(&log).ok()
    })
}

/// Reports the end of showing an agent in the background. Returns the exit code.
fn conclude_shown(name: &str, left: &Left) -> i32 {
    match left {
        Left::Detached => DONE,
        Left::Stopped => FAILED,
        Left::Ended(ended) => {
            report(name, ended, true);
            ended.code
        }
    }
}

/// Reports the end of the command to the person at its terminal. The command's last lines are added
/// if they vanished with the alternate screen.
fn report(name: &str, ended: &Ended, has_terminal: bool) {
    if ended.code != DONE {
        let lost = if ended.taken_away { last_lines(ended) } else { String::new() };
        eprint_line(format_args!("{name} {ended}{lost}"));
    }
    if has_terminal && ended.has_messages {
        eprint_line(format_args!("`agent-relay history --with {name}` shows what was said"));
    }
}

/// Releases a made-up name that nothing uses. If that fails, the name stays reserved for the
/// folder, like any agent's.
fn give_back(made_up: Option<&FolderName>, context: &Context) {
    drop(made_up.map(|made_up| made_up.give_back(context)));
}

/// Makes up a name for the agent of a command. Tells the person if the command's own arguments have
/// one that may be meant for the agent.
fn made_up_name(context: &mut Context, command: &[OsString]) -> Result<FolderName, Failure> {
    let made_up = FolderName::choose(context, &current_directory()?)?;
    if command.iter().skip(1).any(|word| word == "-n" || word == "--name") {
        let program = escaped(&quoted(&command[0]));
        eprint_line(format_args!(
            "note: the name goes to {program}; to name the agent: agent-relay -n NAME {program}"
        ));
    }
    Ok(made_up)
}

/// This process's working directory.
fn current_directory() -> Result<PathBuf, Failure> {
    paths::current_directory().map_err(Failure::because)
}

/// The command line of our MCP server.
fn mcp_command(home: &Path) -> Result<Vec<OsString>, Failure> {
    let own = own_program()?.into_os_string();
    Ok(vec![own, AS_AGENT_RELAY.into(), "--home".into(), home.into(), "mcp".into()])
}

/// The command line that runs a part of this program.
pub(super) fn own_command(part: &str) -> Result<Vec<OsString>, Failure> {
    let own = own_program()?.into_os_string();
    Ok(vec![own, AS_AGENT_RELAY.into(), part.into()])
}

/// Serves the wrapper on Windows: lists the processes of its console, from inside that console.
pub(super) fn console_members() -> Result<i32, Failure> {
    wrap::serve_console_members().map_err(Failure::because)?;
    Ok(DONE)
}

fn explain(error: WrapError) -> Failure {
    let code = error.exit_code();
    match error {
        WrapError::Join { name, why: ClientError::Ended(ended) } => {
            join_failure(&client::Settings::agent("", name), ClientError::Ended(ended))
        }
        error => Failure::new(code, escaped(&error.to_string())),
    }
}

/// Print the messages in a recording, one JSON object a line. Problems go to standard error.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    help_triggers("--help"),
    example = "agent-relay-wrap extract --cols 100 --rows 30 bob.bytes",
    note = "Without a file, reads standard input."
)]
pub(super) struct Extract {
    /// the columns of the recorded terminal; default: 120
    #[argh(option, arg_name = "size", default = "120")]
    cols: u16,

    /// the rows of the recorded terminal; default: 40
    #[argh(option, arg_name = "size", default = "40")]
    rows: u16,

    /// the blanks before each line of the agent's text; default: 0
    #[argh(option, arg_name = "size", default = "0")]
    margin: u16,

    /// the recording
    #[argh(positional, arg_name = "file")]
    file: Option<String>,
}

impl Extract {
    pub(super) fn run(self) -> Result<i32, Failure> {
        if self.cols == 0 || self.rows == 0 {
            return Err(Failure::usage("a terminal has at least one column and one row"));
        }
        let bytes = input::read(self.file.as_deref(), RECORDING_BYTES_MAX)?;
        let size = (self.cols.into(), self.rows.into());
        let (messages, problems) = wrap::extract(&bytes, size, self.margin.into());
        for problem in problems {
            eprint_line(escaped(&problem));
        }
        let mut out = Out::new();
        for message in messages {
            out.line(message)?;
        }
        Ok(DONE)
    }
}
