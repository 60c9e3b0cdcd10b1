//! The commands of README.md's quickstart and of docs/GUIDE.md, played as printed.
//!
//! A fence `console` has commands behind `$ `, each followed by its output. Each section with such
//! a fence is a recipe, and one test plays its commands in their order, each in its own terminal of
//! 120 columns. Ids, times, and the like may differ from the printed ones, but one id stays one id.
//! The programs `claude` and `codex` are copies of `toy`; where conversations continue, `claude` is
//! a script with hooks.

use crate::{
    commands::{DONE, out, run},
    wrap::{expect_message, send},
};
use platform::pty::Size;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    env,
    ffi::OsString,
    fs, path,
    process::Command,
};
use testkit::{
    claude,
    programs::{copy_program, example_program},
    sandbox::Sandbox,
    terminal::{self, Terminal},
    waiting::{assert_success, output, until},
};

const README: &str = include_str!("../../README.md");
const GUIDE: &str = include_str!("../../docs/GUIDE.md");

/// The size of the terminals: the widest line of the documents fits.
const SIZE: Size = Size { rows: 50, cols: 120 };

/// The lengths of the parts of a UUID.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// The endpoint that the documents show.
const ENDPOINT: &str = "/tmp/agent-relay.sock";

/// The directory that the documents show as the person's own.
const PERSON_HOME: &str = "/home/me";

/// The least number of digits of an id on a command line.
const ID_DIGITS_MIN: usize = 4;

const TIMED_OUT: i32 = 4;

const STAND_INS: [&str; 3] = ["claude", "codex", "my-agent"];
const RECIPE: &str = r#"
[[recipe]]
name = "stand-in"
commands = ["claude", "codex", "my-agent"]
composer = ["❯ "]
digits_choose = true
dialog = ["1. Yes"]
busy_status = ["^working"]
"#;

/// A script with hooks that begins a turn of its conversation, and runs until it is removed.
const CLAUDE: &str = r#"
echo ready
until "$RELAY" agents "$AGENT_RELAY_AGENT" --json | grep -q '"activity":"working"'; do
    echo '{"session_id":"c0ffee","prompt":"Work."}' | hook UserPromptSubmit
done
while [ -e "$0" ]; do sleep 0.05; done
"#;

/// A command and its output.
#[derive(Clone, Debug)]
struct Step {
    words: Vec<String>,
    printed: String,
}

/// One section of a document, with the commands that have not been played yet.
struct Recipe {
    sandbox: Sandbox,
    steps: VecDeque<Step>,
    /// The ids that stand for the printed ones.
    ids: BTreeMap<String, String>,
    /// The reply of started agents to each message.
    answer: Option<&'static str>,
}

/// A command that runs in a terminal.
struct Running {
    terminal: Terminal,
    step: Step,
}

impl Recipe {
    #[track_caller]
    fn of(heading: &str) -> Self {
        let found = sections().into_iter().find(|(known, _)| *known == heading);
        let (_, steps) = found.unwrap_or_else(|| panic!("no commands under {heading:?}"));
        let sandbox = Sandbox::new();
        fs::write(sandbox.home().join("recipes.toml"), RECIPE).unwrap();
        let programs = sandbox.directory().join("programs");
        fs::create_dir(&programs).unwrap();
        for name in STAND_INS {
            let program = programs.join(format!("{name}{}", env::consts::EXE_SUFFIX));
            copy_program(example_program("toy"), &program);
        }
        Self { sandbox, steps: steps.into(), ids: BTreeMap::new(), answer: None }
    }

    /// Starts the next command, in a directory of the sandbox.
    #[track_caller]
    fn start_in(&mut self, directory: &str) -> Running {
        let mut step = self.steps.pop_front().expect("another command in the document");
        for word in &mut step.words {
            let begins = |(printed, _): &(&String, &String)| printed.starts_with(word.as_str());
            let id = self.ids.iter().find(begins).filter(|_| word.len() >= ID_DIGITS_MIN);
            if let Some((_, id)) = id {
                *word = id[..word.len()].to_owned();
            }
        }
        assert_eq!(step.words[0], "agent-relay");
        step.printed = step.printed.replace(ENDPOINT, self.sandbox.endpoint().as_text());
        let home = self.sandbox.directory().to_str().unwrap();
        step.printed = step.printed.replace(PERSON_HOME, home);
        let program = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let program = program.to_str().unwrap().to_owned();
        let line: Vec<_> = [program].into_iter().chain(step.words[1..].iter().cloned()).collect();
        let directory = self.sandbox.directory().join(directory);
        fs::create_dir_all(&directory).unwrap();
        let terminal = Terminal::start(&line, &self.environment(), &directory, SIZE);
        Running { terminal, step }
    }

