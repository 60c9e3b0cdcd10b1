//! Messages that wait because typing them would trigger something else, and the reported reasons.

use crate::{
    cli::{Agent, Cli, Workspace},
    peer::{Peer, await_report, frame_body, start_ann, start_ann_with},
};
use platform::pty::Size;
use testkit::{
    model::{Gate, Model, Reply},
    sandbox::Sandbox,
};

const COLUMNS: u16 = 100;

/// Checks that a dialog stays unanswered while a message waits, and that the message follows the
/// user's answer.
fn messages_wait_for_a_dialog(cli: Cli, options: &[&str]) {
    let model = Model::start(|asked| match (&*asked.prompt, &asked.result) {
        ("Run it.", None) => Reply::new().says("I will run it.").runs("echo ran > made"),
        ("Run it.", Some(_)) => Reply::new().says("It has run."),
        _ => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let (workspace, mut agent) = start_ann_with(&sandbox, cli, &model, COLUMNS, options);
    agent.submit("Run it.");
    let (question, yes) = cli.permission();
    agent.terminal.wait_for(question);
    let id = bob.send("Ann", "1\nyes, do it");
    await_report(&sandbox, &agent, &id, "waiting", "asks a question");
    // An Enter or the message's text would have answered the dialog.
    agent.terminal.wait_for(question);
    assert!(!workspace.project().join("made").exists(), "the dialog was answered");
    assert_eq!(model.wait_for_requests(1).len(), 1);
    agent.answer(question, yes);
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(3));
    assert_eq!(asked[1].prompt, "Run it.");
    assert_eq!(frame_body(&asked[2].prompt), "1\nyes, do it");
    await_report(&sandbox, &agent, &id, "confirmed", "");
    check_no_duplicates(&bob, &agent, &model, 3);
}

/// Checks that messages wait until the user has trusted the folder, since an Enter would trust it.
fn messages_wait_for_folder_trust(cli: Cli) {
    let model = Model::start(|_| Reply::new().says("Noted."));
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let workspace = Workspace::new(&sandbox, cli, &model, "ann");
    workspace.ask_for_trust();
    let size = Size { rows: 40, cols: COLUMNS };
    let mut agent = workspace.wrap_with(&["-n", "Ann", "--brief"], size, &[]);
    let asks_for_trust = |text: &str| text.to_lowercase().contains("trust");
    agent.terminal.wait_until("a question of trust", asks_for_trust);
    let id = bob.send("Ann", "1\nyes, do it");
    await_report(&sandbox, &agent, &id, "waiting", "");
    agent.wait_until_still();
    assert!(
        asks_for_trust(&agent.terminal.text()),
        "the dialog was answered:\n{}",
        agent.terminal.text()
    );
    assert_eq!(model.wait_for_requests(0).len(), 0);
    agent.terminal.press("\r");
    // Claude Code gets the brief from a hook, after the answer.
    let typed = usize::from(cli != Cli::Claude);
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(typed + 1));
    let request = asked[0].request.to_string();
    assert!(request.contains("Your name is Ann."), "{request}");
    assert_eq!(asked[0].prompt.contains("@relay] The relay wrote this"), typed == 1);
    assert_eq!(frame_body(&asked[typed].prompt), "1\nyes, do it");
    check_no_duplicates(&bob, &agent, &model, typed + 1);
}

/// Checks that after `before` requests one more message leads to exactly one more request.
#[track_caller]
fn check_no_duplicates(bob: &Peer, agent: &Agent, model: &Model, before: usize) {
    bob.send("Ann", "and this");
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(before + 1));
    assert_eq!(asked.len(), before + 1);
    assert_eq!(frame_body(&asked[before].prompt), "and this");
}

/// Checks that half-typed input stays unchanged until the user submits or erases it. (A hook would
/// begin a turn with the message.)
fn messages_wait_for_half_typed_input(cli: Cli) {
    let model = Model::start(|_| Reply::new().says("Noted."));
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, mut agent) = start_ann_with(&sandbox, cli, &model, COLUMNS, &["--no-hooks"]);
    let inputs = [("half a line", "half typed"), ("!", "shell mode"), ("/", "half typed")];
    for (count, (keys, why)) in inputs.into_iter().enumerate() {
        agent.wait_until_idle();
        press(&mut agent, keys);
        let body = format!("after {keys}");
        let id = bob.send("Ann", &body);
        await_report(&sandbox, &agent, &id, "waiting", why);
        assert_eq!(model.wait_for_requests(0).len(), count, "the message was typed too soon");
        // In Gemini CLI, `!` both begins and ends the shell mode.
        let toggles = cli == Cli::Gemini && keys == "!";
        agent.terminal.press(&if toggles { "!".into() } else { "\x7f".repeat(keys.len()) });
        let asked = agent.with_screen_on_panic(|| model.wait_for_requests(count + 1));
        assert_eq!(frame_body(&asked[count].prompt), body);
        await_report(&sandbox, &agent, &id, "confirmed", "");
    }
    agent.wait_until_idle();
    press(&mut agent, "a question");
    let id = bob.send("Ann", "after it");
    await_report(&sandbox, &agent, &id, "waiting", "half typed");
    agent.terminal.press("\r");
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(inputs.len() + 2));
    assert_eq!(asked[inputs.len()].prompt, "a question");
    assert_eq!(frame_body(&asked[inputs.len() + 1].prompt), "after it");
    check_no_duplicates(&bob, &agent, &model, inputs.len() + 2);
}

