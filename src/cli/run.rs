//! `run`: run a command as an agent. `agent-relay-wrap` is the same command under another name.

use super::{
    context::{context, join_failure},
    failure::{DONE, Failure},
    folder_name::FolderName,
    hook::HOOK,
    identity::key_of,
    input,
    join::endpoint_or_start,
    log,
    print::{Out, eprint_line},
    program::{AS_AGENT_RELAY, own_program},
    restart::Starter,
    wrapped::{RUN_DIRECTORY, check_name, last_lines},
};
use crate::{
    config::recipes,
    wrap::{self, Book, Prospect, WrapError},
};
use argh::{ArgsInfo, FromArgs};
use client::{self, ClientError, home::HomeOptions};
use platform::tty::{Input, Output};
use protocol::{control::Ended, text::escaped};
use std::{
    env,
    ffi::OsString,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The longest recording that `extract` reads.
const RECORDING_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The argument after `--as-agent-relay` that runs [`console_members`].
pub(super) const CONSOLE_MEMBERS: &str = "console-members";

/// Run a command as an agent, in this terminal.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "run",
    help_triggers("--help"),
    usage = "<agent> [--key-file <file>] [--record <file>] [--inline] [--grid] [--accepts-text] [--brief] [--no-hooks] [--mcp] [--] <command...>",
    example = "agent-relay run Ann -- claude",
    example = "agent-relay run Ann --brief -- codex",
    example = "agent-relay run --name Bob --record bob.bytes bash -i",
    note = "To send, the command prints `->relay:NAME <<<`, a text, and `>>>`. Messages that it receives are typed into it.",
    note = "The exit code is the command's.",
    note = "`agent-relay-wrap extract FILE` prints the messages in a recording."
)]
pub(super) struct Run {
    /// the agent's name, which may also stand before the command
    #[argh(option, short = 'n', arg_name = "agent")]
    name: Option<String>,

    /// the file with the name's key, if it has one; default: keys/NAME in the home
    #[argh(option, arg_name = "file")]
    key_file: Option<String>,

    /// also write the command's output to this file
    #[argh(option, arg_name = "file")]
    record: Option<String>,

    /// also send `->relay:Bob hello` on one line as a message
    #[argh(switch)]
    inline: bool,

    /// read the agent's messages from its screen, not from its transcript
    #[argh(switch)]
    grid: bool,

    /// type messages into an unknown command that reads text; not into programs that it
    /// starts, nor into a shell, an interpreter or a multiplexer
    #[argh(switch)]
    accepts_text: bool,

    /// tell the agent first how to send messages (see `agent-relay brief`), unless the
    /// command is a shell or an interpreter
    #[argh(switch)]
    brief: bool,

    /// give an agent CLI no hooks for this run: messages only reach it typed
    #[argh(switch)]
    no_hooks: bool,

    /// hand the agent's CLI tools to talk to others (MCP), for this run; for those CLIs that
    /// docs/MCP.md names
    #[argh(switch)]
    mcp: bool,

    /// use a name of the folder
    #[argh(switch, hidden_help)]
    made_up_name: bool,

    /// run without a terminal, with a log in the home directory, as `spawn` does
    #[argh(switch, hidden_help)]
    detached: bool,

    /// the directory to run the command in
    #[argh(option, arg_name = "dir", hidden_help)]
    cwd: Option<String>,

    /// the command and its arguments
    #[argh(positional, greedy, arg_name = "command")]
    _command: Vec<String>,
}

