//! Commands of a person for one wrapper: attach, hold, release, spawn and stop, and the reports
//! about agents that have ended.

use crate::{
    activity::await_activity,
    commands::{USAGE, err, out, run},
    wrap::{fullscreen, wait_until_heard, without_blanks, wrap_line_reader},
};
use platform::{endpoint::Endpoint, lock::Lock, process::SYSTEM, pty::Size, transport::Stream};
use protocol::{
    control::{Answer, Bytes, Dialog, Request},
    frame::Decoder,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    path,
    sync::mpsc,
    thread,
};
use testkit::{
    asking,
    claude::{self, Claude},
    programs::example_program,
    sandbox::Sandbox,
    terminal::{SIZE, Terminal},
    waiting::{WATCHDOG, not_tried, output, until},
};

const DONE: i32 = 0;
const FAILED: i32 = 1;

const BASH: [&str; 3] = ["bash", "--norc", "--noprofile"];
const DETACH: &str = "\u{1c}";

/// Wraps a shell as Ann in a separate terminal, and waits for its prompt.
#[track_caller]
fn ann(sandbox: &Sandbox) -> Terminal {
    let ann = Terminal::wrap(sandbox, "Ann", &BASH);
    ann.wait_for_row("$");
    ann
}

/// Attaches a terminal to Ann, and waits until the terminal reports the attachment.
#[track_caller]
fn attach(sandbox: &Sandbox, size: Size, options: &[&str]) -> Terminal {
    let arguments = [&["attach", "Ann"], options].concat();
    let terminal = Terminal::command_in(sandbox, size, &arguments);
    terminal.wait_for_bytes(" Ann; ");
    terminal
}

/// A spawned agent, stopped when dropped.
struct Spawned<'a>(&'a Sandbox, &'a str);

impl<'a> Spawned<'a> {
    #[track_caller]
    fn new(sandbox: &'a Sandbox, name: &'a str, command: &[&str]) -> Self {
        let mut spawn = sandbox.command([&["spawn", name, "--"], command].concat());
        spawn.env("PS1", "$ ").env("HISTFILE", "");
        let spawned = output(spawn);
        assert!(out(&spawned).starts_with(&format!("{name} runs (process ")), "{spawned:?}");
        Self(sandbox, name)
    }
}

impl Drop for Spawned<'_> {
    fn drop(&mut self) {
        // The agent may have ended by itself, so a failure of `stop` is ignored.
        self.0.run(["stop", self.1]);
    }
}

/// A raw connection to Ann's wrapper.
struct Visitor {
    stream: Stream,
    decoder: Decoder,
}

impl Visitor {
    fn new(sandbox: &Sandbox) -> Self {
        let endpoint = Endpoint::of_agent(&sandbox.home().join("run"), "Ann").unwrap();
        let stream = Stream::connect(&endpoint).unwrap();
        Self { stream, decoder: Decoder::new(1 << 24) }
    }

    fn ask(&self, request: &Request) {
        let mut frame = Vec::new();
        request.append(&mut frame);
        self.write(&frame);
    }

    fn write(&self, bytes: &[u8]) {
        (&self.stream).write_all(bytes).unwrap();
    }

    /// Reads the next answers; `None` at the end of the connection.
    fn read_answers(&mut self) -> Option<Vec<Answer>> {
        loop {
            if let Some(frames) = self.decoder.take().unwrap() {
                return Some(frames.map(|frame| Answer::read(frame).unwrap()).collect());
            }
            match (&self.stream).read(self.decoder.space()).unwrap() {
                0 => return None,
                count => self.decoder.filled(count),
            }
        }
    }

    /// Reads until `last` matches an answer, under the watchdog. Returns all answers.
    #[track_caller]
    fn read_until(mut self, last: impl Fn(&Answer) -> bool + Send + 'static) -> Vec<Answer> {
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            let mut all = Vec::new();
            while let Some(answers) = self.read_answers() {
                all.extend(answers);
                if all.iter().any(&last) {
                    break;
                }
            }
            sender.send(all)
        });
        answers.recv_timeout(WATCHDOG).expect("it comes")
    }
}

/// Returns Ann's state, as a command prints it.
#[track_caller]
fn state(sandbox: &Sandbox, command: &str) -> Value {
    let asked = run(sandbox, &[command, "Ann", "--json"], DONE);
    serde_json::from_slice(&asked.stdout).unwrap()
}

/// Reports whether a process has ended.
fn is_over(sandbox: &Sandbox, pid: &str) -> bool {
    let mut kill = sandbox.program("kill");
    kill.args(["-0", pid]);
    !output(kill).status.success()
}

