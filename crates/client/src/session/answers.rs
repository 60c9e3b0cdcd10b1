//! Answers to questions, sent again on a new connection while their questions may be open.
//!
//! The daemon does not confirm answers, and ignores all but the first to a question.

use super::step::Output;
use protocol::{Moment, code::NackCode, frame::PREFIX, payload::Nack};
use std::collections::VecDeque;

/// The most answers that are stored to be sent again, and the most bytes of these answers. Beyond
/// either limit, the oldest answers are removed.
const ANSWERS_MAX: usize = 256;
const ANSWERS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The answers that may have to be sent again.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The longest frame of the connection, if there is one.
    frame_bytes_max: Option<usize>,
    answers: VecDeque<StoredAnswer>,
    bytes: usize,
}

#[derive(Debug)]
struct StoredAnswer {
    delivery_id: String,
    frame: Vec<u8>,
    /// The end of the time that the asking agent may wait for the answer.
    until: Moment,
    /// Whether the answer was written to a connection.
    is_sent: bool,
}

impl Answers {
    /// Handles a new connection: sends every stored answer to a question that may still be open.
    pub(super) fn connected(&mut self, now: Moment, frame_bytes_max: usize, out: &mut Vec<Output>) {
        self.frame_bytes_max = Some(frame_bytes_max);
        for answer in std::mem::take(&mut self.answers) {
            self.bytes -= answer.frame.len();
            if answer.until > now {
                self.send(answer, out);
            } else {
                refuse(answer, NackCode::Stale, "nobody waits for the answer any more", out);
            }
        }
    }

    pub(super) fn disconnected(&mut self) {
        self.frame_bytes_max = None;
    }

    /// Sends an answer, now or on a later connection if that opens before `until`. Returns false,
    /// and tells the application, if the answer is longer than the connection's frames may be.
    pub(super) fn add(
        &mut self,
        delivery_id: String,
        frame: Vec<u8>,
        until: Moment,
        out: &mut Vec<Output>,
    ) -> bool {
        self.send(StoredAnswer { delivery_id, frame, until, is_sent: false }, out)
    }

    /// Removes an answer that the daemon refused, so that it is not sent again.
    pub(super) fn remove(&mut self, delivery_id: &str) {
        self.answers.retain(|answer| answer.delivery_id != delivery_id);
        self.bytes = self.answers.iter().map(|answer| answer.frame.len()).sum();
    }

    fn send(&mut self, mut answer: StoredAnswer, out: &mut Vec<Output>) -> bool {
        let bytes = answer.frame.len();
        match self.frame_bytes_max {
            Some(max) if bytes - PREFIX > max => {
                out.push(Output::too_large(answer.delivery_id, "answer", bytes - PREFIX, max));
                return false;
            }
            Some(_) => {
                answer.is_sent = true;
                out.push(Output::Frame(answer.frame.clone()));
            }
            None => {}
        }
        self.bytes += bytes;
        self.answers.push_back(answer);
        while self.answers.len() > ANSWERS_MAX || self.bytes > ANSWERS_BYTES_MAX {
            let oldest = self.answers.pop_front().expect("the limits are above zero");
            self.bytes -= oldest.frame.len();
            let why = "the relay is away, and too many answers wait for it";
            refuse(oldest, NackCode::Limit, why, out);
        }
        true
    }
}

/// Tells the application that an answer will not be sent, unless it was sent before.
fn refuse(answer: StoredAnswer, code: NackCode, why: &str, out: &mut Vec<Output>) {
    if !answer.is_sent {
        out.push(Output::refused(Nack::new(answer.delivery_id, code, why)));
    }
}
