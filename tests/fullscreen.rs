//! A program that paints its screen as agents' command lines do: a stand-in for them in the tests.
//!
//! It has a composer at its end, into which text is typed or pasted, and repaints what stands below
//! the part that has scrolled away: by cursor movements, in synchronized updates, with a bullet and a
//! hanging indent, breaking lines itself. With `--alternate` it has the alternate screen and paints
//! all of it, each time; otherwise it leaves what has scrolled away to the terminal.
//!
//! What it is told, it does: `say NAME TEXT` and `ask NAME TEXT` send TEXT to NAME, the latter with a
//! code fence and a list beside it; `read FILE` says what a file has; `menu` asks until 1 or 2 is pressed;
//! `quit` ends it. A message in a frame of the relay's is answered to its sender with what it said, in
//! small letters.

#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]

use platform::terminal::{self, RawMode, Size};
use std::{
    env, fs,
    io::{self, Read, Write},
    thread,
    time::Duration,
};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Between two pictures of a reply that grows.
const PICTURE: Duration = Duration::from_millis(15);

/// Characters that a reply grows by, at least, and in how many pictures it comes at most.
const STEP: usize = 40;
const PICTURES: usize = 40;

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

enum Key {
    Text(u8),
    Enter,
    Erase,
}

/// Tells Enter from a line's end in a paste.
#[derive(Default)]
struct Keys {
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
    /// Paragraphs that are finished, as rows.
    rows: Vec<String>,
    /// How many of them the terminal has for good.
    left_behind: usize,
    /// The reply that grows.
    reply: String,
    input: Vec<u8>,
    menu: bool,
    /// Rows painted last, which the next picture replaces.
    painted: usize,
    out: Vec<u8>,
}

impl Program {
    fn new(alternate: bool) -> Self {
        let size = terminal::size().unwrap_or(Size { rows: 24, cols: 80 });
        Self {
            alternate,
            size,
            rows: Vec::new(),
            left_behind: 0,
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

    /// Says whether the program goes on.
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
            _ => match framed(input) {
                Some((from, body)) => {
                    let text = body.to_lowercase();
                    self.answer(&format!("Sure.\n->relay:{from} <<<\n{text}>>>\nDone."))?;
                }
                None => self.answer("What?")?,
            },
        }
        Ok(true)
    }

    /// Says something, in a reply that grows before one's eyes.
    fn answer(&mut self, text: &str) -> io::Result<()> {
        let characters: Vec<char> = text.chars().collect();
        let step = STEP.max(characters.len() / PICTURES);
        for end in (step..characters.len()).step_by(step) {
            self.reply = characters[..end].iter().collect();
            self.paint()?;
            thread::sleep(PICTURE);
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
        for (at, line) in wrap(text, width).into_iter().enumerate() {
            self.rows.push(format!("{}{line}", if at == 0 { first } else { hang }));
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
            self.left_behind
        };
        let shown = &rows[first..];
        for (at, row) in shown.iter().enumerate() {
            let end = if at + 1 < shown.len() { "\r\n" } else { "" };
            self.out.extend_from_slice(format!("\x1b[2K{row}{end}").as_bytes());
        }
        self.out.extend_from_slice(b"\x1b[J\x1b[?2026l");
        // What no longer fits has scrolled away, and can't be painted again.
        self.left_behind = self.left_behind.max(rows.len().saturating_sub(height));
        self.painted = rows.len() - if self.alternate { first } else { self.left_behind };
        // A composer that shrinks brings some of it back on the alternate screen; the rest is forgotten.
        let forgotten = self.left_behind.saturating_sub(height).min(self.rows.len());
        self.rows.drain(..forgotten);
        self.left_behind -= forgotten;
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
        // Long input is shown by its end.
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

/// The sender and the body of a relay's frame.
fn framed(input: &str) -> Option<(&str, &str)> {
    let (header, rest) = input.split_once('\n')?;
    let (_, from) = header.strip_prefix("[relay ")?.split_once(" from ")?;
    let body = rest.rsplit_once('\n')?.0;
    Some((from.split([',', ']']).next()?, body))
}

/// A bullet before the first row, two blanks before all others.
fn wrapped_reply(text: &str, width: usize) -> Vec<String> {
    let lines = text.split('\n').flat_map(|line| wrap(line, width - 2));
    let rows = lines.filter(|_| !text.is_empty()).enumerate();
    rows.map(|(at, line)| format!("{}{line}", if at == 0 { "● " } else { "  " })).collect()
}

/// Breaks a line at blanks, as those programs do, and a word that is longer than a row where the row ends.
/// What a terminal would act on is left out.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let line: String = line.chars().filter(|&c| c == '\t' || !c.is_control()).collect();
    let (mut rows, mut full) = (vec![String::new()], 0);
    for (number, word) in line.split(' ').enumerate() {
        let length = word.width();
        if number > 0 && full > 0 && full + 1 + length > width {
            rows.push(String::new());
            full = 0;
        } else if number > 0 {
            rows.last_mut().expect("there is a first row").push(' ');
            full += 1;
        }
        for c in word.chars() {
            let columns = c.width().unwrap_or(0);
            if full + columns > width {
                rows.push(String::new());
                full = 0;
            }
            rows.last_mut().expect("there is a first row").push(c);
            full += columns;
        }
    }
    rows
}
