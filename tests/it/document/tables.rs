//! The tables in the documents that are made from the code and its comments, between
//! `<!-- NAME: begin -->` and `<!-- NAME: end -->`. `UPDATE_EXPECT=1 cargo test --test it --
//! document::tables` writes them.

use super::{
    commands::commands,
    comments::{Documented, members, texts},
    limits, read, table, ticks,
};
use client::home::Config;
use protocol::{
    code::{ErrorCode, NackCode},
    envelope::Kind,
    relay::{DeliveryState, RequestName, WaitsFor},
};
use std::{env, fs, path::Path};
use terminal::{agents, recipe::Book};

/// The command that writes the tables.
const COMMAND: &str = "UPDATE_EXPECT=1 cargo test --test it -- document::tables";

/// A table: its document in docs/, its name in the markers, and the function that makes it.
type Table = (&'static str, &'static str, fn() -> String);

const TABLES: [Table; 19] = [
    ("CONFIGURATION.md", "commands", commands),
    ("CONFIGURATION.md", "config.toml", configuration_keys),
    ("CONFIGURATION.md", "agents.toml", team_keys),
    ("CONFIGURATION.md", "environment", environment),
    ("GUIDE.md", "reasons to wait", reasons_to_wait),
    ("MACHINES.md", "bridges.toml", || settings("Bridge")),
    ("MACHINES.md", "nats.toml", || settings("Nats")),
    ("MACHINES.md", "reports of bridges", reports_of_bridges),
    ("PROTOCOL.md", "message types", message_types),
    ("PROTOCOL.md", "fatal errors", fatal_errors),
    ("PROTOCOL.md", "errors", errors),
    ("PROTOCOL.md", "nacks", nacks),
    ("RELAY-API.md", "requests", requests),
    ("RELAY-API.md", "rows of agents", || rows(&["AgentRow"])),
    ("RELAY-API.md", "rows of messages", || rows(&["MessageRow", "DeliveryProgress"])),
    ("RELAY-API.md", "states of deliveries", states_of_deliveries),
    ("RELAY-API.md", "obstacles of deliveries", obstacles_of_deliveries),
    ("WRAPPER.md", "stages of a text", stages_of_a_text),
    ("WRAPPER.md", "recipe keys", recipe_keys),
];

#[test]
fn tables_are_those_of_the_code() {
    for (document, name, make) in TABLES {
        let made = make().replace("](docs/", "](").replace(&format!("]({document}#"), "](#");
        check(document, name, &made, COMMAND);
    }
}

/// Compares a part of a document in docs/ with the generated text, or writes it. `command` is for
/// the error.
pub(crate) fn check(document: &str, name: &str, made: &str, command: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(document);
    let text = read(&path).replace('\r', "");
    let (before, old, after) = split(&text, name);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, format!("{before}{made}{after}")).unwrap();
    } else {
        let line = made.lines().find(|line| !old.lines().any(|old| old == *line));
        assert!(old == made, "{document}, {name}: run `{command}`; there is now {line:?}");
    }
}

/// A document up to a part's first marker, the part, and the rest.
fn split<'a>(text: &'a str, name: &str) -> (&'a str, &'a str, &'a str) {
    let begin = format!("<!-- {name}: begin -->\n");
    let start = text.find(&begin).unwrap_or_else(|| panic!("no {begin:?}")) + begin.len();
    let length = text[start..].find(&format!("<!-- {name}: end -->\n")).expect("it ends");
    (&text[..start], &text[start..start + length], &text[start + length..])
}

