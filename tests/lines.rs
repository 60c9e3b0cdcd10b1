//! A program that reads lines: a stand-in for simple agents in the tests.
//!
//! The program leaves the terminal's modes unchanged; with `--keys` it reads key by key, and echoes
//! the keys itself. Each argument is a command line to run first. Then the program prints `ready`,
//! and runs each line of input. After each line it prints `done`, since the wrapper does not send a
//! message that is the last output.
//!
//! Commands; any other line is echoed:
//! - `print TEXT` prints TEXT; `say NAME TEXT` prints TEXT as a message to NAME; `\n` ends a line.
//! - `run PROGRAM ARGUMENT…` runs a program as an agent runs its commands; quotes group words.
//! - `start PROGRAM ARGUMENT…` does so, and does not wait for its end.
//! - `size` prints the terminal's size.
//! - `keep FILE` also writes all following lines to a file.
//! - `defy FILE` makes a file, writes each request of the system's to end to it, and ignores them.
//! - `lock FILE` holds a lock until the program's end, and `stay` reads no more input.
//! - `exit CODE` ends the program.
//!
//! A message in a frame of the relay is echoed as a whole. Only two commands run in its lines, once
//! the frame has ended: `reply NAME TEXT` replies to NAME, with FROM replaced by the sender's name
//! in NAME and TEXT; and `exit CODE`.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]

use platform::{
    lock::Lock,
    stop_signals,
    tty::{self, RawMode},
};
use std::{
    env,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    mem,
    path::Path,
    process::{self, Command, Stdio},
    thread,
};

fn main() -> io::Result<()> {
    let mut program = Program::default();
    let (options, commands): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|word| word.starts_with("--"));
    let raw = (!options.is_empty()).then(RawMode::enter).transpose()?;
    for line in commands {
        program.process(&line)?;
    }
    print("ready")?;
    match raw {
        None => io::stdin().lines().try_for_each(|line| program.process_input(&line?)),
        Some(_raw) => read_keys(&mut program),
    }
}

/// Reads input in raw mode. A carriage return and a line feed each end a line.
fn read_keys(program: &mut Program) -> io::Result<()> {
    let (mut line, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = io::stdin().read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        for part in buffer[..count].split_inclusive(|key| matches!(key, b'\r' | b'\n')) {
            let is_complete = part.ends_with(b"\r") || part.ends_with(b"\n");
            let text = &part[..part.len() - usize::from(is_complete)];
            line.extend_from_slice(text);
            echo_typed(text)?;
            if is_complete {
                print("")?;
                program.process_input(&String::from_utf8_lossy(&mem::take(&mut line)))?;
            }
        }
    }
}

fn echo_typed(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

#[derive(Default)]
struct Program {
    /// The file that the command `keep` names.
    copy: Option<File>,
    /// A message whose frame is incomplete.
    message: Option<Message>,
}

/// A message in a frame.
struct Message {
    from: String,
    /// The id; notices of the relay have none and get no reply.
    id: Option<String>,
    lines: Vec<String>,
}

impl Program {
    /// Processes a line of input, and prints `done` unless the line is part of a frame.
    fn process_input(&mut self, line: &str) -> io::Result<()> {
        self.process(line)?;
        if self.message.is_none() { print("done") } else { Ok(()) }
    }

    /// Adds a line to the current message, or runs it as a command.
    fn process(&mut self, line: &str) -> io::Result<()> {
        if let Some(file) = &mut self.copy {
            writeln!(file, "{line}")?;
        }
        if let Some(message) = &mut self.message {
            message.lines.push(line.to_owned());
            let is_last = line.starts_with("[/relay ");
            return is_last.then(|| self.message.take()).flatten().map_or(Ok(()), Message::answer);
        }
        self.message = Message::from_first_line(line);
        if self.message.is_some() { Ok(()) } else { self.execute(line) }
    }

    fn execute(&mut self, line: &str) -> io::Result<()> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (verb, rest.split_once(' ')) {
            ("print", _) => print(&unescape(rest)),
            ("say", Some((name, text))) => {
                print(&format!("->relay:{name} <<<\n{}>>>", unescape(text)))
            }
            ("run", _) => run(rest),
            ("start", _) => command(rest)?.spawn().map(drop),
            ("size", _) => {
                let size = tty::size().ok_or_else(|| io::Error::other("no terminal"))?;
                print(&format!("{} rows, {} columns", size.rows, size.cols))
            }
            ("keep", _) => {
                self.copy = Some(appending(rest)?);
                Ok(())
            }
            ("defy", _) => defy(rest),
            ("lock", _) => {
                let lock = Lock::take(Path::new(rest))?.ok_or(io::ErrorKind::WouldBlock)?;
                mem::forget(lock);
                Ok(())
            }
            ("stay", _) => loop {
                thread::park();
            },
            ("exit", _) => exit(rest),
            _ => echo(line),
        }
    }
}

impl Message {
    /// A message whose frame begins with `line`, if `line` is the first line of a frame.
    fn from_first_line(line: &str) -> Option<Self> {
        let (_, header) = line.strip_prefix("[relay ")?.split_once(" from ")?;
        let from = header.split([',', ']']).next()?.to_owned();
        let id = header.split_once(", id ").and_then(|(_, id)| id.split([',', ']']).next());
        Some(Self { from, id: id.map(str::to_owned), lines: vec![line.to_owned()] })
    }

    /// Echoes all lines together, so that the terminal's echo does not interrupt them, and replies.
    fn answer(self) -> io::Result<()> {
        for line in &self.lines {
            echo(line)?;
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

fn appending(file: &str) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(file)
}

/// Ignores the system's requests to end, and writes them to a file.
fn defy(file: &str) -> io::Result<()> {
    let path = file.to_owned();
    let listening = stop_signals::listen(move |signal| {
        // The test finds nothing in the file if this fails.
        drop(appending(&path).and_then(|mut file| writeln!(file, "{signal:?}")));
    })?;
    mem::forget(listening);
    appending(file).map(drop)
}

/// Returns a command without input.
fn command(line: &str) -> io::Result<Command> {
    // Parts with an odd index are in quotes.
    let parts = line.split('"').enumerate().flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    let words: Vec<_> = parts.collect();
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

fn run(line: &str) -> io::Result<()> {
    let output = command(line)?.output()?;
    for stream in [output.stdout, output.stderr] {
        print(String::from_utf8_lossy(&stream).trim_end())?;
    }
    print(&format!("it ended with {}", output.status.code().unwrap_or(-1)))
}

fn exit(code: &str) -> ! {
    process::exit(code.parse().unwrap_or_default())
}

fn echo(line: &str) -> io::Result<()> {
    print(&format!("heard: {line}"))
}

fn unescape(text: &str) -> String {
    text.replace(r"\n", "\n")
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // In raw mode a line feed does not return to the first column.
    write!(out, "{}\r\n", text.replace("\r\n", "\n").replace('\n', "\r\n"))?;
    out.flush()
}