#[test]
fn attached_terminal_shows_and_drives_an_agent() {
    let sandbox = Sandbox::new();
    let mut ann = wrap_line_reader(&sandbox, "Ann", &["print before"]);
    let mut other = attach(&sandbox, SIZE, &[]);
    other.wait_for_row("before");
    other.wait_for_bytes("attached to Ann; Ctrl-\\ leaves it running");
    other.press("print from the other\r");
    for terminal in [&ann, &other] {
        terminal.wait_for_row("from the other");
    }
    ann.press("print from Ann\r");
    other.wait_for_row("from Ann");
    other.press(&format!("print half{DETACH}"));
    other.wait_for("Ann runs on; `agent-relay attach Ann` shows it again");
    assert_eq!(other.finish(), DONE);
    ann.wait_for_row("print half");
    ann.press("way\r");
    ann.wait_for_row("halfway");
    ann.press("exit 7\r");
    assert_eq!(ann.finish(), 7);
}

#[test]
fn viewer_changes_nothing() {
    let sandbox = Sandbox::new();
    let mut ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let mut view = attach(&sandbox, SIZE, &["--view"]);
    view.wait_for_bytes("looking at Ann");
    let mut drive = attach(&sandbox, SIZE, &["--detach-key", "ctrl-]"]);
    drive.wait_for_bytes("attached to Ann; Ctrl-] leaves");
    view.press("print never\r");
    drive.press("print once\r");
    for terminal in [&ann, &view, &drive] {
        terminal.wait_for_row("once");
        assert!(!terminal.text().contains("never"), "{}", terminal.text());
    }
    // The default detach key reaches the agent, and the key chosen by an option detaches.
    drive.press(&format!("keep typed\r{DETACH}\r\u{1d}"));
    assert_eq!(drive.finish(), DONE);
    let typed = sandbox.directory().join("typed");
    until("the key arrives", || fs::read_to_string(&typed).is_ok_and(|it| it.contains(DETACH)));
    view.press("\u{3}");
    assert_eq!(view.finish(), DONE);
    ann.press("exit 5\r");
    assert_eq!(ann.finish(), 5);

    // A client that attaches as a viewer and nevertheless sends keys is refused.
    let _ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let visitor = Visitor::new(&sandbox);
    visitor.ask(&Request::Attach { drive: false, columns: 80, rows: 24, looks: false });
    visitor.ask(&Request::Keys { bytes: Bytes(b"x".to_vec()) });
    let answers = visitor.read_until(|answer| matches!(answer, Answer::Error { .. }));
    let is_refusal =
        |it: &Answer| matches!(it, Answer::Error { message } if message.contains("--view"));
    // A snapshot may come with it.
    assert!(answers.iter().any(is_refusal), "{answers:?}");
}

#[test]
fn attached_terminal_of_another_size_shows_the_part_that_fits() {
    let sandbox = Sandbox::new();
    let mut ann = ann(&sandbox);
    let small = attach(&sandbox, Size { rows: 8, cols: 30 }, &[]);
    let mut large = attach(&sandbox, Size { rows: 40, cols: 150 }, &[]);
    large.wait_for(" attached to Ann; Ctrl-\\ leaves it running\n");
    let narrow = attach(&sandbox, Size { rows: 24, cols: 80 }, &["--view"]);
    narrow.wait_for(" looking at Ann; Ctrl-\\ leaves it running; only a part of 100x30 fits\n");
    large.press("seq 1 100; echo wide-{1..30}\r");
    ann.wait_for("wide-30\n$");
    large.wait_for("wide-30\n$");
    // The small terminal shows Ann's last rows.
    small.wait_until("the end of it", |screen| {
        screen.contains("\n99\n100\nwide-1 wide-2") && screen.ends_with("$\n")
    });
    ann.press("stty size\r");
    for terminal in [&ann, &large] {
        terminal.wait_for("\n30 100\n");
    }
    // A terminal that becomes as large as Ann's shows her output unchanged.
    small.resize(SIZE);
    small.wait_for("\n30 100\n$");
    ann.press("\u{c}echo $((40 + 2)); printf '\\e[7mlast\\e[m\\n'\r");
    small.wait_for("\n42\nlast\n$");
}

#[test]
fn detaching_resets_the_modes_of_a_full_screen_program() {
    let sandbox = Sandbox::new();
    let ann = Terminal::wrap(
        &sandbox,
        "Ann",
        &["sh", "-c", "printf '\\033[?1049h\\033[?2004h\\033[?1000hfull\\033[?25l'; read x"],
    );
    ann.wait_for("full");
    let mut other = attach(&sandbox, SIZE, &[]);
    other.wait_for("full");
    other.press(DETACH);
    other.wait_for("Ann runs on");
    let bytes = String::from_utf8(other.bytes()).unwrap();
    let (_, end) = bytes.rsplit_once("full").unwrap();
    for reset in ["\u{1b}[?1049l", "\u{1b}[?2004l", "\u{1b}[?1000l", "\u{1b}[?25h"] {
        assert!(end.contains(reset), "{end:?}");
    }
}

