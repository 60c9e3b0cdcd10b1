//! The wrapper: a command in a pseudo-terminal between a person and the relay.
//!
//! [`run`] passes all bytes through unchanged, in both directions, and drives a
//! [`TerminalSide`](terminal::TerminalSide) with it: `threads` has the threads, `driver` the one
//! that owns the terminal side. [`control`] is the wrapper's own endpoint for a person's commands,
//! and [`attach`] the command that shows the agent in another terminal.
//!
//! Before the start, `arming` gives an agent CLI its hooks, and `handover` our MCP server. While it
//! runs, `transcripts` reads what the CLI writes, `waker` wakes it over a half-typed line, and
//! `edits` knows the files that agents have edited. `agent_record` and `teams` are what it takes to
//! start an agent or a team again.
//!
//! The wrapper decides nothing about text: what is a message, and when one may be typed, is in
//! `terminal`.

mod about;
pub(crate) mod agent_record;
mod arming;
pub(crate) mod attach;
mod background;
pub(crate) mod control;
mod driver;
mod edits;
mod end_of_input;
mod first_terminal;
mod focus;
mod foreground;
mod handover;
mod in_flight;
mod inner_mark;
mod key_file;
mod last_output;
mod message;
mod notifier;
mod paste;
mod questions;
mod records;
mod run_folder;
mod signals;
pub(crate) mod teams;
mod threads;
mod transcripts;
mod version;
mod waker;

pub(crate) use about::agent_cli;
use agent_record::{AgentRecord, RecordKeeper};
pub(crate) use background::{Background, farewell};
use client::{
    Client, ClientError, WhenAbsent,
    home::{self, Notify},
};
use control::{clients::ControlClients, server::ControlEndpoint};
use driver::{Driver, Finished, HooksGiven, Parts};
use end_of_input::EndOfInput;
use first_terminal::await_terminal;
use foreground::{Foreground, Wrapped};
use inner_mark::{InnerMarkFinder, InnerMarks};
use key_file::KeyFile;
use notifier::Notifier;
pub(crate) use platform::foreground::serve_console_members;
use platform::{
    clock, paths,
    peer::User,
    process,
    pty::{self, Pty, Size},
    random,
    tty::{self, RawMode, Standard},
};
use protocol::{
    Moment,
    control::{AgentState, Ended},
    name::{Name, NameError},
    payload::Capabilities,
    secret::Secret,
};
use run_folder::RunFolder;
pub(crate) use run_folder::WrapperAddress;
use signals::Signals;
use std::{
    env,
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};
use terminal::{
    self, OutgoingMessage, extract::ScreenExtractor, hooks::HookedBrief, keyboard::Reader,
    obstacle::Obstacle, overlay::Overlay, recipe::Recipe,
};
pub(crate) use terminal::{agents, brief, hooks, recipe::Book};
use transcripts::Follower;
use version::version_of;
use waker::Waker;

/// The size of a terminal that is not shown.
const SIZE_DETACHED: Size = Size { rows: 40, cols: 120 };

/// The most deliveries in flight. Messages are typed one at a time, and those that wait in the
/// daemon survive this process. But an urgent message can overtake only messages that are here.
const INFLIGHT_MAX: u64 = 256;

/// How long the marks of an inner `run` may contradict the foreground.
const CONTRADICTION_MS: u64 = if pty::MAY_SWALLOW_SEQUENCES { 50 } else { 1000 };

/// The pause after ten attempts to reconnect that the daemon answered with an ERROR, or after one
/// that it answered with NAME_IN_USE.
const NEXT_CYCLE_MS: u64 = 30_000;

/// The argument that makes an Agent Relay executable run as the agent of the demonstration.
pub(crate) const DEMO_AGENT: &str = "demo-agent";

