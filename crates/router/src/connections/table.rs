//! The table of connections: how connections enter and leave it, the frames handed to them, and
//! pauses.

use super::{
    client::{Applicant, Client, Doing, Membership, Stage, WaitingForName},
    send_window::{Content, Window},
};
use crate::{
    accounts::{Class, Counts},
    context::Context,
    frame::Frame,
    interface::{ClientId, Output, PeerProcess},
    keys::AgentKey,
    mail::Message,
    outcome::Notice,
    timers::Timer,
};
use protocol::{
    Moment,
    code::{NackCode, Violation},
    envelope::{Header, Kind},
    payload::{Ack, Nack},
    secret::Hash,
};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};
use uuid::Uuid;

/// The initial capacity for an answer's frame.
const ANSWER_BYTES: usize = 192;

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub(super) clients: FxHashMap<ClientId, Client>,
    /// Clients without a handshake, the oldest first.
    unauthenticated: BTreeSet<ClientId>,
    /// The number of members of each process.
    members: Counts<PeerProcess>,
    /// Members whose frames wait for the store.
    awaiting_store: BTreeSet<ClientId>,
    /// Clients that wait for the name of a connected agent, in the order of their HELLOs.
    waiting: BTreeMap<AgentKey, Vec<ClientId>>,
    /// The last time at which the driver woke late. Silence before that does not count against
    /// clients.
    pub(super) woke: Moment,
}

impl Connections {
    /// Adds a connection.
    pub(crate) fn add(&mut self, ctx: &Context, id: ClientId, process: Option<PeerProcess>) {
        self.clients.insert(id, Client::new(process, ctx.now.monotonic));
    }

    /// Begins to wait for a connection's handshake. If too many connections wait, returns one of
    /// the process that has most of them: the oldest without a frame, or else the oldest.
    pub(crate) fn await_handshake(&mut self, ctx: &mut Context, id: ClientId) -> Option<ClientId> {
        self.set_timer(ctx, id);
        self.unauthenticated.insert(id);
        if self.unauthenticated.len() <= ctx.limits.unauthenticated_max {
            return None;
        }
        let mut counts = FxHashMap::<Option<PeerProcess>, usize>::default();
        for id in &self.unauthenticated {
            *counts.entry(self.process(*id)).or_default() += 1;
        }
        let most = counts.values().copied().max();
        let has_most = |id: &&ClientId| counts.get(&self.process(**id)).copied() == most;
        let of_most = || self.unauthenticated.iter().filter(has_most).copied();
        of_most().find(|id| !self.clients[id].has_spoken).or_else(|| of_most().next())
    }

    /// Returns the number of members of a process.
    pub(crate) fn members_of(&self, process: PeerProcess) -> usize {
        self.members.of(&process)
    }

    /// Returns the companions of an agent whose keys match.
    pub(crate) fn companions_of(
        &self,
        agent: AgentKey,
        matches: impl Fn(&Hash) -> bool,
    ) -> Vec<ClientId> {
        let of_agent = self.clients.iter().filter(|(_, client)| client.agent == Some(agent));
        let found = of_agent.filter(|(id, _)| {
            let membership = self.membership(**id).filter(|membership| membership.is_beside());
            membership.and_then(|own| own.companion_key.as_ref()).is_some_and(&matches)
        });
        let mut found: Vec<_> = found.map(|(id, _)| *id).collect();
        found.sort_unstable();
        found
    }

    /// Returns the process at the other end of a connection, if the system tells it.
    pub(crate) fn process(&self, id: ClientId) -> Option<PeerProcess> {
        self.clients.get(&id)?.process
    }

    /// Notes the arrival of frames, which is a sign of life.
    pub(crate) fn note_arrival(&mut self, ctx: &mut Context, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.has_spoken = true;
        client.last_frame = ctx.now.monotonic;
        if client.pinged.take().is_some() {
            self.set_timer(ctx, id);
        }
    }

    /// Notes that a frame of a client was handled. If the frame did not complete the handshake, the
    /// client has to send another one, in the time that it had for the first. Returns a violation
    /// if that is over.
    pub(crate) fn note_first_frame(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
    ) -> Option<Violation> {
        let client = self.clients.get_mut(&id)?;
        let Stage::Unauthenticated { .. } = client.stage else { return None };
        client.has_spoken = false;
        self.set_timer(ctx, id);
        let is_late = self.clients[&id].timer.is_some_and(|due| due <= ctx.now.monotonic);
        if is_late { self.on_timer(ctx, id) } else { None }
    }

