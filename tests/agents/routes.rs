//! Each route of a message to an agent. Messages come at random moments of a session full of tool
//! calls, and a table row shows how they arrived.
//!
//! A full run (`ci/agents --long`) plays 100 messages per route, with kills among them. The seed is
//! printed; `AGENT_RELAY_AGENTS_SEED` repeats it.

use crate::{
    cli::{Agent, Cli, Workspace},
    hooks,
    peer::Peer,
    processes,
};
use platform::pty::Size;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    env, iter,
    path::{self, Path},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use terminal::screen::Screen;
use testkit::{
    model::{
        Asked, Model, Reply,
        frames::{Frame, frames},
    },
    sandbox::Sandbox,
    waiting::{WATCHDOG, output},
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// The number of messages per route: in a normal run with the CLIs of most tests, in a normal run
/// with the others, and in a full run.
const MESSAGES: usize = 5;
const MESSAGES_OF_OTHERS: usize = 1;
const MESSAGES_ALL: usize = 100;

/// How long nothing is typed after a person's last key.
const UNTOUCHED: Duration = Duration::from_millis(1000);

/// The interval between a trial's looks at the state.
const POLL: Duration = Duration::from_millis(10);

/// A half-typed prompt of the person.
const DRAFT: &str = "a half written (prompt) of theirs,  with two blanks";

/// The end of each command. It prints the time.
const END: &str = "date +ended-at-%s%N";

/// The first prompt of an agent that a hook should wake: Codex is only woken after its first turn.
const HELLO: &str = "Hello.";

const HEADER: &str = "\
| CLI | route | messages | arrived once | lost | repeated, marked | repeated, not marked | in a \
system role | measured | median | worst |\n|---|---|---|---|---|---|---|---|---|---|---|";

/// A message's route to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// Typed into the empty prompt.
    Typed,
    /// The agent is notified between two tool calls, and reads the message.
    Read,
    /// A hook begins a turn with the message, over a person's draft.
    Woken,
}

impl Route {
    fn name(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Read => "notice and read",
            Self::Woken => "woken over a draft",
        }
    }
}

/// The content of all requests to the model so far.
#[derive(Default)]
struct Log {
    /// Each frame once, with the time of its first request.
    arrived: Vec<(Frame, Instant)>,
    known: HashSet<String>,
    /// How often one request had the same frame at most.
    most_in_one: BTreeMap<String, usize>,
    /// The ids that the agent was notified of, with the time since the running tool's end.
    noticed: HashMap<String, Option<Duration>>,
    /// The number of commands that the CLI asks its person about.
    asking: usize,
    /// Whether the model's latest reply is a command.
    is_working: bool,
}

impl Log {
    fn note(&mut self, asked: &Asked) {
        let found = frames(&without_repeated_results(&asked.request));
        for frame in &found {
            let count = found.iter().filter(|other| other.hex == frame.hex).count();
            let most = self.most_in_one.entry(frame.hex.clone()).or_default();
            *most = count.max(*most);
            if self.known.insert(frame.hex.clone()) {
                self.arrived.push((frame.clone(), asked.at));
            }
        }
        let ended = asked.result.as_deref().and_then(end_of_tool);
        let since = ended.and_then(|ended| wall_clock(asked.at).checked_sub(ended));
        for id in told_ids(&asked.request) {
            self.noticed.entry(id).or_insert(since);
        }
    }

    fn has(&self, number: usize) -> bool {
        self.arrived.iter().any(|(frame, _)| frame.body == body(number))
    }
}

/// Returns a request with each tool call's result only once: after resuming a conversation, Gemini
/// CLI repeats each result with its id.
fn without_repeated_results(request: &Value) -> Value {
    let mut request = request.clone();
    if let Some(contents) = request.get_mut("contents").and_then(Value::as_array_mut) {
        contents.dedup_by(|later, earlier| {
            later == earlier && later["parts"][0]["functionResponse"]["id"].is_string()
        });
    }
    request
}

/// Returns the ids of all messages that an agent was notified of in a request, in order.
pub(crate) fn told_ids(request: &Value) -> Vec<String> {
    let request = request.to_string();
    let told = request.split(" wrote to you (id ").skip(1);
    told.filter_map(|rest| rest.get(..8).map(str::to_owned)).collect()
}

fn body(number: usize) -> String {
    format!("message number {number:03}")
}

