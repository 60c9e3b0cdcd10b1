//! Keys and policy files as people make and check them, and the operator's key.

use crate::commands::{Detached, check, err, out, run};
use serde_json::Value;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};
use testkit::{
    sandbox::Sandbox,
    waiting::{not_tried, output, until},
};

const DONE: i32 = 0;
const FAILED: i32 = 1;
const NOT_DELIVERED: i32 = 3;

/// Runs a command, and parses the JSON object that it prints.
#[track_caller]
fn json(sandbox: &Sandbox, line: &[&str]) -> Value {
    serde_json::from_str(&out(&run(sandbox, line, DONE))).unwrap()
}

/// Writes a daemon's policy into a file that is private, whatever the umask is.
fn policy_file(path: &Path, text: &str) {
    platform::paths::write_private_file(path, text.as_bytes()).unwrap();
}

/// Writes a policy file in the sandbox. Returns its path.
fn file(sandbox: &Sandbox, bytes: impl AsRef<[u8]>) -> String {
    let path = sandbox.directory().join("policy.toml");
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn policy_key_prints_the_key_once_and_the_lines_with_its_hash() {
    let sandbox = Sandbox::empty();
    let printed = out(&run(&sandbox, &["policy", "key", "Ann"], DONE));
    let (words, lines) = printed.split_once("[[agent]]").unwrap();
    let key = words.lines().nth(2).unwrap().trim();
    assert!(key.len() == 64 && key.bytes().all(|digit| digit.is_ascii_hexdigit()), "{words}");
    assert!(words.contains(sandbox.home().join("policy.toml").to_str().unwrap()), "{words}");
    assert!(!lines.contains(key), "{lines}");
    let path = file(&sandbox, format!("[[agent]]{lines}"));
    let report = json(&sandbox, &["policy", "check", &path, "--json"]);
    assert_eq!(report["keys"], serde_json::json!(["Ann"]));
    assert!(!sandbox.home().exists(), "nothing is kept");

    let other = json(&sandbox, &["policy", "key", "Ann", "--json"]);
    assert_eq!(
        (&other["schema"], &other["name"]),
        (&"agent-relay.policy-key/1".into(), &"Ann".into())
    );
    assert_ne!(other["key"], key);
    let hash = other["hash"].as_str().unwrap();
    assert!(hash.starts_with("sha256:") && hash.len() == 7 + 64, "{hash}");
}

#[test]
fn valid_policy_is_described_in_words() {
    let sandbox = Sandbox::empty();
    let path = file(
        &sandbox,
        "[[rule]]\nfrom = 'Ann'\nto = 'B*'\nallow = true\n\n[[rule]]\ntopic = 'a\u{202e}b'\n\
         allow = false\n\n[limits]\nper_pair_per_minute = 30\n",
    );
    let words = out(&run(&sandbox, &["policy", "check", &path], DONE));
    let lines: Vec<_> = words.lines().collect();
    assert_eq!(lines[1], "line 1: Ann may send to B*");
    assert_eq!(lines[2], r#"line 6: no one may send to anyone on "a\u{202e}b""#);
    assert_eq!(lines[4], "at most 30 messages a minute from one agent to another");
    let report = json(&sandbox, &["policy", "check", &path, "--json"]);
    assert_eq!(
        (&report["schema"], &report["file"]),
        (&"agent-relay.policy/1".into(), &path.into())
    );
    assert_eq!(
        report["rules"][0],
        serde_json::json!({"line": 1, "from": "Ann", "to": "B*", "topic": "*", "allow": true})
    );
    assert_eq!(report["per_pair_per_minute"], 30);
}

#[test]
fn broken_policy_is_refused_with_file_line_and_reason() {
    let sandbox = Sandbox::empty();
    let refused = |path: &str| {
        let refused = run(&sandbox, &["policy", "check", path], FAILED);
        assert!(refused.stdout.is_empty(), "{refused:?}");
        err(&refused)
    };
    let path = file(&sandbox, "\n[[rule]]\nform = 'Ann'\n");
    assert_eq!(
        refused(&path),
        format!("agent-relay: {path}:3: unknown key \"form\" (did you mean \"from\"?)\n")
    );
    let key = "0123456789abcdef".repeat(4);
    let path = file(&sandbox, format!("[[agent]]\nname = 'Ann'\nkey = '{key}'\n"));
    let printed = refused(&path);
    assert!(
        printed.contains(":3: `key` is the key itself") && !printed.contains(&key[..16]),
        "{printed}"
    );
    assert!(refused(&file(&sandbox, b"# \xff\n")).contains("policy.toml: it is not UTF-8"));
    let long = "#".repeat((1 << 20) + 1);
    assert!(refused(&file(&sandbox, long)).contains("it has more than 1048576 bytes"));
    assert!(refused(sandbox.directory().to_str().unwrap()).contains("it is not a file"));
    assert!(refused("no-such-file").starts_with("agent-relay: no-such-file: "));
}

#[test]
fn reload_applies_a_valid_policy_and_refuses_a_broken_one() {
    let sandbox = Sandbox::empty();
    let failed = err(&run(&sandbox, &["policy", "reload"], FAILED));
    assert!(failed.contains("start one with `agent-relay up`"), "{failed}");
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let write = |text: &str| {
        let path = sandbox.home().join("policy.toml");
        policy_file(&path, text);
        path.to_str().unwrap().to_owned()
    };
    write("[[rule]]\nfrom = '@operator'\nto = 'Bob'\nallow = false\n");
    run(&sandbox, &["send", "Bob", "not yet"], DONE);
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "not yet");
    assert_eq!(out(&run(&sandbox, &["policy", "reload"], DONE)), "the policy is in force\n");
    let forbidden = "agent-relay: @operator may not send this to Bob: line 1 of \
                     policy.toml forbids it\n";
    assert_eq!(err(&run(&sandbox, &["send", "Bob", "no"], NOT_DELIVERED)), forbidden);

    let path = write("[[rule]]\nform = 'x'\nallow = true\n");
    assert_eq!(
        err(&run(&sandbox, &["policy", "reload"], FAILED)),
        format!(
            "agent-relay: the daemon refused \"reload\": {path}:2: unknown key \"form\" (did you mean \
             \"from\"?)\n"
        )
    );
    assert_eq!(err(&run(&sandbox, &["send", "Bob", "no"], NOT_DELIVERED)), forbidden);
    assert_eq!(bob.drain(), Vec::<Value>::new());
}

#[test]
fn hangup_signal_reloads_the_policy() {
    let sandbox = Sandbox::new();
    let bob = sandbox.join("Bob");
    policy_file(&sandbox.home().join("policy.toml"), "[[rule]]\nto = 'Bob'\nallow = false\n");
    let status = json(&sandbox, &["status", "--json"]);
    let pid = status["status"]["daemon"]["pid"].to_string();
    let signalled = sandbox.program("sh").args(["-c", &format!("kill -HUP {pid}")]).status();
    if !signalled.is_ok_and(|status| status.success()) {
        return not_tried("nothing here says HUP to a process");
    }
    until("the rule is in force", || {
        let sent = sandbox.run(["send", "Bob", "hello"]);
        sent.status.code() == Some(NOT_DELIVERED)
    });
    bob.leave();
}

#[test]
fn daemon_does_not_start_with_a_broken_policy() {
    let sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    let path = sandbox.home().join("policy.toml");
    policy_file(&path, "\n[limits]\nper_hour = 1\n");
    let failed = err(&run(&sandbox, &["up"], FAILED));
    let why = format!("{}:3: unknown key \"per_hour\"", path.display());
    assert!(failed.contains(&why), "{failed}");
}

#[test]
fn missing_policy_that_was_in_force_keeps_its_rules_until_cleared() {
    let mut sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    let path = sandbox.home().join("policy.toml");
    let nothing = out(&run(&sandbox, &["policy", "clear"], DONE));
    assert_eq!(nothing, "no rules were in force\n");
    policy_file(&path, "[[rule]]\nto = 'Bob'\nallow = false\n");
    sandbox.start();
    let refused = err(&run(&sandbox, &["policy", "clear"], FAILED));
    assert!(refused.contains(&format!("{} exists; remove it first", path.display())), "{refused}");

    fs::remove_file(&path).unwrap();
    let missing = format!(
        "{}: the file is missing, but its rules were in force; restore it, or run `agent-relay \
         policy clear` to go on without rules",
        path.display()
    );
    let kept = err(&run(&sandbox, &["policy", "reload"], FAILED));
    assert!(kept.contains(&missing), "{kept}");
    let bob = sandbox.join("Bob");
    let forbidden = err(&run(&sandbox, &["send", "Bob", "hello"], NOT_DELIVERED));
    assert!(forbidden.contains("may not send this to Bob"), "{forbidden}");
    bob.leave();
    sandbox.kill();
    let failed = err(&run(&sandbox, &["up"], FAILED));
    assert!(failed.contains(&missing), "{failed}");
    let (_, checked) = check(sandbox.command([""; 0]), "policy", FAILED);
    assert!(checked.contains("its rules were in force"), "{checked}");

    let cleared = json(&sandbox, &["policy", "clear", "--json"]);
    assert_eq!(
        (&cleared["schema"], &cleared["cleared"]),
        (&"agent-relay.policy-clear/1".into(), &true.into())
    );
    sandbox.start();
    let mut bob = sandbox.join("Bob");
    run(&sandbox, &["send", "Bob", "hello"], DONE);
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "hello");
}

