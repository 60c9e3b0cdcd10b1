//! The documents compared with the code: examples, members, names, limits, links.
//!
//! `tables` makes the tables that repeat the code, `members` checks those that are written by hand,
//! `played` plays the examples of docs/PROTOCOL.md, docs/CLIENTS.md and docs/RELAY-API.md against a
//! daemon, `states` compares diagrams with the code's states, `named_tests` is about tests that
//! documents name, `architecture` about ARCHITECTURE.md, and `wrapper` about docs/WRAPPER.md
//! and docs/AGENTS.md.

mod architecture;
mod commands;
mod comments;
mod members;
mod named_tests;
mod played;
mod states;
pub(crate) mod tables;
mod wrapper;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use client::home::Config;
use protocol::{
    channel::CHANNELS_MAX,
    code::{ErrorCode, NackCode},
    control::{ANSWER_BYTES_MAX, Answer, REQUEST_BYTES_MAX, Request},
    deliver,
    envelope::{DEPTH_MAX, Envelope, ID_BYTES_MAX, Kind},
    frame::{Decoder, FRAME_BYTES_MAX},
    name::{HOST_BYTES_MAX, LOCAL_NAME_BYTES_MAX, RELAY, RESERVED},
    payload::{
        Ack, Busy, Bye, CORRELATION_ID_BYTES_MAX, Capabilities, Empty, ErrorPayload, Heartbeat,
        Hello, MessagePayload, Nack, Resume, SendMeta, Sync, SyncInfo, THREAD_BYTES_MAX, Welcome,
    },
    relay::{
        ActivityRequest, Agents, Change, ForgetRequest, HistoryRequest, InboxRequest,
        MessageRequest, MessageRow, Messages, Page, Piece, Process, PurgeRequest, Purged,
        RedeliverRequest, Redelivered, RenameRequest, ReplyMeta, ReportRequest, Status, Stop,
        TakeRequest, Taken, Tap, TapCopy,
    },
    topic::{Pattern, TOPIC_BYTES_MAX},
};
use router::Limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use terminal::agents::AGENTS;

const PROTOCOL: &str = include_str!("../../docs/PROTOCOL.md");
const CLIENTS: &str = include_str!("../../docs/CLIENTS.md");
const RELAY_API: &str = include_str!("../../docs/RELAY-API.md");
const WRAPPER: &str = include_str!("../../docs/WRAPPER.md");
const INSTALLER: &str = include_str!("../../package/agent-relay.wxs");
const CONFIGURATION: &str = include_str!("../../docs/CONFIGURATION.md");

#[test]
fn installer_contains_every_document() {
    let listed: BTreeSet<_> = INSTALLER
        .split('"')
        .filter_map(|text| text.strip_prefix("docs/"))
        .map(str::to_owned)
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let present =
        names.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".md"));
    assert_eq!(listed, present.collect());
}

#[test]
fn examples_are_envelopes_of_every_type() {
    let mut shown = BTreeSet::new();
    for example in examples() {
        let envelope = Envelope::read(example.as_bytes())
            .unwrap_or_else(|violation| panic!("{violation}\n{example}"));
        check_payload(&envelope);
        shown.insert(envelope.kind.as_str());
    }
    let all: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(shown, all, "each type has an example");
}

