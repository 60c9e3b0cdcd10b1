//! The rules for everything that a terminal side types, whatever its inputs were. Random inputs
//! (`tests::random_inputs`) and a fuzzer's bytes ([`fuzz`]) are checked against them.

pub mod fuzz;

use crate::{
    TerminalSide,
    frame::{PASTE_BEGINS, PASTE_ENDS},
};
use protocol::{Moment, text::is_hidden};
use std::collections::BTreeMap;

/// How many deadlines may pass at once.
const TICKS_MAX: usize = 2_000;

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Waiting,
    Acknowledged,
    Returned,
}

/// The fate of each message. It is decided once.
#[derive(Debug, Default)]
pub(crate) struct Fates(BTreeMap<String, Fate>);

impl Fates {
    pub(crate) fn deliver(&mut self, id: &str) {
        self.0.insert(id.to_owned(), Fate::Waiting);
    }

    pub(crate) fn decide(&mut self, id: &str, fate: Fate) {
        let before = self.0.insert(id.to_owned(), fate);
        assert_eq!(before, Some(Fate::Waiting), "{id} is decided once");
    }

    pub(crate) fn of(&self, id: &str) -> Option<Fate> {
        self.0.get(id).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.0.values().filter(|fate| **fate == Fate::Waiting).count()
    }

    pub(crate) fn check_end(&self) {
        assert_eq!(self.waiting(), 0, "messages are lost: {:?}", self.0);
    }
}

/// Steps through the deadlines of a terminal side up to a moment. Fails if they stop advancing.
#[derive(Debug, Default)]
pub(crate) struct Ticks(usize);

impl Ticks {
    /// Moves `now` to the next deadline, or, if that is not before `until`, to `until`.
    pub(crate) fn next(&mut self, side: &TerminalSide, now: &mut Moment, until: Moment) -> bool {
        let Some(due) = side.deadline().filter(|due| *due <= until) else {
            *now = until;
            return false;
        };
        *now = due.max(*now);
        self.0 += 1;
        assert!(self.0 < TICKS_MAX, "the deadline {due:?} does not move at {now:?}");
        true
    }
}

/// Returns the lines of a typed text, and whether they were pasted. The text must not press a key
/// that ends a paste or hides a part of it.
pub(crate) fn typed_lines(text: &str) -> (&str, bool) {
    let pasted = text.strip_prefix(PASTE_BEGINS).and_then(|text| text.strip_suffix(PASTE_ENDS));
    let lines = pasted.unwrap_or(text);
    let allowed = match pasted {
        Some(_) => "\n\t",
        None if text.starts_with("[relay ") => "\n",
        None => "\r",
    };
    let is_allowed = |c: char| allowed.contains(c) || !c.is_control() && !is_hidden(c);
    assert!(lines.chars().all(is_allowed), "{text:?}");
    (lines, pasted.is_some())
}

/// Whether the bytes are a terminal's answers to queries: control sequences with numeric
/// parameters.
pub(crate) fn is_terminal_answer(bytes: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_digit() || b"?>;".contains(byte);
    let mut answers = bytes.split(|byte| *byte == 0x1b);
    answers.next().is_some_and(<[u8]>::is_empty)
        && answers.all(|answer| {
            let digits = answer.strip_prefix(b"[").and_then(<[u8]>::split_last);
            digits.is_some_and(|(last, digits)| {
                last.is_ascii_alphabetic() && digits.iter().all(is_plain)
            })
        })
}
