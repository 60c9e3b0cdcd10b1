//! Arbitrary text in a CLI's transcript gives the same records however it is cut, without
//! duplicates, and does not affect the records after it.

use agent_relay::bridge::{
    agents,
    transcript::{Format, Reader, Record},
};
use serde_json::{Value, json};

const SINCE: &str = "2026-11-20T12:00:00.000Z";
const LATER: &str = "2026-11-20T12:00:01.000Z";

/// Reads a byte as the format, another as the cuts, and the rest as the file.
pub(crate) fn run(bytes: &[u8]) {
    let Some((&[format_number, cuts], file)) = bytes.split_first_chunk() else { return };
    let formats: Vec<_> = agents::formats().collect();
    let format = formats[usize::from(format_number) % formats.len()];
    let (mut at_once, mut records) = reader(format);
    at_once.feed(file, &mut records);
    assert_eq!(in_pieces(format, file, cuts), records, "in pieces");
    let read: usize = records.iter().map(text_of).map(str::len).sum();
    assert!(read <= file.len(), "{read} bytes of {}", file.len());
    let known = records.len();
    at_once.restart();
    at_once.feed(file, &mut records);
    assert_eq!(records[known..], [], "read again");
    if let Ok(text) = str::from_utf8(&file[..file.len().min(1024)]) {
        check_next_turn(&mut at_once, format, &format!("> {text}"));
    }
}

fn reader(format: &Format) -> (Reader, Vec<Record>) {
    (Reader::new(format, SINCE.to_owned()), Vec::new())
}

/// Reads a file that grows in pieces.
fn in_pieces(format: &Format, mut file: &[u8], cuts: u8) -> Vec<Record> {
    let (mut reader, mut records) = reader(format);
    let mut state = u64::from(cuts) + 1;
    while !file.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let bytes_max = 1 + usize::from(cuts) * usize::from(cuts % 8) + file.len() / 512;
        let piece = 1 + (state >> 33) as usize % bytes_max;
        let (piece, rest) = file.split_at(piece.min(file.len()));
        reader.feed(piece, &mut records);
        file = rest;
    }
    records
}

fn text_of(record: &Record) -> &str {
    match record {
        Record::Prompt(text) | Record::Reply(text) => text,
        Record::TurnOver => "",
    }
}

/// Checks that a prompt and its reply, as the CLI writes them, are read.
fn check_next_turn(reader: &mut Reader, format: &Format, text: &str) {
    let [prompt, reply] = lines(format, text);
    let mut records = Vec::new();
    for line in [String::new(), prompt.to_string(), reply.to_string(), String::new()] {
        reader.feed(line.as_bytes(), &mut records);
        reader.feed(b"\n", &mut records);
    }
    // A line before them may have been incomplete until now.
    let at = records.len().checked_sub(2).expect("a prompt and an answer");
    assert_eq!(
        records[at..],
        [Record::Prompt(text.to_owned()), Record::Reply(text.to_owned())],
        "{format:?}"
    );
}

fn lines(format: &Format, text: &str) -> [Value; 2] {
    match format.name {
        "claude" => [
            json!({"type": "user", "timestamp": LATER, "message": {"role": "user", "content": text}}),
            json!({"type": "assistant", "timestamp": LATER, "message": {
                "role": "assistant", "content": [{"type": "text", "text": text}]}}),
        ],
        "codex" => [
            json!({"timestamp": LATER, "type": "event_msg", "payload": {"type": "item_completed",
                "item": {"type": "UserMessage", "content": [{"type": "text", "text": text}]}}}),
            json!({"timestamp": LATER, "type": "response_item", "payload": {"type": "message",
                "role": "assistant", "content": [{"type": "output_text", "text": text}]}}),
        ],
        "gemini" => [
            json!({"id": "the last prompt", "timestamp": LATER, "type": "user",
                "content": [{"text": text}]}),
            json!({"id": "the last answer", "timestamp": LATER, "type": "gemini", "content": text}),
        ],
        name => panic!("write a prompt and an answer as {name} does"),
    }
}
