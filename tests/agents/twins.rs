//! Two CLIs of one kind in one folder: each speaks in its own name.

use crate::{
    agent::{Agent, Household, Kind},
    model::{Asked, Model, Reply},
    other::{Other, says_to},
    sandbox::Sandbox,
};
use platform::pty::Size;
use std::{collections::BTreeSet, fs::OpenOptions, io::Write as _, path};

const SIZE: Size = Size { rows: 40, cols: 100 };

/// To this everybody answers the same, to anything else nobody does.
const SAME: &str = "Say the same.";

/// Answers with a number that no other answer has.
fn counts() -> impl FnMut(&Asked) -> Reply + Send + 'static {
    let mut count = 0;
    move |asked| {
        // Who waits for long to be told from the other one is told so.
        if asked.prompt.contains("@relay] The relay wrote this") {
            return Reply::new().says("I see.");
        }
        count += 1;
        let word = if asked.prompt == SAME { "none".to_owned() } else { count.to_string() };
        let told = says_to("Bob", &word);
        Reply::new().says(format!("This is answer {word}, that is.\n\n{told}\n\nSo much for it."))
    }
}

/// They start together.
fn start(household: &Household<'_>, arguments: &[&str]) -> [Agent; 2] {
    let twins = ["Ann", "Cid"].map(|name| household.wrap(name, SIZE, arguments));
    twins.iter().for_each(Agent::wait_until_idle);
    twins
}

/// The next message: a word that stands on the screen of who has said it, and on no other.
#[track_caller]
fn hear_own(bob: &Other, twins: &[Agent; 2]) -> &'static str {
    let heard = twins[1].while_running(|| bob.hear(&twins[0]));
    let (name, own, other) = match &*heard.from {
        "Ann" => ("Ann", &twins[0], &twins[1]),
        _ => ("Cid", &twins[1], &twins[0]),
    };
    assert_eq!(heard.from, name);
    let answer = format!("This is answer {}, that is.", heard.body);
    own.terminal.wait_for(&answer);
    assert!(!other.terminal.text().contains(&answer), "{name} has said what the other one did");
    name
}

/// Both have said something, each in its own name.
#[track_caller]
fn hear_each(bob: &Other, twins: &[Agent; 2]) {
    let names = [hear_own(bob, twins), hear_own(bob, twins)];
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), 2, "{names:?}");
}

/// The same in both at once.
fn submit_to_both(twins: &mut [Agent; 2], text: &str) {
    for agent in &mut *twins {
        agent.wait_until_idle();
        agent.paste(text);
    }
    twins.iter_mut().for_each(|agent| agent.terminal.press("\r"));
    twins.iter_mut().for_each(Agent::see_enter_taken);
}

fn speak_for_themselves(kind: Kind) {
    let (model, sandbox) = (Model::start(counts()), Sandbox::new());
    let household = Household::new(&sandbox, kind, &model, "both");
    speak(&sandbox, &household);
}

fn speak(sandbox: &Sandbox, household: &Household<'_>) {
    let bob = Other::join(sandbox, "Bob");
    let mut twins = start(household, &[]);
    // One has begun what the other one is asked.
    twins[0].paste("Tell him who you are.");
    twins[1].submit("Tell him who you are.");
    assert_eq!(hear_own(&bob, &twins), "Cid");
    twins[0].terminal.press("\r");
    twins[0].see_enter_taken();
    assert_eq!(hear_own(&bob, &twins), "Ann");
    submit_to_both(&mut twins, "Tell him who you are.");
    hear_each(&bob, &twins);
    submit_to_both(&mut twins, SAME);
    let names = [bob.hear(&twins[0]).from, bob.hear(&twins[0]).from];
    assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), 2);
    for name in ["Cid", "Ann"] {
        bob.send(name, "And now?");
        assert_eq!(hear_own(&bob, &twins), name);
    }
}

/// Where they have heard and said the same, none is sent until it is known whose it is.
fn wait_until_they_are_told_apart(kind: Kind) {
    let (model, sandbox) = (Model::start(counts()), Sandbox::new());
    let household = Household::new(&sandbox, kind, &model, "both");
    let bob = Other::join(&sandbox, "Bob");
    let mut twins = start(&household, &[]);
    submit_to_both(&mut twins, SAME);
    twins.iter().for_each(|agent| agent.terminal.wait_for("So much for it."));
    for name in ["Cid", "Ann"] {
        bob.send(name, "And now?");
    }
    let heard: Vec<_> = (0..4).map(|_| bob.hear(&twins[0])).collect();
    for (name, agent) in ["Ann", "Cid"].iter().zip(&twins) {
        let own: Vec<_> = heard.iter().filter(|heard| heard.from == *name).collect();
        let bodies: Vec<_> = own.iter().map(|heard| heard.body.as_str()).collect();
        assert_eq!((bodies.len(), bodies[0]), (2, "none"), "{name}");
        agent.terminal.wait_for(&format!("This is answer {}, that is.", bodies[1]));
    }
}

/// Each begins with a prompt of the same words.
fn speak_for_themselves_from_the_first_word(kind: Kind, option: &[&str]) {
    let (model, sandbox) = (Model::start(counts()), Sandbox::new());
    let household = Household::new(&sandbox, kind, &model, "both");
    let bob = Other::join(&sandbox, "Bob");
    let arguments = [option, &["Tell him who you are."]].concat();
    let twins = start(&household, &arguments);
    hear_each(&bob, &twins);
}

#[test]
fn claude_twins_speak_for_themselves() {
    speak_for_themselves(Kind::Claude);
}

#[test]
fn codex_twins_speak_for_themselves() {
    speak_for_themselves(Kind::Codex);
}

#[test]
fn gemini_twins_speak_for_themselves() {
    speak_for_themselves(Kind::Gemini);
}

#[test]
fn gemini_twins_wait_until_they_are_told_apart() {
    wait_until_they_are_told_apart(Kind::Gemini);
}

#[test]
fn gemini_twins_speak_for_themselves_from_the_first_word() {
    speak_for_themselves_from_the_first_word(Kind::Gemini, &["-i"]);
}

#[test]
fn codex_twins_of_one_daemon_speak_for_themselves() {
    let (model, sandbox) = (Model::start(counts()), Sandbox::new());
    let household = Household::with_daemon(&sandbox, Kind::Codex, &model, "both");
    speak(&sandbox, &household);
}

/// The daemon runs what both want to have run; it was started by one of them.
#[test]
fn commands_of_codex_twins_of_one_daemon_speak_for_their_own() {
    let relay = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let command = format!("{} send Bob \"I am $AGENT_RELAY_AGENT, $MINE\"", relay.display());
    let model = Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Send it.", None) => Reply::new().says("I will.").runs(&command),
        _ => Reply::new().says("Done."),
    });
    let sandbox = Sandbox::new();
    let household = Household::with_daemon(&sandbox, Kind::Codex, &model, "both");
    let own = "[shell_environment_policy]\nset = { MINE = \"kept\" }\n";
    let settings =
        OpenOptions::new().append(true).open(household.person().join(".codex/config.toml"));
    settings.unwrap().write_all(own.as_bytes()).unwrap();
    let bob = Other::join(&sandbox, "Bob");
    let mut twins = start(&household, &[]);
    for (agent, name) in twins.iter_mut().zip(["Ann", "Cid"]) {
        agent.submit("Send it.");
        let (question, yes) = agent.kind.permission();
        agent.answer(question, yes);
        let heard = bob.hear(agent);
        assert_eq!((&*heard.from, &*heard.body), (name, &*format!("I am {name}, kept")));
    }
}