    #[track_caller]
    fn start(&mut self) -> Running {
        self.start_in("project")
    }

    /// Runs the next command to its end.
    #[track_caller]
    fn play(&mut self, code: i32) {
        let running = self.start();
        self.finish(running, code);
    }

    /// Waits for the end of a command, and compares its output.
    #[track_caller]
    fn finish(&mut self, running: Running, code: i32) {
        let Running { terminal, step } = running;
        terminal.wait_until_end();
        let shown = terminal.text().trim_end().to_owned();
        assert_eq!(terminal.finish(), code, "{step:?}\n{shown}");
        let (printed, shown_tokens) = (tokens(&step.printed), tokens(&shown));
        let mut ids = self.ids.clone();
        let is_same = printed.len() == shown_tokens.len()
            && printed
                .iter()
                .zip(&shown_tokens)
                .all(|(printed, shown)| is_as_printed(printed, shown, &mut ids));
        assert!(is_same, "{:?} prints\n{shown}\nand not\n{}", step.words, step.printed);
        self.ids = ids;
    }

    /// Waits until a command that keeps running shows each expected line.
    #[track_caller]
    fn shows(&mut self, running: &Running) {
        for line in running.step.printed.lines() {
            let line = tokens(line);
            running.terminal.wait_until(&format!("{line:?}"), |screen| {
                let screen = tokens(screen);
                screen.windows(line.len()).any(|shown| {
                    let mut ids = self.ids.clone();
                    line.iter().zip(shown).all(|(line, shown)| is_as_printed(line, shown, &mut ids))
                })
            });
        }
    }

    /// The environment of a person's terminal, without the tests' own variables.
    fn environment(&self) -> Vec<(OsString, Option<OsString>)> {
        let own = env::vars_os().map(|(name, _)| name);
        let foreign = own.filter(|name| {
            let name = name.to_string_lossy();
            ["AGENT_RELAY", "CLAUDE", "CODEX", "GEMINI", "XDG_"].iter().any(|p| name.starts_with(p))
        });
        let mut environment: Vec<_> = foreign.map(|name| (name, None)).collect();
        environment.extend(terminal::environment(&self.sandbox));
        let path = env::var_os("PATH").unwrap_or_default();
        let programs = [self.sandbox.directory().join("programs")];
        let path = env::join_paths(programs.into_iter().chain(env::split_paths(&path))).unwrap();
        environment.extend([
            ("PATH".into(), Some(path)),
            ("NO_COLOR".into(), Some("1".into())),
            ("TOY_ANSWER".into(), self.answer.map(OsString::from)),
        ]);
        environment
    }

    /// Starts an agent that the document does not start.
    fn agent(&self, name: &str) -> Terminal {
        let program = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let line = [program.to_str().unwrap(), "run", name, "--", "codex"];
        let terminal = Terminal::start(&line, &self.environment(), self.sandbox.directory(), SIZE);
        terminal.wait_for("ready");
        self.is_in_state(name, "idle");
        terminal
    }

    /// Makes `claude` a script that continues conversations.
    fn has_conversations(&self) {
        claude::install_with_hooks(&self.sandbox, CLAUDE);
        let directory = self.sandbox.directory();
        for file in ["claude", "package.json"] {
            fs::rename(directory.join(file), directory.join("programs").join(file)).unwrap();
        }
        fs::remove_file(self.sandbox.home().join("recipes.toml")).unwrap();
    }

    /// Starts Claude Code in a directory, and waits until its conversation is recorded.
    #[track_caller]
    fn claude_in(&mut self, directory: &str, name: &str) -> Running {
        self.steps.push_front(command("agent-relay claude"));
        let agent = self.start_in(directory);
        let record = self.sandbox.home().join(format!("agents/{name}.json"));
        until("the conversation is recorded", || {
            fs::read_to_string(&record).is_ok_and(|text| text.contains("c0ffee"))
        });
        agent
    }

