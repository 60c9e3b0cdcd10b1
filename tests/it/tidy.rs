//! The house rules as tests. Each rule is checked on the whole repository and on a snippet that
//! breaks it, so that a rule that no longer sees anything is noticed too.

mod house;
mod rules;
mod source;

use std::fmt::Display;

use house::House;
use rules::Rule;
use source::Source;

/// Fails with every place where the repository breaks the rule.
fn keeps(rule: Rule) {
    let house = House::ours();
    let sources = house::sources();
    assert!(sources.len() > 10, "the repository has more files than {}", sources.len());
    none(sources.iter().flat_map(|source| rule(source, &house)));
}

/// How often the rule fires on one file of a small house.
fn fires(rule: Rule, path: &str, text: &str) -> usize {
    let house = House::new(
        "```layers\nrouter protocol\nprotocol -\nclient protocol link platform\nlink -\ncli client\n\
         bin cli\nplatform -\n```\n\
         ```permissions\nclock client platform\nthreads link platform\nprint cli bin\n\
         exit cli\npure router client/session\n```\n\
         ## Who waits for whom\n| thread | waits for |\n|---|---|\n| its two, `router`, `reader-*` | `x` |\n",
    );
    rule(&Source::new(path, text), &house).len()
}

fn none<T: Display>(breaches: impl IntoIterator<Item = T>) {
    let lines: Vec<_> = breaches.into_iter().map(|breach| format!("\n  {breach}")).collect();
    assert!(lines.is_empty(), "this rule is broken here:{}", lines.concat());
}

#[test]
fn layers_use_only_what_the_table_allows() {
    keeps(rules::layers);
    let count = |path, text| fires(rules::layers, path, text);
    assert_eq!(
        count("src/router.rs", "use crate::{protocol::Name, client, link::{self, Frame}};"),
        3
    );
    assert_eq!(
        count("src/router/outbox.rs", "fn f() { super::super::client::join(); super::g(); }"),
        1
    );
    assert_eq!(count("src/router.rs", "fn f() { platform::clock::now(); }"), 1);
    assert_eq!(
        count(
            "src/router.rs",
            "use crate::protocol; #[cfg(test)] mod tests { use crate::client; }"
        ),
        0
    );
    assert_eq!(count("src/bin/x.rs", "use agent_relay::{cli, client};"), 1);
    assert_eq!(count("src/drawer.rs", ""), 1);
    assert_eq!(count("platform/src/pty.rs", "use crate::naming; use agent_relay::client;"), 1);
}

#[test]
fn systems_differ_only_in_platform() {
    keeps(rules::system);
    let text = "use std::os::fd::AsFd; use std::{os, io};
        #[cfg(unix)] fn a() { unsafe { libc::getpid() } }
        #[cfg_attr(all(test, target_os = \"linux\"), x)] fn b() { if cfg!(windows) {} }
        #[cfg(test)] mod t {}";
    assert_eq!(fires(rules::system, "src/cli.rs", text), 7);
    assert_eq!(fires(rules::system, "tests/it/x.rs", text), 7);
    assert_eq!(fires(rules::system, "platform/src/pty.rs", text), 0);
    assert_eq!(
        fires(rules::system, "src/cli.rs", "// cfg(unix) unsafe\nconst A: &str = \"unsafe\";"),
        0
    );
}

#[test]
fn only_some_read_the_clock_start_threads_print_or_exit() {
    keeps(rules::permissions);
    let count = |path, text| fires(rules::permissions, path, text);
    let clock = "use std::thread::{self, sleep};
        fn f(t: Instant) { std::time::Instant::now(); t.elapsed(); }";
    assert_eq!([count("src/router.rs", clock), count("src/client.rs", clock)], [3, 0]);
    assert_eq!(count("src/client/session.rs", clock), 3);
    let threads = "fn f() { thread::spawn(g); std::thread::Builder::new(); }";
    assert_eq!([count("src/client.rs", threads), count("src/link.rs", threads)], [2, 0]);
    let print =
        "fn f() { println!(); eprint!(); io::stdout().write(b\"\"); std::process::exit(1) }";
    assert_eq!([count("src/link.rs", print), count("src/cli/up.rs", print)], [4, 0]);
    assert_eq!([count("src/bin/x.rs", print), count("platform/src/pty.rs", print)], [1, 3]);
    assert_eq!(
        count("src/link.rs", "#[cfg(test)] mod tests { fn f() { println!(); Instant::now(); } }"),
        0
    );
    assert_eq!(count("tests/it/x.rs", clock), 0);
}