#[test]
fn examples_of_answers_have_every_member() {
    for body in ["status", "agents", "redeliver", "purge"] {
        let example = examples()
            .into_iter()
            .map(|example| serde_json::from_str::<Value>(&example).unwrap())
            .find(|example| example["from"] == RELAY && example["payload"]["body"] == body)
            .unwrap_or_else(|| panic!("{body} has an answer"));
        let data = example["payload"]["data"].to_string();
        let written = match body {
            "status" => written_again::<Status<'_>>(&data),
            "redeliver" => written_again::<Redelivered>(&data),
            "purge" => written_again::<Purged>(&data),
            _ => written_again::<Agents<'_>>(&data),
        };
        let example: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(example, written, "{body}");
        if let Some(daemon) = example.get("daemon") {
            assert_eq!(*daemon, written_again::<Process<'_>>(&daemon.to_string()));
        }
    }
}

/// Checks that the table of message types has, for each type and sender, all members that the
/// examples have.
#[test]
fn message_type_table_has_every_member() {
    let mut members: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    let mut kind = "";
    for row in rows(part(PROTOCOL, "## ", "Message types")) {
        kind = ticked(row[0]).first().copied().unwrap_or(kind);
        let (before, payload) = row[2].split_once("payload:").unwrap_or((row[2], ""));
        let names = ticked(before).into_iter().chain(ticked(payload)).map(first_of_path).collect();
        let is_new = members.insert((kind.to_owned(), row[1].to_owned()), names).is_none();
        assert!(is_new, "{kind} has two rows");
    }
    for example in examples() {
        let envelope: Value = serde_json::from_str(&example).unwrap();
        let kind = envelope["type"].as_str().unwrap().to_owned();
        // Ids that a daemon makes are UUIDs; those of clients in the examples are not.
        let sender = if envelope["id"].as_str().unwrap().len() == 36 { "daemon" } else { "client" };
        let listed = |sender: &str| members.get(&(kind.clone(), sender.to_owned()));
        let listed = listed(sender).or_else(|| listed("both")).expect("a row for this sender");
        let has = |name: &String| listed.contains(name.as_str());
        let common = ["v", "type", "id", "ts", "payload"];
        let outer = envelope.as_object().unwrap().keys();
        assert!(outer.filter(|name| !common.contains(&&***name)).all(has), "{example}");
        if kind != "DELIVER" {
            assert!(envelope["payload"].as_object().unwrap().keys().all(has), "{example}");
        }
    }
}

/// Returns the first segment of a path: `session` for `session.resume_token`.
fn first_of_path(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

#[test]
fn commands_in_the_readme_exist() {
    let readme = include_str!("../../README.md");
    let shown: Vec<_> =
        rows(part(readme, "## ", "Commands")).map(|row| ticked(row[0])[0]).collect();
    assert!(!shown.is_empty());
    for line in shown {
        let command = line.split(' ').nth(1).expect("a command");
        let is_agent = AGENTS.iter().any(|agent| agent.name == command);
        let listed = format!("\n| `agent-relay {command}");
        assert!(is_agent || CONFIGURATION.contains(&listed), "{line}");
    }
}

/// Checks that the contents list each numbered section in order, and that each section named by its
/// number exists.
#[test]
fn contents_and_section_numbers_match_headings() {
    let sections: Vec<_> = headings(PROTOCOL)
        .filter(|(level, text)| *level == 2 && text.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    let (_, contents) = PROTOCOL.split_once("\nContents: ").expect("there are contents");
    let (contents, _) = contents.split_once("\n\n").unwrap();
    let listed: Vec<_> =
        contents.split(" ·").map(|link| link.trim().trim_start_matches('[')).collect();
    assert_eq!(listed.len(), sections.len(), "{listed:?}");
    for (number, (link, (_, heading))) in (1..).zip(listed.iter().zip(&sections)) {
        let begins = format!("{number} ");
        assert!(link.starts_with(&begins) && heading.starts_with(&begins), "{link}: {heading}");
        assert!(link.ends_with(&format!("](#{})", anchor(heading))), "{link}: {heading}");
    }
    for rest in PROTOCOL.split("section ").skip(1) {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<usize>() else { continue };
        assert!((1..=sections.len()).contains(&number), "there is no section {number}");
    }
}

/// Checks that every relative link of a document leads to a file of the repository, and to a
/// heading of this file.
#[test]
fn links_lead_to_files_and_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documents = documents();
    assert!(documents.len() > 8, "{documents:?}");
    for document in documents {
        let text = read(&document);
        let outside: String = text.split("```").step_by(2).collect();
        for link in outside.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let shown = document.strip_prefix(root).unwrap().display();
            if link.starts_with("http") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{shown}: there is no {file}");
            let is_there = || headings(&read(&target)).any(|(_, text)| anchor(text) == heading);
            assert!(heading.is_empty() || is_there(), "{shown}: {link} leads to no heading");
        }
    }
}

/// The Markdown files of the repository.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [root.to_owned(), root.join("docs")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A document's headings and their levels, without those in fences.
fn headings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let outside = text.split("```").step_by(2).flat_map(str::lines);
    outside.filter_map(|line| {
        let text = line.trim_start_matches('#');
        Some((line.len() - text.len(), text.strip_prefix(' ')?)).filter(|(level, _)| *level > 0)
    })
}