    /// Waits until an agent that was started with its brief has read it, and is idle.
    #[track_caller]
    fn is_briefed(&self, name: &str, agent: &Running) {
        agent.terminal.wait_for("heard ");
        self.is_in_state(name, "idle");
    }

    /// Waits until an agent is in a state. One that is idle also has nothing left to be typed. Only
    /// its wrapper knows that, and a row without a source is the daemon's alone.
    #[track_caller]
    fn is_in_state(&self, name: &str, state: &str) {
        self.sandbox.wait_until(&format!("{name} is {state}"), |agents| {
            agents.iter().any(|agent| {
                let is_done =
                    state != "idle" || agent["waiting"] == 0 && agent["source"].is_object();
                agent["name"] == name && agent["activity"] == state && is_done
            })
        });
    }

    /// Waits until no message waits for an agent.
    #[track_caller]
    fn is_all_typed(&self) {
        let mut operator = self.sandbox.operator();
        until("everything is typed", || {
            operator.agents().iter().all(|agent| agent["queued"] == 0 && agent["in_flight"] == 0)
        });
    }

    /// Lets a client send a message, and waits until it is accepted.
    #[track_caller]
    fn send(&self, from: &str, to: &str, body: &str) {
        run(&self.sandbox, &["send", "--as", from, to, body], DONE);
    }

    /// Checks that every command has been played. Agents end before the sandbox does, since theirs
    /// would start another daemon.
    #[track_caller]
    fn end(&self) {
        assert!(self.steps.is_empty(), "not played: {:?}", self.steps);
    }
}

impl Drop for Recipe {
    /// Ends the scripts that run as `claude`: a failed test has not stopped those without terminals.
    fn drop(&mut self) {
        let program = format!("claude{}", env::consts::EXE_SUFFIX);
        // A program that runs cannot be removed on Windows, but ends with its terminal there.
        drop(fs::remove_file(self.sandbox.directory().join("programs").join(program)));
    }
}

/// The sections of both documents, each up to the next heading.
fn parts() -> impl Iterator<Item = &'static str> {
    let parts = [README, GUIDE].into_iter().flat_map(|document| document.split("\n## ").skip(1));
    parts.flat_map(|part| part.split("\n### "))
}

/// The sections that have commands, with these.
fn sections() -> Vec<(&'static str, Vec<Step>)> {
    let sections = parts().map(|part| (part.lines().next().unwrap(), steps(part)));
    sections.filter(|(_, steps)| !steps.is_empty()).collect()
}

fn steps(part: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for fence in fences(part, "console") {
        for line in fence {
            match line.strip_prefix("$ ") {
                Some(line) => steps.push(command(line)),
                None => {
                    let step = steps.last_mut().expect("a command first");
                    step.printed.push_str(line);
                    step.printed.push('\n');
                }
            }
        }
    }
    steps
}

/// A command that prints nothing.
fn command(line: &str) -> Step {
    Step { words: words(line), printed: String::new() }
}

/// The lines of all fences in a language.
fn fences<'a>(part: &'a str, language: &str) -> Vec<Vec<&'a str>> {
    let (opening, mut found) = (format!("```{language}"), Vec::new());
    let mut lines = part.lines();
    while lines.by_ref().any(|line| line == opening) {
        found.push(lines.by_ref().take_while(|line| *line != "```").collect());
    }
    found
}

/// The words of a command; double quotes group them.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('"').enumerate().flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    parts.map(str::to_owned).collect()
}

/// The words, numbers and marks of a text. A time to be read by a person (`2 min`), a time of day
/// and a date are one token each.
fn tokens(text: &str) -> Vec<String> {
    let mut raw: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        if word.trim_matches(['(', ')']).split('-').map(str::len).eq(UUID_PARTS) {
            raw.push("UUID".to_owned());
            continue;
        }
        let mut is_inside = false;
        for character in word.chars() {
            match raw.last_mut() {
                Some(last) if is_inside && character.is_alphanumeric() => last.push(character),
                _ => raw.push(character.to_string()),
            }
            is_inside = character.is_alphanumeric();
        }
    }
    let mut tokens: Vec<String> = Vec::new();
    for token in raw {
        let before = tokens.last().map_or("", String::as_str);
        let is_unit = ["ms", "s", "min", "h", "days"].contains(&token.as_str());
        if is_unit && is_number(before) {
            tokens.pop();
            if tokens.last().is_none_or(|last| last != "TIME") {
                tokens.push("TIME".to_owned());
            }
        } else if is_number(&token) && before == "process" {
            tokens.push("PROCESS".to_owned());
        } else if is_number(&token) && [":", "-"].contains(&before) && is_clock(&tokens) {
            tokens.truncate(tokens.len() - 2);
            tokens.push("CLOCK".to_owned());
        } else {
            tokens.push(token);
        }
    }
    tokens
}

