//! A bounded memory of recent injections: deliveries, the frames around them, and their senders'
//! sessions.

use crate::{bounded::push, input::IncomingMessage};
use protocol::{deliver::Proof, name::NAME_BYTES_MAX};
use std::collections::VecDeque;

/// How many ids of submitted deliveries are remembered.
const TYPED_MAX: usize = 1024;
/// How many frames are remembered, for rows of the screen and until a record confirms them.
const FRAMES_MAX: usize = 32;
/// How many senders' sessions are remembered.
const SENDERS_MAX: usize = 256;

/// A bounded memory of typed texts.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Ids of deliveries that were submitted, oldest first.
    typed: VecDeque<String>,
    /// The number of messages submitted so far.
    pub(super) count: u64,
    unconfirmed: VecDeque<UnconfirmedFrame>,
    /// The digits of the last frames, oldest first.
    frames: VecDeque<String>,
    /// Senders' names in lower case, with the session of their last message.
    senders: VecDeque<(String, String)>,
}

#[derive(Debug)]
struct UnconfirmedFrame {
    hex: String,
    /// The delivery in the frame; `None` for a text of the relay itself.
    id: Option<String>,
}

impl History {
    pub(super) fn was_typed(&self, id: &str) -> bool {
        self.typed.iter().any(|typed| typed == id)
    }

    pub(super) fn add_typed(&mut self, id: String) {
        self.count += 1;
        push(&mut self.typed, TYPED_MAX, id);
    }

    /// Returns the last typed delivery's id that begins with `prefix`.
    pub(super) fn find_typed(&self, prefix: &str) -> Option<String> {
        self.typed.iter().rev().find(|id| id.starts_with(prefix)).cloned()
    }

    /// Returns the digits of the last frames, oldest first.
    pub(super) fn frames(&self) -> Vec<&str> {
        self.frames.iter().map(String::as_str).collect()
    }

    pub(super) fn add_frame(&mut self, hex: String, id: Option<String>) {
        push(&mut self.frames, FRAMES_MAX, hex.clone());
        push(&mut self.unconfirmed, FRAMES_MAX, UnconfirmedFrame { hex, id });
    }

    pub(super) fn is_unconfirmed(&self, hex: &str) -> bool {
        self.unconfirmed.iter().any(|frame| frame.hex == hex)
    }

    /// Whether a prompt begins with a frame that was typed here and is not confirmed yet.
    pub(crate) fn typed_beginning_of(&self, prompt: &str) -> bool {
        let begins =
            |frame: &UnconfirmedFrame| prompt.starts_with(&format!("[relay {} from ", frame.hex));
        self.unconfirmed.iter().any(begins)
    }

    /// Forgets the frames that a record shows from beginning to end; `is_shown` tells by their
    /// digits. Returns the ids of their deliveries.
    pub(super) fn confirm(&mut self, is_shown: impl Fn(&str) -> bool) -> Vec<String> {
        let mut ids = Vec::new();
        self.unconfirmed.retain_mut(|frame| {
            let is_confirmed = is_shown(&frame.hex);
            if is_confirmed {
                ids.extend(frame.id.take());
            }
            !is_confirmed
        });
        ids
    }

    /// Returns how the daemon authenticated the sender, if the agent should see it.
    ///
    /// A key or a token is not shown. A name without proof is shown if the last message under that
    /// name came from another session.
    pub(super) fn auth_to_show(&mut self, message: &IncomingMessage) -> Option<Proof> {
        let auth = message.auth.filter(|auth| !matches!(auth, Proof::Key | Proof::Token))?;
        if auth != Proof::Claim {
            return Some(auth);
        }
        let name = message.from.get(..NAME_BYTES_MAX).unwrap_or(&message.from);
        let name = name.to_ascii_lowercase();
        let session = message.session.clone().unwrap_or_default();
        let known = self.senders.iter().position(|(known, _)| *known == name);
        let before = known.and_then(|at| self.senders.remove(at)).map(|(_, session)| session);
        let has_changed = before.is_some_and(|before| before != session);
        push(&mut self.senders, SENDERS_MAX, (name, session));
        has_changed.then_some(Proof::Claim)
    }
}