/// Returns the time since 1970 that a command printed at its end.
fn end_of_tool(result: &str) -> Option<Duration> {
    let (_, rest) = result.rsplit_once("ended-at-")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(Duration::from_nanos)
}

fn wall_clock(at: Instant) -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - at.elapsed()
}

pub(crate) fn relay() -> String {
    path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap().display().to_string()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number below `limit`.
fn below(rng: &mut ChaCha20Rng, limit: u64) -> u64 {
    u64::from(rng.next_u32()) % limit
}

/// A command that the CLI runs without a question.
fn runs(cli: Cli, command: &str) -> Reply {
    match cli {
        Cli::Codex => Reply::new().calls("exec_command", json!({"cmd": command})),
        _ => Reply::new().runs(command),
    }
}

/// A script that answers each prompt with a few commands, some of which need a permission. On
/// [`Route::Read`], it reads the messages that it is notified of.
fn script(
    cli: Cli,
    route: Route,
    mut rng: ChaCha20Rng,
    log: Arc<Mutex<Log>>,
) -> impl FnMut(&Asked) -> Reply + Send + 'static {
    let (mut prompt, mut steps, mut read) = (String::new(), 0, HashSet::new());
    move |asked| {
        let mut log = lock(&log);
        log.note(asked);
        if prompt != asked.prompt {
            prompt.clone_from(&asked.prompt);
            steps = match &*prompt {
                HELLO => 0,
                prompt if prompt.starts_with("Work") => 2 + below(&mut rng, 4),
                _ => below(&mut rng, 2),
            };
        }
        log.is_working = true;
        let told: Vec<_> = log.noticed.keys().filter(|id| !read.contains(*id)).cloned().collect();
        if route == Route::Read && !told.is_empty() {
            let command = match &*told {
                [id] => format!("{} read {id}", relay()),
                _ => format!("{} inbox --take", relay()),
            };
            read.extend(told);
            log.asking += usize::from(cli == Cli::Codex || cli == Cli::Gemini);
            return Reply::new().runs(command);
        }
        if steps == 0 {
            log.is_working = false;
            return Reply::new().says("Noted.");
        }
        steps -= 1;
        if cli == Cli::Gemini || below(&mut rng, 8) == 0 {
            log.asking += 1;
            return Reply::new().runs(format!("touch asked-{}; {END}", log.asking));
        }
        let tenths = 1 + below(&mut rng, 9);
        runs(cli, &format!("sleep 0.{tenths}; {END}"))
    }
}

/// A wrapped CLI, its model, and a peer that writes to it.
struct Trial<'a> {
    cli: Cli,
    route: Route,
    sandbox: &'a Sandbox,
    workspace: &'a Workspace<'a>,
    model: &'a Model,
    agent: Agent,
    bob: Peer,
    log: Arc<Mutex<Log>>,
    rng: ChaCha20Rng,
    /// The number of permissions that the person has given.
    permitted: usize,
    /// The number of prompts of the person.
    prompts: usize,
    /// When each message was accepted.
    accepted: Vec<Instant>,
    /// The messages that came while the agent was at rest.
    at_rest: HashSet<usize>,
    keys: Vec<Instant>,
}

/// The beginnings of the commands that run without a question, if the CLI has such a setting.
fn allowed() -> [String; 4] {
    let relay = relay();
    ["sleep".to_owned(), "date".to_owned(), format!("{relay} inbox"), format!("{relay} read")]
}

/// Allows the commands in the settings, or installs our hooks, unless a start does that.
fn prepare(workspace: &Workspace<'_>, route: Route) {
    match workspace.cli {
        Cli::Opencode => {
            let allowed = allowed().into_iter().map(|begin| (format!("{begin} *"), json!("allow")));
            // The last rule that matches a command counts, and `*` comes first in any order.
            let rules: Value = iter::once(("*".to_owned(), json!("ask"))).chain(allowed).collect();
            workspace.extend_settings(json!({"permission": {"bash": rules}}));
        }
        Cli::Qwen => {
            let allowed = allowed().map(|begin| format!("Bash({begin} *)"));
            workspace.extend_settings(json!({"permissions": {"allow": allowed}}));
        }
        Cli::Gemini if route == Route::Read => hooks::link_extension(workspace),
        Cli::Claude | Cli::Codex | Cli::Gemini | Cli::Copilot => {}
    }
}

