//! The fuzzers' corpus, run through the fuzz bodies by ordinary tests. Each test is named after its
//! fuzz target.
//!
//! `ci/fuzz` searches for more inputs. An input that fails there is added to fuzz/corpus with the
//! fix.

use std::{fs, path::Path};

#[path = "../../fuzz/bodies/bridge.rs"]
mod bridge;
#[path = "../../fuzz/bodies/control.rs"]
mod control;
#[path = "../../fuzz/bodies/envelope.rs"]
mod envelope;
#[path = "../../fuzz/bodies/files.rs"]
mod files;
#[path = "../../fuzz/bodies/frames.rs"]
mod frames;
#[path = "../../fuzz/bodies/hook.rs"]
mod hook;
#[path = "../../fuzz/bodies/mcp.rs"]
mod mcp;
#[path = "../../fuzz/bodies/policy.rs"]
mod policy;
#[path = "../../fuzz/bodies/recipes.rs"]
mod recipes;
#[path = "../../fuzz/bodies/router.rs"]
mod router;
#[path = "../../fuzz/bodies/rows.rs"]
mod rows;
#[path = "../../fuzz/bodies/screen.rs"]
mod screen;
#[path = "../../fuzz/bodies/transcript.rs"]
mod transcript;

/// The corpus is small, since it is part of every checkout and of every test run.
const CORPUS_BYTES_MAX: u64 = 64 << 10;

/// Runs each file of a target's corpus, and the empty input.
#[track_caller]
fn run_corpus(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut bytes = 0;
    body(&[]);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let input = fs::read(&path).unwrap();
        bytes += input.len() as u64;
        // A failed test shows this line, which names the input.
        eprintln!("{}", path.display());
        body(&input);
    }
    assert!((1..=CORPUS_BYTES_MAX).contains(&bytes), "{bytes} bytes in {}", folder.display());
}

#[test]
fn frames() {
    run_corpus("frames", frames::run);
}

#[test]
fn envelope() {
    run_corpus("envelope", envelope::run);
}

#[test]
fn files() {
    run_corpus("files", files::run);
}

#[test]
fn hook() {
    run_corpus("hook", hook::run);
}

#[test]
fn mcp() {
    run_corpus("mcp", mcp::run);
}

#[test]
fn policy() {
    run_corpus("policy", policy::run);
}

#[test]
fn rows() {
    run_corpus("rows", rows::run);
}

#[test]
fn screen() {
    run_corpus("screen", screen::run);
}

#[test]
fn router() {
    run_corpus("router", router::run);
}

#[test]
fn transcript() {
    run_corpus("transcript", transcript::run);
}

#[test]
fn control() {
    run_corpus("control", control::run);
}

#[test]
fn recipes() {
    run_corpus("recipes", recipes::run);
}

#[test]
fn bridge() {
    run_corpus("bridge", bridge::run);
}

/// Checks that no target without a corpus, and no corpus without a test, is skipped unnoticed.
#[test]
fn every_fuzz_target_has_a_corpus_and_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let names = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<_> = entries.map(|entry| stem(&entry.unwrap().path())).collect();
        names.sort();
        names
    };
    let targets = names("fuzz_targets");
    let all = [
        "bridge",
        "control",
        "envelope",
        "files",
        "frames",
        "hook",
        "mcp",
        "policy",
        "recipes",
        "router",
        "rows",
        "screen",
        "transcript",
    ];
    assert_eq!(targets, all);
    assert_eq!((names("bodies"), names("corpus")), (targets.clone(), targets));
}
