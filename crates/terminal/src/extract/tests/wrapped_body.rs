//! Tests of how many bodies are recovered exactly from the output of a model CLI that wraps them.

use std::fmt::Write;

use unicode_width::UnicodeWidthChar;

use crate::extract::*;

/// Returns the output of a CLI that paints a message with this body under a bullet, wrapped at
/// `columns`.
fn painted(body: &str, columns: usize, hang_lists: bool) -> String {
    let mut rows = Vec::new();
    for line in format!("->relay:Bob <<<\n{body}>>>").lines() {
        wrap(line, columns - 2, hang_lists, &mut rows);
    }
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let lead = if index == 0 { "● " } else { "  " };
        write!(text, "{}\r\n", format!("{lead}{row}").trim_end()).unwrap();
    }
    text + "\r\n> \r\n"
}

/// Wraps a line before words that do not fit, and cuts words that are longer than a row. With
/// `hang_lists`, the other rows of a list item are indented like its text.
fn wrap(line: &str, columns: usize, hang_lists: bool, rows: &mut Vec<String>) {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let mark = line[indent..].split(' ').next().unwrap_or_default();
    let is_list = matches!(mark, "-" | "*")
        || mark.strip_suffix('.').is_some_and(|n| n.parse::<u8>().is_ok());
    let hang = if hang_lists && is_list { indent + mark.len() + 1 } else { 0 };
    let (mut row, mut width) = (" ".repeat(indent), indent);
    let mut first = true;
    for word in line[indent..].split(' ') {
        let length = columns_of(word);
        if !first && width + 1 + length > columns && width > hang {
            rows.push(std::mem::replace(&mut row, " ".repeat(hang)));
            width = hang;
        } else if !first {
            row.push(' ');
            width += 1;
        }
        first = false;
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if width + wide > columns {
                rows.push(std::mem::replace(&mut row, " ".repeat(hang)));
                width = hang;
            }
            row.push(c);
            width += wide;
        }
    }
    rows.push(row);
}

fn columns_of(text: &str) -> usize {
    text.chars().filter_map(char::width).sum()
}

/// Returns how many bodies are recovered exactly.
fn recovered(bodies: &[String], columns: usize, hang_lists: bool) -> usize {
    let is_recovered = |body: &&String| {
        let bytes = painted(body, columns, hang_lists);
        let (messages, _) = extract_recording(bytes.as_bytes(), columns, 24);
        matches!(&messages[..], [message] if message.body == **body)
    };
    bodies.iter().filter(is_recovered).count()
}

fn agent_like() -> Vec<String> {
    let bodies = include_str!("../../../data/bodies.md");
    bodies.split("%%%\n").map(|body| body.trim_end().to_owned()).collect()
}

/// Checks that at least the stated percentage of the bodies is recovered exactly at each width.
#[track_caller]
fn check(name: &str, bodies: &[String], floors: [(usize, usize); 3]) {
    for (columns, floor) in floors {
        for hang_lists in [true, false] {
            let percent = 100 * recovered(bodies, columns, hang_lists) / bodies.len();
            println!("{name}, {columns} columns, items hang {hang_lists}: {percent} % exact");
            assert!(percent >= floor, "{name}, {columns} columns: {percent} %, at least {floor}");
        }
    }
}

#[test]
fn agent_like_bodies_are_recovered() {
    let bodies = agent_like();
    assert_eq!(bodies.len(), 20);
    check("agent-like", &bodies, [(60, 90), (100, 95), (200, 100)]);
}

#[test]
fn documents_are_recovered() {
    check("documents", &documents(200), [(60, 76), (100, 91), (200, 99)]);
}

/// Returns documents like those of people and agents: with one line per paragraph, or wrapped at 72
/// or 80 columns.
fn documents(count: usize) -> Vec<String> {
    let mut writer = Writer(0x9e37_79b9_7f4a_7c15);
    (0..count).map(|_| writer.document()).collect()
}

/// A generator of documents, with its random state.
struct Writer(u64);

const WORDS: &str = "the a of and to in is that it for on with as this by be at from or an are not \
    which when where if then so but can must will has have its one two each only never once after before \
    daemon client frame message stream topic session token queue window router reader writer thread clock \
    deadline socket pipe endpoint wrapper terminal screen grid row column prompt agent mailbox recipient \
    sender envelope payload header length limit store disk commit restart crash resume replay policy rule \
    written refused acknowledged delivered queued counted bounded measured hashed dropped closed opened \
    `max_inflight` `status` `--json` `queue_max_bytes` `Router::handle` configuration synchronization \
    **always** _once_ (see below) backpressure at-least-once write-through half-open 4096 1.1 10 ms";

impl Writer {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % below
    }

    fn words(&mut self, count: usize) -> String {
        let all: Vec<&str> = WORDS.split_whitespace().collect();
        let words: Vec<&str> = (0..count).map(|_| all[self.next(all.len())]).collect();
        words.join(" ")
    }

    fn sentences(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let length = 4 + self.next(16);
            let words = self.words(length);
            let (first, rest) = words.split_at(1);
            let end = [".", ".", ".", "?", ":"][self.next(5)];
            write!(
                text,
                "{}{}{rest}{end}",
                if text.is_empty() { "" } else { " " },
                first.to_uppercase()
            )
            .unwrap();
        }
        text
    }

    /// Returns a paragraph, in one line or in lines of at most `width` columns.
    fn paragraph(&mut self, indent: &str, mark: &str, width: Option<usize>) -> String {
        let count = 1 + self.next(4);
        let text = self.sentences(count);
        let Some(width) = width else { return format!("{indent}{mark}{text}") };
        let mut rows = Vec::new();
        wrap(&format!("{indent}{mark}{text}"), width, true, &mut rows);
        rows.join("\n")
    }

    fn code(&mut self) -> String {
        let mut text = String::from("```rust\n");
        let mut depth = 0;
        for _ in 0..3 + self.next(8) {
            let (a, b) = (self.next(30), self.next(30));
            let line = match self.next(6) {
                0 => format!(
                    "let value_{a} = self.window.get(value_{b}).copied().unwrap_or_default();"
                ),
                1 => format!("if value_{a} > LIMIT_{b} {{"),
                2 => format!("// {}", self.sentences(1)),
                3 => format!(
                    "frames.push(Frame::new(id_{a}, stream_{b}, payload.clone(), Some(deadline)));"
                ),
                4 => format!("call_{a}(value_{b});"),
                _ => "}".to_owned(),
            };
            depth = if line == "}" { usize::saturating_sub(depth, 1) } else { depth };
            writeln!(text, "{}{line}", "    ".repeat(depth)).unwrap();
            depth += usize::from(line.ends_with('{'));
        }
        text + "```"
    }

    fn document(&mut self) -> String {
        let width = [None, None, None, Some(72), Some(80)][self.next(5)];
        let mut parts = Vec::new();
        for _ in 0..1 + self.next(4) {
            let part = match self.next(7) {
                0..=2 => self.paragraph("", "", width),
                3 => (0..2 + self.next(3))
                    .map(|_| self.paragraph("", "- ", width))
                    .collect::<Vec<_>>()
                    .join("\n"),
                4 => (1..3 + self.next(3))
                    .map(|n| self.paragraph("", &format!("{n}. "), width))
                    .collect::<Vec<_>>()
                    .join("\n"),
                5 => format!("## {}\n\n{}", self.words(3), self.paragraph("", "", width)),
                _ => self.code(),
            };
            parts.push(part);
        }
        parts.join("\n\n")
    }
}
