//! Messages on their way out: held until the daemon has them, in order, and sent again when it is busy.

use super::{BACKOFF_MS_MAX, Output, dice::Dice};
use crate::{
    client::message::{Event, Outgoing, SendId},
    protocol::{
        Moment, Now,
        code::NackCode,
        envelope::{Header, Kind},
        frame::{FRAME_BYTES_MAX, PREFIX},
        name::EVERYONE,
        payload::{Ack, Busy, MessagePayload, Nack},
    },
};
use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

/// At-most-once messages kept after they left, since only a BUSY would tell that they weren't taken.
const RECENT_MESSAGES: usize = 256;
const RECENT_BYTES: usize = 4 * 1024 * 1024;

/// All that was handed over and isn't the daemon's yet.
///
/// Order is kept by recipient: behind a message that waits for a busy recipient, everything waits
/// that might reach the same one. Only what was on the way already when BUSY came can overtake it.
#[derive(Debug)]
pub(super) struct Hold {
    /// Whether a connection is there that takes frames of this many bytes.
    open: Option<usize>,
    /// The next message's place in the order.
    next: u64,
    /// To be sent, in order.
    waiting: VecDeque<Held>,
    /// At-least-once, sent and not answered.
    under_way: HashMap<String, Held>,
    /// How many of those were sent again after BUSY.
    retried: usize,
    /// At-most-once, sent a moment ago.
    recent: VecDeque<Held>,
    recent_bytes: usize,
}

#[derive(Debug)]
struct Held {
    order: u64,
    id: SendId,
    target: Target,
    at_least_once: bool,
    frame: Vec<u8>,
    /// What is given back to the application's account once it is let go; 0 afterwards.
    weight: usize,
    /// How often BUSY answered it.
    busy: u32,
    /// Not before.
    retry_at: Option<Moment>,
}

impl Held {
    fn blocks(&self, later: &Self) -> bool {
        self.target.blocks(&later.target)
    }
}

/// Who may get a message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// One agent, its name in lower case.
    One(String),
    /// Anyone.
    Several,
    /// Those that had no room, in lower case; the others have it.
    Rest(Vec<String>),
}

impl Target {
    fn of(message: &Outgoing) -> Self {
        match message.to.as_deref() {
            Some(to) if to != EVERYONE => Self::One(to.to_ascii_lowercase()),
            _ => Self::Several,
        }
    }

    /// Whether `later` might overtake this one at some recipient.
    fn blocks(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::One(name), Self::One(other)) => name == other,
            (Self::Rest(names), Self::One(other)) => names.contains(other),
            _ => true,
        }
    }
}

impl Hold {
    pub(super) fn new() -> Self {
        Self {
            open: None,
            next: 0,
            waiting: VecDeque::new(),
            under_way: HashMap::new(),
            retried: 0,
            recent: VecDeque::new(),
            recent_bytes: 0,
        }
    }

    /// A connection is there: everything that waits goes out.
    pub(super) fn open(&mut self, now: Now, frame_bytes_max: u64, out: &mut Vec<Output>) {
        self.open = Some(usize::try_from(frame_bytes_max).unwrap_or(FRAME_BYTES_MAX));
        for held in &mut self.waiting {
            held.retry_at = None;
        }
        self.flush(now, out);
    }

    /// The connection is gone: what wasn't answered waits again, as the same messages. Of what goes at
    /// most once, nothing that some may have: who has it isn't known any more where the daemon has died.
    pub(super) fn shut(&mut self, out: &mut Vec<Output>) {
        self.open = None;
        self.retried = 0;
        self.recent.clear();
        self.recent_bytes = 0;
        let mut all: Vec<_> = self.under_way.drain().map(|(_, held)| held).collect();
        all.extend(self.waiting.drain(..));
        all.sort_by_key(|held| held.order);
        for held in all {
            if held.at_least_once || !matches!(held.target, Target::Rest(_)) {
                self.waiting.push_back(held);
            } else {
                out.push(Self::had_no_room(held.id.0));
            }
        }
    }

