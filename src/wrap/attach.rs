//! `agent-relay attach`: shows an agent's screen in a person's terminal, which may also drive it.

mod detach_key;
mod screen;

pub(crate) use detach_key::DetachKey;
pub(crate) use screen::screen;

use super::{
    control::client::{self, ControlClient, ControlError},
    inner_mark::InnerMarks,
    now,
    threads::spawn,
};
use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use platform::{
    pty::CTRL_BREAK,
    stop_signals::{self, Signal},
    transport::Stream,
    tty::{self, Interrupter, RawMode, Size},
};
use protocol::{
    Moment,
    control::{Answer, Bytes, Ended, Request},
};
use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    thread::JoinHandle,
    time::Duration,
};
use terminal::{
    overlay::{RESTORE_TITLE, SAVE_TITLE},
    screen::{NoObserver, Screen, tail::Tail},
};

/// The longest time until the first snapshot arrives.
const SNAPSHOT_MS: u64 = 10_000;

/// How long the notice stays on the last row.
const NOTICE_MS: u64 = 3000;

/// The most bytes of one read, which fit into a frame.
const READ_BYTES: usize = 64 << 10;

/// The longest time for sending the last keys when the person detaches.
const LAST_KEYS_MS: u64 = 1000;

/// The most requests that wait to be sent, since the agent may not be reading. Further keys only
/// ring the bell.
const KEYS_MAX: usize = 256;

/// The longest wait of the loop while there is no deadline.
const IDLE_MS: u64 = 3_600_000;

/// The capacity of the channel of signals.
const SIGNALS_MAX: usize = 16;

const BELL: &[u8] = b"\x07";
/// Ctrl-C, which also detaches a terminal that only views.
const INTERRUPT: DetachKey = DetachKey::INTERRUPT;

/// Settings of an attached terminal.
pub(crate) struct Settings {
    /// The agent's name.
    pub(crate) name: String,
    /// Whether keys go to the agent.
    pub(crate) drive: bool,
    /// The key that detaches.
    pub(crate) detach_key: DetachKey,
    /// Whether a short notice tells the person what the terminal shows, and how to leave it.
    pub(crate) has_notice: bool,
    /// The person's screen.
    pub(crate) screen: Box<dyn Write>,
}

/// The reasons for leaving an attached terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The person detached; the agent keeps running.
    Detached,
    /// The agent's command has ended.
    Ended(Ended),
    /// This process was asked to stop.
    Stopped,
}

/// Shows the agent until the person detaches with one of these keys or the command ends, and
/// restores the terminal.
///
/// # Errors
/// If this process has no terminal, or the wrapper refuses or ends without an answer.
pub(crate) fn attach(
    control: &ControlClient,
    keys: tty::Input,
    settings: Settings,
) -> Result<Left, ControlError> {
    let Some(size) = tty::size() else {
        return Err(ControlError::Refused("this terminal does not know its size".into()));
    };
    let (sender, signals) = bounded(SIGNALS_MAX);
    let listening = stop_signals::listen(move |signal| {
        // A full channel already holds enough signals.
        let _ = sender.try_send(signal);
    });
    let _listening = listening.map_err(ControlError::System)?;
    let _raw = RawMode::enter().map_err(ControlError::System)?;
    let threads = Threads::start(control.stream.clone(), keys).map_err(ControlError::System)?;
    let terminal = AttachedTerminal {
        settings,
        answers: control.answers.clone(),
        signals,
        threads,
        size,
        // The model only records which of the terminal's modes to undo at the end.
        model: Screen::new(size.cols.into(), size.rows.into()),
        tail: Tail::default(),
        to_send: VecDeque::new(),
        is_sending: false,
        is_shown: false,
        due: Some(now().plus(SNAPSHOT_MS)),
        outer_marks: InnerMarks::of_outer_run(),
    };
    terminal.run()
}

/// The state of an attached terminal.
struct AttachedTerminal {
    settings: Settings,
    answers: Receiver<Result<Answer, String>>,
    signals: Receiver<Signal>,
    threads: Threads,
    size: Size,
    model: Screen,
    tail: Tail,
    /// Frames for the wrapper.
    to_send: VecDeque<Vec<u8>>,
    /// Whether a frame is being written.
    is_sending: bool,
    /// Whether the first snapshot has come.
    is_shown: bool,
    /// The moment when the first snapshot is overdue, or the notice is to be removed.
    due: Option<Moment>,
    /// The marks for the `run` around this process, if there is one.
    outer_marks: Option<InnerMarks>,
}

