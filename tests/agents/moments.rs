//! Messages that reach an agent through its CLI's hooks while something else happens: the
//! conversation is cleared, compacted or resumed, the turn is interrupted, a question is open,
//! another agent also runs, or a process dies.
//!
//! Each message arrives. It arrives more than once only if no record showed it before; then it is
//! marked `again`.

use crate::{
    cli::{Agent, Cli, Workspace},
    hooks::permit,
    peer::{Peer, await_report, frame_body},
    processes,
    routes::told_ids,
};
use platform::{clock, pty::Size};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use testkit::{
    model::{
        Asked, Model, Reply,
        frames::{Frame, frames},
    },
    sandbox::Sandbox,
    waiting::{output, until},
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// The message after each of the others. A repeated message would arrive before it.
const LAST: &str = "and this is the last";

/// A half-typed prompt of the person.
const DRAFT: &str = "a draft";

/// The frames in the model's requests, by digits and in the order of arrival.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<(HashSet<String>, Vec<Frame>)>>);

impl Arrivals {
    fn note(&self, asked: &Asked) {
        let (known, all) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = frames(&asked.request).into_iter().filter(|f| known.insert(f.hex.clone()));
        all.extend(new);
    }

    fn of(&self, body: &str) -> Vec<Frame> {
        let (_, all) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|frame| frame.body == body).cloned().collect()
    }
}

/// A model that answers "Work NAME." with a command, and reads its messages with a second command.
/// Each command runs until the test creates a file.
fn working_model(arrivals: Arrivals) -> Model {
    let relay = env!("CARGO_BIN_EXE_agent-relay");
    let mut read = HashSet::new();
    Model::start(move |asked| {
        arrivals.note(asked);
        let name = asked.prompt.strip_prefix("Work ").and_then(|rest| rest.strip_suffix('.'));
        let told: Vec<_> =
            told_ids(&asked.request).into_iter().filter(|id| !read.contains(id)).collect();
        match (name, &*told) {
            (Some("asking"), _) if asked.result.is_none() => {
                Reply::new().calls("AskUserQuestion", question())
            }
            (Some(name), []) if asked.result.is_none() => Reply::new().runs(until_file(name)),
            (Some(name), [id, ..]) => {
                let command = format!("{relay} read {id}; {}", until_file(&format!("{name}-read")));
                read.extend(told);
                Reply::new().runs(command)
            }
            _ => Reply::new().says("Noted."),
        }
    })
}

/// A command that creates a file, and runs until there is another.
fn until_file(name: &str) -> String {
    format!("touch runs-{name}; until test -e go-{name}; do sleep 0.05; done")
}

fn question() -> Value {
    let option = |label| json!({"label": label, "description": "a port"});
    json!({"questions": [{
        "question": "Which port is it?", "header": "Port", "multiSelect": false,
        "options": [option("8080"), option("9090")],
    }]})
}

/// A wrapped CLI, and a peer that writes to it.
struct Scene<'a> {
    sandbox: &'a Sandbox,
    workspace: &'a Workspace<'a>,
    arrivals: Arrivals,
    bob: Peer,
    agents: BTreeMap<&'static str, Agent>,
}

