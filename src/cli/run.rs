//! `run`: wrap an agent. `agent-relay-wrap` is the same under another name.

use super::{
    AS_AGENT_RELAY, DONE, Failure, argv,
    identity::key_of,
    input,
    launch::{join_or_start, own_program},
    log,
    place::{Asked, Place, refused},
    print::{Out, foreign_line, say},
    restart::Starter,
    wrapped::check_name,
};
use crate::{
    client::{self, ClientError},
    config::recipes,
    protocol::control::Ended,
    wrap::{self, Book, Prospect, WrapError},
};
use argh::{ArgsInfo, FromArgs};
use platform::terminal::{Input, Output};
use std::{
    ffi::OsString,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The longest recording that `extract` reads.
const RECORDING_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The directory in the home for what lasts as long as a wrapper.
pub(super) const RUN: &str = "run";

/// The part of `run` that serves [`wrap::serve_console_members`].
pub(super) const CONSOLE_MEMBERS: &str = "console-members";

/// What stands before each of a command's last lines.
pub(super) const LAST_LINE: &str = "\n    | ";

/// Run a command as an agent: what it says to others is sent, what others say is typed into it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "run",
    help_triggers("--help"),
    usage = "-n <name> [--key-file <path>] [--record <file>] [--inline] [--grid] [--accepts-text] [--brief] [--] <command> [<argument>...]",
    example = "agent-relay run -n Ann -- claude",
    example = "agent-relay run -n Ann --brief -- codex",
    example = "agent-relay run --name Bob --record bob.bytes bash -i",
    note = "The command prints `->relay:Ann <<<`, its text, and `>>>` to send. Exits with its exit code.",
    note = "`agent-relay-wrap extract FILE` reads a recording."
)]
pub(super) struct Run {
    /// the agent's name
    #[argh(option, short = 'n', from_str_fn(argv::text))]
    name: String,

    /// where the key is of the name, if it has one; keys/NAME in the home where absent
    #[argh(option, arg_name = "path", from_str_fn(argv::text))]
    key_file: Option<String>,

    /// write what the command prints to this file, too
    #[argh(option, arg_name = "file", from_str_fn(argv::text))]
    record: Option<String>,

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

    /// without a terminal and with a log in the home, as `spawn` starts it
    #[argh(switch, hidden_help)]
    detached: bool,

    /// where the command runs
    #[argh(option, hidden_help, from_str_fn(argv::text))]
    cwd: Option<String>,
}

impl Run {
    pub(super) fn run(self, asked: &Asked, command: Vec<OsString>) -> Result<i32, Failure> {
        check_name(&self.name)?;
        if command.is_empty() {
            return Err(Failure::usage("no command to run: agent-relay run -n NAME -- COMMAND"));
        }
        let mut place = asked.place()?;
        if self.detached {
            log::begin(Some(&log::of_agent(&place.home, &self.name)))?;
        }
        let key = key_of(&place.home, &self.name, self.key_file.as_deref())?;
        let attached = !self.detached && wrap::is_attached();
        let (keys, screen): (Box<dyn Read + Send>, Box<dyn Write + Send>) = match self.detached {
            true => (Box::new(io::empty()), Box::new(io::sink())),
            false => (
                Box::new(Input::new().map_err(Failure::because)?),
                Box::new(Output::new().map_err(Failure::because)?),
            ),
        };
        let endpoint = endpoint(&mut place)?;
        let starter = Starter::begin(&place, &self.name)?;
        let recipes = recipes::load(&place.home);
        let recipes = recipes.map_err(|error| Failure::failed(error.to_string()))?;
        let directory = self.cwd.as_ref().map(PathBuf::from);
        check_accepts_text(self.accepts_text, &command, directory.as_deref(), &recipes)?;
        let settings = wrap::Settings {
            recipes,
            member_server: member_server()?,
            accepts_text: self.accepts_text,
            name: self.name.clone(),
            key,
            command,
            directory,
            server: place.server(&endpoint),
            when_absent: Some(starter.when_absent(&endpoint)),
            endpoint,
            run_directory: place.home.join(RUN),
            record: self.record.as_ref().map(PathBuf::from),
            inline: self.inline,
            grid: self.grid,
            brief: self.brief,
            attached,
            keys,
            screen,
            alone: self.detached,
            say: |line| say(foreign_line(line)),
        };
        let ended = wrap::run(settings).map_err(explain)?;
        self.report(&ended);
        Ok(ended.code)
    }

    /// Who sits at the terminal sees the last lines, unless they stood on a full screen; a log does not.
    fn report(&self, ended: &Ended) {
        let name = &self.name;
        if self.detached {
            tracing::info!("{name} {ended}{}", last_lines(ended));
        } else if ended.code != DONE {
            let unseen = if ended.taken_away { last_lines(ended) } else { String::new() };
            say(format_args!("{name} {ended}{unseen}"));
        }
    }
}

