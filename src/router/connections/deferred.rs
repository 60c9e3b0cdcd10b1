//! Deferred frames of a paused client, which are handled once it has read its answers.
//!
//! A read pause stops the next read, but frames that were read before it are still in the inbox.
//! Most of these frames have short answers and are handled at once. A frame that may have a long
//! answer is deferred, and so are all frames after it.

use crate::protocol::{
    envelope::{Envelope, Kind},
    name::{EVERYONE, RELAY},
};
use std::collections::VecDeque;

/// The deferred frames of one client, in order.
#[derive(Debug, Default)]
pub(in crate::router) struct Deferred {
    frames: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Deferred {
    pub(in crate::router) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn push(&mut self, json: &[u8]) {
        self.bytes += json.len();
        self.frames.push_back(json.into());
    }

    pub(super) fn pop(&mut self) -> Option<Box<[u8]>> {
        let json = self.frames.pop_front()?;
        self.bytes -= json.len();
        Some(json)
    }
}

/// Whether a frame's answer may be long: rows of `@relay`, SYNC, or answers about many recipients.
pub(super) fn can_have_long_answer(json: &[u8]) -> bool {
    Envelope::read(json).is_ok_and(|envelope| match envelope.kind {
        Kind::Resume => true,
        Kind::Send => envelope.to.is_none_or(|to| to == EVERYONE || to.eq_ignore_ascii_case(RELAY)),
        Kind::Hello
        | Kind::Welcome
        | Kind::Deliver
        | Kind::Ack
        | Kind::Nack
        | Kind::Ping
        | Kind::Pong
        | Kind::Error
        | Kind::Busy
        | Kind::Sync
        | Kind::Bye
        | Kind::Subscribe
        | Kind::Unsubscribe => false,
    })
}
