//! Access to `@relay`: what a client may ask for, and whose mail it may see.

use super::request::{Request, name};
use crate::{directory::Agent, interface::ClientId, send_request::Refusal};
use protocol::{code::NackCode, name::Name, record::QueryResult, text::Quoted};

/// A client that makes a request.
#[derive(Clone, Copy)]
pub(super) struct Asker<'r> {
    pub(super) client: ClientId,
    /// The agent in whose name the client sends, unless that name is forgotten.
    pub(super) agent: Option<&'r Agent>,
    pub(super) is_operator: bool,
}

impl<'r> Asker<'r> {
    pub(super) fn agent(&self) -> Result<&'r Agent, Refusal> {
        let forgotten = || "its agent's name was forgotten".to_owned();
        self.agent.ok_or_else(|| (NackCode::AgentOffline, forgotten()))
    }

    /// Checks whether the client may make a request of this kind. The mail that it may see is
    /// checked in [`owner`](Self::owner), [`mailbox`](Self::mailbox) and [`own`](Self::own), and
    /// its reports in [`check_report`](Self::check_report) and
    /// [`check_activity`](Self::check_activity).
    pub(super) fn check(&self, request: &Request) -> Result<(), Refusal> {
        match request {
            Request::Status
            | Request::Agents(_)
            | Request::Message(_)
            | Request::Inbox(_)
            | Request::History(_)
            | Request::Report(_)
            | Request::Activity(_) => Ok(()),
            _ if self.is_operator => Ok(()),
            _ => {
                let message = format!(
                    "{:?} is for operators, who join with what is in the home's operator.key",
                    request.name().as_str()
                );
                Err((NackCode::Forbidden, message))
            }
        }
    }

    /// Checks whether the client may report on a delivery to this agent.
    pub(super) fn check_report(&self, recipient: Option<&Agent>) -> Result<(), Refusal> {
        if recipient.is_some_and(|agent| agent.client == Some(self.client)) {
            return Ok(());
        }
        Err((NackCode::Forbidden, "only its recipient reports about a delivery".to_owned()))
    }

    /// Checks whether the client is an agent itself, and no companion, guest or operator.
    pub(super) fn check_activity(&self) -> Result<(), Refusal> {
        let agent = self.agent()?;
        if agent.client == Some(self.client) && !agent.is_guest() {
            return Ok(());
        }
        Err((NackCode::Forbidden, "only an agent itself reports what it does".to_owned()))
    }

    /// Returns the agent whose mail a request is about; `None` means all agents. A request without
    /// a name is about all agents if an operator makes it, and otherwise about the client's own
    /// agent.
    pub(super) fn owner(&self, of: Option<&str>) -> Result<Option<Name>, Refusal> {
        if self.is_operator {
            return of.map(name).transpose();
        }
        let own = &self.agent()?.name;
        match of.filter(|of| !own.matches(of)) {
            None => Ok(Some(own.clone())),
            Some(other) => {
                let message = format!("you are {own}: {}'s mail is for operators", Quoted(other));
                Err((NackCode::Forbidden, message))
            }
        }
    }

    /// Returns the owner of the mailbox that a request is about: without a name, the client's own
    /// agent, which for an operator is `@operator`.
    pub(super) fn mailbox(&self, of: Option<&str>) -> Result<Name, Refusal> {
        match self.owner(of)? {
            Some(owner) => Ok(owner),
            None => Ok(self.agent()?.name.clone()),
        }
    }

    /// Returns the rows that the client may see. Refuses the request if there are rows and none of
    /// them is the client's.
    pub(super) fn own(&self, mut found: QueryResult) -> Result<QueryResult, Refusal> {
        if self.is_operator || found.rows.is_empty() {
            return Ok(found);
        }
        let own = self.agent()?;
        found.rows.retain(|row| [row.message.sender, row.delivery.to].contains(&own.number));
        if found.rows.is_empty() {
            let message = format!("you are {}: others' mail is for operators", own.name);
            return Err((NackCode::Forbidden, message));
        }
        Ok(found)
    }
}
