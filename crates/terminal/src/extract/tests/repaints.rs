//! Tests of repainted messages, which must be extracted only once.

use super::*;
use expect_test::expect;

#[test]
fn equal_text_on_other_rows_is_another_message() {
    let mut live = Live::new();
    live.write(MAIL).write("$ ").wait(400).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.write("again\n").write(MAIL).write("$ ").wait(400).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.write(&"\n".repeat(30)).wait(400).check_nothing();
    live.write(MAIL).write("$ ").wait(400).check(expect![[r#"
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
fn repaint_after_cursor_up_is_not_extracted_again() {
    let mut live = Live::new();
    live.write("thinking\n").write(MAIL).write("> \n").wait(400).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    // A status line comes and goes, so the message moves up a row and then down again.
    live.write("\x1b[5A\x1b[J").write(MAIL).write("> \n").wait(400).check_nothing();
    live.write("\x1b[4A\x1b[Ja\nb\nc\n").write(MAIL).write("> \n").wait(400).check_nothing();
    live.write(&"\n".repeat(40)).wait(400).check_nothing();
    live.write("->relay:Bob <<< More>>>\n> \n").wait(400).check(expect![[r#"
        Bob: "More"
    "#]]);
}

#[test]
fn repaint_after_a_clear_is_not_extracted_again() {
    let two = "->relay:Bob <<< One>>>\n->relay:Bob <<< Two>>>\n";
    let mut live = Live::new();
    live.write(two).write("> ").wait(400).check(expect![[r#"
        Bob: "One"
        Bob: "Two"
    "#]]);
    for _ in 0..5 {
        live.write(CLEAR_ALL).write(two).write("> ").wait(400).check_nothing();
    }
    live.write(CLEAR_ALL).write(two);
    live.write("->relay:Bob <<< Three>>>\n->relay:Bob <<< One>>>\n> ");
    live.wait(400).check(expect![[r#"
        Bob: "Three"
        Bob: "One"
    "#]]);
}

#[test]
fn repaint_may_begin_in_the_middle_of_earlier_messages() {
    let message = |n: usize| format!("->relay:Bob <<< {n}>>>\n");
    let some = |range: std::ops::Range<usize>| range.map(message).collect::<String>();
    let mut live = Live::new();
    live.write(&some(0..6)).write("> ").wait(400);
    live.found.clear();
    live.write(CLEAR_ALL).write(&some(2..5)).write("> ").wait(400).check_nothing();
    live.write(CLEAR_ALL).write(&some(3..7)).write("> ").wait(400).check(expect![[r#"
        Bob: "6"
    "#]]);
    // The repaint lacks a message.
    live.write(CLEAR_ALL).write(&some(1..2)).write(&some(3..4)).write("> ").wait(400);
    live.check_nothing();
}

#[test]
fn repaints_by_terminal_and_program_after_a_resize_are_not_extracted() {
    let message = |n: usize| format!("->relay:Bob <<<\n{}{n}>>>\n", "line\n".repeat(8));
    let mut live = Live::new();
    live.write(&(message(1) + &message(2))).write("> ").wait(400);
    // Rows scroll off when the terminal wraps them again, and the program repaints rows that it
    // still considers visible.
    for rows in [12, 24, 8, 20] {
        live.resize(40, rows).wait(50);
        live.write(&format!("\x1b[{}A\r\x1b[J", rows - 1)).write(&(message(1) + &message(2)));
        live.write("> ").wait(400);
    }
    assert_eq!(live.found.len(), 2, "{}", shown(&live.found));
    live.end_turn().write("\n").write(&message(2)).write("> ").wait(400);
    assert_eq!(live.found.len(), 3, "{}", shown(&live.found));
}

/// When the size changes, the program repaints all visible rows from the top and then prints more.
/// One of the rows is a horizontal rule as wide as the screen.
#[test]
fn repaint_of_rows_that_a_resize_scrolled_off_is_not_extracted_again() {
    let messages: String =
        ["one", "two", "three"].map(|body| format!("->relay:Bob <<<\n{body}>>>\n")).concat();
    let rows: Vec<&str> = messages.lines().chain(["def f():", "    return 1"]).collect();
    let early = |visible: usize| (0..visible).map(move |early| (visible, early));
    for (visible, early) in (4..=rows.len()).flat_map(early) {
        let height = visible + 2;
        let mut live = Live { extractor: ScreenExtractor::live(80, height), ..Live::new() };
        live.write(&rows.join("\n")).write(&format!("\n{}\n> ", "-".repeat(80))).wait(100);
        // The rule takes two rows now. The program prints more before it knows the new size.
        live.resize(60, height).write(&"\n".repeat(early)).wait(20);
        let erased = "\x1b[2K\x1b[1B".repeat(height);
        let top = rows[rows.len() - visible..].join("\n");
        live.write(&format!("\x1b[H{erased}\x1b[H{top}\n{}\n> ", "-".repeat(60))).wait(20);
        live.write(&"\n".repeat(2 * height)).wait(400);
        // Messages that only the second snapshot shows completely are extracted after the others,
        // so the results are sorted before the comparison.
        let mut found: Vec<_> = shown(&live.found).lines().map(str::to_owned).collect();
        found.sort();
        assert_eq!(found, [r#"Bob: "one""#, r#"Bob: "three""#, r#"Bob: "two""#]);
    }
}

#[test]
fn message_longer_than_the_screen_is_extracted_once() {
    let long: String = (0..200).map(|n| format!("line {n}\n")).collect();
    let mut live = Live::new();
    live.write(&format!("->relay:Bob <<<\n{long}end>>>\n\n> ")).wait(400);
    for key in ["h", "e", "l", "l", "o"] {
        live.write(key).wait(400);
    }
    live.write(&"\n".repeat(40)).wait(400);
    assert_eq!(live.found.len(), 1, "{}", shown(&live.found));
}

#[test]
fn previously_unreadable_message_does_not_make_later_ones_new() {
    let message = |n: usize| format!("->relay:Bob <<< {n}>>>\n");
    let mut live = Live::new();
    let unreadable = "->relay:Bob <<< 2\n";
    live.write(&format!("{}{unreadable}{}> ", message(1), message(3))).wait(400);
    live.found.clear();
    let all: String = (1..4).map(message).collect();
    live.write(CLEAR_ALL).write(&all).write("> ").wait(400).check(expect![[r#"
        Bob: "2"
    "#]]);
    for _ in 0..3 {
        live.write(CLEAR_ALL).write(&all).write("> ").wait(400).check_nothing();
        live.write(CLEAR_ALL).write(&all).write(&"\n".repeat(40)).wait(400).check_nothing();
    }
    live.write(CLEAR_ALL).write(&all).write(&message(2)).write("> ").wait(400);
    live.check(expect![[r#"
        Bob: "2"
    "#]]);
}

#[test]
fn message_that_was_read_in_part_is_not_extracted_again() {
    let message = |body: &str| format!("->relay:Bob <<<\n{body}>>>\n");
    let whole = "A first paragraph that says something.\n\nA second paragraph, that ends it.";
    let readings =
        [whole, "A second paragraph, that ends it.", "A first paragraph that says something."];
    for reading in readings {
        let mut live = Live::new();
        live.write(&[message("One."), message(reading), message("Two.")].concat())
            .write("> ")
            .wait(400);
        for _ in 0..3 {
            let all = [message("One."), message(whole), message("Two.")].concat();
            live.write(CLEAR_ALL).write(&all).write("> ").wait(400);
        }
        assert_eq!(live.found.len(), 3, "{}", shown(&live.found));
    }
}

#[test]
fn joined_emoji_painted_differently_are_not_extracted_again() {
    let message = |body: &str| format!("->relay:Bob <<<\n{body}>>>\n");
    let mut live = Live::new();
    let first = [message("One."), message("👩\u{200d} 👨\u{200d} 🌈👍"), message("Two.")].concat();
    live.write(&first).write("> ").wait(400);
    let again = [message("One."), message("👩\u{200d} 👨\u{200d} 🌈"), message("Two.")].concat();
    live.write(CLEAR_ALL).write(&again).write("> ").wait(400);
    assert_eq!(live.found.len(), 3, "{}", shown(&live.found));
}

#[test]
fn message_rewrapped_after_a_resize_is_not_extracted_again() {
    let words = "A paragraph, as agents write them, of more than a row. ".repeat(6);
    let message = format!("->relay:Bob <<<\n{words}\n\n| a | b |\n|---|---|\n| 1 | 2 |>>>\n");
    let wrapped = |columns: usize| -> String {
        let mut rows = vec![String::new()];
        for word in message.split_inclusive([' ', '\n']) {
            if rows.last().unwrap().len() + word.trim_end().len() > columns {
                rows.push(String::new());
            }
            rows.last_mut().unwrap().push_str(word.trim_end_matches('\n'));
            if word.ends_with('\n') {
                rows.push(String::new());
            }
        }
        rows.join("\n").replace("---", &"-".repeat(columns / 10))
    };
    let mut live = Live::new();
    live.write(&wrapped(80)).write("> ").wait(400);
    assert_eq!(live.found.len(), 1, "{}", shown(&live.found));
    for columns in [33, 120, 47, 80] {
        live.resize(columns, 24).write(CLEAR_ALL).write(&wrapped(columns)).write("> ");
        live.wait(400);
    }
    assert_eq!(live.found.len(), 1, "{}", shown(&live.found));
}

#[test]
fn long_reply_repainted_many_times_is_extracted_once() {
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
fn repaint_after_a_reset_is_not_extracted_again() {
    check(
        &format!("{MAIL}{}\x1bc{MAIL}->relay:Bob <<< New>>>\n", "\n".repeat(30)),
        expect![[r#"
        Bob: "Hello\nBob"
        Bob: "New"
    "#]],
    );
}

#[test]
fn repaint_after_a_resize_is_not_extracted_again() {
    let mut live = Live::new();
    live.write(MAIL).write("> ").wait(400).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    for columns in [60, 100, 40, 80] {
        live.resize(columns, 20).wait(400).write("\x1b[3A\r\x1b[J").write(MAIL).write("> ");
        live.wait(400).check_nothing();
    }
    live.write("\n->relay:Bob <<< More>>>\n> ").wait(400).check(expect![[r#"
        Bob: "More"
    "#]]);
}

#[test]
fn repaint_far_below_is_not_extracted_again() {
    let mut live = Live::new();
    live.write(MAIL).write(&"text\n".repeat(10)).write("Read 1 file\n").write(MAIL);
    live.write("> ").wait(400).check(expect![[r#"
        Bob: "Hello\nBob"
        Bob: "Hello\nBob"
    "#]]);
    live.write("\x1b[4A\r\x1b[J").write(&"row\n".repeat(200)).write(MAIL).write("> ");
    live.wait(400).check_nothing();
}

/// A program on 24 rows that shows a tool's output in full, or one row of it.
struct Details {
    live: Live,
    words: Vec<String>,
    /// The number of words before the tool's output.
    tool: usize,
}

impl Details {
    fn rows(&self, in_full: bool) -> Vec<String> {
        let mut rows = vec!["A program".to_owned(), String::new()];
        for (number, word) in self.words.iter().enumerate() {
            match (number == self.tool, in_full) {
                (true, true) => rows.extend((0..60).map(|row| format!("     row {row}"))),
                (true, false) => rows.push("  Read 1 file".to_owned()),
                _ => {}
            }
            let at = in_full.then_some("  at noon");
            let reply = ["", "● I tell Bob.", "  ->relay:Bob <<<", word, "", "  Done."];
            rows.extend(at.into_iter().chain(reply).map(str::to_owned));
        }
        let footer: &[&str] =
            if in_full { &["---", "in full"] } else { &["---", "> ", "---", "?"] };
        rows.extend(footer.iter().map(|&row| row.to_owned()));
        rows
    }

    /// Prints one more message over the composer, and repaints the composer below it.
    fn say(&mut self, word: &str) {
        self.words.push(format!("  {word}>>>"));
        let rows = self.rows(false);
        let last = &rows[rows.len() - 10..];
        self.live.write("\x1b[3A\r\x1b[J").write(&last.join("\n")).wait(400);
    }

    /// Shows the output in full: paints over all rows, and prints the rest below.
    fn show(&mut self) {
        let before = self.rows(false).len();
        let rows = self.rows(true).split_off(before.saturating_sub(24));
        let (over, below) = rows.split_at(rows.len().min(24));
        let over: Vec<String> = over.iter().map(|row| format!("{row}\x1b[K")).collect();
        self.live.write("\x1b[23A\r").write(&over.join("\r\x1b[1B"));
        self.live.write(&below.iter().map(|row| format!("\n{row}")).collect::<String>());
        self.live.wait(400);
    }

    /// Shows one row of the output: erases all rows, and paints the last rows of the text.
    fn hide(&mut self, pause: u64) {
        let rows = self.rows(false);
        self.live.write("\x1b[H").write(&"\x1b[2K\x1b[1B".repeat(24)).wait(pause);
        self.live.write("\x1b[H").write(&rows[rows.len() - 24..].join("\n")).wait(400);
    }
}

#[test]
fn messages_are_extracted_once_while_details_are_shown_and_hidden() {
    for (tool, pause) in [(1, 0), (3, 100), (5, 0), (6, 300), (7, 0), (8, 100), (9, 0)] {
        let mut live = Live::new();
        live.write(&"\n".repeat(20)).write("---\n> \n---\n?");
        let mut details = Details { live, words: Vec::new(), tool };
        for word in ["one", "two", "three", "four", "two", "six", "seven", "eight"] {
            details.say(word);
        }
        for word in ["nine", "two"] {
            details.live.end_turn();
            for _ in 0..3 {
                details.show();
                details.hide(pause);
            }
            details.say(word);
        }
        details.show();
        // The last message is added while the details are shown.
        details.words.push("  the end>>>".to_owned());
        details.hide(pause);
        let found = shown(&std::mem::take(&mut details.live.found));
        let bodies: Vec<&str> =
            found.lines().map(|line| line.trim_start_matches("Bob: ")).collect();
        let expected: Vec<String> =
            details.words.iter().map(|word| format!("{:?}", &word[2..word.len() - 3])).collect();
        assert_eq!(bodies, expected, "{tool}, {pause}");
    }
}

#[test]
fn same_message_in_a_later_turn_is_a_new_one() {
    let mut live = Live::new();
    live.write(MAIL).write("> ").wait(400).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.resize(100, 24).wait(400).end_turn().check_nothing();
    live.write("\n").write(MAIL).write("> ").wait(400).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
}

#[test]
fn repaint_on_the_other_screen_is_not_extracted_again() {
    let mut live = Live::new();
    live.write(MAIL).write("> ").wait(400).check(expect![[r#"
        Bob: "Hello\nBob"
    "#]]);
    live.write("\x1b[?1049h").write(MAIL).write("> ").wait(400).check_nothing();
    live.write("\n->relay:Bob <<< New>>>\n> ").wait(400).check(expect![[r#"
        Bob: "New"
    "#]]);
    live.write("\x1b[?1049l").wait(400).check_nothing();
    live.write("\n->relay:Bob <<< New>>>\n->relay:Bob <<< Newer>>>\n> ");
    live.wait(400).check(expect![[r#"
        Bob: "Newer"
    "#]]);
}
