//! The rules of the repository that clippy cannot check. Each rule runs on the whole repository,
//! and on snippets that break it, so that the test of a rule that no longer finds anything fails.

mod repository;
mod rules;
mod source;

pub(crate) use repository::SOURCES;
use rules::Rule;
pub(crate) use source::Source;

fn none(breaches: impl IntoIterator<Item = String>) {
    let lines: String = breaches.into_iter().map(|breach| format!("\n  {breach}")).collect();
    assert!(lines.is_empty(), "this rule is broken here:{lines}");
}

/// Runs a rule on the repository and on snippets. A snippet is a line with the expected number of
/// breaches, a path, and code.
fn check(rule: Rule, snippets: &str) {
    assert!(SOURCES.len() > 400, "the repository has more files than {}", SOURCES.len());
    none(SOURCES.iter().flat_map(rule));
    for snippet in snippets.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<_> = snippet.splitn(3, ' ').collect();
        let [count, path, code] = words[..] else { panic!("{snippet}") };
        let found = rule(&Source::new(path, code));
        assert_eq!(found.len().to_string(), count, "{snippet}: {found:?}");
    }
}

#[test]
fn systems_differ_only_in_platform() {
    let snippets = r#"
        1 src/cli.rs use std::os::fd::AsFd;
        1 src/cli.rs use std::{os, io};
        1 src/cli.rs #[cfg(unix)] fn a() {}
        1 src/cli.rs fn a() { println!("{}", std::env::consts::OS) }
        1 src/cli.rs #[cfg_attr(all(test, target_os = "linux"), x)] fn b() {}
        1 tests/it/x.rs fn b() { if cfg!(windows) {} }
        0 platform/src/pty.rs #[cfg(unix)] fn a() {}
        0 src/cli.rs #[cfg(test)] mod t {}
        0 src/cli.rs const A: &str = "cfg(unix)"; // cfg(unix)
    "#;
    check(rules::systems, snippets);
}

#[test]
fn permissions_are_granted_by_the_table() {
    let snippets = r#"
        4 crates/router/src/lib.rs use std::{thread::sleep, time::Instant}; fn f() { Instant::now() }
        4 crates/client/src/session.rs use std::{thread::sleep, time::Instant}; fn f() { Instant::now() }
        0 crates/client/src/lib.rs use std::{thread::sleep, time::Instant}; fn f() { Instant::now() }
        0 tests/it/x.rs fn f() { Instant::now() }
        2 src/config.rs fn f() { thread::spawn(g); std::thread::Builder::new(); }
        0 crates/client/src/link.rs fn f() { thread::spawn(g); std::thread::Builder::new(); }
        2 crates/client/src/link.rs fn f() { io::stdout().write(b""); std::process::exit(1) }
        1 platform/src/pty.rs fn f() { io::stdout().write(b""); std::process::exit(1) }
        0 src/cli/up.rs fn f() { io::stdout().write(b""); std::process::exit(1) }
        2 crates/router/src/mail.rs use std::{fs, io::Write, sync::{Arc, Mutex}, fmt};
        2 crates/router/src/mail.rs use parking_lot::RwLock; fn f() { std::io::empty(); }
        0 crates/client/src/lib.rs use std::fs; use parking_lot::RwLock;
        0 crates/router/src/lib.rs #[cfg(test)] mod tests { fn f() { Instant::now(); } }
        0 crates/router/src/lib.rs #[test] fn a() { std::fs::x() }
    "#;
    check(rules::permissions, snippets);
}

#[test]
fn files_begin_with_a_header_and_leave_nothing_unfinished() {
    let snippets = "
        1 src/cli.rs use std::fs;
        1 src/cli/helpers.rs //! A
        2 src/a.rs #[ignore] fn f() {}
    ";
    check(rules::files, snippets);
}

#[test]
fn siblings_do_not_use_each_other_in_a_circle() {
    none(rules::circles(&SOURCES));

    let room = |b: &str| {
        let files = [
            ("crates/room/src/lib.rs", "mod a; mod b; mod c; use c::deep::Thing;"),
            ("crates/room/src/a.rs", "use super::b::B; use super::Room;"),
            ("crates/room/src/b.rs", b),
            ("crates/room/src/c/deep.rs", "use super::super::a::A;"),
        ];
        rules::circles(&files.map(|(path, text)| Source::new(path, text))).len()
    };
    assert_eq!(room("use super::Room;"), 0);
    assert_eq!(room("use super::a::A;"), 2);
    assert_eq!(room("use super::Thing;"), 3, "through an import of the parent");
    assert_eq!(room("#[cfg(test)] mod tests { use crate::a::A; }"), 0);
}

#[test]
fn test_data_is_read_by_a_test() {
    let is_named = |path: &String| {
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = format!("\"{}\"", file.split('.').next().unwrap_or(file));
        SOURCES.iter().any(|source| source.text.contains(file) || source.text.contains(&stem))
    };
    let is_data = |path: &String| path.starts_with("crates/") && path.contains("/data/");
    let data: Vec<_> = repository::files("").into_iter().filter(is_data).collect();
    assert!(data.len() > 50, "{data:?}");
    none(data.into_iter().filter(|path| !is_named(path)));
}
