//! `top` in a terminal: its screens, its keys, and the terminal after it.

use crate::{
    commands::{DONE, USAGE, err, run},
    killed::suspend,
    restore::record,
    wrap::wrap_line_reader,
};
use ::terminal::agents::AGENTS;
use expect_test::{Expect, expect};
use platform::pty::Size;
use serde_json::json;
use std::{
    env,
    ffi::OsString,
    fs, path, thread,
    time::{Duration, Instant},
};
use testkit::{
    asking,
    claude::Claude,
    programs::example_program,
    sandbox::Sandbox,
    terminal::{self, Terminal},
    waiting::until,
};

const SIZE: Size = Size { rows: 24, cols: 80 };

/// The beginning of each drawing.
const DRAWING: &str = "\u{1b}[?2026h";

/// Runs `agent-relay ARGUMENTS` in a terminal, with these variables and as a person would, also if
/// the tests themselves are run by an agent.
fn start(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
    let program = program();
    let line = [&[&*program], arguments].concat();
    Terminal::start(&line, &environment(sandbox, variables), sandbox.directory(), SIZE)
}

fn program() -> String {
    path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap().to_str().unwrap().to_owned()
}

fn environment(sandbox: &Sandbox, variables: &[(&str, &str)]) -> Vec<(OsString, Option<OsString>)> {
    let mut environment = terminal::environment(sandbox);
    let of_agents = AGENTS.iter().filter_map(|agent| agent.command_variable);
    environment.extend(of_agents.map(|name| (name.into(), None)));
    environment.extend(["AGENT_RELAY_AGENT", "NO_COLOR"].map(|name| (name.into(), None)));
    let set = variables.iter().map(|(name, value)| (name.into(), Some(OsString::from(value))));
    environment.extend(set);
    environment
}

/// Quits, and checks that the terminal is restored.
#[track_caller]
fn quit(mut top: Terminal) {
    top.press("q");
    top.wait_until_end();
    check_is_restored(&top);
    assert_eq!(top.finish(), DONE);
}

/// Checks that the terminal's screen and modes are restored.
#[track_caller]
fn check_is_restored(top: &Terminal) {
    assert!(top.look(|screen| !screen.alternate()), "{}", top.text());
    let bytes = String::from_utf8_lossy(&top.bytes()).into_owned();
    // Whether the last sequence about each mode turns it off, or the cursor on.
    for (mode, last) in [
        ("?1049", 'l'),
        ("?1000", 'l'),
        ("?1006", 'l'),
        ("?2004", 'l'),
        ("?2026", 'l'),
        ("?25", 'h'),
    ] {
        // On Windows, the console's mouse modes are not checked.
        let Some(at) = bytes.rfind(&format!("\u{1b}[{mode}")) else { continue };
        let rest = &bytes[at + 2 + mode.len()..];
        assert!(rest.starts_with(last), "{mode} stays on");
    }
}

/// Compares the whole screen. Times, ids and ages are masked, and so is the endpoint, which ends
/// the first row; equal rows are counted.
#[track_caller]
fn check_screen(top: &Terminal, expected: &Expect) {
    let text = top.text();
    let rows: Vec<_> = text
        .lines()
        .enumerate()
        .map(|(number, row)| match row.find("  /").or_else(|| row.find("  npipe")) {
            Some(end) if number == 0 => format!("{}  ENDPOINT", &row[..end]),
            _ => masked(row),
        })
        .collect();
    let mut shown = String::new();
    for same in rows.chunk_by(|row, next| row == next) {
        shown.push_str(&format!("{}\n", same[0]));
        if same.len() > 1 {
            shown.push_str(&format!("({} more rows like that)\n", same.len() - 1));
        }
    }
    expected.assert_eq(&shown);
}

