//! The wrapper: a command in a pseudo-terminal between a person and the relay.
//!
//! [`run`] passes everything through, in both directions and unchanged, and drives a
//! [`Bridge`](crate::bridge::Bridge) beside it. What each thread does is in `threads`, what they are
//! driven by in `driver`. A person comes to one wrapper by its own endpoint: `visits` and `visitors` are
//! the wrapper's side of it, [`visit`] and [`attach`] the person's.

pub mod attach;
mod driver;
mod foreground;
mod key_file;
mod mail;
mod questions;
mod sent;
mod threads;
mod transcripts;
mod version;
pub mod visit;
mod visitors;
mod visits;

pub use crate::bridge::{brief, recipe::Book};
use crate::{
    bridge::{
        self, OutgoingMessage, extract::ScreenExtractor, keyboard::Reader, obstacle::Obstacle,
        recipe::Recipe,
    },
    client::{self, Client, ClientError, WhenAbsent},
    protocol::{
        control::Ended,
        name::{Name, NameError},
        payload::Capabilities,
        secret::Secret,
    },
};
use driver::{Beside, Driver, Signals};
use foreground::{Foreground, Wrapped};
use key_file::KeyFile;
pub use platform::foreground::serve_console_members;
use platform::{
    clock,
    peer::User,
    process,
    pty::{self, Pty, Size},
    terminal::{self, RawMode, Standard},
};
use std::{
    env,
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};
use transcripts::Follower;
use version::version_of;
use visitors::Visitors;
use visits::Door;

/// The size of a terminal that nobody looks at.
const SIZE_UNSEEN: Size = Size { rows: 40, cols: 120 };

/// Deliveries that the daemon may have on the way. One is typed at a time, and the rest waits better where it
/// outlives this process; but what is urgent can go first only among those that are here.
const INFLIGHT_MAX: u64 = 256;

/// After ten attempts that the daemon answers with an ERROR, and after one that it answers with
/// NAME_IN_USE, the next ones begin after this time.
const NEXT_CYCLE_MS: u64 = 30_000;

/// The word by which an executable of ours is an agent, for the demonstration, and nothing that
/// wraps one.
pub const DEMO_AGENT: &str = "demo-agent";

/// What is wrapped, and how.
pub struct Settings {
    /// The agent's name.
    pub name: String,
    /// What proves it, where it has a key.
    pub key: Option<Secret>,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Where it runs; in this process's directory where absent.
    pub directory: Option<PathBuf>,
    /// The daemon's address.
    pub endpoint: String,
    /// Who may run it beside this user, the system and administrators.
    pub server: Option<User>,
    /// Called when nobody listens there any more.
    pub when_absent: Option<WhenAbsent>,
    /// Where the key lies meanwhile with which the agent's own commands speak in its name.
    pub run_directory: PathBuf,
    /// Where the command's output is written to as well.
    pub record: Option<PathBuf>,
    /// How programs take text.
    pub recipes: Book,
    /// `->relay:Bob hello` counts, too.
    pub inline: bool,
    /// What the agent says is read off its screen, also where its program writes a transcript.
    pub grid: bool,
    /// The file that is wrapped reads text: what others say is typed into it, though nothing is
    /// known of it.
    pub accepts_text: bool,
    /// A program and its arguments that call [`serve_console_members`], for systems that want that.
    pub member_server: Vec<OsString>,
    /// The agent is told how to speak to others, before anything else.
    pub brief: bool,
    /// Standard input and output are a person's terminal: see [`is_attached`].
    pub attached: bool,
    /// What the person types.
    pub keys: Box<dyn Read + Send>,
    /// What the person sees.
    pub screen: Box<dyn Write + Send>,
    /// Nobody can come to it but by its own endpoint, so that it doesn't run without.
    pub alone: bool,
    /// Tells the person something before the command begins.
    pub say: fn(&str),
}

/// Whether standard input and output are a person's terminal: then it is made raw, its size counts, and
/// it answers what the command asks a terminal.
#[must_use]
pub fn is_attached() -> bool {
    terminal::is_terminal(Standard::Input) && terminal::is_terminal(Standard::Output)
}

/// Whether others' messages can be typed into a command that is about to be wrapped, as far as its
/// file says; and if not, why.
pub enum Prospect {
    /// They are.
    Typed,
    /// They are not, whatever is said of it.
    Barred(String),
    /// They are not, unless it is said to read text.
    Unknown(String),
    /// That depends on the program that it starts.
    Launches,
    /// Its file is not found.
    NoFile,
}