fn is_number(token: &str) -> bool {
    token.bytes().all(|byte| byte.is_ascii_digit()) && !token.is_empty()
}

/// Reports whether the tokens end with a number and a mark.
fn is_clock(tokens: &[String]) -> bool {
    matches!(tokens, [.., before, _] if before == "CLOCK" || is_number(before))
}

/// Reports whether a token is as it is printed, or another one where values may differ.
fn is_as_printed(printed: &str, shown: &str, ids: &mut BTreeMap<String, String>) -> bool {
    let is_id =
        |token: &str| token.len() == 8 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id(printed) && is_id(shown) {
        return ids.entry(printed.to_owned()).or_insert_with(|| shown.to_owned()) == shown;
    }
    printed == shown
}

/// Checks that each section with commands is the recipe of a test of this file, that no command
/// stands in another fence, and that scripts are played.
#[test]
fn all_commands_are_played() {
    let source = include_str!("using.rs");
    let headings: BTreeSet<_> = sections().into_iter().map(|(heading, _)| heading).collect();
    assert!(headings.len() > 16, "{headings:?}");
    for heading in headings {
        assert!(source.contains(&format!("Recipe::of(\"{heading}\")")), "{heading:?}");
    }
    let pieces: Vec<_> = GUIDE.split("```").collect();
    for piece in pieces.chunks_exact(2) {
        let (before, fence) = (piece[0], piece[1]);
        // `day` plays the screens between markers.
        let is_played = fence.starts_with("console\n")
            || fence.starts_with("sh\n")
            || before.ends_with("begin -->\n");
        assert!(is_played || !fence.contains("agent-relay"), "{fence}");
    }
    for line in fences(README, "text").concat() {
        assert!(!line.starts_with("agent-relay"), "{line}");
    }
}

#[test]
fn installed_version_is_shown() {
    let mut recipe = Recipe::of("Install");
    recipe.play(DONE);
    recipe.end();
}

#[test]
fn first_use() {
    let mut recipe = Recipe::of("First use");
    let mut web = recipe.start_in("web");
    recipe.is_briefed("web", &web);
    let api = recipe.start_in("api");
    recipe.is_briefed("api", &api);
    web.terminal.press("say api Which port does your server listen on?\r");
    recipe.end();
}

#[test]
fn my_message_has_not_arrived() {
    let mut recipe = Recipe::of("My message has not arrived");
    let mut bob = recipe.agent("Bob");
    bob.press("half a line");
    bob.wait_for("half a line");
    recipe.send("Ann", "Bob", "Which port?");
    until("the reason is known", || {
        let waiting = out(&run(&recipe.sandbox, &["inbox", "--as", "Bob"], DONE));
        waiting.contains("half typed")
    });
    recipe.play(DONE);
    recipe.end();
}

#[test]
fn two_agents_review_each_other() {
    let mut recipe = Recipe::of("Let two agents review each other");
    let mut ann = recipe.start();
    recipe.is_in_state("Ann", "idle");
    let bob = recipe.start();
    recipe.is_in_state("Bob", "idle");
    recipe.play(DONE);
    recipe.play(DONE);
    ann.terminal.wait_for("[/relay ");
    ann.terminal.press("say Bob parse.rs: an empty file panics.\r");
    bob.terminal.wait_for("an empty file panics.");
    recipe.is_all_typed();
    recipe.play(DONE);
    recipe.end();
}

