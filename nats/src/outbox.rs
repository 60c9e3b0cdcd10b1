//! Frames on their way to other hosts.
//!
//! A *lane* is everything for one agent of one host. The receiving bridge restores the order of a
//! lane's frames from their numbers. Each frame is published again until that bridge confirms it:
//! that the daemon there has accepted a message, or that the border has handled an answer or a
//! refusal. A refused message gets a refusal instead of a confirmation. So nothing depends on NATS
//! keeping or repeating messages; the receiver recognizes duplicates.
//!
//! A receiving bridge that has lost its position would wait for the numbers of confirmed frames. So
//! the outbox renumbers a lane when the host's bridge restarts, and when it publishes a frame again
//! although confirmed ones have left gaps.
//!
//! One publish of a lane is in flight at a time; frames that come meanwhile share the next one. A
//! publish that the stream has no room for is repeated until there is some. A message whose time to
//! live ends before that is refused.

mod values;

use crate::{
    batch,
    subject::{self, Token},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};
pub use values::{Carry, Input, Lane, Limit, Output, Publish, Published, Refusal, RefusalKind};

/// The maximum number of bytes in flight; further frames are refused.
///
/// The window of a host is a quarter of this, and those of its agents are smaller, so that only
/// several hosts that confirm nothing reach it.
pub const BYTES_MAX: usize = 256 * 1024 * 1024;

/// The part of NATS's `max_payload` that is reserved for headers.
pub const HEADER_ROOM: usize = 512;

/// The pause before a publish without an answer is repeated, at first. It doubles with each
/// repetition.
pub const PAUSE: Duration = Duration::from_millis(25);

/// The longest pause before a publish is repeated.
pub const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The delay before an unconfirmed frame is published again, at first. It doubles with each
/// repetition, up to [`RESEND_DOUBLINGS`] times.
pub const RESEND: Duration = Duration::from_secs(5);

/// How often [`RESEND`] doubles.
pub const RESEND_DOUBLINGS: u32 = 2;

/// The interval of checks for frames that have to be published again.
const RESEND_CHECK: Duration = Duration::from_secs(1);

/// The time before an unconfirmed answer or refusal is dropped.
pub const REPLY_MAX: Duration = Duration::from_secs(600);

/// The maximum number of answers and refusals in flight to a host; further ones are dropped. A
/// refused message comes again, and so does its refusal.
pub const REPLIES_MAX: usize = 512;

/// The time before messages for a host without a stream are refused. A cluster may need some of it
/// to choose a leader.
pub const STREAM_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Queue {
    last_number: u64,
    /// The frames that are not confirmed, by number.
    frames: BTreeMap<u64, Frame>,
    /// Those that are to be published.
    due: BTreeSet<u64>,
    in_flight: Option<InFlight>,
}

#[derive(Debug)]
struct Frame {
    carry: Carry,
    begun: Instant,
    /// How often the stream was known to have it.
    published: u32,
    /// Whether the other host may have it.
    may_be_there: bool,
    /// When to publish it again.
    again_at: Option<Instant>,
}

#[derive(Debug)]
struct InFlight {
    publish: Arc<Publish>,
    numbers: Vec<u64>,
    pause: Duration,
    /// The time of the repetition, after an unknown outcome.
    repeat_at: Option<Instant>,
    /// Since when there is no stream.
    no_stream_since: Option<Instant>,
}

/// The frames in flight to other hosts. See the module's description.
#[derive(Debug)]
pub struct Outbox {
    here: Token,
    instance: u64,
    limit: Limit,
    queues: BTreeMap<Lane, Queue>,
    /// The places of the frames, by host and id.
    places: HashMap<(Token, String), (Lane, u64)>,
    /// The numbers of answers and refusals, by host.
    replies: BTreeMap<Token, usize>,
    /// The highest number of all lanes.
    last_number: u64,
    bytes: usize,
    publishes: u64,
    check_at: Option<Instant>,
}

impl Outbox {
    /// An empty outbox of the bridge `instance` of the host `here`.
    #[must_use]
    pub fn new(here: Token, instance: u64, limit: Limit) -> Self {
        Self {
            here,
            instance,
            limit,
            queues: BTreeMap::new(),
            places: HashMap::new(),
            replies: BTreeMap::new(),
            last_number: 0,
            bytes: 0,
            publishes: 0,
            check_at: None,
        }
    }

