//! A CLI that runs in the background, in another directory than its wrapper: what it says is heard, and a
//! person is told where it is read.

use crate::{
    agent::{Household, Kind},
    model::{Model, Reply},
    other::{Other, says_to},
    sandbox::Sandbox,
};
use platform::pty::Size;
use serde_json::{Value, json};
use std::path::Path;

/// Ends Ann, whatever becomes of the test.
struct Spawned<'a>(&'a Sandbox);

impl Drop for Spawned<'_> {
    fn drop(&mut self) {
        self.0.run(["stop", "Ann"]);
    }
}

/// Where what Ann says is read, as `agents` tells it.
fn source(sandbox: &Sandbox) -> Value {
    let printed = sandbox.run(["agents", "--json"]).stdout;
    let rows = str::from_utf8(&printed).unwrap().lines();
    let mut rows = rows.map(|row| serde_json::from_str::<Value>(row).unwrap());
    rows.find(|row| row["name"] == "Ann").expect("Ann is there")["source"].clone()
}

fn is_heard(kind: Kind) {
    let word = says_to("Bob", "I am here.");
    let model = Model::start(move |_| Reply::new().says(format!("I tell him.\n\n{word}")));
    let sandbox = Sandbox::new();
    let bob = Other::join(&sandbox, "Bob");
    let household = Household::new(&sandbox, kind, &model, "ann");
    let stop = Spawned(&sandbox);
    let agent = household.spawn("Ann", Size { rows: 40, cols: 120 });
    agent.while_running(|| assert_eq!(source(&sandbox)["from"], "missing"));
    bob.send("Ann", "Are you there?");
    assert_eq!(bob.hear_text(&agent), "I am here.");
    let source = source(&sandbox);
    let path = source["path"].as_str().unwrap_or_default();
    let files = household.transcripts();
    assert!(files.iter().any(|file| file == Path::new(path)), "{source} is none of {files:?}");
    assert_eq!(source, json!({"from": "transcript", "path": path}));
    drop(stop);
}

#[test]
fn a_claude_that_is_spawned_is_heard() {
    is_heard(Kind::Claude);
}

#[test]
fn a_codex_that_is_spawned_is_heard() {
    is_heard(Kind::Codex);
}

#[test]
fn a_gemini_that_is_spawned_is_heard() {
    is_heard(Kind::Gemini);
}
