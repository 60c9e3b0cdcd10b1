//! Diagrams and times in the documents, compared with the code.

use super::{PROTOCOL, WRAPPER, constant, part, rows};
use protocol::relay::{DeliveryState, WaitsFor};
use std::collections::{BTreeMap, BTreeSet};

const CLIENT: &str = include_str!("../../../crates/router/src/connections/client.rs");
const DELIVERING: &str = include_str!("../../../crates/terminal/src/injector/delivering.rs");
const MESSAGE: &str = include_str!("../../../crates/client/src/message.rs");
const SESSION: &str = include_str!("../../../crates/client/src/session.rs");
const BACKOFF: &str = include_str!("../../../crates/client/src/session/backoff.rs");

/// The states of a connection: the name in the code, as words, and the name in the document.
const STAGES: [(&str, &str); 5] = [
    ("unauthenticated", "unauthenticated"),
    ("waiting for name", "waiting for name"),
    ("member", "joined"),
    ("closing", "closing"),
    ("hung up", "hung up"),
];

#[test]
fn diagrams_have_the_states_of_the_code() {
    assert_eq!(states("As the client sees it"), variants(MESSAGE, "pub enum ConnectionState {"));
    let (code, shown): (BTreeSet<_>, BTreeSet<_>) =
        STAGES.map(|(code, shown)| (code.to_owned(), shown.to_owned())).into_iter().unzip();
    assert_eq!(variants(CLIENT, "pub(crate) enum Stage {"), code);
    assert_eq!(states("As the daemon sees it"), shown);
    assert_eq!(states("States of a delivery"), delivery_states());
    assert_eq!(states("States of a session").len(), 3);
    let stages = diagram_of(WRAPPER, "## ", "Stages of a text");
    assert_eq!(bracketed(stages), variants(DELIVERING, "pub(super) enum Delivering {"));
}

#[test]
fn arrows_of_diagrams_are_explained() {
    for heading in [
        "States of a delivery",
        "States of a session",
        "As the client sees it",
        "As the daemon sees it",
    ] {
        let numbers: BTreeSet<_> = diagram(heading)
            .lines()
            .filter(|line| !line.contains("[over]"))
            .flat_map(str::split_whitespace)
            .filter_map(|word| word.parse::<u64>().ok())
            .collect();
        let explained = rows(part(PROTOCOL, "### ", heading)).filter_map(|row| row[0].parse().ok());
        assert_eq!(numbers, explained.collect(), "{heading}");
        assert_eq!(numbers.first(), Some(&1), "{heading}");
    }
}

#[test]
fn client_times_are_those_of_the_code() {
    let shown: BTreeMap<_, _> = rows(part(PROTOCOL, "### ", "As the client sees it"))
        .filter(|row| row[0].parse::<u64>().is_err())
        .map(|row| (row[0], row[1].parse::<u64>().expect("a number")))
        .collect();
    let real = [
        ("longest local wait", "LOCAL_WAIT_MS_MAX"),
        ("attempts", "ATTEMPTS_MAX"),
        ("steady", "STEADY_MS"),
        ("wait for WELCOME", "WELCOME_MS"),
        ("wait for SYNC", "SYNC_MS"),
    ];
    let mut real: BTreeMap<_, _> = real.map(|(name, of)| (name, constant(SESSION, of))).into();
    real.insert("first wait", constant(BACKOFF, "BACKOFF_MS"));
    real.insert("longest wait", constant(BACKOFF, "BACKOFF_MS_MAX"));
    let wrap = include_str!("../../../src/wrap.rs");
    real.insert("next cycle", constant(wrap, "NEXT_CYCLE_MS"));
    assert_eq!(shown, real);
    let choosing = part(PROTOCOL, "### ", "Choosing `max_inflight`");
    let inflight = constant(wrap, "INFLIGHT_MAX");
    assert!(choosing.contains(&format!("The wrapper of this project says {inflight} ")));
    let dedup = include_str!("../../../crates/client/src/session/dedup.rs");
    assert_eq!(constant(dedup, "WINDOW"), 4_096);
    assert!(choosing.contains("remembers 4,096"));
}

#[test]
fn subscription_limits_are_those_of_the_code() {
    let topics = part(PROTOCOL, "### ", "Topics");
    let subscriptions = include_str!("../../../crates/router/src/directory/subscriptions.rs");
    let each = ["LITERAL_BYTES", "WILDCARD_BYTES"].map(|name| constant(subscriptions, name));
    let [literal, wildcard] = each;
    assert!(
        topics
            .contains(&format!("twice its length and {literal} bytes, {wildcard} with wildcards"))
    );
}

fn diagram(heading: &str) -> &'static str {
    diagram_of(PROTOCOL, "### ", heading)
}

fn diagram_of(document: &'static str, level: &str, heading: &str) -> &'static str {
    let (_, after) = part(document, level, heading).split_once("```text\n").expect("a diagram");
    after.split_once("```").expect("that ends").0
}

fn states(heading: &str) -> BTreeSet<String> {
    bracketed(diagram(heading))
}

fn bracketed(diagram: &str) -> BTreeSet<String> {
    let pieces = diagram.split('[').skip(1);
    pieces.map(|piece| piece.split_once(']').expect("a state ends").0.to_owned()).collect()
}

/// The variants of an enum in a source, as words.
fn variants(source: &str, opening: &str) -> BTreeSet<String> {
    let (_, after) = source.split_once(opening).expect("the enum is there");
    let (body, _) = after.split_once("\n}").expect("it ends");
    let variants = body.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = variants.filter(|line| line.starts_with(|first: char| first.is_uppercase()));
    variants.map(words).collect()
}

/// Converts a variant's name to words: `HungUp,` to `hung up`.
fn words(variant: &str) -> String {
    let mut words = String::new();
    for letter in variant.chars().take_while(|letter| letter.is_alphanumeric()) {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// All states, with the obstacle of a waiting delivery.
fn delivery_states() -> BTreeSet<String> {
    let states = DeliveryState::ALL.iter().filter(|state| **state != DeliveryState::Waiting);
    let waits = WaitsFor::ALL.iter().map(|obstacle| format!("waiting: {obstacle}"));
    states.map(ToString::to_string).chain(waits).collect()
}
