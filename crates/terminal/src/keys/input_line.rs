//! The line that a person is typing, and whether it was begun and not submitted.
//!
//! Keys alone do not tell this: an arrow may bring back a line from the history, and a backspace
//! may empty the line. The screen alone does not tell it either: a password is not echoed. So both
//! are used.

use super::{decoder::KeyDecoder, key::Key};
use crate::bounded;
use protocol::Moment;
use std::collections::VecDeque;

/// How many texts before an empty line's cursor are remembered.
const EMPTY_LOOKS_MAX: usize = 8;

/// The line that the person is typing.
///
/// In its functions, `before` is the text from the beginning of the cursor's row to the cursor.
#[derive(Debug, Default)]
pub(crate) struct InputLine {
    decoder: KeyDecoder,
    draft: Option<Draft>,
    /// Whether a key since the last submission may make a line editor take text for commands.
    may_be_in_command_mode: bool,
    /// Texts before the cursor while the line was known to be empty.
    empty_looks: VecDeque<String>,
    /// When an unfinished sequence arrived, and the text before the cursor then. The sequence is a
    /// key, or the beginning of a longer sequence or of a terminal's answer.
    unfinished: Option<(Moment, String)>,
}

/// The kinds of keys in one call of [`InputLine::press`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pressed {
    /// Whether there is any key, rather than only answers and reports of the terminal.
    pub any: bool,
    /// Whether one of the keys submits the line, as far as the decoder can tell.
    pub submit: bool,
}

/// A line that was begun.
#[derive(Debug, Default)]
struct Draft {
    /// The text before the cursor when the line was begun.
    initial: String,
    /// The text before the cursor when the person last typed text.
    before_last_text: String,
    /// Whether the screen has not shown that typed text yet.
    awaits_echo: bool,
    /// Whether the input contains a line break, so that the text before the cursor is only a part
    /// of it.
    is_multiline: bool,
}

impl InputLine {
    /// Reads bytes from the person's terminal. A line feed is a line break with `line_feed_breaks`,
    /// and an Enter otherwise.
    pub(crate) fn press(
        &mut self,
        now: Moment,
        bytes: &[u8],
        before: &str,
        line_feed_breaks: bool,
    ) -> Pressed {
        self.expire_unfinished(now);
        let was_unfinished = self.decoder.is_unfinished();
        let mut pressed = Pressed::default();
        for &byte in bytes {
            let key = match self.decoder.next(now, byte) {
                None => continue,
                Some(Key::LineFeed) if line_feed_breaks => Key::LineBreak,
                Some(Key::LineFeed) => Key::Submit,
                Some(key) => key,
            };
            pressed.any |= key != Key::Report;
            pressed.submit |= matches!(key, Key::Submit | Key::LineBreakOrSubmit);
            self.apply(key, before);
        }
        if !self.decoder.is_unfinished() {
            self.unfinished = None;
        } else if !was_unfinished {
            self.unfinished = Some((now, before.to_owned()));
        }
        // An ESC at the end counts at once, since it may be the Escape key.
        pressed.any |= !bytes.is_empty() && self.decoder.ends_in_escape();
        pressed
    }

    /// Turns an unfinished sequence into a key on timeout. Returns when the key was pressed.
    pub(crate) fn expire_unfinished(&mut self, now: Moment) -> Option<Moment> {
        let key = self.decoder.expire(now)?;
        let (at, before) = self.unfinished.take()?;
        self.apply(key, &before);
        Some(at)
    }

    /// Whether the last bytes may be either a key or the beginning of a terminal's answer.
    #[must_use]
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.unfinished.is_some() && !self.decoder.ends_in_escape()
    }

    /// Whether a line editor may take text for commands, as vi does after Escape, or for the rest
    /// of an unfinished key sequence.
    #[must_use]
    pub(crate) fn may_take_text_for_commands(&self) -> bool {
        self.may_be_in_command_mode || self.unfinished.is_some()
    }

    /// Forgets modes and unfinished keys, because the keys went to another program.
    pub(crate) fn forget_mode(&mut self) {
        self.may_be_in_command_mode = false;
        self.unfinished = None;
    }

    /// Notes the text that the screen shows before the cursor.
    pub(crate) fn screen_shows(&mut self, before: &str) {
        if let Some(draft) = &mut self.draft {
            draft.awaits_echo &= before == draft.before_last_text;
        }
    }

    /// Whether the person has typed nothing since the last submission.
    #[must_use]
    pub(crate) fn is_untouched(&self) -> bool {
        self.draft.is_none() && !self.is_ambiguous()
    }

    /// Whether the line is empty, according to the keys and to the text before the cursor.
    #[must_use]
    pub(crate) fn is_empty(&self, before: &str) -> bool {
        match &self.draft {
            None => !self.is_ambiguous(),
            Some(draft) => {
                let looks_initial = before == draft.initial && !before.trim().is_empty();
                let looks_empty =
                    looks_initial || self.empty_looks.iter().any(|look| look == before);
                looks_empty && !draft.awaits_echo && !draft.is_multiline
            }
        }
    }

    /// Remembers the text before the cursor as an empty line's. The screen must be at rest.
    pub(crate) fn remember_empty_look(&mut self, before: &str) {
        if before.trim().is_empty() || self.empty_looks.iter().any(|look| look == before) {
            return;
        }
        bounded::push(&mut self.empty_looks, EMPTY_LOOKS_MAX, before.to_owned());
    }

    /// Drops a draft of one row, because the program has shown an empty line long after the last
    /// key. Keeps a draft of several rows, since only its last row may be empty.
    pub(crate) fn mark_empty(&mut self) {
        self.draft = self.draft.take().filter(|draft| draft.is_multiline);
    }

    fn apply(&mut self, key: Key, before: &str) {
        let (is_text, breaks_line) = match key {
            Key::Report | Key::NoEffect => return,
            Key::Submit | Key::LineFeed | Key::Abandon => {
                self.draft = None;
                self.may_be_in_command_mode = false;
                return;
            }
            Key::Escape => {
                self.may_be_in_command_mode = true;
                return;
            }
            Key::Text => (true, false),
            Key::LineBreak | Key::LineBreakOrSubmit => (true, true),
            Key::MayEdit => (false, false),
            Key::MayChangeMode => {
                self.may_be_in_command_mode = true;
                (false, false)
            }
        };
        let new_draft = || Draft {
            initial: self.unfinished.as_ref().map_or(before, |(_, before)| before).to_owned(),
            ..Draft::default()
        };
        let draft = self.draft.get_or_insert_with(new_draft);
        if is_text {
            before.clone_into(&mut draft.before_last_text);
            draft.awaits_echo = true;
        }
        draft.is_multiline |= breaks_line;
    }
}
