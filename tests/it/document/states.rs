//! Diagrams and times in the documents, compared with the code.

use super::{PROTOCOL, RELAY_API, constant, part, rows, ticked};
use std::collections::{BTreeMap, BTreeSet};

const ROWS: &str = include_str!("../../../crates/router/src/requests/rows.rs");
const OBSTACLES: &str = include_str!("../../../crates/router/src/mail/deliveries.rs");
const PROGRESS: &str = include_str!("../../../crates/router/src/mail/message.rs");
const CLIENT: &str = include_str!("../../../crates/router/src/connections/client.rs");
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
fn row_states_are_those_of_the_diagram() {
    let table = part(RELAY_API, "## ", "Rows of messages");
    let row = |name| rows(table).find(|row| row[0] == name).expect("a row");
    let words = |name| row(name)[2].split("; ").map(|part| ticked(part)[0]).collect::<Vec<_>>();
    let waits = words("`waits_for`").into_iter().map(|word| format!("waiting: {word}"));
    let states = words("`state`").into_iter().filter(|state| *state != "waiting");
    let shown: BTreeSet<_> = states.map(str::to_owned).chain(waits).collect();
    assert_eq!(shown, delivery_states());
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
    let waiting =
        constant(include_str!("../../../crates/router/src/journal.rs"), "SUBSCRIBING_MAX");
    assert_eq!(waiting, 2_048);
    assert!(
        topics.contains("2,048 answers to SUBSCRIBE and UNSUBSCRIBE, of all connections together")
    );
}

fn diagram(heading: &str) -> &'static str {
    let (_, after) = part(PROTOCOL, "### ", heading).split_once("```text\n").expect("a diagram");
    after.split_once("```").expect("that ends").0
}

fn states(heading: &str) -> BTreeSet<String> {
    let pieces = diagram(heading).split('[').skip(1);
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

/// The states that the request `message` can return: every quoted word in the functions that choose
/// a state.
fn delivery_states() -> BTreeSet<String> {
    let (_, rows) = ROWS.split_once("    fn delivery_state<").expect("the function is there");
    let (rows, _) = rows.split_once("    const fn unix_ms_at(").expect("the next one");
    let (_, obstacle) = OBSTACLES.split_once("    pub(crate) fn obstacle(").expect("it is there");
    let (obstacle, _) = obstacle.split_once("\n    }\n").expect("it ends");
    let quoted = |text: &'static str| text.split('"').skip(1).step_by(2);
    let (mut states, mut waits) = (BTreeSet::new(), BTreeSet::new());
    waits.extend(quoted(obstacle));
    let (_, at_recipient) =
        PROGRESS.split_once("    pub(crate) fn progress(").expect("it is there");
    let (at_recipient, _) = at_recipient.split_once("\n    }\n").expect("it ends");
    for line in rows.lines().chain(at_recipient.lines()) {
        let mut words = quoted(line);
        states.extend(words.next());
        waits.extend(words.next());
    }
    assert!(states.remove("waiting"), "{states:?}");
    let waits = waits.into_iter().map(|what| format!("waiting: {what}"));
    states.into_iter().map(str::to_owned).chain(waits).collect()
}