/// Claude Code and Gemini CLI suspend themselves, and a wrapped agent has no shell to continue it.
#[test]
fn command_that_suspends_itself_is_continued() {
    let sandbox = Sandbox::new();
    let script =
        "trap 'echo goes on' CONT; stty raw -echo; echo ready; while :; do sleep 0.05; done";
    let mut ann = Terminal::wrap(&sandbox, "Ann", &["sh", "-c", script]);
    for (count, key) in (1..).zip(["\u{1a}", "\u{1b}[122;5u"]) {
        ann.wait_for("ready");
        ann.press(key);
        ann.wait_until("it goes on", |shown| shown.matches("goes on").count() == count);
    }
}

#[test]
fn interrupted_drawing_stays_readable_above_the_next_output() {
    let sandbox = Sandbox::new();
    let shows = "printf 'a\\nbox\\nits foot\\033[2A'; ";
    let ann = Terminal::wrap(&sandbox, "Ann", &["sh", "-c", &format!("{shows} exit 3")]);
    ann.wait_for("a\nbox\nits foot\nagent-relay: Ann ended with code 3\n");
    assert_eq!(ann.finish(), 3);
    // After a success, the cursor stays where the command left it.
    let wrap = env!("CARGO_BIN_EXE_agent-relay-wrap");
    let script = "\"$0\" -n Bob -- sh -c \"$1\"; printf next";
    let bob = Terminal::run(&sandbox, &["sh", "-c", script, wrap, shows]);
    bob.wait_for("a       next\nbox\nits foot\n");
}

#[test]
fn crash_of_a_full_screen_program_reports_its_last_lines() {
    let sandbox = Sandbox::new();
    let crashes = "printf '\\033[?1049hpanicked at main.rs:1'; kill -SEGV $$";
    let ann = Terminal::wrap(&sandbox, "Ann", &["sh", "-c", crashes]);
    ann.wait_for("the last lines on its screen:\n    | panicked at main.rs:1\n");
    assert_eq!(ann.finish(), 139);
}

#[test]
fn attached_terminals_report_the_end_of_an_agent() {
    let sandbox = Sandbox::new();
    let mut ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let other = attach(&sandbox, SIZE, &[]);
    let view = attach(&sandbox, Size { rows: 10, cols: 80 }, &["--view"]);
    ann.press("print the last words\rexit 9\r");
    for terminal in [other, view] {
        terminal.wait_for("Ann ended with code 9; the last lines on its screen:");
        terminal.wait_for("    | the last words\n");
        assert_eq!(terminal.finish(), 9);
    }
    ann.wait_for("agent-relay: Ann ended with code 9\n");
    assert_eq!(ann.finish(), 9);
}

#[test]
fn stalled_attach_client_delays_no_other_and_gets_a_snapshot_later() {
    let sandbox = Sandbox::new();
    let mut ann = ann(&sandbox);
    let slow = Visitor::new(&sandbox);
    let Size { rows, cols: columns } = SIZE;
    slow.ask(&Request::Attach { drive: true, columns, rows, looks: false });
    until("it is attached", || state(&sandbox, "release")["attached"] == 1);
    ann.press("for n in $(seq 1 100000); do echo line $n; done; echo all of it\r");
    ann.wait_for("\nline 100000\nall of it\n$");
    let mut beside = attach(&sandbox, SIZE, &[]);
    beside.wait_for("\nall of it\n$");
    beside.press(DETACH);
    assert_eq!(beside.finish(), DONE);
    let is_end = |answer: &Answer| {
        matches!(answer, Answer::Screen { bytes, .. }
            if bytes.0.windows(9).any(|text| text == b"all of it"))
    };
    let answers = slow.read_until(is_end);
    let bytes: usize = answers
        .iter()
        .map(|answer| match answer {
            Answer::Output { bytes } | Answer::Screen { bytes, .. } => bytes.0.len(),
            _ => 0,
        })
        .sum();
    assert!(bytes < 800_000, "{bytes} were kept for it");
}

