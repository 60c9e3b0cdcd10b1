//! The brief, if the CLI's hooks deliver it: each conversation gets it when it begins. If no hook
//! reports, the brief is typed.

use super::Injector;
use crate::{
    bounded,
    hooks::{Begins, HookedBrief},
    output::Caller,
};
use protocol::hook;
use std::{collections::VecDeque, mem};

/// How many conversations are remembered as having the brief.
const CONVERSATIONS_MAX: usize = 32;

/// The brief for hooks, and the conversations that have it.
#[derive(Debug)]
pub(super) struct Brief {
    text: HookedBrief,
    /// The brief as a prompt, in case no hook delivers it.
    prompt: Option<String>,
    /// Whether a turn has begun without a hook's report.
    is_turn_unreported: bool,
    /// The conversations that have the brief, by transcript or by id. Each has the hook that
    /// printed it, or `None` if it was typed.
    known_to: VecDeque<(String, Option<Caller>)>,
    /// Whether a compaction has lost the brief.
    is_lost: bool,
}

impl Brief {
    pub(super) fn new(text: HookedBrief, prompt: Option<String>) -> Self {
        let (is_turn_unreported, known_to, is_lost) = (false, VecDeque::new(), false);
        Self { text, prompt, is_turn_unreported, known_to, is_lost }
    }

    /// Whether the prompt is typed at the start unless a hook reports first. Not so if the CLI's
    /// hooks first report at a prompt: they cannot be waited for.
    pub(super) fn is_typed_at_start(&self) -> bool {
        self.text.begins == Begins::AtStart
    }

    fn remember(&mut self, conversation: String, hook: Option<Caller>) {
        self.known_to.retain(|(known, _)| *known != conversation);
        bounded::push(&mut self.known_to, CONVERSATIONS_MAX, (conversation, hook));
    }
}

impl Injector {
    /// Returns the brief for a new conversation, unless the conversation already has it.
    pub(super) fn brief_for(&mut self, caller: Caller, report: &hook::Report) -> Option<String> {
        let brief = self.brief.as_mut()?;
        let was_typed = self.notices.end_brief();
        // Some CLIs have no transcript yet when a conversation begins.
        let conversation = report.transcript.clone().or_else(|| report.session.clone());
        let conversation = conversation.unwrap_or_default();
        let is_known = was_typed || brief.known_to.iter().any(|(known, _)| *known == conversation);
        let forgets = report.forgets || mem::take(&mut brief.is_lost);
        if is_known && !forgets {
            if was_typed {
                brief.remember(conversation, None);
            }
            return None;
        }
        brief.remember(conversation, Some(caller));
        Some(brief.text.text.clone())
    }

    /// Notes that the conversation is about to lose the brief. The next prompt's hook delivers it.
    pub(super) fn note_lost_brief(&mut self) {
        if let Some(brief) = &mut self.brief {
            brief.is_lost = true;
        }
    }

    /// Returns the brief if the conversation has lost it.
    pub(super) fn lost_brief(&mut self, caller: Caller, report: &hook::Report) -> Option<String> {
        self.brief.as_ref().filter(|brief| brief.is_lost)?;
        self.brief_for(caller, report)
    }

    /// Notes that a hook probably has not printed the brief: it is typed instead.
    pub(super) fn take_back_brief(&mut self, caller: Caller) {
        let Some(brief) = &mut self.brief else { return };
        let given = brief.known_to.iter().position(|(_, hook)| *hook == Some(caller));
        if given.and_then(|at| brief.known_to.remove(at)).is_some() {
            self.notices.brief = brief.prompt.clone();
        }
    }

    /// Notes that a turn has begun. If the hooks report nothing before its end, they do not deliver
    /// the brief.
    pub(super) fn note_turn_for_brief(&mut self) {
        if let Some(brief) = self.brief.as_mut().filter(|_| !self.observer.work.is_heard) {
            brief.is_turn_unreported = true;
        }
    }

    /// Queues the brief for typing if a turn has ended without any hook's report.
    pub(super) fn type_brief_without_hooks(&mut self) {
        if let Some(brief) = self.brief.as_mut().filter(|_| !self.observer.work.is_heard)
            && brief.text.begins == Begins::WithPrompt
            && mem::take(&mut brief.is_turn_unreported)
            && !self.notices.is_brief_typed
        {
            self.notices.brief = brief.prompt.clone();
        }
    }
}
