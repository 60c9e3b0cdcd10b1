//! A message that was taken for one recipient and has not left yet, and the short texts it carries.

use super::{AgentKey, ClientId, Frame, StreamKey, doubles::Content};
use crate::protocol::{Moment, deliver::Proof, relay::Reported};
use std::sync::Arc;
use uuid::Uuid;

/// Room for a DELIVER's own part, with every number at its longest.
pub(super) const HEAD_BYTES: usize = 512;

/// The shortest rest of a message that was given back.
pub(super) const REST_MS_MIN: u64 = 50;

/// Failures after which a message is given up.
pub(super) const FAILURES_MAX: u32 = 10;

/// One delivery.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) from: AgentKey,
    /// The connection that said it, where that isn't its agent's own: it alone hears what becomes of it.
    pub(super) by: Option<ClientId>,
    pub(super) to: AgentKey,
    pub(super) stream: StreamKey,
    pub(super) seq: u64,
    /// Counts up over all messages.
    pub(super) order: u64,
    /// The SEND's.
    pub(super) send_id: SendId,
    /// What it counts for in its queue.
    pub(super) bytes: usize,
    pub(super) expires: Moment,
    /// When its alarm goes off.
    pub(super) alarm: Moment,
    /// It was delivered before and comes again at the recipient's wish: no queue has it, and its sender
    /// hears nothing more of it.
    pub(super) is_replay: bool,
    pub(super) body: Body,
}

impl Message {
    pub(super) const fn kept(&self) -> Option<&Kept> {
        match &self.body {
            Body::Kept(kept) => Some(kept),
            Body::Once(_) => None,
        }
    }

    pub(super) const fn kept_mut(&mut self) -> Option<&mut Kept> {
        match &mut self.body {
            Body::Kept(kept) => Some(kept),
            Body::Once(_) => None,
        }
    }

    /// It may not go out yet, nor what follows it in its stream.
    pub(super) fn is_held(&self) -> bool {
        self.kept().is_some_and(|kept| matches!(kept.state, State::Storing | State::Resting(_)))
    }
}

/// What goes out, and what is kept for the next time.
#[derive(Debug)]
pub(super) enum Body {
    /// At most once: the frame, which no other connection will get.
    Once(Frame),
    /// At least once.
    Kept(Kept),
}

/// What it takes to deliver a message again.
#[derive(Debug)]
pub(super) struct Kept {
    /// The DELIVER's.
    pub(super) id: Uuid,
    /// The message's number, in records.
    pub(super) message: u64,
    /// The same for every recipient and every attempt.
    pub(super) shared: Arc<[u8]>,
    pub(super) to_everyone: bool,
    /// When it was taken.
    pub(super) unix_ms: u64,
    pub(super) speaker: Speaker,
    /// How often it was handed out.
    pub(super) attempts: u32,
    /// How often the store believes it was.
    pub(super) recorded: u32,
    pub(super) failures: u32,
    pub(super) state: State,
    /// The sender's SEND, among those whose doubles are known.
    pub(super) content: Content,
    /// What its recipient said about it.
    pub(super) reported: Option<Box<Reported>>,
}

impl Kept {
    /// Takes the delivery back from its recipient. What that said about it no longer counts.
    pub(super) fn take_back(&mut self, state: State) {
        self.state = state;
        self.reported = None;
    }
}

/// Where an at-least-once message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not accepted before the store has it.
    Storing,
    /// In line.
    Waiting,
    /// Given back until then; the rest of its stream waits too.
    Resting(Moment),
    /// With the recipient.
    OnWay {
        /// All of it has left for the system.
        written: bool,
    },
}

/// Who says something, as the daemon knows it.
#[derive(Clone, Debug)]
pub(super) struct Speaker {
    pub(super) session: Arc<str>,
    pub(super) proof: Proof,
}

/// A SEND's id, kept to answer it later. The usual ones take no room of their own.
#[derive(Clone, Debug)]
pub(super) enum SendId {
    Short(u8, [u8; 36]),
    Long(Box<str>),
}

impl SendId {
    pub(super) fn new(text: &str) -> Self {
        let mut bytes = [0; 36];
        match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                Self::Short(text.len() as u8, bytes)
            }
            None => Self::Long(text.into()),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Short(length, bytes) => std::str::from_utf8(&bytes[..usize::from(*length)])
                .expect("it was made of a whole text"),
            Self::Long(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_whatever_their_length() {
        for text in ["", "m-001", &"é".repeat(18), &"é".repeat(19), &"i".repeat(128)] {
            assert_eq!(SendId::new(text).as_str(), text);
        }
    }
}
