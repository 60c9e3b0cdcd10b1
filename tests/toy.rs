//! A small agent's command line that can give way to other programs: a stand-in in the tests.
//!
//! It wants pastes marked, and shows its composer, `❯ `, in the last row. What it is told, it does:
//! `work` has it show `working` above the composer until it is told something else, or suspended;
//! `run PROGRAM ARGUMENT…` runs a program in its own process group and terminal, and says `back`
//! when that has ended; Ctrl-Z suspends it; `quit` ends it. Anything else it counts. Its arguments
//! are lines that it is told first; after these it says `ready`.

#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]

use platform::terminal::RawMode;
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
        toy.obey(&line)?;
    }
    print("ready\r\n")?;
    toy.compose()?;
    let mut key = [0];
    while !toy.ended && io::stdin().read(&mut key)? > 0 {
        toy.press(key[0])?;
    }
    toy.step_back()
}

#[derive(Default)]
struct Toy {
    raw: Option<RawMode>,
    input: Vec<u8>,
    /// An escape sequence that has begun.
    sequence: Option<Vec<u8>>,
    pasting: bool,
    working: bool,
    ended: bool,
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
        self.obey(&String::from_utf8_lossy(&input))?;
        if self.ended { Ok(()) } else { self.compose() }
    }

    fn obey(&mut self, line: &str) -> io::Result<()> {
        if std::mem::replace(&mut self.working, line == "work") {
            print(CLEAR)?;
        }
        let mut words = line.split(' ');
        match words.next() {
            Some("quit") => self.ended = true,
            Some("run") => {
                self.step_back()?;
                Command::new(words.next().unwrap_or_default()).args(words).status()?;
                self.step_forward()?;
                print("back\r\n")?;
            }
            _ if line.is_empty() || self.working => {}
            _ => print(&format!("heard {} lines\r\n", line.lines().count()))?,
        }
        Ok(())
    }

    fn compose(&self) -> io::Result<()> {
        let above = if self.working { "working\r\n" } else { "" };
        print(&format!("{above}❯ "))
    }

    fn suspend(&mut self) -> io::Result<()> {
        print(CLEAR)?;
        self.step_back()?;
        Command::new("kill").args(["-TSTP", &process::id().to_string()]).status()?;
        self.step_forward()?;
        self.compose()
    }

    /// Leaves the terminal as it was.
    fn step_back(&mut self) -> io::Result<()> {
        self.raw = None;
        print(PASTES_OFF)
    }

    fn step_forward(&mut self) -> io::Result<()> {
        self.raw = Some(RawMode::enter()?);
        print(PASTES_ON)
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
