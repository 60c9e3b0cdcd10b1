//! The rules of the repository that clippy can't check. Each runs on the whole repository, and on
//! snippets that break it, so that a rule that finds nothing any more is noticed too.

mod repository;
mod rules;
mod source;

use repository::{Architecture, SOURCES};
use rules::Rule;
use source::Source;

const SMALL: &str = "```layers\nrouter protocol\nprotocol -\nclient protocol\nlink -\ncli client\nbin cli\n\
    platform -\n```\n```permissions\nclock client platform\nthreads link platform\nprint cli\nexit cli\n\
    pure router client/session\n```\n## Who waits for whom\n| its two, `router`, `reader-*` | `x` |\n";

fn none(breaches: impl IntoIterator<Item = String>) {
    let lines: String = breaches.into_iter().map(|breach| format!("\n  {breach}")).collect();
    assert!(lines.is_empty(), "this rule is broken here:{lines}");
}

/// Runs a rule on the repository, and on snippets with a path and a number of breaches each.
fn check(rule: Rule, snippets: &[(&str, usize, &str)]) {
    assert!(SOURCES.len() > 400, "the repository has more files than {}", SOURCES.len());
    let architecture = Architecture::load();
    none(SOURCES.iter().flat_map(|source| rule(source, &architecture)));
    for &(path, count, text) in snippets {
        let found = rule(&Source::new(path, text), &Architecture::new(SMALL));
        assert_eq!(found.len(), count, "{path}: {text}: {found:?}");
    }
}

#[test]
fn layers_use_only_those_below() {
    let tests = "use crate::protocol; #[cfg(test)] mod tests { use crate::client; }";
    let snippets = [
        ("src/router.rs", 3, "use crate::{protocol::Name, client, link::{self, Frame}};"),
        ("src/router/mail.rs", 1, "fn f() { super::super::client::join(); super::g(); }"),
        ("src/router.rs", 1, "fn f() { platform::clock::now(); }"),
        ("src/router.rs", 0, tests),
        ("src/bin/x.rs", 1, "use agent_relay::{cli, client};"),
        ("src/drawer.rs", 1, ""),
        ("platform/src/pty.rs", 1, "use crate::naming; use agent_relay::client;"),
    ];
    check(rules::layers, &snippets);
}

#[test]
fn systems_differ_only_in_platform() {
    let text = "use std::os::fd::AsFd; use std::{os, io};
        #[cfg(unix)] fn a() { println!(\"{}\", std::env::consts::OS) }
        #[cfg_attr(all(test, target_os = \"linux\"), x)] fn b() { if cfg!(windows) {} }
        #[cfg(test)] mod t {}";
    let comment = "// cfg(unix)\nconst A: &str = \"cfg(unix)\";";
    let snippets =
        [("src/cli.rs", 6, text), ("tests/it/x.rs", 6, text), ("platform/src/pty.rs", 0, text)];
    check(rules::systems, &snippets);
    check(rules::systems, &[("src/cli.rs", 0, comment)]);
}

#[test]
fn permissions_are_granted_by_the_table() {
    let clock = "use std::{thread::sleep, time::Instant}; fn f() { Instant::now() }";
    let threads = "fn f() { thread::spawn(g); std::thread::Builder::new(); }";
    let print = "fn f() { io::stdout().write(b\"\"); std::process::exit(1) }";
    let pure = "use std::{fs, io::Write, sync::{Arc, Mutex}, fmt}; use parking_lot::RwLock;
        fn f() { std::io::empty(); }";
    let tests =
        "#[cfg(test)] mod tests { fn f() { Instant::now(); } } #[test] fn a<B, C>() { fs::x() }";
    let snippets = [
        ("src/router.rs", 4, clock),
        ("src/client.rs", 0, clock),
        ("src/client/session.rs", 4, clock),
        ("tests/it/x.rs", 0, clock),
        ("src/client.rs", 2, threads),
        ("src/link.rs", 0, threads),
        ("src/link.rs", 2, print),
        ("src/cli/up.rs", 0, print),
        ("platform/src/pty.rs", 2, print),
        ("src/router/mail.rs", 4, pure),
        ("src/client.rs", 0, pure),
        ("src/router.rs", 0, tests),
    ];
    check(rules::permissions, &snippets);
}

