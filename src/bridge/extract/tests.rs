//! The rules of the protocol's last section, each by name.

use expect_test::{Expect, expect};

use super::*;

/// What was found, a line each.
fn shown(found: &[Extracted]) -> String {
    let mut text = String::new();
    for one in found {
        match one {
            Extracted::Found(message) => text.push_str(&told(message)),
            Extracted::Problem(problem) => text.push_str(&format!("! {}", problem.sentence)),
        }
        text.push('\n');
    }
    text
}

fn told(message: &Message) -> String {
    let to = match &message.to {
        Target::Agent(name) => name.clone(),
        Target::Everyone => "*".to_owned(),
        Target::Topic(topic) => format!("#{topic}"),
    };
    let mut text = to;
    for (key, value) in [
        ("thread", &message.thread),
        ("topic", &message.topic),
        ("reply", &message.reply),
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

/// Bytes of a recording on 80 columns and 24 rows.
#[track_caller]
fn check(bytes: &str, expected: Expect) {
    let mut extractor = Extractor::offline(80, 24);
    let mut found = Vec::new();
    // What a terminal driver does to a program's newlines.
    extractor.feed(0, bytes.replace('\n', "\r\n").as_bytes(), &mut found);
    extractor.finish(0, &mut found);
    expected.assert_eq(&shown(&found));
}

/// A child that runs: what it writes, and the time that passes.
struct Live {
    extractor: Extractor,
    now: Moment,
    found: Vec<Extracted>,
}

impl Live {
    fn new() -> Self {
        Self { extractor: Extractor::live(80, 24), now: 1_000, found: Vec::new() }
    }

    fn writes(&mut self, bytes: &str) -> &mut Self {
        self.extractor.feed(self.now, bytes.replace('\n', "\r\n").as_bytes(), &mut self.found);
        self
    }

    /// Time passes, and the extractor is woken when it asked for it.
    fn waits(&mut self, ms: Moment) -> &mut Self {
        let end = self.now + ms;
        while let Some(due) = self.extractor.deadline().filter(|&due| due <= end) {
            assert!(due > self.now || self.now == 1_000, "woken twice for the same moment");
            self.now = due.max(self.now);
            self.extractor.tick(self.now, &mut self.found);
        }
        self.now = end;
        self
    }

    fn resizes(&mut self, columns: usize, rows: usize) -> &mut Self {
        self.extractor.resize(self.now, columns, rows, &mut self.found);
        self
    }

    fn ends_its_turn(&mut self) -> &mut Self {
        self.extractor.turn_over(self.now, &mut self.found);
        self
    }

    fn exits(&mut self) -> &mut Self {
        self.extractor.finish(self.now, &mut self.found);
        self
    }

    /// What was found since the last time.
    #[track_caller]
    fn gave(&mut self, expected: Expect) -> &mut Self {
        expected.assert_eq(&shown(&std::mem::take(&mut self.found)));
        self
    }

    #[track_caller]
    fn gave_nothing(&mut self) -> &mut Self {
        assert_eq!(shown(&std::mem::take(&mut self.found)), "");
        self
    }
}

const CLEAR_ALL: &str = "\x1b[2J\x1b[3J\x1b[H";
const MAIL: &str = "->relay:Bob <<<\nHello\nBob>>>\n";

// ---- Final rows

#[test]
fn a_row_is_final_once_it_stood_for_300_ms() {
    let mut live = Live::new();
    live.writes(MAIL).writes("$ ").waits(299).gave_nothing();
    live.waits(1).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.waits(100_000).gave_nothing();
}

#[test]
fn a_row_that_changes_is_not_final() {
    let mut live = Live::new();
    live.writes("->relay:Bob <<<\nHello\n").waits(200);
    for _ in 0..10 {
        live.writes("\x1b[A\x1b[2KHello Bob>>>\n$ \r").waits(100);
        live.writes("\x1b[A\x1b[2KHello Bo\n$ \r").waits(100);
    }
    live.gave_nothing();
    live.writes("\x1b[A\x1b[2KHello Bobby>>>\n$ ").waits(300).gave(expect![[r#"
        Bob: "Hello Bobby"
    "#]]);
}

#[test]
fn a_row_painted_again_as_it_was_has_not_changed() {
    let mut live = Live::new();
    live.writes(MAIL).writes("| working\x1b[?25l");
    for spinner in ["/", "-", "\\"] {
        live.waits(100).writes(&format!("\x1b[3A\r\x1b[J{MAIL}{spinner} working"));
    }
    live.gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
}

#[test]
fn a_row_with_the_cursor_on_it_is_not_final() {
    let mut live = Live::new();
    live.writes("->relay:Bob <<< Hello>>>\nbelow\x1b[A").waits(10_000).gave_nothing();
    live.writes("\n").waits(300).gave(expect![[r#"
        Bob: "Hello"
    "#]]);
}

#[test]
fn a_close_waits_for_text_below() {
    let mut live = Live::new();
    live.writes("->relay:Bob <<<\nshift by 2 >>>\n").waits(10_000).gave_nothing();
    live.writes("\n$ ").waits(300).gave(expect![[r#"
        Bob: "shift by 2"
    "#]]);
}

#[test]
fn a_close_waits_for_text_below_or_the_end_of_the_turn() {
    let mut live = Live::new();
    live.writes("->relay:Bob <<<\nHello>>>\n").waits(1_000).gave_nothing();
    live.ends_its_turn().gave(expect![[r#"
        Bob: "Hello"
    "#]]);
    live.waits(100_000).gave_nothing();
}

#[test]
fn what_scrolled_off_is_final_at_once() {
    let mut live = Live::new();
    live.writes(MAIL).writes(&"\n".repeat(30)).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.waits(1_000).gave_nothing();
}

#[test]
fn what_was_erased_before_it_was_final_is_not_taken() {
    let mut live = Live::new();
    live.writes(MAIL).writes("below").waits(200).writes("\x1b[2J\x1b[H$ ").waits(1_000);
    live.writes(&"\n".repeat(30)).waits(1_000).gave_nothing();
    check(&format!("{MAIL}\x1b[2J\x1b[HHello{}", "\n".repeat(30)), expect![[""]]);
    check(&format!("{MAIL}\x1b[H\x1b[J{}", "\n".repeat(30)), expect![[""]]);
    check(&format!("{MAIL}\x1b[H\x1b[5M{}", "\n".repeat(30)), expect![[""]]);
}

#[test]
fn without_a_clock_rows_are_final_when_they_scroll_off_and_at_the_end() {
    check(
        MAIL,
        expect![[r#"
        Bob: "Hello\nBob"
    "#]],
    );
    check(
        &format!("{MAIL}{}\x1b[2J", "\n".repeat(30)),
        expect![[r#"
        Bob: "Hello\nBob"
    "#]],
    );
}

#[test]
fn without_a_clock_rows_are_final_when_their_alternate_screen_is_left() {
    check(
        &format!("\x1b[?1049h{MAIL}\x1b[?1049l"),
        expect![[r#"
        Bob: "Hello\nBob"
    "#]],
    );
    check(&format!("\x1b[?1049h{MAIL}\x1b[2J\x1b[?1049l"), expect![[""]]);
    check(
        &format!("\x1b[?1049h{MAIL}"),
        expect![[r#"
        Bob: "Hello\nBob"
    "#]],
    );
}

#[test]
fn what_an_old_alternate_screen_shows_counts_as_well() {
    for mode in [47, 1047, 1049] {
        let bytes = format!("\x1b[?{mode}h{MAIL}\x1b[?{mode}l");
        let (messages, _) = extract_recording(bytes.replace('\n', "\r\n").as_bytes(), 80, 24);
        assert_eq!(messages.len(), 1, "{mode}");
    }
}

#[test]
fn a_picture_half_painted_is_not_judged() {
    let mut live = Live::new();
    live.writes("\x1b[?2026h").writes(MAIL).writes("below").waits(700).gave_nothing();
    live.writes("\x1b[2J\x1b[Hsomething else\n\x1b[?2026l").waits(10_000).gave_nothing();
    // A program that never ends its picture doesn't make the wrapper blind.
    live.writes("\x1b[?2026h").writes(MAIL).writes("below").waits(1_000).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
}

#[test]
fn the_end_of_the_child_ends_everything() {
    let mut live = Live::new();
    live.writes("->relay:Bob <<< Hello>>>").exits().gave(expect![[r#"
        Bob: "Hello"
    "#]]);
    let mut live = Live::new();
    live.writes("->relay:Bob <<<\nHello").exits().gave(expect![[r#"
        ! Not sent: the message that begins with `->relay:Bob <<<` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
    "#]]);
    let mut live = Live::new();
    live.writes("\x1b[?1049h").writes(MAIL).exits().gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
}

// ---- Repaint

#[test]
fn equal_text_on_rows_of_its_own_is_a_message_of_its_own() {
    let mut live = Live::new();
    live.writes(MAIL).writes("$ ").waits(400).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.writes("again\n").writes(MAIL).writes("$ ").waits(400).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.writes(&"\n".repeat(30)).waits(400).gave_nothing();
    live.writes(MAIL).writes("$ ").waits(400).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    check(
        &MAIL.repeat(3),
        expect![[r#"
        Bob: "Hello\nBob"
        Bob: "Hello\nBob"
        Bob: "Hello\nBob"
    "#]],
    );
}

#[test]
fn a_repaint_by_cursor_up_is_not_taken_again() {
    let mut live = Live::new();
    live.writes("thinking\n").writes(MAIL).writes("> \n").waits(400).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    // One row less above it, then one more, as a status line comes and goes.
    live.writes("\x1b[5A\x1b[J").writes(MAIL).writes("> \n").waits(400).gave_nothing();
    live.writes("\x1b[4A\x1b[Ja\nb\nc\n").writes(MAIL).writes("> \n").waits(400).gave_nothing();
    live.writes(&"\n".repeat(40)).waits(400).gave_nothing();
    live.writes("->relay:Bob <<< More>>>\n> \n").waits(400).gave(expect![[r#"
        Bob: "More"
    "#]]);
}

#[test]
fn after_a_clear_what_is_shown_again_is_old() {
    let two = "->relay:Bob <<< One>>>\n->relay:Bob <<< Two>>>\n";
    let mut live = Live::new();
    live.writes(two).writes("> ").waits(400).gave(expect![[r#"
        Bob: "One"
        Bob: "Two"
    "#]]);
    for _ in 0..5 {
        live.writes(CLEAR_ALL).writes(two).writes("> ").waits(400).gave_nothing();
    }
    live.writes(CLEAR_ALL).writes(two);
    live.writes("->relay:Bob <<< Three>>>\n->relay:Bob <<< One>>>\n> ");
    live.waits(400).gave(expect![[r#"
        Bob: "Three"
        Bob: "One"
    "#]]);
}

#[test]
fn a_repaint_may_begin_in_the_middle_of_what_was_taken() {
    let message = |n: usize| format!("->relay:Bob <<< {n}>>>\n");
    let some = |range: std::ops::Range<usize>| range.map(message).collect::<String>();
    let mut live = Live::new();
    live.writes(&some(0..6)).writes("> ").waits(400);
    live.found.clear();
    live.writes(CLEAR_ALL).writes(&some(2..5)).writes("> ").waits(400).gave_nothing();
    live.writes(CLEAR_ALL).writes(&some(3..7)).writes("> ").waits(400).gave(expect![[r#"
        Bob: "6"
    "#]]);
    // Not a run: what comes after the gap is new.
    live.writes(CLEAR_ALL).writes(&some(1..2)).writes(&some(3..4)).writes("> ").waits(400);
    live.gave(expect![[r#"
        Bob: "3"
    "#]]);
}

#[test]
fn a_long_reply_painted_again_and_again_is_taken_once() {
    let mut bytes = String::new();
    for step in 1..200 {
        bytes.push_str(CLEAR_ALL);
        for line in 0..step {
            match line % 40 {
                10 => bytes.push_str(&format!("✦ ->relay:Bob <<< Part {line}\n")),
                11 => bytes.push_str("  and its end>>>\n"),
                _ => bytes.push_str("  text\n"),
            }
        }
    }
    check(
        &bytes,
        expect![[r#"
        Bob: "Part 10\nand its end"
        Bob: "Part 50\nand its end"
        Bob: "Part 90\nand its end"
        Bob: "Part 130\nand its end"
        Bob: "Part 170\nand its end"
    "#]],
    );
}

#[test]
fn after_a_reset_what_is_shown_again_is_old() {
    check(
        &format!("{MAIL}{}\x1bc{MAIL}->relay:Bob <<< New>>>\n", "\n".repeat(30)),
        expect![[r#"
        Bob: "Hello\nBob"
        Bob: "New"
    "#]],
    );
}

#[test]
fn after_a_resize_what_is_shown_again_is_old() {
    let mut live = Live::new();
    live.writes(MAIL).writes("> ").waits(400).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    for columns in [60, 100, 40, 80] {
        live.resizes(columns, 20).waits(400).writes("\x1b[3A\r\x1b[J").writes(MAIL).writes("> ");
        live.waits(400).gave_nothing();
    }
    live.writes("\n->relay:Bob <<< More>>>\n> ").waits(400).gave(expect![[r#"
        Bob: "More"
    "#]]);
}

#[test]
fn what_is_said_again_in_a_later_turn_is_said_again() {
    let mut live = Live::new();
    live.writes(MAIL).writes("> ").waits(400).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.resizes(100, 24).waits(400).ends_its_turn().gave_nothing();
    live.writes("\n").writes(MAIL).writes("> ").waits(400).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
}

#[test]
fn after_a_change_of_screen_what_is_shown_again_is_old() {
    let mut live = Live::new();
    live.writes(MAIL).writes("> ").waits(400).gave(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.writes("\x1b[?1049h").writes(MAIL).writes("> ").waits(400).gave_nothing();
    live.writes("\n->relay:Bob <<< New>>>\n> ").waits(400).gave(expect![[r#"
        Bob: "New"
    "#]]);
    live.writes("\x1b[?1049l").waits(400).gave_nothing();
    live.writes("\n->relay:Bob <<< New>>>\n->relay:Bob <<< Newer>>>\n> ");
    live.waits(400).gave(expect![[r#"
        Bob: "Newer"
    "#]]);
}

#[test]
fn a_full_screen_picture_adds_what_follows_its_overlap() {
    let paint = |live: &mut Live, bodies: &[&str]| {
        // Absolute positions and not one newline, as full-screen programs write.
        let mut picture = String::from("\x1b[H\x1b[2J");
        for (row, body) in bodies.iter().enumerate() {
            picture.push_str(&format!("\x1b[{};1H->relay:Bob <<< {body}>>>", row + 3));
        }
        picture.push_str("\x1b[24;1H> ");
        live.writes(&picture).waits(400);
    };
    let mut live = Live::new();
    live.writes("\x1b[?1049h");
    paint(&mut live, &["One"]);
    paint(&mut live, &["One", "Two"]);
    live.gave(expect![[r#"
        Bob: "One"
        Bob: "Two"
    "#]]);
    // Scrolled back, and forward again.
    paint(&mut live, &["One"]);
    paint(&mut live, &["Two"]);
    live.gave_nothing();
    paint(&mut live, &["Two", "Three", "Three"]);
    live.gave(expect![[r#"
        Bob: "Three"
        Bob: "Three"
    "#]]);
    paint(&mut live, &["Three", "Four"]);
    live.gave(expect![[r#"
        Bob: "Four"
    "#]]);
}

#[test]
fn what_scrolls_off_a_full_screen_is_taken_once() {
    let mut bytes = String::from("\x1b[?1049h\x1b[2J\x1b[H");
    for n in 0..20 {
        bytes.push_str(&format!("->relay:Bob <<<\nNumber {}\nof many>>>\n", n / 2));
    }
    let mut live = Live::new();
    live.writes(&bytes).writes("> ").waits(400);
    assert_eq!(live.found.len(), 20, "{}", shown(&live.found));
    // A pager goes back and forth over it.
    for _ in 0..10 {
        live.writes("\x1b[H\x1bM->relay:Bob <<<").waits(400).writes("\x1b[24;1H\n>").waits(400);
    }
    assert_eq!(live.found.len(), 20, "{}", shown(&live.found));
}

#[test]
fn rows_inserted_above_a_composer_are_read_once() {
    // A viewport at the bottom; what is said scrolls up in a region above it.
    let mut bytes = String::from("\x1b[2J\x1b[20;1H> composer\x1b[1;19r");
    for n in 0..12 {
        bytes.push_str(&format!("\x1b[19;1H\n• ->relay:Bob <<<\n  Number {n}>>>\n"));
    }
    bytes.push_str("\x1b[r\x1b[20;1H> composer");
    let mut live = Live::new();
    live.writes(&bytes).waits(400);
    assert_eq!(live.found.len(), 12, "{}", shown(&live.found));
}
