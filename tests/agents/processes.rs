//! Processes in a sandbox, for tests that kill them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::waiting::until;

/// Returns the ids of all processes with these words in their command line. A word with a slash is
/// a part of an argument.
pub(crate) fn with_words(words: &[&str]) -> Vec<u32> {
    let has_words = |line: &str| {
        words.iter().all(|word| {
            line.split('\0')
                .any(|part| part == *word || (word.contains('/') && part.contains(word)))
        })
    };
    let runs = |process: &PathBuf| {
        fs::read(process.join("cmdline"))
            .is_ok_and(|line| has_words(&String::from_utf8_lossy(&line)))
    };
    ids(runs)
}

/// Kills all processes with these words in their command line. Returns how many there were.
pub(crate) fn kill(words: &[&str]) -> usize {
    let ids = with_words(words);
    ids.iter().for_each(|&id| kill_one(id));
    ids.len()
}

pub(crate) fn kill_one(id: u32) {
    signal(id, "KILL");
}

/// Sends a signal to a process. The process may have ended meanwhile.
pub(crate) fn signal(id: u32, signal: &str) {
    let mut kill = Command::new("kill");
    kill.args([&format!("-{signal}"), &id.to_string()]).output().unwrap();
}

/// Kills all processes that run in a directory, and waits until none is left.
#[track_caller]
pub(crate) fn kill_in(directory: &Path) {
    let is_there = |process: &PathBuf| {
        fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
    };
    until("no process runs in the directory", || {
        let left = ids(is_there);
        left.iter().for_each(|&id| kill_one(id));
        left.is_empty()
    });
}

fn ids(is_wanted: impl Fn(&PathBuf) -> bool) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let id = |process: PathBuf| process.file_name()?.to_str()?.parse().ok();
    processes.filter(|process| is_wanted(process)).filter_map(id).collect()
}
