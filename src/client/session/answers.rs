//! Answers to questions: said, and said again on a new connection while somebody may wait for them.
//!
//! Nothing tells that one arrived, and the daemon passes over all but the first.

use super::Output;
use crate::{
    client::message::{Event, SendId},
    protocol::{
        Moment,
        code::NackCode,
        frame::PREFIX,
        payload::{Nack, Sync},
    },
};
use std::collections::VecDeque;

/// Answers that are kept to be said again, and their bytes; the oldest make room.
const KEPT_MAX: usize = 256;
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Those that may have to be said again.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Whether a connection is there that takes frames of this many bytes.
    open: Option<usize>,
    kept: VecDeque<Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    delivery_id: String,
    frame: Vec<u8>,
    /// By then, nobody waits for it.
    until: Moment,
    /// It was written to a connection once.
    is_said: bool,
}

impl Answers {
    /// A connection is there: all that somebody may wait for is said on it.
    pub(super) fn open(&mut self, now: Moment, frame_bytes_max: u64, out: &mut Vec<Output>) {
        self.open = Some(usize::try_from(frame_bytes_max).unwrap_or(usize::MAX));
        for kept in std::mem::take(&mut self.kept) {
            self.bytes -= kept.frame.len();
            if kept.until > now {
                self.say(kept, out);
            } else {
                unsaid(kept, NackCode::Stale, "nobody waits for the answer any more", out);
            }
        }
    }

    pub(super) fn shut(&mut self) {
        self.open = None;
    }

    /// Takes one more. False where no frame of this connection can hold it, which the application hears.
    pub(super) fn add(
        &mut self,
        now: Moment,
        delivery_id: String,
        frame: Vec<u8>,
        timeout_ms: Option<u64>,
        out: &mut Vec<Output>,
    ) -> bool {
        let until = now.plus(timeout_ms.unwrap_or(Sync::TIMEOUT_MS));
        self.say(Kept { delivery_id, frame, until, is_said: false }, out)
    }

    /// The daemon doesn't want it.
    pub(super) fn forget(&mut self, delivery_id: &str) {
        self.kept.retain(|kept| kept.delivery_id != delivery_id);
        self.bytes = self.kept.iter().map(|kept| kept.frame.len()).sum();
    }

    fn say(&mut self, mut kept: Kept, out: &mut Vec<Output>) -> bool {
        let bytes = kept.frame.len();
        match self.open {
            Some(most) if bytes - PREFIX > most => {
                let why = format!(
                    "the answer takes {} bytes; the daemon's max_frame_bytes is {most}",
                    bytes - PREFIX
                );
                let send_id = SendId(kept.delivery_id.clone());
                let nack = Nack::new(kept.delivery_id, NackCode::TooLarge, why);
                out.push(Output::Event(Event::Refused { send_id, nack }));
                return false;
            }
            Some(_) => {
                kept.is_said = true;
                out.push(Output::Frame(kept.frame.clone()));
            }
            None => {}
        }
        self.bytes += bytes;
        self.kept.push_back(kept);
        while self.kept.len() > KEPT_MAX || self.bytes > KEPT_BYTES_MAX {
            let oldest = self.kept.pop_front().expect("something is over the bound");
            self.bytes -= oldest.frame.len();
            let why = "the relay is away, and too many answers wait for it";
            unsaid(oldest, NackCode::Limit, why, out);
        }
        true
    }
}

/// Tells the application that an answer will never be said, unless it was.
fn unsaid(kept: Kept, code: NackCode, why: &str, out: &mut Vec<Output>) {
    if !kept.is_said {
        let send_id = SendId(kept.delivery_id.clone());
        let nack = Nack::new(kept.delivery_id, code, why);
        out.push(Output::Event(Event::Refused { send_id, nack }));
    }
}
