//! Fuzzing of a CLI's transcript. Arbitrary text must give the same records however it is split,
//! must not give a record twice, and must not affect later records.

use super::{Format, Reader, Record};
use crate::agents;

const SINCE: &str = "2026-11-20T12:00:00.000Z";

/// Reads the first byte as the number of the format, the second as the cuts, and the rest as the
/// file.
pub fn run(bytes: &[u8]) {
    let Some((&[format_number, cuts], file)) = bytes.split_first_chunk() else { return };
    let formats: Vec<_> = agents::formats().collect();
    let format = formats[usize::from(format_number) % formats.len()];
    let (mut at_once, mut records) = reader(format);
    at_once.feed(file, &mut records);
    assert_eq!(in_pieces(format, file, cuts), records, "in pieces");
    let read: usize = records.iter().map(|record| record.text().len()).sum();
    // A byte that is not UTF-8 becomes U+FFFD, which has three bytes.
    assert!(read <= 3 * file.len(), "{read} bytes of {}", file.len());
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

/// Returns the records of a file that grows in pieces.
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

/// Checks that the format's example of a turn is read after the file.
fn check_next_turn(reader: &mut Reader, format: &Format, text: &str) {
    let mut records = Vec::new();
    reader.feed(format!("\n{}\n", format.turn_of(text)).as_bytes(), &mut records);
    // The file's last line may have been incomplete until now, so other records may come first.
    let at = records.len().checked_sub(2).expect("a prompt and an answer");
    assert_eq!(
        records[at..],
        [Record::Prompt(text.to_owned()), Record::Reply(text.to_owned())],
        "{format:?}"
    );
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus() {
        testkit::corpus::run("transcript", super::run);
    }
}