fn configuration_keys() -> String {
    let keys = members("crates/client/src/home/config.rs", "Config");
    let rows = keys.into_iter().map(|Documented { name, paragraphs, .. }| {
        // The error about a wrong value says which values are right.
        let wrong = Config::parse(Path::new("config.toml"), &format!("{name} = ''")).unwrap_err();
        let (_, values) = wrong.reason.split_once("expected ").expect("what is expected");
        let default = match &*name {
            "endpoint" => "see [Paths](#paths)".to_owned(),
            "durability" => format!("`{:?}`", Config::default().durability.as_str()),
            "title" => format!("`{}`", Config::default().title),
            "collisions" => format!("`{}`", Config::default().collisions),
            "notify" => "`\"bell\"`".to_owned(),
            "on_hangup" => "`\"detach\"`".to_owned(),
            number => limits()[number].to_string(),
        };
        let values = values.trim_start_matches("a whole number from ");
        [ticks(name), default, values.to_owned(), paragraphs[0].clone()]
    });
    table(["key", "default", "value", "meaning"], rows)
}

/// The comments of a wire type's variants, in their order, each with its variant.
fn words<T: Copy>(path: &str, item: &str, all: &[T]) -> Vec<(T, Vec<String>)> {
    let members = members(path, item);
    assert_eq!(members.len(), all.len(), "each variant of {item} has a comment");
    all.iter().copied().zip(members.into_iter().map(|member| member.paragraphs)).collect()
}

fn codes<T: Copy + AsRef<str>>(item: &str, all: &[T], is_listed: fn(T) -> bool) -> String {
    let codes = words("crates/protocol/src/code.rs", item, all);
    let codes = codes.into_iter().filter(|(code, _)| is_listed(*code));
    let rows = codes.map(|(code, paragraphs)| {
        let [when, what] = paragraphs.try_into().expect("when it is sent, and what to do");
        [ticks(code), when, what]
    });
    table(["code", "when", "what to do"], rows)
}

fn fatal_errors() -> String {
    codes("ErrorCode", ErrorCode::ALL, ErrorCode::is_fatal)
}

fn errors() -> String {
    codes("ErrorCode", ErrorCode::ALL, |code| !code.is_fatal())
}

fn nacks() -> String {
    codes("NackCode", NackCode::ALL, |_| true)
}

fn message_types() -> String {
    let kinds = words("crates/protocol/src/envelope.rs", "Kind", Kind::ALL);
    let rows = kinds.into_iter().flat_map(|(kind, paragraphs)| {
        let (meaning, sides) = paragraphs.split_first().expect("a meaning");
        let rows = sides.iter().enumerate().map(|(number, side)| {
            let (from, rest) = side.split_once(": ").expect("a side");
            let from = from.rsplit(' ').next().expect("a word");
            let (members, answers) = rest.split_once(" Answered by ").unwrap_or((rest, "none"));
            let [kind, meaning] = match number {
                0 => [ticks(kind), meaning.clone()],
                _ => [String::new(), String::new()],
            };
            let [members, answers] = [members, answers].map(|text| text.trim_end_matches('.'));
            [kind, from.to_owned(), members.to_owned(), answers.to_owned(), meaning]
        });
        rows.collect::<Vec<_>>()
    });
    table(["type", "from", "members", "answered by", "meaning"], rows)
}

fn requests() -> String {
    let requests = words("crates/protocol/src/relay.rs", "RequestName", RequestName::ALL);
    let rows = requests.into_iter().map(|(name, paragraphs)| {
        let [answer, data, who] = paragraphs.try_into().expect("answer, `data`, and who may ask");
        [ticks(name), answer, data, who]
    });
    table(["`body`", "answer", "`data`", "who may ask"], rows)
}

fn states_of_deliveries() -> String {
    words_of_rows("state", "DeliveryState", DeliveryState::ALL)
}

fn obstacles_of_deliveries() -> String {
    words_of_rows("waits_for", "WaitsFor", WaitsFor::ALL)
}

fn words_of_rows<T: Copy + AsRef<str>>(member: &str, item: &str, all: &[T]) -> String {
    let words = words("crates/protocol/src/relay.rs", item, all);
    let rows = words.into_iter().map(|(word, meaning)| [ticks(word), meaning.join(" ")]);
    table([&*ticks(member), "means"], rows)
}

