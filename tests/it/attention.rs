//! Titles of terminals and notices, which call a person to an agent.

use crate::{
    activity::{await_activity, await_age},
    wrap::wrap_line_reader,
};
use serde_json::{Value, json};
use std::fs;
use testkit::{
    claude::Claude,
    programs::example_program,
    sandbox::Sandbox,
    terminal::{SIZE, Terminal},
    waiting::until,
};

/// Reports of a terminal that it has got the focus, or lost it.
const FOCUSED: &str = "\x1b[I";
const UNFOCUSED: &str = "\x1b[O";

/// A dialog that asks for permission.
const DIALOG: &str = "\r\n❯ 1. Yes\r\n  2. No\r\n";

const CLEAR: &str = "\x1b[2J\x1b[H";

/// Counts a text in the output of the terminal.
fn count(terminal: &Terminal, text: &str) -> usize {
    String::from_utf8_lossy(&terminal.bytes()).matches(text).count()
}

#[test]
fn title_shows_state_and_name_and_unseen_agents_call() {
    let sandbox = Sandbox::with_config("notify = 'osc9'");
    let claude = Claude::install(&sandbox);
    let mut terminal = claude.wrap(&sandbox);
    claude.set_title("fix tests");
    let title = |sign: &str| format!("\x1b]0;{sign}Ann · fix tests\x07");
    terminal.wait_for_bytes("\x1b[22;0t");
    terminal.wait_for_bytes("\x1b]0;Ann\x07\x1b[?1004h");
    terminal.wait_for_bytes(&title(""));
    terminal.press(UNFOCUSED);
    claude.hook("UserPromptSubmit", "{}");
    terminal.wait_for_bytes(&title("• "));
    claude.print(DIALOG);
    claude.hook("PermissionRequest", "{}");
    terminal.wait_for_bytes(&title("! "));
    terminal.wait_for_bytes("\x1b]9;Ann waits for permission\x07");
    claude.print(CLEAR);
    claude.hook("PostToolUse", "{}");
    until("the title shows work", || count(&terminal, &title("• ")) >= 2);
    claude.hook("Stop", "{}");
    terminal.wait_for_bytes("\x1b]9;Ann has finished\x07");
    terminal.wait_for_bytes(&title("✓ "));
    let unseen = || {
        let listed = sandbox.run(["agents", "Ann", "--json"]).stdout;
        serde_json::from_slice::<Value>(&listed).unwrap()["unseen"] == true
    };
    until("it is listed as unseen", unseen);
    let idle = count(&terminal, &title(""));
    terminal.press(FOCUSED);
    until("the title shows no more than the name", || count(&terminal, &title("")) > idle);
    until("it is listed as seen", || !unseen());
    claude.end(0);
    terminal.wait_until_end();
    assert_eq!(count(&terminal, "\x1b]9;"), 2, "each notice comes once");
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    let last = &bytes[bytes.rfind("\x1b]0;").unwrap()..];
    let end = last.find("\x1b[?1004l").filter(|end| last[*end..].contains("\x1b[23;0t"));
    assert!(end.is_some() && !last.contains("\x1b[?1004h"), "{last:?}");
    assert!(!terminal.text().contains("[O"), "the program got a report of the focus");
}

#[test]
fn agent_that_its_person_looks_at_calls_nobody() {
    let sandbox = Sandbox::with_config("notify = 'osc9'\ntitle = false");
    let claude = Claude::install(&sandbox);
    let mut terminal = claude.wrap(&sandbox);
    claude.set_title("fix tests");
    terminal.press(FOCUSED);
    for (event, shown, activity) in [
        ("UserPromptSubmit", "", "working"),
        ("PermissionRequest", DIALOG, "waits-for-permission"),
        ("PostToolUse", CLEAR, "working"),
        ("Stop", "", "idle"),
    ] {
        claude.print(shown);
        claude.hook(event, "{}");
        await_activity(&sandbox, activity);
        if activity != "working" {
            // By then, a notice would have come.
            await_age(&sandbox, 4000);
        }
    }
    // The next notice comes, and none came before it.
    terminal.press(UNFOCUSED);
    claude.relay(&["send", "@operator", "Hello."]);
    terminal.wait_for_bytes("\x1b]9;Ann has written to you\x07");
    claude.end(0);
    terminal.wait_until_end();
    assert_eq!(count(&terminal, "\x1b]9;"), 1);
    let titles = [count(&terminal, "\x1b]0;"), count(&terminal, "\x1b]0;fix tests\x07")];
    assert_eq!(titles, [1, 1]);
}

#[test]
fn attached_terminal_without_focus_calls() {
    let sandbox = Sandbox::with_config("notify = 'osc9'");
    let claude = Claude::install(&sandbox);
    let spawned = sandbox.run(["spawn", "Ann", "--", &claude.program]);
    assert!(spawned.status.success(), "{spawned:?}");
    let mut terminal = Terminal::command_in(&sandbox, SIZE, &["attach", "Ann"]);
    terminal.wait_for_bytes("\x1b]0;Ann\x07\x1b[?1004h");
    terminal.press(UNFOCUSED);
    for (event, shown, activity) in [
        ("UserPromptSubmit", "", "working"),
        ("PermissionRequest", DIALOG, "waits-for-permission"),
        ("PostToolUse", CLEAR, "working"),
        ("Stop", "", "idle"),
    ] {
        claude.print(shown);
        claude.hook(event, "{}");
        await_activity(&sandbox, activity);
        match activity {
            "waits-for-permission" => {
                terminal.wait_for_bytes("\x1b]9;Ann waits for permission\x07");
                terminal.press(FOCUSED);
            }
            // By then, a notice would have come.
            "idle" => await_age(&sandbox, 4000),
            _ => {}
        }
    }
    terminal.press(UNFOCUSED);
    claude.relay(&["send", "@operator", "Hello."]);
    terminal.wait_for_bytes("\x1b]9;Ann has written to you\x07");
    terminal.press("\x1c");
    terminal.wait_until_end();
    assert_eq!(count(&terminal, "\x1b]9;"), 2, "one for each time without focus");
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    let last = bytes.rfind("\x1b[?1004h").unwrap();
    assert!(bytes[last..].contains("\x1b[?1004l"), "{:?}", &bytes[last..]);
    assert!(!terminal.text().contains("[O"), "the program got a report of the focus");
    assert!(sandbox.run(["stop", "Ann"]).status.success());
}