fn arguments(cli: Cli, is_resumed: bool) -> Vec<String> {
    let mut all = match cli {
        Cli::Claude => {
            let allowed = allowed().map(|begin| format!("Bash({begin}:*)")).join(",");
            ["--permission-mode=default", "--allowedTools", &allowed].map(str::to_owned).into()
        }
        Cli::Copilot => {
            let programs = ["sleep", "date", &relay()];
            let rules = programs.map(|program| format!("--allow-tool=shell({program}:*)"));
            // Otherwise Copilot asks whether a command may use the path of our program.
            rules.into_iter().chain(["--allow-all-paths".to_owned()]).collect()
        }
        Cli::Codex | Cli::Gemini | Cli::Opencode | Cli::Qwen => Vec::new(),
    };
    if is_resumed {
        all.extend(cli.resume_arguments().iter().map(|&word| word.to_owned()));
    }
    all
}

fn start(workspace: &Workspace<'_>, is_resumed: bool) -> Agent {
    let arguments = arguments(workspace.cli, is_resumed);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let agent = workspace.wrap_with(&["-n", "Ann"], SIZE, &arguments);
    agent.wait_until_idle();
    agent
}

impl Trial<'_> {
    /// Sends messages with random pauses to an agent that is at rest.
    fn send_at_rest(&mut self, count: usize) {
        self.pause(1500);
        self.at_rest.insert(self.accepted.len());
        self.send(count);
    }

    /// Sends messages with random pauses.
    fn send(&mut self, count: usize) {
        for _ in 0..count {
            self.pause(700);
            let text = body(self.accepted.len());
            let at = self.bob.send_accepted(&self.agent, "Ann", &text);
            self.accepted.push(at);
        }
    }

    fn pause(&mut self, ms_max: u64) {
        thread::sleep(Duration::from_millis(below(&mut self.rng, ms_max)));
    }

    /// Lets the person answer questions until all messages have arrived.
    #[track_caller]
    fn attend(&mut self) {
        let end = Instant::now() + WATCHDOG;
        loop {
            let (asking, missing) = {
                let log = lock(&self.log);
                let missing: Vec<_> = (0..self.accepted.len()).filter(|n| !log.has(*n)).collect();
                (log.asking, missing)
            };
            if asking > self.permitted {
                let (question, yes) = self.cli.permission();
                self.agent.answer(question, yes);
                self.permitted += 1;
                self.keys.push(Instant::now());
            } else if missing.is_empty() {
                return;
            }
            if Instant::now() > end {
                let agents = self.sandbox.run(["agents", "--json"]).stdout;
                let (agents, screen) =
                    (String::from_utf8_lossy(&agents), self.agent.terminal.text());
                panic!("{missing:?} do not arrive:\n{screen}\n{agents}");
            }
            thread::sleep(POLL);
        }
    }

    /// Waits until the agent has finished its work, and the prompt is empty or holds the draft.
    #[track_caller]
    fn rest(&mut self) {
        let end = Instant::now() + WATCHDOG;
        let (cli, has_draft) = (self.cli, self.route == Route::Woken);
        loop {
            self.attend();
            self.agent.wait_until_still();
            let is_idle = self.agent.terminal.look(|screen| match has_draft {
                true => shows_draft(screen) && !cli.is_busy(screen),
                false => cli.is_idle(screen),
            });
            let log = lock(&self.log);
            if is_idle && !log.is_working && log.asking == self.permitted {
                return;
            }
            drop(log);
            assert!(Instant::now() < end, "no rest:\n{}", self.agent.terminal.text());
        }
    }

    fn work(&mut self) {
        self.prompts += 1;
        let prompt = format!("Work, part {}.", self.prompts);
        self.agent.submit(&prompt);
        self.keys.push(Instant::now());
    }

    fn press(&mut self, keys: &str) {
        self.agent.terminal.press(keys);
        self.keys.push(Instant::now());
    }

    /// Plays a part of the session, with some messages.
    fn play(&mut self, count: usize) {
        match self.route {
            Route::Read => {
                self.work();
                self.send(count);
            }
            Route::Woken => self.send_at_rest(count),
            Route::Typed => match below(&mut self.rng, 3) {
                0 => self.send_at_rest(count),
                1 => {
                    self.work();
                    self.send(count);
                }
                _ => self.send_while_a_draft_is_typed(count),
            },
        }
        self.attend();
        self.rest();
    }

    /// Sends messages while the person types something, and erases it.
    fn send_while_a_draft_is_typed(&mut self, count: usize) {
        self.press("hm");
        self.agent.terminal.wait_until_screen("the draft", |screen| {
            screen.row(screen.cursor().row).text.contains("hm")
        });
        self.send(count);
        self.pause(500);
        // A hook may have begun a turn, but the person's text stays in the line.
        self.press("\u{7f}\u{7f}");
    }

    /// Kills the daemon, the wrapper or the running hooks.
    fn kill(&mut self) {
        let directory = self.sandbox.directory().to_str().unwrap();
        let sent = self.accepted.len();
        match below(&mut self.rng, 3) {
            0 => {
                eprintln!("after {sent} messages: kills the daemon");
                processes::kill(&[directory, "up"]);
            }
            1 => {
                let killed = processes::kill(&[directory, "hook"]);
                eprintln!("after {sent} messages: kills {killed} hooks");
            }
            _ => {
                eprintln!("after {sent} messages: kills the wrapper");
                processes::kill_one(self.agent.terminal.pty.pid());
                // The CLI may outlive its terminal for a while.
                processes::kill_in(&self.workspace.project());
                self.agent = start(self.workspace, true);
                if self.route == Route::Woken {
                    self.be_ready_to_be_woken();
                }
            }
        }
    }

    /// The person submits a first prompt, and half types the next one.
    fn be_ready_to_be_woken(&mut self) {
        self.agent.submit(HELLO);
        self.agent.terminal.wait_for("Noted.");
        self.agent.wait_until_idle();
        self.press(DRAFT);
        self.agent.terminal.wait_until_screen("the draft", shows_draft);
    }

    /// The latency of a message. If a notice announced it: the time from the end of the running
    /// tool to the model's request with the notice. If it found the agent at rest: the time from
    /// its acceptance, or from when it could be typed if that is later, to the request with the
    /// message. `None` for other messages.
    fn latency(&self, frame: &Frame, at: Instant, number: usize) -> Option<Duration> {
        if self.route == Route::Read {
            return lock(&self.log).noticed.get(id(frame)).copied().flatten();
        }
        let untouched = if self.route == Route::Woken { Duration::ZERO } else { UNTOUCHED };
        let before = self.keys.iter().filter(|key| **key < at).max();
        let free = before.map(|key| *key + untouched).max(Some(self.accepted[number]));
        self.at_rest.contains(&number).then(|| at.saturating_duration_since(free.unwrap()))
    }

    fn row(&self, version: &str) -> Row {
        let log = lock(&self.log);
        let (arrived, most) = (log.arrived.clone(), log.most_in_one.clone());
        drop(log);
        let (cli, messages) = (format!("{} {version}", self.cli.name()), self.accepted.len());
        let mut row = Row { cli, messages, ..Row::default() };
        for number in 0..self.accepted.len() {
            let own: Vec<_> =
                arrived.iter().filter(|(frame, _)| frame.body == body(number)).collect();
            let Some((first, at)) = own.first() else {
                row.lost += 1;
                continue;
            };
            row.latencies.extend(self.latency(first, *at, number));
            let marked = own[1..].iter().filter(|(frame, _)| frame.head.contains(", again]"));
            let marked = marked.count();
            let twice = own.iter().filter(|(frame, _)| most[&frame.hex] > 1).count();
            row.marked += marked;
            row.unmarked += own.len() - 1 - marked + twice;
            row.once += usize::from(own.len() == 1 && twice == 0);
        }
        row.instructed = self.model.instructed().len();
        row.latencies.sort();
        row
    }
}

