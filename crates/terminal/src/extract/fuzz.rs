//! Fuzzing of a screen and of extraction. Any output, however it is split, must cause no panic,
//! take bounded memory, and give the same messages.

use super::{Extracted, ScreenExtractor, TextExtractor, extract_recording, extracted::split};
use crate::{OutgoingMessage, oracle::is_terminal_answer, screen::Screen};
use protocol::{
    Moment,
    name::{EVERYONE, Name},
    topic,
};

/// The largest numbers of rows and columns of a screen.
const ROWS_MAX: usize = 250;
const COLUMNS_MAX: usize = 600;

/// A screen with this many bytes of unread answers answers no more queries.
const ANSWER_BYTES_MAX: usize = 1024;

/// The maximum size of a message's body, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The maximum number of pieces of a running program's output.
const PIECES_MAX: usize = 64;

/// Runs an input: the first bytes state the size, the cuts and whether the one-line form is
/// allowed, and the rest is printed.
pub fn run(bytes: &[u8]) {
    let Some((&[columns, rows, cuts, inline], printed)) = bytes.split_first_chunk() else { return };
    let (columns, rows) = (usize::from(columns), usize::from(rows % 64));
    let at_once = extract_recording(printed, columns, rows);
    for message in &at_once.0 {
        check(message);
    }
    assert_eq!(in_pieces(printed, columns, rows, cuts), at_once.0, "in pieces");
    live(printed, columns, rows, cuts, inline % 2 == 1);
    if let Ok(text) = str::from_utf8(printed) {
        let mut found = Vec::new();
        TextExtractor::new(inline % 2 == 1).read(text, &mut found);
        messages(found).iter().for_each(check);
    }
}

/// Returns the messages of a recording that is read in small pieces.
fn in_pieces(printed: &[u8], columns: usize, rows: usize, cuts: u8) -> Vec<OutgoingMessage> {
    let (mut extractor, mut found) = (ScreenExtractor::offline(columns, rows), Vec::new());
    for piece in printed.chunks(1 + usize::from(cuts % 32)) {
        extractor.feed(Moment(0), piece, &mut found);
        check_screen(extractor.screen_mut());
    }
    extractor.finish(Moment(0), &mut found);
    messages(found)
}

/// Extracts messages from a running program, with time, resizes, ends of turns, and injected
/// frames.
fn live(printed: &[u8], columns: usize, rows: usize, cuts: u8, inline: bool) {
    let (mut extractor, mut found) = (ScreenExtractor::live(columns, rows), Vec::new());
    if inline {
        extractor.allow_inline();
    }
    let mut now = Moment(0);
    // Sampling and resizing a screen are slow, so there are few of each.
    let piece_bytes = 1 + usize::from(cuts) + printed.len() / PIECES_MAX;
    for (number, piece) in (0_u64..).zip(printed.chunks(piece_bytes)) {
        now = now.plus(u64::from(piece[0]) * 7);
        match (number + u64::from(cuts)) % 8 {
            0 => {
                let size = piece.last().map_or(0, |byte| usize::from(*byte));
                extractor.resize(now, size, size / 4, &mut found);
            }
            1 => extractor.turn_over(now, &mut found),
            2 => extractor.remember_injected("7f3a9c", &String::from_utf8_lossy(piece)),
            3 => extractor.tick(now, &mut found),
            _ => {}
        }
        extractor.feed(now, piece, &mut found);
        check_screen(extractor.screen_mut());
    }
    // The extractor must stop having deadlines when there is no more output.
    let mut ticks = 0;
    while let Some(deadline) = extractor.deadline() {
        now = now.max(deadline);
        extractor.tick(now, &mut found);
        ticks += 1;
        assert!(ticks < 300, "the deadline does not advance");
    }
    extractor.finish(now, &mut found);
    messages(found).iter().for_each(check);
}

fn messages(found: Vec<Extracted>) -> Vec<OutgoingMessage> {
    let (messages, problems) = split(found);
    assert!(problems.iter().all(|problem| !problem.sentence.is_empty()));
    messages
}

/// Checks that a message can be sent.
fn check(message: &OutgoingMessage) {
    if message.to != EVERYONE {
        drop(Name::parse_any(&message.to).expect("a name"));
    } else if let Some(name) = &message.topic {
        topic::check(name).expect("a topic");
    }
    assert!(!message.body.trim().is_empty() || message.data.is_some(), "nothing is said");
    assert!(message.body.len() <= BODY_BYTES_MAX);
    for label in [&message.thread, &message.topic, &message.reply_to] {
        assert!(label.as_ref().is_none_or(|label| (1..=256).contains(&label.len())), "{message:?}");
    }
}

/// Checks the limits of a screen, and that it answers as a terminal does.
fn check_screen(screen: &mut Screen) {
    let (columns, rows) = screen.size();
    assert!((2..=COLUMNS_MAX).contains(&columns) && (1..=ROWS_MAX).contains(&rows));
    let cursor = screen.cursor();
    assert!(cursor.row < rows && cursor.column < columns);
    assert!(screen.cleanup().len() < 256);
    let answers = screen.take_answers();
    assert!(answers.len() < 2 * ANSWER_BYTES_MAX);
    assert!(is_terminal_answer(&answers), "{:?}", String::from_utf8_lossy(&answers));
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus() {
        testkit::corpus::run("screen", super::run);
    }
}