/// Plays a scene with a CLI.
fn play(cli: Cli, scene: impl FnOnce(&mut Scene<'_>)) {
    let arrivals = Arrivals::default();
    let (model, sandbox) = (working_model(arrivals.clone()), Sandbox::new());
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    play_in(&sandbox, &workspace, arrivals, scene);
}

fn play_in(
    sandbox: &Sandbox,
    workspace: &Workspace<'_>,
    arrivals: Arrivals,
    scene: impl FnOnce(&mut Scene<'_>),
) {
    let bob = Peer::join(sandbox, "Bob");
    let mut all = Scene { sandbox, workspace, arrivals, bob, agents: BTreeMap::new() };
    all.start("Ann", &[]);
    scene(&mut all);
}

impl Scene<'_> {
    fn start(&mut self, name: &'static str, more: &[&str]) {
        let allowed: &[&str] = match self.workspace.cli {
            Cli::Claude => &["--permission-mode=default", "--allowedTools=Bash"],
            _ => &[],
        };
        let agent = self.workspace.wrap(name, SIZE, &[allowed, more].concat());
        agent.wait_until_idle();
        self.agents.insert(name, agent);
    }

    fn ann(&mut self) -> &mut Agent {
        self.agents.get_mut("Ann").unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.workspace.project().join(name)
    }

    /// Waits until the model's command with this name runs.
    #[track_caller]
    fn await_command(&mut self, agent: &'static str, name: &str) {
        permit(self.agents.get_mut(agent).unwrap());
        let made = self.file(&format!("runs-{name}"));
        let agent = &self.agents[agent];
        agent.with_screen_on_panic(|| until("the command runs", || made.exists()));
    }

    fn end_command(&self, name: &str) {
        fs::write(self.file(&format!("go-{name}")), "").unwrap();
    }

    /// Lets an agent work until it has read a message. The reading command keeps running.
    #[track_caller]
    fn read_while_working(&mut self, agent: &'static str, name: &str, body: &str) {
        self.agents.get_mut(agent).unwrap().submit(&format!("Work {name}."));
        self.await_command(agent, name);
        let id = self.bob.send(agent, body);
        await_report(self.sandbox, &self.agents[agent], &id, "waiting", "at work");
        self.end_command(name);
        self.await_command(agent, &format!("{name}-read"));
    }

    /// Waits until a message has arrived, and checks that only marked copies followed it.
    #[track_caller]
    fn await_arrival(&self, agent: &str, body: &str) -> Vec<Frame> {
        let agent = &self.agents[agent];
        agent.with_screen_on_panic(|| until(body, || !self.arrivals.of(body).is_empty()));
        let found = self.arrivals.of(body);
        let is_marked = |frame: &Frame| frame.head.contains(", again]");
        assert!(found[1..].iter().all(is_marked), "{found:?}");
        found
    }

    /// Checks that each message arrived, and that only marked copies followed the first ones.
    #[track_caller]
    fn check_all(&mut self, bodies: &[&str]) {
        self.ann().wait_until_idle();
        self.bob.send("Ann", LAST);
        for body in [bodies, &[LAST]].concat() {
            self.await_arrival("Ann", body);
        }
    }

    /// Checks that a message arrived once.
    #[track_caller]
    fn check_once(&self, body: &str) {
        let found = self.arrivals.of(body);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    fn type_draft(&mut self) {
        self.ann().terminal.press(DRAFT);
        self.await_draft();
    }

    /// Waits until the person's line shows the draft.
    #[track_caller]
    fn await_draft(&mut self) {
        self.ann().terminal.wait_until_screen("the draft", |screen| {
            let line = screen.row(screen.cursor().row).text.replace('\u{a0}', " ");
            line.trim_end() == format!("❯ {DRAFT}")
        });
    }

    /// Submits the draft in the person's line.
    #[track_caller]
    fn submit_draft(&mut self) {
        self.ann().wait_until_still();
        self.await_draft();
        self.ann().terminal.press("\r");
        self.ann().wait_until_still();
        self.erase_draft();
    }

    /// Erases the draft. Claude Code may show it once more after it was submitted.
    #[track_caller]
    fn erase_draft(&mut self) {
        self.ann().wait_until_still();
        self.ann().terminal.press(&"\u{7f}".repeat(DRAFT.len()));
        self.ann().wait_until_idle();
    }

    /// Sends a message and waits until the agent has it. A repeated message would come before it.
    #[track_caller]
    fn settle(&mut self, body: &str) {
        self.bob.send("Ann", body);
        self.await_arrival("Ann", body);
        self.ann().wait_until_idle();
    }
}

fn cleared_compacted_and_resumed(scene: &mut Scene<'_>) {
    scene.bob.send("Ann", "one");
    scene.await_arrival("Ann", "one");
    scene.ann().wait_until_idle();
    scene.ann().enter_command("/clear");
    scene.ann().terminal.wait_until("an empty screen", |text| !text.contains("Noted."));
    scene.ann().wait_until_idle();
    scene.read_while_working("Ann", "cleared", "two");
    scene.end_command("cleared-read");
    scene.await_arrival("Ann", "two");
    scene.ann().wait_until_idle();
    scene.ann().enter_command("/compact");
    scene.bob.send("Ann", "three");
    scene.await_arrival("Ann", "three");
    scene.ann().wait_until_idle();
    if scene.workspace.cli == Cli::Claude {
        scene.type_draft();
        scene.bob.send("Ann", "four");
        scene.await_arrival("Ann", "four");
        scene.erase_draft();
    }
    scene.ann().wait_until_still();
    scene.ann().enter_command("/resume");
    let picker = match scene.workspace.cli {
        Cli::Claude => "Resume session",
        _ => "Resume a previous session",
    };
    scene.ann().terminal.wait_for(picker);
    let id = scene.bob.send("Ann", "five");
    await_report(scene.sandbox, &scene.agents["Ann"], &id, "waiting", "");
    scene.ann().take_first_of(picker);
    scene.check_all(&["one", "two", "three", "five"]);
    ["one", "two", "three", "five", LAST].iter().for_each(|body| scene.check_once(body));
}

#[test]
fn claude_is_reached_in_a_cleared_compacted_and_resumed_conversation() {
    play(Cli::Claude, cleared_compacted_and_resumed);
}

#[test]
fn codex_is_reached_in_a_cleared_compacted_and_resumed_conversation() {
    play(Cli::Codex, cleared_compacted_and_resumed);
}

/// A message delivered over a draft begins no turn in the conversation that the person has left.
#[test]
fn codex_new_conversation_gets_a_message_that_waited_for_a_draft() {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, Cli::Codex, &model, "ann");
    let mut agent = workspace.wrap("Ann", SIZE, &[]);
    agent.wait_until_idle();
    agent.submit("the old conversation");
    agent.with_screen_on_panic(|| model.wait_for_answers(1));
    agent.wait_until_idle();
    agent.enter_command("/new");
    agent.terminal.wait_until("an empty screen", |text| !text.contains("Noted."));
    agent.wait_until_idle();
    agent.terminal.press(DRAFT);
    agent.terminal.wait_for(&format!("› {DRAFT}"));
    let sent = bob.send("Ann", "two");
    await_report(&sandbox, &agent, &sent, "waiting", "half typed");
    let waited_ms = || {
        let listed = output(sandbox.command(["agents", "--json"])).stdout;
        let mut rows = listed.split(|byte| *byte == b'\n').map(serde_json::from_slice::<Value>);
        let row = rows.find_map(|row| row.ok().filter(|row| row["name"] == "Ann"));
        row.unwrap_or_default()["why_since"]
            .as_u64()
            .map_or(0, |since| clock::unix_ms().saturating_sub(since))
    };
    // The wrapper wakes an agent after one second.
    agent.with_screen_on_panic(|| until("the message has waited", || waited_ms() > 3000));
    agent.terminal.press(&"\u{7f}".repeat(DRAFT.len()));
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(2));
    assert_eq!(frame_body(&asked[1].prompt), "two");
    let request = asked[1].request.to_string();
    assert!(!request.contains("the old conversation"), "{request}");
}