#[test]
fn command_notifies_of_an_agent_in_the_background() {
    let mut sandbox = Sandbox::configured("");
    let file = sandbox.directory().join("told");
    // The tests' program `lines` writes its last argument to the file.
    let command =
        [example_program("lines"), format!("keep {}", file.display()), "{agent} {text}".to_owned()];
    let config = sandbox.home().join("config.toml");
    let text = fs::read_to_string(&config).unwrap() + &format!("notify = {}\n", json!(command));
    fs::write(config, text).unwrap();
    sandbox.start();
    let claude = Claude::install(&sandbox);
    claude.relay(&["send", "@operator", "Hello."]);
    let spawned = sandbox.run(["spawn", "Ann", "--", &claude.program]);
    assert!(spawned.status.success(), "{spawned:?}");
    let told = || fs::read_to_string(&file).unwrap_or_default();
    until("it has written", || told() == "Ann has written to you\n");
    claude.hook("UserPromptSubmit", "{}");
    await_activity(&sandbox, "working");
    claude.print(DIALOG);
    claude.hook("PermissionRequest", "{}");
    until("it waits", || told().ends_with("you\nAnn waits for permission\n"));
    claude.print(CLEAR);
    claude.hook("PostToolUse", "{}");
    await_activity(&sandbox, "working");
    claude.hook("Stop", "{}");
    until("it has finished", || told().ends_with("permission\nAnn has finished\n"));
    assert!(sandbox.run(["stop", "Ann"]).status.success());
}

#[test]
fn finished_agent_is_listed_as_such_until_its_person_looks() {
    let sandbox = Sandbox::new();
    let claude = Claude::install(&sandbox);
    let spawned = sandbox.run(["spawn", "Ann", "--", &claude.program]);
    assert!(spawned.status.success(), "{spawned:?}");
    claude.hook("UserPromptSubmit", "{}");
    await_activity(&sandbox, "working");
    let mut top = Terminal::command_in(&sandbox, SIZE, &["top"]);
    top.wait_for("working");
    claude.hook("Stop", "{}");
    top.wait_until("it has finished", |text| {
        text.contains("1 finished") && text.contains("\n✓  Ann ") && text.contains(" finished ")
    });
    let listed = || String::from_utf8(sandbox.run(["agents"]).stdout).unwrap();
    assert!(listed().contains("  finished  "), "{}", listed());
    top.press("\r");
    top.wait_for_bytes("attached to Ann");
    top.press("\x1c");
    top.wait_until("its person has looked", |text| {
        text.contains("\n   Ann ") && text.contains(" idle ") && !text.contains("finished")
    });
    assert!(listed().contains("  idle  "), "{}", listed());
    top.press("q");
    top.wait_until_end();
    assert!(sandbox.run(["stop", "Ann"]).status.success());
}

#[test]
fn message_that_an_agent_prints_for_its_person_calls() {
    let sandbox = Sandbox::with_config("notify = 'osc777'");
    let mut terminal = wrap_line_reader(&sandbox, "Ann", &[]);
    terminal.press(UNFOCUSED);
    terminal.press("say @operator Hello.\r");
    terminal.wait_for_bytes("\x1b]777;notify;Agent Relay;Ann has written to you\x07");
    terminal.press("exit 0\r");
    terminal.wait_until_end();
}

#[test]
fn message_of_a_command_calls_once_it_is_accepted() {
    let mut sandbox = Sandbox::configured("notify = 'osc9'");
    let path = sandbox.home().join("policy.toml");
    let policy = |allow| {
        let rule = format!("[[rule]]\nfrom = 'Ann'\nto = '@operator'\nallow = {allow}\n");
        platform::paths::write_private_file(&path, rule.as_bytes()).unwrap();
    };
    policy(false);
    sandbox.start();
    let claude = Claude::install(&sandbox);
    let mut terminal = claude.wrap(&sandbox);
    terminal.press(UNFOCUSED);
    claude.relay(&["send", "@operator", "Hello."]);
    terminal.wait_for("policy.toml forbids it");
    assert_eq!(count(&terminal, "\x1b]9;"), 0);
    policy(true);
    assert!(sandbox.run(["policy", "reload"]).status.success());
    claude.relay(&["send", "@operator", "Hello."]);
    terminal.wait_for_bytes("\x1b]9;Ann has written to you\x07");
    claude.end(0);
    terminal.wait_until_end();
}

#[test]
fn title_of_top_says_that_an_agent_waits() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let mut top = Terminal::command_in(&sandbox, SIZE, &["top"]);
    top.wait_for_bytes("\x1b[22;0t\x1b]0;agent-relay top\x07");
    let asks = json!({"activity": "asks-person", "source": "screen", "for_ms": 0});
    bob.ask("activity", &asks);
    top.wait_for_bytes("\x1b]0;! agent-relay top\x07");
    top.wait_for("Bob");
    top.press("q");
    top.wait_until_end();
    assert_eq!(count(&top, "\x1b[23;0t"), 1);
}