impl Run {
    /// Runs `command`. Its words are not parsed, and need not be UTF-8.
    pub(super) fn run(self, options: &HomeOptions, command: Vec<OsString>) -> Result<i32, Failure> {
        let given = named(self.name.as_deref(), self.made_up_name, &command, "run")?;
        let mut context = context(options)?;
        let made_up = match given {
            Some(_) => None,
            None => Some(FolderName::choose(&mut context, &current_directory()?)?),
        };
        let name =
            given.or_else(|| made_up.as_ref().map(|made_up| &*made_up.name)).unwrap_or_default();
        let log = self.detached.then(|| log::of_agent(&context.home, name));
        let _logging = log.map(|log| log::begin(Some(&log))).transpose()?;
        let key = key_of(&context.home, name, self.key_file.as_deref())?;
        let attached = !self.detached && wrap::is_attached();
        let (keys, screen): (Box<dyn Read + Send>, Box<dyn Write + Send>) = match self.detached {
            true => (Box::new(io::empty()), Box::new(io::sink())),
            false => (
                Box::new(Input::new().map_err(Failure::because)?),
                Box::new(Output::new().map_err(Failure::because)?),
            ),
        };
        let endpoint = endpoint_or_start(&mut context)?;
        let starter = Starter::begin(&context, name)?;
        let recipes = recipes::load(&context.home);
        let recipes = recipes.map_err(|error| Failure::failed(error.to_string()))?;
        let directory = self.cwd.as_ref().map(PathBuf::from);
        check_accepts_text(self.accepts_text, &command, directory.as_deref(), &recipes)?;
        check_mcp(self.mcp, &command, &recipes)?;
        let mcp_command = self.mcp.then(|| mcp_command(&context.home)).transpose()?;
        let settings = wrap::Settings {
            recipes,
            member_server: own_command(CONSOLE_MEMBERS)?,
            accepts_text: self.accepts_text,
            name: name.to_owned(),
            key,
            command,
            directory,
            server: context.server(&endpoint),
            when_absent: Some(starter.when_absent(&endpoint)),
            endpoint,
            run_directory: context.home.join(RUN_DIRECTORY),
            record: self.record.as_ref().map(PathBuf::from),
            inline: self.inline,
            grid: self.grid,
            hook_command: if self.no_hooks { None } else { Some(own_command(HOOK)?) },
            mcp_command,
            brief: self.brief,
            attached,
            keys,
            screen,
            requires_control: self.detached,
            show_notice: |line| eprint_line(escaped(line)),
        };
        let ended = wrap::run(settings).map_err(explain)?;
        self.report(name, &ended, attached);
        Ok(ended.code)
    }

    /// Reports the end of the command. The command's last lines are added for a log, which does not
    /// have them, and for a terminal from which they vanished with the alternate screen.
    fn report(&self, name: &str, ended: &Ended, has_terminal: bool) {
        if self.detached {
            tracing::info!("{name} {ended}{}", last_lines(ended));
        } else if ended.code != DONE {
            let lost = if ended.taken_away { last_lines(ended) } else { String::new() };
            eprint_line(format_args!("{name} {ended}{lost}"));
        }
        if has_terminal && ended.has_messages {
            eprint_line(format_args!("`agent-relay history --with {name}` shows what was said"));
        }
    }
}

/// Checks what `run` or `spawn` was given: a name, unless one is to be made up, and a command.
pub(super) fn named<'a>(
    name: Option<&'a str>,
    is_made_up: bool,
    command: &[OsString],
    word: &str,
) -> Result<Option<&'a str>, Failure> {
    let hint = format!("name the agent: {word} NAME -- COMMAND");
    match name {
        _ if command.is_empty() => Err(Failure::usage("no command to run").hint(hint)),
        None if !is_made_up => Err(Failure::usage("the agent has no name").hint(hint)),
        name => name.map_or(Ok(()), check_name).map(|()| name),
    }
}

/// The directory in which this process runs.
fn current_directory() -> Result<PathBuf, Failure> {
    env::current_dir().map_err(Failure::because)
}

/// Refuses `--accepts-text` for every command that the wrapper knows.
pub(super) fn check_accepts_text(
    is_given: bool,
    command: &[OsString],
    directory: Option<&Path>,
    recipes: &Book,
) -> Result<(), Failure> {
    if !is_given {
        return Ok(());
    }
    let word = command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let word = escaped(&word);
    match wrap::prospect(command, directory, recipes) {
        Prospect::Typed => {
            Err(Failure::usage(format!("--accepts-text is not needed for {word}"))
                .hint("leave it out"))
        }
        Prospect::Launches => Err(Failure::usage(format!(
            "--accepts-text does not apply to {word}, which starts another program"
        ))
        .hint("run that program itself")),
        Prospect::Barred(why) => Err(Failure::usage(format!(
            "--accepts-text does not apply to {word}: {}",
            escaped(&why)
        ))),
        Prospect::Unknown(_) | Prospect::NoFile => Ok(()),
    }
}

/// Refuses `--mcp` for every command that cannot be given our MCP server.
pub(super) fn check_mcp(
    is_given: bool,
    command: &[OsString],
    recipes: &Book,
) -> Result<(), Failure> {
    let Some(why) = is_given.then(|| wrap::mcp_obstacle(command, recipes)).flatten() else {
        return Ok(());
    };
    let word = command.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    Err(Failure::usage(format!("--mcp does not apply to {}: {why}", escaped(&word))))
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
