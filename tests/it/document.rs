//! docs/PROTOCOL.md held against the code: its examples, types, codes, names, patterns and limits.
//!
//! In `played` its examples are said to a daemon, in `states` its diagrams are held to the code's states;
//! `wrapper` is about docs/WRAPPER.md.

mod played;
mod states;
mod wrapper;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use agent_relay::{
    config::Config,
    protocol::{
        code::{ErrorCode, NackCode},
        control::{ANSWER_BYTES_MAX, Answer, REQUEST_BYTES_MAX, Request},
        deliver,
        envelope::{DEPTH_MAX, Envelope, ID_BYTES_MAX, Kind},
        frame::{Decoder, FRAME_BYTES_MAX},
        name::{NAME_BYTES_MAX, RELAY, RESERVED},
        payload::{
            Ack, Busy, Bye, CORRELATION_ID_BYTES_MAX, Capabilities, Empty, Fault, Heartbeat, Hello,
            MessagePayload, Nack, Resume, SendMeta, Sync, SyncInfo, THREAD_BYTES_MAX, Welcome,
        },
        relay::{
            Agents, HistoryRequest, InboxRequest, MessageRequest, MessageRow, Messages, Page,
            Piece, Process, RedeliverRequest, Redelivered, ReplyMeta, ReportRequest, Status, Stop,
            TapCopy,
        },
        topic::{Pattern, TOPIC_BYTES_MAX},
    },
    router::Limits,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../docs/PROTOCOL.md");

#[test]
fn every_example_is_an_envelope_and_carries_what_its_type_carries() {
    let mut shown = BTreeSet::new();
    for example in blocks("json") {
        let envelope = Envelope::read(example.as_bytes())
            .unwrap_or_else(|violation| panic!("{violation}\n{example}"));
        check_payload(&envelope);
        shown.insert(envelope.kind.as_str());
    }
    let all: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(shown, all, "each type has an example");
}

#[test]
fn examples_of_the_daemons_answers_hold_every_member_there_is() {
    for body in ["status", "agents", "redeliver"] {
        let example = blocks("json")
            .into_iter()
            .map(|example| serde_json::from_str::<Value>(&example).unwrap())
            .find(|example| example["from"] == RELAY && example["payload"]["body"] == body)
            .unwrap_or_else(|| panic!("{body} has an answer"));
        let data = example["payload"]["data"].to_string();
        let written = match body {
            "status" => written_again::<Status<'_>>(&data),
            "redeliver" => written_again::<Redelivered>(&data),
            _ => written_again::<Agents<'_>>(&data),
        };
        let example: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(example, written, "{body}");
        if let Some(daemon) = example.get("daemon") {
            assert_eq!(*daemon, written_again::<Process<'_>>(&daemon.to_string()));
        }
    }
}

/// README.md is for people who have nothing else: it has to name all there is.
#[test]
fn the_readme_names_every_command_and_every_key() {
    let readme = include_str!("../../README.md");
    let help = Command::new(env!("CARGO_BIN_EXE_agent-relay")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let (commands, _) = commands.split_once("\n\n").unwrap();
    let commands = commands.lines().filter(|line| !line.starts_with("    "));
    let commands: Vec<_> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"send"), "{help}");
    for command in commands {
        assert!(readme.contains(&format!("| `agent-relay {command}")), "{command}");
    }
    let unknown = Config::parse(Path::new("x"), "no_key = 1").unwrap_err().reason;
    let (_, keys) = unknown.split_once("the keys are ").unwrap();
    for key in keys.split(", ") {
        assert!(readme.contains(&format!("| `{key}` | ")), "{key}");
    }
}

/// Each section stands in the contents, in its order; and wherever a link leads to, or a section is named by
/// its number, it is there.
#[test]
fn the_contents_are_the_headings_and_links_lead_to_them() {
    let sections: Vec<_> = headings().filter(|(level, _)| *level == 2).collect();
    let (_, contents) = DOCUMENT.split_once("\nContents: ").expect("there are contents");
    let (contents, _) = contents.split_once("\n\n").unwrap();
    let listed: Vec<_> =
        contents.split(" ·").map(|link| link.trim().trim_start_matches('[')).collect();
    assert_eq!(listed.len(), sections.len(), "{listed:?}");
    for (number, (link, (_, heading))) in (1..).zip(listed.iter().zip(&sections)) {
        let begins = format!("{number} ");
        assert!(link.starts_with(&begins) && heading.starts_with(&begins), "{link}: {heading}");
        assert!(link.ends_with(&format!("](#{})", anchor(heading))), "{link}: {heading}");
    }
    let anchors: BTreeSet<_> = headings().map(|(_, heading)| anchor(heading)).collect();
    let readme = include_str!("../../README.md").split("docs/PROTOCOL.md#");
    let links = DOCUMENT.split("](#").skip(1).chain(readme.skip(1));
    for link in links.map(|rest| rest.split(')').next().unwrap_or_default()) {
        assert!(anchors.contains(link), "#{link} is no heading");
    }
    for rest in DOCUMENT.split("section ").skip(1) {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let Ok(number) = rest[..digits].parse::<usize>() else { continue };
        assert!((1..=sections.len()).contains(&number), "there is no section {number}");
    }
}

/// The document's headings and their levels, but for what stands in fences.
fn headings() -> impl Iterator<Item = (usize, &'static str)> {
    let outside = DOCUMENT.split("```").step_by(2).flat_map(str::lines);
    outside.filter_map(|line| {
        let text = line.trim_start_matches('#');
        Some((line.len() - text.len(), text.strip_prefix(' ')?)).filter(|(level, _)| *level > 0)
    })
}

/// What a heading is called in a link to it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn the_frame_in_hex_is_the_envelope_beside_it() {
    let dumps = blocks("hex");
    assert_eq!(dumps.len(), 1);
    let bytes: Vec<u8> = dumps[0]
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
    assert!(section("3 ").contains(&format!("`{json}` has {} bytes", json.len())), "{json}");
}

