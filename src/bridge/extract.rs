//! (being written) Bytes of a terminal in, messages out.

use super::screen::Screen;

/// Milliseconds of the caller's clock.
pub type Moment = u64;

/// Whom a message is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// One agent, by name.
    Agent(String),
    /// `*`.
    Everyone,
    /// `#topic`: its subscribers.
    Topic(String),
}

/// What an agent said to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    /// For whom.
    pub to: Target,
    /// The payload's kind: `message`, or a block's `type`.
    pub kind: String,
    /// The text.
    pub body: String,
    /// `[thread:ID]`.
    pub thread: Option<String>,
    /// `[topic:T]`; none where `to` is a topic itself.
    pub topic: Option<String>,
    /// `[reply:ID]`, the first characters of the id of a delivery.
    pub reply: Option<String>,
    /// A block's `data`, as JSON text.
    pub data: Option<String>,
    /// A block's `meta`, as JSON text.
    pub meta: Option<String>,
}

/// Something that looked like a message and is none: the agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Which rule it broke.
    pub what: Fault,
    /// One sentence that says what was wrong and how it goes right.
    pub sentence: String,
    /// The row where it began.
    pub row: String,
}

/// Which rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An opener with a target, tag or topic that is not allowed.
    Opener,
    /// A message or block that was not closed.
    Unclosed,
    /// A block that is not the JSON it has to be.
    Block,
    /// A body over the limit.
    TooLarge,
    /// A body that repeats what was injected.
    Echo,
}

/// What extraction says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Extracted {
    /// A message to send.
    Found(Message),
    /// A sentence for the agent (at most one a turn is typed: the bridge sees to that).
    Problem(Problem),
}

/// Reads messages off a screen.
pub struct Extractor {
    screen: Screen,
}

impl Extractor {
    /// For a child that runs: rows are final when they scroll off or have stood for 300 ms.
    pub fn live(_columns: usize, _rows: usize) -> Self {
        Self { screen: Screen::new(_columns, _rows) }
    }
    /// For recorded bytes: rows are final when they scroll off, when their alternate screen is left, at the end.
    pub fn offline(_columns: usize, _rows: usize) -> Self {
        Self { screen: Screen::new(_columns, _rows) }
    }
    /// The one-line form `->relay:Bob hello` counts as well (off by default).
    pub fn allow_inline(&mut self) {}
    /// The child wrote `bytes`.
    pub fn feed(&mut self, _now: Moment, _bytes: &[u8], _out: &mut Vec<Extracted>) {}
    /// The terminal has another size (clamped to what is sane).
    pub fn resize(
        &mut self,
        _now: Moment,
        _columns: usize,
        _rows: usize,
        _out: &mut Vec<Extracted>,
    ) {
    }
    /// Time passed; due at `deadline`.
    pub fn tick(&mut self, _now: Moment, _out: &mut Vec<Extracted>) {}
    /// The recipe saw that the agent's turn is over.
    pub fn turn_over(&mut self, _now: Moment, _out: &mut Vec<Extracted>) {}
    /// The child is gone: everything is final.
    pub fn finish(&mut self, _now: Moment, _out: &mut Vec<Extracted>) {}
    /// When `tick` has something to do.
    pub fn deadline(&self) -> Option<Moment> {
        None
    }
    /// `body` is being typed into the agent in a frame with these six digits: what the screen shows of it is no message.
    pub fn remember_injected(&mut self, _hex: &str, _body: &str) {}
    /// The screen, for injection.
    pub fn screen(&self) -> &Screen {
        &self.screen
    }
    /// The screen, to take its answers.
    pub fn screen_mut(&mut self) -> &mut Screen {
        &mut self.screen
    }
}

/// All messages and problems of a recording.
pub fn extract_recording(
    _bytes: &[u8],
    _columns: usize,
    _rows: usize,
) -> (Vec<Message>, Vec<Problem>) {
    (Vec::new(), Vec::new())
}
