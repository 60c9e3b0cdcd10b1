//! The command that agent CLIs run as their hook, and the commands by which an agent reads its
//! messages.

use crate::{
    sandbox::{Sandbox, output, until, wait},
    terminal::Terminal,
    wrap::send,
};
use serde_json::Value;
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Output, Stdio},
    thread,
};

/// Runs a hook with this input.
fn hook(sandbox: &Sandbox, words: &[&str], input: &[u8]) -> Output {
    let mut hook = sandbox.program(env!("CARGO_BIN_EXE_agent-relay-wrap"));
    hook.arg("hook").args(words).stdin(Stdio::piped());
    hook.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = hook.spawn().unwrap();
    let mut stdin = running.stdin.take().unwrap();
    let input = input.to_owned();
    // The hook may end without reading all of it.
    let writing = thread::spawn(move || stdin.write_all(&input).ok());
    let ended = running.wait_with_output().unwrap();
    writing.join().unwrap();
    ended
}

#[track_caller]
fn assert_silent(ended: &Output) {
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ended.stdout.is_empty() && ended.stderr.is_empty(), "{ended:?}");
}

/// Whatever a hook gets, and whether or not its wrapper is there, it is silent and ends with 0.
#[test]
fn hook_fails_in_silence() {
    let sandbox = Sandbox::empty();
    let file = sandbox.directory().join("wrapper.json");
    let to = file.to_str().unwrap();
    let words = |event: &'static str| ["claude", event, "--to", to];
    assert_silent(&hook(&sandbox, &words("Stop"), b"{}"));
    let address = format!(
        "{{\"run_directory\":{:?},\"name\":\"Ann\",\"key\":\"k\"}}",
        sandbox.directory().to_str().unwrap()
    );
    for text in ["", "{}", &address] {
        platform::paths::write_private_file(&file, text.as_bytes()).unwrap();
        assert_silent(&hook(&sandbox, &words("Stop"), b"{}"));
        assert_silent(&hook(&sandbox, &words("Wait"), b"{}"));
    }
    // Standard input stays open.
    let mut silent = sandbox.program(env!("CARGO_BIN_EXE_agent-relay-wrap"));
    silent.arg("hook").args(words("Stop")).stdin(Stdio::piped());
    let mut silent = silent.spawn().unwrap();
    let _stdin = silent.stdin.take();
    assert_eq!(wait(&mut silent, "the hook").code(), Some(0));
    let long = vec![b'['; 64 << 20];
    for input in [&b""[..], b"no JSON", b"[]", b"\xff{}", &long] {
        assert_silent(&hook(&sandbox, &words("PostToolUse"), input));
    }
}

/// A command line of our own never looks so, and 2 would forbid something to the CLI.
#[test]
fn hook_with_other_words_explains_itself() {
    let sandbox = Sandbox::empty();
    for words in [
        &[][..],
        &["claude", "Stop"],
        &["claude", "Dance", "--to", "x"],
        &["gemini", "Stop", "--to", "x"],
        &["claude", "Stop", "--from", "x"],
    ] {
        let ended = hook(&sandbox, words, b"{}");
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(said.contains("usage: agent-relay-wrap hook CLI EVENT --to FILE"), "{said}");
    }
}

#[test]
fn inbox_is_taken_only_in_an_agent_with_hooks() {
    let sandbox = Sandbox::new();
    let refused = sandbox.run(["inbox", "--take"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("only a command of a wrapped agent takes its messages"), "{said}");
    for other in [&["inbox", "--take", "--json"][..], &["inbox", "--take", "--as", "Ann"]] {
        assert_eq!(sandbox.run(other).status.code(), Some(2));
    }
}

/// A program under the name of Claude Code that runs its hooks as that does: it begins a turn,
/// waits until it is told of a message, reads it, and reports the result.
const CLAUDE: &str = r#"#!/bin/sh
while [ "$1" != --settings ]; do shift || exit 9; done
to=$(dirname "$2")/wrapper.json
hook() { "$WRAP" hook claude "$1" --to "$to"; }
echo '{"prompt":"Work."}' | hook UserPromptSubmit
echo ready
while ! grep -q agent-relay told; do echo '{}' | hook PostToolUse >told; sleep 0.05; done
id=$(sed 's/.*agent-relay read \([0-9a-f]*\).*/\1/' told)
"$RELAY" read "$id" >read
printf '{"tool_response":{"stdout":"%s"}}' "$(sed 's/$/\\n/' read | tr -d '\n')" | hook PostToolUse
cat read
"$RELAY" inbox --take
while [ ! -e end ]; do sleep 0.05; done
"#;

/// Starts the program under the name of Claude Code as Ann.
fn start_claude(sandbox: &Sandbox) -> Terminal {
    let program = sandbox.directory().join("claude");
    let script = CLAUDE
        .replace("$RELAY", env!("CARGO_BIN_EXE_agent-relay"))
        .replace("$WRAP", env!("CARGO_BIN_EXE_agent-relay-wrap"));
    fs::write(&program, script).unwrap();
    let package = sandbox.directory().join("package.json");
    fs::write(package, r#"{"version": "2.1.330"}"#).unwrap();
    let mut chmod = sandbox.program("chmod");
    chmod.arg("+x").arg(&program);
    assert!(output(chmod).status.success());
    Terminal::wrap(sandbox, "Ann", &[program.to_str().unwrap()])
}

/// The agent is told of a message by its hook, reads it, and has it by that: nothing is typed.
#[test]
fn agent_reads_what_its_hook_tells() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ann = start_claude(&sandbox);
    ann.wait_for("ready");
    send(&mut bob, "Ann", "the walrus sings");
    ann.wait_for("the walrus sings\n[/relay ");
    ann.wait_for("nothing waits for you");
    until("the message is acknowledged", || {
        let listed = sandbox.run(["history", "--json"]).stdout;
        let row = listed.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let row: Value = serde_json::from_slice(row).unwrap_or_default();
        row["state"] == "acknowledged" && row["reported"]["state"] == "confirmed"
    });
    let folders = || run_folders(&sandbox.home().join("run"));
    assert_eq!(folders(), 1);
    fs::write(sandbox.directory().join("end"), "").unwrap();
    assert_eq!(ann.finish(), 0);
    assert_eq!(folders(), 0);
}

fn run_folders(run: &Path) -> usize {
    let entries = fs::read_dir(run).unwrap().map(Result::unwrap);
    entries.filter(|entry| entry.file_type().unwrap().is_dir()).count()
}
