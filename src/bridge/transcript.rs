//! What a CLI writes down of its conversation, read as the file grows.
//!
//! Such a file holds a JSON object on each line. Every CLI has its own objects; a [`Reader`] makes
//! [`Record`]s of them, and passes over what it doesn't know: formats grow. Of a conversation that goes
//! on in an older file only what is said from now on counts.

mod claude;
mod codex;
mod gemini;

use serde::Deserialize;
use serde_json::value::RawValue;
use std::{
    collections::{HashSet, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

/// A longer line is passed over: what somebody says to another is never that long, but a tool's output
/// may be.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Lines that are remembered, for files that are written anew, and objects that are written again.
const SEEN_MAX: usize = 4096;

/// What is longer is no time.
const TIME_BYTES_MAX: usize = 64;

/// Whose files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Claude Code's, from 2.0 on.
    Claude,
    /// Codex's.
    Codex,
    /// Gemini CLI's.
    Gemini,
}

/// What of a conversation matters to the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// What the agent was told, word for word.
    Prompt(String),
    /// What it said: all of one text.
    Reply(String),
    /// It has done what it was told.
    TurnOver,
}

impl Format {
    /// Whether a file that begins with this line has the conversation of an agent that the program's own
    /// agent has started: what is said there is not said in its name.
    #[must_use]
    pub fn is_of_subagent(self, head: &str) -> bool {
        match self {
            // Its lines say so themselves.
            Self::Claude => false,
            Self::Codex => codex::is_of_subagent(head),
            Self::Gemini => gemini::is_of_subagent(head),
        }
    }
}

/// Reads one file.
#[derive(Debug)]
pub struct Reader {
    format: Format,
    /// What was written before it is another run's. A moment as all these files have it, `2026-11-20T12:00:00.000Z`, so
    /// that the order of such texts is that of the moments.
    since: String,
    /// In a file that is read again: all until this moment was read before, and is remembered no longer.
    past: String,
    /// The beginning of a line whose end is not written yet.
    line: Vec<u8>,
    /// The line is longer than any is read.
    overlong: bool,
    lines: Seen,
    objects: Seen,
    /// The turn that is written down has a prompt.
    prompted: bool,
}

/// What was read last, by what it is known again by.
#[derive(Debug, Default)]
struct Seen {
    /// With the time of each.
    order: VecDeque<(u64, Box<str>)>,
    all: HashSet<u64>,
    /// The time of what was forgotten last.
    forgotten: String,
}

impl Reader {
    /// A reader of a file from its beginning on.
    #[must_use]
    pub fn new(format: Format, since: String) -> Self {
        Self {
            format,
            since,
            past: String::new(),
            line: Vec::new(),
            overlong: false,
            lines: Seen::default(),
            objects: Seen::default(),
            prompted: false,
        }
    }

    /// What is written before this moment counts as another run's from now on: the clock was set.
    pub fn count_since(&mut self, since: String) {
        self.since = since;
    }

    /// The file is read from its beginning again. What was read of it before doesn't count twice.
    pub fn restart(&mut self) {
        self.line.clear();
        self.overlong = false;
        self.past.clone_from(&self.lines.forgotten);
    }

    /// The file goes on with these bytes.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Record>) {
        let mut pieces = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if self.line.len() + piece.len() > LINE_BYTES_MAX {
                self.overlong = true;
                self.line.clear();
            }
            if !self.overlong {
                self.line.extend_from_slice(piece);
            }
            if pieces.peek().is_some() {
                let line = std::mem::take(&mut self.line);
                if !std::mem::take(&mut self.overlong) {
                    self.line(&line, out);
                }
            }
        }
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) {
        let Ok(text) = std::str::from_utf8(line) else { return };
        let dated: Result<Dated<'_>, _> = serde_json::from_str(text);
        // What has no time belongs to no moment of the conversation.
        let at = dated.ok().and_then(|it| it.timestamp);
        let Some(at) = at.filter(|at| at.len() <= TIME_BYTES_MAX) else { return };
        if at >= &*self.since && at > &*self.past && !self.lines.again(text, at) {
            match self.format {
                Format::Claude => claude::read(text, out),
                Format::Codex => self.prompted = codex::read(text, self.prompted, out),
                Format::Gemini => gemini::read(text, at, &mut self.objects, out),
            }
        }
    }
}

impl Seen {
    /// Whether this was read before; from now on it was.
    fn again(&mut self, what: &str, at: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let number = hasher.finish();
        if !self.all.insert(number) {
            return true;
        }
        self.order.push_back((number, at.into()));
        if self.order.len() > SEEN_MAX
            && let Some((oldest, at)) = self.order.pop_front()
        {
            self.all.remove(&oldest);
            self.forgotten = at.into();
        }
        false
    }
}

#[derive(Deserialize)]
struct Dated<'a> {
    timestamp: Option<&'a str>,
}

/// A text, or a list of parts of which some are texts.
fn texts(content: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Part {
        text: Option<String>,
    }
    let content = content.get();
    if let Ok(text) = serde_json::from_str::<String>(content) {
        return vec![text];
    }
    let parts: Vec<Part> = serde_json::from_str(content).unwrap_or_default();
    parts.into_iter().filter_map(|part| part.text).collect()
}

#[cfg(test)]
mod tests;
