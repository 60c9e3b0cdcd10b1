//! Who looks at the agent's terminal or has asked something of its wrapper: what each is owed.
//!
//! A visitor whose terminal is as large as the agent's gets its output as it comes; any other one, and
//! one that is too slow, gets pictures of the screen, each when the one before it has been taken. So
//! nobody holds the agent up, and nobody needs more than a bounded room.

use super::visits::{Call, Door, Line, VisitorId, Visits};
use crate::{
    bridge::{
        keys::KeystrokeFilter,
        screen::{Screen, tail::Tail},
    },
    protocol::{
        Moment,
        control::{Answer, Bytes, Ended, Request, State},
    },
};
use crossbeam_channel::{Receiver, never};
use platform::pty::Size;
use std::{collections::BTreeMap, io, mem};

/// Terminals that show the agent at a time.
const ATTACHED_MAX: usize = 8;

/// Who connects, or was answered, and asks nothing is sent away after this time.
const IDLE_MS: u64 = 5000;

/// Who takes nothing of what it was sent is sent away after this time.
const STALLED_MS: u64 = 60_000;

/// Output that waits for one visitor; a picture takes its place when there is more.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// Answers that wait for one visitor; one that asks on and doesn't read is sent away.
const ANSWERS_BYTES_MAX: usize = 64 * 1024;

/// Between two pictures for the same visitor, at least.
const PICTURE_MS: u64 = 50;

/// The smallest and the largest terminal that an agent is given.
const SIZES: [Size; 2] = [Size { rows: 1, cols: 2 }, Size { rows: 250, cols: 600 }];

/// What a visitor wants done.
pub(super) enum Order {
    /// The agent's terminal is to have this size.
    Resize(Size),
    /// Its messages are to be held, or typed again.
    Hold(bool),
    /// Its command is to end.
    Stop,
    /// Its state is to be told.
    Tell,
}

/// All of them.
pub(super) struct Visitors {
    visits: Option<Visits>,
    calls: Receiver<(VisitorId, Call)>,
    all: BTreeMap<VisitorId, Visitor>,
    tail: Tail,
    size: Size,
    /// The agent's terminal is as large as that of the last one who drives it.
    follows: bool,
    /// The command has ended: nobody else is let in.
    is_over: bool,
}

impl Visitors {
    /// Nobody so far; without a door there never is anybody.
    pub(super) fn expect(door: Option<Door>, size: Size, follows: bool) -> io::Result<Self> {
        let visits = door.map(Visits::start).transpose()?;
        let calls = visits.as_ref().map_or_else(never, |visits| visits.calls.clone());
        let (all, tail) = (BTreeMap::new(), Tail::default());
        Ok(Self { visits, calls, all, tail, size, follows, is_over: false })
    }

    pub(super) fn calls(&self) -> &Receiver<(VisitorId, Call)> {
        &self.calls
    }

    /// Nobody is let in any more: the threads at the endpoint have made a mistake, which the panic hook
    /// told.
    pub(super) fn lose_calls(&mut self) {
        self.calls = never();
    }

    /// So many terminals show the agent.
    pub(super) fn attached(&self) -> usize {
        self.all.values().filter(|visitor| visitor.seat.is_some()).count()
    }

    /// What a thread tells.
    pub(super) fn hear(&mut self, now: Moment, id: VisitorId, call: Call) -> Option<Order> {
        if let Call::Came(line) = call {
            if !self.is_over {
                self.all.insert(id, Visitor::new(now, line));
            }
            return None;
        }
        let (attached, size, follows) = (self.attached(), self.size, self.follows);
        let visitor = self.all.get_mut(&id)?;
        match call {
            Call::Came(_) => None,
            Call::Asked(request) => {
                visitor.asked_at = now;
                let order = visitor.ask(now, request, attached);
                match order {
                    Some(Order::Resize(wanted)) if !follows || wanted == size => None,
                    order => order,
                }
            }
            Call::Misspoke(message) => {
                visitor.refuse(message);
                visitor.leaves = true;
                visitor.waits_for_end = false;
                None
            }
            Call::Written => {
                visitor.in_hand_since = None;
                None
            }
            Call::Left => {
                self.all.remove(&id);
                None
            }
        }
    }

    /// What looked like the beginning of a terminal's answer, and is none, was pressed.
    pub(super) fn settle_keys(&mut self, now: Moment) {
        for visitor in self.all.values_mut() {
            visitor.settle_keys(now);
        }
    }

    /// What somebody who drives has pressed, as the agent is to get it.
    pub(super) fn take_keys(&mut self) -> Option<Vec<u8>> {
        self.all.values_mut().find_map(Visitor::take_keys)
    }

