//! Lists, ids and moments as people see them and type them.

use crate::{
    commands::{DONE, FAILED, USAGE, err, known, out, run, run_with},
    restore::wrapper_of,
};
use platform::pty::Size;
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{self, Path},
};
use testkit::{
    programs::{copy_program, example_program},
    sandbox::Sandbox,
    terminal::{self, Terminal},
    waiting::until,
};

const NARROW: Size = Size { rows: 24, cols: 80 };

/// Sends a message, and returns its delivery's whole id and the printed id.
fn send(sandbox: &Sandbox, to: &str, text: &str) -> (String, String) {
    let sent = run_with(sandbox, &["send", "--json", to, "-"], text.as_bytes(), DONE);
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let id = sent["id"].as_str().unwrap().to_owned();
    let short = id[..8].to_owned();
    (id, short)
}

/// A line that is wider than the terminal would continue in another row.
#[test]
fn lists_fit_the_terminal() {
    let long = "N".repeat(64);
    let sandbox = known(&[&long, "Bob"]);
    for text in [
        "short",
        "\u{1b}]0;title\u{7} and \u{1b}[2J, then\nmore lines\tand a tab",
        "\u{202e}right to left \u{5e9}\u{5dc}\u{5d5}\u{5dd}, and back",
        &"\u{4e2d}\u{6587}".repeat(300),
        &"x".repeat(200_000),
    ] {
        send(&sandbox, &long, text);
        send(&sandbox, "Bob", text);
    }
    run(&sandbox, &["purge", &long], DONE);
    for (list, begins, count) in [
        (&["history"][..], "SENT ", 11),
        (&["inbox", "--as", "Bob"], "SENT ", 11),
        // On a busy machine, ages have another digit, and the narrowest heading is cut.
        (&["agents", "--long"], "NA", 3),
        (&["history", "--dead"], "DIED ", 6),
    ] {
        for cols in [80, 120, 40] {
            let rows = terminal::rows(&sandbox, list, cols);
            assert!(rows[0].starts_with(begins), "{rows:#?}");
            assert_eq!(rows.len(), count, "{cols}: {rows:#?}");
        }
    }
    let wide = terminal::rows(&sandbox, &["history"], 120);
    assert!(wide.iter().any(|row| row.contains("waiting (recipient)")), "{wide:#?}");
}

#[test]
fn beginning_of_an_id_names_its_message() {
    let sandbox = known(&["Bob"]);
    let (id, short) = send(&sandbox, "Bob", "hello");
    let printed = out(&run(&sandbox, &["send", "Bob", "again"], DONE));
    let rest = printed.strip_prefix("queued ").unwrap_or_else(|| panic!("{printed}"));
    let (again, why) = rest.split_once(": ").unwrap();
    assert!(why.starts_with("Bob is away (kept for "), "{printed}");
    assert!(out(&run(&sandbox, &["read", again], DONE)).ends_with("again\n"));
    for given in [&*id, &short, &id[..4], &id[..13]] {
        let read = out(&run(&sandbox, &["read", given], DONE));
        assert!(read.ends_with("hello\n"), "{given}: {read}");
        let status = out(&run(&sandbox, &["status", given], DONE));
        assert!(status.contains(&format!("{short} ({id})")), "{status}");
    }
    let unknown = err(&run(&sandbox, &["status", "00000"], FAILED));
    assert!(unknown.contains("`agent-relay history` shows ids"), "{unknown}");
    assert!(err(&run(&sandbox, &["read", &id[..3]], FAILED)).contains("is not a message's id"));
}

#[test]
fn ambiguous_beginning_of_an_id_names_the_candidates_of_the_asker() {
    let sandbox = known(&["Bob"]);
    let mut ann = sandbox.join("Ann");
    for id in ["abcdef01-1", "abcdef02-2", "abcd"] {
        ann.send_json(&json!({
            "v": 1, "type": "SEND", "id": id, "ts": 0, "to": "Bob",
            "payload": {"kind": "message", "body": id}, "payload_meta": {"requires_ack": true},
        }));
        ann.expect("ACK");
    }
    let ambiguous = err(&run(&sandbox, &["read", "abcdef"], FAILED));
    assert!(ambiguous.contains("2 ids begin with \"abcdef\""), "{ambiguous}");
    assert!(ambiguous.contains("; give more of it"), "{ambiguous}");
    // A whole id does not match longer ids.
    assert!(out(&run(&sandbox, &["read", "abcd"], DONE)).ends_with("abcd\n"));
    assert!(out(&run(&sandbox, &["read", "abcdef02"], DONE)).ends_with("abcdef02-2\n"));
    // Cid sees none of them.
    let mut cid = sandbox.join("Cid");
    cid.send_json(&json!({
        "v": 1, "type": "SEND", "id": "ask", "ts": 0, "to": "@relay",
        "payload": {"kind": "request", "body": "message", "data": {"id": "abcdef"}},
    }));
    let refused = cid.expect_code("NACK", "FORBIDDEN");
    assert!(!refused.to_string().contains("abcdef0"), "{refused}");
}

