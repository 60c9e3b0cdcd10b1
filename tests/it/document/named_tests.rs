//! Tests that documents and lists name, compared with the code.

use super::{part, ticked};
use crate::tidy::SOURCES;

const SECURITY: &str = include_str!("../../../docs/SECURITY.md");
const THREATS: &str = include_str!("../../../docs/THREATS.md");
const WINDOWS: &str = include_str!("../../../docs/WINDOWS.md");
const SKIPPED: [&str; 2] = [
    include_str!("../../../ci/macos.skipped-tests"),
    include_str!("../../../ci/windows.skipped-tests"),
];

/// Every function, with its crate and module: `crate::tests::it::wrap::two_shells_talk_both_ways`.
fn functions() -> Vec<String> {
    let functions = SOURCES.iter().flat_map(|source| {
        let module = source.module().join("::");
        source.after("fn").map(move |(_, name)| format!("::{module}::{name}"))
    });
    functions.collect()
}

#[test]
fn tests_named_in_documents_exist() {
    let functions = functions();
    for (document, text, least) in [("SECURITY.md", SECURITY, 10), ("THREATS.md", THREATS, 100)] {
        let named: Vec<_> = ticked(text).into_iter().filter(|word| word.contains("::")).collect();
        assert!(named.len() >= least, "{document}: {named:?}");
        for name in named.into_iter().filter(|name| !name.ends_with('…')) {
            let end = format!("::{name}");
            let exists = functions.iter().any(|function| function.ends_with(&end));
            assert!(exists, "{document}: {name}");
        }
    }

    // The document may name several tests by the beginning of their names, as `cargo test` allows.
    let text = part(WINDOWS, "## ", "What was tested");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
    let is_name = |word: &&str| word.contains("::") || word.matches('_').count() > 1;
    let named: Vec<_> = words.filter(is_name).collect();
    assert!(named.len() > 50, "{named:?}");
    for name in named {
        let begins = format!("::{name}");
        assert!(functions.iter().any(|function| function.contains(&begins)), "WINDOWS.md: {name}");
    }
}

/// Checks the rows of docs/THREATS.md: every number in order, each with a test or the word that
/// there is none.
#[test]
fn threats_and_faults_are_numbered_without_gaps() {
    for (heading, letter, count) in [("Threats", 'T', 59), ("Faults", 'F', 71)] {
        let section = part(THREATS, "## ", heading);
        let rows: Vec<_> = section
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
            .filter(|row| row.starts_with(letter) && !row.starts_with("number"))
            .collect();
        assert_eq!(rows.len(), count, "{heading}");
        for (row, number) in rows.into_iter().zip(1..) {
            let (stated, _) = row.split_once(" | ").expect("cells");
            let (_, test) = row.rsplit_once(" | ").expect("cells");
            assert_eq!(stated, format!("{letter}{number}"));
            let is_told = test == "no test" || test.starts_with("none: ");
            assert!(is_told || test.contains("::"), "{row}");
        }
    }
}

/// Checks that each row skips exactly the tests that it names: a test, perhaps without its module,
/// or, with `*` at the end, a module. `--skip` takes any part of a name, so that a row could skip
/// other tests as well.
#[test]
fn lists_of_skipped_tests_skip_only_named_tests() {
    let functions = functions();
    for row in SKIPPED.iter().flat_map(|list| list.lines()) {
        let (_, row) = row.split_once(": ").expect("skipped: BINARY NAME: REASON");
        let (binary, row) = row.split_once(' ').expect("BINARY NAME: REASON");
        let (name, _) = row.split_once(": ").expect("NAME: REASON");
        let (part, is_module) = (name.trim_end_matches('*'), name.ends_with("::*"));
        let own = format!("::tests::{binary}::");
        let within = |function: &'_ str| match binary {
            // The library of each crate.
            "lib" => function[2..].split_once("::").map(|(_, test)| test.to_owned()),
            _ => function.split_once(&own).map(|(_, test)| test.to_owned()),
        };
        let tests = functions.iter().filter_map(|function| within(function));
        let skipped: Vec<_> = tests.filter(|test| test.contains(part)).collect();
        let end = format!("::{part}");
        let is_named = |test: &String| {
            test == part || test.ends_with(&end) || is_module && test.starts_with(part)
        };
        assert!(!skipped.is_empty() && skipped.iter().all(is_named), "{name} skips {skipped:?}");
    }
}