#[test]
fn every_thread_has_a_name_that_the_waiting_table_knows() {
    keeps(rules::threads);
    let house = House::ours();
    let named: Vec<_> = house::sources().iter().flat_map(rules::thread_names).collect();
    let gone = house.threads.iter().filter(|thread| named.iter().all(|(_, name)| name != *thread));
    none(gone.map(|thread| format!("the waiting table has `{thread}`, which nothing starts")));

    let count = |text: &str| fires(rules::threads, "src/daemon.rs", text);
    assert_eq!(count("fn f() { thread::spawn(g); }"), 1);
    let builder = "fn f(id: u8) { thread::Builder::new().name(NAME).spawn(g); }";
    assert_eq!(count(&builder.replace("NAME", r#""router".into()"#)), 0);
    assert_eq!(count(&builder.replace("NAME", r#"format!("reader-{id}")"#)), 0);
    assert_eq!(count(&builder.replace("NAME", r#"format!("writer-{id}")"#)), 1);
    assert_eq!(count(&builder.replace("NAME", r#""x""#)), 1);
    assert_eq!(count(r#"fn f() { spawn("y", || g("z")); named("agent"); }"#), 1);
    assert_eq!(count("#[cfg(test)] mod tests { fn f() { thread::spawn(g); } }"), 0);
}

#[test]
fn channels_have_bounds() {
    keeps(rules::bounds);
    let text = "use std::sync::mpsc::{self, channel, sync_channel}; use crossbeam_channel::bounded;
        fn f() { mpsc::channel(); crossbeam_channel::unbounded::<u8>(); }
        #[cfg(test)] mod tests { fn f() { mpsc::channel(); } }";
    assert_eq!(fires(rules::bounds, "src/link.rs", text), 3);
}

#[test]
fn the_architecture_is_told_in_its_order() {
    none(house::out_of_order(&house::architecture()));

    let told = |sections: &[&str]| {
        let sections: Vec<_> = sections.iter().map(|name| format!("## {name}\n")).collect();
        let map = "| `src/cli/` | x |\n";
        let text = sections.concat().replace("## Code map\n", &format!("## Code map\n{map}"));
        house::out_of_order(&format!("{text}```layers\ncli -\nwrap -\n```\n")).len()
    };
    let order =
        ["Picture", "Code map", "Layers", "Invariants", "Who waits for whom", "Habits", "Glossary"];
    assert_eq!(told(&order), 1, "the code map leaves out `wrap`");
    let mut other = order;
    other.swap(3, 4);
    assert_eq!(told(&other), 2);
}

#[test]
fn pure_layers_know_no_system() {
    keeps(rules::purity);
    let text = "use std::{fs, io::Write, sync::{Arc, Mutex}, fmt}; use parking_lot::RwLock;
        fn f() { std::io::empty(); }";
    assert_eq!(fires(rules::purity, "src/router/roster.rs", text), 4);
    assert_eq!(fires(rules::purity, "src/client.rs", text), 0);
}

#[test]
fn no_function_is_over_seventy_lines() {
    keeps(rules::lengths);
    let function = |lines: usize| format!("fn f() {{{}}}", "\n".repeat(lines - 1));
    assert_eq!(fires(rules::lengths, "src/cli.rs", &function(70)), 0);
    assert_eq!(fires(rules::lengths, "tests/it/x.rs", &function(71)), 1);
}

#[test]
fn nothing_is_left_for_later() {
    keeps(rules::unfinished);
    let text = concat!(
        "fn f() { todo!(); dbg!(1); unimplemented!() }\n// FIX",
        "ME\n#[test] #[ignore] fn g() {}"
    );
    assert_eq!(fires(rules::unfinished, "platform/tests/x.rs", text), 5);
    assert_eq!(fires(rules::unfinished, "src/cli.rs", "fn ignore() { ignore(); }"), 0);
}

#[test]
fn every_file_says_first_what_is_inside() {
    keeps(rules::opening);
    assert_eq!(fires(rules::opening, "src/cli.rs", "use std::fs;"), 1);
}

#[test]
fn names_say_what_a_thing_is() {
    keeps(rules::names);
    let text = "struct FrameHandler; fn send_util() {} fn handle() {} mod commons {}";
    assert_eq!(fires(rules::names, "src/cli.rs", text), 2);
    assert_eq!(fires(rules::names, "src/cli/helpers.rs", ""), 1);
}

#[test]
fn twins_of_platform_offer_the_same() {
    let sources = house::sources();
    let twin = |unix: &Source| {
        let path = format!("{}windows.rs", unix.path.strip_suffix("unix.rs")?);
        sources.iter().find(|source| source.path == path)
    };
    none(sources.iter().filter_map(|unix| Some(rules::twins(unix, twin(unix)?))).flatten());

    let unix = "pub struct A; pub const E: u8 = 1;
        impl A { pub fn b(&self) {} pub(crate) const fn c() {} fn d() {} }";
    let same = "pub enum A {} pub(crate) const E: u8 = 2; fn d() {}
        impl A { pub(super) fn b() {} pub fn c() {} }";
    let other = "pub struct A; impl X for A { pub fn c() {} } pub fn b() {} pub static E: u8 = 1;";
    let twins = |windows| {
        rules::twins(&Source::new("x/unix.rs", unix), &Source::new("x/windows.rs", windows))
    };
    assert_eq!(twins(same).len(), 0);
    assert_eq!(twins(other).len(), 4);
}

#[test]
fn every_file_of_test_data_is_used() {
    none(rules::unused(&house::test_data(), &house::sources()));

    let source =
        Source::new("tests/it/x.rs", "fn f() { read(\"hello.json\"); check(\"claude\"); }");
    let data = ["data/hello.json", "data/claude.bytes", "data/other.json"].map(str::to_owned);
    assert_eq!(rules::unused(&data, &[source]).len(), 1);
}

#[test]
fn tests_that_are_passed_over_or_pointed_to_exist() {
    let (windows, macos) =
        (include_str!("../../ci/windows.not-shown"), include_str!("../../ci/macos.not-shown"));
    let over = windows.lines().chain(macos.lines());
    let over = over.map(|line| line.split(": ").nth(1).and_then(|row| row.split_once(' ')));
    let over = over.map(|row| row.expect("not shown: BINARY NAME: REASON").1);
    let document = include_str!("../../docs/WINDOWS.md");
    let (_, shown) = document.split_once("## What was shown").unwrap();
    let words = shown.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
    let pointed = words.filter(|word| word.contains("::") || word.matches('_').count() > 1);
    let names: Vec<_> = over.chain(pointed).collect();
    assert!(names.len() > 60, "{names:?}");
    let sources = house::sources();
    none(names.iter().filter(|name| !rules::is_test(name, &sources)));

    let source = Source::new("tests/it/grid.rs", "#[test] fn it_is_heard() {}");
    let named = |name| rules::is_test(name, std::slice::from_ref(&source));
    for name in ["grid", "grid::", "grid::it_is_heard", "grid::it_is", "it_is_heard"] {
        assert!(named(name), "{name}");
    }
    for name in ["grids", "grid::it_was", "it_was_heard", "wrap::it_is_heard"] {
        assert!(!named(name), "{name}");
    }
}
