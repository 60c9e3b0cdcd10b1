//! `mcp`: serve the Model Context Protocol on standard input and output.

mod calls;

use super::{
    failure::{DONE, Failure},
    frames::is_read_off_screen,
    identity::check_sender_name,
    program::VERSION,
    values::agent_name,
};
use crate::mcp::{Input, Output, Server, Settings};
use argh::{ArgsInfo, FromArgs};
use calls::{Calls, Event};
use client::home::{HomeOptions, agent_around};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use platform::{clock, random};
use protocol::Moment;
use std::{
    io::{self, BufRead, Read as _, Write as _},
    thread,
    time::Duration,
};

/// The longest line of a client.
const LINE_BYTES_MAX: u64 = 8 << 20;

/// The capacity of the channel of events; the reader waits while it is full.
const EVENTS_MAX: usize = 16;

/// Serve the Model Context Protocol (MCP) on standard input and output.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "mcp",
    help_triggers("--help"),
    example = "agent-relay mcp",
    example = "agent-relay mcp --as Bob",
    note = "An agent's CLI starts this: `agent-relay run --mcp` hands it over. docs/MCP.md lists the tools."
)]
pub(super) struct Mcp {
    /// the agent to act as; default: the wrapped agent that this runs in
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    name: Option<String>,
}

impl Mcp {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        self.name.as_deref().map_or(Ok(()), check_sender_name)?;
        let states_name = self.name.is_some();
        let Some(name) = self.name.or_else(agent_around) else {
            return Err(Failure::usage("no agent")
                .hint("start the agent with `agent-relay run --mcp`, or say --as NAME"));
        };
        let seed = random::bytes().map_err(Failure::because)?;
        let escapes_marks = agent_around().is_some() && is_read_off_screen();
        let settings = Settings { version: VERSION, name, states_name, escapes_marks, seed };
        let server = Server::new(settings);
        let (events, received) = bounded(EVENTS_MAX);
        let mut calls = Calls::new(options, events.clone())?;
        start_reader(events)?;
        let served = serve(server, &received, &mut calls);
        // A thread that still reports an output must not wait for room in the channel.
        drop(received);
        calls.end();
        served.map(|()| DONE)
    }
}

/// Handles events until the client has closed the input.
fn serve(mut server: Server, received: &Receiver<Event>, calls: &mut Calls) -> Result<(), Failure> {
    let (mut out, mut failed) = (Vec::new(), Vec::new());
    while !server.is_done() {
        let input = match failed.pop() {
            Some(failed) => failed,
            None => match next(received, server.deadline()) {
                Event::Input(input) => input,
                Event::Printed(number, text) => calls.ended(number, text),
            },
        };
        server.handle(now(), input, &mut out);
        for output in out.drain(..) {
            match output {
                Output::Line(line) => write(line)?,
                Output::Run(number, line) => failed.extend(calls.run(number, line)),
                Output::Stop(number) => calls.stop(number),
            }
        }
    }
    Ok(())
}

fn now() -> Moment {
    Moment(clock::monotonic_ms())
}

fn next(received: &Receiver<Event>, deadline: Option<Moment>) -> Event {
    // Waits for: the server's channel, until its deadline. The process also waits while its client
    // does not read.
    let received = match deadline {
        None => received.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(at) => received.recv_timeout(Duration::from_millis(at.since(now()))),
    };
    // `calls` has a sender, so the channel stays connected.
    received.unwrap_or(Event::Input(Input::Timer))
}

fn write(mut line: String) -> Result<(), Failure> {
    line.push('\n');
    let mut stdout = io::stdout();
    let written = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(Failure::unwritten)
}

/// Starts the thread that reads standard input. The thread ends with the input, or with the
/// process.
fn start_reader(events: Sender<Event>) -> Result<(), Failure> {
    let read = move || {
        let mut stdin = io::stdin().lock();
        // An input that cannot be read has ended.
        while let Ok(Some(input)) = read_line(&mut stdin) {
            if events.send(Event::Input(input)).is_err() {
                return;
            }
        }
        // Nobody waits any more if the output has ended.
        drop(events.send(Event::Input(Input::Closed)));
    };
    // Waits for: the system, then the server's channel. Not joined: ends with the input or the
    // process.
    let started = thread::Builder::new().name("mcp-reader".to_owned()).spawn(read);
    started.map(drop).map_err(Failure::because)
}

/// Reads a line; `None` at the end of the input. A line that is too long is discarded.
fn read_line(from: &mut impl BufRead) -> io::Result<Option<Input>> {
    let mut line = Vec::new();
    from.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
    let is_whole = line.pop_if(|last| *last == b'\n').is_some();
    if is_whole || line.len() as u64 <= LINE_BYTES_MAX {
        let is_end = !is_whole && line.is_empty();
        return Ok((!is_end).then_some(Input::Line(line)));
    }
    from.skip_until(b'\n')?;
    Ok(Some(Input::LongLine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_skipped() {
        let max = usize::try_from(LINE_BYTES_MAX).unwrap();
        let mut text = vec![b'x'; max];
        text.extend(b"\n");
        text.extend(vec![b'y'; max + 1]);
        text.extend(b"y\n\nlast");
        let mut from = &text[..];
        let mut read = || match read_line(&mut from).unwrap() {
            Some(Input::Line(line)) => Some(line.len()),
            Some(_) => Some(usize::MAX),
            None => None,
        };
        assert_eq!(
            [read(), read(), read(), read()],
            [Some(max), Some(usize::MAX), Some(0), Some(4)]
        );
        assert_eq!([read(), read()], [None, None]);
    }
}