/// Presses keys, and waits until the composer shows them.
#[track_caller]
fn press(agent: &mut Agent, keys: &str) {
    for key in keys.chars() {
        agent.terminal.press(&key.to_string());
    }
    let cli = agent.cli;
    agent.terminal.wait_until_screen("the typed text", |screen| !cli.is_idle(screen));
}

/// Checks that messages wait for the end of the turn, and then arrive in order of importance.
fn messages_wait_while_it_is_busy(cli: Cli) {
    let gate = Gate::default();
    let opened = gate.clone();
    let model = Model::start(move |asked| match &*asked.prompt {
        "Work." => Reply::new().says("I begin with it.\n\n").waits(&opened).says("It is done."),
        _ => Reply::new().says("Noted."),
    });
    let sandbox = Sandbox::new();
    let bob = Peer::join(&sandbox, "Bob");
    let (_workspace, mut agent) = start_ann(&sandbox, cli, &model, COLUMNS);
    agent.submit("Work.");
    agent.terminal.wait_for("I begin with it.");
    let first = bob.send("Ann", "one");
    let second = bob.send("Ann", "two");
    let urgent = bob.send_urgently("Ann", "before all");
    for id in [&first, &second, &urgent] {
        await_report(&sandbox, &agent, id, "waiting", "at work");
    }
    assert_eq!(model.wait_for_requests(1).len(), 1);
    gate.open();
    let asked = agent.with_screen_on_panic(|| model.wait_for_requests(4));
    let prompts: Vec<&str> = asked[1..].iter().map(|asked| frame_body(&asked.prompt)).collect();
    assert_eq!(prompts, ["before all", "one", "two"]);
    for id in [&first, &second, &urgent] {
        await_report(&sandbox, &agent, id, "confirmed", "");
    }
    check_no_duplicates(&bob, &agent, &model, 4);
}

#[test]
fn claude_messages_wait_for_folder_trust() {
    messages_wait_for_folder_trust(Cli::Claude);
}

#[test]
fn gemini_messages_wait_for_folder_trust() {
    messages_wait_for_folder_trust(Cli::Gemini);
}

#[test]
fn claude_messages_wait_for_a_dialog() {
    messages_wait_for_a_dialog(Cli::Claude, &[]);
}

#[test]
fn claude_messages_wait_for_a_dialog_with_the_grid() {
    messages_wait_for_a_dialog(Cli::Claude, &["--grid"]);
}

#[test]
fn codex_messages_wait_for_a_dialog() {
    messages_wait_for_a_dialog(Cli::Codex, &[]);
}

#[test]
fn codex_messages_wait_for_a_dialog_with_the_grid() {
    messages_wait_for_a_dialog(Cli::Codex, &["--grid"]);
}

#[test]
fn gemini_messages_wait_for_a_dialog() {
    messages_wait_for_a_dialog(Cli::Gemini, &[]);
}

#[test]
fn gemini_messages_wait_for_a_dialog_with_the_grid() {
    messages_wait_for_a_dialog(Cli::Gemini, &["--grid"]);
}

#[test]
fn claude_messages_wait_for_half_typed_input() {
    messages_wait_for_half_typed_input(Cli::Claude);
}

#[test]
fn codex_messages_wait_for_half_typed_input() {
    messages_wait_for_half_typed_input(Cli::Codex);
}

#[test]
fn gemini_messages_wait_for_half_typed_input() {
    messages_wait_for_half_typed_input(Cli::Gemini);
}

#[test]
fn claude_messages_wait_while_it_is_busy() {
    messages_wait_while_it_is_busy(Cli::Claude);
}

#[test]
fn codex_messages_wait_while_it_is_busy() {
    messages_wait_while_it_is_busy(Cli::Codex);
}

#[test]
fn gemini_messages_wait_while_it_is_busy() {
    messages_wait_while_it_is_busy(Cli::Gemini);
}