#[test]
fn threads_stand_in_the_waiting_table() {
    let snippets = [
        ("src/a.rs", 0, "fn f() { thread::Builder::new().name(\"router\".into()).spawn(g); }"),
        (
            "src/a.rs",
            0,
            "fn f() { thread::Builder::new().name(format!(\"reader-{id}\")).spawn(g); }",
        ),
        (
            "src/a.rs",
            1,
            "fn f() { thread::Builder::new().name(format!(\"writer-{id}\")).spawn(g); }",
        ),
        ("src/a.rs", 1, "fn f() { spawn(\"y\", || g(\"z\")); named(\"agent\"); }"),
        ("src/a.rs", 0, "#[cfg(test)] mod tests { fn f() { spawn(\"y\"); } }"),
    ];
    check(rules::threads, &snippets);
    let started: Vec<_> = SOURCES.iter().flat_map(rules::thread_names).collect();
    let table = Architecture::load().threads.into_iter();
    none(table.filter(|thread| started.iter().all(|(_, name)| name != thread)));
}

#[test]
fn files_begin_with_a_header_and_leave_nothing_unfinished() {
    let ignored = concat!("//! A\n#[", "ignore] fn f() {}");
    let files = [
        ("src/cli.rs", 1, "use std::fs;"),
        ("src/cli/helpers.rs", 1, "//! A"),
        ("src/a.rs", 1, ignored),
    ];
    check(rules::files, &files);
}

#[test]
fn siblings_do_not_use_each_other_in_a_circle() {
    none(rules::circles(&SOURCES));

    let room = |b: &str| {
        let files = [
            ("src/room.rs", "mod a; mod b; mod c; use c::deep::Thing;"),
            ("src/room/a.rs", "use super::b::B; use super::Room;"),
            ("src/room/b.rs", b),
            ("src/room/c/deep.rs", "use super::super::a::A;"),
        ];
        rules::circles(&files.map(|(path, text)| Source::new(path, text))).len()
    };
    assert_eq!(room("use super::Room;"), 0);
    assert_eq!(room("use super::a::A;"), 2);
    assert_eq!(room("use super::Thing;"), 3, "through an import of the parent");
    assert_eq!(room("#[cfg(test)] mod tests { use crate::room::a::A; }"), 0);
}

#[test]
fn code_map_has_every_layer() {
    let Architecture { layers, code_map, .. } = Architecture::load();
    let layers = layers.keys().filter(|layer| *layer != "build" && *layer != "platform");
    none(layers.map(|layer| format!("`src/{layer}")).filter(|path| !code_map.contains(path)));
}

#[test]
fn test_data_is_read_by_a_test() {
    let is_named = |path: &String| {
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = format!("\"{}\"", file.split('.').next().unwrap_or(file));
        SOURCES.iter().any(|source| source.text.contains(file) || source.text.contains(&stem))
    };
    none(repository::files("tests/data").into_iter().filter(|path| !is_named(path)));
}

#[test]
fn tests_that_documents_and_lists_name_exist() {
    let lists = [
        include_str!("../../ci/windows.skipped-tests"),
        include_str!("../../ci/macos.skipped-tests"),
    ];
    let rows = lists.iter().flat_map(|list| list.lines());
    let skipped = rows.map(|row| row.split(": ").nth(1).and_then(|row| row.split_once(' ')));
    let skipped = skipped.map(|row| row.expect("skipped: BINARY NAME: REASON").1);
    let document = include_str!("../../docs/WINDOWS.md");
    let (_, shown) = document.split_once("## What was tested").expect("a section of WINDOWS.md");
    let words = shown.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
    let named = words.filter(|word| word.contains("::") || word.matches('_').count() > 1);
    let names: Vec<_> = skipped.chain(named).collect();
    assert!(names.len() > 60, "{names:?}");
    let missing = names.into_iter().filter(|name| !rules::is_test(name, &SOURCES));
    none(missing.map(str::to_owned));

    let source = Source::new("tests/it/grid.rs", "#[test] fn wide_text_wraps() {}");
    let is_test = |name| rules::is_test(name, std::slice::from_ref(&source));
    assert!(["grid", "grid::", "grid::wide_text_wraps", "wide_"].into_iter().all(is_test));
    assert!(!["grids", "grid::wider", "wrap::wide_text_wraps"].into_iter().any(is_test));
}
