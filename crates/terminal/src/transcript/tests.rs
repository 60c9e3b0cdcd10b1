//! Tests of reading transcripts that hold for every format.

use super::{dedup::TEXTS_MAX, reader::LINE_BYTES_MAX, *};
use crate::agents;

const SINCE: &str = "2026-11-20T12:00:00.000Z";

/// Checks the records of a file that is read in pieces of every size, and then read again.
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
        Record::TurnOver => "over".to_owned(),
    });
    lines.collect()
}

fn reader() -> Reader {
    Reader::new(agents::format("gemini").expect("it is listed"), SINCE.to_owned())
}

/// Returns a line of a transcript in which the agent's reply is `id`.
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

#[test]
fn dedup_window_forgets_the_oldest_text_beyond_its_bound() {
    let mut window = DedupWindow::default();
    for id in 0..TEXTS_MAX {
        assert!(window.insert(&id.to_string(), SINCE));
    }
    assert!(!window.insert("0", SINCE));
    assert_eq!(window.forgotten(), "");
    assert!(window.insert("beyond the bound", SINCE));
    assert_eq!(window.forgotten(), SINCE);
    assert!(window.insert("0", SINCE));
}

#[test]
fn long_file_that_is_written_anew_is_not_read_twice() {
    let (mut reader, mut records) = (reader(), Vec::new());
    // In each case, 100 lines have the same timestamp.
    let line = |id: usize| {
        let (second, ms) = (id / 500, id % 500 / 100);
        reply(id, &format!("2026-11-20T12:00:{second:02}.{ms:03}Z"))
    };
    let count = TEXTS_MAX + 250;
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
