//! Tests of the rules of extraction, with a module for each group of rules.

mod blocks_and_fences;
mod bodies;
mod final_rows;
mod injected_frames;
mod opening_lines;
mod problems;
mod recordings;
mod rejoined_rows;
mod repaints;
mod snapshots;
mod text;
mod typed_text;
mod wrapped_body;

use super::*;
use expect_test::Expect;

const CLEAR_ALL: &str = "\x1b[2J\x1b[3J\x1b[H";
const MAIL: &str = "->relay:Bob <<<\nHello\nBob>>>\n";

/// Returns the results as text, one per line.
fn shown(results: &[Extracted]) -> String {
    let mut text = String::new();
    for result in results {
        match result {
            Extracted::Message(message) => text.push_str(&shown_message(message)),
            Extracted::Problem(problem) => text.push_str(&format!("! {}", problem.sentence)),
        }
        text.push('\n');
    }
    text
}

fn shown_message(message: &OutgoingMessage) -> String {
    let mut text = message.to.clone();
    for (key, value) in [
        ("thread", &message.thread),
        ("topic", &message.topic),
        ("reply", &message.reply_to),
        ("data", &message.data),
        ("meta", &message.meta),
    ] {
        if let Some(value) = value {
            text.push_str(&format!(" {key}={value}"));
        }
    }
    if message.kind != "message" {
        text.push_str(&format!(" kind={}", message.kind));
    }
    format!("{text}: {:?}", message.body)
}

/// Checks the messages and problems in a recording of 80 columns and 24 rows.
#[track_caller]
fn check(bytes: &str, expected: Expect) {
    let mut extractor = ScreenExtractor::offline(80, 24);
    let mut found = Vec::new();
    // A terminal driver would translate the newlines.
    extractor.feed(Moment::default(), bytes.replace('\n', "\r\n").as_bytes(), &mut found);
    extractor.finish(Moment::default(), &mut found);
    expected.assert_eq(&shown(&found));
}

/// A running program, the time, and the results of extraction.
struct Live {
    extractor: ScreenExtractor,
    now: Moment,
    found: Vec<Extracted>,
}

impl Live {
    fn new() -> Self {
        Self { extractor: ScreenExtractor::live(80, 24), now: Moment(1_000), found: Vec::new() }
    }

    fn write(&mut self, bytes: &str) -> &mut Self {
        self.extractor.feed(self.now, bytes.replace('\n', "\r\n").as_bytes(), &mut self.found);
        self
    }

    /// Lets time pass, and calls the extractor at its deadlines.
    fn wait(&mut self, ms: u64) -> &mut Self {
        let end = self.now.plus(ms);
        while let Some(due) = self.extractor.deadline().filter(|&due| due <= end) {
            assert!(due > self.now || self.now == Moment(1_000), "the deadline does not advance");
            self.now = due.max(self.now);
            self.extractor.tick(self.now, &mut self.found);
        }
        self.now = end;
        self
    }

    fn resize(&mut self, columns: usize, rows: usize) -> &mut Self {
        self.extractor.resize(self.now, columns, rows, &mut self.found);
        self
    }

    fn end_turn(&mut self) -> &mut Self {
        self.extractor.turn_over(self.now, &mut self.found);
        self
    }

    fn exit(&mut self) -> &mut Self {
        self.extractor.finish(self.now, &mut self.found);
        self
    }

    /// Checks what was extracted since the last check.
    #[track_caller]
    fn check(&mut self, expected: Expect) -> &mut Self {
        expected.assert_eq(&shown(&std::mem::take(&mut self.found)));
        self
    }

    #[track_caller]
    fn check_nothing(&mut self) -> &mut Self {
        assert_eq!(shown(&std::mem::take(&mut self.found)), "");
        self
    }
}
