//! `run`: run a command as an agent. `agent-relay-wrap` is the same command under another name.

use super::{
    agent_options::agent_command,
    attach::Attach,
    context::{context, join_failure},
    failure::{DONE, Failure},
    folder_name::{FolderName, folder_of},
    hook::HOOK,
    identity::{joining_key, key_of},
    input,
    join::endpoint_or_start,
    log,
    print::{Out, eprint_line},
    program::{AS_AGENT_RELAY, own_program},
    restart::Starter,
    spawn::log_for,
    wrapped::{self, RUN_DIRECTORY, last_lines},
};
use crate::wrap::{self, Background, Book, Outcome, WrapError, attach::DetachKey};
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
        note = "Ctrl-\\ detaches from an agent CLI, which runs on (not on Windows): `agent-relay attach NAME` shows it again.",
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
        let attached = !self.detached && wrap::is_attached();
        let front = self.front(&context, &command, &recipes)?;
        let made_up = match given {
            Some(_) => None,
            None => Some(made_up_name(&mut context, &command)?),
        };
        let name =
            given.or_else(|| made_up.as_ref().map(|made_up| &*made_up.name)).unwrap_or_default();
        let key = key_of(&context.home, name, shared.key_file)?;
        let (keys, screen, interrupter) = self.streams().map_err(Failure::because)?;
        let later_log = LaterLog::default();
        let begin_log = begin_log(&context.home, name, &later_log);
        let background = self.background(front.zip(interrupter), begin_log);
        let endpoint = endpoint_or_start(&mut context)?;
        let key = joining_key(key.as_ref(), &Keys::of(&context), &endpoint);
        let starter = Starter::begin(&context, name)?;
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
            directory,
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
            attached,
            keys,
            screen,
            ends_with_input: !self.detached && tty::is_input_piped(),
            requires_control: self.detached,
            background,
            show_notice: |line| eprint_line(escaped(line)),
        };
        let outcome = wrap::run(settings).map_err(explain);
        if let Some(made_up) = &made_up
            && !outcome.as_ref().is_ok_and(|it| it.ended.has_messages)
        {
            // If that fails, the name stays the folder's, as that of any agent does.
            drop(made_up.give_back(&context));
        }
        let outcome = outcome?;
        self.conclude(name, &outcome, attached);
        Ok(outcome.ended.code)
    }

    /// Writes the end of the command to the log, or tells the person.
    fn conclude(&self, name: &str, outcome: &Outcome, attached: bool) {
        if self.detached || outcome.outlived_terminal {
            tracing::info!("{name} {}{}", outcome.ended, last_lines(&outcome.ended));
        } else if !outcome.is_terminal_stuck {
            report(name, &outcome.ended, attached);
        }
    }

    /// Returns the agent that is meant and runs in the background, if the person wants to attach to
    /// it: the named one, or one of this directory.
    fn agent_to_attach(&self, options: &HomeOptions) -> Result<Option<String>, Failure> {
        if self.detached || !wrap::is_attached() {
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

    /// Makes this process the front of a child, which goes on, if the command may leave this
    /// terminal. No other thread may run.
    fn front(
        &self,
        context: &Context,
        command: &[OsString],
        recipes: &Book,
    ) -> Result<Option<Front>, Failure> {
        let obstacle = if !pty::OUTLIVES_TERMINAL {
            "a program of this system ends with its window"
        } else if context.config.on_hangup == OnHangup::End {
            "on_hangup is \"end\" in config.toml"
        } else if wrap::agent_cli(command, recipes).is_none() {
            "the command is no agent CLI"
        } else if self.detached || !wrap::is_attached() {
            "there is no terminal"
        } else {
            return match Front::fork().map_err(Failure::because)? {
                Forked::Child(front) => Ok(Some(front)),
                Forked::Front(code) => process::exit(code),
            };
        };
        match self.detach_key {
            Some(_) => Err(Failure::usage(format!("--detach-key does not apply: {obstacle}"))
                .hint("leave it out")),
            None => Ok(None),
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

type Streams = (Box<dyn Read + Send>, Box<dyn Write + Send>, Option<Interrupter>);

/// The log that begins when an agent leaves its terminal.
type LaterLog = Rc<RefCell<Option<Logging>>>;

/// Begins a log, and returns its file.
type BeginLog = Box<dyn FnOnce() -> Option<File>>;

/// Returns what to do when an agent CLI goes on without its terminal: its log begins, which is also
/// returned for the standard output.
fn begin_log(home: &Path, name: &str, later: &LaterLog) -> BeginLog {
    let (home, name, later) = (home.to_owned(), name.to_owned(), Rc::clone(later));
    Box::new(move || {
        // Nobody could be told of a failure, since the terminal is gone, or about to be left.
        let (log, _) = log_for(&home, &name).ok()?;
        paths::open_private_file(&log).ok()?;
        *later.borrow_mut() = log::begin(Some(&log)).ok();
        File::options().append(true).open(&log).ok()
    })
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

/// The directory in which this process runs.
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
