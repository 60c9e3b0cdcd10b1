//! Two instances of one CLI in one folder: each sends in its own name.

use crate::{
    cli::{Agent, Cli, Workspace},
    peer::{Peer, await_report, frame_body, relay_line},
};
use platform::pty::Size;
use std::{collections::BTreeSet, fs::OpenOptions, io::Write as _, path};
use testkit::{
    model::{Asked, Model, Reply},
    sandbox::Sandbox,
};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// The only prompt that both twins answer identically.
const SAME: &str = "Say the same.";

/// A script that answers with a new number each time.
fn numbered_answers() -> impl FnMut(&Asked) -> Reply + Send + 'static {
    let mut count = 0;
    move |asked| {
        // The wrapper sends this notice if it could not distinguish the twins for some time.
        if asked.prompt.contains("@relay] The relay wrote this") {
            return Reply::new().says("I see.");
        }
        count += 1;
        let word = if asked.prompt == SAME { "none".to_owned() } else { count.to_string() };
        let line = relay_line("Bob", &word);
        Reply::new().says(format!("This is answer {word}, that is.\n\n{line}\n\nSo much for it."))
    }
}

/// Starts both twins, and waits until they are idle.
fn start(workspace: &Workspace<'_>, arguments: &[&str]) -> [Agent; 2] {
    let twins = ["Ann", "Cid"].map(|name| workspace.wrap(name, SIZE, arguments));
    twins.iter().for_each(Agent::wait_until_idle);
    twins
}

/// Waits for a message, checks that only its sender's screen shows its text, and returns the name.
#[track_caller]
fn receive_own(bob: &Peer, twins: &[Agent; 2]) -> &'static str {
    let received = twins[1].with_screen_on_panic(|| bob.receive(&twins[0]));
    let (name, own, other) = match &*received.from {
        "Ann" => ("Ann", &twins[0], &twins[1]),
        _ => ("Cid", &twins[1], &twins[0]),
    };
    assert_eq!(received.from, name);
    let answer = format!("This is answer {}, that is.", received.body);
    own.terminal.wait_for(&answer);
    assert!(
        !other.terminal.text().contains(&answer),
        "{name} has sent the message of the other twin"
    );
    name
}

/// Waits for a message from each twin.
#[track_caller]
fn receive_from_each(bob: &Peer, twins: &[Agent; 2]) {
    let names = [receive_own(bob, twins), receive_own(bob, twins)];
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), 2, "{names:?}");
}

/// Submits a text to both twins at once.
fn submit_to_both(twins: &mut [Agent; 2], text: &str) {
    for agent in &mut *twins {
        agent.wait_until_idle();
        agent.paste(text);
    }
    twins.iter_mut().for_each(|agent| agent.terminal.press("\r"));
    twins.iter_mut().for_each(Agent::ensure_submitted);
}

fn twins_send_in_their_own_names(cli: Cli) {
    let (model, sandbox) = (Model::start(numbered_answers()), Sandbox::new());
    let workspace = Workspace::new(&sandbox, cli, &model, "both");
    check_names_of_twins(&sandbox, &workspace);
}

fn check_names_of_twins(sandbox: &Sandbox, workspace: &Workspace<'_>) {
    let bob = Peer::join(sandbox, "Bob");
    let mut twins = start(workspace, &[]);
    // One twin's composer holds a half-typed copy of the text that the other twin submits.
    twins[0].paste("Tell him who you are.");
    twins[1].submit("Tell him who you are.");
    assert_eq!(receive_own(&bob, &twins), "Cid");
    twins[0].terminal.press("\r");
    twins[0].ensure_submitted();
    assert_eq!(receive_own(&bob, &twins), "Ann");
    submit_to_both(&mut twins, "Tell him who you are.");
    receive_from_each(&bob, &twins);
    submit_to_both(&mut twins, SAME);
    let names = [bob.receive(&twins[0]).from, bob.receive(&twins[0]).from];
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), 2);
    for name in ["Cid", "Ann"] {
        bob.send(name, "And now?");
        assert_eq!(receive_own(&bob, &twins), name);
    }
}

/// Checks that no message is sent while both transcripts are equal, until its sender is certain.
fn twins_with_equal_transcripts_wait_until_these_differ(cli: Cli) {
    let (model, sandbox) = (Model::start(numbered_answers()), Sandbox::new());
    let workspace = Workspace::new(&sandbox, cli, &model, "both");
    let bob = Peer::join(&sandbox, "Bob");
    let mut twins = start(&workspace, &[]);
    submit_to_both(&mut twins, SAME);
    twins.iter().for_each(|agent| agent.terminal.wait_for("So much for it."));
    for name in ["Cid", "Ann"] {
        bob.send(name, "And now?");
    }
    let received: Vec<_> = (0..4).map(|_| bob.receive(&twins[0])).collect();
    for (name, agent) in ["Ann", "Cid"].iter().zip(&twins) {
        let own: Vec<_> = received.iter().filter(|message| message.from == *name).collect();
        let bodies: Vec<_> = own.iter().map(|message| message.body.as_str()).collect();
        assert_eq!((bodies.len(), bodies[0]), (2, "none"), "{name}");
        agent.terminal.wait_for(&format!("This is answer {}, that is.", bodies[1]));
    }
}