    /// The time of the next [`Input::Tick`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let in_flight = self.queues.values().filter_map(|queue| queue.in_flight.as_ref());
        in_flight.filter_map(|it| it.repeat_at).chain(self.check_at).min()
    }

    /// Handles an input at a time.
    pub fn handle(&mut self, now: Instant, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::Carry(lane, carry) => self.carry(now, lane, carry, outputs),
            Input::Published(lane, published) => self.published(now, &lane, published, outputs),
            Input::Confirmed(host, id) => {
                if let Some(lane) = self.carried(host, id, outputs) {
                    self.publish_next(&lane, outputs);
                }
            }
            Input::Refused(host, id) => {
                if let Some((lane, _)) = self.take(host, id) {
                    self.publish_next(&lane, outputs);
                }
            }
            Input::Restarted(host) => self.restarted(&host, outputs),
            Input::Absent(host) => self.absent(&host, outputs),
            Input::Limit(limit) => self.limit(limit, outputs),
            Input::Tick => self.tick(now, outputs),
        }
        self.check_at = match self.check_at {
            _ if self.places.is_empty() => None,
            None => Some(now + RESEND_CHECK),
            known => known,
        };
    }

    fn carry(&mut self, now: Instant, lane: Lane, carry: Carry, outputs: &mut Vec<Output>) {
        let key = (lane.host.clone(), carry.id.clone());
        if self.places.contains_key(&key) {
            // It is on its way already.
            return;
        }
        if let Some(refusal) = self.refusal(&lane, &carry) {
            outputs.push(Output::Refused { host: carry.host, id: carry.id, refusal });
            return;
        }
        if !carry.is_message {
            let replies = self.replies.entry(lane.host.clone()).or_default();
            if *replies == REPLIES_MAX {
                return;
            }
            *replies += 1;
        }
        self.bytes += carry.frame.len();
        // A lane that is made again begins with a higher number than before.
        let begin = || Queue { last_number: self.last_number, ..Queue::default() };
        let queue = self.queues.entry(lane.clone()).or_insert_with(begin);
        queue.last_number += 1;
        let number = queue.last_number;
        self.last_number = self.last_number.max(number);
        queue.frames.insert(
            number,
            Frame { carry, begun: now, published: 0, may_be_there: false, again_at: None },
        );
        queue.due.insert(number);
        self.places.insert(key, (lane.clone(), number));
        self.publish_next(&lane, outputs);
    }

    fn refusal(&self, lane: &Lane, carry: &Carry) -> Option<Refusal> {
        let length = carry.frame.len();
        let longest = self.room().saturating_sub(batch::one(b""));
        if length > longest {
            let Limit { name, bytes } = &self.limit;
            let message = format!(
                "the message has {length} bytes with its header, and NATS carries at most {longest} \
                 to {}: its {name} is {bytes}; shorten the message, or raise {name}",
                carry.host
            );
            return Some(Refusal { kind: RefusalKind::TooLarge, message });
        }
        // An empty lane is never refused, since a full bridge could otherwise block it for long.
        let is_empty = self.queues.get(lane).is_none_or(|queue| queue.frames.is_empty());
        if self.bytes + length > BYTES_MAX && !is_empty {
            let message = format!(
                "{} bytes are on their way already, of at most {BYTES_MAX}; send it again later",
                self.bytes
            );
            return Some(Refusal { kind: RefusalKind::Full, message });
        }
        None
    }

    fn room(&self) -> usize {
        self.limit.bytes.saturating_sub(HEADER_ROOM)
    }

    /// Notes a limit, and refuses the frames that are too large for it.
    fn limit(&mut self, limit: Limit, outputs: &mut Vec<Output>) {
        if self.limit == limit {
            return;
        }
        self.limit = limit;
        let room = self.room();
        let mut large = Vec::new();
        for (lane, queue) in &self.queues {
            let frames = queue.frames.values().map(|frame| &frame.carry);
            let frames = frames.filter(|carry| batch::one(&carry.frame) > room);
            large.extend(frames.map(|carry| (lane.clone(), carry.id.clone())));
        }
        for (lane, id) in large {
            let Some((_, carry)) = self.take(lane.host.clone(), id) else { continue };
            if let Some(refusal) = self.refusal(&lane, &carry) {
                outputs.push(Output::Refused { host: carry.host, id: carry.id, refusal });
            }
            self.publish_next(&lane, outputs);
        }
    }

    /// Publishes the next batch of a lane, unless one is in flight.
    fn publish_next(&mut self, lane: &Lane, outputs: &mut Vec<Output>) {
        let wanted = batch::BYTES_WANTED.min(self.room());
        let Some(queue) = self.queues.get_mut(lane) else { return };
        queue.forget_in_flight();
        let Some((&base, _)) = queue.frames.first_key_value() else {
            if queue.in_flight.is_none() {
                self.queues.remove(lane);
            }
            return;
        };
        if queue.in_flight.is_some() || queue.due.is_empty() {
            return;
        }
        let (mut batch, mut numbers) = (batch::begin(self.instance, base), Vec::new());
        while let Some(&number) = queue.due.first() {
            let frame = &queue.frames[&number].carry.frame;
            let fits =
                numbers.len() < batch::FRAMES_MAX && batch.len() + batch::size_of(frame) <= wanted;
            if !numbers.is_empty() && !fits {
                break;
            }
            batch::append(&mut batch, number, frame);
            numbers.push(number);
            queue.due.remove(&number);
        }
        self.publishes += 1;
        let publish = Arc::new(Publish {
            subject: subject::messages(&lane.host, &self.here, &lane.agent),
            id: format!("{:016x}-{}", self.instance, self.publishes),
            batch: batch.into(),
        });
        queue.in_flight = Some(InFlight {
            publish: Arc::clone(&publish),
            numbers,
            pause: PAUSE,
            repeat_at: None,
            no_stream_since: None,
        });
        outputs.push(Output::Publish(lane.clone(), publish));
    }

    fn published(
        &mut self,
        now: Instant,
        lane: &Lane,
        published: Published,
        outputs: &mut Vec<Output>,
    ) {
        let refusal = match published {
            Published::Stored => None,
            Published::Refused(refusal) => Some(refusal),
            unanswered => return self.unanswered(now, lane, &unanswered, outputs),
        };
        let Some(queue) = self.queues.get_mut(lane) else { return };
        let numbers = queue.in_flight.take().map(|it| it.numbers).unwrap_or_default();
        let (mut refused, mut done) = (Vec::new(), Vec::new());
        for number in numbers {
            let Some(frame) = queue.frames.get_mut(&number) else { continue };
            // A frame that was published before may have arrived.
            if !frame.may_be_there && refusal.is_some() {
                refused.push(frame.carry.id.clone());
                continue;
            }
            let wait = RESEND * 2_u32.pow(frame.published.min(RESEND_DOUBLINGS));
            frame.again_at = Some(now + wait);
            if refusal.is_none() {
                (frame.published, frame.may_be_there) = (frame.published + 1, true);
            }
            if !frame.carry.is_repeated {
                done.push(frame.carry.id.clone());
            }
        }
        if let Some(refusal) = refusal {
            self.refuse(lane, refused, &refusal, outputs);
        }
        for id in done {
            self.carried(lane.host.clone(), id, outputs);
        }
        self.publish_next(lane, outputs);
    }

    /// Removes a frame that is finished. Returns its lane.
    fn carried(&mut self, host: Token, id: String, outputs: &mut Vec<Output>) -> Option<Lane> {
        let (lane, Carry { host, id, .. }) = self.take(host, id)?;
        outputs.push(Output::Carried { host, id });
        Some(lane)
    }

    /// Repeats a publish after a pause.
    fn unanswered(
        &mut self,
        now: Instant,
        lane: &Lane,
        published: &Published,
        outputs: &mut Vec<Output>,
    ) {
        let Some(queue) = self.queues.get_mut(lane) else { return };
        let Some(in_flight) = queue.in_flight.as_mut() else { return };
        in_flight.repeat_at = Some(now + in_flight.pause);
        in_flight.pause = (in_flight.pause * 2).min(PAUSE_MAX);
        for number in &in_flight.numbers {
            if let Some(frame) = queue.frames.get_mut(number) {
                frame.may_be_there |= *published == Published::Unknown;
            }
        }
        let since = in_flight.no_stream_since.take().unwrap_or(now);
        match published {
            Published::NoStream => {
                in_flight.no_stream_since = Some(since);
                if now.saturating_duration_since(since) >= STREAM_MAX {
                    self.refuse_all(lane, outputs);
                }
            }
            Published::Full(why) => self.refuse_expired(now, lane, why, outputs),
            _ => {}
        }
        self.publish_next(lane, outputs);
    }

    /// Refuses the frames of these ids of a lane.
    fn refuse(
        &mut self,
        lane: &Lane,
        ids: Vec<String>,
        refusal: &Refusal,
        outputs: &mut Vec<Output>,
    ) {
        for id in ids {
            let Some((_, Carry { host, id, .. })) = self.take(lane.host.clone(), id) else {
                continue;
            };
            outputs.push(Output::Refused { host, id, refusal: refusal.clone() });
        }
    }

    /// Refuses the messages of a lane without a stream at its host, except those that were
    /// published before.
    fn refuse_all(&mut self, lane: &Lane, outputs: &mut Vec<Output>) {
        let Some(queue) = self.queues.get(lane) else { return };
        let new = |frame: &&Frame| frame.carry.is_message && !frame.may_be_there;
        let new: Vec<_> = queue.frames.values().filter(new).map(|frame| &frame.carry).collect();
        let Some(host) = new.first().map(|carry| carry.host.clone()) else { return };
        let ids = new.iter().map(|carry| carry.id.clone()).collect();
        let message = format!(
            "NATS has no stream {} for {host}; run `agent-relay-nats setup --host {host}`",
            subject::stream(&lane.host)
        );
        self.refuse(lane, ids, &Refusal { kind: RefusalKind::NoStream, message }, outputs);
    }

    /// Refuses the messages of a lane whose time to live has passed while its host's stream was
    /// full, but none that was published before.
    fn refuse_expired(&mut self, now: Instant, lane: &Lane, why: &str, outputs: &mut Vec<Output>) {
        let Some(queue) = self.queues.get_mut(lane) else { return };
        let is_over = |Frame { carry, begun, may_be_there, .. }: &&Frame| {
            let waits = now.saturating_duration_since(*begun);
            carry.is_message && !may_be_there && waits >= carry.time_to_live
        };
        let over = queue.frames.values().filter(is_over);
        let ids: Vec<_> = over.map(|frame| frame.carry.id.clone()).collect();
        if ids.is_empty() {
            return;
        }
        // The batch in flight may hold some of them.
        queue.undo_publish();
        let message = format!("{why}, and stayed so for the message's time to live");
        self.refuse(lane, ids, &Refusal { kind: RefusalKind::Full, message }, outputs);
    }

    /// Removes a frame, wherever it is.
    fn take(&mut self, host: Token, id: String) -> Option<(Lane, Carry)> {
        let (lane, number) = self.places.remove(&(host, id))?;
        let queue = self.queues.get_mut(&lane)?;
        queue.due.remove(&number);
        let Frame { carry, .. } = queue.frames.remove(&number)?;
        self.bytes -= carry.frame.len();
        if !carry.is_message
            && let Entry::Occupied(mut replies) = self.replies.entry(lane.host.clone())
        {
            *replies.get_mut() -= 1;
            if *replies.get() == 0 {
                replies.remove();
            }
        }
        Some((lane, carry))
    }

    /// Removes all messages of a lane, except answers and refusals.
    fn drop_messages(&mut self, lane: &Lane) {
        let Some(queue) = self.queues.get(lane) else { return };
        let messages = queue.frames.values().filter(|frame| frame.carry.is_message);
        for id in messages.map(|frame| frame.carry.id.clone()).collect::<Vec<_>>() {
            self.take(lane.host.clone(), id);
        }
    }

    fn lanes(&self, host: &Token) -> Vec<Lane> {
        self.queues.keys().filter(|lane| lane.host == *host).cloned().collect()
    }

    fn restarted(&mut self, host: &Token, outputs: &mut Vec<Output>) {
        for lane in self.lanes(host) {
            self.renumber(&lane);
            self.publish_next(&lane, outputs);
        }
    }

    /// Makes all frames of a lane due, and closes the gaps between the numbers of its messages.
    fn renumber(&mut self, lane: &Lane) {
        let Some(queue) = self.queues.get_mut(lane) else { return };
        let in_flight = queue.in_flight.as_ref().map(|it| it.numbers.clone()).unwrap_or_default();
        queue.due.clear();
        for (number, mut frame) in std::mem::take(&mut queue.frames) {
            let Carry { is_message, is_repeated, .. } = frame.carry;
            let is_in_flight = in_flight.contains(&number);
            // Without its number, the other side would handle an answer, a refusal or an
            // at-most-once message twice.
            if !is_message || is_in_flight && !is_repeated {
                queue.frames.insert(number, frame);
                queue.due.extend((!is_in_flight).then_some(number));
                continue;
            }
            (frame.may_be_there, frame.again_at) = (frame.may_be_there || is_in_flight, None);
            queue.last_number += 1;
            let place = self.places.get_mut(&(lane.host.clone(), frame.carry.id.clone()));
            place.expect("each frame has a place").1 = queue.last_number;
            queue.due.insert(queue.last_number);
            queue.frames.insert(queue.last_number, frame);
        }
        self.last_number = self.last_number.max(queue.last_number);
    }

    fn absent(&mut self, host: &Token, outputs: &mut Vec<Output>) {
        for lane in self.lanes(host) {
            self.drop_messages(&lane);
            self.publish_next(&lane, outputs);
        }
    }

    fn tick(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        let (room, mut divided) = (self.room(), Vec::new());
        for (lane, queue) in &mut self.queues {
            let Some(in_flight) = &mut queue.in_flight else { continue };
            if in_flight.repeat_at.take_if(|at| *at <= now).is_none() {
                continue;
            }
            if in_flight.publish.batch.len() <= room {
                outputs.push(Output::Publish(lane.clone(), Arc::clone(&in_flight.publish)));
                continue;
            }
            // Another server accepts less than the one before.
            queue.undo_publish();
            divided.push(lane.clone());
        }
        for lane in divided {
            self.publish_next(&lane, outputs);
        }
        if self.check_at.is_some_and(|at| at <= now) {
            self.check_at = None;
            self.resend(now, outputs);
        }
    }

    /// Publishes frames again that were not confirmed in time, and drops answers that are no longer
    /// needed.
    fn resend(&mut self, now: Instant, outputs: &mut Vec<Output>) {
        let (mut unwanted, mut gapped) = (Vec::new(), Vec::new());
        for (lane, queue) in &mut self.queues {
            let mut is_late = false;
            for (number, frame) in &mut queue.frames {
                if frame.again_at.take_if(|at| *at <= now).is_some() {
                    is_late = true;
                    queue.due.insert(*number);
                }
                if !frame.carry.is_message && now >= frame.begun + REPLY_MAX {
                    unwanted.push((Token::of_host(&frame.carry.host), frame.carry.id.clone()));
                }
            }
            if is_late && queue.has_gap() {
                gapped.push(lane.clone());
            }
        }
        gapped.iter().for_each(|lane| self.renumber(lane));
        for (host, id) in unwanted {
            self.take(host, id);
        }
        for lane in self.queues.keys().cloned().collect::<Vec<_>>() {
            self.publish_next(&lane, outputs);
        }
    }
}

impl Queue {
    /// Whether frames are missing between the first and the last one.
    fn has_gap(&self) -> bool {
        let ends = self.frames.first_key_value().zip(self.frames.last_key_value());
        ends.is_some_and(|((first, _), (last, _))| last - first >= self.frames.len() as u64)
    }

    /// Makes the frames of the publish in flight due, so that another batch has them.
    fn undo_publish(&mut self) {
        let numbers = self.in_flight.take().map(|it| it.numbers).unwrap_or_default();
        let is_there = |number: &u64| self.frames.contains_key(number);
        self.due.extend(numbers.into_iter().filter(is_there));
    }

    /// Stops repeating a publish if all of its frames are confirmed or dropped.
    fn forget_in_flight(&mut self) {
        let frames = &self.frames;
        self.in_flight.take_if(|it| {
            it.repeat_at.is_some() && !it.numbers.iter().any(|number| frames.contains_key(number))
        });
    }
}

#[cfg(test)]
mod tests;