#[test]
fn history_of_a_time() {
    let sandbox = known(&["Bob"]);
    send(&sandbox, "Bob", "hello");
    let texts = |options: &[&str]| {
        let line = [&["history", "--json"], options].concat();
        out(&run(&sandbox, &line, DONE)).lines().count()
    };
    assert_eq!(texts(&["--since", "1h"]), 1);
    assert_eq!(texts(&["--since", "2000-01-01", "--until", "2100-01-01"]), 1);
    assert_eq!(texts(&["--since", "2100-01-01"]), 0);
    assert_eq!(texts(&["--until", "2000-01-01 12:00"]), 0);
    assert_eq!(texts(&["--to", "bob", "--limit", "1"]), 1);
    assert_eq!(texts(&["--to", "Zoe"]), 0);
    let wrong = sandbox.run(["history", "--since", "soon"]);
    assert!(err(&wrong).contains("give a moment, such as 2h"), "{wrong:?}");
}

#[test]
fn passing_messages_show_time_and_id_and_are_cut() {
    let sandbox = known(&["Bob"]);
    let text = (1..=12).map(|line| format!("line {line}\n")).collect::<String>();
    let (_, first) = send(&sandbox, "Bob", &text);
    send(&sandbox, "Bob", &text);
    let listen = |options: &[&str]| {
        let line = [&["listen", "--as", "Bob", "--count", "1"], options].concat();
        run(&sandbox, &line, DONE)
    };
    let cut = listen(&[]);
    assert!(err(&cut).contains("listening for messages to Bob; Ctrl-C ends this"), "{cut:?}");
    let shown = out(&cut);
    let (time, rest) = shown.split_once(' ').unwrap();
    assert_eq!(time.split(':').map(str::len).collect::<Vec<_>>(), [2, 2, 2], "{shown}");
    assert!(rest.starts_with(&format!("{first} @operator: line 1\n")), "{shown}");
    assert!(shown.ends_with("    line 10\n    … 2 more lines (--full)\n"), "{shown}");
    assert!(out(&listen(&["--full"])).ends_with("    line 12\n"));
}

#[test]
fn broadcast_to_nobody_is_not_delivered() {
    let sandbox = Sandbox::new();
    let nobody = sandbox.run(["send", "*", "hello"]);
    assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
    assert!(err(&nobody).contains("no agent is connected to receive it"), "{nobody:?}");
    let nobody = sandbox.run(["send", "--topic", "nosuch", "*", "hello"]);
    assert_eq!(nobody.status.code(), Some(3), "{nobody:?}");
    assert!(err(&nobody).contains("no connected agent subscribes to nosuch"), "{nobody:?}");
}

#[test]
fn failure_in_json_has_a_code_a_message_and_a_hint() {
    let sandbox = known(&["Bob"]);
    let failed = |line: &[&str], code: i32| {
        let failed = sandbox.run(line);
        assert_eq!(failed.status.code(), Some(code), "{failed:?}");
        assert_eq!(err(&failed), "", "{line:?}");
        let failure: Value = serde_json::from_slice(&failed.stdout).unwrap();
        assert_eq!(failure["schema"], "agent-relay.error/1");
        assert_eq!(failure["exit_code"], code);
        failure
    };
    let usage = failed(&["send", "Bob", "two", "words", "--json"], 2);
    assert_eq!(usage["code"], "USAGE");
    assert_eq!(usage["message"], "unexpected argument \"words\"");
    assert_eq!(usage["hint"], "quote the text: send Bob \"two words --json\"");
    let unknown = failed(&["--json", "send", "Zoe", "x"], 3);
    assert_eq!(unknown["code"], "UNKNOWN_AGENT");
    let absent = failed(&["read", "--json", "ffffffff"], 1);
    assert_eq!(
        (&absent["code"], &absent["hint"]),
        (&json!("NOT_FOUND"), &json!("`agent-relay history` shows ids"))
    );
}