impl Prospect {
    /// What its person is told before it starts.
    #[must_use]
    pub fn notice(&self, name: &str) -> Option<String> {
        match self {
            Self::Barred(why) => Some(format!("messages to {name} will wait: {why}")),
            Self::Unknown(why) => {
                Some(format!("messages to {name} will wait unless it starts an agent CLI: {why}"))
            }
            Self::Typed | Self::Launches | Self::NoFile => None,
        }
    }
}

/// What becomes of others' messages in front of this command.
#[must_use]
pub fn prospect(command: &[OsString], directory: Option<&Path>, recipes: &Book) -> Prospect {
    Wrapped::of(command, directory).map_or(Prospect::NoFile, |it| prospect_of(&it, recipes))
}

fn prospect_of(wrapped: &Wrapped, recipes: &Book) -> Prospect {
    match wrapped.reader(recipes) {
        Reader::Agent(_) | Reader::Shell | Reader::Accepted | Reader::Unseen => Prospect::Typed,
        Reader::Barred(..) if wrapped.may_launch() => Prospect::Launches,
        Reader::Barred(Obstacle::Unaccepted | Obstacle::OtherProgram, name)
            if wrapped.is_inline() =>
        {
            Prospect::Barred(Obstacle::Unaccepted.reason(name.as_deref()))
        }
        Reader::Barred(why @ Obstacle::Unaccepted, name) => {
            Prospect::Unknown(why.words("", name.as_deref()))
        }
        Reader::Barred(why, name) => Prospect::Barred(why.reason(name.as_deref())),
    }
}

/// Runs the command until it ends, and says how it did.
///
/// # Errors
/// Only before the command has begun; from then on its end is the result.
pub fn run(settings: Settings) -> Result<Ended, WrapError> {
    let name = Name::parse(&settings.name)
        .map_err(|why| WrapError::Name { name: settings.name.clone(), why })?;
    // First, since the name of who has joined is known from then on.
    pty::check(&settings.command, settings.directory.as_deref()).map_err(WrapError::Command)?;
    let companion_key = random_key()?;
    let client = join(&settings, &name, companion_key.clone())?;
    // Only now: the file of a wrapper that has the name stays as it is.
    let key_file = KeyFile::make(&settings.run_directory, &name, &companion_key)
        .map_err(WrapError::CompanionKey)?;
    let door = open_door(&settings, &name)?;
    let (ended, visitors) = run_joined(settings, client, &key_file, door)?;
    drop(key_file);
    visitors.close();
    Ok(ended)
}

/// Without an endpoint of its own, an agent runs as well; nobody can attach to it.
fn open_door(settings: &Settings, name: &Name) -> Result<Option<Door>, WrapError> {
    match Door::open(&settings.run_directory, name) {
        Ok(door) => Ok(Some(door)),
        Err(why) if settings.alone => Err(WrapError::Door(why)),
        Err(why) => {
            (settings.say)(&format!("attach, hold, release and stop won't find {name}: {why}"));
            Ok(None)
        }
    }
}

fn random_key() -> Result<Secret, WrapError> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|error| WrapError::Terminal(io::Error::other(error)))?;
    Ok(Secret::from_random(bits))
}

fn join(settings: &Settings, name: &Name, companion_key: Secret) -> Result<Client, WrapError> {
    let agent = client::Settings::agent(&settings.endpoint, name.as_str());
    let settings = client::Settings {
        server: settings.server.clone(),
        key: settings.key.clone(),
        companion_key: Some(companion_key),
        capabilities: Capabilities {
            max_inflight: INFLIGHT_MAX,
            reports: true,
            ..agent.capabilities
        },
        retry_cycle_after_ms: Some(NEXT_CYCLE_MS),
        local: true,
        when_absent: settings.when_absent.clone(),
        ..agent
    };
    Client::join(settings).map_err(|why| WrapError::Join { name: name.to_string(), why })
}