#[test]
fn cleared_policy_ends_with_a_reload() {
    let sandbox = Sandbox::new();
    let path = sandbox.home().join("policy.toml");
    policy_file(&path, "[[rule]]\nto = 'Bob'\nallow = false\n");
    run(&sandbox, &["policy", "reload"], DONE);
    fs::remove_file(&path).unwrap();
    run(&sandbox, &["policy", "clear"], DONE);
    let mut bob = sandbox.join("Bob");
    run(&sandbox, &["send", "Bob", "hello"], NOT_DELIVERED);
    run(&sandbox, &["policy", "reload"], DONE);
    run(&sandbox, &["send", "Bob", "hello"], DONE);
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "hello");
}

fn change_mode(sandbox: &Sandbox, path: &Path, mode: &str) {
    let changed = sandbox.program("chmod").arg(mode).arg(path).status().unwrap();
    assert!(changed.success(), "{mode}");
}

#[test]
fn advised_command_can_be_pasted_into_a_shell() {
    let sandbox = Sandbox::empty();
    let home = sandbox.directory().join("it's $HOME");
    platform::paths::make_private_dir(&home).unwrap();
    change_mode(&sandbox, &home, "755");
    let relay = |line: &[&str]| {
        let mut relay = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
        relay.arg("--home").arg(&home).args(line);
        output(relay)
    };
    let refused = err(&relay(&["up"]));
    let (_, advised) = refused.trim_end().split_once("; run ").expect("a command is advised");
    let mut shell = sandbox.program("sh");
    shell.args(["-c", advised]);
    let advised = output(shell);
    assert!(advised.status.success(), "{advised:?}");
    for line in [["up"], ["down"]] {
        let ended = relay(&line);
        assert!(ended.status.success(), "{ended:?}");
    }
}

