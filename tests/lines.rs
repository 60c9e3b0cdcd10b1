//! A program that reads lines: a stand-in for simple agents in the tests.
//!
//! It leaves the terminal as it is, or with `--keys` reads key by key and shows what is typed itself.
//! What its arguments say it does first, each of them a line; then it says `ready`, and does what it is told,
//! with a `done` each time, since nobody hears a message that still stands last:
//! `print TEXT` and `say NAME TEXT` print TEXT, the latter for NAME, with `\n` for a line's end; `run PROGRAM
//! ARGUMENT…` runs a program as an agent runs its commands, with quotes around what has blanks; `size` tells
//! the terminal's; `keep FILE` has all lines that follow written there as well; `exit CODE` ends it. Any
//! other line is shown back.
//!
//! A message in a frame of the relay's is shown back, too, and does nothing but this: for each of its lines
//! that is `reply NAME TEXT`, TEXT is sent to NAME as a reply, with FROM for the sender's name in both; and
//! `exit CODE` ends the program, once the whole frame is there.

#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]

use platform::terminal::{self, RawMode};
use std::{
    env,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    process::{self, Command, Stdio},
};

fn main() -> io::Result<()> {
    let mut program = Program::default();
    let (options, first): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|word| word.starts_with("--"));
    let raw = (!options.is_empty()).then(RawMode::enter).transpose()?;
    for line in first {
        program.take(&line)?;
    }
    print("ready")?;
    match raw {
        None => io::stdin().lines().try_for_each(|line| program.is_told(&line?)),
        Some(_raw) => read_keys(&mut program),
    }
}

/// Every line's end is one, also where the terminal would see none.
fn read_keys(program: &mut Program) -> io::Result<()> {
    let (mut line, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = io::stdin().read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        for part in buffer[..count].split_inclusive(|key| matches!(key, b'\r' | b'\n')) {
            let ends = part.ends_with(b"\r") || part.ends_with(b"\n");
            let text = &part[..part.len() - usize::from(ends)];
            line.extend_from_slice(text);
            show_typed(text)?;
            if ends {
                print("")?;
                program.is_told(&String::from_utf8_lossy(&std::mem::take(&mut line)))?;
            }
        }
    }
}

fn show_typed(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

#[derive(Default)]
struct Program {
    kept: Option<File>,
    /// The message that is being read.
    message: Option<Message>,
}

struct Message {
    from: String,
    /// The relay's own lines have none, and no reply.
    id: Option<String>,
    lines: Vec<String>,
}

impl Program {
    fn is_told(&mut self, line: &str) -> io::Result<()> {
        self.take(line)?;
        if self.message.is_none() { print("done") } else { Ok(()) }
    }

    fn take(&mut self, line: &str) -> io::Result<()> {
        if let Some(file) = &mut self.kept {
            writeln!(file, "{line}")?;
        }
        if let Some(message) = &mut self.message {
            message.lines.push(line.to_owned());
            let ends = line.starts_with("[/relay ");
            return ends.then(|| self.message.take()).flatten().map_or(Ok(()), Message::take_up);
        }
        self.message = Message::begins(line);
        if self.message.is_some() { Ok(()) } else { self.obey(line) }
    }

    fn obey(&mut self, line: &str) -> io::Result<()> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (verb, rest.split_once(' ')) {
            ("print", _) => print(&ends(rest)),
            ("say", Some((name, text))) => print(&format!("->relay:{name} <<<\n{}>>>", ends(text))),
            ("run", _) => run(rest),
            ("size", _) => {
                let size = terminal::size().ok_or_else(|| io::Error::other("no terminal"))?;
                print(&format!("{} rows, {} columns", size.rows, size.cols))
            }
            ("keep", _) => {
                self.kept = Some(OpenOptions::new().create(true).append(true).open(rest)?);
                Ok(())
            }
            ("exit", _) => exit(rest),
            _ => show(line),
        }
    }
}

impl Message {
    /// The message whose frame has this for a first line.
    fn begins(line: &str) -> Option<Self> {
        let (_, header) = line.strip_prefix("[relay ")?.split_once(" from ")?;
        let from = header.split([',', ']']).next()?.to_owned();
        let id = header.split_once(", id ").and_then(|(_, id)| id.split([',', ']']).next());
        Some(Self { from, id: id.map(str::to_owned), lines: vec![line.to_owned()] })
    }

    /// Shows it as a whole, so that the echo of its lines doesn't come in between, and answers.
    fn take_up(self) -> io::Result<()> {
        for line in &self.lines {
            show(line)?;
        }
        let Some(id) = &self.id else { return Ok(()) };
        for line in &self.lines {
            let line = line.replace("FROM", &self.from);
            let mut words = line.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("reply"), Some(name), Some(text)) => {
                    print(&format!("->relay:{name} [reply:{id}] <<<\n{text}>>>"))?;
                }
                (Some("exit"), Some(code), None) => exit(code),
                _ => {}
            }
        }
        Ok(())
    }
}

fn run(line: &str) -> io::Result<()> {
    // What stands at odd places is between quotes.
    let parts = line.split('"').enumerate().flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    let words: Vec<_> = parts.collect();
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let ended = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    for said in [ended.stdout, ended.stderr] {
        print(String::from_utf8_lossy(&said).trim_end())?;
    }
    print(&format!("it ended with {}", ended.status.code().unwrap_or(-1)))
}

fn exit(code: &str) -> ! {
    process::exit(code.parse().unwrap_or_default())
}

fn show(line: &str) -> io::Result<()> {
    print(&format!("heard: {line}"))
}

fn ends(text: &str) -> String {
    text.replace(r"\n", "\n")
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // In raw mode a line's end takes nobody to the beginning of the next.
    write!(out, "{}\r\n", text.replace("\r\n", "\n").replace('\n', "\r\n"))?;
    out.flush()
}