    /// Takes one more.
    pub(super) fn add(
        &mut self,
        now: Now,
        id: SendId,
        message: &Outgoing,
        weight: usize,
        out: &mut Vec<Output>,
    ) {
        let held = Held {
            order: self.next,
            target: Target::of(message),
            at_least_once: message.meta.requires_ack || message.meta.sync.is_some(),
            frame: encode(now, &id, message),
            id,
            weight,
            busy: 0,
            retry_at: None,
        };
        self.next += 1;
        let blocked = self.waiting.iter().chain(self.retried()).any(|it| it.blocks(&held));
        if self.open.is_none() || blocked {
            self.waiting.push_back(held);
        } else {
            self.launch(held, out);
        }
    }

    /// The daemon has it.
    pub(super) fn accepted(&mut self, now: Now, ack: &Ack<'_>, out: &mut Vec<Output>) {
        if self.let_go(&ack.ack_id, out) {
            let send_id = SendId(ack.ack_id.clone().into_owned());
            let Ack { recipients, away, .. } = *ack;
            out.push(Output::Event(Event::Accepted { send_id, recipients, away }));
            self.flush(now, out);
        }
    }

    /// The daemon, or a recipient, doesn't want it. Later NACKs about one that was taken pass through.
    pub(super) fn refused(&mut self, now: Now, nack: Nack, out: &mut Vec<Output>) {
        // Of several recipients, the others may still get it: its own answer follows.
        if nack.to.is_none() || matches!(self.target(&nack.ack_id), Some(Target::One(_))) {
            self.let_go(&nack.ack_id, out);
        }
        let send_id = SendId(nack.ack_id.clone());
        out.push(Output::Event(Event::Refused { send_id, nack }));
        self.flush(now, out);
    }

    /// Not taken: again, later.
    pub(super) fn busy(&mut self, now: Now, busy: Busy, dice: &mut Dice, out: &mut Vec<Output>) {
        let Some(mut held) = self.take(&busy.ack_id) else {
            return out.push(Self::had_no_room(busy.ack_id));
        };
        if !busy.busy.is_empty() && !matches!(held.target, Target::One(_)) {
            held.target =
                Target::Rest(busy.busy.iter().map(|name| name.to_ascii_lowercase()).collect());
        }
        let first = busy.retry_after_ms.clamp(1, BACKOFF_MS_MAX);
        let wait = first.saturating_mul(1 << held.busy.min(20)).min(BACKOFF_MS_MAX);
        let wait_ms = dice.jitter(wait);
        held.busy += 1;
        held.retry_at = Some(now.monotonic.plus(wait_ms));
        out.push(Output::Event(Event::Busy { send_id: held.id.clone(), wait_ms }));
        let place = self.waiting.partition_point(|other| other.order < held.order);
        self.waiting.insert(place, held);
    }

    /// BUSY was the last word about it.
    fn had_no_room(ack_id: String) -> Output {
        let nack = Nack {
            ack_id: ack_id.clone(),
            code: Kind::Busy.to_string(),
            message: "the recipient had no room for it".to_owned(),
            ..Nack::default()
        };
        Output::Event(Event::Refused { send_id: SendId(ack_id), nack })
    }

    /// Sends what may go by now.
    pub(super) fn flush(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.open.is_none() || self.waiting.is_empty() {
            return;
        }
        let mut blocked: Vec<_> = self.retried().map(|held| held.target.clone()).collect();
        for mut held in std::mem::take(&mut self.waiting) {
            held.retry_at = held.retry_at.filter(|at| *at > now.monotonic);
            let waits = held.retry_at.is_some()
                || blocked.iter().any(|earlier| earlier.blocks(&held.target));
            if !waits {
                if held.busy > 0 && held.at_least_once {
                    blocked.push(held.target.clone());
                }
                self.launch(held, out);
                continue;
            }
            if !blocked.contains(&held.target) {
                blocked.push(held.target.clone());
            }
            self.waiting.push_back(held);
        }
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        self.open?;
        self.waiting.iter().filter_map(|held| held.retry_at).min()
    }

