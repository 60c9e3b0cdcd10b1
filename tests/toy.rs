//! A small agent that hands its terminal to other programs: a stand-in for agents' CLIs in the
//! tests.
//!
//! The program asks the terminal to mark pastes, and shows its composer, `❯ `, in the last row.
//! Each argument is a line to run first; then the program prints `ready`, and runs each line of
//! input. Ctrl-Z suspends it.
//!
//! Commands; of any other text it prints the number of lines:
//! - `work` shows `working` above the composer until the next command or until it is suspended.
//! - `say NAME TEXT` prints TEXT as a message to NAME; `answer TEXT` prints TEXT as a reply to the
//!   last message. If it is set, the variable `TOY_ANSWER` is the reply
//!   to each message from anybody but the relay.
//! - `menu` asks for a permission until `1` or `2` is pressed.
//! - `run PROGRAM ARGUMENT…` runs a program in this program's process group and terminal, and
//!   prints `back` when the program has ended.
//! - `quit` ends the program.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]

use platform::tty::RawMode;
use std::{
    env,
    io::{self, Read, Write},
    process::{self, Command},
};

const PASTES_ON: &str = "\x1b[?2004h";
const PASTES_OFF: &str = "\x1b[?2004l";
const CLEAR: &str = "\x1b[2J\x1b[H";

fn main() -> io::Result<()> {
    let mut toy = Toy { raw: Some(RawMode::enter()?), ..Toy::default() };
    print(PASTES_ON)?;
    for line in env::args().skip(1) {
        toy.execute(&line)?;
    }
    print("ready\r\n")?;
    toy.show_composer()?;
    let mut key = [0];
    while !toy.has_ended && io::stdin().read(&mut key)? > 0 {
        toy.press(key[0])?;
    }
    toy.release_terminal()
}

#[derive(Default)]
struct Toy {
    raw: Option<RawMode>,
    input: Vec<u8>,
    /// The bytes of an incomplete escape sequence, without the escape.
    sequence: Option<Vec<u8>>,
    pasting: bool,
    working: bool,
    menu: bool,
    /// The sender and the id of the last message.
    message: Option<(String, String)>,
    has_ended: bool,
}

impl Toy {
    fn press(&mut self, key: u8) -> io::Result<()> {
        if let Some(mut sequence) = self.sequence.take() {
            sequence.push(key);
            match sequence.as_slice() {
                b"[200~" => self.pasting = true,
                b"[201~" => self.pasting = false,
                [b'['] | [b'[', .., b'0'..=b'9' | b';'] => self.sequence = Some(sequence),
                _ => {}
            }
            return Ok(());
        }
        match key {
            b'1' | b'2' if self.menu => {
                self.menu = false;
                print(CLEAR)?;
                self.show_composer()?;
            }
            _ if self.menu => {}
            0x1b => self.sequence = Some(Vec::new()),
            0x1a if !self.pasting => self.suspend()?,
            b'\r' if !self.pasting => self.submit()?,
            b'\r' | b'\n' => {
                self.input.push(b'\n');
                print("\r\n  ")?;
            }
            key => {
                self.input.push(key);
                io::stdout().write_all(&[key])?;
                io::stdout().flush()?;
            }
        }
        Ok(())
    }

    fn submit(&mut self) -> io::Result<()> {
        print("\r\n")?;
        let input = std::mem::take(&mut self.input);
        self.execute(&String::from_utf8_lossy(&input))?;
        if self.has_ended || self.menu { Ok(()) } else { self.show_composer() }
    }

    fn execute(&mut self, line: &str) -> io::Result<()> {
        if std::mem::replace(&mut self.working, line == "work") {
            print(CLEAR)?;
        }
        let mut words = line.split(' ');
        match words.next() {
            Some("quit") => self.has_ended = true,
            Some("run") => {
                self.release_terminal()?;
                Command::new(words.next().unwrap_or_default()).args(words).status()?;
                self.take_terminal()?;
                print("back\r\n")?;
            }
            Some("menu") => {
                self.menu = true;
                print(CLEAR)?;
                print("Run the tests?\r\n❯ 1. Yes\r\n  2. No\r\n")?;
            }
            Some("say") => {
                let (to, text) = line["say ".len()..].split_once(' ').unwrap_or_default();
                print(&format!("->relay:{to} <<<\r\n{text}>>>\r\n"))?;
            }
            Some("answer") => self.answer(&line["answer ".len()..])?,
            Some("[relay") => {
                self.message = sender(line);
                print(&format!("heard {} lines\r\n", line.lines().count()))?;
                if let Ok(answer) = env::var("TOY_ANSWER") {
                    self.answer(&answer)?;
                }
            }
            _ if line.is_empty() || self.working => {}
            _ => print(&format!("heard {} lines\r\n", line.lines().count()))?,
        }
        Ok(())
    }

    /// Replies to the last message.
    fn answer(&self, text: &str) -> io::Result<()> {
        let Some((from, id)) = &self.message else { return Ok(()) };
        print(&format!("->relay:{from} [reply:{id}] <<<\r\n{text}>>>\r\n"))
    }

    fn show_composer(&self) -> io::Result<()> {
        let above = if self.working { "working\r\n" } else { "" };
        print(&format!("{above}❯ "))
    }

    fn suspend(&mut self) -> io::Result<()> {
        print(CLEAR)?;
        self.release_terminal()?;
        Command::new("kill").args(["-TSTP", &process::id().to_string()]).status()?;
        self.take_terminal()?;
        self.show_composer()
    }

    /// Restores the terminal's own modes.
    fn release_terminal(&mut self) -> io::Result<()> {
        self.raw = None;
        print(PASTES_OFF)
    }

    /// Sets the modes that the program needs.
    fn take_terminal(&mut self) -> io::Result<()> {
        self.raw = Some(RawMode::enter()?);
        print(PASTES_ON)
    }
}

/// The sender and the id of a message in a frame; notices of the relay have no id.
fn sender(frame: &str) -> Option<(String, String)> {
    let (_, header) = frame.lines().next()?.split_once(" from ")?;
    let (from, rest) = header.split_once(", id ")?;
    let id = rest.split([',', ']']).next()?;
    Some((from.to_owned(), id.to_owned()))
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