/// Runs the command as the agent that has joined already.
fn run_joined(
    settings: Settings,
    client: Client,
    key_file: &KeyFile,
    door: Option<Door>,
) -> Result<(Ended, Visitors), WrapError> {
    let record = settings.record.map(create).transpose()?;
    let size = terminal::size().filter(|_| settings.attached).unwrap_or(SIZE_UNSEEN);
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| WrapError::Terminal(io::Error::other(error)))?;
    let words: Vec<_> =
        settings.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let version = settings.command.first().and_then(|program| version_of(program));
    let recipe = settings.recipes.choose(&words, process::SYSTEM, version.as_ref());
    tracing::info!("the recipe is {}", recipe.name);
    let transcript = recipe.transcript;
    let bridge = bridge::Settings {
        recipe,
        transcript: transcript.is_some(),
        grid: settings.grid,
        attached: settings.attached,
        columns: size.cols.into(),
        rows: size.rows.into(),
        inline: settings.inline,
        brief: settings.brief.then(|| brief::first_words(client.name())),
        seed,
    };
    let directory = settings.directory.as_deref();
    let wrapped = Wrapped::of(&settings.command, directory);
    // Whoever started it without a terminal has been told.
    if !settings.accepts_text
        && !settings.alone
        && let Some(wrapped) = &wrapped
        && let Some(line) = prospect_of(wrapped, &settings.recipes).notice(client.name())
    {
        (settings.say)(&line);
    }
    let signals = Signals::listen();
    let raw = settings.attached.then(RawMode::enter).transpose().map_err(WrapError::Terminal)?;
    let own = own_variables(client.name(), &settings.endpoint, key_file.path());
    let arguments = arguments(&bridge.recipe, &own);
    let env = environment(&bridge.recipe, own, !arguments.is_empty(), settings.attached);
    let mut command = settings.command;
    let behind_name = 1.min(command.len());
    command.splice(behind_name..behind_name, arguments);
    let since_ms = clock::unix_ms();
    let directory = settings.directory.as_deref();
    let wrapped = wrapped.and_then(|wrapped| wrapped.file);
    let pty = Pty::spawn(&command, &env, directory, size).map_err(WrapError::Command)?;
    let (member_server, accepts) = (settings.member_server, settings.accepts_text);
    let foreground = Foreground::new(&pty, member_server, settings.recipes, wrapped, accepts);
    let mut screen = settings.screen;
    if settings.attached && pty::BEGINS_AT_HOME {
        let cleared = screen.write_all(cleared(size.rows).as_bytes());
        // Who is to show what comes next says so as well.
        drop(cleared.inspect_err(|error| tracing::debug!("the terminal is gone: {error}")));
    }
    let ends = threads::Ends { keys: settings.keys, screen, record };
    let follow = |format| Follower::start(format, pty.pid(), directory, since_ms);
    let follower = transcript.map(follow).transpose().map_err(WrapError::Terminal)?;
    let visitors = Visitors::expect(door, size, !settings.attached).map_err(WrapError::Terminal)?;
    let beside = Beside { visitors, command: words, follower, foreground };
    let driver = Driver::start(pty, ends, &signals, client, &bridge, beside);
    let driver = driver.map_err(WrapError::Terminal)?;
    let ended = driver.run();
    drop(raw);
    Ok(ended)
}

/// What leaves a screen empty, with the cursor at home. What stood there can be scrolled back to.
fn cleared(rows: u16) -> String {
    format!("{}\x1b[H\x1b[J", "\r\n".repeat(rows.into()))
}

fn create(path: PathBuf) -> Result<File, WrapError> {
    File::create(&path).map_err(|why| WrapError::Record { path, why })
}

