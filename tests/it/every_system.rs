//! Tests with real processes that run on every system, under Wine as well (see ci/windows).

mod outlives;

use crate::wrap::{fullscreen, send, wait_until_all_typed};
use platform::process::SYSTEM;
use serde_json::{Value, json};
use std::{
    env, fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Barrier, mpsc},
    thread,
};
use testkit::{
    programs::{copy_program, example_program},
    raw::Raw,
    sandbox::Sandbox,
    terminal::{SIZE, Terminal},
    waiting::{WATCHDOG, assert_success, until, wait},
};

#[test]
fn executables_start() {
    for path in [env!("CARGO_BIN_EXE_agent-relay"), env!("CARGO_BIN_EXE_agent-relay-wrap")] {
        let output = Command::new(path).arg("--help").stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(output.status.success(), "{path}: {output:?}");
    }
}

#[test]
fn processes_talk_both_ways_and_survive_a_daemon_crash() {
    let mut sandbox = Sandbox::new();
    let ann = Listener::start(&sandbox, "Ann", 2);
    let bob = Listener::start(&sandbox, "Bob", 2);
    sandbox.wait_for_agents(&["Ann", "Bob"]);
    sandbox.send("Carl", "Bob", "Your turn: \u{e4}\u{1f600} \"quoted\" \\ end");
    sandbox.send("Dora", "Ann", "Mine it is");
    assert_eq!(bob.receive(), ["Carl", "Bob", "Your turn: \u{e4}\u{1f600} \"quoted\" \\ end"]);
    assert_eq!(ann.receive(), ["Dora", "Ann", "Mine it is"]);
    sandbox.wait_until("all is acknowledged", |agents| {
        agents.iter().all(|agent| agent["queued"] == 0 && agent["in_flight"] == 0)
    });

    sandbox.kill();
    sandbox.start();
    // The new daemon knows only the agents that reconnected by themselves.
    sandbox.wait_for_agents(&["Ann", "Bob"]);
    sandbox.send("Dora", "Ann", "Still here?");
    sandbox.send("Carl", "Bob", "You too?");
    assert_eq!(ann.receive(), ["Dora", "Ann", "Still here?"]);
    assert_eq!(bob.receive(), ["Carl", "Bob", "You too?"]);
    ann.finish();
    bob.finish();
    // Both agents have left, and the messages that they received are no longer queued.
    sandbox.wait_until("both have left", |agents| {
        agents.iter().all(|agent| agent["here"] == false && agent["queued"] == 0)
    });
    assert_success(&sandbox.run(["down"]));
    assert!(sandbox.await_daemon_end().success());
}

