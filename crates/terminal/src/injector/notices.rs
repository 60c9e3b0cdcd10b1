//! The relay's own texts for the agent: the brief, and notices about the agent's messages.

use crate::recipe::Form;

/// The most notices that are typed together. Of further notices only the number is typed.
const NOTICES_MAX: usize = 16;

/// Texts of the relay that wait to be typed.
#[derive(Debug)]
pub(super) struct Notices {
    /// The brief, which is typed before all other texts.
    brief: Option<String>,
    is_brief_typed: bool,
    sentences: Vec<String>,
    omitted: usize,
    /// Whether notices were typed in this turn of the agent. If so, further notices wait for the
    /// next turn.
    is_turn_used: bool,
}

impl Notices {
    pub(super) fn new(brief: Option<String>) -> Self {
        Self {
            brief,
            is_brief_typed: false,
            sentences: Vec::new(),
            omitted: 0,
            is_turn_used: false,
        }
    }

    /// Sets the brief that is to be typed.
    pub(super) fn set_brief(&mut self, brief: Option<String>) {
        self.brief = brief;
    }

    /// Whether the brief was typed.
    pub(super) fn has_typed_brief(&self) -> bool {
        self.is_brief_typed
    }

    /// Leaves the brief to the hooks from now on. Returns whether it was typed since the last call.
    pub(super) fn end_brief(&mut self) -> bool {
        self.brief = None;
        std::mem::take(&mut self.is_brief_typed)
    }

    pub(super) fn add(&mut self, sentence: String) {
        if self.sentences.len() < NOTICES_MAX {
            self.sentences.push(sentence);
        } else {
            self.omitted += 1;
        }
    }

    /// Whether something waits to be typed in this turn.
    pub(super) fn are_due(&self) -> bool {
        self.brief.is_some() || self.may_be_typed()
    }

    /// Notes that the agent has begun another turn.
    pub(super) fn begin_turn(&mut self) {
        self.is_turn_used = false;
    }

    /// Takes the next text: the brief if it can be typed in this form, then all notices as one
    /// line.
    pub(super) fn take(&mut self, form: Form) -> Option<String> {
        let brief = if form == Form::Plain { self.brief.take() } else { None };
        self.is_brief_typed |= brief.is_some();
        brief.or_else(|| self.may_be_typed().then(|| self.take_line()))
    }

    fn may_be_typed(&self) -> bool {
        !self.is_turn_used && !self.sentences.is_empty()
    }

    fn take_line(&mut self) -> String {
        self.is_turn_used = true;
        let mut line = self.sentences.join(" ").replace(['\n', '\r'], " ");
        self.sentences.clear();
        match std::mem::take(&mut self.omitted) {
            0 => {}
            omitted => line.push_str(&format!(" ({omitted} more of your messages had trouble.)")),
        }
        line
    }
}