impl AttachedTerminal {
    fn run(mut self) -> Result<Left, ControlError> {
        let Size { rows, cols: columns } = self.size;
        let drive = self.settings.drive;
        self.send(&Request::Attach { drive, columns, rows, looks: false });
        let left = loop {
            if let Some(left) = self.step().transpose() {
                break left;
            }
        };
        if left.as_ref().is_ok_and(|left| *left == Left::Detached) {
            self.flush();
        }
        if self.is_shown {
            // If the terminal is gone, there is nothing to restore.
            drop(self.restore());
        }
        self.threads.end();
        left
    }

    /// Removes the notice, restores the terminal's modes and title, and moves the cursor below all
    /// that the terminal shows.
    fn restore(&mut self) -> Result<(), ControlError> {
        if self.due.is_some() {
            self.remove_notice()?;
        }
        let rows = usize::from(self.size.rows);
        let has_text = |row: &usize| !self.model.row(row - 1).text.trim().is_empty();
        let last = match self.model.alternate() {
            // The screen that comes back is not known.
            true => Some(rows),
            false => (1..=rows).rev().find(has_text),
        };
        let below = match last {
            Some(row) => format!("\x1b[{row};1H\r\n"),
            None => "\x1b[H".to_owned(),
        };
        let cleanup = self.model.cleanup();
        let end = self.outer_marks.as_ref().map(InnerMarks::end).unwrap_or_default();
        self.write(format!("{cleanup}{RESTORE_TITLE}\x1b[r{below}{end}").as_bytes())
    }

    /// Waits for the next event and handles it. Returns the reason to leave, if there is one.
    fn step(&mut self) -> Result<Option<Left>, ControlError> {
        let left_ms = self.due.map_or(IDLE_MS, |due| due.since(now()));
        // Waits for: its channels, for a time that is stated. At the end it hangs up and joins its
        // threads.
        select! {
            recv(self.answers) -> answer => match answer {
                Ok(answer) => return self.receive(client::check(answer)?),
                Err(_) => return Err(ControlError::Ended),
            },
            recv(self.threads.keys) -> keys => match keys {
                Ok(keys) => return Ok(self.press(&keys)?.then_some(Left::Detached)),
                // The person's input has ended.
                Err(_) => return Ok(Some(Left::Detached)),
            },
            recv(self.threads.sent) -> sent => match sent {
                Ok(()) => self.sent(),
                // The writer has ended; the last answers, or the end of the connection, follow.
                Err(_) => self.threads.sent = never(),
            },
            recv(self.signals) -> signal => match signal {
                Ok(Signal::Resize) => self.resize(),
                Ok(Signal::Break) if self.settings.drive => drop(self.press(CTRL_BREAK)?),
                Ok(Signal::Break) => return Ok(Some(Left::Detached)),
                // In raw mode, Ctrl-Z is a key.
                Ok(Signal::Suspend) => {}
                Ok(Signal::Stop | Signal::HangUp) | Err(_) => return Ok(Some(Left::Stopped)),
            },
            default(Duration::from_millis(left_ms)) => {
                if !self.is_shown {
                    return Err(ControlError::TimedOut);
                }
                self.due = None;
                self.remove_notice()?;
            }
        }
        Ok(None)
    }

    fn receive(&mut self, answer: Answer) -> Result<Option<Left>, ControlError> {
        match answer {
            Answer::Screen { columns, rows, bytes } => {
                let is_first = !std::mem::replace(&mut self.is_shown, true);
                if is_first {
                    let mut first =
                        self.outer_marks.as_ref().map(InnerMarks::begin).unwrap_or_default();
                    // Empty lines move the old content up, so that the person can scroll back to
                    // it.
                    first.push_str(&"\r\n".repeat(self.size.rows.into()));
                    first.push_str(SAVE_TITLE);
                    self.write(first.as_bytes())?;
                }
                self.write(&bytes.0)?;
                if is_first {
                    self.due = None;
                }
                if is_first && self.settings.has_notice {
                    self.notice(Size { rows, cols: columns })?;
                }
            }
            Answer::Output { bytes } => self.write(&bytes.0)?,
            Answer::Ended(ended) => return Ok(Some(Left::Ended(ended))),
            // The other answers are for other requests.
            _ => {}
        }
        Ok(None)
    }

    /// Shows the agent's name and the key that detaches on the last row, for a limited time.
    /// `agent` is the size of the agent's terminal.
    fn notice(&mut self, agent: Size) -> Result<(), ControlError> {
        let Settings { name, drive, detach_key, .. } = &self.settings;
        let (size, verb) = (self.size, if *drive { "attached to" } else { "looking at" });
        let mut text = format!(" {verb} {name}; {detach_key} leaves it running");
        let Size { rows, cols } = agent;
        if rows > size.rows || cols > size.cols {
            text.push_str(&format!("; only a part of {cols}x{rows} fits"));
        }
        text.push(' ');
        let text: String = text.chars().take(size.cols.into()).collect();
        let rows = size.rows;
        self.due = Some(now().plus(NOTICE_MS));
        self.show(format!("\x1b7\x1b[{rows};1H\x1b[0;7m{text}\x1b[m\x1b8").as_bytes())
    }