#[test]
fn saved_key_is_used() {
    let sandbox = Sandbox::new();
    let saved = out(&run(&sandbox, &["policy", "key", "Ann", "--save"], DONE));
    let (_, rules) = saved.split_once("[[agent]]").unwrap();
    fs::write(sandbox.home().join("policy.toml"), format!("[[agent]]{rules}")).unwrap();
    run(&sandbox, &["policy", "reload"], DONE);
    sandbox.join("Bob").leave();
    run(&sandbox, &["send", "--as", "Ann", "Bob", "with its key"], DONE);
    let again = err(&run(&sandbox, &["policy", "key", "Ann", "--save"], FAILED));
    assert!(again.contains("exists; remove it first"), "{again}");
}

/// Also checks that a directory of the same name elsewhere gets other names.
/// Starts `claude` in a directory, by this program, and waits for its end.
fn run_claude(sandbox: &Sandbox, programs: &Path, directory: &Path, arguments: &[&str]) {
    fs::create_dir_all(directory).unwrap();
    let program = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let line = [&[program.to_str().unwrap(), "claude"], arguments].concat();
    let mut environment = terminal::environment(sandbox);
    let path = env::var_os("PATH").unwrap_or_default();
    let path = [programs.to_owned()].into_iter().chain(env::split_paths(&path));
    environment.push(("PATH".into(), Some(env::join_paths(path).unwrap())));
    Terminal::start(&line, &environment, directory, NARROW).wait_until_end();
}