/// Replaces each id and each digit of a time or an age.
fn masked(row: &str) -> String {
    let is_id = |word: &&str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut masked = row.to_owned();
    for id in row.split(' ').filter(is_id) {
        masked = masked.replace(id, "xxxxxxxx");
    }
    let is_time =
        |part: &str| part.len() == 8 && part.bytes().filter(|byte| *byte == b':').count() == 2;
    for time in row.split(' ').filter(|part| is_time(part)) {
        masked = masked.replace(time, "HH:MM:SS");
    }
    let ages: Vec<_> = (0..10).map(|digit| format!(" {digit} s")).collect();
    ages.iter().fold(masked, |masked, age| masked.replace(age, " N s"))
}

/// Ann, who holds a message back, Bob, who is away while one waits, and a message to the person.
fn scene() -> (Sandbox, Terminal) {
    let sandbox = Sandbox::new();
    let ann = wrap_line_reader(&sandbox, "Ann", &[]);
    run(&sandbox, &["hold", "Ann"], DONE);
    sandbox.join("Bob").leave();
    for line in
        [["send", "Bob", "Are you there?"], ["send", "Ann", "Take the tests.\nAll of them."]]
    {
        run(&sandbox, &line, DONE);
    }
    let mut cid = sandbox.join("Cid");
    cid.send("@operator", "2 passed, \u{1b}[2J and \u{202e}שלום", json!({"requires_ack": true}));
    cid.expect("ACK");
    cid.leave();
    until("the message to Ann is held", || {
        let agents = String::from_utf8(sandbox.run(["agents"]).stdout).unwrap();
        agents.contains("its messages are on hold")
    });
    (sandbox, ann)
}

