//! A turn in a transcript: a prompt and its answers, and the parts that the screen has shown.
//!
//! Texts are compared by their letters and digits only, because a screen wraps lines, draws frames
//! around them and leaves out Markdown marks.

use crate::screen::Screen;
use protocol::Moment;

/// How many letters of a prompt, or of a line of an answer, are searched for on the screen.
const LETTERS_MAX: usize = 30;

/// A text with fewer letters is too short to be recognised.
const LETTERS_MIN: usize = 4;

/// How many of an answer's last lines are searched for on the screen.
const LINES_MAX: usize = 3;

/// The maximum size of one turn's stored answers, in bytes.
const ANSWERS_BYTES_MAX: usize = 64 << 10;

/// An Enter that the person typed.
#[derive(Clone)]
pub(super) struct Enter {
    pub(super) at: Moment,
    /// The letters and digits on the screen at that time.
    pub(super) screen: String,
}

/// A turn of an agent, as its transcript records it.
pub(super) struct Turn {
    /// The first letters of the prompt.
    pub(super) prompt: String,
    /// When the prompt was recorded.
    pub(super) prompted_at: Moment,
    /// When the last answer was recorded, or the prompt if there is no answer.
    pub(super) answered_at: Moment,
    /// The Enter that may have submitted the prompt here.
    pub(super) enter: Option<Enter>,
    /// Whether the prompt has been on the screen.
    pub(super) is_prompt_on_screen: bool,
    /// Whether another candidate was a rival of this turn and has another prompt now. If so, the
    /// evidence can no longer decide.
    pub(super) had_rival: bool,
    /// The letters of the last answer's last lines. Empty if there is no answer that can be
    /// recognised on the screen.
    last_answer: Vec<String>,
    /// Since when the last answer has been on the screen, after the Enter.
    answer_shown_at: Option<Moment>,
    /// The letters and digits of all answers.
    answers: String,
}

impl Turn {
    /// Begins a turn with a prompt that was recorded now.
    pub(super) fn new(prompt: &str, now: Moment, enter: Option<Enter>) -> Self {
        Self {
            prompt: letters(prompt).take(LETTERS_MAX).collect(),
            prompted_at: now,
            answered_at: now,
            enter,
            is_prompt_on_screen: false,
            had_rival: false,
            last_answer: Vec::new(),
            answer_shown_at: None,
            answers: String::new(),
        }
    }

    /// Adds an answer that was recorded now. Ignores an answer if none of its lines can be
    /// recognised on the screen.
    pub(super) fn answer(&mut self, text: &str, now: Moment) {
        let lines: Vec<_> = last_lines(text).collect();
        if lines.is_empty() {
            return;
        }
        (self.last_answer, self.answer_shown_at) = (lines, None);
        self.answered_at = now;
        if self.answers.len() <= ANSWERS_BYTES_MAX {
            self.answers.extend(letters(text));
        }
    }

    /// Compares the turn with the letters on the screen. An answer that was already on the screen
    /// when the Enter was typed does not count: it belongs to an earlier turn.
    pub(super) fn compare(&mut self, now: Moment, screen: &str) {
        let is_shown = |screen: &str| self.last_answer.iter().all(|line| screen.contains(line));
        let is_new = self.is_answered()
            && self.answer_shown_at.is_none()
            && !self.enter.as_ref().is_some_and(|enter| is_shown(&enter.screen))
            && is_shown(screen);
        if is_new {
            self.answer_shown_at = Some(now);
        }
        self.is_prompt_on_screen |= !is_too_short(&self.prompt) && screen.contains(&self.prompt);
    }

    /// Whether the turn has an answer that can be recognised on the screen.
    pub(super) fn is_answered(&self) -> bool {
        !self.last_answer.is_empty()
    }

    /// Returns since when the last answer has been on the screen, if the prompt was on the screen,
    /// too.
    pub(super) fn on_screen_since(&self) -> Option<Moment> {
        self.answer_shown_at.filter(|_| self.is_prompt_on_screen)
    }

    /// Whether the prompt was on the screen, and an Enter typed here may have submitted it.
    pub(super) fn was_submitted_here(&self) -> bool {
        self.is_prompt_on_screen && self.enter.is_some()
    }

    /// Whether this finished turn may have been the child's: an Enter here may have submitted the
    /// prompt, and either the screen has shown the prompt or the last answer, or the prompt is too
    /// short to be recognised.
    pub(super) fn may_be_of_child(&self) -> bool {
        let is_shown = self.is_prompt_on_screen || self.answer_shown_at.is_some();
        self.enter.is_some() && (is_shown || is_too_short(&self.prompt))
    }

    /// Whether this turn's answers differ from the last answer of `other`: all of them are known,
    /// none contains that answer, and this turn's own last answer is not on the screen.
    pub(super) fn answers_otherwise(&self, other: &Self) -> bool {
        let is_known = !self.answers.is_empty() && self.answers.len() <= ANSWERS_BYTES_MAX;
        let has_answer = other.last_answer.iter().all(|line| self.answers.contains(line));
        is_known && !has_answer && self.answer_shown_at.is_none()
    }
}

/// Returns the letters and digits on a screen as one string.
pub(crate) fn letters_on(screen: &Screen) -> String {
    let rows = (0..screen.size().1).map(|index| screen.row(index).text);
    rows.map(|row| letters(&row).collect::<String>()).collect()
}

/// Returns the letters and digits of a text.
fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|character| character.is_alphanumeric())
}

/// Returns the first letters of each of a text's last lines, without lines that are too short.
fn last_lines(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().rev().map(|line| letters(line).take(LETTERS_MAX).collect::<String>());
    lines.filter(|line| !is_too_short(line)).take(LINES_MAX)
}

fn is_too_short(letters: &str) -> bool {
    letters.chars().count() < LETTERS_MIN
}