#[test]
fn file_writable_by_others_stops_the_start() {
    let mut sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    let path = sandbox.home().join("policy.toml");
    policy_file(&path, "[limits]\nper_pair_per_minute = 60\n");
    for mode in ["666", "646", "664"] {
        change_mode(&sandbox, &path, mode);
        let failed = err(&run(&sandbox, &["up"], FAILED));
        let why = format!(
            "{0} can be changed by other users (mode {mode}); run chmod go-w {0}",
            path.display()
        );
        assert!(failed.contains(&why), "{failed}");
        let checked = err(&run(&sandbox, &["policy", "check", path.to_str().unwrap()], DONE));
        assert_eq!(checked, format!("agent-relay: no daemon accepts the file: {why}\n"));
    }
    change_mode(&sandbox, &path, "644");
    sandbox.start();
    fs::write(&path, "[[rule]]\nallow = false\n").unwrap();
    change_mode(&sandbox, &path, "666");
    let failed = err(&run(&sandbox, &["policy", "reload"], FAILED));
    assert!(failed.contains("can be changed by other users"), "{failed}");
    let mut bob = sandbox.join("Bob");
    run(&sandbox, &["send", "Bob", "hello"], DONE);
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "hello", "the old one is in force");
}

#[test]
fn status_names_the_pair_over_the_rate_limit() {
    let sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    let limits = "[limits]\nper_pair_per_minute = 1\n";
    policy_file(&sandbox.home().join("policy.toml"), limits);
    let mut sandbox = sandbox;
    sandbox.start();
    let _bob = sandbox.join("Bob");
    run(&sandbox, &["send", "--as", "Ann", "Bob", "one"], DONE);
    let limited = err(&run(&sandbox, &["send", "--as", "Ann", "Bob", "two"], NOT_DELIVERED));
    assert!(limited.contains("Ann speaks to Bob more often"), "{limited}");
    let status = out(&run(&sandbox, &["status"], DONE));
    assert!(status.contains("1 refused, the last from Ann to Bob"), "{status}");
}

