//! The channels of a connection, as its reader has them: whose frames it reads, and how far each
//! channel may go.

use super::{
    channel::{Channel, ChannelAccount},
    client_handle::{ClientHandle, Link},
    entry::{QueuedFrames, Quota},
    event::Event,
    reader_context::ReaderContext,
};
use client::link::End;
use protocol::{
    channel::{CHANNELS_MAX, Control, OWN},
    client_frame::ClientBatch,
    code::{ErrorCode, Violation},
    frame::Frames,
};
use router::{ClientId, PeerProcess};
use rustc_hash::FxHashMap;
use std::{ops::ControlFlow, sync::Arc};

/// The channels of a connection. When they are dropped, they end.
pub(super) struct ChannelReader<'a> {
    connection: ClientId,
    process: Option<PeerProcess>,
    context: &'a ReaderContext,
    /// The channel to which the next frames belong.
    selected: u32,
    /// The highest number of a channel so far.
    highest: u32,
    /// The channels that the client has not ended.
    channels: FxHashMap<u32, (ClientId, Arc<ChannelAccount>)>,
    /// A token of which each channel that routing has not removed holds a clone.
    here: Arc<()>,
}

impl<'a> ChannelReader<'a> {
    pub(super) fn new(
        connection: ClientId,
        process: Option<PeerProcess>,
        context: &'a ReaderContext,
    ) -> Self {
        let (channels, here) = (FxHashMap::default(), Arc::new(()));
        Self { connection, process, context, selected: OWN, highest: OWN, channels, here }
    }

    /// Whether the next frames are the connection's own.
    pub(super) const fn selects_own(&self) -> bool {
        self.selected == OWN
    }

    /// Handles a control frame.
    pub(super) fn control(&mut self, control: Control) -> ControlFlow<End> {
        match control {
            Control::Select(number) => self.select(number),
            Control::Credit(number, bytes) => {
                let Some((id, account)) = self.channels.get(&number) else {
                    return unknown(number);
                };
                // What routing has been told of and not looked at is not told again.
                if account.grant(bytes) { self.send(Event::Credited(*id)) } else { go_on() }
            }
            Control::End(number) => match self.channels.remove(&number) {
                Some((id, _)) => self.send(Event::Ended(id)),
                None => unknown(number),
            },
        }
    }

    /// Passes on frames of the selected channel.
    pub(super) fn frames(&self, mut frames: Frames<'_>) -> ControlFlow<End> {
        let Some((id, account)) = self.channels.get(&self.selected) else {
            return unknown(self.selected);
        };
        if !frames.clone().all(|content| account.receive(content)) {
            let message = format!("channel {} has no credit for a frame", self.selected);
            return violated(ErrorCode::BadFrame, message);
        }
        while frames.bytes() > 0 {
            let quota = Quota::Channel(Arc::clone(account));
            let batch = ClientBatch::parse(&mut frames);
            let queued = QueuedFrames::new(batch, quota, &self.context.buffered);
            self.send(Event::Frames(*id, queued))?;
        }
        go_on()
    }

    fn select(&mut self, number: u32) -> ControlFlow<End> {
        self.selected = number;
        if number == OWN || self.channels.contains_key(&number) {
            return go_on();
        }
        if self.highest.checked_add(1) != Some(number) {
            return unknown(number);
        }
        // The reader has one of the tokens.
        if self.channels.len().max(Arc::strong_count(&self.here) - 1) >= CHANNELS_MAX {
            let message = format!("a connection has at most {CHANNELS_MAX} channels");
            return violated(ErrorCode::TooManyClients, message);
        }
        self.highest = number;
        let (id, account) = (self.context.next_id(), Arc::<ChannelAccount>::default());
        self.channels.insert(number, (id, Arc::clone(&account)));
        let channel = Channel::new(self.connection, number, account, Arc::clone(&self.here));
        let client = ClientHandle::new(Link::Channel(channel));
        self.send(Event::Accepted(id, self.process, Box::new(client)))
    }

    fn send(&self, event: Event) -> ControlFlow<End> {
        match self.context.inbox.send(event) {
            Ok(()) => go_on(),
            Err(_) => ControlFlow::Break(End::Closed),
        }
    }
}

impl Drop for ChannelReader<'_> {
    fn drop(&mut self) {
        for (_, (id, _)) in self.channels.drain() {
            // Sending fails only while the daemon is ending.
            drop(self.context.inbox.send(Event::Ended(id)));
        }
    }
}

const fn go_on() -> ControlFlow<End> {
    ControlFlow::Continue(())
}

fn unknown(number: u32) -> ControlFlow<End> {
    let message = format!("channel {number} is not open; a new one has the next higher number");
    violated(ErrorCode::BadFrame, message)
}

fn violated(code: ErrorCode, message: String) -> ControlFlow<End> {
    ControlFlow::Break(End::Violated(Violation::new(code, message)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Inbox;
    use client::link::{BufferedBytes, HalfRead};
    use crossbeam_channel::never;
    use platform::peer::User;
    use protocol::{channel::CREDIT_BYTES, frame::Batch};

    fn context() -> ReaderContext {
        ReaderContext {
            inbox: Inbox::new(),
            frame_bytes_max: 1 << 20,
            buffered: BufferedBytes::default(),
            half_read: HalfRead::new(usize::MAX, usize::MAX),
            owner: User::me().unwrap(),
            router_ended: never(),
            ids: Arc::default(),
        }
    }

    /// Without a thread that routes, nothing is handled, and so nothing is granted.
    #[test]
    fn channel_has_no_more_credit_than_it_was_granted() {
        let context = context();
        let mut channels = ChannelReader::new(ClientId(7), None, &context);
        assert!(channels.control(Control::Select(1)).is_continue());
        let mut bytes = Vec::new();
        protocol::frame::append(&mut bytes, |frame| frame.resize(CREDIT_BYTES, b' '));
        let batch = Batch::of(bytes);
        assert!(channels.frames(batch.frames()).is_continue());
        // Another channel is not affected.
        assert!(channels.control(Control::Select(2)).is_continue());
        assert!(channels.frames(batch.frames()).is_continue());
        assert!(channels.control(Control::Select(1)).is_continue());
        let ControlFlow::Break(End::Violated(violation)) = channels.frames(batch.frames()) else {
            panic!("the frame was passed on");
        };
        assert_eq!(violation.code, ErrorCode::BadFrame);
    }

    /// Grants that routing has not looked at are one event, however many there are.
    #[test]
    fn many_grants_are_one_event() {
        let context = context();
        let mut channels = ChannelReader::new(ClientId(7), None, &context);
        assert!(channels.control(Control::Select(1)).is_continue());
        for _ in 0..1000 {
            assert!(channels.control(Control::Credit(1, u32::MAX)).is_continue());
        }
        drop(channels);
        let events: Vec<_> = std::iter::from_fn(|| context.inbox.pop()).collect();
        assert!(
            matches!(&events[..], [Event::Accepted(..), Event::Credited(_), Event::Ended(_)]),
            "{events:?}"
        );
    }
}
