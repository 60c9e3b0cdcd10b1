//! The corpus of each target with its body in this crate.

use std::{fs, path::Path};
use testkit::corpus;

/// The targets with a test here or in `crates/router` or `crates/terminal`.
const TARGETS: [&str; 13] = [
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
    "terminal",
    "transcript",
];

#[test]
fn control() {
    corpus::run("control", crate::control::run);
}

#[test]
fn envelope() {
    corpus::run("envelope", crate::envelope::run);
}

#[test]
fn files() {
    corpus::run("files", crate::files::run);
}

#[test]
fn frames() {
    corpus::run("frames", crate::frames::run);
}

#[test]
fn hook() {
    corpus::run("hook", crate::hook::run);
}

#[test]
fn mcp() {
    corpus::run("mcp", crate::mcp::run);
}

#[test]
fn policy() {
    corpus::run("policy", crate::policy::run);
}

#[test]
fn recipes() {
    corpus::run("recipes", crate::recipes::run);
}

#[test]
fn rows() {
    corpus::run("rows", crate::rows::run);
}

/// Checks that no target without a corpus, and no corpus without a test, is skipped unnoticed.
#[test]
fn every_fuzz_target_has_a_corpus_and_a_test() {
    for folder in ["fuzz_targets", "corpus"] {
        let entries = fs::read_dir(corpus::fuzz_folder().join(folder)).unwrap();
        let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<_> = entries.map(|entry| stem(&entry.unwrap().path())).collect();
        names.sort();
        assert_eq!(names, TARGETS, "{folder}");
    }
}