#[test]
fn three_agents_share_a_topic() {
    let mut recipe = Recipe::of("Share a topic");
    let listeners = [recipe.start(), recipe.start()];
    for listener in &listeners {
        listener.terminal.wait_for("Ctrl-C ends this");
    }
    recipe.play(DONE);
    for listener in &listeners {
        recipe.shows(listener);
    }
    recipe.end();
}

#[test]
fn script_waits_for_an_agent() {
    let mut recipe = Recipe::of("Wait for an agent");
    let _bob = recipe.agent("Bob");
    for _ in 0..3 {
        recipe.play(DONE);
    }
    recipe.play(TIMED_OUT);
    recipe.end();
}

#[test]
fn agent_asked_for_permission() {
    let mut recipe = Recipe::of("Answer an agent that waits for you");
    let mut ann = recipe.agent("Ann");
    ann.press("say @operator The parser is done.\r");
    let mut operator = recipe.sandbox.operator();
    until("the message is in the mailbox", || operator.ask("status", &json!({}))["mailbox"] == 1);
    ann.press("menu\r");
    recipe.is_in_state("Ann", "asks-person");
    recipe.play(DONE);
    let mut attached = recipe.start();
    recipe.shows(&attached);
    attached.terminal.press("1");
    ann.wait_until("the dialog is over", |screen| !screen.contains("Run the tests?"));
    attached.terminal.press("\u{1c}");
    assert_eq!(attached.terminal.finish(), DONE);
    recipe.play(DONE);
    recipe.end();
}

#[test]
fn agent_outlives_its_terminal() {
    let mut recipe = Recipe::of("Get a closed terminal back");
    recipe.has_conversations();
    let tests = recipe.claude_in("tests", "tests");
    recipe.is_in_state("tests", "working");
    tests.terminal.close_window();
    let log = recipe.sandbox.home().join("logs/tests.log");
    until("the log tells of it", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("the agent goes on without it"))
    });
    let mut attached = recipe.start();
    attached.terminal.wait_for("ready");
    attached.terminal.press("\u{1c}");
    assert_eq!(attached.terminal.finish(), DONE);
    run(&recipe.sandbox, &["stop", "tests"], DONE);
    recipe.end();
}

#[test]
fn day_ends_and_begins() {
    let mut recipe = Recipe::of("End the day");
    recipe.has_conversations();
    let _agents = [recipe.claude_in("web", "web"), recipe.claude_in("api", "api")];
    recipe.play(DONE);
    recipe.play(DONE);
    run(&recipe.sandbox, &["stop", "web", "api"], DONE);
    recipe.end();
}

#[test]
fn agent_is_renamed() {
    let mut recipe = Recipe::of("Rename an agent");
    recipe.has_conversations();
    let _web = recipe.claude_in("web", "web");
    let _second = recipe.claude_in("web", "web-2");
    for _ in 0..3 {
        recipe.play(DONE);
    }
    run(&recipe.sandbox, &["stop", "reviewer"], DONE);
    recipe.end();
}

#[test]
fn conversation_is_found_again() {
    let mut recipe = Recipe::of("Find a conversation");
    let mut bob = recipe.agent("Bob");
    recipe.play(DONE);
    recipe.is_all_typed();
    recipe.play(DONE);
    let asking = recipe.start();
    bob.wait_for("Which test is slow?");
    recipe.is_all_typed();
    bob.press("answer Only parse_large.\r");
    recipe.finish(asking, DONE);
    for _ in 0..3 {
        recipe.play(DONE);
    }
    recipe.end();
}

/// Checks the lengths of the texts with token counts in the document.
#[test]
fn texts_are_as_long_as_their_tokens_say() {
    let part = parts().find(|part| part.starts_with("What a message costs\n")).unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| the "));
    let shown: Vec<_> = rows.map(|row| row.split(" | ").nth(1).unwrap()).collect();
    let sandbox = Sandbox::new();
    let brief = out(&run(&sandbox, &["brief", "web"], DONE));
    let bob = Terminal::wrap(&sandbox, "Bob", &[&example_program("lines")]);
    sandbox.wait_for_agents(&["Bob"]);
    run(&sandbox, &["send", "--as", "Ann", "Bob", "Hello."], DONE);
    bob.wait_for("[/relay ");
    let screen = bob.text();
    let from = screen.find("[relay ").unwrap();
    let to = screen.find("[/relay ").unwrap() + "[/relay 7f3a9c]".len();
    let frame = screen[from..to].replace("Hello.", "");
    let marks = "->relay:Bob <<<\n>>>";
    let reply = "->relay:Bob [reply:1a2b3c4d] <<<\n>>>";
    let measured = [&brief, &*frame, marks, reply].map(|text| text.chars().count().to_string());
    assert_eq!(shown[..measured.len()], measured);
}