    /// Repaints the screen from the model, which does not contain the notice.
    fn remove_notice(&mut self) -> Result<(), ControlError> {
        let Size { rows, cols } = self.size;
        let mut bytes = self.model.snapshot(cols.into(), rows.into()).into_bytes();
        bytes.extend_from_slice(self.tail.unfinished().unwrap_or_default());
        self.show(&bytes)
    }

    /// Passes keys on to the wrapper. Returns true if one of the keys detaches.
    fn press(&mut self, keys: &[u8]) -> Result<bool, ControlError> {
        let detaches = self.settings.detach_key.find(keys);
        if !self.settings.drive {
            return Ok(detaches.is_some() || INTERRUPT.find(keys).is_some());
        }
        let keys = &keys[..detaches.unwrap_or(keys.len())];
        // Before the first snapshot, the person cannot see where keys would go.
        if !keys.is_empty() && self.is_shown {
            if self.to_send.len() < KEYS_MAX {
                self.send(&Request::Keys { bytes: Bytes(keys.to_vec()) });
            } else {
                self.write(BELL)?;
            }
        }
        Ok(detaches.is_some())
    }

    fn resize(&mut self) {
        if let Some(size) = tty::size() {
            self.size = size;
            self.model.resize(size.cols.into(), size.rows.into(), &mut NoObserver);
            let Size { rows, cols: columns } = size;
            self.send(&Request::Resize { columns, rows });
        }
    }

    fn send(&mut self, request: &Request) {
        let mut frame = Vec::new();
        request.append(&mut frame);
        self.to_send.push_back(frame);
        self.send_next();
    }

    fn send_next(&mut self) {
        if !self.is_sending
            && let Some(frame) = self.to_send.pop_front()
        {
            // If the writer has ended, the answers end, too.
            self.is_sending = self.threads.sender.try_send(frame).is_ok();
        }
    }

    fn sent(&mut self) {
        self.is_sending = false;
        self.send_next();
    }

    /// Sends keys that were typed before the person detached, for a limited time.
    fn flush(&mut self) {
        let until = now().plus(LAST_KEYS_MS);
        while self.is_sending {
            let left = Duration::from_millis(until.since(now()));
            match self.threads.sent.recv_timeout(left) {
                Ok(()) => self.sent(),
                Err(_) => return,
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        self.model.feed(bytes, &mut NoObserver);
        self.tail.feed(bytes);
        self.show(bytes)
    }

    /// Writes bytes to the terminal without feeding them to the model.
    fn show(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        let written =
            self.settings.screen.write_all(bytes).and_then(|()| self.settings.screen.flush());
        written.map_err(ControlError::System)
    }
}

/// The threads that read the person's keys and write to the wrapper.
struct Threads {
    keys: Receiver<Vec<u8>>,
    sender: Sender<Vec<u8>>,
    /// Signals that a frame was written.
    sent: Receiver<()>,
    stream: Stream,
    interrupter: Interrupter,
    handles: [JoinHandle<()>; 2],
}

impl Threads {
    fn start(stream: Stream, mut input: tty::Input) -> io::Result<Self> {
        let (pressed, keys) = bounded(1);
        let (sender, to_send) = bounded::<Vec<u8>>(1);
        let (signal_sent, sent) = bounded(1);
        let interrupter = input.interrupter();
        let out = stream.clone();
        // Waits for: its channel, the system, then the main thread's channel.
        let writer = spawn("control requests", move || {
            for frame in to_send {
                if (&out).write_all(&frame).is_err() || signal_sent.send(()).is_err() {
                    return;
                }
            }
        })?;
        // Waits for: the system (the terminal), then the main thread's channel.
        let reader = spawn("attached keys", move || {
            let mut buffer = vec![0; READ_BYTES];
            while let Ok(count @ 1..) = input.read(&mut buffer) {
                if pressed.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { keys, sender, sent, stream, interrupter, handles: [writer, reader] })
    }

    fn end(self) {
        let Self { keys, sender, sent, stream, interrupter, handles } = self;
        drop((keys, sender, sent));
        interrupter.interrupt();
        stream.hang_up();
        for thread in handles {
            // A panic was reported by the panic hook.
            drop(thread.join());
        }
    }
}
