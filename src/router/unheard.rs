//! What a client says while it isn't read from: it is heard in its turn, once that client takes its answers.
//!
//! A gate stops the next read. What was read before it shut still comes, as much as the inbox holds. Most of
//! it is answered in a few words; but a frame of a hundred bytes can have an answer that is as long as a frame
//! may be, and such a one waits, with all behind it.

use super::{ClientId, Router, client::Stage};
use crate::protocol::{
    code::{ErrorCode, Violation},
    envelope::{Envelope, Kind},
    name::{EVERYONE, RELAY},
};
use std::collections::VecDeque;

/// Frames of one client, in order.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    frames: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Unheard {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn put(&mut self, json: &[u8]) {
        self.bytes += json.len();
        self.frames.push_back(json.into());
    }

    fn pop(&mut self) -> Option<Box<[u8]>> {
        let json = self.frames.pop_front()?;
        self.bytes -= json.len();
        Some(json)
    }
}

impl Router {
    /// Whether a frame of a client that isn't read from is to be heard later.
    pub(super) fn has_to_wait(&self, id: ClientId, json: &[u8]) -> bool {
        self.clients.get(&id).is_some_and(|client| {
            !matches!(client.stage, Stage::Member(_) | Stage::Stranger { .. })
                || !client.unheard.frames.is_empty()
                || self.memory_held() > self.limits.memory_bytes_max
                || can_have_long_answer(json)
        })
    }

    /// Keeps a frame of a client that isn't read from.
    pub(super) fn put_off(&mut self, id: ClientId, json: &[u8]) {
        self.make_room(json.len());
        let (held, limits) = (self.memory_held() + json.len(), &self.limits);
        let Some(client) = self.clients.get_mut(&id) else { return };
        let violation = match &client.stage {
            Stage::Closing { .. } | Stage::HungUp => return,
            Stage::Contender(contender)
                if client.unheard.bytes + json.len() > 2 * limits.frame_bytes_max =>
            {
                let name = &contender.applicant.name;
                let message = format!("{name} is connected, and this is too much to wait");
                Violation::new(ErrorCode::NameInUse, message)
            }
            Stage::Member(_) | Stage::Stranger { .. } if held > limits.memory_bytes_max => {
                let message = "answers wait to be read, and the daemon has no memory for more";
                Violation::new(ErrorCode::TooManyClients, message)
            }
            Stage::Contender(_) | Stage::Member(_) | Stage::Stranger { .. } => {
                client.unheard.put(json);
                self.memory.inside += json.len();
                return;
            }
        };
        self.violated(id, violation);
    }

    /// Hears what a client said meanwhile, as long as it takes its answers. Then it is read from again.
    pub(super) fn hear_on(&mut self, id: ClientId) {
        while self.may_be_heard(id)
            && let Some(json) = self.clients.get_mut(&id).and_then(|client| client.unheard.pop())
        {
            self.memory.inside -= json.len();
            self.hear(id, &json);
        }
        if self.may_be_heard(id) {
            self.gate(id, true);
        }
    }

    /// Whether it has taken so many of its answers that it may have more.
    fn may_be_heard(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| {
            matches!(client.stage, Stage::Member(_) | Stage::Stranger { .. })
                && client.window.answers() <= self.limits.answers_bytes_max / 2
        })
    }
}

/// Rows, SYNC, and answers that tell of many recipients.
fn can_have_long_answer(json: &[u8]) -> bool {
    Envelope::read(json).is_ok_and(|envelope| match envelope.kind {
        Kind::Resume => true,
        Kind::Send => envelope.to.is_none_or(|to| to == EVERYONE || to.eq_ignore_ascii_case(RELAY)),
        _ => false,
    })
}