/// Checks an interrupt after the agent's command has printed a message but before its result is
/// recorded.
fn interrupted_reading(scene: &mut Scene<'_>) {
    scene.read_while_working("Ann", "long", "the walrus");
    scene.ann().terminal.press("\x1b");
    let found = scene.await_arrival("Ann", "the walrus");
    assert!(found.last().unwrap().head.contains(", again]"), "{found:?}");
    scene.check_all(&[]);
}

#[test]
fn claude_message_of_an_interrupted_reading_is_redelivered() {
    play(Cli::Claude, interrupted_reading);
}

#[test]
fn codex_message_of_an_interrupted_reading_is_redelivered() {
    play(Cli::Codex, interrupted_reading);
}

#[test]
fn claude_question_to_the_person_stays_unanswered() {
    play(Cli::Claude, |scene| {
        scene.ann().submit("Work asking.");
        scene.ann().terminal.wait_for("Which port is it?");
        let id = scene.bob.send("Ann", "1");
        await_report(scene.sandbox, &scene.agents["Ann"], &id, "waiting", "asks a question");
        scene.end_command("asking-read");
        scene.ann().answer("Which port is it?", "\r");
        scene.check_all(&["1"]);
        scene.check_once("1");
    });
}

/// Checks two agents in one folder. Each reads only its own message.
fn twins_read_their_own_messages(scene: &mut Scene<'_>) {
    scene.start("Cid", &[]);
    for (name, work, body) in [("Ann", "first", "for Ann"), ("Cid", "second", "for Cid")] {
        scene.read_while_working(name, work, body);
    }
    for work in ["second-read", "first-read"] {
        scene.end_command(work);
    }
    for (name, body) in [("Ann", "for Ann"), ("Cid", "for Cid")] {
        scene.await_arrival(name, body);
        scene.check_once(body);
    }
    scene.check_all(&[]);
}

#[test]
fn claude_twins_read_their_own_messages() {
    play(Cli::Claude, twins_read_their_own_messages);
}

#[test]
fn codex_twins_of_one_daemon_read_their_own_messages() {
    let arrivals = Arrivals::default();
    let (model, sandbox) = (working_model(arrivals.clone()), Sandbox::new());
    let workspace = Workspace::with_daemon(&sandbox, Cli::Codex, &model, "ann");
    play_in(&sandbox, &workspace, arrivals, twins_read_their_own_messages);
}

/// The process to kill while a message is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Wrapper,
    Daemon,
    Hook,
}