#[test]
fn spawned_agent_is_held_released_and_stopped() {
    let sandbox = Sandbox::new();
    let program = fullscreen();
    let missing = sandbox.run(["spawn", "Ann", "--", "no-such-command-anywhere"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("did not start"), "{missing:?}");
    assert_success(&sandbox.run(["spawn", "Ann", "--accepts-text", "--", &program]));
    sandbox.wait_for_agents(&["Ann"]);
    let twice = sandbox.run(["spawn", "Ann", "--accepts-text", "--", &program]);
    assert_eq!(twice.status.code(), Some(1), "{twice:?}");
    let ask = |command| {
        let output = sandbox.run([command, "Ann", "--json"]);
        assert_success(&output);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(ask("hold")["held"], true);
    sandbox.send("Bob", "Ann", "hello");
    until("the message waits", || ask("hold")["waiting"] == 1);
    assert_eq!(ask("hold")["why"], "its messages are on hold: `agent-relay release Ann`");
    assert_eq!(ask("release")["held"], false);
    until("the message is typed", || ask("release")["waiting"] == 0);
    let ended = ask("stop");
    assert_eq!(ended["name"], "Ann", "{ended}");
    let refused = sandbox.run(["stop", "Ann"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn attached_terminal_shows_and_drives_an_agent() {
    let sandbox = Sandbox::new();
    assert_success(&sandbox.run(["spawn", "Ann", "--", &fullscreen()]));
    let mut other = Terminal::command_in(&sandbox, SIZE, &["attach", "Ann"]);
    other.wait_for_row(">");
    other.press("\u{1c}");
    other.wait_for("Ann runs on");
    assert_eq!(other.finish(), 0);
    let mut other = Terminal::command_in(&sandbox, SIZE, &["attach", "Ann"]);
    other.wait_for_row(">");
    other.press("quit\r");
    other.wait_for("Ann ended with code 0");
    assert_eq!(other.finish(), 0);
}

#[test]
fn system_shell_sends_messages_and_runs_none() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    // The shell's command, the end of its prompt, and a line that makes it print a message to Bob,
    // as the output of a program could. Such output is not sent.
    let (shell, prompt, line) = match env::var("ComSpec") {
        Ok(cmd) => (vec![cmd, "/d".into()], ">", "echo -^>relay:Bob ^<^<^<printed^>^>^>\r"),
        Err(_) => (vec!["sh".into(), "-i".into()], "$", "echo '->relay:Bob <<<printed>>>'\r"),
    };
    let words: Vec<_> = shell.iter().map(String::as_str).collect();
    let mut ann = Terminal::wrap_with(&sandbox, &["-n", "Ann", "--brief"], &words);
    ann.wait_until("a prompt", |screen| screen.trim_end().ends_with(prompt));
    ann.press(line);
    ann.wait_for_row("->relay:Bob <<<printed>>>");
    ann.press(concat!("\"", env!("CARGO_BIN_EXE_agent-relay"), "\" send Bob \"from a shell\"\r"));
    let received = bob.expect("DELIVER");
    assert_eq!(
        (&received["from"], &received["payload"]["body"]),
        (&json!("Ann"), &json!("from a shell"))
    );
    bob.acknowledge(&received);
    for body in ["echo x>pwned", "x\r\necho x>pwned\r\n", "& echo x>pwned & rem"] {
        sandbox.send("Carl", "Ann", body);
    }
    // A message is typed where the shell reads it as harmless text, and otherwise not at all.
    until("all are typed, or wait without end", || {
        let held = sandbox.run(["release", "Ann", "--json"]);
        let held: Value = serde_json::from_slice(&held.stdout).unwrap();
        let agent = bob.agents().into_iter().find(|agent| agent["name"] == "Ann").unwrap();
        let is_over = agent["queued"] == 0 && agent["in_flight"] == 0;
        let why = held["why"].as_str().unwrap_or_default();
        is_over || held["waiting"] == 3 && why.contains(" would run the text: leave ")
    });
    assert!(!ann.text().contains("Your name is"), "a shell got the brief: {}", ann.text());
    ann.press("exit 7\r");
    assert_eq!(ann.finish(), 7);
    assert!(!sandbox.directory().join("pwned").exists());
}

#[test]
fn agent_behind_a_script_of_npm_gets_messages() {
    const PACKAGE: &str = "node_modules/@anthropic-ai/claude-code";
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let npm = sandbox.directory().join("a folder");
    fs::create_dir_all(npm.join(PACKAGE)).unwrap();
    fs::write(npm.join(PACKAGE).join("cli.js"), "").unwrap();
    // `node` is the tests' program `toy`: it shows the composer of Claude Code, and treats its
    // argument, the path of cli.js, as a line of input.
    let node = npm.join(format!("node{}", env::consts::EXE_SUFFIX));
    copy_program(example_program("toy"), &node);
    let is_windows = SYSTEM == "windows";
    let (name, text) = if is_windows {
        ("claude.cmd", format!("@\"%~dp0\\node.exe\" \"%~dp0\\{PACKAGE}/cli.js\" %*\r\n"))
    } else {
        ("claude", format!("\"${{0%/*}}/node\" \"${{0%/*}}/{PACKAGE}/cli.js\" \"$@\"\n:\n"))
    };
    let script = npm.join(name);
    fs::write(&script, text).unwrap();
    let command = ["sh", script.to_str().unwrap()];
    let command = &command[usize::from(is_windows)..];
    let mut ann = Terminal::wrap(&sandbox, "Ann", command);
    ann.wait_for_row("ready");
    send(&mut bob, "Ann", "hello");
    wait_until_all_typed(&sandbox);
    ann.wait_until("the message", |screen| screen.matches("heard ").count() > 1);
    ann.press("quit\r");
    assert_eq!(ann.finish(), 0);
}

#[test]
fn text_is_utf_8_in_any_code_page() {
    const TEXT: &str = "größe 字 ┌";
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let expect_text = |from: &str, bob: &mut Raw| {
        let received = bob.expect("DELIVER");
        let message = (&received["from"], &received["payload"]["body"]);
        assert_eq!(message, (&json!(from), &json!(TEXT)));
        bob.acknowledge(&received);
    };
    let mut program = fullscreen();
    if let Ok(shell) = env::var("ComSpec") {
        // The shell's code page lacks some of the characters that the shell prints.
        let mut ann = Terminal::wrap(&sandbox, "Ann", &[&shell, "/d"]);
        ann.wait_until("a prompt", |screen| screen.trim_end().ends_with('>'));
        ann.press("chcp 437\r");
        ann.wait_until("the code page", |screen| screen.matches("437").count() > 1);
        ann.press(&format!("echo [{TEXT}]\r"));
        ann.wait_for_row(&format!("[{TEXT}]"));
        ann.press("exit\r");
        assert_eq!(ann.finish(), 0);
        let script = sandbox.directory().join("agent.cmd");
        fs::write(&script, format!("@chcp 437\r\n@\"{program}\"\r\n")).unwrap();
        program = script.into_os_string().into_string().unwrap();
    }
    // Text typed by a person, text typed as a message, and text printed by a program.
    let mut dora = Terminal::wrap_with(&sandbox, &["-n", "Dora", "--accepts-text"], &[&program]);
    dora.wait_for_row(">");
    dora.press(&format!("say Bob {TEXT}\r"));
    expect_text("Dora", &mut bob);
    // The message differs in case, since a repetition of the typed text is not sent.
    bob.send("Dora", &TEXT.to_ascii_uppercase(), json!({}));
    expect_text("Dora", &mut bob);
    dora.press("quit\r");
    assert_eq!(dora.finish(), 0);
}

#[test]
fn two_hundred_clients_join_at_once_and_send_in_a_ring() {
    const CLIENTS: usize = 200;
    let sandbox = Sandbox::new();
    let together = Barrier::new(CLIENTS);
    let join = &|number| {
        together.wait();
        sandbox.join(&format!("agent-{number}"))
    };
    let mut clients: Vec<Raw> = thread::scope(|scope| {
        let joining: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || join(number))).collect();
        joining.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    thread::scope(|scope| {
        for (number, raw) in clients.iter_mut().enumerate() {
            scope.spawn(move || talk_to_next(raw, number, (number + 1) % CLIENTS));
        }
    });
}

/// Sends to the next client of the ring, and receives from the previous one, both with
/// `requires_ack`.
#[track_caller]
fn talk_to_next(raw: &mut Raw, own: usize, next: usize) {
    let id =
        raw.send(&format!("agent-{next}"), &format!("from {own}"), json!({"requires_ack": true}));
    let (mut accepted, mut received) = (0, 0);
    while accepted + received < 2 {
        let envelope = raw.receive().expect("the connection lasts");
        if envelope["type"] == "ACK" {
            assert_eq!(envelope["payload"]["ack_id"], *id);
            accepted += 1;
        } else {
            assert_eq!(envelope["type"], "DELIVER", "{envelope}");
            let from = envelope["from"].as_str().unwrap().trim_start_matches("agent-");
            assert_eq!(envelope["payload"]["body"], format!("from {from}"));
            raw.acknowledge(&envelope);
            received += 1;
        }
    }
    assert_eq!((accepted, received), (1, 1));
}

/// A process of `agent-relay listen`, and the lines that it prints.
struct Listener {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Listener {
    fn start(sandbox: &Sandbox, name: &str, count: usize) -> Self {
        let count = count.to_string();
        let mut command =
            sandbox.command(["listen", "--as", name, "--count", count.as_str(), "--json"]);
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let out = process.stdout.take().unwrap();
        let (received, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if received.send(line).is_err() {
                    break;
                }
            }
        });
        Self { process, lines }
    }

    /// Returns sender, recipient and body of the next message.
    #[track_caller]
    fn receive(&self) -> [String; 3] {
        let line = self.lines.recv_timeout(WATCHDOG).expect("a message");
        let deliver: Value = serde_json::from_str(&line).unwrap();
        [&deliver["from"], &deliver["to"], &deliver["payload"]["body"]]
            .map(|value| value.as_str().unwrap_or_else(|| panic!("{line}")).to_owned())
    }

    /// Waits for the process to end. It ends by itself after its `--count` of messages.
    #[track_caller]
    fn finish(mut self) {
        assert!(wait(&mut self.process, "the listener").success());
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