/// Settings of a wrapper.
pub(crate) struct Settings {
    /// The agent's name.
    pub(crate) name: String,
    /// The key that proves the name, if the name has a key.
    pub(crate) key: Option<Secret>,
    /// The topic patterns that the agent subscribes to.
    pub(crate) topics: Vec<String>,
    /// The command and its arguments.
    pub(crate) command: Vec<OsString>,
    /// The command's directory; by default this process's.
    pub(crate) directory: Option<PathBuf>,
    /// The daemon's address.
    pub(crate) endpoint: String,
    /// An additional user who may run the daemon, besides this user and the system.
    pub(crate) server: Option<User>,
    /// A callback for when the daemon no longer listens.
    pub(crate) when_absent: Option<WhenAbsent>,
    /// The directory for the control endpoint, and for the key that the agent's own commands
    /// authenticate with.
    pub(crate) run_directory: PathBuf,
    /// Whether the titles of the agent's terminals show its name and state.
    pub(crate) title: bool,
    /// The means of notifying the person.
    pub(crate) notify: Notify,
    /// Whether the agent's hooks report the files that it edited to other agents' wrappers.
    pub(crate) collisions: bool,
    /// The options of `run` for starting the agent again.
    pub(crate) options: Vec<String>,
    /// Whether `restore` has started the agent.
    pub(crate) restored: bool,
    /// The conversation that the command resumes, if `restore` knows it.
    pub(crate) conversation: Option<String>,
    /// The home, which gets the agent's record.
    pub(crate) home: PathBuf,
    /// A file that also gets the command's output.
    pub(crate) record: Option<PathBuf>,
    /// Recipes: how messages are typed into each kind of program.
    pub(crate) recipes: Book,
    /// Whether `->relay:Bob hello` counts as a message.
    pub(crate) inline: bool,
    /// Whether messages are read off the screen even if the command writes a transcript.
    pub(crate) grid: bool,
    /// Whether messages are typed into the command even if its file is not known to read text.
    pub(crate) accepts_text: bool,
    /// A program and its arguments that call [`serve_console_members`], for Windows.
    pub(crate) member_server: Vec<OsString>,
    /// A program and its arguments that run a hook; `None` to run the command without hooks.
    pub(crate) hook_command: Option<Vec<OsString>>,
    /// A program and its arguments that run our MCP server; `None` to hand over none.
    pub(crate) mcp_command: Option<Vec<OsString>>,
    /// Whether the agent's first prompt is the brief.
    pub(crate) brief: bool,
    /// Whether standard input and output are a person's terminal, as [`is_attached`] says.
    pub(crate) attached: bool,
    /// Whether the command's input ends with the person's; it is a pipe or a file then.
    pub(crate) ends_with_input: bool,
    /// The person's input.
    pub(crate) keys: Box<dyn Read + Send>,
    /// The person's screen.
    pub(crate) screen: Box<dyn Write + Send>,
    /// Whether the control endpoint is the only access to the agent. If it is, the command does not
    /// run without the endpoint.
    pub(crate) requires_control: bool,
    /// Whether the command starts once a terminal has attached, with that terminal's size.
    pub(crate) awaits_terminal: bool,
    /// The means for an agent CLI to continue without its terminal; `None` to end it with its
    /// terminal, like every other command.
    pub(crate) background: Option<Background>,
    /// Shows the person a notice before the command starts, or when it continues without its
    /// terminal.
    pub(crate) show_notice: fn(&str),
}

/// Whether standard input and output are a person's terminal. Such a terminal is made raw, its size
/// counts, and it answers the command's queries.
#[must_use]
pub(crate) fn is_attached() -> bool {
    tty::is_terminal(Standard::Input) && tty::is_terminal(Standard::Output)
}

/// Whether messages can be typed into a command, as known from its file.
pub(crate) enum Prospect {
    /// Messages are typed.
    Typed,
    /// Messages wait, with or without `--accepts-text`; a sentence says why.
    Barred(String),
    /// Messages wait, except with `--accepts-text`; a sentence says why.
    Unknown(String),
    /// The command starts another program, which decides.
    Launches,
    /// The command's file is not found.
    NoFile,
}

impl Prospect {
    /// Returns the notice that the person gets before the command starts, if messages may not reach
    /// the command.
    #[must_use]
    pub(crate) fn startup_notice(&self, name: &str) -> Option<String> {
        match self {
            Self::Barred(why) => Some(format!("messages to {name} will wait: {why}")),
            Self::Unknown(why) => {
                Some(format!("messages to {name} will wait unless it starts an agent CLI: {why}"))
            }
            Self::Typed | Self::Launches | Self::NoFile => None,
        }
    }
}

