//! Channels: the clients that share an operator's connection, as routing has them
//! (docs/PROTOCOL.md, section 18).
//!
//! A channel's bytes move to the lane of its connection while the client has granted credit and
//! the lane is short, so one channel that is not read holds up no other.

use client::link::BufferedBytes;
use parking_lot::Mutex;
use protocol::channel::{CREDIT_BYTES, Control, OWN, ReceiveCredit, SendCredit};
use router::ClientId;
use std::{
    collections::{BTreeSet, VecDeque},
    mem,
    sync::Arc,
};

/// The unwritten bytes of a connection from which on its channels wait.
pub(super) const LANE_BYTES: usize = 256 * 1024;

/// The least bytes that a channel without waiting frames may send, however little is free.
const ROOM_BYTES_MIN: usize = 4 * 1024;

/// A channel's account, shared by the connection's reader and the threads that route.
#[derive(Debug, Default)]
pub(super) struct ChannelAccount(Mutex<Account>);

#[derive(Debug, Default)]
struct Account {
    /// The bytes that the client may still send.
    receive: ReceiveCredit,
    /// The memory of the frames that are not handled yet.
    used: usize,
    /// The bytes that the client has granted and routing has not added.
    granted: Option<u64>,
}

impl ChannelAccount {
    /// Counts a frame that arrived. Returns false if it came without credit.
    #[must_use]
    pub(super) fn receive(&self, content: &[u8]) -> bool {
        self.0.lock().receive.spend(content)
    }

    /// Adds bytes that the client has granted. Returns whether routing has to be told.
    pub(super) fn grant(&self, bytes: u32) -> bool {
        let mut account = self.0.lock();
        let before = account.granted;
        account.granted = Some(before.unwrap_or_default() + u64::from(bytes));
        before.is_none()
    }

    pub(super) fn acquire(&self, bytes: usize) {
        self.0.lock().used += bytes;
    }

    pub(super) fn release(&self, bytes: usize) {
        self.0.lock().used -= bytes;
    }

    /// Returns what to grant the client: its share of what is free, less what waits.
    fn to_grant(&self, buffered: &BufferedBytes) -> Option<u32> {
        let mut account = self.0.lock();
        let share = buffered.share().clamp(ROOM_BYTES_MIN, CREDIT_BYTES);
        let room = share.saturating_sub(account.used);
        account.receive.grant(room)
    }
}

/// One channel.
#[derive(Debug)]
pub(super) struct Channel {
    /// The operator's connection.
    pub(super) connection: ClientId,
    number: u32,
    account: Arc<ChannelAccount>,
    credit: SendCredit,
    /// Bytes to be moved to the connection's lane.
    pub(super) unsent: Vec<u8>,
    /// Whether the client was told the end of the channel.
    pub(super) is_ended: bool,
    /// A token of which the connection's reader counts the clones.
    _here: Arc<()>,
}

impl Channel {
    pub(super) fn new(
        connection: ClientId,
        number: u32,
        account: Arc<ChannelAccount>,
        here: Arc<()>,
    ) -> Self {
        let (credit, unsent) = (SendCredit::default(), Vec::new());
        Self { connection, number, account, credit, unsent, is_ended: false, _here: here }
    }

    /// Adds what the client has granted since the last time.
    pub(super) fn add_credit(&mut self) {
        self.credit.add(self.account.0.lock().granted.take().unwrap_or_default());
    }

    /// The control frame that grants the client what it may send, if that is worth one.
    pub(super) fn to_grant(&self, buffered: &BufferedBytes) -> Option<Control> {
        let bytes = self.account.to_grant(buffered).filter(|_| !self.is_ended)?;
        Some(Control::Credit(self.number, bytes))
    }

    /// The control frame that tells the client the end of the channel, the first time.
    pub(super) fn end(&mut self) -> Option<Control> {
        self.unsent = Vec::new();
        (!mem::replace(&mut self.is_ended, true)).then_some(Control::End(self.number))
    }
}

/// The channels of a connection, and whose bytes its lane has.
#[derive(Debug, Default)]
pub(super) struct Channels {
    /// The channels that have not left.
    pub(super) here: BTreeSet<ClientId>,
    /// Those that wait until the lane is shorter.
    pub(super) waiting: BTreeSet<ClientId>,
    /// The channel to which the next bytes in the lane belong.
    selected: u32,
    /// The bytes in the lane that are not written: their number, and whether they are the
    /// connection's own frames.
    unwritten: VecDeque<(usize, bool)>,
}

impl Channels {
    /// Channels of a connection whose lane has this number of unwritten bytes of its own.
    pub(super) fn new(own_bytes: usize) -> Self {
        Self { unwritten: [(own_bytes, true)].into(), ..Self::default() }
    }

    /// Appends to the connection's lane a frame of its own.
    pub(super) fn append_own(&mut self, unsent: &mut Vec<u8>, append: impl FnOnce(&mut Vec<u8>)) {
        self.select(unsent, OWN);
        self.append(unsent, true, append);
    }

    pub(super) fn append_control(&mut self, unsent: &mut Vec<u8>, control: Control) {
        self.append(unsent, false, |unsent| control.append(unsent));
    }

    /// Moves bytes of a channel to the connection's lane, as many as its credit allows. Returns
    /// their number.
    pub(super) fn take(&mut self, unsent: &mut Vec<u8>, channel: &mut Channel) -> usize {
        let count = channel.credit.spend(&channel.unsent, LANE_BYTES);
        if count > 0 {
            self.select(unsent, channel.number);
            self.append(unsent, false, |unsent| unsent.extend(channel.unsent.drain(..count)));
        }
        count
    }

    fn select(&mut self, unsent: &mut Vec<u8>, number: u32) {
        if mem::replace(&mut self.selected, number) != number {
            self.append_control(unsent, Control::Select(number));
        }
    }

    fn append(&mut self, unsent: &mut Vec<u8>, is_own: bool, append: impl FnOnce(&mut Vec<u8>)) {
        let before = unsent.len();
        append(unsent);
        let count = unsent.len() - before;
        match self.unwritten.back_mut() {
            Some((bytes, own)) if *own == is_own => *bytes += count,
            _ => self.unwritten.push_back((count, is_own)),
        }
    }

    /// Notes that bytes of the lane were written. Returns how many of them were the connection's
    /// own frames.
    pub(super) fn written(&mut self, mut count: usize) -> usize {
        let mut own = 0;
        while count > 0
            && let Some((bytes, is_own)) = self.unwritten.front_mut()
        {
            let part = count.min(*bytes);
            (*bytes, count) = (*bytes - part, count - part);
            own += if *is_own { part } else { 0 };
            if *bytes == 0 {
                self.unwritten.pop_front();
            }
        }
        own
    }
}