impl Scene<'_> {
    /// The words of a hook's command line.
    fn hook_words<'b>(&'b self, event: &'b str) -> [&'b str; 3] {
        [self.sandbox.directory().to_str().unwrap(), "hook", event]
    }

    #[track_caller]
    fn kill_wrapper(&mut self) {
        processes::kill_one(self.ann().terminal.pty.pid());
        // The CLI may outlive its terminal for a while.
        processes::kill_in(&self.workspace.project());
        self.start("Ann", self.workspace.cli.resume_arguments());
    }

    fn kill_daemon(&self) {
        let directory = self.sandbox.directory().to_str().unwrap();
        assert!(processes::kill(&[directory, "up"]) > 0, "no daemon runs");
    }

    /// Kills the hook of an event while the stopped wrapper does not answer it. `cause` triggers
    /// the event.
    #[track_caller]
    fn kill_hook(&mut self, event: &str, cause: impl FnOnce(&mut Self)) {
        let wrapper = self.ann().terminal.pty.pid();
        processes::signal(wrapper, "STOP");
        cause(self);
        let words = self.hook_words(event).map(str::to_owned);
        let words = words.each_ref().map(String::as_str);
        until("the hook runs", || processes::kill(&words) > 0);
        processes::signal(wrapper, "CONT");
    }

    /// Kills a process while a message is typed.
    #[track_caller]
    fn typed(&mut self, victim: Victim) {
        self.bob.send("Ann", "typed");
        self.ann().terminal.wait_for(" from Bob, id ");
        match victim {
            Victim::Wrapper => self.kill_wrapper(),
            Victim::Daemon => self.kill_daemon(),
            // The hook may have ended before it is found.
            Victim::Hook => {
                let words = self.hook_words("UserPromptSubmit");
                until("the prompt", || {
                    processes::kill(&words) > 0 || !self.arrivals.of("typed").is_empty()
                });
            }
        }
        self.await_arrival("Ann", "typed");
        self.settle("after typing");
    }

    /// Kills a process after a command of the agent has printed a message.
    #[track_caller]
    fn read(&mut self, victim: Victim) {
        self.read_while_working("Ann", "long", "read");
        match victim {
            Victim::Wrapper => self.kill_wrapper(),
            Victim::Daemon => {
                self.kill_daemon();
                self.end_command("long-read");
            }
            Victim::Hook => self.kill_hook("PostToolUse", |scene| scene.end_command("long-read")),
        }
        self.await_arrival("Ann", "read");
        self.settle("after reading");
    }

    /// Kills a process after a hook has begun a turn with a message, or kills the hook before that.
    #[track_caller]
    fn woken(&mut self, victim: Victim) {
        self.type_draft();
        if victim == Victim::Hook {
            let words = self.hook_words("Wait");
            until("a hook waits", || processes::kill(&words) > 0);
        }
        let id = self.bob.send("Ann", "woken");
        if victim == Victim::Hook {
            await_report(self.sandbox, &self.agents["Ann"], &id, "waiting", "half typed");
            self.erase_draft();
        }
        self.await_arrival("Ann", "woken");
        match victim {
            Victim::Wrapper => self.kill_wrapper(),
            Victim::Daemon => {
                self.kill_daemon();
                self.submit_draft();
            }
            Victim::Hook => {}
        }
        self.await_arrival("Ann", "woken");
    }
}

fn message_survives_a_death(cli: Cli, victim: Victim) {
    play(cli, |scene| {
        // A conversation can be resumed after its first prompt.
        scene.ann().submit("Hello.");
        scene.ann().terminal.wait_for("Noted.");
        scene.ann().wait_until_idle();
        scene.typed(victim);
        scene.read(victim);
        let mut bodies = vec!["typed", "read"];
        if cli == Cli::Claude {
            scene.woken(victim);
            bodies.push("woken");
        }
        scene.check_all(&bodies);
    });
}

#[test]
fn claude_message_survives_the_death_of_the_wrapper() {
    message_survives_a_death(Cli::Claude, Victim::Wrapper);
}

#[test]
fn claude_message_survives_the_death_of_the_daemon() {
    message_survives_a_death(Cli::Claude, Victim::Daemon);
}

#[test]
fn claude_message_survives_the_death_of_a_hook() {
    message_survives_a_death(Cli::Claude, Victim::Hook);
}

#[test]
fn codex_message_survives_the_death_of_the_wrapper() {
    message_survives_a_death(Cli::Codex, Victim::Wrapper);
}

#[test]
fn codex_message_survives_the_death_of_the_daemon() {
    message_survives_a_death(Cli::Codex, Victim::Daemon);
}

#[test]
fn codex_message_survives_the_death_of_a_hook() {
    message_survives_a_death(Cli::Codex, Victim::Hook);
}