/// The members of the rows of an answer. A struct that is flattened has no name there.
fn rows(structs: &[&str]) -> String {
    let fields = structs.iter().flat_map(|item| members("crates/protocol/src/relay.rs", item));
    let fields = fields.filter(|field| !field.code.iter().any(|word| word == "flatten"));
    let rows = fields.map(|field| {
        let kind = field.code.iter().find_map(|word| kind(word)).expect("a known type");
        let is_optional = field.code.iter().any(|word| word == "skip_serializing_if");
        let kind = if is_optional { format!("{kind}, optional") } else { kind.to_owned() };
        [ticks(field.name), kind, field.paragraphs.join(" ")]
    });
    table(["a row", "kind", "meaning"], rows)
}

/// The kind of JSON value that a type becomes.
fn kind(type_name: &str) -> Option<&'static str> {
    match type_name {
        "Cow" | "Proof" => Some("string"),
        "u32" | "u64" => Some("whole number"),
        "bool" => Some("boolean"),
        "RawValue" | "Reported" => Some("object"),
        _ => None,
    }
}

fn environment() -> String {
    let mut variables = texts("AGENT_RELAY_");
    variables.sort();
    let rows = variables.into_iter().map(|(name, meaning)| [ticks(name), meaning.join(" ")]);
    table(["variable", "means"], rows)
}

fn reasons_to_wait() -> String {
    const OBSTACLES: &str = include_str!("../../../crates/terminal/src/obstacle.rs");
    let (_, reasons) = OBSTACLES.split_once("impl fmt::Display for Obstacle {").unwrap();
    let obstacles = members("crates/terminal/src/obstacle.rs", "Obstacle");
    let rows = obstacles.into_iter().map(|Documented { name, paragraphs, .. }| {
        let (_, reason) = reasons.split_once(&format!("Self::{name} => \"")).expect("its reason");
        let (reason, _) = reason.split_once('"').expect("it ends");
        let [_, end] = paragraphs.try_into().expect("the obstacle, and what ends it");
        [reason.to_owned(), end]
    });
    table(["why it waits", "what ends that"], rows)
}

fn stages_of_a_text() -> String {
    let stages = members("crates/terminal/src/injector/delivering.rs", "Delivering").into_iter();
    let stages = stages.filter(|stage| stage.name.starts_with(char::is_uppercase));
    let rows = stages.map(|Documented { name, paragraphs, .. }| {
        [ticks(name.to_lowercase()), paragraphs.join(" ")]
    });
    table(["stage", "means"], rows)
}

fn team_keys() -> String {
    let keys = members("src/config/team.rs", "TeamAgent");
    let rows = keys.into_iter().map(|key| [ticks(key.name), key.paragraphs.join(" ")]);
    table(["key", "is"], rows)
}

fn settings(item: &str) -> String {
    let keys = members("crates/machines/src/settings.rs", item);
    let rows = keys.into_iter().map(|key| [ticks(key.name), key.paragraphs.join(" ")]);
    table(["key", "is"], rows)
}

fn reports_of_bridges() -> String {
    let fields = members("crates/machines/src/report.rs", "Report");
    let rows = fields.into_iter().map(|field| [ticks(field.name), field.paragraphs.join(" ")]);
    table(["member", "is"], rows)
}

fn recipe_keys() -> String {
    let keys = members("crates/terminal/src/recipe.rs", "Recipe");
    let unknown = Book::with("[[recipe]]\nno_key = 1").unwrap_err().reason;
    let known: Vec<_> = keys.iter().map(|key| ticks(&key.name)).collect();
    assert!(unknown.ends_with(&known.join(", ")), "each key has a comment: {unknown}");
    let rows = keys.into_iter().map(|Documented { name, paragraphs, .. }| {
        let mut meaning = paragraphs.join(" ");
        if name == "transcript" {
            let formats: Vec<_> = agents::formats().map(|format| ticks(format.name)).collect();
            meaning.push_str(&format!(" One of {}.", formats.join(", ")));
        }
        [ticks(name), meaning]
    });
    table(["key", "is"], rows)
}