    /// Makes a member's frames wait until its principal has a share of the store again. Returns
    /// false if they do already, or if the client is no member.
    pub(crate) fn pause_for_store(&mut self, ctx: &mut Context, id: ClientId) -> bool {
        let is_new = self.membership(id).is_some() && self.awaiting_store.insert(id);
        if is_new {
            self.set_paused(ctx, id, true);
        }
        is_new
    }

    /// Lets the frames of members be handled again whose principals have a share of the store
    /// again. Returns the members' agents.
    pub(crate) fn end_store_pauses(&mut self, ctx: &mut Context) -> Vec<AgentKey> {
        let waiting = self.awaiting_store.iter();
        let waiting = waiting.filter_map(|id| Some((*id, self.clients.get(id)?.agent?)));
        let ready: Vec<_> = waiting.filter(|(_, agent)| ctx.has_half_of_store(*agent)).collect();
        for (id, _) in &ready {
            self.awaiting_store.remove(id);
            self.end_pause(ctx, *id);
        }
        ready.into_iter().map(|(_, agent)| agent).collect()
    }

    /// Lets a client's frames be handled again, if the client has read enough of its answers and
    /// does not wait for the store.
    pub(crate) fn end_pause(&mut self, ctx: &mut Context, id: ClientId) {
        let waits = self.awaiting_store.contains(&id);
        let may_end = self.clients.get(&id).is_some_and(|client| {
            !waits
                && matches!(client.stage, Stage::Member(_) | Stage::Unauthenticated { .. })
                && client.window.answers() <= client.unread_max(ctx) / 2
        });
        if may_end {
            self.set_paused(ctx, id, false);
        }
    }