/// The name of a heading in a link to it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn frames_in_hex_are_the_envelopes_before_them() {
    for document in [section("3 "), client_page()] {
        let dumps = blocks(document, "hex");
        assert_eq!(dumps.len(), 1);
        check_dump(document, &dumps[0]);
    }
}

/// Checks that a dump is a frame. The document shows the frame's envelope with its length.
fn check_dump(document: &str, dump: &str) {
    let bytes: Vec<u8> = dump
        .split_whitespace()
        .map(|digits| u8::from_str_radix(digits, 16).expect("two hex digits"))
        .collect();
    let mut decoder = Decoder::new(FRAME_BYTES_MAX);
    decoder.space()[..bytes.len()].copy_from_slice(&bytes);
    decoder.filled(bytes.len());
    let batch = decoder.batch().unwrap().expect("a whole frame");
    let frames: Vec<_> = batch.frames().collect();
    assert_eq!((frames.len(), decoder.pending()), (1, 0));
    let json = std::str::from_utf8(frames[0]).unwrap();
    assert!(Envelope::read(frames[0]).is_ok());
    assert!(document.contains(&format!("`{json}` has {} bytes", json.len())), "{json}");
}

#[test]
fn control_frames_of_a_wrapper_are_those_of_the_code() {
    let examples = blocks(WRAPPER, "control");
    assert_eq!(examples.len(), 2, "requests and answers");
    let is_written_again = |json: &str, read: Result<Vec<u8>, String>| {
        let frame = read.unwrap_or_else(|sentence| panic!("{sentence}\n{json}"));
        assert_eq!(std::str::from_utf8(&frame[4..]).unwrap(), json);
    };
    let written = |append: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = Vec::new();
        append(&mut frame);
        frame
    };
    for json in examples[0].lines() {
        let request = Request::read(json.as_bytes());
        is_written_again(json, request.map(|request| written(&|frame| request.append(frame))));
    }
    for json in examples[1].lines() {
        let answer = Answer::read(json.as_bytes());
        is_written_again(json, answer.map(|answer| written(&|frame| answer.append(frame))));
    }
    let text = part(WRAPPER, "## ", "Between a command and a wrapper");
    for limit in [REQUEST_BYTES_MAX, ANSWER_BYTES_MAX] {
        assert!(text.contains(&limit.to_string()), "{limit}");
    }
}

#[test]
fn reserved_names_are_complete() {
    for word in RESERVED {
        assert!(section("5 ").contains(&format!("`{word}`")), "{word} is reserved");
    }
}

#[test]
fn pattern_table_agrees_with_the_code() {
    let rows: Vec<_> =
        rows(part(PROTOCOL, "### ", "Topics")).filter(|row| row.len() == 3).collect();
    assert!(rows.len() >= 5, "{rows:?}");
    for row in rows {
        let pattern = Pattern::parse(ticked(row[0])[0]).unwrap();
        for topic in ticked(row[1]) {
            assert!(pattern.matches(topic), "{} hears {topic}", pattern.as_str());
        }
        for topic in ticked(row[2]) {
            assert!(!pattern.matches(topic), "{} does not hear {topic}", pattern.as_str());
        }
    }
}

#[test]
fn limits_table_agrees_with_the_code() {
    let shown: BTreeMap<_, _> = rows(section("16 "))
        .map(|row| (row[0].replace('`', ""), row[1].parse::<u64>().expect("a number")))
        .collect();
    let real: BTreeMap<_, _> = limits().into_iter().chain(private_limits()).collect();
    assert_eq!(shown, real);
}

#[test]
fn configurable_limits_are_keys_of_the_configuration() {
    let (mut keys, defaults) = (0, Config::default());
    for row in rows(section("16 ")).filter(|row| row[3] == "yes") {
        let line = format!("{} = {}", row[0].replace('`', ""), row[1]);
        assert_eq!(Config::parse("config.toml".as_ref(), &line).unwrap(), defaults, "{line}");
        keys += 1;
    }
    assert_eq!(keys, 14);
}