/// What a command of the agent's has to know to speak in its name.
fn own_variables(name: &str, endpoint: &str, key_file: &Path) -> [(&'static str, OsString); 3] {
    [
        ("AGENT_RELAY_AGENT", name.into()),
        ("AGENT_RELAY_ENDPOINT", endpoint.into()),
        ("AGENT_RELAY_KEY_FILE", key_file.into()),
    ]
}

/// What the command gets behind its name: none of it where that can't be written down as text.
fn arguments(recipe: &Recipe, own: &[(&str, OsString)]) -> Vec<OsString> {
    let texts: Option<Vec<_>> =
        own.iter().map(|(name, value)| Some((*name, value.to_str()?))).collect();
    let arguments = texts.map(|texts| recipe.arguments(&texts)).unwrap_or_default();
    arguments.into_iter().map(OsString::from).collect()
}

/// What the command finds in its environment; not what it is told by an argument, since what it starts for
/// others, too, would speak in its name there.
fn environment(
    recipe: &Recipe,
    own: [(&'static str, OsString); 3],
    has_arguments: bool,
    attached: bool,
) -> Vec<(OsString, Option<OsString>)> {
    let is_told = |name: &str| has_arguments && recipe.has_argument_for(name);
    let mut env: Vec<(OsString, Option<OsString>)> = own
        .into_iter()
        .map(|(name, value)| (name.into(), Some(value).filter(|_| !is_told(name))))
        .collect();
    let asked = recipe.environment.iter().filter(|(name, _)| env::var_os(name).is_none());
    env.extend(asked.map(|(name, value)| (name.into(), Some(value.into()))));
    if !attached {
        // What surrounds us says nothing about the terminal that the command has.
        env.push(("TERM".into(), Some("xterm-256color".into())));
        env.extend(["COLUMNS", "LINES"].map(|name| (name.into(), None)));
    }
    env
}

/// Reads a recording as [`run`] would have read it live: a line of JSON for each message, and a
/// sentence for each that is none. `margin` is the recipe's.
#[must_use]
pub fn extract(
    bytes: &[u8],
    (columns, rows): (usize, usize),
    margin: usize,
) -> (Vec<String>, Vec<String>) {
    let mut extractor = ScreenExtractor::offline(columns, rows);
    extractor.skip_margin(margin);
    let (messages, problems) = extractor.read_recording(bytes);
    let lines = messages.into_iter().map(json).collect();
    (lines, problems.into_iter().map(|problem| problem.sentence).collect())
}

fn json(message: OutgoingMessage) -> String {
    let mut line = serde_json::Map::new();
    let all = [
        ("to", Some(message.to)),
        ("body", Some(message.body)),
        ("topic", message.topic),
        ("thread", message.thread),
        ("reply", message.reply_to),
    ];
    for (key, value) in all {
        if let Some(value) = value {
            line.insert(key.to_owned(), value.into());
        }
    }
    serde_json::Value::Object(line).to_string()
}

/// Why the command was not run.
#[derive(Debug)]
pub enum WrapError {
    /// No agent can have this name.
    Name {
        /// The name.
        name: String,
        /// The rule that it breaks.
        why: NameError,
    },
    /// The daemon can't be reached, or said no.
    Join {
        /// As whom.
        name: String,
        /// What was said.
        why: ClientError,
    },
    /// The key of the agent's commands can't be put anywhere.
    CompanionKey(io::Error),
    /// Nobody could come to it.
    Door(io::Error),
    /// The recording can't be written.
    Record {
        /// Where.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// There is no such command, or it can't be run.
    Command(io::Error),
    /// The terminal, or what belongs to it, is not to be had.
    Terminal(io::Error),
}

impl WrapError {
    /// The exit code that shells have for it.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Name { .. } => 2,
            Self::Command(error) if error.kind() == io::ErrorKind::NotFound => 127,
            Self::Command(_) => 126,
            Self::Join { .. }
            | Self::CompanionKey(_)
            | Self::Door(_)
            | Self::Record { .. }
            | Self::Terminal(_) => 1,
        }
    }
}

impl fmt::Display for WrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name, why } => write!(f, "no agent can be called {name:?}: {why}"),
            Self::Join { name, why } => write!(f, "{name} can't join the relay: {why}"),
            Self::Record { path, why } => {
                write!(f, "the recording {} can't be written: {why}", path.display())
            }
            Self::Door(why) => write!(f, "nobody could attach to it or stop it: {why}"),
            Self::CompanionKey(why) | Self::Command(why) | Self::Terminal(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for WrapError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::screen::{Cursor, Row, Screen, ScreenObserver};

    #[derive(Default)]
    struct Scrolled(Vec<String>);

    impl ScreenObserver for Scrolled {
        fn row_scrolled_off(&mut self, row: &Row) {
            self.0.push(row.text.clone());
        }
    }

    #[test]
    fn a_cleared_screen_is_empty_and_what_stood_there_scrolled_off() {
        for (shown, scrolled) in [
            ("one\r\ntwo\r\nthree\r\n$ run", &["one", "two", "three", "$ run"][..]),
            ("$ run", &["$ run"]),
            // Below the cursor nothing that counts stands.
            ("\x1b[4;1Hold\x1b[1;1H$ run", &["$ run"]),
        ] {
            let (mut screen, mut watch) = (Screen::new(20, 4), Scrolled::default());
            screen.feed(shown.as_bytes(), &mut watch);
            screen.feed(cleared(4).as_bytes(), &mut watch);
            assert_eq!(screen.text().trim(), "");
            assert_eq!(screen.cursor(), Cursor { row: 0, column: 0, visible: true });
            assert!(
                watch
                    .0
                    .starts_with(&scrolled.iter().map(|row| row.to_string()).collect::<Vec<_>>())
            );
        }
    }
}
