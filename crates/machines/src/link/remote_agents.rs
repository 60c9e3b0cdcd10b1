//! Changes of the agents that both sides of a link export.

use super::{Agents, Link, hello::LinkHello};
use crate::{
    border::{self, EARLIER_AGENTS_MAX},
    details,
    exports::Exported,
    local::{JoinError, Local},
    selector::listed,
};
use protocol::{
    Moment, Now,
    envelope::{Envelope, Kind},
    name::{Host, Name},
    secret::Secret,
};

/// The least time between two changes of the other side's agents, in milliseconds.
const CHANGE_MS: u64 = 1_000;

/// The pause before the daemon is asked again for agents that it has refused, in milliseconds.
const REFUSED_RETRY_MS: u64 = 30_000;

/// The other side's agents.
#[derive(Debug, Default)]
pub(super) struct RemoteAgents {
    /// The secret that identifies this bridge to the daemon, once the other side's HELLO came.
    bridge: Option<Secret>,
    /// Whether the other side accepts more agents than an earlier version does, and changes of the
    /// agents.
    takes_more: bool,
    /// Whether the log says that it does not.
    is_warned_of: bool,
    /// The agents that the other side exports and this one wants.
    wanted: Vec<Name>,
    /// The agents that have joined the daemon.
    joined: Vec<Name>,
    /// The agents that the daemon has refused.
    refused: Vec<Name>,
    /// The details that the other side has stated.
    details: details::All,
    /// The time when the wanted agents join, if others have joined.
    change_at: Option<Moment>,
    changed: Moment,
}

impl RemoteAgents {
    /// Records the beginning of a link with a bridge of this secret.
    pub(super) fn begin(&mut self, bridge: &Secret, takes_more: bool) {
        (self.bridge, self.takes_more) = (Some(bridge.clone()), takes_more);
    }

    /// Notes the first agents that have joined the daemon. The set of wanted agents may have
    /// changed by now.
    pub(super) fn joined(&mut self, agents: Vec<Name>) {
        if self.change_at.is_none() {
            self.wanted.clone_from(&agents);
        }
        self.joined = agents;
    }

    /// The moment when the agents have to be changed.
    pub(super) const fn change_at(&self) -> Option<Moment> {
        self.change_at
    }

    /// Joins and leaves the daemon, so that the wanted agents are joined. Returns lines for the log.
    fn change(&mut self, now: Now, peer: &Host, local: &mut Local) -> Vec<String> {
        let Some(bridge) = &self.bridge else { return Vec::new() };
        let is_wanted = |name: &Name| self.wanted.contains(name);
        let left: Vec<_> = self.joined.extract_if(.., |name| !is_wanted(name)).collect();
        left.iter().for_each(|name| local.remove(now, peer, name));
        let (mut came, mut refused, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        for name in self.wanted.iter().filter(|name| !self.joined.contains(name)) {
            match local.add(now, peer, name, bridge) {
                Ok(()) => came.push(name.clone()),
                Err(JoinError { agent, error }) => {
                    if !self.refused.contains(name) {
                        lines
                            .push(format!("{agent} cannot join the daemon: {error}; trying again"));
                    }
                    refused.push(name.clone());
                }
            }
        }
        let is_changed = !left.is_empty() || !came.is_empty();
        self.joined.extend(came);
        self.change_at = (!refused.is_empty()).then_some(now.monotonic.plus(REFUSED_RETRY_MS));
        (self.refused, self.changed) = (refused, now.monotonic);
        if is_changed {
            lines.push(format!("linked to {peer}: now {} here", self.listed(peer)));
        }
        lines
    }

    /// The joined agents for a line, as they are called here.
    pub(super) fn listed(&self, peer: &Host) -> String {
        listed(&self.joined.iter().map(|name| name.at(peer)).collect::<Vec<_>>())
    }
}

/// The agents that this side exports.
impl Link<'_> {
    /// This side's HELLO, without the secret of a bridge.
    pub(super) fn own_hello(&self) -> LinkHello {
        let Agents { has_patterns, .. } = *self.agents;
        let hello = LinkHello::new(&self.exported.agents, has_patterns, self.own_frame_bytes_max);
        hello.taking_topics(!self.agents.topics.is_empty())
    }