/// The path of the operator's key.
fn operator_key(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join("operator.key")
}

#[test]
fn daemon_makes_the_operator_key_and_keeps_it() {
    let sandbox = Sandbox::empty();
    let path = operator_key(&sandbox);
    let detached = Detached(&sandbox);
    run(&sandbox, &["up"], DONE);
    platform::paths::check_private(&path).unwrap();
    let key = fs::read_to_string(&path).unwrap();
    assert_eq!(key.trim_end().len(), 64);
    run(&sandbox, &["up", "--replace"], DONE);
    assert_eq!(fs::read_to_string(&path).unwrap(), key);

    run(&sandbox, &["down"], DONE);
    fs::remove_file(&path).unwrap();
    platform::paths::create_private_file(&path).unwrap().write_all(b"planted").unwrap();
    run(&sandbox, &["up"], DONE);
    let other = fs::read_to_string(&path).unwrap();
    assert_ne!(other, key);
    assert_eq!(other.trim_end().len(), 64);
    let replaced = "the operator's key is invalid and is replaced";
    let log = sandbox.await_logged(replaced, 1);
    assert_eq!(log.matches(replaced).count(), 1, "{log}");
    for secret in [key.trim_end(), other.trim_end(), "planted"] {
        assert!(!log.contains(secret), "{log}");
        let status = out(&run(&sandbox, &["status", "--json"], DONE));
        assert!(!status.contains(secret), "{status}");
    }
    drop(detached);
}

#[test]
fn daemon_without_an_operator_key_does_not_start() {
    let sandbox = Sandbox::empty();
    platform::paths::make_private_dir(&sandbox.home()).unwrap();
    fs::create_dir(operator_key(&sandbox)).unwrap();
    let failed = err(&run(&sandbox, &["up"], FAILED));
    assert!(failed.contains("operator.key"), "{failed}");
}

#[test]
fn documented_policy_is_valid() {
    let document = include_str!("../../docs/CONFIGURATION.md").replace('\r', "");
    let (_, section) = document.split_once("## policy.toml").unwrap();
    let mut blocks = section.split("```text\n");
    let example = blocks.find(|block| block.starts_with("[[agent]]")).unwrap();
    let example = example.split("```").next().unwrap();
    let sandbox = Sandbox::empty();
    let path = file(&sandbox, example.replace('…', &"0".repeat(64)));
    let words = out(&run(&sandbox, &["policy", "check", &path], DONE));
    assert_eq!(
        words,
        "these names require their keys: Ann\n\
         line 5: claude-* may send to Ann on \"build.*\"\n\
         line 11: no one may send to Ann\n\
         line 15: @guest-* may not send the request \"history\" to @relay\n\
         the first rule that matches decides; what no rule matches is allowed, and so is every \
         request of @operator to @relay\n\
         at most 60 messages a minute from one agent to another\n"
    );
}