#[test]
fn spawned_agent_runs_without_a_terminal_and_takes_the_size_of_the_driver() {
    let sandbox = Sandbox::new();
    let spawned = Spawned::new(&sandbox, "Ann", &BASH);
    let mut drive = attach(&sandbox, Size { rows: 20, cols: 70 }, &[]);
    drive.press("stty size\r");
    drive.wait_for("\n20 70\n$");
    let _view = attach(&sandbox, Size { rows: 50, cols: 50 }, &["--view"]);
    drive.press("echo still $(stty size)\r");
    drive.wait_for("\nstill 20 70\n$");
    drive.resize(Size { rows: 25, cols: 90 });
    let wait = "clear; while [ \"$(stty size)\" != '25 90' ]; do sleep 0.01; done; echo resized\r";
    drive.press(wait);
    drive.wait_for("resized\n$");
    drive.press(DETACH);
    assert_eq!(drive.finish(), DONE);
    // A spawned agent sends and receives as any other agent does.
    let mut bob = sandbox.join("Bob");
    bob.send("Ann", "for the spawned one", json!({"requires_ack": true}));
    assert_eq!(bob.expect("ACK")["payload"]["state"], "accepted");
    let mut drive = attach(&sandbox, SIZE, &[]);
    drive.wait_for("for the spawned one");
    drive.press(&format!("{} send Bob heard\r", env!("CARGO_BIN_EXE_agent-relay")));
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "heard");

    let twice = run(&sandbox, &["spawn", "ann", "--", "cat"], FAILED);
    assert!(err(&twice).contains("ann runs already"), "{twice:?}");
    let wrapper = state(&sandbox, "hold")["wrapper_pid"].to_string();
    let stopped = run(&sandbox, &["stop", "Ann"], DONE);
    assert_eq!(out(&stopped), "Ann ended\n");
    drive.wait_for("Ann ended with code ");
    let refused = run(&sandbox, &["stop", "Ann"], FAILED);
    assert!(err(&refused).contains("no wrapped agent Ann (none runs)"), "{refused:?}");
    drop(spawned);
    until("the wrapper has ended", || is_over(&sandbox, &wrapper));
    let left: Vec<_> = fs::read_dir(sandbox.home().join("run"))
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    assert_eq!(left, ["ann.lock"]);
    let log = fs::read_to_string(sandbox.home().join("logs/Ann.log")).unwrap();
    assert!(log.contains("Ann ended with code "), "{log}");
    assert!(!log.contains("for the spawned one"), "a log has nobody's messages: {log}");
}

#[test]
fn failed_spawn_is_explained() {
    let sandbox = Sandbox::new();
    let program = &fullscreen();
    let missing = run(&sandbox, &["spawn", "Ann", "--", "no-such-command"], FAILED);
    assert_eq!(
        err(&missing),
        "agent-relay: Ann did not start: there is no command no-such-command; check its name and PATH\n"
    );
    let nowhere = run(&sandbox, &["spawn", "Ann", "--cwd", "nowhere", "--", program], FAILED);
    assert!(err(&nowhere).contains("there is no directory "), "{nowhere:?}");
    run(&sandbox, &["spawn", "Ann"], USAGE);
    run(&sandbox, &["spawn", "a b", "--", program], USAGE);
    run(&sandbox, &["spawn", "Ann", "--key-file", "none", "--", program], FAILED);
    let _ann = sandbox.join("Ann");
    let refused = run(&sandbox, &["spawn", "Ann", "--", program], FAILED);
    assert!(err(&refused).contains("Ann did not start: Ann is connected already"), "{refused:?}");
}

#[test]
fn crash_of_a_spawned_agent_is_logged() {
    let sandbox = Sandbox::new();
    // A Windows console consumes the sequence, and shows the text.
    let title = if SYSTEM == "windows" { "" } else { "\u{1b}]0;x\u{7}" };
    let why = format!("print panicked at {title}main.rs:1");
    let lines = example_program("lines");
    let ann = Spawned::new(&sandbox, "Ann", &[&lines, "--keys", "print one\\n", &why]);
    let mut drive = attach(&sandbox, SIZE, &[]);
    drive.press("exit 3\r");
    drive.wait_for("    | panicked at main.rs:1\n");
    assert_eq!(drive.finish(), 3);
    let log = sandbox.home().join("logs/Ann.log");
    let expected = "Ann ended with code 3; the last lines on its screen:\n    | one\n    | panicked at main.rs:1\n";
    until("the log has it", || fs::read_to_string(&log).unwrap().contains(expected));
    drop(ann);
    // Bob's command ends at once.
    let spawned = sandbox.run(["spawn", "Bob", "--", &lines, "print why", "exit 4"]);
    let message = err(&spawned);
    let ended = message
        .contains("Bob ended at once, with code 4; the last lines on its screen:\n    | why\n");
    assert!(ended || out(&spawned).starts_with("Bob runs"), "{spawned:?}");
    until("its log has it", || {
        fs::read_to_string(sandbox.home().join("logs/Bob.log"))
            .is_ok_and(|log| log.contains("Bob ended with code 4"))
    });
}