/// Returns the eight digits of the id in a frame's first line.
fn id(frame: &Frame) -> &str {
    frame.head.split_once(", id ").and_then(|(_, rest)| rest.get(..8)).unwrap_or_default()
}

fn shows_draft(screen: &Screen) -> bool {
    let row = screen.row(screen.cursor().row).text.replace('\u{a0}', " ");
    row.trim_end().ends_with(&format!(" {DRAFT}"))
}

/// A row of the table.
#[derive(Debug, Default)]
struct Row {
    cli: String,
    messages: usize,
    once: usize,
    lost: usize,
    marked: usize,
    unmarked: usize,
    instructed: usize,
    latencies: Vec<Duration>,
}

impl Row {
    fn print(&self, route: Route) {
        let Self { cli, messages, once, lost, marked, unmarked, instructed, latencies } = self;
        let at = |place: usize| match latencies.get(place) {
            Some(latency) => format!("{} ms", latency.as_millis()),
            None => "–".to_owned(),
        };
        let (measured, route) = (latencies.len(), route.name());
        let (median, worst) = (at(measured / 2), at(measured.saturating_sub(1)));
        eprintln!(
            "{HEADER}\n| {cli} | {route} | {messages} | {once} | {lost} | {marked} | {unmarked} | \
             {instructed} | {measured} | {median} | {worst} |"
        );
    }
}