#[test]
fn who_said_what_yesterday() {
    let mut recipe = Recipe::of("Read what was said yesterday");
    let _bob = recipe.agent("Bob");
    recipe.send("Ann", "Bob", "Which port does the server use?");
    recipe.is_all_typed();
    for _ in 0..3 {
        recipe.play(DONE);
    }
    recipe.end();
}

#[test]
fn script_asks_an_agent() {
    let mut recipe = Recipe::of("Ask in a script");
    recipe.answer = Some("Port 8125.");
    let bob = recipe.agent("Bob");
    recipe.play(DONE);
    drop(bob);
    recipe.answer = None;
    let mut bob = recipe.agent("Bob");
    recipe.play(TIMED_OUT);
    bob.wait_for("heard ");
    bob.press("answer Only parse_large.\r");
    recipe.play(DONE);
    recipe.end();
}

#[test]
fn agent_is_not_disturbed() {
    let mut recipe = Recipe::of("Keep messages from an agent");
    let ann = recipe.agent("Ann");
    for _ in 0..4 {
        recipe.play(DONE);
    }
    ann.wait_for("Lunch?");
    recipe.end();
}

#[test]
fn message_did_not_arrive() {
    let mut recipe = Recipe::of("Find a message that did not arrive");
    recipe.sandbox.join("Bob").leave();
    recipe.send("Ann", "Bob", "Which port does the server use?");
    recipe.play(DONE);
    recipe.play(DONE);
    let line = ["send", "--as", "Ann", "--ttl", "10ms", "Bob", "Are you there?"];
    run(&recipe.sandbox, &line, DONE);
    until("the message is dead", || {
        !run(&recipe.sandbox, &["history", "--dead", "--json"], DONE).stdout.is_empty()
    });
    recipe.play(DONE);
    recipe.play(DONE);
    recipe.end();
}

#[test]
fn nightly_job_starts_an_agent() {
    let mut recipe = Recipe::of("Run a nightly job");
    recipe.answer = Some("All 214 tests pass.");
    for _ in 0..4 {
        recipe.play(DONE);
    }
    recipe.end();
}

#[test]
fn agents_of_two_projects() {
    let mut recipe = Recipe::of("Work on two projects");
    let web = recipe.start_in("web");
    recipe.is_briefed("web", &web);
    recipe.steps.push_front(command("agent-relay claude"));
    let api = recipe.start_in("api");
    recipe.is_briefed("api", &api);
    recipe.play(DONE);
    recipe.play(DONE);
    recipe.end();
}

#[test]
fn project_has_a_team() {
    let heading = "Start a project's team";
    let mut recipe = Recipe::of("Start a project's team");
    let shop = recipe.sandbox.directory().join("shop");
    fs::create_dir(&shop).unwrap();
    let part = parts().find(|part| part.starts_with(heading)).unwrap();
    fs::write(shop.join("agents.toml"), fences(part, "toml").concat().join("\n")).unwrap();
    let author = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
    for words in [&["init", "--quiet"][..], &["commit", "--quiet", "--allow-empty", "-m", "first"]]
    {
        let mut git = recipe.sandbox.program("git");
        git.args(author).args(words).current_dir(&shop);
        assert_success(&output(git));
    }
    let printed = &mut recipe.steps[0].printed;
    *printed = printed.replace("/src/shop", shop.to_str().unwrap());
    let mut up = recipe.start_in("shop");
    up.terminal.wait_for("[y/N]");
    up.terminal.press("y\r");
    recipe.finish(up, DONE);
    recipe.play(DONE);
    let down = recipe.start_in("shop");
    recipe.finish(down, DONE);
    recipe.end();
}