#[test]
fn held_messages_are_typed_once_after_release() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let mut ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let held = run(&sandbox, &["hold", "Ann"], DONE);
    assert_eq!(out(&held), "Ann's messages are held; 0 wait\n");
    for body in ["first", "second"] {
        bob.send("Ann", body, json!({"requires_ack": true}));
        assert_eq!(bob.expect("ACK")["payload"]["state"], "accepted");
    }
    until("both wait", || state(&sandbox, "hold")["waiting"] == 2);
    let held = state(&sandbox, "hold");
    assert_eq!(held["schema"], "agent-relay.wrapped/1");
    assert_eq!((&held["held"], &held["connected"]), (&json!(true), &json!(true)));
    assert_eq!(held["why"], "its messages are on hold: `agent-relay release Ann`");
    let listed = out(&run(&sandbox, &["agents"], DONE));
    assert!(
        listed.lines().any(|line| line.starts_with("Ann") && line.contains(", held ")),
        "{listed}"
    );
    let why = out(&run(&sandbox, &["agents", "Ann", "--why"], DONE));
    assert!(why.starts_with("Ann (waiting): its messages are on hold\nFACT "), "{why}");
    let fact = |name: &str| why.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(fact("messages are held ").contains(" yes "), "{why}");
    assert!(fact("reader ").ends_with(" processes"), "{why}");
    ann.press("typed by hand\r");
    ann.wait_for_row("heard: typed by hand");
    assert!(!ann.text().contains("first"), "{}", ann.text());
    let released = state(&sandbox, "release");
    assert_eq!(released["held"], false);
    wait_until_heard(&ann, "second");
    run(&sandbox, &["release", "ANN"], DONE);
    until("nothing waits", || state(&sandbox, "release")["waiting"] == 0);
    ann.press("over\r");
    ann.wait_for_row("heard: over");
    let text = ann.text();
    let count = |row| text.lines().filter(|it| *it == row).count();
    assert_eq!((count("heard: first"), count("heard: second")), (1, 1), "{text}");
}

#[test]
fn several_agents_are_held_and_stopped_each_with_its_line() {
    let sandbox = Sandbox::new();
    let agents = ["Ann", "Bob"].map(|name| wrap_line_reader(&sandbox, name, &[]));
    // A wrong name among them ends the command before it has held anything.
    run(&sandbox, &["hold", "Ann", "a b"], USAGE);
    let held = run(&sandbox, &["hold", "ann", "Zoe", "Bob", "ANN"], FAILED);
    assert_eq!(out(&held), "ann's messages are held; 0 wait\nBob's messages are held; 0 wait\n");
    assert!(err(&held).contains("no wrapped agent Zoe (running: Ann, Bob)"), "{held:?}");
    let released = run(&sandbox, &["release", "Bob", "Ann", "--json"], DONE);
    let released: Vec<Value> =
        out(&released).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = released.iter().map(|state| &state["name"]).collect();
    assert_eq!(names, ["Bob", "Ann"]);
    assert!(released.iter().all(|state| state["held"] == false), "{released:?}");
    let stopped = run(&sandbox, &["stop", "Bob", "Zoe", "Ann"], FAILED);
    assert_eq!(out(&stopped), "Bob ended\nAnn ended\n");
    assert!(err(&stopped).contains("no wrapped agent Zoe"), "{stopped:?}");
    for agent in agents {
        agent.finish();
    }
}

#[test]
fn important_message_is_typed_before_earlier_ones() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let _ann = wrap_line_reader(&sandbox, "Ann", &["keep typed"]);
    run(&sandbox, &["hold", "Ann"], DONE);
    for number in 0..40 {
        bob.send("Ann", &format!("usual {number}."), json!({"requires_ack": true}));
        bob.expect("ACK");
    }
    bob.send("Ann", "urgent", json!({"requires_ack": true, "importance": 99}));
    bob.expect("ACK");
    until("all wait", || state(&sandbox, "hold")["waiting"] == 41);
    run(&sandbox, &["release", "Ann"], DONE);
    let typed = || fs::read_to_string(sandbox.directory().join("typed")).unwrap_or_default();
    until("two are typed", || typed().matches("\n[/relay ").count() >= 2);
    let typed = typed();
    assert!(typed.find("urgent") < typed.find("usual 0."), "{typed}");
}

/// Checks that a half-typed line delays messages, also if it is typed in an attached terminal.
#[test]
fn half_typed_line_of_an_attached_person_delays_messages() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let mut other = attach(&sandbox, SIZE, &[]);
    other.press("not yet");
    ann.wait_for_row("not yet");
    bob.send("Ann", "hello", json!({"requires_ack": true}));
    bob.expect("ACK");
    until("it waits for the person", || {
        let why = state(&sandbox, "release")["why"].to_string();
        why.contains("half typed") || why.contains("no prompt")
    });
    // Answers of the second terminal to queries are not keys.
    other.press("\u{1b}[5;5R\u{1b}[?62;4c");
    other.press("\r");
    ann.wait_for_row("heard: not yet");
    wait_until_heard(&ann, "hello");
    assert!(!ann.text().contains("62;4c"), "{}", ann.text());
}

/// Checks keys that begin like a terminal's answer to a query: a lone Esc, and an Esc with a `_`
/// without a continuation.
#[test]
fn escape_key_reaches_an_attached_agent() {
    let sandbox = Sandbox::new();
    let ann = Terminal::wrap(&sandbox, "Ann", &["sh", "-c", "echo ready; cat"]);
    ann.wait_for_row("ready");
    let mut other = attach(&sandbox, SIZE, &[]);
    other.press("\u{1b}");
    ann.wait_for("^[");
    other.press("Please \u{1b}_");
    ann.wait_for("^[Please ^[_");
    other.press("\u{15}stop\r");
    ann.wait_until("both echoes", |screen| screen.matches("stop\n").count() == 2);
}