    pub(super) fn exports_changed(&mut self, now: Now, exported: Exported, local: &mut Local) {
        local.input(now, border::Input::Exports(exported.agents.clone()));
        if exported.left_out != self.exported.left_out
            && let Some(line) = exported.excess()
        {
            (self.log)(&line);
        }
        let before = std::mem::replace(&mut self.exported, exported).agents;
        self.is_untold = true;
        if self.is_open {
            self.tell_exports(now);
        }
        if before != self.exported.agents {
            self.warn_of_change();
        }
    }

    /// Tells the other side which agents are exported, and their details, if that has changed.
    pub(super) fn tell_exports(&mut self, now: Now) {
        if std::mem::take(&mut self.is_untold) {
            let hello = self.own_hello().with_details(&self.exported);
            self.write(now, Kind::Hello, &hello);
        }
    }

    /// Lists the exported agents that a side of an earlier version does not accept.
    pub(super) fn warn_of_excess(&self) {
        let (peer, first, agents) = (&self.agents.peer, EARLIER_AGENTS_MAX, &self.exported.agents);
        if !self.remote.takes_more && agents.len() > first {
            let (count, rest) = (agents.len(), listed(&agents[first..]));
            (self.log)(&format!(
                "{peer} has an earlier version of agent-relay, which takes {first} agents of \
                 {count}: not {rest}"
            ));
        }
    }

    /// Logs once that a side of an earlier version does not accept changes of the agents.
    fn warn_of_change(&mut self) {
        let is_first = !std::mem::replace(&mut self.remote.is_warned_of, true);
        if self.frame_bytes_max.is_some() && !self.remote.takes_more && is_first {
            (self.log)(&format!(
                "{} has an earlier version of agent-relay, which takes other agents only when the \
                 link is made again",
                self.agents.peer
            ));
        }
    }
}

/// The agents that the other side exports.
impl Link<'_> {
    /// Returns the other side's agents that this side wants.
    pub(super) fn imported(&self, mut agents: Vec<Name>) -> Vec<Name> {
        let Agents { imports, topics, .. } = self.agents;
        agents.retain(|name| match imports {
            _ if name.is_all() => !topics.is_empty(),
            Some(imports) => imports.iter().any(|it| it.selects(name)),
            None => true,
        });
        agents
    }

    /// Logs that the other side accepts none of the messages to everyone and on topics that this
    /// side would send.
    pub(super) fn warn_of_topics(&self) {
        if !self.agents.topics.is_empty() && !self.remote.joined.iter().any(Name::is_all) {
            (self.log)(&format!(
                "{} takes no messages to everyone and on topics: add --topic or --broadcasts there",
                self.agents.peer
            ));
        }
    }

    /// Handles a HELLO after the first: a change of the other side's agents, or their details.
    pub(super) fn later_hello(&mut self, now: Now, envelope: &Envelope<'_>) {
        let hello = envelope.decode_member::<LinkHello>(envelope.payload);
        let checked = hello.map_err(|why| why.message).and_then(|hello| {
            let agents = hello.check()?.agents;
            Ok((agents, hello.details))
        });
        let (agents, stated) = match checked {
            Ok(checked) => checked,
            Err(why) => return self.say(&format!("{}: {why}", self.agents.peer)),
        };
        let wanted = self.imported(agents);
        let details = details::checked(&stated, &wanted);
        let remote = &mut self.remote;
        let is_other = remote.wanted != wanted;
        let states_other = remote.details != details;
        (remote.wanted, remote.details) = (wanted, details);
        if is_other {
            let at = remote.changed.plus(CHANGE_MS).max(now.monotonic);
            remote.change_at = Some(at);
        }
        if states_other {
            self.report_agents();
        }
    }

    /// Joins the daemon for the other side's present agents, and leaves it for former ones.
    pub(super) fn change_remote_agents(&mut self, now: Now, local: &mut Local) {
        if self.joining.is_some() {
            self.remote.change_at = Some(now.monotonic.plus(CHANGE_MS));
            return;
        }
        let Agents { peer, .. } = self.agents;
        for line in self.remote.change(now, peer, local) {
            self.say(&line);
        }
        self.report_agents();
    }

    /// Reports the agents that have joined, with their details.
    pub(super) fn report_agents(&self) {
        let Some(reporter) = self.reporter.as_ref().filter(|_| self.is_open) else { return };
        let (host, details) = (self.agents.peer.to_string(), self.remote.details.clone());
        let agents = self.remote.joined.iter().map(Name::to_string).collect();
        reporter.update(move |report| {
            report.host_came(&host, agents);
            report.host_stated(&host, details);
        });
    }
}
