//! The command that agent CLIs run as their hook, and the commands that agents read their messages
//! with.

use crate::wrap::{expect_message, send};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Output, Stdio},
    thread,
};
use testkit::{
    claude,
    sandbox::Sandbox,
    waiting::{output, until, wait},
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

/// A hook is silent and ends with 0 for any input, with or without its wrapper.
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

/// A hook of an extension is silent outside of a wrapped agent, and in programs that the agent has
/// started.
#[test]
fn hook_of_an_extension_needs_its_wrapper() {
    let sandbox = Sandbox::empty();
    for variables in [&[][..], &[("AGENT_RELAY_WRAPPER_FILE", "/x"), ("GEMINI_CLI", "1")]] {
        let mut hook = sandbox.program(env!("CARGO_BIN_EXE_agent-relay-wrap"));
        hook.args(["hook", "gemini", "AfterTool"]).envs(variables.iter().copied());
        // It does not wait for its input.
        let mut hook = hook.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = hook.stdin.take();
        assert_silent(&hook.wait_with_output().unwrap());
        drop(stdin);
    }
}

/// Our own command line never looks like this, and 2 would make the CLI forbid something.
#[test]
fn hook_with_other_words_explains_itself() {
    let sandbox = Sandbox::empty();
    for words in [
        &[][..],
        &["claude", "Stop"],
        &["claude", "Dance", "--to", "x"],
        &["gemini", "Stop", "--to", "x"],
        &["aider", "Stop", "--to", "x"],
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
    let agents = |line: &[&str]| {
        let mut command = sandbox.command(line);
        command.env("AGENT_RELAY_AGENT", "Ann");
        output(command)
    };
    let refused = agents(&["inbox", "--take"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("only a command of a wrapped agent takes its messages"), "{said}");
    for other in [&["inbox", "--take", "--json"][..], &["inbox", "--take", "--as", "Ann"]] {
        assert_eq!(agents(other).status.code(), Some(2));
    }
}

/// A program under the name of Claude Code that runs its hooks as that does: it begins a turn,
/// waits until it is told of a message, reads it, and reports the result. Each hook is repeated
/// until it has worked, since it gives up when its wrapper is slow.
const CLAUDE: &str = r#"
begin_turn
echo ready
while ! grep -q agent-relay told; do echo '{}' | hook PostToolUse >told; sleep 0.05; done
id=$(sed 's/.*agent-relay read \([0-9a-f]*\).*/\1/' told)
"$RELAY" read "$id" >read
cat read
"$RELAY" inbox --take
while [ ! -e end ]; do
    printf '{"tool_response":{"stdout":"%s"}}' "$(sed 's/$/\\n/' read | tr -d '\n')" | hook PostToolUse
    sleep 0.05
done
"#;

#[track_caller]
fn run_program(sandbox: &Sandbox, program: &str, arguments: &[&Path]) {
    let mut program = sandbox.program(program);
    program.args(arguments);
    assert!(output(program).status.success());
}

/// The agent's hook tells it of a message, and the agent reads it. Nothing is typed.
#[test]
fn agent_reads_the_message_that_its_hook_announces() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ann = claude::start_with_hooks(&sandbox, CLAUDE, &[]);
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

/// A program under the name of Claude Code that begins a conversation, and then runs a hook with
/// each input that a file holds.
const REPORTING: &str = r#"
echo '{"source":"startup"}' | hook SessionStart
echo ready
count=1
while [ ! -e end ]; do
    [ -e "input-$count" ] || { sleep 0.05; continue; }
    hook UserPromptSubmit <"input-$count"
    echo "reported $count."
    count=$((count + 1))
done
"#;

/// A program under the name of Claude Code that begins a conversation.
const BEGINNING: &str = r#"
until [ -s began ]; do
    echo '{"source":"startup"}' | hook SessionStart >began
done
echo ready
while [ ! -e end ]; do sleep 0.05; done
"#;

#[test]
fn brief_is_the_context_that_a_hook_prints() {
    let sandbox = Sandbox::new();
    let ann = claude::start_with_hooks(&sandbox, BEGINNING, &["--brief"]);
    let printed = fs::read(sandbox.directory().join("began")).unwrap();
    let printed: Value = serde_json::from_slice(&printed).unwrap();
    let context = &printed["hookSpecificOutput"];
    assert_eq!(context["hookEventName"], "SessionStart");
    assert!(context["additionalContext"].as_str().unwrap().contains("Your name is Ann."));
    fs::write(sandbox.directory().join("end"), "").unwrap();
    assert_eq!(ann.finish(), 0);
}

/// A program under the name of Claude Code that gives up a hook: nothing reads the hook's output
/// when the hook gets a message.
const DEAF: &str = r#"
begin_turn
echo ready
{
    while [ ! -e sent ]; do sleep 0.05; done
    echo '{}' | hook PostToolUse
} | true
until grep -q agent-relay told; do echo '{}' | hook PostToolUse >told; done
"#;

#[test]
fn unprinted_hook_text_is_repeated() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ann = claude::start_with_hooks(&sandbox, DEAF, &[]);
    send(&mut bob, "Ann", "the walrus sings");
    until("the wrapper has the message", || {
        let listed = sandbox.run(["inbox", "--as", "Ann"]).stdout;
        String::from_utf8_lossy(&listed).contains("waiting (agent)")
    });
    fs::write(sandbox.directory().join("sent"), "").unwrap();
    assert_eq!(ann.finish(), 0);
    let told = fs::read_to_string(sandbox.directory().join("told")).unwrap();
    assert!(told.contains("Bob wrote to you"), "{told}");
}

/// A line of a transcript: the agent says this to Bob.
fn said(word: &str) -> String {
    let text = format!("->relay:Bob <<<{word}>>>");
    let line = json!({"type": "assistant", "timestamp": "2999-01-01T00:00:00.000Z", "message": {"content": text}});
    format!("{line}\n")
}

/// Hooks may name any file. Links, files in other folders, subagents' files and files that others
/// can change are not read.
#[test]
fn transcript_that_a_hook_names_is_read_if_it_is_the_agents() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    let ann = claude::start_with_hooks(&sandbox, REPORTING, &[]);
    let folder = sandbox.directory().join(".claude/projects/p");
    fs::create_dir_all(folder.join("own/subagents")).unwrap();
    let mut count = 0;
    let mut report = |path: &Path| {
        count += 1;
        let (new, file) = (sandbox.directory().join("new"), format!("input-{count}"));
        fs::write(&new, json!({"transcript_path": path}).to_string()).unwrap();
        fs::rename(new, sandbox.directory().join(file)).unwrap();
        ann.wait_for(&format!("reported {count}."));
    };
    // A report is repeated until it has worked, since a hook gives up when its wrapper is slow.
    let is_read_from = |path: &Path| {
        let listed = sandbox.run(["agents", "--json"]).stdout;
        let name = path.file_name().unwrap().to_str().unwrap();
        String::from_utf8(listed).unwrap().contains(&format!("/{name}\""))
    };
    let own = folder.join("own.jsonl");
    let mut words = said("begin");
    fs::write(&own, &words).unwrap();
    until("the transcript is read", || {
        report(&own);
        is_read_from(&own)
    });
    expect_message(&mut bob, "Ann", "begin");

    let outside = sandbox.directory().join("outside.jsonl");
    let subagents = folder.join("own/subagents/agent-1.jsonl");
    let [link, shared] = ["link.jsonl", "shared.jsonl"].map(|name| folder.join(name));
    for path in [&outside, &subagents, &shared] {
        fs::write(path, said("of another")).unwrap();
    }
    run_program(&sandbox, "chmod", &["666".as_ref(), &shared]);
    run_program(&sandbox, "ln", &["-s".as_ref(), &outside, &link]);
    for (number, path) in [&outside, &subagents, &shared, &link, &folder].into_iter().enumerate() {
        report(path);
        words += &said(&format!("still {number}"));
        fs::write(&own, &words).unwrap();
        expect_message(&mut bob, "Ann", &format!("still {number}"));
    }
    let next = folder.join("next.jsonl");
    fs::write(&next, said("next")).unwrap();
    until("the next transcript is read", || {
        report(&next);
        is_read_from(&next)
    });
    expect_message(&mut bob, "Ann", "next");
    fs::write(sandbox.directory().join("end"), "").unwrap();
    assert_eq!(ann.finish(), 0);
}