/// `--accepts-text` is for programs of which nothing is known.
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
    let word = foreign_line(&word);
    match wrap::prospect(command, directory, recipes) {
        Prospect::Typed => {
            Err(Failure::usage(format!("--accepts-text is not needed for {word}: run it without")))
        }
        Prospect::Launches => Err(Failure::usage(format!(
            "--accepts-text can't be given for {word}, which starts another program: name that one"
        ))),
        Prospect::Barred(why) => Err(Failure::usage(format!(
            "--accepts-text can't be given for {word}: {}",
            foreign_line(&why)
        ))),
        Prospect::Unknown(_) | Prospect::NoFile => Ok(()),
    }
}

/// What looks at a console from inside, where a system wants that.
fn member_server() -> Result<Vec<OsString>, Failure> {
    let own = own_program()?.into_os_string();
    Ok(vec![own, AS_AGENT_RELAY.into(), CONSOLE_MEMBERS.into()])
}

/// That part.
pub(super) fn console_members() -> Result<i32, Failure> {
    wrap::serve_console_members().map_err(Failure::because)?;
    Ok(DONE)
}

/// What stood last on the screen of a command that failed, each line indented on one of its own.
pub(super) fn last_lines(ended: &Ended) -> String {
    if ended.code == DONE || ended.last_lines.is_empty() {
        return String::new();
    }
    let mut text = "; the last lines on its screen:".to_owned();
    for line in &ended.last_lines {
        text.push_str(LAST_LINE);
        text.push_str(&foreign_line(line));
    }
    text
}

/// Where the daemon is, started if there is none.
fn endpoint(place: &mut Place) -> Result<String, Failure> {
    let guest = |endpoint: &str| client::Settings::guest(endpoint);
    Ok(join_or_start(place, &guest)?.endpoint().to_owned())
}

fn explain(error: WrapError) -> Failure {
    let code = error.exit_code();
    match error {
        WrapError::Join { name, why: ClientError::Ended(ended) } => {
            refused(&client::Settings::agent("", name), ClientError::Ended(ended))
        }
        error => Failure::new(code, foreign_line(&error.to_string())),
    }
}

/// Read a recording and print the messages in it, one JSON object a line; problems go to standard
/// error.
#[derive(Debug, FromArgs)]
#[argh(
    help_triggers("--help"),
    example = "agent-relay-wrap extract --cols 100 --rows 30 bob.bytes",
    note = "Reads standard input without a file."
)]
struct Extract {
    /// columns of the terminal that was recorded; 120 where absent
    #[argh(option, default = "120")]
    cols: u16,

    /// its rows; 40 where absent
    #[argh(option, default = "40")]
    rows: u16,

    /// blanks that the program leaves in front of its agent's words, as a recipe says; none where absent
    #[argh(option, default = "0")]
    margin: u8,

    /// the recording
    #[argh(positional, from_str_fn(argv::text))]
    file: Option<String>,
}

impl Extract {
    fn run(self) -> Result<i32, Failure> {
        if self.cols == 0 || self.rows == 0 {
            return Err(Failure::usage("a terminal has at least one column and one row"));
        }
        let bytes = input::read(self.file.as_deref(), RECORDING_BYTES_MAX)?;
        let size = (self.cols.into(), self.rows.into());
        let (messages, problems) = wrap::extract(&bytes, size, self.margin.into());
        for problem in problems {
            say(foreign_line(&problem));
        }
        let mut out = Out::new();
        for message in messages {
            out.line(message)?;
        }
        Ok(DONE)
    }
}

/// `agent-relay-wrap`, with the arguments after its name.
pub(super) fn agent_relay_wrap(arguments: impl Iterator<Item = OsString>) -> Result<i32, Failure> {
    const PROGRAM: &str = "agent-relay-wrap";
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == "extract").is_some() {
        let words = argv::plain(Vec::new(), arguments)?;
        let own: Vec<_> = words.own.iter().map(String::as_str).collect();
        let extract = Extract::from_args(&[PROGRAM, "extract"], &own);
        return extract
            .map_err(|exit| Failure::early(exit, "agent-relay-wrap extract --help"))?
            .run();
    }
    let wants_help = arguments.peek().is_some_and(|first| first == "help");
    let words = argv::wrapped(Vec::new(), 0, arguments)?;
    let mut own: Vec<_> = words.own.iter().map(String::as_str).collect();
    if wants_help {
        own = vec!["--help"];
    }
    let run = Run::from_args(&[PROGRAM], &own);
    run.map_err(|exit| Failure::early(exit, "agent-relay-wrap --help"))?
        .run(&Asked::default(), words.command)
}
