//! The room for names, and which names are forgotten to make some.

use super::{
    Router,
    directory::Origin,
    handshake::{Refusal, too_many},
    interface::Output,
    keys::AgentKey,
    mail::DetachedStreams,
    work::NODE_WORK,
};
use protocol::record::Change;

/// Why the mail of a forgotten name expires.
const FORGOTTEN: &str = "the name of its recipient was forgotten";

/// The most messages that expire at once with names that are forgotten.
pub(super) const EXPIRED_AT_ONCE: usize = 256;

/// The use of an absent agent's name. Names of the least use are forgotten first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameUse {
    /// A guest that may return.
    Guest,
    /// An agent of another machine that has never had mail, and whose SENDs are not remembered. Its
    /// bridge brings the name again.
    Remote,
    None,
    /// The agent's SENDs are remembered.
    Dedup,
    /// The agent has a session, and has never sent or received anything.
    BlankSession,
    /// Only the agent itself, or its process, has sent it the mail that waits for it.
    OwnMail,
}

impl Router {
    /// Checks whether another name may be brought. Forgets names that are not needed if there is no
    /// room: those of `origin` if its share is used up, or else any.
    pub(super) fn check_room_for_name(&mut self, origin: &Origin) -> Result<(), Refusal> {
        let most = self.ctx.limits.names_max;
        if !self.directory.has_share_of_names(&self.ctx, origin) {
            self.forget_unneeded_names(Some(origin));
        }
        // A full table leaves guests no share.
        let may_displace =
            *origin == Origin::Guests || self.directory.has_share_of_names(&self.ctx, origin);
        if may_displace && self.directory.len() >= most {
            self.forget_unneeded_names(None);
        }
        if self.directory.len() >= most {
            return Err(too_many(self.directory.len(), "names are known"));
        }
        if !self.directory.has_share_of_names(&self.ctx, origin) {
            let held = self.directory.names_of(origin);
            return Err(too_many(held, &format!("names of {origin} are known")));
        }
        Ok(())
    }

    /// Forgets some names of the least use: of these, first those with the least mail, then names of
    /// other machines, beginning with machines that have left, then those of the agents that have
    /// been away longest. If a name has too much mail, some of that expires. Forgets only names of
    /// `origin`, if one is given. Does nothing if such a search has found none shortly before.
    fn forget_unneeded_names(&mut self, origin: Option<&Origin>) {
        if !self.directory.may_search(&self.ctx, origin) {
            return;
        }
        let absent = self.directory.absent();
        let absent = absent
            .filter(|agent| origin.is_none() || self.directory[*agent].origin.as_ref() == origin);
        let machines_here = self.directory.machines_here();
        let mut visited = self.directory.len();
        let unneeded = absent.filter_map(|agent| {
            let (use_of_it, known) =
                (self.use_of_name(agent, &mut visited)?, &self.directory[agent]);
            let mail = self.mail.queued(agent).0;
            let is_here = known.origin.as_ref().is_some_and(|it| machines_here.contains(it));
            let is_local = known.name.host().is_none();
            Some((use_of_it, mail, is_local, is_here, known.forget_at, agent))
        });
        let mut unneeded: Vec<_> = unneeded.collect();
        self.ctx.spend(NODE_WORK * visited as u64);
        unneeded.sort();
        let least = unneeded.first().map(|(use_of_it, ..)| *use_of_it);
        unneeded.retain(|(use_of_it, ..)| Some(*use_of_it) == least);
        unneeded.truncate(self.ctx.limits.names_forgotten_at_once());
        if unneeded.is_empty() {
            self.directory.put_off_search(&self.ctx, origin);
        } else {
            self.report_forgetting(origin);
        }
        let mut room = EXPIRED_AT_ONCE;
        for (_, mail, .., agent) in unneeded {
            if mail > room {
                self.expire_some(agent, room);
                return;
            }
            room -= mail;
            self.forget(agent);
        }
    }

    /// Logs that names are forgotten, for want of room or because `origin` has used up its share.
    fn report_forgetting(&mut self, origin: Option<&Origin>) {
        if !self.directory.may_report_forgetting(&self.ctx) {
            return;
        }
        let (known, most) = (self.directory.len(), self.ctx.limits.names_max);
        let why = match origin {
            Some(origin) => {
                let held = self.directory.names_of(origin);
                format!("{held} names of {origin} are known, its share")
            }
            None => format!("{known} names are known"),
        };
        let line = format!("{why} of at most {most}: names that are not needed are forgotten");
        self.ctx.emit(Output::Log(line));
    }

    /// Expires up to this many of the messages that wait for an agent. Returns whether it was so
    /// many.
    fn expire_some(&mut self, agent: AgentKey, count: usize) -> bool {
        let waiting: Vec<_> = self.mail.mail_of(agent, false).take(count).collect();
        let is_full = waiting.len() == count;
        for message in waiting {
            self.expire(message, FORGOTTEN);
        }
        is_full
    }

    /// Forgets the name of an absent agent. If much mail waits for the agent, some of that expires,
    /// and the name is forgotten soon.
    pub(super) fn forget_in_steps(&mut self, agent: AgentKey) {
        if self.leftovers.has(agent) || self.expire_some(agent, EXPIRED_AT_ONCE) {
            self.directory.put_off_forgetting(&mut self.ctx, agent);
        } else {
            self.forget(agent);
        }
    }

    /// Returns the use of an absent agent's name, or `None` if something would be lost with it:
    /// another's mail, a question, a key, or a session that had any mail or subscription. Adds the
    /// number of streams that were looked at to `visited`.
    fn use_of_name(&self, agent: AgentKey, visited: &mut usize) -> Option<NameUse> {
        let known = &self.directory[agent];
        if known.is_guest() {
            return known.forget_at.map(|_| NameUse::Guest);
        }
        let is_needed = self.questions.count(agent) > 0
            || self.enforcement.has_key(&known.name)
            || self.has_mail_of_others(agent, visited);
        if is_needed {
            return None;
        }
        let (is_remote, remembers) =
            (known.name.host().is_some(), self.mail.remembers_sends_of(agent));
        let Some(session) = self.directory.session(agent) else {
            // A name that sent nothing at least once has no SENDs that could be repeated.
            return Some(match self.mail.queued(agent).0 {
                0 if remembers => NameUse::Dedup,
                0 if is_remote => NameUse::Remote,
                0 => NameUse::None,
                _ => NameUse::OwnMail,
            });
        };
        let is_blank = session.subscriptions.is_empty() && !self.mail.has_had_mail(agent);
        let use_of_it = match (is_remote, remembers) {
            (false, _) => NameUse::BlankSession,
            (true, true) => NameUse::Dedup,
            (true, false) => NameUse::Remote,
        };
        is_blank.then_some(use_of_it)
    }

    /// Whether mail waits for an agent that neither the agent itself nor its process has sent.
    fn has_mail_of_others(&self, agent: AgentKey, visited: &mut usize) -> bool {
        let process = self.directory[agent].process;
        self.mail.streams_to(agent).any(|(_, stream)| {
            *visited += 1;
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
        self.end_all_leftovers_of(agent);
        self.questions.close_all_of(&mut self.ctx, agent);
        let DetachedStreams { receives, sends } = self.mail.detach_streams(agent);
        for stream in receives {
            for message in self.mail.waiting_in(stream) {
                self.expire(message, FORGOTTEN);
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