    /// Those sent again after BUSY: until they are answered, nothing goes past them.
    fn retried(&self) -> impl Iterator<Item = &Held> {
        self.under_way.values().filter(|held| held.busy > 0).take(self.retried)
    }

    fn launch(&mut self, mut held: Held, out: &mut Vec<Output>) {
        let frame_bytes_max = self.open.unwrap_or(FRAME_BYTES_MAX);
        if held.frame.len() - PREFIX > frame_bytes_max {
            let why = format!(
                "the message takes {} bytes; the daemon's max_frame_bytes is {frame_bytes_max}",
                held.frame.len() - PREFIX
            );
            let nack = Nack::new(held.id.0.clone(), NackCode::TooLarge, why);
            out.push(Output::Released(held.weight));
            return out.push(Output::Event(Event::Refused { send_id: held.id, nack }));
        }
        out.push(Output::Frame(held.frame.clone()));
        if held.at_least_once {
            self.retried += usize::from(held.busy > 0);
            self.under_way.insert(held.id.0.clone(), held);
            return;
        }
        if held.weight > 0 {
            out.push(Output::Released(std::mem::take(&mut held.weight)));
        }
        self.recent_bytes += held.frame.len();
        self.recent.push_back(held);
        while self.recent.len() > RECENT_MESSAGES || self.recent_bytes > RECENT_BYTES {
            let oldest = self.recent.pop_front().expect("something is over the bound");
            self.recent_bytes -= oldest.frame.len();
        }
    }

    /// Whether the daemon may be answering about it.
    pub(super) fn has(&self, id: &str) -> bool {
        self.under_way.contains_key(id) || self.recent.iter().any(|held| held.id.0 == id)
    }

    fn target(&self, id: &str) -> Option<&Target> {
        self.under_way.get(id).map(|held| &held.target)
    }

    fn take(&mut self, id: &str) -> Option<Held> {
        if let Some(held) = self.under_way.remove(id) {
            self.retried -= usize::from(held.busy > 0);
            return Some(held);
        }
        let place = self.recent.iter().position(|held| held.id.0 == id)?;
        let held = self.recent.remove(place)?;
        self.recent_bytes -= held.frame.len();
        Some(held)
    }

    /// Whether it was held.
    fn let_go(&mut self, id: &str, out: &mut Vec<Output>) -> bool {
        let held = self.take(id).or_else(|| {
            let waits = self.waiting.iter().position(|held| held.id.0 == id)?;
            self.waiting.remove(waits)
        });
        if let Some(weight) = held.as_ref().map(|held| held.weight).filter(|weight| *weight > 0) {
            out.push(Output::Released(weight));
        }
        held.is_some()
    }
}

fn encode(now: Now, id: &SendId, message: &Outgoing) -> Vec<u8> {
    let kind = if message.kind.is_empty() { "message" } else { &message.kind };
    let spoken = MessagePayload {
        kind: Cow::Borrowed(kind),
        body: Cow::Borrowed(&message.body),
        data: message.data.as_deref(),
        thread: message.thread.clone(),
    };
    let payload = serde_json::to_string(&spoken).expect("wire types are JSON");
    let meta = serde_json::to_string(&message.meta).expect("wire types are JSON");
    let header = Header {
        to: message.to.as_deref(),
        topic: message.topic.as_deref(),
        ..Header::new(Kind::Send, &id.0, now.unix_ms)
    };
    let members = [("payload", payload.as_str()), ("payload_meta", meta.as_str())];
    let count = if message.meta.is_empty() { 1 } else { 2 };
    let mut frame = Vec::new();
    header.append_raw(&mut frame, &members[..count]);
    frame
}