/// Checks that the payload of an example fits its type and has no unknown member.
fn check_payload(envelope: &Envelope<'_>) {
    let payload = envelope.payload;
    match envelope.kind {
        Kind::Hello => check::<Hello>(payload),
        Kind::Welcome => check::<Welcome>(payload),
        Kind::Send | Kind::Deliver => check_message(envelope),
        Kind::Ack => check::<Ack<'_>>(payload),
        Kind::Nack => {
            check::<Nack>(payload);
            let nack: Nack = serde_json::from_str(payload).unwrap();
            assert!(NackCode::parse(&nack.code).is_some(), "{payload}");
        }
        Kind::Ping | Kind::Pong => check::<Heartbeat>(payload),
        Kind::Error => {
            check::<ErrorPayload>(payload);
            let fault: ErrorPayload = serde_json::from_str(payload).unwrap();
            let code = ErrorCode::parse(&fault.code).expect("a code that there is");
            assert_eq!(fault.fatal, code.is_fatal(), "{payload}");
        }
        Kind::Busy => check::<Busy>(payload),
        Kind::Resume => check::<Resume>(payload),
        Kind::Sync => check::<SyncInfo>(payload),
        Kind::Bye => check::<Bye>(payload),
        Kind::Subscribe | Kind::Unsubscribe => {
            check::<Empty>(payload);
            Pattern::parse(envelope.topic.as_deref().expect("a topic")).unwrap();
        }
    }
}

fn check_message(envelope: &Envelope<'_>) {
    check::<MessagePayload<'_>>(envelope.payload);
    if let Some(meta) = envelope.payload_meta {
        check_meta(meta);
    }
    if envelope.kind == Kind::Deliver {
        assert!(deliver::read(envelope).unwrap().sender.is_some());
        check::<deliver::Delivery<'_>>(envelope.delivery.expect("a DELIVER has `delivery`"));
    }
    let spoken: MessagePayload<'_> = serde_json::from_str(envelope.payload).unwrap();
    let data = spoken.data.map_or("{}", |data| data.get());
    let from_relay = envelope.from.as_deref() == Some(RELAY);
    match (&*spoken.kind, &*spoken.body) {
        ("request", "agents" | "dead-letters") => check::<Page>(data),
        ("request", "message") => check::<MessageRequest>(data),
        ("request", "inbox") => check::<InboxRequest>(data),
        ("request", "take") => check::<TakeRequest>(data),
        ("request", "history") => check::<HistoryRequest>(data),
        ("request", "redeliver") => check::<RedeliverRequest>(data),
        ("request", "forget") => check::<ForgetRequest>(data),
        ("request", "rename") => check::<RenameRequest>(data),
        ("request", "purge") => check::<PurgeRequest>(data),
        ("request", "report") => check::<ReportRequest>(data),
        ("request", "activity") => check::<ActivityRequest>(data),
        ("request", "stop") => check::<Stop>(data),
        ("request", "status" | "reload") => check::<Empty>(data),
        ("request" | "response", "tap") => check::<Tap>(data),
        ("response", "message") if data.contains("next_offset") => check::<Piece<'_>>(data),
        ("response", "message" | "inbox" | "history" | "dead-letters") if from_relay => {
            check::<Messages<MessageRow<'_>>>(data);
        }
        ("response", "redeliver") if from_relay => check::<Redelivered>(data),
        ("response", "take") if from_relay => check::<Taken>(data),
        ("response", "purge") if from_relay => check::<Purged>(data),
        ("response", "agents") if from_relay => check::<Agents<'_>>(data),
        ("response", "status") if from_relay => check::<Status<'_>>(data),
        ("response", "forget" | "rename" | "report" | "activity" | "reload" | "stop")
            if from_relay =>
        {
            check::<Empty>(data)
        }
        ("tap", _) if from_relay => check::<TapCopy<'_>>(data),
        ("change", _) if from_relay => check::<Change<'_>>(data),
        ("message", _) => {}
        other => panic!("an example of {other:?} wants a check of its own"),
    }
}