pub(crate) fn is_full() -> bool {
    env::var_os("AGENT_RELAY_AGENTS_ALL").is_some()
}

fn seed() -> u64 {
    let given = env::var("AGENT_RELAY_AGENTS_SEED").ok();
    given.map_or_else(|| u64::from(std::process::id()), |seed| seed.parse().unwrap())
}

fn try_route(cli: Cli, program: &Path, route: Route) {
    let is_full = is_full();
    let seed = seed();
    eprintln!("{} {}: seed {seed}", program.display(), route.name());
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let log = Arc::new(Mutex::new(Log::default()));
    let own = ChaCha20Rng::seed_from_u64(rng.next_u64());
    let model = Model::start(script(cli, route, own, Arc::clone(&log)));
    if is_full {
        model.excuse_instructions("they are counted in the table");
    }
    let sandbox = Sandbox::new();
    let workspace = Workspace::new(&sandbox, cli, &model, "ann").with_program(program.to_owned());
    prepare(&workspace, route);
    let bob = Peer::join(&sandbox, "Bob");
    let agent = start(&workspace, false);
    let mut trial = Trial {
        cli,
        route,
        sandbox: &sandbox,
        workspace: &workspace,
        model: &model,
        agent,
        bob,
        log,
        rng,
        permitted: 0,
        prompts: 0,
        accepted: Vec::new(),
        at_rest: HashSet::new(),
        keys: Vec::new(),
    };
    if route == Route::Woken {
        trial.be_ready_to_be_woken();
    }
    let total = match cli {
        _ if is_full => MESSAGES_ALL,
        Cli::Claude | Cli::Codex | Cli::Gemini => MESSAGES,
        Cli::Opencode | Cli::Qwen | Cli::Copilot => MESSAGES_OF_OTHERS,
    };
    while trial.accepted.len() < total {
        let left = total - trial.accepted.len();
        let count = (1 + below(&mut trial.rng, 3) as usize).min(left);
        trial.play(count);
        if is_full && below(&mut trial.rng, 12) == 0 {
            trial.kill();
        }
    }
    let row = trial.row(&version(&workspace));
    row.print(route);
    assert_eq!((row.lost, row.unmarked), (0, 0), "{row:?}");
}

fn version(workspace: &Workspace<'_>) -> String {
    let mut command = workspace.command(workspace.program());
    command.arg("--version");
    let printed = String::from_utf8(output(command).stdout).unwrap();
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let version = printed.split_whitespace().find(is_version).unwrap_or_default();
    version.trim_end_matches('.').to_owned()
}

macro_rules! each_route {
    ($($name:ident: $cli:expr, $version:expr, $route:expr;)*) => {
        $(
            #[test]
            fn $name() {
                // A normal run tries the pinned version only.
                if $version == 0 || is_full() {
                    try_route($cli, &$cli.programs()[$version], $route);
                }
            }
        )*
    };
}

each_route! {
    claude_is_typed_into: Cli::Claude, 0, Route::Typed;
    claude_reads: Cli::Claude, 0, Route::Read;
    claude_is_woken: Cli::Claude, 0, Route::Woken;
    claude_current_is_typed_into: Cli::Claude, 1, Route::Typed;
    claude_current_reads: Cli::Claude, 1, Route::Read;
    claude_current_is_woken: Cli::Claude, 1, Route::Woken;
    codex_is_typed_into: Cli::Codex, 0, Route::Typed;
    codex_reads: Cli::Codex, 0, Route::Read;
    codex_is_woken: Cli::Codex, 0, Route::Woken;
    gemini_is_typed_into: Cli::Gemini, 0, Route::Typed;
    gemini_reads: Cli::Gemini, 0, Route::Read;
    opencode_is_typed_into: Cli::Opencode, 0, Route::Typed;
    opencode_reads: Cli::Opencode, 0, Route::Read;
    opencode_is_woken: Cli::Opencode, 0, Route::Woken;
    qwen_is_typed_into: Cli::Qwen, 0, Route::Typed;
    qwen_reads: Cli::Qwen, 0, Route::Read;
    copilot_is_typed_into: Cli::Copilot, 0, Route::Typed;
    copilot_reads: Cli::Copilot, 0, Route::Read;
}
