//! Nothing is typed where it would do something else than ask: a message waits, and whoever asks is told for
//! what.

use crate::{
    agent::{Agent, Household, Kind},
    model::{Gate, Model, Reply},
    other::{Other, ann, ann_with, await_report, framed},
    sandbox::Sandbox,
};
use platform::pty::Size;

/// So many columns.
const COLUMNS: u16 = 100;

/// A dialog stays as it is while a message waits, and the message comes once it is answered.
fn waits_for_the_answer_to_a_dialog(kind: Kind, options: &[&str]) {
    let model = Model::start(|asked| match (&*asked.prompt, &asked.result) {
        ("Run it.", None) => Reply::new().says("I will run it.").runs("echo ran > made"),
        ("Run it.", Some(_)) => Reply::new().says("It has run."),
        _ => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let (household, mut agent) = ann_with(&sandbox, kind, &model, COLUMNS, options);
    agent.submit("Run it.");
    let (question, yes) = kind.permission();
    agent.terminal.wait_for(question);
    let id = bob.send("Ann", "1\nyes, do it");
    await_report(&sandbox, &agent, &id, "waiting", "asks something");
    // An Enter, or what stands in the message, would have answered it.
    agent.terminal.wait_for(question);
    assert!(!household.project().join("made").exists(), "it was answered");
    assert_eq!(model.asked(1).len(), 1);
    agent.answer(question, yes);
    let asked = agent.while_running(|| model.asked(3));
    assert_eq!(asked[1].prompt, "Run it.");
    assert_eq!(framed(&asked[2].prompt), "1\nyes, do it");
    await_report(&sandbox, &agent, &id, "confirmed", "");
    comes_once(&bob, &agent, &model, 3);
}

/// Nothing is typed before its person has said that the folder may be trusted: an Enter would say so.
fn waits_until_its_folder_is_trusted(kind: Kind) {
    let model = Model::start(|_| Reply::new().says("Noted."));
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let household = Household::new(&sandbox, kind, &model, "ann");
    household.distrust_project();
    let size = Size { rows: 40, cols: COLUMNS };
    let mut agent = household.wrap_with(&["-n", "Ann", "--brief"], size, &[]);
    let asks = |text: &str| text.to_lowercase().contains("trust");
    agent.terminal.wait_until("a question of trust", asks);
    let id = bob.send("Ann", "1\nyes, do it");
    await_report(&sandbox, &agent, &id, "waiting", "");
    agent.stand_still();
    assert!(asks(&agent.terminal.text()), "it was answered:\n{}", agent.terminal.text());
    assert_eq!(model.asked(0).len(), 0);
    agent.terminal.press("\r");
    let asked = agent.while_running(|| model.asked(2));
    assert!(asked[0].prompt.contains("@relay] The relay wrote this"), "{}", asked[0].prompt);
    assert_eq!(framed(&asked[1].prompt), "1\nyes, do it");
    comes_once(&bob, &agent, &model, 2);
}

/// After this many questions only one more is asked when one more is sent.
#[track_caller]
fn comes_once(bob: &Other, agent: &Agent, model: &Model, before: usize) {
    bob.send("Ann", "and this");
    let asked = agent.while_running(|| model.asked(before + 1));
    assert_eq!(asked.len(), before + 1);
    assert_eq!(framed(&asked[before].prompt), "and this");
}

/// What the person begins stays as it is until they are done with it.
fn waits_for_the_person(kind: Kind) {
    let model = Model::start(|_| Reply::new().says("Noted."));
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let (_household, mut agent) = ann(&sandbox, kind, &model, COLUMNS);
    let begun = [("half a line", "half typed"), ("!", "shell mode"), ("/", "half typed")];
    for (count, (keys, why)) in begun.into_iter().enumerate() {
        agent.wait_until_idle();
        press(&mut agent, keys);
        let body = format!("after {keys}");
        let id = bob.send("Ann", &body);
        await_report(&sandbox, &agent, &id, "waiting", why);
        assert_eq!(model.asked(0).len(), count, "it was asked too soon");
        // What begins its shell mode ends it, too, and nothing else does but Escape.
        let toggles = kind == Kind::Gemini && keys == "!";
        agent.terminal.press(&if toggles { "!".into() } else { "\x7f".repeat(keys.len()) });
        let asked = agent.while_running(|| model.asked(count + 1));
        assert_eq!(framed(&asked[count].prompt), body);
        await_report(&sandbox, &agent, &id, "confirmed", "");
    }
    agent.wait_until_idle();
    press(&mut agent, "a question");
    let id = bob.send("Ann", "after it");
    await_report(&sandbox, &agent, &id, "waiting", "half typed");
    agent.terminal.press("\r");
    let asked = agent.while_running(|| model.asked(begun.len() + 2));
    assert_eq!(asked[begun.len()].prompt, "a question");
    assert_eq!(framed(&asked[begun.len() + 1].prompt), "after it");
    comes_once(&bob, &agent, &model, begun.len() + 2);
}

/// Presses keys, and waits until the CLI has taken them.
#[track_caller]
fn press(agent: &mut Agent, keys: &str) {
    for key in keys.chars() {
        agent.terminal.press(&key.to_string());
    }
    let kind = agent.kind;
    agent.terminal.wait_until_screen("what was typed", |screen| !kind.is_idle(screen));
}

/// Nothing comes between the agent and its work, and then one thing after another, what is urgent first.
fn waits_for_the_end_of_the_work(kind: Kind) {
    let gate = Gate::default();
    let opened = gate.clone();
    let model = Model::start(move |asked| match &*asked.prompt {
        "Work." => Reply::new().says("I begin with it.\n\n").waits(&opened).says("It is done."),
        _ => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let (_household, mut agent) = ann(&sandbox, kind, &model, COLUMNS);
    agent.submit("Work.");
    agent.terminal.wait_for("I begin with it.");
    let first = bob.send("Ann", "one");
    let second = bob.send("Ann", "two");
    let urgent = bob.send_urgently("Ann", "before all");
    for id in [&first, &second, &urgent] {
        await_report(&sandbox, &agent, id, "waiting", "at work");
    }
    assert_eq!(model.asked(1).len(), 1);
    gate.open();
    let asked = agent.while_running(|| model.asked(4));
    let prompts: Vec<&str> = asked[1..].iter().map(|asked| framed(&asked.prompt)).collect();
    assert_eq!(prompts, ["before all", "one", "two"]);
    for id in [&first, &second, &urgent] {
        await_report(&sandbox, &agent, id, "confirmed", "");
    }
    comes_once(&bob, &agent, &model, 4);
}

#[test]
fn claude_is_left_alone_until_its_folder_is_trusted() {
    waits_until_its_folder_is_trusted(Kind::Claude);
}

#[test]
fn gemini_is_left_alone_until_its_folder_is_trusted() {
    waits_until_its_folder_is_trusted(Kind::Gemini);
}

#[test]
fn claude_is_left_alone_with_a_dialog() {
    waits_for_the_answer_to_a_dialog(Kind::Claude, &[]);
}

#[test]
fn claude_is_left_alone_with_a_dialog_also_where_the_grid_is_read() {
    waits_for_the_answer_to_a_dialog(Kind::Claude, &["--grid"]);
}

#[test]
fn codex_is_left_alone_with_a_dialog() {
    waits_for_the_answer_to_a_dialog(Kind::Codex, &[]);
}

#[test]
fn codex_is_left_alone_with_a_dialog_also_where_the_grid_is_read() {
    waits_for_the_answer_to_a_dialog(Kind::Codex, &["--grid"]);
}

#[test]
fn gemini_is_left_alone_with_a_dialog() {
    waits_for_the_answer_to_a_dialog(Kind::Gemini, &[]);
}

#[test]
fn gemini_is_left_alone_with_a_dialog_also_where_the_grid_is_read() {
    waits_for_the_answer_to_a_dialog(Kind::Gemini, &["--grid"]);
}

#[test]
fn claude_is_left_alone_with_what_the_person_types() {
    waits_for_the_person(Kind::Claude);
}

#[test]
fn codex_is_left_alone_with_what_the_person_types() {
    waits_for_the_person(Kind::Codex);
}

#[test]
fn gemini_is_left_alone_with_what_the_person_types() {
    waits_for_the_person(Kind::Gemini);
}

#[test]
fn claude_is_left_alone_at_work() {
    waits_for_the_end_of_the_work(Kind::Claude);
}

#[test]
fn codex_is_left_alone_at_work() {
    waits_for_the_end_of_the_work(Kind::Codex);
}

#[test]
fn gemini_is_left_alone_at_work() {
    waits_for_the_end_of_the_work(Kind::Gemini);
}
