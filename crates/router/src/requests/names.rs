//! Requests about names: `forget`, `rename` and `purge`.

use super::request::name;
use crate::{Router, keys::AgentKey, send_request::Refusal, work::DELIVERY_WORK};
use protocol::{
    code::NackCode,
    name::Name,
    record::NamedAgent,
    relay::{ForgetRequest, PurgeRequest, Purged, RenameRequest},
    text::Quoted,
};

/// The most messages that one `purge` ends. A longer queue takes several.
const PURGED_MAX: usize = 500;

/// The reason why a purged message ended.
const WHY: &str = "an operator purged the mail of its recipient";

impl Router {
    /// Forgets the name of an agent that is away and has neither a key nor mail.
    pub(super) fn forget_name(&mut self, request: &ForgetRequest) -> Result<(), Refusal> {
        let agent = self.named(&request.name)?;
        let (name, waiting) = (&self.directory[agent].name, self.mail.queued(agent).0);
        let why = if self.directory[agent].client.is_some() {
            format!("{name} is connected: end it first")
        } else if self.enforcement.has_key(name) {
            format!("policy.toml has a key for {name}; remove the key first")
        } else if waiting > 0 {
            format!("{name} has mail: purge it first")
        } else {
            self.forget(agent);
            return Ok(());
        };
        Err((NackCode::Invalid, why))
    }

    /// Gives an agent that is away another name. Its mail, streams, session and subscriptions are
    /// the agent's, whatever its name is. The new name is one record, so that it is either stored
    /// or not. A request that comes again, because its answer was lost, changes nothing.
    pub(super) fn rename(&mut self, request: &RenameRequest) -> Result<(), Refusal> {
        let invalid = |why: String| (NackCode::Invalid, why);
        let new = Name::parse(&request.new_name).map_err(|why| {
            invalid(format!("no agent can be named {}: {why}", Quoted(&request.new_name)))
        })?;
        let taken = self.directory.find(new.as_str());
        let agent = match (self.named(&request.name), taken) {
            (Err(_), Some(taken)) if self.was_renamed(taken, &request.name) => return Ok(()),
            (agent, _) => agent?,
        };
        let name = &self.directory[agent].name;
        let keyed = [name, &new].into_iter().find(|name| self.enforcement.has_key(name));
        let why = if name.host().is_some() {
            format!("{name} is an agent of another machine: rename it there")
        } else if self.directory[agent].client.is_some() {
            format!("{name} is connected: end it first")
        } else if self.rows().is_reconnecting(&self.directory[agent]) {
            format!("{name} may be reconnecting: try again in half a minute")
        } else if let Some(keyed) = keyed {
            format!("policy.toml has a key for {keyed}; remove the key first")
        } else if taken.is_some_and(|taken| taken != agent) {
            format!("an agent {new} is known; forget it first, or choose another name")
        } else {
            let before = name.clone();
            self.directory.rename(&mut self.ctx, agent, new);
            self.notify_renamed(agent, &before);
            return Ok(());
        };
        Err(invalid(why))
    }

    /// Whether an agent had this name until it was renamed.
    fn was_renamed(&self, agent: AgentKey, before: &str) -> bool {
        self.directory[agent].earlier.last().is_some_and(|name| name.matches(before))
    }

    /// Returns the agent that a filter names, with its earlier names.
    pub(super) fn named_agent(&self, name: Name) -> NamedAgent {
        match self.directory.find(name.as_str()).map(|agent| &self.directory[agent]) {
            Some(agent) => {
                let (number, earlier) = (agent.number, agent.earlier.clone());
                NamedAgent { name, number, earlier }
            }
            None => name.into(),
        }
    }

    /// Ends the messages that wait for an agent: its senders get EXPIRED, and at-least-once
    /// messages become dead letters or are deleted. Deliveries in flight end only by force.
    pub(super) fn purge(&mut self, request: &PurgeRequest) -> Result<Purged, Refusal> {
        let agent = self.named(&request.name)?;
        let in_flight = self.mail.in_flight(agent);
        let mut mail: Vec<_> =
            self.mail.mail_of(agent, request.force).take(PURGED_MAX + 1).collect();
        if mail.is_empty() && in_flight > 0 {
            let name = &self.directory[agent].name;
            let why = format!("all mail of {name} is in flight: end it with `force`");
            return Err((NackCode::Invalid, why));
        }
        let more = mail.len() > PURGED_MAX;
        mail.truncate(PURGED_MAX);
        self.ctx.spend(DELIVERY_WORK * mail.len() as u64);
        for message in &mail {
            if request.delete {
                self.erase(*message, WHY);
            } else {
                self.expire(*message, WHY);
            }
        }
        self.pump(agent);
        let in_flight = if request.force { 0 } else { in_flight };
        Ok(Purged { purged: mail.len() as u64, in_flight, more })
    }

    /// Returns the agent that a request names.
    fn named(&self, text: &str) -> Result<AgentKey, Refusal> {
        let name = name(text)?;
        let agent = self.directory.find(text).filter(|_| !name.is_daemons());
        agent.ok_or_else(|| (NackCode::UnknownAgent, format!("no agent {name} is known")))
    }
}
