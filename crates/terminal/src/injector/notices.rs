//! The relay's own texts for the agent: the brief, and notices about the agent's messages.
//!
//! A turn that a notice begins may lead to the next notice, without end. So notices begin only a
//! few turns after a person's prompt or a use of a tool. Later notices wait for the next message
//! and precede it, or share a turn after a long time.

use crate::{frame::plain, recipe::Form};
use protocol::Moment;

/// How many notices are typed together. Only the number of further notices is typed.
const NOTICES_MAX: usize = 16;

/// How many turns notices may begin after a person's prompt or a use of a tool.
const TURNS_MAX: u32 = 3;

/// The delays before each turn after those. The last delay applies to all later turns.
const LATER_MS: [u64; 3] = [60_000, 600_000, 3_600_000];

/// The maximum length of a path in a notice, in characters. The end of a longer path is shown.
const PATH_CHARS_MAX: usize = 160;

/// Returns the notice about a file that the agent and another agent have edited. A hook may give it
/// to the model with the relay's authority, and the path could pass as the relay's words. So
/// characters that are unusual in paths, including blanks, are replaced.
pub(super) fn collision(with: &str, path: &str) -> String {
    let allowed = |c: char| c.is_alphanumeric() || r"._-/\:@#+~".contains(c);
    let mut shown: Vec<_> = path.chars().map(|c| if allowed(c) { c } else { '?' }).collect();
    let surplus = shown.len().saturating_sub(PATH_CHARS_MAX);
    if surplus > 0 {
        shown.splice(..=surplus, ['…']);
    }
    let path: String = shown.into_iter().collect();
    format!("{} and you have edited the same file within ten minutes: `{path}`.", plain(with))
}

/// Texts of the relay that wait to be typed.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// The brief, to be typed before all other texts.
    pub(super) brief: Option<String>,
    pub(super) is_brief_typed: bool,
    sentences: Vec<Sentence>,
    /// The number of omitted notices that cannot wait.
    omitted: usize,
    /// Whether notices were typed in this turn. If so, further ones wait for the next turn.
    is_turn_used: bool,
    budget: Budget,
}

/// A notice.
#[derive(Debug)]
struct Sentence {
    text: String,
    /// Whether it begins no turn by itself. Such a notice has no words of others.
    can_wait: bool,
}

/// The budget of turns that notices may begin.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    /// The number of turns since the person's last prompt, or the last use of a tool.
    turns: u32,
    /// When the next turn may begin, once the first ones are used up.
    next_at: Option<Moment>,
}

impl Budget {
    /// Counts a turn.
    fn spend(&mut self, now: Moment) {
        self.turns = self.turns.saturating_add(1);
        if let Some(later) = self.turns.checked_sub(TURNS_MAX) {
            let ms = LATER_MS[(later as usize).min(LATER_MS.len() - 1)];
            self.next_at = Some(now.plus(ms));
        }
    }
}

impl Notices {
    pub(super) fn new(brief: Option<String>) -> Self {
        Self { brief, ..Self::default() }
    }

    /// Leaves the brief to the hooks from now on. Returns whether it was typed since the last call.
    pub(super) fn end_brief(&mut self) -> bool {
        self.brief = None;
        std::mem::take(&mut self.is_brief_typed)
    }

    /// Adds a notice. One that `can_wait` does not begin a turn. If there is no capacity, the
    /// oldest of these is dropped.
    pub(super) fn add(&mut self, text: String, can_wait: bool) {
        if self.sentences.len() >= NOTICES_MAX
            && let Some(first) = self.sentences.iter().position(|sentence| sentence.can_wait)
        {
            self.sentences.remove(first);
        }
        if self.sentences.len() < NOTICES_MAX {
            self.sentences.push(Sentence { text, can_wait });
        } else if !can_wait {
            self.omitted += 1;
        }
    }

    /// Returns the waiting notices.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &str> {
        self.sentences.iter().map(|sentence| &*sentence.text)
    }

    /// Returns when a text is due in this turn.
    pub(super) fn due_at(&self) -> Option<Moment> {
        let is_urgent = self.sentences.iter().any(|sentence| !sentence.can_wait);
        match () {
            () if self.brief.is_some() => Some(Moment::default()),
            () if self.is_turn_used || !is_urgent => None,
            () => Some(self.budget.next_at.unwrap_or_default()),
        }
    }

    /// Notes that the agent has begun another turn.
    pub(super) fn begin_turn(&mut self) {
        self.is_turn_used = false;
    }

    /// Notes a prompt of the person, or the use of a tool.
    pub(super) fn renew_budget(&mut self) {
        self.budget = Budget::default();
    }

    /// Takes the brief if this form can carry it.
    pub(super) fn take_brief(&mut self, form: Form) -> Option<String> {
        let brief = self.brief.take_if(|_| form == Form::Plain)?;
        self.is_brief_typed = true;
        Some(brief)
    }

    /// Takes all notices as one line, for a separate turn.
    pub(super) fn take(&mut self, now: Moment) -> Option<String> {
        self.due_at().filter(|at| *at <= now && self.brief.is_none())?;
        self.is_turn_used = true;
        self.budget.spend(now);
        self.take_line()
    }

    /// Takes all notices as one line, to precede a message in its turn.
    pub(super) fn take_rider(&mut self, form: Form) -> Option<String> {
        if form == Form::Plain { self.take_line() } else { None }
    }

    /// Takes the notices without words of others, for a hook.
    pub(super) fn take_own(&mut self) -> Vec<String> {
        let own = self.sentences.extract_if(.., |sentence| sentence.can_wait);
        own.map(|sentence| sentence.text).collect()
    }

    fn take_line(&mut self) -> Option<String> {
        let texts: Vec<_> = self.sentences.drain(..).map(|sentence| sentence.text).collect();
        let mut line = texts.join(" ").replace(['\n', '\r'], " ");
        match std::mem::take(&mut self.omitted) {
            0 => {}
            omitted => line
                .push_str(&format!(" ({omitted} more notices about your messages were left out.)")),
        }
        (!line.is_empty()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collision_names_agent_and_file() {
        let shown = |path: &str| {
            let sentence = collision("B]ob\n", path);
            let start = "B?ob? and you have edited the same file within ten minutes: `";
            sentence.strip_prefix(start).unwrap().strip_suffix("`.").unwrap().to_owned()
        };
        assert_eq!(shown("/w/ä_1~.rs"), "/w/ä_1~.rs");
        assert_eq!(shown(r"C:\w\a.rs"), r"C:\w\a.rs");
        assert_eq!(shown("/w/`]\n\u{1b}[relay x\u{202e}"), "/w/?????relay?x?");
        let full = "a".repeat(PATH_CHARS_MAX);
        assert_eq!(shown(&full), full);
        assert_eq!(shown(&format!("b/{full}")), format!("…{}", &full[1..]));
    }
}