    pub(super) fn tell(&mut self, id: VisitorId, state: State) {
        if let Some(visitor) = self.all.get_mut(&id) {
            visitor.answer(&Answer::State(state));
        }
    }

    /// The agent's command printed this.
    pub(super) fn printed(&mut self, bytes: &[u8]) {
        self.tail.feed(bytes);
        for visitor in self.all.values_mut() {
            visitor.printed(bytes, self.size);
        }
    }

    /// The agent's terminal has this size now.
    pub(super) fn resized(&mut self, size: Size) {
        self.size = size;
        for visitor in self.all.values_mut() {
            visitor.is_behind = true;
        }
    }

    /// Hands over what can be, and sends away who has stayed too long.
    pub(super) fn serve(&mut self, now: Moment, screen: &Screen) {
        for visitor in self.all.values_mut() {
            visitor.serve(now, screen, self.size, &self.tail);
        }
        // Dropping its line ends the visit.
        self.all.retain(|_, visitor| visitor.stays(now));
    }

    /// When [`Visitors::serve`] has something to do that nothing announces.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let due = |visitor: &Visitor| {
            [visitor.deadline(self.size, &self.tail), visitor.settles_keys_at()]
        };
        self.all.values().flat_map(due).flatten().min()
    }

    /// The command has ended: tells it to all who look on or wait for it.
    pub(super) fn tell_end(&mut self, ended: &Ended) {
        self.is_over = true;
        for visitor in self.all.values_mut() {
            if visitor.seat.is_some() || visitor.waits_for_end {
                visitor.answer(&Answer::Ended(ended.clone()));
            }
            visitor.leaves = true;
        }
    }

    /// Whether anybody has not yet taken what it was told.
    pub(super) fn is_telling(&self) -> bool {
        self.all.values().any(|visitor| !visitor.is_told())
    }

    /// Gives the endpoint up and ends all visits.
    pub(super) fn close(self) {
        let Self { visits, calls, all, .. } = self;
        drop(calls);
        if let Some(visits) = visits {
            visits.stop(all.into_values().map(|visitor| visitor.line));
        }
    }
}

/// One connection.
struct Visitor {
    line: Line,
    /// A batch is being written since then.
    in_hand_since: Option<Moment>,
    asked_at: Moment,
    answers: Vec<u8>,
    output: Vec<u8>,
    /// What it pressed, and the agent has no room for yet.
    typed: Vec<u8>,
    /// It is not heard until that was taken.
    waits_for_room: bool,
    /// It attached.
    seat: Option<Seat>,
    /// Only a picture shows it the screen again.
    is_behind: bool,
    pictured_at: Option<Moment>,
    waits_for_end: bool,
    /// What it was told was the last.
    leaves: bool,
}

/// A terminal that shows the agent.
struct Seat {
    size: Size,
    /// What it presses, where it may.
    drives: Option<KeystrokeFilter>,
}

impl Visitor {
    fn new(now: Moment, line: Line) -> Self {
        Self {
            line,
            in_hand_since: None,
            asked_at: now,
            answers: Vec::new(),
            output: Vec::new(),
            typed: Vec::new(),
            waits_for_room: false,
            seat: None,
            is_behind: false,
            pictured_at: None,
            waits_for_end: false,
            leaves: false,
        }
    }

    fn ask(&mut self, now: Moment, request: Request, attached: usize) -> Option<Order> {
        match request {
            Request::Attach { .. } if self.seat.is_none() && attached >= ATTACHED_MAX => {
                self.refuse(format!("{attached} terminals show it already: detach one of them"));
                None
            }
            Request::Attach { drive, columns, rows } => {
                let size = Size { rows, cols: columns };
                let drives = drive.then(KeystrokeFilter::default);
                self.seat = Some(Seat { size, drives });
                self.is_behind = true;
                drive.then_some(Order::Resize(sane(size)))
            }
            Request::Resize { columns, rows } => {
                let Some(seat) = &mut self.seat else {
                    self.refuse("only who is attached has a size");
                    return None;
                };
                seat.size = Size { rows, cols: columns };
                self.is_behind = true;
                seat.drives.is_some().then_some(Order::Resize(sane(seat.size)))
            }
            Request::Keys { bytes } => {
                self.press(now, &bytes.0);
                None
            }
            Request::Hold => Some(Order::Hold(true)),
            Request::Release => Some(Order::Hold(false)),
            Request::Stop => {
                self.waits_for_end = true;
                Some(Order::Stop)
            }
            Request::State => Some(Order::Tell),
        }
    }