/// Checks twins that start with the same prompt.
fn twins_with_equal_first_prompts_send_in_their_own_names(cli: Cli, option: &[&str]) {
    let (model, sandbox) = (Model::start(numbered_answers()), Sandbox::new());
    let workspace = Workspace::new(&sandbox, cli, &model, "both");
    let bob = Peer::join(&sandbox, "Bob");
    let arguments = [option, &["Tell him who you are."]].concat();
    let twins = start(&workspace, &arguments);
    receive_from_each(&bob, &twins);
}

#[test]
fn claude_twins_send_in_their_own_names() {
    twins_send_in_their_own_names(Cli::Claude);
}

#[test]
fn codex_twins_send_in_their_own_names() {
    twins_send_in_their_own_names(Cli::Codex);
}

#[test]
fn gemini_twins_send_in_their_own_names() {
    twins_send_in_their_own_names(Cli::Gemini);
}

#[test]
fn gemini_twins_with_equal_transcripts_wait_until_these_differ() {
    twins_with_equal_transcripts_wait_until_these_differ(Cli::Gemini);
}

#[test]
fn gemini_twins_with_equal_first_prompts_send_in_their_own_names() {
    twins_with_equal_first_prompts_send_in_their_own_names(Cli::Gemini, &["-i"]);
}

#[test]
fn codex_twins_of_one_daemon_send_in_their_own_names() {
    let (model, sandbox) = (Model::start(numbered_answers()), Sandbox::new());
    let workspace = Workspace::with_daemon(&sandbox, Cli::Codex, &model, "both");
    check_names_of_twins(&sandbox, &workspace);
}

/// Hooks name each agent's transcript, so no message waits until the transcripts differ.
#[test]
fn codex_twins_of_one_daemon_with_equal_transcripts_send_at_once() {
    let (model, sandbox) = (Model::start(numbered_answers()), Sandbox::new());
    let workspace = Workspace::with_daemon(&sandbox, Cli::Codex, &model, "both");
    let bob = Peer::join(&sandbox, "Bob");
    let mut twins = start(&workspace, &[]);
    submit_to_both(&mut twins, SAME);
    let names = [0, 1].map(|_| twins[1].with_screen_on_panic(|| bob.receive(&twins[0])).from);
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), 2);
}

/// Codex's daemon begins a turn of the agent that has the message in its queue.
#[test]
fn codex_twins_of_one_daemon_are_woken_over_drafts() {
    let (model, sandbox) = (Model::start(|_| Reply::new().says("Noted.")), Sandbox::new());
    let workspace = Workspace::with_daemon(&sandbox, Cli::Codex, &model, "both");
    let bob = Peer::join(&sandbox, "Bob");
    let mut twins = start(&workspace, &[]);
    for (count, (agent, name)) in twins.iter_mut().zip(["Ann", "Cid"]).enumerate() {
        // Codex is only woken after its first turn.
        agent.submit(&format!("I am with {name}."));
        agent.with_screen_on_panic(|| model.wait_for_answers(count + 1));
        agent.wait_until_idle();
        agent.terminal.press("a draft");
        agent.terminal.wait_for("› a draft");
    }
    for (count, (agent, name)) in twins.iter().zip(["Ann", "Cid"]).enumerate() {
        let id = bob.send(name, "Wake up.");
        let asked = agent.with_screen_on_panic(|| model.wait_for_requests(count + 3));
        let asked = &asked[count + 2];
        assert_eq!(frame_body(&asked.prompt), "Wake up.");
        let request = asked.request.to_string();
        assert!(request.contains(&format!("I am with {name}.")), "{request}");
        await_report(&sandbox, agent, &id, "confirmed", "");
        agent.terminal.wait_for("› a draft");
    }
}

/// Checks commands that run in Codex's own daemon. One twin has started it for both.
#[test]
fn shell_commands_of_codex_twins_send_in_their_own_names() {
    let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let command = format!("{} send Bob \"I am $AGENT_RELAY_AGENT, $MINE\"", relay.display());
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Send it.", None) => Reply::new().says("I will.").runs(&command),
        _ => Reply::new().says("Done."),
    });
    let sandbox = Sandbox::new();
    let workspace = Workspace::with_daemon(&sandbox, Cli::Codex, &model, "both");
    let own = "[shell_environment_policy]\nset = { MINE = \"kept\" }\n";
    let settings =
        OpenOptions::new().append(true).open(workspace.user_home().join(".codex/config.toml"));
    settings.unwrap().write_all(own.as_bytes()).unwrap();
    let bob = Peer::join(&sandbox, "Bob");
    let mut twins = start(&workspace, &[]);
    for (agent, name) in twins.iter_mut().zip(["Ann", "Cid"]) {
        agent.submit("Send it.");
        let (question, yes) = agent.cli.permission();
        agent.answer(question, yes);
        let received = bob.receive(agent);
        assert_eq!((&*received.from, &*received.body), (name, &*format!("I am {name}, kept")));
    }
}