#[test]
fn stop_kills_an_unresponsive_command_and_its_children() {
    let sandbox = Sandbox::new();
    let lines = example_program("lines");
    let start = format!("start \"{lines}\" \"lock child\" \"defy child-told\" stay");
    let _ann = Spawned::new(&sandbox, "Ann", &[&lines, &start, "defy told", "stay"]);
    for file in ["told", "child-told"] {
        let file = sandbox.directory().join(file);
        until("both defy", || fs::exists(&file).unwrap());
    }
    let child = sandbox.directory().join("child");
    assert!(Lock::is_held(&child).unwrap());
    let stopped = state(&sandbox, "stop");
    // Windows has no signals.
    let expected =
        if SYSTEM == "windows" { (json!(1), json!(null)) } else { (json!(137), json!(9)) };
    assert_eq!((&stopped["code"], &stopped["signal"]), (&expected.0, &expected.1), "{stopped}");
    assert_eq!(stopped["schema"], "agent-relay.stop/1");
    until("the other has ended", || !Lock::is_held(&child).unwrap());
}

#[test]
fn closed_window_ends_its_agent_and_only_detaches_a_viewer() {
    let sandbox = Sandbox::new();
    let ann = wrap_line_reader(&sandbox, "Ann", &["defy told"]);
    attach(&sandbox, SIZE, &[]).close_window();
    until("it is detached", || state(&sandbox, "release")["attached"] == 0);
    let other = attach(&sandbox, SIZE, &["--view"]);
    ann.close_window();
    other.wait_for("Ann ended with code ");
    other.finish();
    let told = fs::read_to_string(sandbox.directory().join("told")).unwrap();
    let expected = if SYSTEM == "windows" { "Stop\n" } else { "HangUp\n" };
    assert!(told.starts_with(expected), "{told}");
    until("nobody is there", || sandbox.run(["release", "Ann"]).status.code() == Some(FAILED));
}

/// A program under the name of Claude Code that asks its terminal for the cursor's position, as
/// often as a file says, and prints the answers.
const ASKS: &str = r#"
stty raw -echo
echo ready
for n in 1 2; do
    while ! [ -e "$HOME/ask$n" ]; do sleep 0.05; done
    printf '\033[6n'
    answer=$(dd bs=1 count=6 2>/dev/null | od -An -c | tr -d ' ')
    printf '\r\n%s: %s\r\n' "$n" "$answer"
done
while ! [ -e "$HOME/end" ]; do sleep 0.05; done
"#;

#[test]
fn agent_outlives_its_window() {
    let sandbox = Sandbox::new();
    let step = |name: &str| fs::write(sandbox.directory().join(name), "").unwrap();
    let ann = claude::start_with_hooks(&sandbox, ASKS, &[]);
    step("ask1");
    ann.wait_for("1: 033[");
    ann.close_window();
    let log = sandbox.home().join("logs/Ann.log");
    until("the log tells of it", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("the agent goes on without it"))
    });
    // Now the wrapper answers for the terminal.
    step("ask2");
    let mut other = attach(&sandbox, Size { rows: 20, cols: 70 }, &[]);
    other.wait_for("2: 033[");
    other.press(DETACH);
    other.finish();
    assert_eq!(state(&sandbox, "hold")["attached"], 0);
    // Whoever runs it once more means this one.
    let mut again = Terminal::wrap(&sandbox, "Ann", &["true"]);
    again.wait_for("Ann runs in the background; attach to it? [Y/n]");
    again.press("\r");
    again.wait_for("attached to Ann");
    again.press(DETACH);
    again.finish();
    step("end");
    until("the log says how it ended", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("Ann ended with code 0"))
    });
    until("nobody is there", || sandbox.run(["release", "Ann"]).status.code() == Some(FAILED));
}