/// Checks the members of a `payload_meta`: the ones that the daemon reads, and `replyTo`.
fn check_meta(meta: &str) {
    if meta.contains("\"replyTo\"") {
        return check::<ReplyMeta<'_>>(meta);
    }
    serde_json::from_str::<SendMeta>(meta).unwrap();
    let members: BTreeMap<String, Value> = serde_json::from_str(meta).unwrap();
    for member in members.keys() {
        assert!(["requires_ack", "ttl_ms", "sync"].contains(&member.as_str()), "{member}");
    }
}

#[track_caller]
fn check<'a, T: Deserialize<'a> + Serialize>(json: &'a str) {
    let (example, written) = (serde_json::from_str(json).unwrap(), written_again::<T>(json));
    assert!(is_within(&example, &written), "{example}\nbecomes\n{written}");
}

#[track_caller]
fn written_again<'a, T: Deserialize<'a> + Serialize>(json: &'a str) -> Value {
    let typed: T = serde_json::from_str(json).unwrap_or_else(|why| panic!("{why}: {json}"));
    serde_json::to_value(&typed).unwrap()
}

/// Whether `whole` contains every member of `part`.
fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|other| is_within(value, other))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(a, b)| is_within(a, b))
        }
        (part, whole) => part == whole,
    }
}

/// Public limits of the code, by their names in the document.
fn limits() -> BTreeMap<String, u64> {
    let (config, limits) = (Config::default(), Limits::default());
    let pairs = [
        ("server.channels_max", CHANNELS_MAX as u64),
        ("max_frame_bytes", config.max_frame_bytes),
        ("heartbeat_ms", config.heartbeat_ms),
        ("handshake_timeout_ms", config.handshake_timeout_ms),
        ("resume_window_ms", config.resume_window_ms),
        ("default_ttl_ms", config.default_ttl_ms),
        ("remote_ttl_ms", config.remote_ttl_ms),
        ("queue_max_messages", config.queue_max_messages),
        ("queue_max_bytes", config.queue_max_bytes),
        ("replay_messages", config.replay_messages),
        ("memory_max_bytes", config.memory_max_bytes),
        ("max_clients", config.max_clients),
        ("mailbox_days", config.mailbox_days),
        ("history_days", config.history_days),
        ("store_max_bytes", config.store_max_bytes),
        ("changes before the store", limits.backlog_max as u64),
        ("known names", limits.names_max as u64),
        ("streams", limits.streams_max as u64),
        ("connections without a handshake", limits.unauthenticated_max as u64),
        ("subscriptions of a session", limits.subscriptions_max as u64),
        ("replay of a session", limits.replay_bytes_max as u64),
        ("dedup window of a name", limits.dedup_max as u64),
        ("dedup window of all names", limits.dedup_total_max as u64),
        ("unread answers", limits.answers_bytes_max as u64),
        ("waiting answers", limits.waiting_answers_bytes_max as u64),
        ("open questions", limits.questions_max as u64),
        ("timeoutMs where absent", Sync::TIMEOUT_MS),
        ("timeoutMs", Sync::TIMEOUT_MS_MAX),
        ("correlationId", CORRELATION_ID_BYTES_MAX as u64),
        ("max_inflight where absent", Capabilities::default().max_inflight),
        ("nesting", DEPTH_MAX as u64),
        ("id", ID_BYTES_MAX as u64),
        ("name", LOCAL_NAME_BYTES_MAX as u64),
        ("host", HOST_BYTES_MAX as u64),
        ("topic", TOPIC_BYTES_MAX as u64),
        ("thread", THREAD_BYTES_MAX as u64),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Private limits of the state machines, read in their sources.
fn private_limits() -> BTreeMap<String, u64> {
    const QUEUE: &str = include_str!("../../crates/router/src/requests/queue.rs");
    let pairs = [
        (
            "failures of a message",
            constant(include_str!("../../crates/router/src/mail/deliveries.rs"), "FAILURES_MAX"),
        ),
        (
            "connections that nothing is read from yet",
            constant(include_str!("../../src/daemon/turns.rs"), "WAITING_MAX"),
        ),
        (
            "shortest retry_after_ms",
            constant(include_str!("../../crates/router/src/deliver.rs"), "DELAY_MS_MIN"),
        ),
        (
            "proof of an older connection",
            constant(include_str!("../../crates/router/src/handshake.rs"), "PROBE_MS"),
        ),
        (
            "name kept after a start",
            constant(include_str!("../../crates/router/src/lifecycle.rs"), "RETURN_MS"),
        ),
        ("requests that wait", constant(QUEUE, "WAITING_MAX")),
        (
            "data of a request",
            constant(include_str!("../../crates/router/src/requests/request.rs"), "DATA_BYTES_MAX"),
        ),
        (
            "late ACKs",
            constant(include_str!("../../crates/router/src/mail/dead_letters.rs"), "LETTERS_MAX"),
        ),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).into()
}

/// The value of a constant in a source.
fn constant(source: &str, name: &str) -> u64 {
    let (_, after) = source.split_once(&format!("const {name}: ")).expect("the constant is there");
    let (_, value) = after.split_once(" = ").expect("it has a value");
    let (value, _) = value.split_once(';').expect("that ends");
    let value = value.replace('_', "");
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|why| panic!("{why}: {value}"));
    match value.split_once(" << ") {
        Some((number_of, bits)) => number(number_of) << number(bits),
        None => number(&value),
    }
}

/// The envelopes that the protocol's documents show. In a block, an empty line separates them.
fn examples() -> Vec<String> {
    let documents = [PROTOCOL, CLIENTS, RELAY_API];
    let blocks: Vec<_> = documents.iter().flat_map(|document| blocks(document, "json")).collect();
    blocks.iter().flat_map(|block| block.split("\n\n")).map(str::to_owned).collect()
}

/// The beginning of docs/CLIENTS.md, for authors of clients.
fn client_page() -> &'static str {
    let (page, _) = CLIENTS.split_once("\n## Before you write one\n").expect("the page ends");
    page
}

