//! Known names, and who is here under them.

use super::{
    AgentKey, ClientId, StreamKey, doubles::Doubles, hash::FastMap, idle::Floor, outbox::Outbox,
    session::Session, slots::Slots,
};
use crate::protocol::{
    Moment,
    name::{GUEST, NAME_BYTES_MAX, Name},
};
use std::{
    collections::BTreeSet,
    ops::{Index, IndexMut},
};

/// A name that is known, and what belongs to it rather than to a session.
#[derive(Debug)]
pub(super) struct Agent {
    /// In records.
    pub(super) number: u64,
    /// As it was last spelled.
    pub(super) name: Name,
    /// Its connection, while it is here.
    pub(super) client: Option<ClientId>,
    /// What it takes up again when it comes back. A guest has none.
    pub(super) session: Option<Box<Session>>,
    /// Since when it is here, or away.
    pub(super) since_unix_ms: u64,
    /// It was connected when the last daemon ended, and has not come since.
    pub(super) is_expected: bool,
    /// When its name is to be forgotten, while it is away.
    pub(super) forget_at: Option<Moment>,
    /// What waits for it; its mailbox while it is away.
    pub(super) outbox: Outbox,
    /// Streams that it hears.
    pub(super) hears: BTreeSet<StreamKey>,
    /// Streams that it speaks in.
    pub(super) says: BTreeSet<StreamKey>,
    /// Above it, streams that it speaks in are opened.
    pub(super) floor: Floor,
    /// What it sent before.
    pub(super) doubles: Doubles,
    /// The last number that `@relay` gave in its stream to this agent.
    pub(super) relay_seq: u64,
    /// Who wants the name while somebody has it, in the order they came.
    pub(super) contenders: Vec<ClientId>,
}

impl Agent {
    /// Whether it is forgotten when it goes.
    pub(super) fn is_guest(&self) -> bool {
        self.name.is_guests()
    }
}

/// All known agents.
#[derive(Debug, Default)]
pub(super) struct Roster {
    agents: Slots<Agent>,
    names: FastMap<Box<[u8]>, AgentKey>,
    /// Those who are connected.
    here: Vec<AgentKey>,
}

impl Roster {
    /// Who is meant by `text`, in whatever case.
    pub(super) fn find(&self, text: &str) -> Option<AgentKey> {
        let mut folded = [0; NAME_BYTES_MAX];
        let folded = folded.get_mut(..text.len())?;
        folded.copy_from_slice(text.as_bytes());
        folded.make_ascii_lowercase();
        self.names.get(&*folded).copied()
    }

    /// Makes a new name known.
    pub(super) fn add(&mut self, name: Name, number: u64) -> AgentKey {
        let folded = name.folded().into_bytes().into_boxed_slice();
        let agent = self.agents.insert(Agent {
            number,
            name,
            client: None,
            session: None,
            since_unix_ms: 0,
            is_expected: false,
            forget_at: None,
            outbox: Outbox::default(),
            hears: BTreeSet::new(),
            says: BTreeSet::new(),
            floor: Floor::default(),
            doubles: Doubles::default(),
            relay_seq: 0,
            contenders: Vec::new(),
        });
        self.names.insert(folded, agent);
        agent
    }

    /// A key that finds nobody: whose it was is forgotten.
    pub(super) fn ghost(&mut self) -> AgentKey {
        let ghost = self.add(Name::made_by_daemon("@ghost"), 0);
        self.remove(ghost);
        ghost
    }

    pub(super) fn remove(&mut self, agent: AgentKey) -> Option<Agent> {
        let removed = self.agents.remove(agent)?;
        self.names.remove(removed.name.folded().as_bytes());
        Some(removed)
    }

    /// Somebody joined under a name.
    pub(super) fn arrive(&mut self, agent: AgentKey, client: ClientId, unix_ms: u64) {
        let arrived = &mut self.agents[agent];
        arrived.client = Some(client);
        arrived.is_expected = false;
        arrived.since_unix_ms = unix_ms;
        if !arrived.name.is_daemons() {
            self.here.push(agent);
        }
    }

    pub(super) fn leave(&mut self, agent: AgentKey, unix_ms: u64) {
        let left = &mut self.agents[agent];
        left.client = None;
        left.since_unix_ms = unix_ms;
        if let Some(place) = self.here.iter().position(|other| *other == agent) {
            self.here.swap_remove(place);
        }
    }

    /// Connected agents, in no order.
    pub(super) fn here(&self) -> &[AgentKey] {
        &self.here
    }

    /// Whose session has most at hand to replay it.
    pub(super) fn most_replay(&self) -> Option<AgentKey> {
        let agents = self.names.values().filter_map(|key| {
            let agent = &self.agents[*key];
            Some((agent.session.as_deref()?.replay.bytes(), agent.number, *key))
        });
        agents.max().map(|(_, _, key)| key)
    }

    /// Known names of agents, and those of guests.
    pub(super) fn count(&self) -> (usize, usize) {
        let is = |begins: &'static str| {
            self.names.keys().filter(move |folded| folded.starts_with(begins.as_bytes())).count()
        };
        (self.len() - is("@"), is(GUEST))
    }

    /// All known names.
    pub(super) fn len(&self) -> usize {
        self.agents.len()
    }

    pub(super) fn get(&self, agent: AgentKey) -> Option<&Agent> {
        self.agents.get(agent)
    }

    pub(super) fn get_mut(&mut self, agent: AgentKey) -> Option<&mut Agent> {
        self.agents.get_mut(agent)
    }

    /// All names but guests', in their order.
    pub(super) fn by_name(&self) -> Vec<(&[u8], AgentKey)> {
        let mut names: Vec<_> = self
            .names
            .iter()
            .filter(|(folded, _)| !folded.starts_with(b"@"))
            .map(|(folded, agent)| (&**folded, *agent))
            .collect();
        names.sort_unstable();
        names
    }

    /// All of them, in the order they became known.
    pub(super) fn keys(&self) -> Vec<AgentKey> {
        let mut keys: Vec<_> = self.names.values().copied().collect();
        keys.sort_unstable_by_key(|key| self.agents[*key].number);
        keys
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }
}

impl Index<AgentKey> for Roster {
    type Output = Agent;

    fn index(&self, agent: AgentKey) -> &Agent {
        &self.agents[agent]
    }
}

impl IndexMut<AgentKey> for Roster {
    fn index_mut(&mut self, agent: AgentKey) -> &mut Agent {
        &mut self.agents[agent]
    }
}