#[test]
fn the_codes_are_those_of_the_code() {
    let of = |heading| column(part("### ", heading), 0);
    let errors = |fatal| {
        let codes = ErrorCode::ALL.iter().filter(move |code| code.is_fatal() == fatal);
        codes.map(|code| code.as_str().to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(of("ERROR, fatal"), errors(true));
    assert_eq!(of("ERROR, not fatal"), errors(false));
    let nacks = NackCode::ALL.iter().map(|code| code.as_str().to_owned());
    assert_eq!(of("NACK"), nacks.collect());
    for row in rows(section("14 ")) {
        let is_told = row.len() == 3 && row.iter().all(|cell| !cell.is_empty());
        assert!(is_told, "when it comes, and what to do: {row:?}");
    }
}

#[test]
fn the_frames_between_a_person_and_a_wrapper_are_those_of_the_code() {
    let examples = blocks("control");
    assert_eq!(examples.len(), 2, "what is asked, and what is answered");
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
        is_written_again(json, request.map(|it| written(&|frame| it.append(frame))));
    }
    for json in examples[1].lines() {
        let answer = Answer::read(json.as_bytes());
        is_written_again(json, answer.map(|it| written(&|frame| it.append(frame))));
    }
    let told = section("20 ");
    for limit in [REQUEST_BYTES_MAX, ANSWER_BYTES_MAX] {
        assert!(told.contains(&limit.to_string()), "{limit}");
    }
}

#[test]
fn types_and_reserved_names_are_complete() {
    let types = column(section("4 "), 0);
    for kind in Kind::ALL {
        assert!(types.contains(kind.as_str()), "{} stands in the table", kind.as_str());
    }
    for word in RESERVED {
        assert!(section("5 ").contains(&format!("`{word}`")), "{word} is reserved");
    }
}

#[test]
fn the_table_of_patterns_is_true() {
    let rows: Vec<_> = rows(part("### ", "Topics")).collect();
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
fn the_limits_are_those_of_the_code() {
    let told: BTreeMap<_, _> = rows(section("16 "))
        .map(|row| (row[0].replace('`', ""), row[1].parse::<u64>().expect("a number")))
        .collect();
    let real: BTreeMap<_, _> = limits().into_iter().chain(private_limits()).collect();
    assert_eq!(told, real);
}

#[test]
fn what_the_table_says_can_be_configured_can_be() {
    let (mut keys, defaults) = (0, Config::default());
    for row in rows(section("16 ")).filter(|row| row[3] == "yes") {
        let line = format!("{} = {}", row[0].replace('`', ""), row[1]);
        assert_eq!(Config::parse("config.toml".as_ref(), &line).unwrap(), defaults, "{line}");
        keys += 1;
    }
    assert_eq!(keys, 13);
}

/// Types what an example carries; a member that the type doesn't know is a mistake in the example.
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
            check::<Fault>(payload);
            let fault: Fault = serde_json::from_str(payload).unwrap();
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
        ("request", "history") => check::<HistoryRequest>(data),
        ("request", "redeliver") => check::<RedeliverRequest>(data),
        ("request", "report") => check::<ReportRequest>(data),
        ("request", "stop") => check::<Stop>(data),
        ("request", "status" | "tap" | "reload") => check::<Empty>(data),
        ("response", "message") if data.contains("next_offset") => check::<Piece<'_>>(data),
        ("response", "message" | "inbox" | "history" | "dead-letters") if from_relay => {
            check::<Messages<MessageRow<'_>>>(data);
        }
        ("response", "redeliver") if from_relay => check::<Redelivered>(data),
        ("response", "agents") if from_relay => check::<Agents<'_>>(data),
        ("response", "status") if from_relay => check::<Status<'_>>(data),
        ("response", "report" | "tap" | "reload" | "stop") if from_relay => check::<Empty>(data),
        ("tap", _) if from_relay => check::<TapCopy<'_>>(data),
        ("message", _) => {}
        other => panic!("an example of {other:?} wants a check of its own"),
    }
}