#[test]
fn agent_that_ended_with_its_window_is_restored() {
    let sandbox = Sandbox::with_config("on_hangup = 'end'");
    let claude = Claude::install(&sandbox);
    let ann = claude.wrap(&sandbox);
    claude.hook("UserPromptSubmit", r#"{"session_id":"c0ffee","prompt":"Work."}"#);
    await_activity(&sandbox, "working");
    ann.close_window();
    until("nobody is there", || sandbox.run(["release", "Ann"]).status.code() == Some(FAILED));
    claude.forget();
    until("Ann is cut off", || out(&run(&sandbox, &["restore"], DONE)).contains("Ann"));
    let restored = out(&run(&sandbox, &["restore", "--all"], DONE));
    assert!(restored.starts_with("Ann goes on (process "), "{restored}");
    until("Ann runs again", || claude.started().len() == 2);
    assert_eq!(claude.started()[1].1, ["--resume", "c0ffee"]);
    run(&sandbox, &["stop", "Ann"], DONE);
}

#[test]
fn files_of_a_killed_wrapper_are_taken_over() {
    let sandbox = Sandbox::new();
    let first = wrap_line_reader(&sandbox, "Ann", &[]);
    // Dropping a terminal kills the processes in it.
    drop(first);
    until("nobody is there", || {
        err(&run(&sandbox, &["hold", "Ann"], FAILED)).contains("(none runs)")
    });
    until("the daemon knows, too", || {
        let ann = sandbox.join("Asking").agents().into_iter().find(|it| it["name"] == "Ann");
        ann.is_some_and(|ann| ann["here"] == false)
    });
    let _second = wrap_line_reader(&sandbox, "Ann", &[]);
    assert_eq!(state(&sandbox, "hold")["held"], true);
    let refused = run(&sandbox, &["hold", "Bob"], FAILED);
    assert!(err(&refused).contains("no wrapped agent Bob (running: Ann)"), "{refused:?}");
}

#[test]
fn commands_for_people_refuse_agents() {
    let sandbox = Sandbox::new();
    let mut ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let no_terminal = run(&sandbox, &["attach", "Ann"], FAILED);
    assert!(err(&no_terminal).contains("attach needs a terminal"), "{no_terminal:?}");
    for command in ["attach", "hold", "release", "stop"] {
        run(&sandbox, &[command, "a b"], if command == "attach" { FAILED } else { USAGE });
        run(&sandbox, &[command], USAGE);
    }
    run(&sandbox, &["attach", "Ann", "--detach-key", "q"], USAGE);
    // A program that an agent runs may not act as a person.
    let program = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    for command in ["release Ann", "stop Bob"] {
        ann.press(&format!("run \"{}\" {command}\r", program.display()));
    }
    ann.wait_until("both refusals", |screen| {
        without_blanks(screen).matches(&without_blanks("person at a terminal")).count() == 2
    });
}

#[test]
fn unusable_wrapper_endpoint_is_reported_once_and_is_harmless() {
    let sandbox = Sandbox::new();
    let run_directory = sandbox.home().join("run");
    platform::paths::make_private_dir(&run_directory).unwrap();
    let taken = |name: &str| Endpoint::of_agent(&run_directory, name).unwrap().to_string();
    for name in ["Ann", "Bob"] {
        fs::create_dir(taken(name)).unwrap();
    }
    let program = env!("CARGO_BIN_EXE_agent-relay");
    let line = [program, "run", "-n", "Ann", "--", "sh", "-c", "echo ready; read x"];
    let mut ann = Terminal::run(&sandbox, &line);
    ann.wait_for("attach, hold, release and stop will not find Ann: ");
    ann.wait_for("\nready\n");
    for (line, name) in [(&["hold", "Ann"][..], "Ann"), (&["spawn", "Bob", "--", "cat"], "Bob")] {
        let refused = err(&run(&sandbox, line, FAILED));
        assert!(
            refused.contains(&format!("{} exists and is not a socket", taken(name))),
            "{refused}"
        );
    }
    ann.press("\r");
    assert_eq!(ann.finish(), 0);
}

/// The socket's path would be too long in such a home.
#[test]
fn agent_of_a_long_home_is_reached() {
    let sandbox = Sandbox::empty();
    let home = sandbox.directory().join("long".repeat(25));
    let relay = |line: &[&str]| {
        let mut relay = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
        let ended = output({
            relay.arg("--home").arg(&home).args(line);
            relay
        });
        assert_eq!(ended.status.code(), Some(DONE), "{line:?}: {ended:?}");
        out(&ended)
    };
    relay(&["spawn", "Ann", "--", &fullscreen()]);
    assert!(relay(&["hold", "Ann"]).contains("Ann"));
    assert!(relay(&["agents"]).contains("Ann"));
    relay(&["stop", "Ann"]);
    relay(&["down"]);
    let listened = fs::read_to_string(home.join("endpoint")).unwrap();
    assert!(!fs::exists(&listened).unwrap(), "{listened} stays");
}

#[test]
fn invalid_request_ends_only_its_own_connection() {
    let sandbox = Sandbox::new();
    let mut ann = wrap_line_reader(&sandbox, "Ann", &[]);
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 0], &[0, 0, 0, 1, b'x'], &[255; 64]] {
        let visitor = Visitor::new(&sandbox);
        visitor.write(bytes);
        let answers = visitor.read_until(|_| false);
        assert!(matches!(answers[..], [Answer::Error { .. }]), "{bytes:?}: {answers:?}");
    }
    // A client that sends nothing, or half a request, is disconnected.
    let (silent, half) = (Visitor::new(&sandbox), Visitor::new(&sandbox));
    half.write(&[0, 0]);
    assert_eq!(silent.read_until(|_| false), []);
    assert_eq!(half.read_until(|_| false), []);
    // The numbers of viewers and of connections are limited.
    let view = || {
        let visitor = Visitor::new(&sandbox);
        visitor.ask(&Request::Attach { drive: false, columns: 80, rows: 24, looks: false });
        visitor
    };
    let seated: Vec<_> = (0..8).map(|_| view()).collect();
    until("all are seated", || state(&sandbox, "release")["attached"] == 8);
    let answers = view().read_until(|_| true);
    assert!(matches!(answers[..], [Answer::Error { .. }]), "{answers:?}");
    drop(seated);
    until("all have left", || state(&sandbox, "release")["attached"] == 0);
    let many: Vec<_> = (0..100).map(|_| Visitor::new(&sandbox)).collect();
    drop(many);
    until("there is room again", || sandbox.run(["hold", "Ann"]).status.success());
    ann.press("still here?\r");
    ann.wait_for_row("heard: still here?");
}

