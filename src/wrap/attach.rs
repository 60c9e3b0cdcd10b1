//! A person's terminal as a second one of an agent: shows its screen, and may drive it.

mod detach_key;

pub use detach_key::DetachKey;

use super::{
    threads::spawn,
    visit::{Visit, VisitError, judged},
};
use crate::{
    bridge::screen::{NoObserver, Screen},
    protocol::{
        Moment,
        control::{Answer, Bytes, Ended, Request},
    },
};
use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use platform::{
    clock,
    pty::CTRL_BREAK,
    stop::{self, Signal},
    terminal::{self, Input, Interrupter, RawMode, Size},
    transport::Stream,
};
use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    thread::JoinHandle,
    time::Duration,
};

/// How long the first picture may take.
const PICTURE_MS: u64 = 10_000;

/// How long the last row says how to leave.
const NOTICE_MS: u64 = 3000;

/// Read at a time, in bytes; fits a frame.
const READ_BYTES: usize = 64 << 10;

/// How long the last keys may take when the person leaves.
const LAST_KEYS_MS: u64 = 1000;

/// Keys that wait for the agent, in reads: so many only where it doesn't read. One more sounds a bell.
const KEYS_MAX: usize = 256;

/// Without a deadline, the loop turns once in this time.
const IDLE_MS: u64 = 3_600_000;

/// Signals that wait.
const SIGNALS_MAX: usize = 16;

const BELL: &[u8] = b"\x07";
/// Ctrl-C, with which people leave what they only look at.
const INTERRUPT: DetachKey = DetachKey::INTERRUPT;

/// Who attaches, and how.
pub struct Settings {
    /// As whom the agent is shown.
    pub name: String,
    /// Keys go to the agent.
    pub drive: bool,
    /// What leaves it.
    pub detach_key: DetachKey,
    /// What the person types.
    pub keys: Input,
    /// What the person sees.
    pub screen: Box<dyn Write>,
}

/// How it went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// The agent runs on; this terminal doesn't show it any more.
    Detached,
    /// Its command has ended.
    Ended(Ended),
    /// This process is to stop.
    Stopped,
}

/// Shows the agent until the person leaves or it ends; the terminal is then as it was.
///
/// # Errors
/// If this is no terminal, the wrapper refuses, or it ends without a word.
pub fn attach(visit: &Visit, settings: Settings) -> Result<Left, VisitError> {
    let Some(size) = terminal::size() else {
        return Err(VisitError::Refused("this terminal doesn't know its size".into()));
    };
    let (told, signals) = bounded(SIGNALS_MAX);
    let listening = stop::listen(move |signal| {
        // Where so many wait already, another one changes nothing.
        let _ = told.try_send(signal);
    });
    let _listening = listening.map_err(VisitError::System)?;
    let _raw = RawMode::enter().map_err(VisitError::System)?;
    let Settings { name, drive, detach_key, keys, screen } = settings;
    let hands = Hands::start(visit.stream().clone(), keys).map_err(VisitError::System)?;
    let showing = Showing {
        name,
        drive,
        detach_key,
        hands,
        screen,
        size,
        // Only what it leaves on is of interest.
        model: Screen::new(size.cols.into(), size.rows.into()),
        to_say: VecDeque::new(),
        is_saying: false,
        shown: false,
        due: Some(now().plus(PICTURE_MS)),
    };
    showing.run(visit.answers(), &signals)
}

/// The loop's state.
struct Showing {
    name: String,
    drive: bool,
    detach_key: DetachKey,
    hands: Hands,
    screen: Box<dyn Write>,
    size: Size,
    model: Screen,
    to_say: VecDeque<Vec<u8>>,
    /// A frame is being said.
    is_saying: bool,
    /// The first picture has come.
    shown: bool,
    /// When it has to have come; or when the notice goes.
    due: Option<Moment>,
}

impl Showing {
    fn run(
        mut self,
        answers: &Receiver<Result<Answer, String>>,
        signals: &Receiver<Signal>,
    ) -> Result<Left, VisitError> {
        let Size { rows, cols: columns } = self.size;
        self.say(&Request::Attach { drive: self.drive, columns, rows });
        let left = loop {
            match self.turn(answers, signals) {
                Ok(None) => {}
                Ok(Some(left)) => break Ok(left),
                Err(error) => break Err(error),
            }
        };
        if left.as_ref().is_ok_and(|left| *left == Left::Detached) {
            self.say_rest();
        }
        if self.shown {
            let cleanup = self.model.cleanup();
            let bottom = format!("{cleanup}\x1b[r\x1b[{};1H\r\n", self.size.rows);
            // Where the terminal is gone, there is nothing to restore.
            drop(self.write(bottom.as_bytes()));
        }
        self.hands.end();
        left
    }

    /// Waits for what comes next; says when it is over.
    fn turn(
        &mut self,
        answers: &Receiver<Result<Answer, String>>,
        signals: &Receiver<Signal>,
    ) -> Result<Option<Left>, VisitError> {
        let left_ms = self.due.map_or(IDLE_MS, |due| due.since(now()));
        select! {
            recv(answers) -> heard => match heard {
                Ok(heard) => return self.hear(judged(heard)?),
                Err(_) => return Err(VisitError::Gone),
            },
            recv(self.hands.keys) -> keys => match keys {
                Ok(keys) => return Ok(self.press(&keys)?.then_some(Left::Detached)),
                // Nobody types any more.
                Err(_) => return Ok(Some(Left::Detached)),
            },
            recv(self.hands.said) -> said => match said {
                Ok(()) => self.said(),
                // The wrapper's last words are on their way, or its end.
                Err(_) => self.hands.said = never(),
            },
            recv(signals) -> signal => match signal {
                Ok(Signal::Resize) => self.resize(),
                Ok(Signal::Break) if self.drive => drop(self.press(CTRL_BREAK)?),
                Ok(Signal::Break) => return Ok(Some(Left::Detached)),
                Ok(Signal::Stop | Signal::HangUp) | Err(_) => return Ok(Some(Left::Stopped)),
            },
            default(Duration::from_millis(left_ms)) => {
                if !self.shown {
                    return Err(VisitError::TimedOut);
                }
                self.due = None;
                // A fresh picture takes the notice away.
                self.ask_for_picture();
            }
        }
        Ok(None)
    }

