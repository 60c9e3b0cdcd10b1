//! Titles of terminals and notices, which call a person to an agent.

use crate::activity::{await_activity, await_age};
use serde_json::{Value, json};
use std::fs;
use testkit::{
    claude,
    sandbox::Sandbox,
    terminal::{SIZE, Terminal},
    waiting::until,
};

/// Reports of a terminal that it has got the focus, or lost it.
const FOCUSED: &str = "\x1b[I";
const UNFOCUSED: &str = "\x1b[O";

/// A program under the name of Claude Code, with a title of its own. Each step waits for a file.
/// Reports are repeated until the next step, since a hook gives up after half a second.
const CLAUDE: &str = r#"
report() { until [ -e "$2" ]; do echo '{}' | hook "$1"; sleep 0.05; done & }
step() { wait; until [ -e "$1" ]; do sleep 0.05; done; }
printf '\033]0;fix tests\007'
echo ready
step prompt; report UserPromptSubmit permission
step permission; report PermissionRequest allowed; printf '\n❯ 1. Yes\n  2. No\n'
step allowed; report PostToolUse stop; printf '\033[2J\033[Hallowed\n'
step stop; report Stop end; printf '\033[2J\033[H'
until [ -e end ]; do
    if [ -e write ]; then rm write; "$RELAY" send @operator Hello.; fi
    sleep 0.05
done
"#;

fn step(sandbox: &Sandbox, name: &str) {
    fs::write(sandbox.directory().join(name), "").unwrap();
}

/// Counts a text in what the terminal has got.
fn count(terminal: &Terminal, text: &str) -> usize {
    String::from_utf8_lossy(&terminal.bytes()).matches(text).count()
}

#[test]
fn title_shows_state_and_name_and_unseen_agents_call() {
    let sandbox = Sandbox::with_config("notify = 'osc9'");
    let mut terminal = claude::start_with_hooks(&sandbox, CLAUDE, &[]);
    let title = |sign: &str| format!("\x1b]0;{sign}Ann · fix tests\x07");
    terminal.wait_for_bytes("\x1b[22;0t\x1b]0;Ann\x07\x1b[?1004h");
    terminal.wait_for_bytes(&title(""));
    terminal.press(UNFOCUSED);
    step(&sandbox, "prompt");
    terminal.wait_for_bytes(&title("• "));
    step(&sandbox, "permission");
    terminal.wait_for_bytes(&title("! "));
    terminal.wait_for_bytes("\x1b]9;Ann waits for permission\x07");
    step(&sandbox, "allowed");
    until("the title shows work", || count(&terminal, &title("• ")) >= 2);
    step(&sandbox, "stop");
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
    step(&sandbox, "end");
    terminal.wait_until_end();
    assert_eq!(count(&terminal, "\x1b]9;"), 2, "each notice comes once");
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    let last = bytes.rfind("\x1b]0;").unwrap();
    assert!(bytes[last..].contains("\x1b[?1004l\x1b[23;0t"), "{:?}", &bytes[last..]);
    assert!(!terminal.text().contains("[O"), "the program got a report of the focus");
}

#[test]
fn agent_that_its_person_looks_at_calls_nobody() {
    let sandbox = Sandbox::with_config("notify = 'osc9'\ntitle = false");
    let mut terminal = claude::start_with_hooks(&sandbox, CLAUDE, &[]);
    terminal.press(FOCUSED);
    for (name, activity) in [
        ("prompt", "working"),
        ("permission", "waits-for-permission"),
        ("allowed", "working"),
        ("stop", "idle"),
    ] {
        step(&sandbox, name);
        await_activity(&sandbox, activity);
        if activity != "working" {
            // By then, a notice would have come.
            await_age(&sandbox, 4000);
        }
    }
    // The next notice comes, and none came before it.
    terminal.press(UNFOCUSED);
    step(&sandbox, "write");
    terminal.wait_for_bytes("\x1b]9;Ann has written to you\x07");
    step(&sandbox, "end");
    terminal.wait_until_end();
    assert_eq!(count(&terminal, "\x1b]9;"), 1);
    let titles = [count(&terminal, "\x1b]0;"), count(&terminal, "\x1b]0;fix tests\x07")];
    assert_eq!(titles, [1, 1]);
}

#[test]
fn command_notifies_of_an_agent_in_the_background() {
    let command = r#"notify = ['sh', '-c', 'echo "$0 $1" >> "$HOME/told"', '{agent}', '{text}']"#;
    let sandbox = Sandbox::with_config(command);
    let script = format!("\"$RELAY\" send @operator Hello.\n{CLAUDE}");
    let program = claude::install_with_hooks(&sandbox, &script);
    let spawned = sandbox.run(["spawn", "Ann", "--", &program]);
    assert!(spawned.status.success(), "{spawned:?}");
    let told = || fs::read_to_string(sandbox.directory().join("told")).unwrap_or_default();
    until("it has written", || told() == "Ann has written to you\n");
    step(&sandbox, "prompt");
    await_activity(&sandbox, "working");
    step(&sandbox, "permission");
    until("it waits", || told().ends_with("you\nAnn waits for permission\n"));
    step(&sandbox, "allowed");
    await_activity(&sandbox, "working");
    step(&sandbox, "stop");
    until("it has finished", || told().ends_with("permission\nAnn has finished\n"));
    assert!(sandbox.run(["stop", "Ann"]).status.success());
}

#[test]
fn finished_agent_is_listed_as_such_until_its_person_looks() {
    let sandbox = Sandbox::new();
    let program = claude::install_with_hooks(&sandbox, CLAUDE);
    let spawned = sandbox.run(["spawn", "Ann", "--", &program]);
    assert!(spawned.status.success(), "{spawned:?}");
    for (name, activity) in
        [("prompt", "working"), ("permission", "waits-for-permission"), ("allowed", "working")]
    {
        step(&sandbox, name);
        await_activity(&sandbox, activity);
    }
    let mut top = Terminal::command_in(&sandbox, SIZE, &["top"]);
    top.wait_for("working");
    step(&sandbox, "stop");
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
    let script = r#"echo ready; read go; printf '%srelay:@operator <<<\nHello.\n>>>\n' '->'; echo done; read end"#;
    let mut terminal = Terminal::wrap(&sandbox, "Ann", &["sh", "-c", script]);
    terminal.wait_for("ready");
    terminal.press(UNFOCUSED);
    terminal.press("\r");
    terminal.wait_for_bytes("\x1b]777;notify;Agent Relay;Ann has written to you\x07");
    terminal.press("\r");
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
    let script = r#"
say() { until [ -e "$1" ]; do sleep 0.05; done; "$RELAY" send @operator Hello. && echo said || echo refused; }
echo ready
say first
say second
read end
"#;
    let mut terminal = claude::start_with_hooks(&sandbox, script, &[]);
    terminal.press(UNFOCUSED);
    step(&sandbox, "first");
    terminal.wait_for("refused");
    assert_eq!(count(&terminal, "\x1b]9;"), 0);
    policy(true);
    assert!(sandbox.run(["policy", "reload"]).status.success());
    step(&sandbox, "second");
    terminal.wait_for("said");
    terminal.wait_for_bytes("\x1b]9;Ann has written to you\x07");
    terminal.press("\r");
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
