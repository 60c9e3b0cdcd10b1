//! The table of connections: how connections enter and leave it, the frames handed to them, and
//! read pauses.

use super::{
    client::{Applicant, Client, Membership, Stage, WaitingForName},
    deferred,
    send_window::{Content, Notice, Unwritten, Window},
};
use crate::{
    protocol::{
        Moment,
        code::{ErrorCode, NackCode, Violation},
        envelope::{Header, Kind},
        payload::{Ack, Nack},
    },
    router::{
        context::Context,
        frame::Frame,
        interface::{ClientId, Output},
        keys::AgentKey,
        timers::Timer,
    },
};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};
use uuid::Uuid;

/// The initial capacity for an answer's frame.
const ANSWER_BYTES: usize = 192;

/// All connections.
#[derive(Debug, Default)]
pub(in crate::router) struct Connections {
    pub(super) clients: FxHashMap<ClientId, Client>,
    /// Clients without a handshake, the oldest first.
    unauthenticated: BTreeSet<ClientId>,
    members: usize,
    /// Clients that wait for the name of a connected agent, in the order of their HELLOs.
    waiting: BTreeMap<AgentKey, Vec<ClientId>>,
    /// The last time at which the driver woke late. Silence before that does not count against
    /// clients.
    pub(super) woke: Moment,
}

/// The decision when a frame is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::router) enum Handling {
    /// The frame is handled at once.
    Now,
    /// The frame is handled once the client has read its answers.
    Deferred,
}

impl Connections {
    /// Adds a connection.
    pub(in crate::router) fn add(&mut self, ctx: &Context, id: ClientId) {
        self.clients.insert(id, Client::new(ctx.now.monotonic));
    }

    /// Begins to wait for a connection's handshake. If too many connections wait, returns the
    /// oldest of them.
    pub(in crate::router) fn await_handshake(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
    ) -> Option<ClientId> {
        self.set_timer(ctx, id);
        self.unauthenticated.insert(id);
        let is_over = self.unauthenticated.len() > ctx.limits.unauthenticated_max;
        self.unauthenticated.first().copied().filter(|_| is_over)
    }

    /// Notes a frame for the client's heartbeat, and returns when to handle the frame.
    pub(in crate::router) fn note_frame(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        json: &[u8],
    ) -> Option<Handling> {
        let client = self.clients.get_mut(&id)?;
        let is_paused = client.is_paused;
        if matches!(client.stage, Stage::Member(_)) {
            client.last_frame = ctx.now.monotonic;
            if client.pinged.take().is_some() {
                self.set_timer(ctx, id);
            }
        }
        let is_deferred = is_paused && self.has_to_wait(ctx, id, json);
        Some(if is_deferred { Handling::Deferred } else { Handling::Now })
    }

    fn has_to_wait(&self, ctx: &Context, id: ClientId, json: &[u8]) -> bool {
        let client = &self.clients[&id];
        !matches!(client.stage, Stage::Member(_) | Stage::Unauthenticated { .. })
            || !client.deferred.is_empty()
            || !ctx.has_memory_for(0)
            || deferred::can_have_long_answer(json)
    }

    /// Defers a frame. Returns a violation if a limit does not allow that.
    pub(in crate::router) fn defer(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        json: &[u8],
    ) -> Option<Violation> {
        let client = self.clients.get_mut(&id)?;
        match &client.stage {
            Stage::Closing { .. } | Stage::HungUp => None,
            Stage::WaitingForName(waiting)
                if client.deferred.bytes() + json.len() > 2 * ctx.limits.frame_bytes_max =>
            {
                let name = &waiting.applicant.name;
                let message = format!("{name} is connected, and this is too much to wait");
                Some(Violation::new(ErrorCode::NameInUse, message))
            }
            Stage::Member(_) | Stage::Unauthenticated { .. } if !ctx.has_memory_for(json.len()) => {
                let message = "answers wait to be read, and the daemon has no memory for more";
                Some(Violation::new(ErrorCode::TooManyClients, message))
            }
            Stage::WaitingForName(_) | Stage::Member(_) | Stage::Unauthenticated { .. } => {
                client.deferred.push(json);
                ctx.memory.charge(json.len());
                None
            }
        }
    }