/// The program that the page prints.
pub(crate) fn page_program() -> String {
    blocks(client_page(), "python").join("\n")
}

#[test]
fn page_for_writers_of_clients_is_short() {
    assert!(client_page().lines().count() <= 350);
}

/// The contents of all fences in this language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let (opening, mut found) = (format!("```{language}"), Vec::new());
    let mut lines = document.lines();
    while lines.by_ref().any(|line| line == opening) {
        let inside: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        found.push(inside.join("\n"));
    }
    assert!(!found.is_empty(), "{language}");
    found
}

/// A numbered section of docs/PROTOCOL.md.
fn section(number: &str) -> &'static str {
    part(PROTOCOL, "## ", number)
}

/// The text under the heading that begins with these words, up to the next heading of the same
/// level or above.
fn part<'a>(document: &'a str, level: &str, heading: &str) -> &'a str {
    let opening = format!("\n{level}{heading}");
    let start = document.find(&opening).unwrap_or_else(|| panic!("no heading {opening:?}"));
    let text = &document[start + opening.len()..];
    let ends = ["\n## ", &format!("\n{level}")].map(|next| text.find(next).unwrap_or(text.len()));
    &text[..ends[0].min(ends[1])]
}

/// The rows of a part's tables, without the heading of each table.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines: Vec<_> = text.lines().collect();
    let is_heading =
        move |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
    text.lines()
        .enumerate()
        .filter(move |(at, line)| {
            line.starts_with('|') && !line.starts_with("|---") && !is_heading(*at)
        })
        .map(|(_, line)| line.trim_matches('|').split(" | ").map(str::trim).collect())
}

fn ticked(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// A table with this heading.
fn table<const COLUMNS: usize>(
    heading: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut table = row(&heading.map(str::to_owned));
    table.push_str(&format!("|{}\n", "---|".repeat(COLUMNS)));
    table.extend(rows.into_iter().map(|cells| row(&cells)));
    table
}

/// Puts a text into backticks.
fn ticks(text: impl AsRef<str>) -> String {
    format!("`{}`", text.as_ref())
}
