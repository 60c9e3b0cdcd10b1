//! One turn in a transcript, a prompt and its answers, and what of it the screen has shown.
//!
//! Texts are compared by their letters and digits alone: a screen wraps lines, draws frames around
//! them and leaves out the marks of Markdown.

use crate::{bridge::screen::Screen, protocol::Moment};

/// Letters of a prompt, or of a line of an answer, that are looked for on the screen.
const LETTERS_MAX: usize = 30;

/// Letters without which a text is too short to be recognised.
const LETTERS_MIN: usize = 4;

/// Lines at an answer's end that are looked for on the screen.
const LINES_MAX: usize = 3;

/// Bytes of the answers of one turn that are kept.
const ANSWERS_BYTES_MAX: usize = 64 << 10;

/// An Enter that the person typed.
#[derive(Clone)]
pub(super) struct Enter {
    pub(super) at: Moment,
    /// The letters that were on the screen then.
    pub(super) screen: String,
}

/// One turn of an agent, as its transcript records it.
pub(super) struct Turn {
    /// The first letters of the prompt.
    pub(super) prompt: String,
    /// When the prompt was recorded.
    pub(super) prompted_at: Moment,
    /// When the last answer was recorded, or else the prompt.
    pub(super) answered_at: Moment,
    /// The Enter that may have submitted the prompt here.
    pub(super) enter: Option<Enter>,
    /// The prompt has been on the screen.
    pub(super) is_prompt_on_screen: bool,
    /// A rival existed, and has another prompt now: the evidence cannot decide any more.
    pub(super) had_rival: bool,
    last_answer: Answer,
    /// The letters of all answers.
    answers: String,
}

/// The last answer of a turn, by the letters of its last lines.
enum Answer {
    /// There is none, or none that could be recognised.
    None,
    /// An answer that has not been on the screen since the Enter.
    Recorded(Vec<String>),
    /// An answer that has been on the screen since this moment.
    OnScreen(Vec<String>, Moment),
}

impl Answer {
    fn lines(&self) -> &[String] {
        match self {
            Self::None => &[],
            Self::Recorded(lines) | Self::OnScreen(lines, _) => lines,
        }
    }
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
            last_answer: Answer::None,
            answers: String::new(),
        }
    }

    /// Adds an answer that was recorded now. One without a line that could be recognised on the
    /// screen is ignored.
    pub(super) fn answer(&mut self, text: &str, now: Moment) {
        let lines: Vec<_> = last_lines(text).collect();
        if lines.is_empty() {
            return;
        }
        self.last_answer = Answer::Recorded(lines);
        self.answered_at = now;
        if self.answers.len() <= ANSWERS_BYTES_MAX {
            self.answers.extend(letters(text));
        }
    }

    /// Compares the turn with the letters on the screen. An answer that was on the screen at the
    /// Enter already belongs to an earlier turn.
    pub(super) fn compare(&mut self, now: Moment, screen: &str) {
        let is_shown =
            |lines: &[String], screen: &str| lines.iter().all(|line| screen.contains(line));
        self.is_prompt_on_screen |= !is_too_short(&self.prompt) && screen.contains(&self.prompt);
        if let Answer::Recorded(lines) = &mut self.last_answer
            && !self.enter.as_ref().is_some_and(|enter| is_shown(lines, &enter.screen))
            && is_shown(lines, screen)
        {
            self.last_answer = Answer::OnScreen(std::mem::take(lines), now);
        }
    }

    /// Whether the turn has an answer that can be recognised on the screen.
    pub(super) fn is_answered(&self) -> bool {
        !matches!(self.last_answer, Answer::None)
    }

    /// Since when the last answer has been on the screen, if the prompt has been there, too.
    pub(super) fn on_screen_since(&self) -> Option<Moment> {
        self.answer_shown_at().filter(|_| self.is_prompt_on_screen)
    }

    fn answer_shown_at(&self) -> Option<Moment> {
        match self.last_answer {
            Answer::OnScreen(_, since) => Some(since),
            Answer::None | Answer::Recorded(_) => None,
        }
    }

    /// Whether an Enter here may have submitted the prompt, which has been on the screen.
    pub(super) fn was_submitted_here(&self) -> bool {
        self.is_prompt_on_screen && self.enter.is_some()
    }

    /// Whether the turn, which is over, may have been the child's: an Enter here may have submitted
    /// it, and the screen has shown its prompt or its last answer, or the prompt is too short to be
    /// recognised.
    pub(super) fn may_be_of_child(&self) -> bool {
        let is_shown = self.is_prompt_on_screen || self.answer_shown_at().is_some();
        self.enter.is_some() && (is_shown || is_too_short(&self.prompt))
    }

    /// Whether this turn has answers, none of them the last one of `other`, and its own last one is
    /// not on the screen.
    pub(super) fn answers_otherwise(&self, other: &Self) -> bool {
        let is_known = !self.answers.is_empty() && self.answers.len() <= ANSWERS_BYTES_MAX;
        let has_answer = other.last_answer.lines().iter().all(|line| self.answers.contains(line));
        is_known && !has_answer && self.answer_shown_at().is_none()
    }
}

/// The letters on a screen, all rows in one.
pub(in crate::bridge) fn letters_on(screen: &Screen) -> String {
    let rows = (0..screen.size().1).map(|index| screen.row(index).text);
    rows.map(|row| letters(&row).collect::<String>()).collect()
}

/// The letters and digits of a text.
fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|character| character.is_alphanumeric())
}

/// The first letters of the last lines of a text, but for lines that are too short.
fn last_lines(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().rev().map(|line| letters(line).take(LETTERS_MAX).collect::<String>());
    lines.filter(|line| !is_too_short(line)).take(LINES_MAX)
}

fn is_too_short(letters: &str) -> bool {
    letters.chars().count() < LETTERS_MIN
}
