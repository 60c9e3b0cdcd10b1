//! A CLI's activity in `agents`: reported by the CLI's hooks, and by its screen after an interrupt.

use crate::{
    cli::{Agent, Cli},
    peer::start_ann,
};
use serde_json::{Value, json};
use std::path::Path;
use testkit::{
    model::{Gate, Model, Reply},
    sandbox::Sandbox,
    waiting::{output, until},
};

const COLUMNS: u16 = 100;

/// Waits until `agents` shows this activity of Ann from this source.
#[track_caller]
pub(crate) fn await_activity(sandbox: &Sandbox, agent: &Agent, activity: &str, source: &str) {
    let shown = || -> Value {
        let listed = output(sandbox.command(["agents", "--json"])).stdout;
        let rows = listed.split(|byte| *byte == b'\n');
        let mut rows = rows.filter_map(|row| serde_json::from_slice(row).ok());
        rows.find(|row: &Value| row["name"] == "Ann").unwrap_or_default()
    };
    let fits = || {
        let row = shown();
        row["activity"] == activity && row["activity_source"] == source
    };
    let print = || eprintln!("{}", shown());
    agent.with_details_on_panic(print, || until(&format!("{activity} by {source}"), fits));
}

#[track_caller]
fn assert_becomes_idle(sandbox: &Sandbox, agent: &Agent) {
    let wait = sandbox.command(["wait", "Ann", "idle", "--timeout", "2m"]);
    agent.with_screen_on_panic(|| {
        let waited = output(wait);
        assert_eq!(waited.status.code(), Some(0), "{waited:?}");
    });
}

/// A model that runs a command on "Run." and asks the user on "Ask.". On "Think.", it thinks until
/// the gate opens.
fn model(gate: &Gate, until_exists: &Path) -> Model {
    let gate = gate.clone();
    // Claude Code runs a command that changes nothing without a question.
    let command =
        format!("touch ran; until test -e {}; do sleep 0.05; done", until_exists.display());
    Model::start(move |asked| match (&*asked.prompt, &asked.result) {
        ("Run.", None) => Reply::new().says("I run it.").runs(&*command),
        ("Ask.", None) => Reply::new().says("I ask.").calls("AskUserQuestion", question()),
        ("Think.", None) => Reply::new().says("I think.").waits(&gate).says("I have thought."),
        _ => Reply::new().says("Done."),
    })
}

fn question() -> Value {
    let option = |label: &str| json!({"label": label, "description": "A colour."});
    json!({"questions": [{
        "question": "Which colour do you like?", "header": "Colour", "multiSelect": false,
        "options": [option("Red"), option("Blue")],
    }]})
}

/// The permission is answered while the command waits: its tool has not ended yet.
fn permission_is_shown(cli: Cli) -> impl FnOnce(&Sandbox, &mut Agent, &Path) {
    move |sandbox, agent, go| {
        await_activity(sandbox, agent, "idle", "screen");
        agent.submit("Run.");
        await_activity(sandbox, agent, "waits-for-permission", "hooks");
        let (question, yes) = cli.permission();
        agent.answer(question, yes);
        await_activity(sandbox, agent, "working", "hooks");
        std::fs::write(go, "").unwrap();
        await_activity(sandbox, agent, "idle", "hooks");
        assert_becomes_idle(sandbox, agent);
    }
}

#[test]
fn claude_shows_permission_question_and_interrupt() {
    let (gate, sandbox) = (Gate::default(), Sandbox::new());
    let go = sandbox.directory().join("go");
    let model = model(&gate, &go);
    let (_workspace, mut agent) = start_ann(&sandbox, Cli::Claude, &model, COLUMNS);
    permission_is_shown(Cli::Claude)(&sandbox, &mut agent, &go);
    agent.submit("Ask.");
    await_activity(&sandbox, &agent, "asks-person", "hooks");
    agent.answer("Which colour do you like?", "\r");
    assert_becomes_idle(&sandbox, &agent);
    agent.submit("Think.");
    await_activity(&sandbox, &agent, "working", "hooks");
    agent.terminal.wait_for("I think.");
    agent.terminal.press("\x1b");
    // No hook reports it.
    await_activity(&sandbox, &agent, "idle", "screen");
    gate.open();
}

#[test]
fn codex_shows_permission() {
    let (gate, sandbox) = (Gate::default(), Sandbox::new());
    let go = sandbox.directory().join("go");
    let model = model(&gate, &go);
    let (_workspace, mut agent) = start_ann(&sandbox, Cli::Codex, &model, COLUMNS);
    permission_is_shown(Cli::Codex)(&sandbox, &mut agent, &go);
}