#[test]
fn everything_is_seen_live() {
    let mut recipe = Recipe::of("Watch everything live");
    let _bob = recipe.agent("Bob");
    let mut top = recipe.start();
    top.terminal.wait_for("Bob");
    top.terminal.press("q");
    assert_eq!(top.terminal.finish(), DONE);
    let tap = recipe.start();
    tap.terminal.wait_for("Ctrl-C ends this");
    recipe.send("Ann", "Bob", "Which port?");
    recipe.shows(&tap);
    recipe.end();
}

#[test]
fn two_machines_are_linked() {
    let (mut recipe, mut pi) = (Recipe::of("Several machines"), Recipe::of("Several machines"));
    recipe.steps.push_front(command("agent-relay -n Ann claude"));
    let ann = recipe.start_in("web");
    recipe.is_briefed("Ann", &ann);
    pi.steps = [command("agent-relay -n Bob codex")].into();
    let bob = pi.start_in("api");
    pi.is_briefed("Bob", &bob);
    // Runs `stdio` in the other sandbox, in place of ssh.
    let program = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let (home, endpoint) = (pi.sandbox.home(), pi.sandbox.endpoint());
    let there = [program.to_str().unwrap(), "--home", home.to_str().unwrap(), "--endpoint"];
    let there = there.into_iter().chain([endpoint.as_text()]).map(str::to_owned);
    let words = &mut recipe.steps[0].words;
    assert_eq!(words[6..9], ["ssh", "pi", "agent-relay"]);
    words.splice(6..9, there.collect::<Vec<_>>());
    let link = recipe.start();
    let linked = "linked to pi: Bob@pi here, Ann there";
    assert!(link.step.printed.trim_end().ends_with(linked));
    link.terminal.wait_for(linked);
    until("Bob's program is known", || {
        out(&run(&recipe.sandbox, &["agents"], DONE)).contains("codex")
    });
    recipe.play(DONE);
    recipe.end();
}

/// The script of a document for sh.
#[test]
fn scripts_of_sh_work() {
    let scripts = fences(GUIDE, "sh");
    assert_eq!(scripts.len(), 1);
    let mut recipe = Recipe::of("Wait for an agent");
    let _bob = recipe.agent("Bob");
    let programs = recipe.sandbox.directory().join("programs");
    copy_program(env!("CARGO_BIN_EXE_agent-relay"), &programs.join("agent-relay"));
    let line = ["sh", "-c", &scripts[0].join("\n")];
    let directory = recipe.sandbox.directory();
    let script = Terminal::start(&line, &recipe.environment(), directory, SIZE);
    script.wait_until_end();
    let shown = script.text();
    assert_eq!((script.finish(), shown.trim()), (DONE, ""));
    let agents = fs::read_to_string(directory.join("agents.txt")).unwrap();
    assert!(agents.contains("\"name\":\"Bob\""), "{agents}");
    recipe.steps.clear();
}

/// The program of a document, and one that answers before it has read a message's last line.
#[test]
fn programs_that_read_lines_take_part() {
    let mut recipe = Recipe::of("A program of mine");
    let words = recipe.steps.pop_front().expect("a command").words;
    let [options @ .., _, _] = &words[2..] else { panic!("{words:?}") };
    assert_eq!(
        (&*words[1], options),
        ("run", &["Carl", "--accepts-text", "--"].map(str::to_owned)[..])
    );
    let mut python = Command::new("python3");
    python.args(["-c", "import sys; print(sys.executable)"]);
    let python = output(python).stdout;
    let python = String::from_utf8(python).unwrap();
    recipe.end();
    let document = fences(GUIDE, "python").concat().join("\n");
    let hasty = "import sys\n\nfor line in sys.stdin:\n    if line.startswith('[relay '):\n        \
                 print('->relay:Bob <<<\\nseen>>>\\nReady.', flush=True)\n";
    for (program, answer) in [(&*document, "I got 2 lines."), (hasty, "seen")] {
        let sandbox = Sandbox::new();
        let mut bob = sandbox.join("Bob");
        let path = sandbox.directory().join("agent.py");
        fs::write(&path, program).unwrap();
        let command = [python.trim(), path.to_str().unwrap()];
        let _carl = Terminal::wrap_with(&sandbox, &["-n", "Carl", "--accepts-text"], &command);
        sandbox.wait_for_agents(&["Carl"]);
        for _ in 0..3 {
            send(&mut bob, "Carl", "one\ntwo");
            expect_message(&mut bob, "Carl", answer);
        }
    }
}
