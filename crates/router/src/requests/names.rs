//! Requests about names: `forget` and `purge`.

use super::request::name;
use crate::{Router, keys::AgentKey, send_request::Refusal, work::DELIVERY_WORK};
use protocol::{
    code::NackCode,
    relay::{ForgetRequest, PurgeRequest, Purged},
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