#[test]
fn run_without_a_message_leaves_no_name() {
    let sandbox = Sandbox::new();
    let programs = sandbox.directory().join("programs");
    fs::create_dir(&programs).unwrap();
    let claude = programs.join(format!("claude{}", env::consts::EXE_SUFFIX));
    copy_program(env!("CARGO_BIN_EXE_agent-relay"), &claude);
    let web = sandbox.directory().join("web");
    let owner = sandbox.home().join("folder-names").join("web.folder");
    let agents = || out(&run(&sandbox, &["agents", "--json"], DONE));
    for arguments in [&["--version"][..], &["no-such-command"]] {
        run_claude(&sandbox, &programs, &web, arguments);
        assert_eq!((agents(), owner.exists()), (String::new(), false), "{arguments:?}");
    }
    // An agent that can be restored keeps its name.
    let record = sandbox.home().join("agents").join("api.json");
    platform::paths::make_private_dir(record.parent().unwrap()).unwrap();
    fs::write(record, "{}").unwrap();
    run_claude(&sandbox, &programs, &sandbox.directory().join("api"), &["--version"]);
    assert!(agents().contains(r#""name":"api""#));
    // Its own command sends a message, which its wrapper does not see.
    sandbox.join("Bob").leave();
    run_claude(&sandbox, &programs, &web, &["send", "Bob", "hello"]);
    assert!(agents().contains(r#""name":"web""#) && owner.exists());
    // A name with messages stays its folder's.
    run_claude(&sandbox, &programs, &web, &["--version"]);
    assert!(agents().contains(r#""name":"web""#) && owner.exists());
}

/// `spawn` names an agent as `run` does, and briefs a known CLI by default.
#[test]
fn spawned_agent_is_named_after_its_directory() {
    let sandbox = Sandbox::new();
    let directory = sandbox.directory().join("api");
    fs::create_dir(&directory).unwrap();
    let codex = directory.join(format!("codex{}", env::consts::EXE_SUFFIX));
    copy_program(example_program("lines"), &codex);
    let (directory, codex) = (directory.to_str().unwrap(), codex.to_str().unwrap());
    for (options, name) in [(&["--brief"][..], "api"), (&["--no-brief"], "api-2")] {
        let line = [&["spawn", "--json", "--cwd", directory], options, &["--", codex]].concat();
        let spawned: Value = serde_json::from_slice(&run(&sandbox, &line, DONE).stdout).unwrap();
        assert_eq!(spawned["name"], name);
    }
    run(&sandbox, &["stop", "api", "api-2"], DONE);
    let both = run(&sandbox, &["spawn", "--brief", "--no-brief", "--", codex], USAGE);
    assert!(err(&both).contains("--brief and --no-brief exclude each other"), "{both:?}");
}

#[test]
fn name_of_an_agent_that_reconnects_is_in_use() {
    let mut sandbox = Sandbox::new();
    let directory = sandbox.directory().join("api");
    fs::create_dir(&directory).unwrap();
    let spawn = |sandbox: &Sandbox| -> Value {
        let (directory, program) = (directory.to_str().unwrap(), example_program("lines"));
        let line = ["spawn", "--json", "--cwd", directory, "--", &program];
        serde_json::from_slice(&run(sandbox, &line, DONE).stdout).unwrap()
    };
    let first = spawn(&sandbox);
    assert_eq!(first["name"], "api");
    let wrapper = wrapper_of(&sandbox, "api");
    sandbox.signal("STOP", wrapper);
    sandbox.kill();
    sandbox.start();
    let second = spawn(&sandbox);
    sandbox.signal("CONT", wrapper);
    assert_eq!(second["name"], "api-2");
    run(&sandbox, &["stop", "api", "api-2"], DONE);
}

#[test]
fn agent_cli_is_named_after_its_directory() {
    let sandbox = Sandbox::new();
    let programs = sandbox.directory().join("programs");
    fs::create_dir(&programs).unwrap();
    let claude = programs.join(format!("claude{}", env::consts::EXE_SUFFIX));
    copy_program(example_program("lines"), &claude);
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([programs].into_iter().chain(env::split_paths(&path))).unwrap();
    let start = |directory: &Path, arguments: &[&str]| {
        fs::create_dir_all(directory).unwrap();
        let program = path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
        let line = [&[program.to_str().unwrap(), "claude"], arguments].concat();
        let mut environment = terminal::environment(&sandbox);
        environment.push(("PATH".into(), Some(path.clone())));
        let terminal = Terminal::start(&line, &environment, directory, NARROW);
        terminal.wait_for("ready");
        terminal
    };
    let is_here = |name: &str| {
        let agents = out(&run(&sandbox, &["agents", "--json"], DONE));
        let mut agents = agents.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        agents.any(|agent| agent["name"] == name && agent["here"] == true)
    };
    let here = |name: &str| until(&format!("{name} is here"), || is_here(name));
    let end = |name: &str, terminal: Terminal| {
        run(&sandbox, &["stop", name], DONE);
        terminal.finish();
        until(&format!("{name} is away"), || !is_here(name));
    };
    let (one, other) = (sandbox.directory().join("a/web"), sandbox.directory().join("b/web"));
    let first = start(&one, &["print -n x"]);
    first.wait_for("-n x");
    here("web");
    let _second = start(&one, &[]);
    here("web-2");
    let _third = start(&other, &[]);
    here("web-3");
    end("web", first);
    let _fourth = start(&one, &[]);
    here("web");
    // Somebody else's name is not taken.
    sandbox.join("api").leave();
    let fifth = start(&sandbox.directory().join("api"), &["-n", "x"]);
    fifth.wait_for_bytes("note: the name goes to");
    here("api-2");
    // A directory's name follows its agent, and stays the directory's.
    let runs = err(&run(&sandbox, &["rename", "api-2", "Eve"], FAILED));
    assert!(runs.contains("api-2 runs; end it first: `agent-relay stop api-2`"), "{runs}");
    // Without a message, the names would be released.
    for name in ["api-2", "web-3"] {
        run(&sandbox, &["send", name, "hello"], DONE);
    }
    run(&sandbox, &["stop", "api-2"], DONE);
    let taken = err(&run(&sandbox, &["rename", "api-2", "web-3"], FAILED));
    assert!(taken.contains("web-3 runs"), "{taken}");
    run(&sandbox, &["rename", "api-2", "Eve"], DONE);
    let sixth = start(&sandbox.directory().join("api"), &[]);
    here("Eve");
    let _seventh = start(&sandbox.directory().join("api"), &[]);
    here("api-2");
    end("Eve", sixth);
    run(&sandbox, &["stop", "web-3"], DONE);
    let taken = err(&run(&sandbox, &["rename", "Eve", "web-3"], FAILED));
    assert!(taken.contains("web-3 is the name of the directory"), "{taken}");
}
