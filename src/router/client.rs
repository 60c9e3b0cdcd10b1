//! A connection as the machine sees it: its stage, and what it was given to write.

use super::{
    AgentKey, ClientId, MessageKey,
    message::{SendId, Speaker},
    outcome::Outcome,
    unheard::Unheard,
};
use crate::protocol::{Moment, deliver::Proof, name::Name, payload::Capabilities, secret::Hash};
use std::collections::VecDeque;

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) stage: Stage,
    /// Who it is, from its WELCOME to its end.
    pub(super) agent: Option<AgentKey>,
    /// When the last frame came.
    pub(super) heard: Moment,
    /// When it was asked for a sign of life, and gave none since.
    pub(super) pinged: Option<Moment>,
    /// When its alarm goes off, if it has one.
    pub(super) alarm: Option<Moment>,
    pub(super) window: Window,
    /// It leaves its answers unread, or waits for a name, so it isn't read from.
    pub(super) is_gated: bool,
    /// What it said all the same.
    pub(super) unheard: Unheard,
}

/// How far a connection has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// It has said nothing that counts.
    Stranger {
        /// Its first moment.
        since: Moment,
    },
    /// It wants a name that somebody has, who is being asked for a sign of life.
    Contender(Box<Contender>),
    /// It speaks for an agent.
    Member(Box<Seat>),
    /// It was told why, and writes its last frames.
    Closing {
        /// When it was told.
        since: Moment,
    },
    /// Only its end is awaited.
    HungUp,
}

/// Who is to have a name, and why.
#[derive(Debug)]
pub(super) struct Applicant {
    pub(super) name: Name,
    pub(super) capabilities: Capabilities,
    pub(super) proof: Proof,
    /// Of the key that its companions have.
    pub(super) companion_key: Option<Hash>,
}

/// Who waits for a name.
#[derive(Debug)]
pub(super) struct Contender {
    pub(super) since: Moment,
    pub(super) applicant: Applicant,
}

/// From WELCOME to the end of the connection.
#[derive(Debug)]
pub(super) struct Seat {
    /// Its session's id, and how its agent is known.
    pub(super) speaker: Speaker,
    pub(super) capabilities: Capabilities,
    /// The store knows that the agent is here: after a crash, whatever waited for it may have been
    /// delivered once.
    pub(super) is_recorded: bool,
    /// Of the key that an agent's companions have, or that a companion showed.
    pub(super) companion_key: Option<Hash>,
    pub(super) tap: Option<Tap>,
}

impl Seat {
    pub(super) const fn new(
        speaker: Speaker,
        capabilities: Capabilities,
        companion_key: Option<Hash>,
    ) -> Self {
        Self { speaker, capabilities, is_recorded: false, companion_key, tap: None }
    }

    /// Whether it is one of many, at best, in the name of an agent that it isn't: a companion, an operator.
    /// Such a one speaks and hears answers, and nothing else is meant for it.
    pub(super) const fn is_beside(&self) -> bool {
        matches!(self.speaker.proof, Proof::Companion | Proof::Operator)
    }

    /// At-least-once DELIVERs that may be on the way.
    pub(super) const fn in_flight_max(&self) -> u64 {
        let takes_any = self.is_recorded && self.capabilities.ack;
        if takes_any { self.capabilities.max_inflight } else { 0 }
    }
}

/// It sees what is routed.
#[derive(Debug)]
pub(super) struct Tap {
    /// The request that asked for it.
    pub(super) asked: Box<str>,
    /// Copies that found no room.
    pub(super) lost: u64,
}

/// What was handed out and not reported as written, oldest first.
#[derive(Debug, Default)]
pub(super) struct Window {
    frames: VecDeque<Handed>,
    /// Bytes of the first one that were written already.
    written: usize,
    deliveries: usize,
    answers: usize,
}

/// One frame.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) bytes: usize,
    pub(super) what: What,
}

/// What a frame is, for when it is written or never will be.
#[derive(Debug)]
pub(super) enum What {
    /// An answer.
    Answer,
    /// What became of a message: it is still owed if it never is written.
    Outcome(Outcome),
    /// A tapper's copy, or a message that comes again.
    Copy,
    /// An at-most-once message.
    Once {
        from: AgentKey,
        /// As the message has it.
        by: Option<ClientId>,
        send_id: SendId,
        /// The message's.
        order: u64,
    },
    /// An at-least-once message.
    Kept(MessageKey),
}

impl What {
    /// It counts as an answer, not against a queue.
    pub(super) const fn is_answer(&self) -> bool {
        matches!(self, Self::Answer | Self::Outcome(_))
    }
}

impl Window {
    /// Whether a DELIVER may be handed out. One always may.
    pub(super) const fn has_room(&self, bytes: usize, window_bytes: usize) -> bool {
        self.deliveries == 0 || self.deliveries + bytes <= window_bytes
    }

    /// Bytes of answers that aren't written.
    pub(super) const fn answers(&self) -> usize {
        self.answers
    }

    pub(super) fn hand(&mut self, bytes: usize, what: What) {
        *self.line(&what) += bytes;
        self.frames.push_back(Handed { bytes, what });
    }

    /// More bytes have left; [`next_written`](Self::next_written) says of which frames.
    pub(super) const fn add_written(&mut self, bytes: usize) {
        self.written += bytes;
    }

    /// A frame of which the last byte has left.
    pub(super) fn next_written(&mut self) -> Option<Handed> {
        match self.frames.front() {
            Some(first) if first.bytes <= self.written => {
                self.written -= first.bytes;
                self.next_lost()
            }
            Some(_) => None,
            None => {
                self.written = 0;
                None
            }
        }
    }

    /// A frame that never will be written, or not all of it.
    pub(super) fn next_lost(&mut self) -> Option<Handed> {
        let handed = self.frames.pop_front()?;
        *self.line(&handed.what) -= handed.bytes;
        Some(handed)
    }

    /// What was handed out, to look through.
    pub(super) fn frames_mut(&mut self) -> impl Iterator<Item = &mut Handed> {
        self.frames.iter_mut()
    }

    const fn line(&mut self, what: &What) -> &mut usize {
        match what {
            What::Answer | What::Outcome(_) => &mut self.answers,
            What::Copy | What::Once { .. } | What::Kept(_) => &mut self.deliveries,
        }
    }

    pub(super) fn frames(&self) -> impl Iterator<Item = &Handed> {
        self.frames.iter()
    }
}
