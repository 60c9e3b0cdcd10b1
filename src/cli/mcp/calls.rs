//! The commands of tool calls. Each runs as a separate process, so that a call can be ended at any
//! time.

use crate::{
    cli::{
        failure::{DONE, Failure},
        print::LINE_PREFIX,
        program::{AS_AGENT_RELAY, own_program},
    },
    mcp::{CallNumber, CommandLine, Ended, Input},
};
use client::home::HomeOptions;
use crossbeam_channel::Sender;
use std::{
    io::{self, PipeReader, Read as _, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    thread::{self, JoinHandle},
};

/// The most bytes of a command's output. The rest is not read.
const OUTPUT_BYTES_MAX: u64 = 4 << 20;

/// An event for the thread that owns the server.
pub(super) enum Event {
    Input(Input),
    /// The output of a call's command, which has ended or was cut.
    Printed(CallNumber, Vec<u8>),
}

/// The calls in progress.
pub(super) struct Calls {
    program: PathBuf,
    /// The words before each command.
    global_options: Vec<String>,
    events: Sender<Event>,
    running: Vec<Running>,
}

struct Running {
    number: CallNumber,
    child: Child,
    thread: JoinHandle<()>,
}

impl Calls {
    pub(super) fn new(options: &HomeOptions, events: Sender<Event>) -> Result<Self, Failure> {
        let HomeOptions { endpoint, home } = options;
        let stated = [("--endpoint", endpoint), ("--home", home)];
        let stated = stated.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let global_options = stated.flat_map(|(name, value)| [name.to_owned(), value]).collect();
        Ok(Self { program: own_program()?, global_options, events, running: Vec::new() })
    }

    /// Starts the command of a call. Returns the call's end if that fails.
    pub(super) fn run(&mut self, number: CallNumber, line: CommandLine) -> Option<Input> {
        let started = self.start(number, line);
        let started = started.map(|running| self.running.push(running));
        let text = format!("the command was not run: {}", started.err()?);
        Some(Input::Ended(number, Ended { text, has_failed: true }))
    }

    fn start(&self, number: CallNumber, line: CommandLine) -> io::Result<Running> {
        let (output, prints) = io::pipe()?;
        let input = if line.input.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut child = Command::new(&self.program)
            .arg(AS_AGENT_RELAY)
            .args(&self.global_options)
            .args(&line.words)
            .stdin(input)
            .stdout(prints.try_clone()?)
            .stderr(prints)
            .spawn()?;
        let (input, events) = (child.stdin.take().zip(line.input), self.events.clone());
        let pass_on = move || {
            let printed = printed(input, output);
            // Nobody waits any more if the server has ended.
            drop(events.send(Event::Printed(number, printed)));
        };
        // Waits for: the command of the call, then the server's channel. The main thread joins it
        // after that, or at its end, once it has killed the command.
        let thread = thread::Builder::new().name("mcp-call".to_owned()).spawn(pass_on);
        match thread {
            Ok(thread) => Ok(Running { number, child, thread }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Ends the command of a call.
    pub(super) fn stop(&mut self, number: CallNumber) {
        let meant = self.running.iter_mut().find(|running| running.number == number);
        meant.into_iter().for_each(Running::kill);
    }

    /// Returns the result of a call after the end of its command's output.
    pub(super) fn ended(&mut self, number: CallNumber, printed: Vec<u8>) -> Input {
        let at = self.running.iter().position(|running| running.number == number);
        let code = at.map(|at| self.running.remove(at)).and_then(Running::code);
        let mut text = String::from_utf8_lossy(&printed).into_owned();
        if printed.len() as u64 > OUTPUT_BYTES_MAX {
            text.push_str(&format!("\n[cut after {OUTPUT_BYTES_MAX} bytes]"));
        }
        let has_failed = code != Some(DONE);
        if has_failed && let Some(sentence) = text.strip_prefix(LINE_PREFIX) {
            text = sentence.to_owned();
        }
        Input::Ended(number, Ended { text, has_failed })
    }

    /// Ends all commands.
    pub(super) fn end(self) {
        for mut running in self.running {
            running.kill();
            running.code();
        }
    }
}

impl Running {
    fn kill(&mut self) {
        // A command that has ended already cannot be killed.
        drop(self.child.kill());
    }

    /// Waits for the end of the command, and returns its exit code.
    fn code(mut self) -> Option<i32> {
        // A panic of the thread was reported by the panic hook.
        drop(self.thread.join());
        self.child.wait().ok()?.code()
    }
}

/// Writes the command's input, and reads its output.
fn printed(input: Option<(ChildStdin, String)>, output: PipeReader) -> Vec<u8> {
    if let Some((mut stdin, text)) = input {
        // A command that does not read its input says why.
        drop(stdin.write_all(text.as_bytes()));
    }
    let mut printed = Vec::new();
    // The output before an error is shown; the exit code reports the failure.
    drop(output.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut printed));
    printed
}
