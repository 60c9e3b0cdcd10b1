//! Tests of reading transcripts, for every format.

use super::{known::PARTS_MAX, reader::LINE_BYTES_MAX, *};
use crate::agents;

const SINCE: &str = "2026-11-20T12:00:00.000Z";

/// Checks the records of a file that is read in pieces of each size, and then read again.
#[track_caller]
pub(crate) fn check(format: &Format, file: &str, expected: &[&str]) {
    for piece in 1..=file.len() {
        let (mut reader, mut records) = (Reader::new(format, SINCE.to_owned()), Vec::new());
        for bytes in file.as_bytes().chunks(piece) {
            reader.feed(bytes, &mut records);
        }
        assert_eq!(lines(&records), expected, "{format:?} in pieces of {piece}");
        reader.restart();
        reader.feed(file.as_bytes(), &mut records);
        assert_eq!(lines(&records), expected, "{format:?} again");
    }
}

/// Returns records as lines of text.
fn lines(records: &[Record]) -> Vec<String> {
    let lines = records.iter().map(|record| match record {
        Record::Prompt(text) => format!("prompt {text}"),
        Record::Reply(text) => format!("reply {text}"),
        Record::TurnBegan => "begin".to_owned(),
        Record::TurnOver => "over".to_owned(),
    });
    lines.collect()
}

fn reader() -> Reader {
    Reader::new(agents::format("gemini").expect("it is listed"), SINCE.to_owned())
}

/// Returns a line of a transcript with `id` as the agent's reply.
fn reply(id: usize, timestamp: &str) -> String {
    format!(
        "{{\"id\":\"{id}\",\"timestamp\":\"{timestamp}\",\"type\":\"gemini\",\"content\":\"{id}\"}}\n"
    )
}

#[test]
fn example_of_a_turn_is_read() {
    for format in agents::formats() {
        let text = "> a \"text\"\nof two lines";
        check(
            format,
            &format.turn_of(text),
            &[&format!("prompt {text}"), &format!("reply {text}")],
        );
    }
}

#[test]
fn overlong_line_is_skipped() {
    let (mut reader, mut records) = (reader(), Vec::new());
    reader.feed(reply(1, SINCE).as_bytes(), &mut records);
    let half = vec![b'x'; LINE_BYTES_MAX / 2 + 1];
    reader.feed(&half, &mut records);
    reader.feed(&half, &mut records);
    reader.feed(b"\n", &mut records);
    reader.feed(reply(2, SINCE).as_bytes(), &mut records);
    assert_eq!(lines(&records), ["reply 1", "reply 2"]);
}

/// Returns a turn as a CLI appends it again in this format: surrounded by other members.
fn changed(format: &Format, text: &str, timestamp: &str) -> String {
    let turn = format.turn_of(text);
    let rows = turn.lines().map(|row| {
        let mut row: serde_json::Value = serde_json::from_str(row).unwrap();
        row["timestamp"] = timestamp.into();
        row["gitBranch"] = "another".into();
        format!("{row}\n")
    });
    rows.collect()
}

#[test]
fn row_appended_again_is_not_new_in_any_format() {
    for format in agents::formats() {
        let (mut reader, mut records) = (Reader::new(format, SINCE.to_owned()), Vec::new());
        let at =
            |second: usize| format!("2026-11-20T12:{:02}:{:02}.000Z", second / 60, second % 60);
        let others: String =
            (2..3000).map(|id| changed(format, &id.to_string(), &at(id))).collect();
        reader.feed(format.turn_of("one").as_bytes(), &mut records);
        for file in [&*changed(format, "one", &at(1)), &others, &changed(format, "one", &at(1))] {
            reader.feed(file.as_bytes(), &mut records);
        }
        let count = records.iter().filter(|record| record.text() == "one").count();
        assert_eq!(count, 2, "{format:?}: a prompt and a reply");
    }
}

#[test]
fn growing_row_gives_only_its_new_text() {
    let (mut reader, mut records) = (reader(), Vec::new());
    for text in ["", "one", "one", "one, two", "other", "one, two", "one, two, three"] {
        let row = reply(1, SINCE).replace("\"content\":\"1\"", &format!("\"content\":\"{text}\""));
        reader.feed(row.as_bytes(), &mut records);
    }
    assert_eq!(lines(&records), ["reply one", "reply , two", "reply , three"]);
}

/// Half of a surrogate pair, a byte that is not UTF-8, a NUL, and a part of a later version.
#[test]
fn rest_of_a_strange_row_counts() {
    let reply = |content: &str| {
        format!(
            "{{\"type\":\"assistant\",\"timestamp\":\"{SINCE}\",\"message\":{{\"content\":[{content}]}}}}\n"
        )
    };
    let strange = [
        (reply(r#"{"text":"a \ud83d b"}"#).into_bytes(), "reply a \u{fffd} b"),
        (reply(r#"{"text":"a ~ b"}"#).replace('~', "\0").into_bytes(), "reply a   b"),
        (reply(r#"{"text":{"a":1}},7,{"text":"after it"}"#).into_bytes(), "reply after it"),
        (
            reply(r#"{"text":"c ~ d"}"#)
                .bytes()
                .map(|b| if b == b'~' { 0xff } else { b })
                .collect(),
            "reply c \u{fffd} d",
        ),
    ];
    for (row, expected) in strange {
        let claude = agents::format("claude").expect("it is listed");
        let (mut reader, mut records) = (Reader::new(claude, SINCE.to_owned()), Vec::new());
        reader.feed(&row, &mut records);
        assert_eq!(lines(&records), [expected]);
    }
}

#[test]
fn rewritten_long_file_is_not_read_twice() {
    let (mut reader, mut records) = (reader(), Vec::new());
    // In each case, 100 lines have the same timestamp.
    let line = |id: usize| {
        let (second, ms) = (id / 500, id % 500 / 100);
        reply(id, &format!("2026-11-20T12:{:02}:{:02}.{ms:03}Z", second / 60, second % 60))
    };
    let count = 3 * PARTS_MAX + 250;
    let mut file: String = (0..count).map(line).collect();
    reader.feed(file.as_bytes(), &mut records);
    assert_eq!(records.len(), count);
    records.clear();
    file.push_str(&line(count));
    for expected in [vec![format!("reply {count}")], vec![]] {
        reader.restart();
        reader.feed(file.as_bytes(), &mut records);
        assert_eq!(lines(&records), expected);
        records.clear();
    }
}