/// A script that becomes another user, requests the state, and prints the answer. The script exits
/// with 77 if it cannot become another user.
const STRANGER: &str = "
import os, socket, sys
try:
    os.setuid(65534)
except PermissionError:
    sys.exit(77)
with socket.socket(socket.AF_UNIX) as stream:
    stream.connect(sys.argv[1])
    said = b'{\"type\":\"STATE\"}'
    stream.sendall(len(said).to_bytes(4, 'big') + said)
    told = b''.join(iter(lambda: stream.recv(65536), b''))
sys.stdout.write(told[4:].decode())
";

/// The other user is refused even if the modes of the files allow the connection.
#[test]
fn wrapper_refuses_another_user() {
    let sandbox = Sandbox::new();
    let _ann = ann(&sandbox);
    let socket = sandbox.home().join("run/Ann.sock");
    let mut open = sandbox.program("chmod");
    open.args(["a+rwx"]).args([
        sandbox.directory(),
        &sandbox.home(),
        &sandbox.home().join("run"),
        &socket,
    ]);
    assert!(output(open).status.success());
    let mut stranger = sandbox.program("python3");
    stranger.args(["-c", STRANGER, socket.to_str().unwrap()]);
    let refusal = output(stranger);
    if refusal.status.code() == Some(77) {
        return not_tried("only root can become another user");
    }
    let Answer::Error { message } = Answer::read(&refusal.stdout).expect("one frame, and the end")
    else {
        panic!("{refusal:?}")
    };
    assert!(message.contains("65534"), "{message}");
}

/// Asks Ann's wrapper for the dialog on her screen.
fn dialog(sandbox: &Sandbox) -> Option<Dialog> {
    let visitor = Visitor::new(sandbox);
    visitor.ask(&Request::State);
    let answers = visitor.read_until(|answer| matches!(answer, Answer::State(_)));
    let state = answers.into_iter().find_map(|answer| match answer {
        Answer::State(state) => Some(state),
        _ => None,
    });
    state.unwrap().dialog
}

/// Chooses in a dialog of Ann's. Returns the reason if it is refused.
fn choose(sandbox: &Sandbox, dialog: &Dialog, choice: usize) -> Option<String> {
    let visitor = Visitor::new(sandbox);
    visitor.ask(&Request::Choose { dialog: dialog.clone(), choice });
    let answers =
        visitor.read_until(|answer| matches!(answer, Answer::State(_) | Answer::Error { .. }));
    answers.into_iter().find_map(|answer| match answer {
        Answer::Error { message } => Some(message),
        _ => None,
    })
}

#[test]
fn only_the_dialog_on_the_screen_gets_a_key() {
    const CHANGED: &str = "nothing is pressed: its screen does not show that question any more";
    let sandbox = Sandbox::new();
    let ann = asking::start(&sandbox, "Ann", "make one");
    let mut seen = None;
    until("the dialog is read", || {
        seen = dialog(&sandbox);
        seen.is_some()
    });
    let first = seen.unwrap();
    assert_eq!(first.text, "Bash command\nmake one\nProceed?");
    assert_eq!(first.choices, ["Yes", "No"]);
    for choice in [0, 3] {
        let refused = choose(&sandbox, &first, choice);
        assert_eq!(refused.as_deref(), Some("nothing is pressed: the question has no such choice"));
    }
    let other = Dialog { text: "Bash command\nmake two".to_owned(), ..first.clone() };
    assert_eq!(choose(&sandbox, &other, 1).as_deref(), Some(CHANGED));
    assert_eq!(choose(&sandbox, &first, 2), None);
    ann.wait_for_row("2");
    // The screen still shows it, but a key was pressed in it, which may be answering it.
    assert_eq!(dialog(&sandbox), None);
    assert_eq!(choose(&sandbox, &first, 2).as_deref(), Some(CHANGED));
}
