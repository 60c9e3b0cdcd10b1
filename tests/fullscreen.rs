//! A program that paints its screen as agents' CLIs do: a stand-in for them in the tests.
//!
//! Text is typed or pasted into a composer in the last rows. The program breaks lines itself, with
//! a bullet and a hanging indent, and repaints the visible rows with cursor movements in
//! synchronized updates. With `--alternate` it uses the alternate screen and repaints all of it;
//! otherwise rows that have scrolled away stay in the terminal.
//!
//! Commands:
//! - `say NAME TEXT` sends TEXT to NAME; `ask NAME TEXT` adds a code fence and a list.
//! - `read FILE` prints a file.
//! - `menu` asks until 1 or 2 is pressed.
//! - `quit` ends the program.
//!
//! A message in a frame of the relay is answered with its text in lower case.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]

use platform::tty::{self, RawMode, Size};
use std::{
    env, fs,
    io::{self, Read, Write},
    thread,
    time::Duration,
};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The interval between two repaints of a growing reply.
const REPAINT_INTERVAL: Duration = Duration::from_millis(15);

/// The minimum growth of a reply per repaint, in characters, and the maximum number of repaints of
/// a reply.
const STEP_MIN: usize = 40;
const REPAINTS_MAX: usize = 40;

fn main() -> io::Result<()> {
    let alternate = env::args().any(|argument| argument == "--alternate");
    let _raw = RawMode::enter()?;
    let mut program = Program::new(alternate);
    program.begin()?;
    let mut keys = Keys::default();
    let mut buffer = [0; 4096];
    loop {
        let count = io::stdin().read(&mut buffer)?;
        for &byte in &buffer[..count] {
            if let Some(key) = keys.next(byte)
                && !program.press(key)?
            {
                return program.end();
            }
        }
        if count == 0 {
            return program.end();
        }
        program.paint()?;
    }
}

/// A key or a byte of text.
enum Key {
    Text(u8),
    Enter,
    Erase,
}

/// A parser of input that distinguishes Enter from a line end in a paste.
#[derive(Default)]
struct Keys {
    /// The bytes of an incomplete escape sequence, without the escape.
    sequence: Option<Vec<u8>>,
    pasting: bool,
}

impl Keys {
    fn next(&mut self, byte: u8) -> Option<Key> {
        if let Some(sequence) = &mut self.sequence {
            sequence.push(byte);
            if sequence.len() > 1 && byte.is_ascii_alphabetic() || byte == b'~' {
                self.pasting = match sequence.as_slice() {
                    b"[200~" => true,
                    b"[201~" => false,
                    _ => self.pasting,
                };
                self.sequence = None;
            }
            return None;
        }
        match byte {
            0x1b => {
                self.sequence = Some(Vec::new());
                None
            }
            b'\r' if !self.pasting => Some(Key::Enter),
            b'\r' => Some(Key::Text(b'\n')),
            0x7f => Some(Key::Erase),
            byte => Some(Key::Text(byte)),
        }
    }
}

struct Program {
    alternate: bool,
    size: Size,
    /// The rows of the finished paragraphs.
    rows: Vec<String>,
    /// The number of rows that have scrolled away and cannot be repainted.
    scrolled_away: usize,
    /// The visible part of a growing reply.
    reply: String,
    input: Vec<u8>,
    menu: bool,
    /// The number of rows that the next repaint replaces.
    painted: usize,
    out: Vec<u8>,
}