    fn press(&mut self, now: Moment, bytes: &[u8]) {
        match self.keystrokes() {
            Some(keys) => {
                let pressed = keys.keys(now, bytes);
                self.typed.extend(pressed);
                self.waits_for_room = true;
            }
            None => {
                self.line.keys_taken();
                self.refuse("who only looks on can't type: attach without --view");
            }
        }
    }

    fn keystrokes(&mut self) -> Option<&mut KeystrokeFilter> {
        self.seat.as_mut()?.drives.as_mut()
    }

    fn settle_keys(&mut self, now: Moment) {
        let late = self.keystrokes().map(|keys| keys.expired_keys(now));
        self.typed.extend(late.into_iter().flatten());
    }

    fn settles_keys_at(&self) -> Option<Moment> {
        self.seat.as_ref()?.drives.as_ref()?.deadline()
    }

    fn take_keys(&mut self) -> Option<Vec<u8>> {
        let waits = mem::take(&mut self.waits_for_room);
        if waits {
            self.line.keys_taken();
        }
        (waits || !self.typed.is_empty()).then(|| mem::take(&mut self.typed))
    }

    fn refuse(&mut self, message: impl Into<String>) {
        self.answer(&Answer::Error { message: message.into() });
    }

    fn answer(&mut self, answer: &Answer) {
        if self.answers.len() > ANSWERS_BYTES_MAX {
            self.line.hang_up();
            self.leaves = true;
            return;
        }
        answer.append(&mut self.answers);
    }

    fn printed(&mut self, bytes: &[u8], size: Size) {
        let Some(seat) = &self.seat else { return };
        let is_full = self.output.len() + bytes.len() > OUTPUT_BYTES_MAX;
        if self.is_behind || is_full || seat.size != size {
            self.output = Vec::new();
            self.is_behind = true;
        } else {
            Answer::Output { bytes: Bytes(bytes.to_vec()) }.append(&mut self.output);
        }
    }

    fn serve(&mut self, now: Moment, screen: &Screen, size: Size, tail: &Tail) {
        if self.in_hand_since.is_some() {
            return;
        }
        let mut batch = mem::take(&mut self.output);
        if self.picture_at(size, tail).is_some_and(|at| at <= now || self.leaves)
            && let Some(seat) = &self.seat
        {
            let picture = screen.snapshot(seat.size.cols.into(), seat.size.rows.into());
            let mut bytes = picture.into_bytes();
            if seat.size == size {
                bytes.extend_from_slice(tail.unfinished().unwrap_or_default());
            }
            let Size { rows, cols: columns } = size;
            Answer::Screen { columns, rows, bytes: Bytes(bytes) }.append(&mut batch);
            self.is_behind = false;
            self.pictured_at = Some(now);
        }
        batch.append(&mut self.answers);
        if !batch.is_empty() && self.line.say(batch) {
            self.in_hand_since = Some(now);
        }
    }

    /// When it gets a picture, if it needs one.
    fn picture_at(&self, size: Size, tail: &Tail) -> Option<Moment> {
        let seat = self.seat.as_ref().filter(|_| self.is_behind)?;
        // What follows a picture has to begin where it ended; more output will tell where that is.
        if seat.size == size && tail.unfinished().is_none() {
            return None;
        }
        Some(self.pictured_at.map(|at| at.plus(PICTURE_MS)).unwrap_or_default())
    }

    fn deadline(&self, size: Size, tail: &Tail) -> Option<Moment> {
        match self.in_hand_since {
            Some(since) => Some(since.plus(STALLED_MS)),
            None => self.picture_at(size, tail).or_else(|| self.idle_until()),
        }
    }

    fn idle_until(&self) -> Option<Moment> {
        let rests = self.seat.is_some() || self.waits_for_end;
        (!rests).then(|| self.asked_at.plus(IDLE_MS))
    }

    fn stays(&self, now: Moment) -> bool {
        match self.in_hand_since {
            Some(since) if since.plus(STALLED_MS) > now => true,
            Some(_) => {
                tracing::warn!("a terminal that took nothing for {STALLED_MS} ms is sent away");
                self.line.hang_up();
                false
            }
            // What it waits for is the end of this connection, when nothing of the agent is left.
            None if self.waits_for_end => true,
            None => !self.leaves && self.idle_until().is_none_or(|until| until > now),
        }
    }

    fn is_told(&self) -> bool {
        self.in_hand_since.is_none() && self.answers.is_empty() && self.output.is_empty()
    }
}

/// A size that an agent can work with.
fn sane(size: Size) -> Size {
    let [least, most] = SIZES;
    Size {
        rows: size.rows.clamp(least.rows, most.rows),
        cols: size.cols.clamp(least.cols, most.cols),
    }
}
