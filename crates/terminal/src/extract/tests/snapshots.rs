//! Tests of full-screen programs; their screens are snapshots of a longer text.

use super::*;
use expect_test::expect;
use std::ops::Range;

#[test]
fn full_screen_snapshot_adds_messages_after_its_overlap() {
    let paint = |live: &mut Live, bodies: &[&str]| {
        // Full-screen programs position the cursor and print no newlines.
        let mut snapshot = String::from("\x1b[H\x1b[2J");
        for (row, body) in bodies.iter().enumerate() {
            snapshot.push_str(&format!("\x1b[{};1H->relay:Bob <<< {body}>>>", row + 3));
        }
        snapshot.push_str("\x1b[24;1H> ");
        live.write(&snapshot).wait(400);
    };
    let mut live = Live::new();
    live.write("\x1b[?1049h");
    paint(&mut live, &["One"]);
    paint(&mut live, &["One", "Two"]);
    live.check(expect![[r#"
        Bob: "One"
        Bob: "Two"
    "#]]);
    // The program scrolls back and then forward again.
    paint(&mut live, &["One"]);
    paint(&mut live, &["Two"]);
    live.check_nothing();
    paint(&mut live, &["Two", "Three", "Three"]);
    live.check(expect![[r#"
        Bob: "Three"
        Bob: "Three"
    "#]]);
    paint(&mut live, &["Three", "Four"]);
    live.check(expect![[r#"
        Bob: "Four"
    "#]]);
}

/// A full-screen program with synchronized updates. It shows a headline, the end of its text, and a
/// composer.
struct Pager {
    live: Live,
    text: Vec<String>,
    headline: bool,
    composer: usize,
}

impl Pager {
    fn new() -> Self {
        let mut live = Live::new();
        live.write("\x1b[?1049h");
        Self { live, text: Vec::new(), headline: true, composer: 1 }
    }

    /// Paints the text; `below` rows of it are below the screen.
    fn paint(&mut self, below: usize) -> &mut Self {
        let height = 24 - self.composer;
        let end = self.text.len() - below;
        let from = end.saturating_sub(height);
        let mut snapshot = String::from("\x1b[?2026h\x1b[2J");
        for (row, text) in self.text[from..end].iter().enumerate() {
            let text = if row == 0 && from > 0 && self.headline { "> the question" } else { text };
            snapshot.push_str(&format!("\x1b[{};1H{text}", row + 1));
        }
        for row in height..24 {
            snapshot.push_str(&format!("\x1b[{};1H> composer", row + 1));
        }
        self.live.write(&(snapshot + "\x1b[?2026l")).wait(20);
        self
    }

    /// Adds rows to the text, `step` at a time.
    fn print(&mut self, rows: &[String], step: usize) -> &mut Self {
        for rows in rows.chunks(step) {
            self.text.extend_from_slice(rows);
            self.paint(0);
        }
        self.live.wait(400);
        self
    }
}

fn long_message(name: &str, lines: usize) -> Vec<String> {
    let lines = (0..lines).map(|n| format!("  {name} {n}"));
    [format!("• ->relay:Bob [thread:{name}] <<<")]
        .into_iter()
        .chain(lines)
        .chain(["  end>>>".to_owned()])
        .collect()
}

#[track_caller]
fn check_long(found: &[Extracted], expected: &[(&str, usize)]) {
    let found: Vec<String> =
        found.iter().map(|result| shown(std::slice::from_ref(result))).collect();
    let body = |&(name, lines): &(&str, usize)| {
        let lines: String = (0..lines).map(|n| format!("{name} {n}\\n")).collect();
        format!("Bob thread={name}: \"{lines}end\"\n")
    };
    assert_eq!(found, expected.iter().map(body).collect::<Vec<_>>());
}

#[test]
fn scrolling_snapshots_are_one_text() {
    for step in [1, 3, 7, 20] {
        for headline in [true, false] {
            let mut pager = Pager::new();
            pager.headline = headline;
            pager.print(&long_message("a", 100), step).print(&long_message("b", 3), step);
            pager.print(&long_message("c", 300), step);
            pager.live.end_turn();
            check_long(&pager.live.found, &[("a", 100), ("b", 3), ("c", 300)]);
        }
    }
}

#[test]
fn text_that_scrolls_back_is_the_same() {
    let mut pager = Pager::new();
    let (first, second) = (long_message("a", 50), long_message("b", 50));
    pager.print(&first, 4).print(&second[..30], 4);
    for composer in [5, 1, 8, 2] {
        pager.composer = composer;
        pager.paint(0).live.wait(400);
    }
    pager.paint(30).paint(45).live.wait(400);
    pager.paint(20).paint(5).paint(0).live.wait(400);
    pager.print(&second[30..], 4);
    pager.live.end_turn();
    check_long(&pager.live.found, &[("a", 50), ("b", 50)]);
}

/// Returns a message with these lines between an opening line and `end>>>`.
fn message_of(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let opener = "• ->relay:Bob <<<".to_owned();
    [opener].into_iter().chain(lines).chain(["  end>>>".to_owned()]).collect()
}

#[track_caller]
fn check_body(found: &[Extracted], text: &[String]) {
    let body: Vec<&str> =
        text[1..].iter().map(|line| line.trim().trim_end_matches(">>>")).collect();
    assert_eq!(shown(found), format!("Bob: {:?}\n", body.join("\n")));
}

#[test]
fn repeated_lines_are_matched_with_the_least_scrolling() {
    let refrain = || (0..7).map(|n| format!("  refrain {n}"));
    let verse = |numbers: Range<usize>| numbers.map(|n| format!("  verse {n}"));
    let text = message_of(refrain().chain(verse(0..40)).chain(refrain()).chain(verse(40..60)));
    let mut pager = Pager::new();
    pager.headline = false;
    // The next screen shares only the refrain with this one.
    pager.print(&text[..55], 4).print(&text[55..71], 16).print(&text[71..], 4);
    pager.live.end_turn();
    check_body(&pager.live.found, &text);
}

#[test]
fn rows_redrawn_in_place_below_a_headline_are_the_same_text() {
    let mut text = message_of((0..50).map(|n| format!("  row {n}")));
    let mut pager = Pager::new();
    pager.print(&text[..40], 4);
    // The headline covers `text[17]`. The rows from there up to `text[22]` do not change, so all
    // snapshots share them.
    for row in &mut text[22..40] {
        *row = row.replace("row", "redrawn");
    }
    pager.text = text[..40].to_vec();
    pager.paint(0).live.wait(400);
    pager.print(&text[40..], 4);
    pager.live.end_turn();
    check_body(&pager.live.found, &text);
}

#[test]
fn rows_that_scroll_off_within_an_update_are_read_in_order() {
    let mut live = Live::new();
    live.write("\x1b[?1049h\x1b[2J\x1b[H");
    for rows in long_message("a", 200).chunks(50) {
        live.write(&format!("\x1b[?2026h{}\n\x1b[?2026l", rows.join("\n"))).wait(400);
    }
    live.end_turn();
    check_long(&live.found, &[("a", 200)]);
}

#[test]
fn texts_with_the_same_beginning_are_not_joined() {
    let code = |name: &str, lines: usize| -> Vec<String> {
        let lines = (0..lines).map(|n| format!("      let {name}{n};"));
        let head = ["  Put this in:", "", "  fn main() {"].map(str::to_owned);
        let opener = format!("• ->relay:Bob [thread:{name}] <<<");
        [opener].into_iter().chain(head).chain(lines).chain(["  }>>>".to_owned()]).collect()
    };
    let mut pager = Pager::new();
    pager.print(&code("a", 60)[..30], 4);
    // The text is printed so fast that the screen never shows its middle.
    pager.text.extend(code("a", 60)[30..].to_vec());
    pager.text.extend(code("b", 40)[..18].to_vec());
    pager.paint(0).print(&code("b", 40)[18..], 4);
    pager.live.end_turn();
    for result in &pager.live.found {
        let Extracted::Message(message) = result else { continue };
        assert!(!(message.body.contains("let a") && message.body.contains("let b")), "{message:?}");
    }
}

#[test]
fn only_a_message_that_scrolls_past_the_screen_at_once_is_lost() {
    let mut pager = Pager::new();
    pager.print(&long_message("a", 10), 4).print(&long_message("b", 100), 60);
    pager.print(&long_message("c", 30), 4);
    // The program folds old turns into one row, and unfolds them again.
    let all = std::mem::take(&mut pager.text);
    pager.text = vec!["folded".to_owned()];
    pager.paint(0).live.wait(400);
    pager.text = all;
    for below in [100, 60, 40, 20, 0] {
        pager.paint(below).live.wait(400);
    }
    pager.live.end_turn();
    let bodies: Vec<String> =
        pager.live.found.iter().map(|result| shown(std::slice::from_ref(result))).collect();
    let count =
        |name: &str| bodies.iter().filter(|body| body.contains(&format!("thread={name}"))).count();
    assert_eq!((count("a"), count("c")), (1, 1), "{bodies:?}");
    assert!(count("b") <= 1, "{bodies:?}");
}

#[test]
fn rows_that_scroll_off_a_full_screen_are_read_once() {
    let mut bytes = String::from("\x1b[?1049h\x1b[2J\x1b[H");
    for n in 0..20 {
        bytes.push_str(&format!("->relay:Bob <<<\nNumber {}\nof many>>>\n", n / 2));
    }
    let mut live = Live::new();
    live.write(&bytes).write("> ").wait(400);
    assert_eq!(live.found.len(), 20, "{}", shown(&live.found));
    // The program scrolls back and forth over the messages.
    for _ in 0..10 {
        live.write("\x1b[H\x1bM->relay:Bob <<<").wait(400).write("\x1b[24;1H\n>").wait(400);
    }
    assert_eq!(live.found.len(), 20, "{}", shown(&live.found));
}

#[test]
fn rows_inserted_above_a_composer_are_read_once() {
    // The composer has a region at the bottom. Messages scroll up in a region above it.
    let mut bytes = String::from("\x1b[2J\x1b[20;1H> composer\x1b[1;19r");
    for n in 0..12 {
        bytes.push_str(&format!("\x1b[19;1H\n• ->relay:Bob <<<\n  Number {n}>>>\n"));
    }
    bytes.push_str("\x1b[r\x1b[20;1H> composer");
    let mut live = Live::new();
    live.write(&bytes).wait(400);
    assert_eq!(live.found.len(), 12, "{}", shown(&live.found));
}