impl Program {
    fn new(alternate: bool) -> Self {
        let size = tty::size().unwrap_or(Size { rows: 24, cols: 80 });
        Self {
            alternate,
            size,
            rows: Vec::new(),
            scrolled_away: 0,
            reply: String::new(),
            input: Vec::new(),
            menu: false,
            painted: 0,
            out: Vec::new(),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.alternate {
            self.out.extend_from_slice(b"\x1b[?1049h");
        }
        self.out.extend_from_slice(b"\x1b[?2004h");
        self.rows.push("Welcome.".to_owned());
        self.paint()
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.extend_from_slice(b"\x1b[?2004l");
        if self.alternate {
            self.out.extend_from_slice(b"\x1b[?1049l");
        }
        self.out.extend_from_slice(b"\r\nBye.\r\n");
        self.flush()
    }

    /// Handles a key. Returns `false` to end the program.
    fn press(&mut self, key: Key) -> io::Result<bool> {
        match key {
            Key::Text(byte) if self.menu => self.menu = !matches!(byte, b'1' | b'2'),
            Key::Text(byte) => self.input.push(byte),
            Key::Erase => drop(self.input.pop()),
            Key::Enter if self.menu => return Ok(false),
            Key::Enter => {
                let input = String::from_utf8_lossy(&std::mem::take(&mut self.input)).into_owned();
                return self.submit(&input);
            }
        }
        Ok(true)
    }

    /// Runs a submitted text. Returns `false` to end the program.
    fn submit(&mut self, input: &str) -> io::Result<bool> {
        for row in input.split('\n') {
            self.append_wrapped(row, "> ", "  ");
        }
        self.rows.push(String::new());
        let mut words = input.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("quit"), ..) => return Ok(false),
            (Some("menu"), ..) => self.menu = true,
            (Some("read"), Some(file), None) => self.answer(&fs::read_to_string(file)?)?,
            (Some("say"), Some(to), Some(text)) => {
                self.answer(&format!("->relay:{to} <<<\n{text}>>>"))?;
            }
            (Some("ask"), Some(to), Some(text)) => self.answer(&format!(
                "Here is how:\n```\n->relay:{to} <<<\nnot this>>>\n```\n->relay:{to} <<<\n{text}\n\n\
                 - one thing\n- another>>>\nThat is all."
            ))?,
            _ => match parse_frame(input) {
                Some((from, body)) => {
                    let text = body.to_lowercase();
                    self.answer(&format!("Sure.\n->relay:{from} <<<\n{text}>>>\nDone."))?;
                }
                None => self.answer("What?")?,
            },
        }
        Ok(true)
    }

    /// Shows a reply that grows with each repaint.
    fn answer(&mut self, text: &str) -> io::Result<()> {
        let characters: Vec<char> = text.chars().collect();
        let step = STEP_MIN.max(characters.len() / REPAINTS_MAX);
        for end in (step..characters.len()).step_by(step) {
            self.reply = characters[..end].iter().collect();
            self.paint()?;
            thread::sleep(REPAINT_INTERVAL);
        }
        self.reply.clear();
        for row in wrapped_reply(text, self.width()) {
            self.rows.push(row);
        }
        self.rows.push(String::new());
        Ok(())
    }

    fn append_wrapped(&mut self, text: &str, first: &str, hang: &str) {
        let width = self.width() - 2;
        for (index, line) in wrap(text, width).into_iter().enumerate() {
            self.rows.push(format!("{}{line}", if index == 0 { first } else { hang }));
        }
    }

    fn width(&self) -> usize {
        usize::from(self.size.cols) - 1
    }

    fn paint(&mut self) -> io::Result<()> {
        let height = usize::from(self.size.rows) - 1;
        let mut rows = self.rows.clone();
        rows.extend(wrapped_reply(&self.reply, self.width()));
        rows.extend(self.composer());
        self.out.extend_from_slice(b"\x1b[?2026h");
        let first = if self.alternate {
            self.out.extend_from_slice(b"\x1b[H");
            rows.len().saturating_sub(height)
        } else {
            if self.painted > 1 {
                self.out.extend_from_slice(format!("\x1b[{}A", self.painted - 1).as_bytes());
            }
            self.out.push(b'\r');
            self.scrolled_away
        };
        let shown = &rows[first..];
        for (index, row) in shown.iter().enumerate() {
            let end = if index + 1 < shown.len() { "\r\n" } else { "" };
            self.out.extend_from_slice(format!("\x1b[2K{row}{end}").as_bytes());
        }
        self.out.extend_from_slice(b"\x1b[J\x1b[?2026l");
        // Rows that no longer fit have scrolled away and cannot be repainted.
        self.scrolled_away = self.scrolled_away.max(rows.len().saturating_sub(height));
        self.painted = rows.len() - if self.alternate { first } else { self.scrolled_away };
        // A shrinking composer shows some of these rows again on the alternate screen, but not more
        // than a screenful: older rows are dropped.
        let dropped = self.scrolled_away.saturating_sub(height).min(self.rows.len());
        self.rows.drain(..dropped);
        self.scrolled_away -= dropped;
        self.flush()
    }

    fn composer(&self) -> Vec<String> {
        let rule = "─".repeat(self.width());
        if self.menu {
            let entries = ["Go on?", "❯ 1. Yes", "  2. No"].map(str::to_owned);
            return [rule].into_iter().chain(entries).collect();
        }
        let input = String::from_utf8_lossy(&self.input).into_owned();
        let mut rows = vec![rule];
        for line in input.split('\n') {
            let prompt = if rows.len() == 1 { "> " } else { "  " };
            rows.extend(wrap(line, self.width() - 2).iter().map(|line| format!("{prompt}{line}")));
        }
        // Only the end of a long input is shown.
        let skipped = rows.len().saturating_sub(8);
        rows.split_off(skipped)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(&self.out)?;
        self.out.clear();
        out.flush()
    }
}

/// The sender and the body of a message in a frame.
fn parse_frame(input: &str) -> Option<(&str, &str)> {
    let (header, rest) = input.split_once('\n')?;
    let (_, from) = header.strip_prefix("[relay ")?.split_once(" from ")?;
    let body = rest.rsplit_once('\n')?.0;
    Some((from.split([',', ']']).next()?, body))
}

/// The rows of a reply: a bullet before the first row, two blanks before the others.
fn wrapped_reply(text: &str, width: usize) -> Vec<String> {
    let lines = text.split('\n').flat_map(|line| wrap(line, width - 2));
    let rows = lines.filter(|_| !text.is_empty()).enumerate();
    rows.map(|(index, line)| format!("{}{line}", if index == 0 { "● " } else { "  " })).collect()
}

/// Breaks a line at blanks, as CLIs do, and a word longer than a row at the end of the row.
/// Control characters are dropped.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let line: String = line.chars().filter(|&c| c == '\t' || !c.is_control()).collect();
    let (mut rows, mut used) = (vec![String::new()], 0);
    for (number, word) in line.split(' ').enumerate() {
        let length = word.width();
        if number > 0 && used > 0 && used + 1 + length > width {
            rows.push(String::new());
            used = 0;
        } else if number > 0 {
            rows.last_mut().expect("there is a first row").push(' ');
            used += 1;
        }
        for c in word.chars() {
            let columns = c.width().unwrap_or(0);
            if used + columns > width {
                rows.push(String::new());
                used = 0;
            }
            rows.last_mut().expect("there is a first row").push(c);
            used += columns;
        }
    }
    rows
}