    /// Removes and returns the next deferred frame, if the client has read enough of its answers.
    pub(in crate::router) fn next_deferred(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
    ) -> Option<Box<[u8]>> {
        if !self.may_be_read(ctx, id) {
            return None;
        }
        let json = self.clients.get_mut(&id)?.deferred.pop()?;
        ctx.memory.release(json.len());
        Some(json)
    }

    /// Ends a client's read pause, if the client has read enough of its answers.
    pub(in crate::router) fn resume_reading(&mut self, ctx: &mut Context, id: ClientId) {
        if self.may_be_read(ctx, id) {
            self.set_paused(ctx, id, false);
        }
    }

    fn may_be_read(&self, ctx: &Context, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| {
            matches!(client.stage, Stage::Member(_) | Stage::Unauthenticated { .. })
                && client.window.answers() <= ctx.limits.answers_bytes_max / 2
        })
    }

    pub(in crate::router) fn is_paused(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(|client| client.is_paused)
    }

    fn set_paused(&mut self, ctx: &mut Context, id: ClientId, is_paused: bool) {
        if let Some(client) = self.clients.get_mut(&id)
            && client.is_paused != is_paused
        {
            client.is_paused = is_paused;
            ctx.emit(Output::SetReading(id, !is_paused));
        }
    }

    /// Hands out a frame from the daemon itself, even if the client's window is full.
    pub(in crate::router) fn answer(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        kind: Kind,
        payload: &impl Serialize,
    ) {
        let (mut text, mut head) = (Uuid::encode_buffer(), ctx.head_buffer(ANSWER_BYTES));
        let frame_id = ctx.new_id().hyphenated().encode_lower(&mut text);
        Header::new(kind, frame_id, ctx.now.unix_ms).append(&mut head, payload);
        self.hand(ctx, id, Frame { head, shared: None }, Content::Answer);
    }

    pub(in crate::router) fn acknowledge(&mut self, ctx: &mut Context, id: ClientId, ack_id: &str) {
        self.answer(ctx, id, Kind::Ack, &Ack { ack_id: ack_id.into(), ..Ack::default() });
    }

    pub(in crate::router) fn nack(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        ack_id: &str,
        code: NackCode,
        message: impl Into<String>,
    ) {
        self.answer(ctx, id, Kind::Nack, &Nack::new(ack_id, code, message));
    }

    /// Hands a notice to its sender's connection.
    pub(in crate::router) fn hand_notice(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        notice: Notice,
    ) {
        let frame = Frame { head: Vec::new(), shared: Some(notice.frame.clone()) };
        self.hand(ctx, id, frame, Content::Notice(notice));
    }

    /// Hands a frame out. A connection that is being closed gets no more frames.
    pub(in crate::router) fn hand(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        frame: Frame,
        content: Content,
    ) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if matches!(client.stage, Stage::Closing { .. } | Stage::HungUp) {
            return;
        }
        let bytes = frame.bytes();
        if content.is_answer() {
            ctx.memory.charge(bytes);
        }
        client.window.push(bytes, content);
        let unread = client.window.answers();
        ctx.emit(Output::Frame(id, frame));
        if unread > ctx.limits.answers_bytes_max {
            self.set_paused(ctx, id, true);
        }
    }

    /// Whether a member's window has room for a DELIVER.
    pub(in crate::router) fn has_room(&self, ctx: &Context, id: ClientId, bytes: usize) -> bool {
        self.clients[&id].window.has_room(bytes, ctx.limits.window_bytes)
    }

    /// Counts bytes that were written to a client; [`next_written`](Self::next_written) returns
    /// their frames.
    pub(in crate::router) fn add_written(&mut self, ctx: &Context, id: ClientId, bytes: usize) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.window.add_written(bytes);
        if client.is_paused && matches!(client.stage, Stage::Member(_)) {
            // The client reads slowly. Its silence is due to the read pause and does not count
            // against it.
            client.last_frame = ctx.now.monotonic;
            client.pinged = client.pinged.map(|_| ctx.now.monotonic);
        }
    }

    /// Removes and returns a client's oldest frame, if it is completely written.
    pub(in crate::router) fn next_written(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
    ) -> Option<Unwritten> {
        let written = self.clients.get_mut(&id)?.window.next_written()?;
        if written.content.is_answer() {
            ctx.memory.release(written.bytes);
        }
        Some(written)
    }

    /// Turns those unwritten at-most-once frames for which `is_retained` holds into copies, which
    /// do not count in a queue. `is_retained` gets the message's order.
    pub(in crate::router) fn retract(
        &mut self,
        id: ClientId,
        mut is_retained: impl FnMut(u64) -> bool,
    ) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        for frame in client.window.frames_mut() {
            if let Content::AtMostOnce { order, .. } = frame.content
                && is_retained(order)
            {
                frame.content = Content::Copy;
            }
        }
    }

    /// Makes a client wait for the name of a connected agent. Returns whether the client is the
    /// first in line.
    pub(in crate::router) fn wait_for_name(
        &mut self,
        ctx: &Context,
        id: ClientId,
        applicant: Applicant,
        agent: AgentKey,
    ) -> bool {
        let since = ctx.now.monotonic;
        let Some(client) = self.clients.get_mut(&id) else { return false };
        let waiting = WaitingForName { since, agent, applicant };
        client.stage = Stage::WaitingForName(Box::new(waiting));
        let line = self.waiting.entry(agent).or_default();
        line.push(id);
        line.len() == 1
    }

    /// Pauses reading from a client that waits for a name.
    pub(in crate::router) fn pause_for_name(&mut self, ctx: &mut Context, id: ClientId) {
        self.set_paused(ctx, id, true);
        self.set_timer(ctx, id);
    }

    /// Removes and returns the first client that waits for this agent's name.
    pub(in crate::router) fn next_waiting(
        &mut self,
        ctx: &Context,
        agent: AgentKey,
    ) -> Option<(ClientId, Applicant)> {
        let id = self.waiting.get(&agent)?.first().copied()?;
        self.stop_waiting(agent, id);
        let client = self.clients.get_mut(&id)?;
        let fresh = Stage::Unauthenticated { since: ctx.now.monotonic };
        match mem::replace(&mut client.stage, fresh) {
            Stage::WaitingForName(waiting) => Some((id, waiting.applicant)),
            _ => unreachable!("a client that no longer waits has left the line"),
        }
    }

    fn stop_waiting(&mut self, agent: AgentKey, id: ClientId) {
        if let Some(line) = self.waiting.get_mut(&agent) {
            line.retain(|other| *other != id);
            if line.is_empty() {
                self.waiting.remove(&agent);
            }
        }
    }

    /// Completes a client's handshake: from now on, the client sends in the agent's name.
    pub(in crate::router) fn join(
        &mut self,
        ctx: &Context,
        id: ClientId,
        agent: AgentKey,
        membership: Membership,
    ) {
        self.members += 1;
        self.unauthenticated.remove(&id);
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.agent = Some(agent);
        client.last_frame = ctx.now.monotonic;
        client.stage = Stage::Member(Box::new(membership));
    }

    /// Notes that the store has recorded that a member is connected. Returns the member's agent.
    pub(in crate::router) fn note_recorded(&mut self, id: ClientId) -> Option<AgentKey> {
        self.membership_mut(id)?.is_recorded = true;
        self.agent_of(id)
    }

    /// Notes that a member reports the progress of its deliveries.
    pub(in crate::router) fn note_reports(&mut self, id: ClientId) {
        if let Some(membership) = self.membership_mut(id) {
            membership.capabilities.reports = true;
        }
    }

    /// Ends a client's membership, or its wait for a handshake or a name. Returns the membership
    /// and its agent, if the client was a member.
    pub(in crate::router) fn leave(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
    ) -> Option<(AgentKey, Box<Membership>)> {
        let client = self.clients.get_mut(&id)?;
        ctx.memory.release(mem::take(&mut client.deferred).bytes());
        match mem::replace(&mut client.stage, Stage::HungUp) {
            Stage::Member(membership) => {
                self.members -= 1;
                Some((client.agent?, membership))
            }
            Stage::WaitingForName(waiting) => {
                self.unauthenticated.remove(&id);
                self.stop_waiting(waiting.agent, id);
                None
            }
            Stage::Unauthenticated { .. } => {
                self.unauthenticated.remove(&id);
                None
            }
            stage @ (Stage::Closing { .. } | Stage::HungUp) => {
                client.stage = stage;
                None
            }
        }
    }

    /// Begins to close a connection whose client has left: the last frames may still be written for
    /// `CLOSE_MS` milliseconds.
    pub(in crate::router) fn close(&mut self, ctx: &mut Context, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.stage = Stage::Closing { since: ctx.now.monotonic };
        }
        self.set_timer(ctx, id);
    }

    /// Removes a connection. Returns its agent and its unwritten frames.
    pub(in crate::router) fn remove(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
    ) -> Option<(Option<AgentKey>, Window)> {
        let client = self.clients.remove(&id)?;
        self.unauthenticated.remove(&id);
        if let Some(at) = client.timer {
            ctx.timers.cancel(at, Timer::Client(id));
        }
        ctx.memory.release(client.window.answers());
        Some((client.agent, client.window))
    }

    pub(in crate::router) fn stage(&self, id: ClientId) -> Option<&Stage> {
        self.clients.get(&id).map(|client| &client.stage)
    }

    /// Whether a connection is neither closed nor being closed.
    pub(in crate::router) fn is_open(&self, id: ClientId) -> bool {
        !matches!(self.stage(id), None | Some(Stage::Closing { .. } | Stage::HungUp))
    }

    pub(in crate::router) fn is_hung_up(&self, id: ClientId) -> bool {
        matches!(self.stage(id), Some(Stage::HungUp))
    }

    pub(in crate::router) fn membership(&self, id: ClientId) -> Option<&Membership> {
        match self.clients.get(&id)? {
            Client { stage: Stage::Member(membership), .. } => Some(membership),
            _ => None,
        }
    }

    fn membership_mut(&mut self, id: ClientId) -> Option<&mut Membership> {
        match self.clients.get_mut(&id)? {
            Client { stage: Stage::Member(membership), .. } => Some(membership),
            _ => None,
        }
    }

    /// Returns the agent in whose name a client sends or has sent.
    pub(in crate::router) fn agent_of(&self, id: ClientId) -> Option<AgentKey> {
        self.clients.get(&id)?.agent
    }

    pub(in crate::router) const fn members(&self) -> usize {
        self.members
    }

    pub(in crate::router) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(in crate::router) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    pub(in crate::router) fn contains(&self, id: ClientId) -> bool {
        self.clients.contains_key(&id)
    }

    /// Returns all connections, the oldest first.
    pub(in crate::router) fn ids(&self) -> Vec<ClientId> {
        let mut ids: Vec<_> = self.clients.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the unwritten notices with their senders and numbers in the store, the oldest client
    /// first.
    pub(in crate::router) fn unwritten_notices(&self) -> Vec<(AgentKey, Option<u64>, Arc<[u8]>)> {
        let mut notices = Vec::new();
        for client in self.ids().iter().map(|id| &self.clients[id]) {
            let Some(agent) = client.agent else { continue };
            notices.extend(client.window.frames().filter_map(|frame| match &frame.content {
                Content::Notice(notice) => Some((agent, notice.number, notice.frame.clone())),
                _ => None,
            }));
        }
        notices
    }

    #[cfg(test)]
    pub(in crate::router) fn all(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.clients.iter().map(|(id, client)| (*id, client))
    }

    #[cfg(test)]
    pub(in crate::router) fn get(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(&id)
    }

    #[cfg(test)]
    pub(in crate::router) fn unauthenticated(&self) -> usize {
        self.unauthenticated.len()
    }
}