/// Returns whether messages can be typed into a command.
#[must_use]
pub(crate) fn prospect(command: &[OsString], directory: Option<&Path>, recipes: &Book) -> Prospect {
    Wrapped::of(command, directory)
        .map_or(Prospect::NoFile, |wrapped| prospect_of(&wrapped, recipes))
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

fn texts(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns why our MCP server cannot be handed over to a command; `None` if it can.
#[must_use]
pub(crate) fn mcp_obstacle(command: &[OsString], recipes: &Book) -> Option<String> {
    let words = texts(command);
    let version = command.first().and_then(|program| version_of(program));
    handover::obstacle(&recipes.choose(&words, process::SYSTEM, version.as_ref()).name)
}

/// The end of a command, and the state of the person's terminal.
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    /// Whether the terminal takes no output, so that nothing more may be written to it.
    pub(crate) is_terminal_stuck: bool,
    /// Whether the agent went on without its terminal.
    pub(crate) outlived_terminal: bool,
}

/// Runs the command until it ends.
///
/// # Errors
/// All errors occur before the command has started.
pub(crate) fn run(settings: Settings) -> Result<Outcome, WrapError> {
    let name = Name::parse(&settings.name)
        .map_err(|why| WrapError::Name { name: settings.name.clone(), why })?;
    // The command is checked before joining, which makes the name known to others.
    pty::check(&settings.command, settings.directory.as_deref()).map_err(WrapError::Command)?;
    let companion_key = random::bytes().map(Secret::from_random).map_err(WrapError::Terminal)?;
    let client = join(&settings, &name, companion_key.clone())?;
    subscribe(&client, &settings.topics)?;
    // The file is written after joining: before, it may belong to a wrapper that holds the name.
    let key_file = KeyFile::create(&settings.run_directory, &name, &companion_key)
        .map_err(WrapError::CompanionKey)?;
    let endpoint = bind_control(&settings, &name)?;
    let finished = run_joined(settings, client, &key_file, endpoint)?;
    drop(key_file);
    let Finished { ended, clients, is_terminal_stuck, outlived_terminal } = finished;
    clients.close();
    Ok(Outcome { ended, is_terminal_stuck, outlived_terminal })
}

/// Binds the control endpoint. If that fails, the agent runs without the endpoint, unless the
/// settings require it.
fn bind_control(settings: &Settings, name: &Name) -> Result<Option<ControlEndpoint>, WrapError> {
    match ControlEndpoint::bind(&settings.run_directory, name) {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(why) if settings.requires_control => Err(WrapError::Control(why)),
        Err(why) => {
            (settings.show_notice)(&format!(
                "attach, hold, release and stop will not find {name}: {why}"
            ));
            Ok(None)
        }
    }
}

fn join(settings: &Settings, name: &Name, companion_key: Secret) -> Result<Client, WrapError> {
    let agent = client::Settings::agent(&settings.endpoint, name.as_str());
    let settings = client::Settings {
        server: settings.server.clone(),
        key: settings.key.clone(),
        companion_key: Some(companion_key),
        program: about::program(&settings.command, &settings.recipes),
        directory: about::directory(settings),
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

/// Subscribes to the agent's topics. The client library repeats that after a reconnection.
fn subscribe(client: &Client, topics: &[String]) -> Result<(), WrapError> {
    topics.iter().try_for_each(|topic| {
        let failed = |why| WrapError::Topic { topic: topic.clone(), why };
        client.subscribe(topic).map_err(failed)
    })
}

/// Runs the command as the agent that has joined.
fn run_joined(
    settings: Settings,
    client: Client,
    key_file: &KeyFile,
    mut endpoint: Option<ControlEndpoint>,
) -> Result<Finished, WrapError> {
    let record = settings.record.as_deref().map(create).transpose()?;
    let has_endpoint = endpoint.is_some();
    let (overlay, clients_overlay) = overlays(&settings, client.name());
    let mut clients = ControlClients::new(&key_file.key, clients_overlay, !settings.attached);
    let size = first_size(&settings, client.name(), &mut clients, &mut endpoint)?;
    let seed = random::bytes().map_err(WrapError::Terminal)?;
    let words = texts(&settings.command);
    let version = settings.command.first().and_then(|program| version_of(program));
    let recipe = settings.recipes.choose(&words, process::SYSTEM, version.as_ref());
    tracing::info!("the recipe is {}", recipe.name);
    let transcript = recipe.transcript;
    let mut side = terminal_settings(&settings, client.name(), recipe, size, seed);
    let directory = settings.directory.as_deref();
    let shown_directory = about::directory(&settings);
    let wrapped = Wrapped::of(&settings.command, directory);
    show_prospect(&settings, wrapped.as_ref(), client.name());
    let signals = Signals::listen();
    let raw = settings.attached.then(RawMode::enter).transpose().map_err(WrapError::Terminal)?;
    let hook_command = settings.hook_command.as_deref().filter(|_| has_endpoint);
    let version = version.as_ref();
    let address = address(&settings, client.name(), &key_file.key);
    let wrapper = arming::Wrapper { address: &address, hook_command, version, directory };
    let prepared = prepare(&settings, key_file, &side.recipe, &wrapper)?;
    let CommandLine { command, mut env, folder, hooks } = prepared;
    if hooks.are_given && settings.brief {
        let text = || brief_of(&settings, client.name());
        side.hooked_brief = hooked_brief(&side.recipe.name, text);
    }
    let inner_marks = InnerMarks::new().map_err(WrapError::Terminal)?;
    env.push((inner_mark::VARIABLE.into(), Some((&inner_marks.digits).into())));
    let agent_record = agent_record(&settings, client.name(), &side.recipe.name);
    let may_outlive = has_endpoint && agents::named(&side.recipe.name).is_some();
    let since_ms = clock::unix_ms();
    let pty = Pty::spawn(&command, &env, directory, size).map_err(WrapError::Command)?;
    let (server, accepts) = (settings.member_server, settings.accepts_text);
    let foreground = Foreground::new(&pty, server, settings.recipes, wrapped.as_ref(), accepts);
    let outer_marks = InnerMarks::of_outer_run().filter(|_| settings.attached);
    let (keys, screen) = (settings.keys, settings.screen);
    let front = settings.background.as_ref().map(|background| background.front.clone());
    let mut streams = threads::Streams { keys, screen, overlay, record, front };
    show_first_bytes(&mut streams, outer_marks.as_ref(), size.rows);
    let follow = |format| Follower::start(format, pty.pid(), directory, since_ms);
    let follower = transcript.map(follow).transpose().map_err(WrapError::Terminal)?;
    clients.listen(endpoint).map_err(WrapError::Terminal)?;
    let program = command.into_iter().next().unwrap_or_default();
    let waker = Waker::new(program, env, settings.directory);
    let parts = Parts {
        clients,
        directory: shown_directory,
        follower,
        foreground,
        hooks,
        inner_marks: InnerMarkFinder::new(&inner_marks),
        outer_marks,
        waker,
        end_of_input: EndOfInput::new(settings.ends_with_input),
        notifier: Notifier::new(settings.notify),
        background: settings.background.filter(|_| may_outlive),
        raw,
        show_notice: settings.show_notice,
        home: settings.home,
        agent_record,
    };
    let driver = Driver::start(pty, streams, &signals, client, &side, words, parts);
    let driver = driver.map_err(WrapError::Terminal)?;
    let finished = driver.run();
    drop(folder);
    Ok(finished)
}

/// Sets and returns the initial size of the command's terminal. If the command awaits a terminal,
/// this starts to serve the endpoint.
fn first_size(
    settings: &Settings,
    name: &str,
    clients: &mut ControlClients,
    endpoint: &mut Option<ControlEndpoint>,
) -> Result<Size, WrapError> {
    let size = if settings.awaits_terminal {
        let state = AgentState {
            name: name.to_owned(),
            command: texts(&settings.command),
            wrapper_pid: std::process::id(),
            directory: about::directory(settings),
            since: clock::unix_ms(),
            ..AgentState::default()
        };
        let size = clients.listen(endpoint.take()).and_then(|()| await_terminal(clients, &state));
        size.map_err(WrapError::Terminal)?
    } else {
        tty::size().filter(|_| settings.attached).unwrap_or(SIZE_DETACHED)
    };
    clients.resized(size);
    Ok(size)
}

fn terminal_settings(
    settings: &Settings,
    name: &str,
    recipe: Recipe,
    size: Size,
    seed: [u8; 32],
) -> terminal::Settings {
    terminal::Settings {
        transcript: recipe.transcript.is_some(),
        recipe,
        book: settings.recipes.clone(),
        system: process::SYSTEM,
        grid: settings.grid,
        attached: settings.attached,
        may_drop_paste_marks: pty::MAY_DROP_PASTE_MARKS,
        columns: size.cols.into(),
        rows: size.rows.into(),
        inline: settings.inline,
        // A resumed conversation has the brief already.
        brief: (settings.brief && settings.conversation.is_none())
            .then(|| brief::first_words(&brief_of(settings, name))),
        hooked_brief: None,
        contradiction_ms: CONTRADICTION_MS,
        seed,
    }
}

/// Returns the brief for an agent.
fn brief_of(settings: &Settings, name: &str) -> String {
    let groups = teams::groups(&settings.home);
    let groups = groups.inspect_err(|error| tracing::warn!("groups cannot be read: {error}"));
    let has_groups = groups.is_ok_and(|groups| !groups.is_empty());
    brief::text(Some(name)) + if has_groups { brief::GROUPS } else { "" }
}

/// Returns the brief for the hooks of the CLI with this recipe, if they take one.
fn hooked_brief(recipe: &str, text: impl FnOnce() -> String) -> Option<HookedBrief> {
    let begins = agents::named(recipe)?.hooks?.begins?;
    Some(HookedBrief { text: text(), begins })
}

/// Shows the person a notice if nothing will be typed into the command. `spawn`, which starts
/// wrappers without a terminal, has shown it already.
fn show_prospect(settings: &Settings, wrapped: Option<&Wrapped>, name: &str) {
    if settings.accepts_text || settings.requires_control {
        return;
    }
    let prospect = wrapped.map(|wrapped| prospect_of(wrapped, &settings.recipes));
    if let Some(line) = prospect.and_then(|prospect| prospect.startup_notice(name)) {
        (settings.show_notice)(&line);
    }
}

/// Changes of a command's environment: variables to set or to remove.
type Environment = Vec<(OsString, Option<OsString>)>;

/// A command as it is started.
struct CommandLine {
    /// The program and its arguments.
    command: Vec<OsString>,
    /// Changes of its environment.
    env: Environment,
    /// The files that its hooks and its MCP server need.
    folder: Option<RunFolder>,
    hooks: HooksGiven,
}

/// Adds the recipe's arguments, hooks and our MCP server to the command.
fn prepare(
    settings: &Settings,
    key_file: &KeyFile,
    recipe: &Recipe,
    wrapper: &arming::Wrapper<'_>,
) -> Result<CommandLine, WrapError> {
    let own = own_variables(&wrapper.address.name, &settings.endpoint, &key_file.path);
    let mut arguments = arguments(recipe, &own);
    let mut env = environment(recipe, own.clone(), !arguments.is_empty(), settings.attached);
    let mut command = settings.command.clone();
    let mut own_arguments = command.split_off(1.min(command.len()));
    let armed = arming::arm(&recipe.name, wrapper, &mut own_arguments, &mut env);
    let (hooks, no_hooks) = armed.map_or_else(|why| (None, Some(why)), |hooks| (hooks, None));
    let given = HooksGiven::of(&recipe.name, hooks.is_some(), no_hooks);
    let mut made = None;
    if let Some(server) = &settings.mcp_command {
        let offer = handover::Offer { command: server, variables: &own };
        let (recipe, hooks) = (&recipe.name, hooks.as_ref());
        let words = &mut own_arguments;
        let handed = handover::hand_over(recipe, &offer, wrapper, hooks, words, &mut env);
        made = handed.map_err(WrapError::Mcp)?;
    }
    command.append(&mut arguments);
    command.append(&mut own_arguments);
    let folder = hooks.map(|(folder, _)| folder).or(made);
    Ok(CommandLine { command, env, folder, hooks: given })
}

/// Returns the address and key that the agent's hooks use to reach the wrapper.
fn address(settings: &Settings, name: &str, key: &Secret) -> WrapperAddress {
    WrapperAddress {
        run_directory: settings.run_directory.clone(),
        name: name.to_owned(),
        key: key.clone(),
        tells_edits: settings.collisions,
    }
}

/// Returns the time of the wrapper's state machines.
fn now() -> Moment {
    Moment(clock::monotonic_ms())
}

/// Returns the keeper of the agent's record, if its command can be started again.
fn agent_record(settings: &Settings, name: &str, recipe: &str) -> Option<RecordKeeper> {
    let directory = about::directory(settings)?.into();
    let (options, conversation) = (settings.options.clone(), settings.conversation.clone());
    let record =
        AgentRecord::new(name, recipe, &settings.command, directory, options, conversation)?;
    let mut keeper = RecordKeeper::new(settings.home.clone(), record);
    if settings.restored {
        keeper.begin();
    }
    Some(keeper)
}

/// Returns the overlay of the person's terminal, if there is one, and the overlay of attached
/// terminals.
fn overlays(settings: &Settings, name: &str) -> (Option<Overlay>, Overlay) {
    let title = settings.title.then(|| name.to_owned());
    let reports_focus = settings.notify != Notify::Off;
    let own = settings.attached.then(|| match is_terminal_plain() {
        true => Overlay::new(None, false),
        false => Overlay::new(title.clone(), reports_focus),
    });
    (own, Overlay::new(title, reports_focus))
}

/// Whether the person's terminal has no title, and would show the sequence that sets one as text.
pub(crate) fn is_terminal_plain() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb" || term == "linux")
}

/// Writes the bytes that a person's terminal gets before the command's output.
fn show_first_bytes(streams: &mut threads::Streams, outer_marks: Option<&InnerMarks>, rows: u16) {
    let Some(overlay) = &streams.overlay else { return };
    let mut bytes = outer_marks.map(InnerMarks::begin).unwrap_or_default().into_bytes();
    overlay.begin(&mut bytes);
    if pty::BEGINS_AT_HOME {
        bytes.extend_from_slice(clearing_bytes(rows).as_bytes());
    }
    let written = streams.screen.write_all(&bytes);
    // The thread that passes on the command's output gets the same error and reports it.
    drop(written.inspect_err(|error| tracing::debug!("the terminal is gone: {error}")));
}

/// Returns the bytes that clear a screen and put the cursor at home. The old content stays in the
/// terminal's scrollback.
fn clearing_bytes(rows: u16) -> String {
    format!("{}\x1b[H\x1b[J", "\r\n".repeat(rows.into()))
}

/// Opens the file for a recording, which holds all that the command shows. A new file is private; an
/// existing regular file must be.
fn create(path: &Path) -> Result<File, WrapError> {
    let opened = match paths::create_private_file(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_file = path.metadata().is_ok_and(|existing| existing.is_file());
            let checked = if is_file { paths::check_private(path) } else { Ok(()) };
            checked.and_then(|()| File::options().write(true).truncate(true).open(path))
        }
        opened => opened,
    };
    opened.map_err(|why| WrapError::Record { path: path.to_owned(), why })
}

/// Returns the variables that the agent's own commands authenticate with.
fn own_variables(name: &str, endpoint: &str, key_file: &Path) -> [(&'static str, OsString); 3] {
    [
        (home::AGENT, name.into()),
        (home::ENDPOINT, endpoint.into()),
        (home::KEY_FILE, key_file.into()),
    ]
}

/// Returns the recipe's arguments for the command, or none if a value is not valid text.
fn arguments(recipe: &Recipe, own: &[(&str, OsString)]) -> Vec<OsString> {
    let texts: Option<Vec<_>> =
        own.iter().map(|(name, value)| Some((*name, value.to_str()?))).collect();
    let arguments = texts.map(|texts| recipe.arguments(&texts)).unwrap_or_default();
    arguments.into_iter().map(OsString::from).collect()
}

/// Returns changes of the command's environment.
///
/// Variables that the command gets as arguments are removed: programs that it starts for others
/// would inherit them and speak in its name.
fn environment(
    recipe: &Recipe,
    own: [(&'static str, OsString); 3],
    has_arguments: bool,
    attached: bool,
) -> Environment {
    let is_argument = |name: &str| has_arguments && recipe.has_argument_for(name);
    let mut env: Environment = own
        .into_iter()
        .map(|(name, value)| (name.into(), Some(value).filter(|_| !is_argument(name))))
        .collect();
    let asked = recipe.environment.iter().filter(|(name, _)| env::var_os(name).is_none());
    env.extend(asked.map(|(name, value)| (name.into(), Some(value.into()))));
    if !attached {
        // The variables of this process describe a terminal that the command does not get.
        env.push(("TERM".into(), Some("xterm-256color".into())));
        env.extend(["COLUMNS", "LINES"].map(|name| (name.into(), None)));
    }
    env
}

/// Reads a recording like [`run`] reads live output.
///
/// Returns a line of JSON for each message, and a sentence for each problem. `margin` comes from
/// the recipe.
#[must_use]
pub(crate) fn extract(
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
    let all = [
        ("to", Some(message.to)),
        ("body", Some(message.body)),
        ("topic", message.topic),
        ("thread", message.thread),
        ("reply", message.reply_to),
    ];
    let given = all.into_iter().filter_map(|(key, value)| Some((key, value?)));
    given.collect::<serde_json::Value>().to_string()
}

/// The reasons for not running a command.
#[derive(Debug)]
pub(crate) enum WrapError {
    /// The name is not valid.
    Name {
        /// The name.
        name: String,
        /// The violated rule.
        why: NameError,
    },
    /// The daemon cannot be reached, or refused.
    Join {
        /// The agent's name.
        name: String,
        /// The reason.
        why: ClientError,
    },
    /// The daemon refuses a subscription, or does not answer.
    Topic {
        /// The pattern.
        topic: String,
        /// The reason.
        why: ClientError,
    },
    /// The key file of the agent's commands cannot be written.
    CompanionKey(io::Error),
    /// The control endpoint cannot be bound.
    Control(io::Error),
    /// The MCP server cannot be handed over.
    Mcp(io::Error),
    /// The recording cannot be written.
    Record {
        /// The recording's path.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The command is not found, or cannot be run.
    Command(io::Error),
    /// The terminal, or a resource for it, is not available.
    Terminal(io::Error),
}

impl WrapError {
    /// Returns the exit code that shells use for this error.
    #[must_use]
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            Self::Name { .. } => 2,
            Self::Command(error) if error.kind() == io::ErrorKind::NotFound => 127,
            Self::Command(_) => 126,
            _ => 1,
        }
    }
}

impl fmt::Display for WrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name, why } => write!(f, "no agent can be called {name:?}: {why}"),
            Self::Join { name, why } => write!(f, "{name} cannot join the relay: {why}"),
            Self::Topic { topic, why } => write!(f, "no subscription to {topic}: {why}"),
            Self::Record { path, why } => {
                write!(f, "the recording {} cannot be written: {why}", path.display())
            }
            Self::Control(why) => write!(f, "attach and stop are unavailable: {why}"),
            Self::Mcp(why) => write!(f, "the MCP server is not handed over: {why}"),
            Self::CompanionKey(why) | Self::Command(why) | Self::Terminal(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for WrapError {}

#[cfg(test)]
mod tests {
    use super::*;
    use terminal::screen::{Cursor, Row, Screen, ScreenObserver};

    #[derive(Default)]
    struct Scrolled(Vec<String>);

    impl ScreenObserver for Scrolled {
        fn row_scrolled_off(&mut self, row: &Row) {
            self.0.push(row.text.clone());
        }
    }

    #[test]
    fn cleared_screen_is_empty_and_its_rows_scrolled_off() {
        for (shown, scrolled) in [
            ("one\r\ntwo\r\nthree\r\n$ run", &["one", "two", "three", "$ run"][..]),
            ("$ run", &["$ run"]),
            // Rows below the cursor do not count.
            ("\x1b[4;1Hold\x1b[1;1H$ run", &["$ run"]),
        ] {
            let (mut screen, mut watch) = (Screen::new(20, 4), Scrolled::default());
            screen.feed(shown.as_bytes(), &mut watch);
            screen.feed(clearing_bytes(4).as_bytes(), &mut watch);
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