    fn hear(&mut self, answer: Answer) -> Result<Option<Left>, VisitError> {
        match answer {
            Answer::Screen { columns, rows, bytes } => {
                let is_first = !std::mem::replace(&mut self.shown, true);
                if is_first {
                    // What stood on this screen can be scrolled back to.
                    self.write("\r\n".repeat(self.size.rows.into()).as_bytes())?;
                }
                self.write(&bytes.0)?;
                if is_first {
                    self.notice(Size { rows, cols: columns })?;
                }
            }
            Answer::Output { bytes } => self.write(&bytes.0)?,
            Answer::Ended(ended) => return Ok(Some(Left::Ended(ended))),
            Answer::State(_) | Answer::Error { .. } => {}
        }
        Ok(None)
    }

    /// Says in the last row, for a moment, where one is and how to leave.
    fn notice(&mut self, theirs: Size) -> Result<(), VisitError> {
        let Self { name, detach_key, size, .. } = self;
        let verb = if self.drive { "attached to" } else { "looking at" };
        let mut text = format!(" {verb} {name}; {detach_key} leaves it running");
        let Size { rows, cols } = theirs;
        if rows > size.rows || cols > size.cols {
            text.push_str(&format!("; only a part of {cols}x{rows} fits"));
        }
        text.push(' ');
        let text: String = text.chars().take(size.cols.into()).collect();
        let rows = size.rows;
        self.due = Some(now().plus(NOTICE_MS));
        self.write(format!("\x1b7\x1b[{rows};1H\x1b[0;7m{text}\x1b[m\x1b8").as_bytes())
    }

    /// Passes keys on; true where one of them detaches.
    fn press(&mut self, keys: &[u8]) -> Result<bool, VisitError> {
        let detaches = self.detach_key.find(keys);
        if !self.drive {
            return Ok(detaches.is_some() || INTERRUPT.find(keys).is_some());
        }
        let keys = &keys[..detaches.unwrap_or(keys.len())];
        // Before the first picture nobody knows where they would go.
        if !keys.is_empty() && self.shown {
            if self.to_say.len() < KEYS_MAX {
                self.say(&Request::Keys { bytes: Bytes(keys.to_vec()) });
            } else {
                self.write(BELL)?;
            }
        }
        Ok(detaches.is_some())
    }

    fn resize(&mut self) {
        if let Some(size) = terminal::size() {
            self.size = size;
            self.model.resize(size.cols.into(), size.rows.into(), &mut NoObserver);
            self.ask_for_picture();
        }
    }

    fn ask_for_picture(&mut self) {
        let Size { rows, cols: columns } = self.size;
        self.say(&Request::Resize { columns, rows });
    }

    fn say(&mut self, request: &Request) {
        let mut frame = Vec::new();
        request.append(&mut frame);
        self.to_say.push_back(frame);
        self.say_next();
    }

    fn say_next(&mut self) {
        if !self.is_saying
            && let Some(frame) = self.to_say.pop_front()
        {
            // Where nothing can be said any more, the answers end as well.
            self.is_saying = self.hands.saying.try_send(frame).is_ok();
        }
    }

    fn said(&mut self) {
        self.is_saying = false;
        self.say_next();
    }

    /// What was typed before the person left goes to the agent, unless it doesn't read.
    fn say_rest(&mut self) {
        let until = now().plus(LAST_KEYS_MS);
        while self.is_saying {
            let left = Duration::from_millis(until.since(now()));
            match self.hands.said.recv_timeout(left) {
                Ok(()) => self.said(),
                Err(_) => return,
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), VisitError> {
        self.model.feed(bytes, &mut NoObserver);
        let written = self.screen.write_all(bytes).and_then(|()| self.screen.flush());
        written.map_err(VisitError::System)
    }
}

/// The threads that wait for the person's keys, and for the wrapper to take them.
struct Hands {
    keys: Receiver<Vec<u8>>,
    saying: Sender<Vec<u8>>,
    said: Receiver<()>,
    stream: Stream,
    interrupter: Interrupter,
    threads: [JoinHandle<()>; 2],
}

impl Hands {
    fn start(stream: Stream, mut input: Input) -> io::Result<Self> {
        let (pressed, keys) = bounded(1);
        let (saying, to_say) = bounded::<Vec<u8>>(1);
        let (tells_said, said) = bounded(1);
        let interrupter = input.interrupter();
        let out = stream.clone();
        let sayer = spawn("to a wrapper", move || {
            for frame in to_say {
                if (&out).write_all(&frame).is_err() || tells_said.send(()).is_err() {
                    return;
                }
            }
        })?;
        let typist = spawn("attached keys", move || {
            let mut buffer = vec![0; READ_BYTES];
            while let Ok(count @ 1..) = input.read(&mut buffer) {
                if pressed.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { keys, saying, said, stream, interrupter, threads: [sayer, typist] })
    }

    fn end(self) {
        let Self { keys, saying, said, stream, interrupter, threads } = self;
        drop((keys, saying, said));
        interrupter.interrupt();
        stream.hang_up();
        for thread in threads {
            // A panic of its own was reported where it happened.
            drop(thread.join());
        }
    }
}

fn now() -> Moment {
    Moment(clock::monotonic_ms())
}