/// The screens of the scene, by their columns and rows.
fn screens() -> [(u16, u16, Expect); 3] {
    [
        (
            80,
            24,
            expect![[r#"
                3 agents, 1 here  1 message for you  ENDPOINT
                   NAME  PROGRAM  WHERE  STATE       FOR  MAIL  WHY
                   Ann   lines    ~      here, held  N s  1     N s: its messages are on hold: …
                   Bob                   away        N s  1
                1 away without mail: Cid
                Ann: ~; its messages are typed; 1 waiting, the oldest for N s
                  its messages are on hold: `agent-relay release Ann`
                MESSAGES
                HH:MM:SS xxxxxxxx  @operator -> Bob: Are you there?
                HH:MM:SS xxxxxxxx  @operator -> Ann: Take the tests. All of them.
                HH:MM:SS xxxxxxxx  Cid -> @operator: 2 passed, \u{1b}[2J and \u{202e}שלום

                (11 more rows like that)
                Enter attach  n next  m send  h hold  s stop  a new  i inbox  ? help  q quit
            "#]],
        ),
        (
            120,
            40,
            expect![[r#"
                3 agents, 1 here  1 message for you  ENDPOINT
                   NAME  PROGRAM  WHERE  STATE       FOR  MAIL  WHY                     │ SCREEN of Ann
                   Ann   lines    ~      here, held  N s  1     N s: its messages are o…│ ready
                   Bob                   away        N s  1                             │
                1 away without mail: Cid                                                │
                Ann: ~; its messages are typed; 1 waiting, the oldest for N s           │
                  its messages are on hold: `agent-relay release Ann`                   │
                MESSAGES                                                                │
                HH:MM:SS xxxxxxxx  @operator -> Bob: Are you there?                     │
                HH:MM:SS xxxxxxxx  @operator -> Ann: Take the tests. All of them.       │
                HH:MM:SS xxxxxxxx  Cid -> @operator: 2 passed, \u{1b}[2J and \u{202e}של…│
                                                                                        │
                (27 more rows like that)
                Enter attach  n next  m send  h hold  s stop  a new  i inbox  Tab messages  / filter  ? help  q quit
            "#]],
        ),
        (
            200,
            60,
            expect![[r#"
                3 agents, 1 here  1 message for you  ENDPOINT
                   NAME  PROGRAM  WHERE  STATE       FOR  MAIL  WHY                                                                     │ SCREEN of Ann
                   Ann   lines    ~      here, held  N s  1     N s: its messages are on hold: `agent-relay release Ann`                │ ready
                   Bob                   away        N s  1                                                                             │
                1 away without mail: Cid                                                                                                │
                Ann: ~; its messages are typed; 1 waiting, the oldest for N s                                                           │
                  its messages are on hold: `agent-relay release Ann`                                                                   │
                MESSAGES                                                                                                                │
                HH:MM:SS xxxxxxxx  @operator -> Bob: Are you there?                                                                     │
                HH:MM:SS xxxxxxxx  @operator -> Ann: Take the tests. All of them.                                                       │
                HH:MM:SS xxxxxxxx  Cid -> @operator: 2 passed, \u{1b}[2J and \u{202e}שלום                                               │
                                                                                                                                        │
                (47 more rows like that)
                Enter attach  n next  m send  h hold  s stop  a new  i inbox  Tab messages  / filter  ? help  q quit
            "#]],
        ),
    ]
}

/// The screen of the scene with 20 columns and 5 rows.
fn smallest_screen() -> Expect {
    expect![[r#"
        3 agents, 1 here  1…
           NAME  STATE
           Ann   here, held
        1 away without mail…
        ? help  q quit
    "#]]
}

#[test]
fn screens_of_all_sizes() {
    let (sandbox, _ann) = scene();
    let top = start(&sandbox, &["top"], &[("NO_COLOR", "1")]);
    for (cols, rows, expected) in screens().into_iter().chain([(20, 5, smallest_screen())]) {
        top.resize(Size { rows, cols });
        let last = if cols > 20 { "Enter attach" } else { "? help" };
        top.wait_until_screen("all of it", |screen| {
            let text = screen.text();
            let is_whole =
                text.lines().nth(usize::from(rows) - 1).is_some_and(|row| row.starts_with(last));
            let parts = ["1 message for you", "2 passed", ", held", "typed; 1 waiting, the oldest"];
            let has_all = cols == 20 || parts.iter().all(|part| text.contains(part));
            let has_preview = cols < 120 || text.lines().any(|row| row.ends_with("│ ready"));
            is_whole && has_all && has_preview
        });
        check_screen(&top, &expected);
    }
    let bytes = String::from_utf8_lossy(&top.bytes()).into_owned();
    // The backend writes colours by their numbers in a table of 256.
    assert!(!bytes.contains("[38;5;") && !bytes.contains("[48;5;"), "{bytes:?}");
    quit(top);
}

#[test]
fn agents_and_messages_are_shown() {
    let sandbox = Sandbox::new();
    let (_ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    run(&sandbox, &["send", "Bob", "said before"], DONE);
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("2 agents, 2 here");
    top.wait_until("both agents", |screen| screen.contains("Ann  ") && screen.contains("Bob  "));
    top.wait_for("@operator -> Bob: said before");
    run(&sandbox, &["send", "Bob", "\u{1b}[2Jhello\nthere"], DONE);
    top.wait_for("@operator -> Bob: \\u{1b}[2Jhello there");
    // Bob is the second agent.
    top.press("jm");
    top.wait_for("to Bob:");
    top.press("go on\r");
    top.wait_until("the message by the same id in both places", |text| {
        let after = |word| Some(text.split_once(word)?.1.split(' ').next()?.to_owned());
        after("sent ").is_some_and(|id| text.contains(&format!("{id}  @operator -> Bob: go on")))
    });
    while bob.expect("DELIVER")["payload"]["body"] != "go on" {}
    top.press("?");
    top.wait_for("quit; the agents run on");
    top.press("\u{1b}");
    top.wait_for("Enter attach");
    quit(top);
}

#[test]
fn message_to_the_person_is_read_answered_and_taken() {
    let (sandbox, _ann) = scene();
    let mut cid = sandbox.join("Cid");
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("1 message for you");
    top.press("i");
    top.wait_for("YOUR INBOX");
    top.press("\r");
    top.wait_for_row("2 passed, \\u{1b}[2J and \\u{202e}שלום");
    top.press("m");
    top.wait_for("to Cid:");
    top.press("thanks\r");
    while cid.expect("DELIVER")["payload"]["body"] != "thanks" {}
    top.press("t");
    top.wait_for("nothing waits for you");
    top.wait_until("no mail", |screen| !screen.contains("for you  "));
    top.press("i");
    top.wait_for("MESSAGES");
    quit(top);
}

#[test]
fn newest_of_many_messages_to_the_person_are_shown() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    for number in 0..205 {
        ann.send("@operator", &format!("note {number}."), json!({"requires_ack": true}));
        ann.expect("ACK");
    }
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("205 messages for you");
    top.press("i");
    top.wait_until("the newest", |text| text.contains("YOUR INBOX") && text.contains("note 204."));
    quit(top);
}

#[test]
fn longest_texts_and_names_fit() {
    let sandbox = Sandbox::new();
    let (long, body) = ("N".repeat(64), "right-to-left שלום ".repeat(40_000));
    let (mut sender, _bob) = (sandbox.join(&long), sandbox.join("Bob"));
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("2 agents, 2 here");
    sender.send("Bob", &body[..body.floor_char_boundary(1_000_000)], json!({}));
    top.wait_for("NNN… -> Bob: right-to-left שלום right");
    top.press("\t\r");
    top.wait_for(&format!("{long} -> Bob"));
    top.press("G");
    top.press("\u{1b}");
    top.wait_for("MESSAGES");
    quit(top);
}

#[test]
fn mouse_selects_and_scrolls() {
    let sandbox = Sandbox::new();
    let _agents = [sandbox.join("Ann"), sandbox.join("Bob")];
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("2 agents, 2 here");
    for number in 0..30 {
        run(&sandbox, &["send", "Bob", &format!("number {number}.")], DONE);
    }
    top.wait_for("number 29.");
    // The fourth row is Bob's.
    top.press("\u{1b}[<0;5;4M\u{1b}[<0;5;4mm");
    top.wait_for("to Bob:");
    top.press("\u{1b}");
    top.wait_for("Enter attach");
    top.press(&"\u{1b}[<64;5;15M".repeat(10));
    top.wait_for("(Esc: newest)");
    top.wait_for("number 0.");
    top.press(&"\u{1b}[<65;5;15M".repeat(10));
    top.wait_for("number 29.");
    quit(top);
}

#[test]
fn daemon_that_goes_and_comes_back_is_joined_again() {
    let mut sandbox = Sandbox::new();
    let (ann, bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    run(&sandbox, &["send", "Bob", "before"], DONE);
    let top = start(&sandbox, &["top"], &[]);
    top.wait_for("2 agents, 2 here");
    sandbox.kill();
    drop((ann, bob));
    top.wait_for("not connected, trying again");
    sandbox.start();
    top.wait_for(", 0 here");
    // The messages are followed again, too.
    let mut sent = 0;
    until("a message is shown", || {
        sent += 1;
        run(&sandbox, &["send", "Bob", &format!("after {sent}")], DONE);
        top.text().contains("@operator -> Bob: after ")
    });
    quit(top);
}

#[test]
fn suspended_daemon_does_not_delay_keys() {
    let sandbox = Sandbox::new();
    let _bob = sandbox.join("Bob");
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("1 agent, 1 here");
    suspend(&sandbox, &sandbox.daemon_pid().to_string(), || {
        for _ in 0..3 {
            top.press("mhello\r");
            top.press("?");
            top.wait_until("only the help", |text| {
                text.contains("quit; the agents run on") && !text.contains("NAME")
            });
            top.press("\u{1b}");
            top.wait_until("only the agents", |text| {
                text.contains("Enter attach") && !text.contains("quit; the agents run on")
            });
        }
        quit(top);
    });
}

#[test]
fn terminal_of_any_size_is_drawn_on() {
    let sandbox = Sandbox::new();
    let long = "N".repeat(64);
    let _agents = [sandbox.join(&long), sandbox.join("Bob")];
    let top = start(&sandbox, &["top"], &[]);
    top.wait_for(&long[..12]);
    for (rows, cols) in [(5, 20), (1, 1), (2, 3), (60, 200), (1, 200), (24, 80)] {
        top.resize(Size { rows, cols });
        if rows > 2 {
            top.wait_for("NN");
        }
    }
    quit(top);
}

#[test]
fn agent_is_attached_to_and_left_again() {
    let sandbox = Sandbox::new();
    let ann = wrap_line_reader(&sandbox, "Ann", &[]);
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("1 agent, 1 here");
    top.press("\r");
    top.wait_for_bytes("attached to Ann");
    top.press("print from top\r");
    ann.wait_for_row("from top");
    top.press("\u{1c}");
    top.wait_for("Ann runs on");
    top.press("h");
    top.wait_for("Ann's messages are held");
    top.wait_for(", held");
    top.press("h");
    top.wait_for("Ann's messages are typed again");
    quit(top);
}

#[test]
fn end_of_every_kind_leaves_the_terminal_as_it_was() {
    let sandbox = Sandbox::new();
    for (end, code) in [("q", 0), ("\u{3}", 0), ("-TERM", 1), ("-HUP", 1)] {
        // The process id is that of `top` if the shell executes it in its place.
        let script = "a=$(stty -g); sh -c 'echo $$ >pid; exec \"$0\" top' \"$0\"; echo \"code $?\"; \
                      [ \"$(stty -g)\" = \"$a\" ] && echo 'as before'";
        let line = ["sh", "-c", script, &program()];
        let environment = environment(&sandbox, &[]);
        let mut top = Terminal::start(&line, &environment, sandbox.directory(), SIZE);
        top.wait_for("no agents; start one with");
        match end.starts_with('-') {
            false => top.press(end),
            true => {
                let pid = fs::read_to_string(sandbox.directory().join("pid")).unwrap();
                sandbox.signal(&end[1..], pid.trim().parse().unwrap());
            }
        }
        top.wait_for(&format!("code {code}\nas before\n"));
        check_is_restored(&top);
    }
    let top = start(&sandbox, &["top"], &[]);
    top.wait_for("no agents; start one with");
    sandbox.signal("TERM", top.pty.pid().into());
    assert_eq!(top.finish(), 1);
}

#[test]
fn closed_window_is_a_plain_error() {
    let sandbox = Sandbox::new();
    let code = sandbox.directory().join("code");
    for on_hangup in [":", ""] {
        let script =
            format!("trap '{on_hangup}' HUP; \"$0\" top; echo $? >code.new; mv code.new code");
        let line = ["sh", "-c", &script, &program()];
        let environment = environment(&sandbox, &[]);
        let top = Terminal::start(&line, &environment, sandbox.directory(), SIZE);
        top.wait_for("no agents; start one with");
        top.close_window();
        until("top has ended", || code.exists());
        assert_eq!(fs::read_to_string(&code).unwrap(), "1\n", "{on_hangup:?}");
        fs::remove_file(&code).unwrap();
    }
}

#[test]
fn terminal_of_an_absurd_size_is_drawn_on() {
    let sandbox = Sandbox::new();
    let top = start(&sandbox, &["top"], &[]);
    let wait_for_last_row = |row| {
        top.wait_until_screen("the last row", |screen| {
            screen.row(row).text.starts_with("Enter attach")
        });
    };
    wait_for_last_row(23);
    top.resize(Size { rows: u16::MAX, cols: u16::MAX });
    wait_for_last_row(249);
    top.resize(SIZE);
    wait_for_last_row(23);
    // The library that reads keys delays a key that comes together with a change of size.
    sandbox.signal("TERM", top.pty.pid().into());
    assert_eq!(top.finish(), 1);
}

/// Three approvals are six keys, without leaving the list.
#[test]
fn questions_of_three_agents_are_answered_by_six_keys() {
    let sandbox = Sandbox::new();
    let agents = ["Ann", "Bob", "Cid"].map(|name| {
        let terminal = asking::start(&sandbox, name, &format!("make {name}"));
        (name, terminal)
    });
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("3 wait for you");
    for (number, (name, agent)) in agents.iter().enumerate() {
        if number > 0 {
            top.press("n");
        }
        top.wait_until("its question", |text| {
            text.contains(&format!("\n{name}: ")) && text.contains(&format!("  make {name}\n"))
        });
        top.wait_for("1-9 answer");
        top.press("1");
        top.wait_for(&format!("{name}: 1 Yes"));
        agent.wait_for_row("1");
    }
    quit(top);
}

#[test]
fn agent_is_started_and_stopped() {
    let sandbox = Sandbox::new();
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("no agents; start one with");
    top.press("a");
    top.wait_for("agent-relay spawn");
    top.press(&format!("Bob '{}'\r", example_program("lines")));
    top.wait_for("Bob runs (process ");
    top.wait_for("1 agent, 1 here");
    top.press("s");
    top.wait_for("stop Bob? y stops it");
    top.press("n");
    top.wait_for("1 agent, 1 here");
    top.press("s");
    top.wait_for("stop Bob? y stops it");
    top.press("y");
    top.wait_for("Bob ended");
    top.wait_for("1 away without mail: Bob");
    top.press("H");
    top.wait_for("1 away, hidden (H shows them)");
    top.press("anot closed '\r");
    top.wait_for("a quote is not closed: '");
    quit(top);
}

#[test]
fn agents_that_were_cut_off_are_started_again() {
    let sandbox = Sandbox::new();
    let Claude { program, .. } = Claude::install(&sandbox);
    let work = sandbox.directory().to_str().unwrap();
    let agents = [("Gone", "/nowhere/at/all"), ("Ann", work), ("Bob", work)];
    for (started, (name, directory)) in (1..).zip(agents) {
        record(&sandbox, name, &program, directory, started);
    }
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("3 cut off (R starts them again): ");
    top.wait_for("R restore");
    top.press("R");
    top.wait_for("Ann, Bob run again\nGone ran in /nowhere/at/all, which is gone\n");
    top.wait_for("1 cut off (R starts it again): Gone");
    top.wait_for("2 agents, 2 here");
    run(&sandbox, &["stop", "Ann", "Bob"], DONE);
    quit(top);
}

/// After a reboot, say.
#[test]
fn agents_are_started_again_where_no_daemon_runs() {
    let sandbox = Sandbox::configured("");
    let Claude { program, .. } = Claude::install(&sandbox);
    record(&sandbox, "Ann", &program, sandbox.directory().to_str().unwrap(), 1);
    let welcome = start(&sandbox, &[], &[]);
    welcome.wait_for("agent-relay restore   start 1 agent again");
    assert_eq!(welcome.finish(), DONE);
    let mut top = start(&sandbox, &["top"], &[]);
    top.wait_for("not connected, trying again");
    top.wait_for("1 cut off (R starts it again): Ann");
    top.press("R");
    top.wait_for("Ann runs again");
    top.wait_for("1 agent, 1 here");
    top.wait_until("the offer is gone", |text| !text.contains("cut off"));
    run(&sandbox, &["stop", "Ann"], DONE);
    quit(top);
}

#[test]
fn output_other_than_a_terminal_is_refused() {
    let sandbox = Sandbox::empty();
    let refused = err(&run(&sandbox, &["top"], USAGE));
    assert!(refused.contains("`agent-relay agents` lists the agents"), "{refused}");
    let dumb = start(&sandbox, &["top"], &[("TERM", "dumb")]);
    dumb.wait_for("TERM is dumb");
    assert_eq!(dumb.finish(), USAGE);
}

#[test]
fn program_without_arguments_shows_agents_or_next_steps() {
    let empty = Sandbox::empty();
    let welcome = start(&empty, &[], &[]);
    welcome.wait_for("agent-relay doctor");
    assert!(welcome.text().contains("agent-relay claude"), "{}", welcome.text());
    assert_eq!(welcome.finish(), DONE);
    let sandbox = Sandbox::new();
    let top = start(&sandbox, &[], &[]);
    top.wait_for("no agents; start one with");
    quit(top);
    let help = err(&sandbox.run::<&str>([]));
    assert!(help.contains("Run a command as an agent"), "not a terminal: {help}");
}

/// The agents and the messages a second that `top` must handle at little cost.
const BUSY: (usize, u32) = (200, 1000);

/// The maximum number of drawings a second, and the maximum use of one core, in percent.
const COST_MAX: (f64, f64) = (10.5, 5.0);

/// With a busy daemon, `top` draws at most ten times a second. `AGENT_RELAY_TOP` is the number of
/// seconds to measure; if it is set, the use of the processor is checked, too.
#[test]
fn busy_daemon_costs_little() {
    let seconds = env::var("AGENT_RELAY_TOP").ok();
    let seconds: Option<u32> =
        seconds.map(|text| text.parse().expect("AGENT_RELAY_TOP is a number of seconds"));
    let sandbox = Sandbox::new();
    let _others: Vec<_> =
        (2..BUSY.0).map(|number| sandbox.join(&format!("Agent-{number}"))).collect();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    let top = start(&sandbox, &["top"], &[]);
    top.resize(Size { rows: 40, cols: 120 });
    top.wait_for("200 agents, 200 here");
    thread::scope(|scope| {
        scope.spawn(move || while bob.expect("DELIVER")["payload"]["body"] != "the last one" {});
        let mut talk = |seconds: u32| {
            let start = Instant::now();
            for number in 0..seconds * BUSY.1 {
                let at = start + Duration::from_secs(1) / BUSY.1 * number;
                thread::sleep(at.saturating_duration_since(Instant::now()));
                ann.send("Bob", &format!("{number}: {}", "some text ".repeat(20)), json!({}));
            }
        };
        talk(1);
        let (before, start) = (drawings_and_cpu(&top), Instant::now());
        talk(seconds.unwrap_or(2));
        let (after, passed) = (drawings_and_cpu(&top), start.elapsed().as_secs_f64());
        ann.send("Bob", "the last one", json!({}));
        let (drawings, cpu) =
            ((after.0 - before.0) / passed, (after.1 - before.1) / passed * 100.0);
        println!("top: {drawings:.1} drawings a second, {cpu:.1} % of a core");
        assert!(drawings <= COST_MAX.0, "{drawings} drawings a second");
        assert!(seconds.is_none() || cpu <= COST_MAX.1, "{cpu} % of a core");
    });
    quit(top);
}

/// The drawings so far, and the processor time in seconds so far, or 0 where no file has it.
fn drawings_and_cpu(top: &Terminal) -> (f64, f64) {
    let drawings = String::from_utf8_lossy(&top.bytes()).matches(DRAWING).count();
    let stat = fs::read_to_string(format!("/proc/{}/stat", top.pty.pid())).unwrap_or_default();
    // After the name, which may contain blanks: the times are the 12th and the 13th field, in
    // hundredths of a second.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks = fields.skip(11).take(2).map(|field| field.parse::<u32>().unwrap());
    (drawings as f64, f64::from(ticks.sum::<u32>()) / 100.0)
}

/// Closes the window of top, and waits until the process has left the daemon.
#[track_caller]
fn close_window(sandbox: &Sandbox, top: Terminal) {
    top.wait_for("no agents; start one");
    let mut operator = sandbox.operator();
    let mut connections = || operator.ask("status", &json!({}))["connections"].as_u64().unwrap();
    assert!(connections() > 1);
    top.close_window();
    until("it has ended", || connections() == 1);
}

#[test]
fn closed_window_ends_it_by_its_signal() {
    let sandbox = Sandbox::new();
    let top = start(&sandbox, &["top"], &[]);
    close_window(&sandbox, top);
}

#[test]
fn closed_window_ends_it_also_without_a_signal() {
    let sandbox = Sandbox::new();
    let line = ["sh", "-c", "trap '' HUP; exec \"$0\" top", &program()];
    let environment = environment(&sandbox, &[]);
    let top = Terminal::start(&line, &environment, sandbox.directory(), SIZE);
    close_window(&sandbox, top);
}
