//! The room for names, and which names are forgotten to make some.

use super::{
    Router, accounts,
    directory::{Origin, Session},
    handshake::{Refusal, too_many},
    interface::PeerProcess,
    keys::AgentKey,
    mail::DetachedStreams,
    work::NODE_WORK,
};
use protocol::{name::Name, record::Change};

/// The most names divided by this number is how many names are forgotten at once: a search is too
/// expensive to forget only one.
const NAME_PARTS: usize = 64;

/// The use of an absent agent's name. Names of the least use are forgotten first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameUse {
    /// An agent of another machine, whatever else is known of it.
    Remote,
    /// A guest that may return.
    Guest,
    None,
    /// The agent's SENDs are remembered.
    Dedup,
    /// The agent has a session, and has never sent or received anything.
    BlankSession,
    /// Only the agent itself, or its process, has sent it the mail that waits for it.
    OwnMail,
}

impl Router {
    /// Checks whether a process may bring another name, which is not a guest's. Forgets names that
    /// are not needed if there is no room.
    pub(super) fn check_room_for_name(
        &mut self,
        name: &Name,
        process: PeerProcess,
    ) -> Result<(), Refusal> {
        let origin = Origin::of(name, process);
        if !self.may_hold_another_name(origin.as_ref()) {
            self.forget_unneeded_names(origin.as_ref());
        }
        if self.directory.len() >= self.ctx.limits.names_max {
            self.forget_unneeded_names(None);
        }
        if self.directory.len() >= self.ctx.limits.names_max {
            return Err(too_many(self.directory.len(), "names are known"));
        }
        match origin {
            Some(origin) if !self.may_hold_another_name(Some(&origin)) => {
                let held = self.directory.names_of(&origin);
                Err(too_many(held, &format!("names of {origin} are known")))
            }
            _ => Ok(()),
        }
    }

    /// Whether another name is within its origin's share. While the table is less than half full,
    /// there are no shares.
    fn may_hold_another_name(&self, origin: Option<&Origin>) -> bool {
        let (known, most) = (self.directory.len(), self.ctx.limits.names_max);
        let held = origin.map_or(0, |origin| self.directory.names_of(origin));
        known < most / 2 || accounts::excess(held, known, 1, most) == 0
    }

    /// Whether another guest may have a name. Guests, all together, may have half of what the
    /// others leave. Forgets names that are not needed if there is no room.
    pub(super) fn has_room_for_guest_name(&mut self) -> bool {
        if !self.guests_may_hold_another_name() {
            self.forget_unneeded_names(None);
        }
        self.guests_may_hold_another_name()
    }

    fn guests_may_hold_another_name(&self) -> bool {
        let guests = self.directory.guests();
        let others = self.directory.len() - guests;
        guests < self.ctx.limits.names_max.saturating_sub(others).div_ceil(2)
    }

    /// Forgets some names of the least use, those of the agents that have been away longest first.
    /// Forgets only names of `origin`, if one is given. Does nothing if such a search has found
    /// none shortly before.
    fn forget_unneeded_names(&mut self, origin: Option<&Origin>) {
        if !self.directory.may_search(&self.ctx, origin) {
            return;
        }
        self.ctx.spend(NODE_WORK * self.directory.len() as u64);
        let absent = self.directory.absent();
        let absent = absent
            .filter(|agent| origin.is_none() || self.directory[*agent].origin.as_ref() == origin);
        let unneeded = absent.filter_map(|agent| {
            Some((self.use_of_name(agent)?, self.directory[agent].forget_at, agent))
        });
        let mut unneeded: Vec<_> = unneeded.collect();
        unneeded.sort();
        let least = unneeded.first().map(|(use_of_it, ..)| *use_of_it);
        unneeded.retain(|(use_of_it, ..)| Some(*use_of_it) == least);
        unneeded.truncate(self.ctx.limits.names_max.div_ceil(NAME_PARTS));
        if unneeded.is_empty() {
            self.directory.put_off_search(&self.ctx, origin);
        }
        for (.., agent) in unneeded {
            self.forget(agent);
        }
    }

    /// Returns the use of an absent agent's name, or `None` if something would be lost with it:
    /// another's mail, a question, a key, or a session that had any mail or subscription.
    fn use_of_name(&self, agent: AgentKey) -> Option<NameUse> {
        let known = &self.directory[agent];
        if known.is_guest() {
            return known.forget_at.map(|_| NameUse::Guest);
        }
        let is_needed = self.questions.count(agent) > 0
            || self.enforcement.has_key(&known.name)
            || self.has_mail_of_others(agent);
        if is_needed {
            return None;
        }
        let session = self.directory.session(agent);
        let is_blank =
            |session: &Session| session.subscriptions.is_empty() && !self.mail.has_had_mail(agent);
        match session {
            Some(session) if !is_blank(session) => None,
            _ if known.name.host().is_some() => Some(NameUse::Remote),
            Some(_) => Some(NameUse::BlankSession),
            None if self.mail.queued(agent).0 > 0 => Some(NameUse::OwnMail),
            // A name that sent nothing at least once has no SENDs that could be repeated.
            None if self.mail.remembers_sends_of(agent) => Some(NameUse::Dedup),
            None => Some(NameUse::None),
        }
    }

    /// Whether mail waits for an agent that neither the agent itself nor its process has sent.
    fn has_mail_of_others(&self, agent: AgentKey) -> bool {
        let process = match self.directory[agent].origin {
            Some(Origin::Process(process)) => Some(process),
            _ => None,
        };
        self.mail.streams_to(agent).any(|(_, stream)| {
            let is_own =
                stream.from() == agent || process.is_some() && stream.sender_process() == process;
            !stream.is_empty() && !is_own
        })
    }

    /// Forgets an agent's name. Messages to the agent expire at once; streams from the agent close
    /// after their last message.
    pub(super) fn forget(&mut self, agent: AgentKey) {
        self.directory.cancel_forgetting(&mut self.ctx, agent);
        self.drop_session(agent);
        self.questions.close_all_of(&mut self.ctx, agent);
        let DetachedStreams { receives, sends } = self.mail.detach_streams(agent);
        for stream in receives {
            for message in self.mail.waiting_in(stream) {
                self.expire(message, "the name of its recipient was forgotten");
            }
            self.mail.close_detached(&mut self.ctx, stream);
        }
        for stream in sends {
            self.mail.orphan(&mut self.ctx, stream);
        }
        self.requests.forget(agent);
        let (floor, has_sent) = self.mail.remove_mailbox(&mut self.ctx, agent);
        if let Some(removed) = self.directory.remove(agent) {
            if floor > 0 {
                self.ctx.record(Change::StreamEnded(floor));
            }
            // The store knows a guest only if it has sent messages at least once.
            if !removed.is_guest() || removed.is_recorded || has_sent {
                self.ctx.record(Change::AgentForgotten(removed.number));
            }
        }
    }
}