/// The daemon reads some members of a `payload_meta`; the document names one more.
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

/// Whether everything that `part` says stands in `whole`.
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

/// Every limit that the code has in a place where it can be seen, by its name in the document.
fn limits() -> BTreeMap<String, u64> {
    let (config, limits) = (Config::default(), Limits::default());
    let pairs = [
        ("max_frame_bytes", config.max_frame_bytes),
        ("heartbeat_ms", config.heartbeat_ms),
        ("handshake_timeout_ms", config.handshake_timeout_ms),
        ("resume_window_ms", config.resume_window_ms),
        ("default_ttl_ms", config.default_ttl_ms),
        ("queue_max_messages", config.queue_max_messages),
        ("queue_max_bytes", config.queue_max_bytes),
        ("replay_messages", config.replay_messages),
        ("memory_max_bytes", config.memory_max_bytes),
        ("max_clients", config.max_clients),
        ("mailbox_days", config.mailbox_days),
        ("history_days", config.history_days),
        ("store_max_bytes", config.store_max_bytes),
        ("changes before the store", limits.backlog_max),
        ("known names", limits.names_max as u64),
        ("streams", limits.streams_max as u64),
        ("connections without a handshake", limits.strangers_max as u64),
        ("subscriptions of a session", limits.subscriptions_max as u64),
        ("replay of a session", limits.replay_bytes_max as u64),
        ("remembered SENDs of a name", limits.doubles_max as u64),
        ("remembered SENDs of all names", limits.doubles_total_max as u64),
        ("unread answers", limits.answers_bytes_max as u64),
        ("waiting answers", limits.waiting_answers_bytes_max as u64),
        ("open questions", limits.questions_max as u64),
        ("timeoutMs where absent", Sync::TIMEOUT_MS),
        ("timeoutMs", Sync::TIMEOUT_MS_MAX),
        ("correlationId", CORRELATION_ID_BYTES_MAX as u64),
        ("max_inflight where absent", Capabilities::default().max_inflight),
        ("nesting", DEPTH_MAX as u64),
        ("id", ID_BYTES_MAX as u64),
        ("name", NAME_BYTES_MAX as u64),
        ("topic", TOPIC_BYTES_MAX as u64),
        ("thread", THREAD_BYTES_MAX as u64),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Those that the machines keep to themselves, out of their sources.
fn private_limits() -> BTreeMap<String, u64> {
    const DESK: &str = include_str!("../../src/router/relay/desk.rs");
    const LEDGER: &str = include_str!("../../src/router/ledger.rs");
    const MESSAGE: &str = include_str!("../../src/router/message.rs");
    let pairs = [
        ("failures of a message", constant(MESSAGE, "FAILURES_MAX")),
        ("shortest retry_after_ms", constant(MESSAGE, "REST_MS_MIN")),
        (
            "proof of an older connection",
            constant(include_str!("../../src/router/heartbeat.rs"), "CONTEST_MS"),
        ),
        ("requests that wait", constant(DESK, "WAITING_MAX")),
        (
            "data of a request",
            constant(include_str!("../../src/router/relay/asked.rs"), "DATA_BYTES_MAX"),
        ),
        ("answers to SUBSCRIBE before the store", constant(LEDGER, "SUBSCRIBING_MAX")),
        ("SENDs that came again before the store", constant(LEDGER, "REPEATING_MAX")),
        ("late ACKs", constant(include_str!("../../src/router/dead.rs"), "LETTERS_MAX")),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).into()
}

/// A number's value where a source gives it a name.
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

/// The contents of all fences in this language.
fn blocks(language: &str) -> Vec<String> {
    let (opening, mut found) = (format!("```{language}"), Vec::new());
    let mut lines = DOCUMENT.lines();
    while lines.by_ref().any(|line| line == opening) {
        let inside: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        found.push(inside.join("\n"));
    }
    assert!(!found.is_empty(), "{language}");
    found
}

/// A numbered section.
fn section(number: &str) -> &'static str {
    part("## ", number)
}

/// What stands under the heading that begins like this, up to the next heading of its level or above.
fn part(level: &str, heading: &str) -> &'static str {
    let opening = format!("\n{level}{heading}");
    let start = DOCUMENT.find(&opening).unwrap_or_else(|| panic!("no heading {opening:?}"));
    let text = &DOCUMENT[start + opening.len()..];
    let ends = ["\n## ", &format!("\n{level}")].map(|next| text.find(next).unwrap_or(text.len()));
    &text[..ends[0].min(ends[1])]
}

/// The rows of a part's tables, their headings left out.
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

/// What stands in backticks in one column of a part's tables.
fn column(text: &str, number: usize) -> BTreeSet<String> {
    rows(text).flat_map(|row| ticked(row[number])).map(str::to_owned).collect()
}

fn ticked(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