    fn set_paused(&mut self, ctx: &mut Context, id: ClientId, is_paused: bool) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.set_paused(ctx, id, is_paused);
        }
    }

    /// Hands out a frame from the daemon itself, even if the client's window is full.
    pub(crate) fn answer(
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

    pub(crate) fn acknowledge(&mut self, ctx: &mut Context, id: ClientId, ack_id: &str) {
        self.answer(ctx, id, Kind::Ack, &Ack { ack_id: ack_id.into(), ..Ack::default() });
    }

    pub(crate) fn nack(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        ack_id: &str,
        code: NackCode,
        message: impl Into<String>,
    ) {
        self.answer(ctx, id, Kind::Nack, &Nack::new(ack_id, code, message));
    }

    /// Whether a client reads, so that it may get the answer to a question.
    pub(crate) fn reads(&self, ctx: &Context, id: ClientId) -> bool {
        self.clients.get(&id).is_none_or(|client| client.reads(ctx))
    }

    /// Hands a notice to its sender's connection.
    pub(crate) fn hand_notice(&mut self, ctx: &mut Context, id: ClientId, notice: Notice) {
        let frame = Frame { head: Vec::new(), shared: Some(notice.frame.clone()) };
        self.hand(ctx, id, frame, Content::Notice(notice));
    }

    /// Hands a frame out. A connection that is being closed gets no more frames.
    pub(crate) fn hand(&mut self, ctx: &mut Context, id: ClientId, frame: Frame, content: Content) {
        if let Some(client) = self.clients.get_mut(&id)
            && !matches!(client.stage, Stage::Closing { .. } | Stage::HungUp)
        {
            Self::hand_to(ctx, id, client, frame, content);
        }
    }

    /// Hands a frame to a client whose connection is open.
    fn hand_to(
        ctx: &mut Context,
        id: ClientId,
        client: &mut Client,
        frame: Frame,
        content: Content,
    ) {
        let bytes = frame.bytes();
        if client.window.memory_bytes() == 0 {
            client.last_read = ctx.now.monotonic;
        }
        client.charge_unwritten(ctx, bytes + content.kept_bytes());
        client.window.push(bytes, content);
        match &mut client.held {
            Some(held) => held.push(frame),
            None => ctx.emit(Output::Frame(id, frame)),
        }
        if client.window.answers() > client.unread_max(ctx) {
            client.set_paused(ctx, id, true);
        }
    }

    /// Hands out a message's next DELIVER.
    pub(crate) fn deliver(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        message: &Message,
        content: Content,
    ) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Stage::Member(membership) = &client.stage else { return };
        let frame = message.frame(ctx, &membership.text);
        Self::hand_to(ctx, id, client, frame, content);
    }

    /// Whether a member's window has room for a DELIVER.
    pub(crate) fn has_room(&self, ctx: &Context, id: ClientId, bytes: usize) -> bool {
        self.clients[&id].window.has_room(bytes, ctx.limits.window_bytes)
    }

    /// Returns how many at-least-once DELIVERs may be in flight to a member whose window has room
    /// for an at-most-once DELIVER.
    pub(crate) fn room_for_one(&self, ctx: &Context, id: ClientId, bytes: usize) -> Option<u64> {
        let client = self.clients.get(&id)?;
        let Stage::Member(membership) = &client.stage else { return None };
        let has_room = client.window.has_room(bytes, ctx.limits.window_bytes);
        has_room.then(|| membership.in_flight_max())
    }

    /// Counts bytes that were written to a client, and takes the contents of the frames that are
    /// now completely written, the oldest first.
    pub(crate) fn take_written(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        bytes: usize,
        mut take: impl FnMut(&mut Context, Content),
    ) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.window.add_written(bytes);
        client.last_read = ctx.now.monotonic;
        if client.is_paused && matches!(client.stage, Stage::Member(_)) {
            // The client reads slowly. Its silence is due to the pause and does not count
            // against it.
            client.last_frame = ctx.now.monotonic;
            client.pinged = client.pinged.map(|_| ctx.now.monotonic);
        }
        while let Some(frame) = client.window.next_written() {
            client.release_unwritten(ctx, frame.memory_bytes());
            take(ctx, frame.content);
        }
    }

    /// Turns those unwritten at-most-once frames for which `is_retained` holds into copies, which
    /// do not count in a queue. `is_retained` gets the message's order.
    pub(crate) fn retract(&mut self, id: ClientId, mut is_retained: impl FnMut(u64) -> bool) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        for frame in client.window.frames_mut() {
            if let Content::AtMostOnce { order, .. } = frame.content
                && is_retained(order)
            {
                frame.content = Content::Copy;
            }
        }
    }

    /// Makes a client wait for an agent's name, until this moment. Returns whether the client is
    /// the first in line.
    pub(crate) fn wait_for_name(
        &mut self,
        id: ClientId,
        applicant: Applicant,
        agent: AgentKey,
        until: Moment,
    ) -> bool {
        let Some(client) = self.clients.get_mut(&id) else { return false };
        let waiting = WaitingForName { until, agent, applicant };
        client.stage = Stage::WaitingForName(Box::new(waiting));
        let line = self.waiting.entry(agent).or_default();
        line.push(id);
        line.len() == 1
    }

    /// Returns the agents whose names clients wait for.
    pub(crate) fn awaited_names(&self) -> Vec<AgentKey> {
        self.waiting.keys().copied().collect()
    }

    /// Keeps the frames of a client that has joined until
    /// [`release_frames`](Self::release_frames).
    pub(crate) fn hold_frames(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.held = Some(Vec::new());
        }
    }

    /// Hands out the frames that were kept for a client.
    pub(crate) fn release_frames(&mut self, ctx: &mut Context, id: ClientId) {
        let held = self.clients.get_mut(&id).and_then(|client| client.held.take());
        for frame in held.into_iter().flatten() {
            ctx.emit(Output::Frame(id, frame));
        }
    }

    /// Makes the frames of a client wait while it waits for a name.
    pub(crate) fn pause_for_name(&mut self, ctx: &mut Context, id: ClientId) {
        self.set_paused(ctx, id, true);
        self.set_timer(ctx, id);
    }

    /// Removes and returns the first client that waits for this agent's name.
    pub(crate) fn next_waiting(
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
    pub(crate) fn join(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
        agent: AgentKey,
        membership: Membership,
    ) {
        ctx.accounts.charge(Class::Members, agent, 1);
        self.unauthenticated.remove(&id);
        let Some(client) = self.clients.get_mut(&id) else { return };
        if let Some(process) = client.process {
            self.members.add(process);
        }
        ctx.accounts.charge(Class::Memory, agent, client.window.memory_bytes());
        client.agent = Some(agent);
        ctx.emit(Output::Admitted(id));
        client.last_frame = ctx.now.monotonic;
        client.stage = Stage::Member(Box::new(membership));
    }

    /// Notes that the store has recorded that a member is connected. Returns the member's agent.
    pub(crate) fn note_recorded(&mut self, id: ClientId) -> Option<AgentKey> {
        self.membership_mut(id)?.is_recorded = true;
        self.agent_of(id)
    }

    /// Notes that a member reports the progress of its deliveries.
    pub(crate) fn note_reports(&mut self, id: ClientId) {
        if let Some(membership) = self.membership_mut(id) {
            membership.capabilities.reports = true;
        }
    }

    /// Notes what a member's agent does. Returns what it has done before, if that is known.
    pub(crate) fn note_activity(&mut self, id: ClientId, doing: Doing) -> Option<Doing> {
        self.membership_mut(id)?.doing.replace(doing)
    }

    /// Ends a client's membership, or its wait for a handshake or a name. Returns the membership
    /// and its agent, if the client was a member.
    pub(crate) fn leave(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
    ) -> Option<(AgentKey, Box<Membership>)> {
        self.awaiting_store.remove(&id);
        let client = self.clients.get_mut(&id)?;
        match mem::replace(&mut client.stage, Stage::HungUp) {
            Stage::Member(membership) => {
                let agent = client.agent?;
                ctx.accounts.release(Class::Members, agent, 1);
                if let Some(process) = client.process {
                    self.members.remove(process);
                }
                Some((agent, membership))
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
    pub(crate) fn close(&mut self, ctx: &mut Context, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.stage = Stage::Closing { since: ctx.now.monotonic };
        }
        self.set_timer(ctx, id);
    }

    /// Removes a connection. Returns its agent and its unwritten frames.
    pub(crate) fn remove(
        &mut self,
        ctx: &mut Context,
        id: ClientId,
    ) -> Option<(Option<AgentKey>, Window)> {
        let client = self.clients.remove(&id)?;
        self.unauthenticated.remove(&id);
        if let Some(at) = client.timer {
            ctx.timers.cancel(at, Timer::Client(id));
        }
        client.release_unwritten(ctx, client.window.memory_bytes());
        Some((client.agent, client.window))
    }

    pub(crate) fn stage(&self, id: ClientId) -> Option<&Stage> {
        self.clients.get(&id).map(|client| &client.stage)
    }

    /// Whether a connection is neither closed nor being closed.
    pub(crate) fn is_open(&self, id: ClientId) -> bool {
        !matches!(self.stage(id), None | Some(Stage::Closing { .. } | Stage::HungUp))
    }

    pub(crate) fn is_hung_up(&self, id: ClientId) -> bool {
        matches!(self.stage(id), Some(Stage::HungUp))
    }

    pub(crate) fn membership(&self, id: ClientId) -> Option<&Membership> {
        match self.clients.get(&id)? {
            Client { stage: Stage::Member(membership), .. } => Some(membership),
            _ => None,
        }
    }

    pub(super) fn membership_mut(&mut self, id: ClientId) -> Option<&mut Membership> {
        match self.clients.get_mut(&id)? {
            Client { stage: Stage::Member(membership), .. } => Some(membership),
            _ => None,
        }
    }

    /// Whether it is known that a member got its WELCOME.
    pub(crate) fn knows_session(&self, id: ClientId) -> bool {
        self.membership(id).is_some_and(|membership| membership.knows_session)
    }

    /// Returns the agent in whose name a client sends or has sent.
    pub(crate) fn agent_of(&self, id: ClientId) -> Option<AgentKey> {
        self.clients.get(&id)?.agent
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    pub(crate) fn contains(&self, id: ClientId) -> bool {
        self.clients.contains_key(&id)
    }

    /// Returns all connections, the oldest first.
    pub(crate) fn ids(&self) -> Vec<ClientId> {
        let mut ids: Vec<_> = self.clients.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the unwritten notices with their senders, the oldest client first.
    pub(crate) fn unwritten_notices(&self) -> Vec<(AgentKey, Notice)> {
        let mut notices = Vec::new();
        for client in self.ids().iter().map(|id| &self.clients[id]) {
            let Some(agent) = client.agent else { continue };
            notices.extend(client.window.frames().filter_map(|frame| match &frame.content {
                Content::Notice(notice) => Some((agent, notice.clone())),
                _ => None,
            }));
        }
        notices
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Connections {
        pub(crate) fn all(&self) -> impl Iterator<Item = (ClientId, &Client)> {
            self.clients.iter().map(|(id, client)| (*id, client))
        }

        pub(crate) fn get(&self, id: ClientId) -> Option<&Client> {
            self.clients.get(&id)
        }

        pub(crate) fn unauthenticated(&self) -> usize {
            self.unauthenticated.len()
        }

        pub(crate) fn awaits_store(&self, id: ClientId) -> bool {
            self.awaiting_store.contains(&id)
        }
    }
}
