//! The table of known agents, by key and by name.

use super::{
    agent::{Agent, CompanionKey},
    origin::Origin,
    session::Session,
    subscriptions::Subscriptions,
};
use crate::{
    accounts::{self, Counts},
    context::Context,
    hash::{HashKey, KeyedMap},
    interface::{ClientId, PeerProcess},
    keys::{AgentKey, AgentSlot, count_step},
    timers::Timer,
    work::NODE_WORK,
};
use protocol::{
    Moment,
    name::{NAME_BYTES_MAX, Name},
    record::{AgentRecord, Change},
    secret::Hash,
};
use rustc_hash::FxHashMap;
use slotmap::SlotMap;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    ops::{Bound, Index},
};

const DAY_MS: u64 = 86_400_000;

/// The shortest time from a search that found no name to forget to the next search.
const SEARCH_INTERVAL_MS: u64 = 1_000;

/// The shortest time from a line for the log about names that are forgotten to the next.
const REPORT_INTERVAL_MS: u64 = 600_000;

/// The most earlier names of an agent that are known. Its messages under older ones are found only
/// by those.
const EARLIER_MAX: usize = 3;

/// Agents by their names in lower case.
type ByName = BTreeMap<Box<[u8]>, AgentKey>;

/// All known agents.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(super) agents: SlotMap<AgentSlot, Agent>,
    names: KeyedMap<Box<[u8]>, AgentKey>,
    /// The agents that had other names before, by their numbers in records.
    renamed: FxHashMap<u64, AgentKey>,
    /// All agents by their names in lower case, without guests and operators.
    by_name: ByName,
    /// Connected agents by their names in lower case, without guests.
    here: ByName,
    guests_here: usize,
    /// The agent of each known token, used or not.
    pub(super) tokens: FxHashMap<Hash, AgentKey>,
    guest_keys: FxHashMap<Hash, AgentKey>,
    pub(super) subscriptions: Subscriptions,
    /// The number of names of each origin.
    by_origin: Counts<Origin>,
    /// The moments until which searches for names that are not needed are put off, of an origin's
    /// names or of all.
    search_after: KeyedMap<Option<Origin>, Moment>,
    /// The moment until which no further line about forgotten names is logged.
    report_after: Moment,
    /// Names that became free while the current input is handled.
    freed: Vec<AgentKey>,
}

impl Directory {
    pub(crate) fn new(hash_key: HashKey) -> Self {
        Self {
            agents: SlotMap::default(),
            names: KeyedMap::with_hasher(hash_key),
            renamed: FxHashMap::default(),
            by_name: BTreeMap::new(),
            here: BTreeMap::new(),
            guests_here: 0,
            tokens: FxHashMap::default(),
            guest_keys: FxHashMap::default(),
            subscriptions: Subscriptions::new(hash_key),
            by_origin: Counts::default(),
            search_after: KeyedMap::with_hasher(hash_key),
            report_after: Moment(0),
            freed: Vec::new(),
        }
    }

    /// Returns the agent with this name, compared without case.
    pub(crate) fn find(&self, text: &str) -> Option<AgentKey> {
        let mut folded = [0; NAME_BYTES_MAX];
        let folded = folded.get_mut(..text.len())?;
        folded.copy_from_slice(text.as_bytes());
        folded.make_ascii_lowercase();
        self.names.get(&*folded).copied()
    }

    /// Adds a name, and charges its origin.
    pub(crate) fn add(&mut self, name: Name, number: u64, origin: Option<Origin>) -> AgentKey {
        let folded = name.folded().into_bytes().into_boxed_slice();
        let is_daemons = name.is_daemons();
        let agent = AgentKey(self.agents.insert(Agent {
            number,
            name,
            earlier: Vec::new(),
            origin: None,
            process: None,
            client: None,
            session: None,
            since_unix_ms: 0,
            is_expected: false,
            forget_at: None,
            companion_key: CompanionKey::Unknown,
            guest_key: None,
            is_recorded: false,
        }));
        if !is_daemons {
            self.by_name.insert(folded.clone(), agent);
        }
        self.names.insert(folded, agent);
        self.set_origin(agent, origin);
        agent
    }

    /// Charges an origin for a name, in place of the one before.
    fn set_origin(&mut self, agent: AgentKey, origin: Option<Origin>) {
        if let Some(origin) = &origin {
            self.by_origin.add(origin.clone());
        }
        if let Some(before) = mem::replace(&mut self.agent_mut(agent).origin, origin) {
            self.by_origin.remove(before);
        }
    }

    /// Whether another name is within its origin's share, in a table that has room. Guests may have
    /// half of what the others leave.
    pub(crate) fn has_share_of_names(&self, ctx: &Context, origin: &Origin) -> bool {
        let (held, most) = (self.names_of(origin), ctx.limits.names_max);
        if *origin == Origin::Guests {
            return held < most.saturating_sub(self.len() - held).div_ceil(2);
        }
        let known = self.len().min(most - ctx.limits.names_forgotten_at_once()).max(held);
        accounts::may_have_another(held, known, most)
    }

    /// Returns the number of names for which an origin is charged.
    pub(crate) fn names_of(&self, origin: &Origin) -> usize {
        self.by_origin.of(origin)
    }

    /// Returns a key that finds nothing, for an agent that is forgotten.
    pub(crate) fn unused_key(&mut self) -> AgentKey {
        let ghost = self.add(Name::made_by_daemon("@ghost"), 0, None);
        self.remove(ghost);
        ghost
    }

    /// Removes a name.
    pub(crate) fn remove(&mut self, agent: AgentKey) -> Option<Agent> {
        self.get(agent)?;
        self.set_origin(agent, None);
        self.drop_guest_key(agent);
        let removed = self.agents.remove(agent.0)?;
        let folded = removed.name.folded();
        self.names.remove(folded.as_bytes());
        self.by_name.remove(folded.as_bytes());
        self.renamed.remove(&removed.number);
        Some(removed)
    }

    /// Gives an agent that is away another name, which no other agent has.
    pub(crate) fn rename(&mut self, ctx: &mut Context, agent: AgentKey, name: Name) {
        let folded = name.folded().into_bytes().into_boxed_slice();
        let renamed = &mut self.agents[agent.0];
        let number = renamed.number;
        let before = mem::replace(&mut renamed.name, name);
        if before != renamed.name {
            if renamed.earlier.len() == EARLIER_MAX {
                renamed.earlier.remove(0);
            }
            renamed.earlier.push(before.clone());
            self.renamed.insert(number, agent);
        }
        self.names.remove(before.folded().as_bytes());
        self.by_name.remove(before.folded().as_bytes());
        self.names.insert(folded.clone(), agent);
        self.by_name.insert(folded, agent);
        self.record_agent(ctx, agent);
    }

    /// Returns the agent with this number in records, in which it has this name.
    pub(crate) fn find_recorded(&self, number: u64, name: &str) -> Option<AgentKey> {
        let renamed = self.renamed.get(&number).copied();
        let agent = renamed.or_else(|| self.find(name))?;
        (self[agent].number == number).then_some(agent)
    }

    /// Returns the name that the agent with this number has now, if it had another one before.
    pub(crate) fn new_name(&self, number: u64) -> Option<&Name> {
        self.renamed.get(&number).map(|agent| &self[*agent].name)
    }

    /// Returns an agent that had this name before.
    pub(crate) fn find_earlier(&self, ctx: &mut Context, name: &str) -> Option<AgentKey> {
        ctx.spend(NODE_WORK * self.renamed.len() as u64);
        let had = |agent: &&AgentKey| self[**agent].earlier.iter().any(|it| it.matches(name));
        self.renamed.values().filter(had).max_by_key(|agent| self[**agent].number).copied()
    }

    /// Returns the guest that has shown this key.
    pub(crate) fn find_guest(&self, key: &Hash) -> Option<AgentKey> {
        self.guest_keys.get(key).copied()
    }

    /// Notes the key that identifies a guest when it returns.
    pub(crate) fn set_guest_key(&mut self, agent: AgentKey, key: Hash) {
        self.agent_mut(agent).guest_key = Some(key);
        self.guest_keys.insert(key, agent);
    }

    /// Notes that a guest will not return.
    pub(crate) fn drop_guest_key(&mut self, agent: AgentKey) {
        if let Some(key) = self.agent_mut(agent).guest_key.take() {
            self.guest_keys.remove(&key);
        }
    }

    /// Records a guest that may return, because it has sent a message at least once.
    pub(crate) fn record_guest(&mut self, ctx: &mut Context, agent: AgentKey) {
        if self[agent].guest_key.is_some() && !self[agent].is_recorded {
            self.agent_mut(agent).is_recorded = true;
            self.record_agent(ctx, agent);
        }
    }

    /// Notes that an agent is connected, from this process, with its name in this spelling and this
    /// key for its companions. The process is charged for the name from now on, if it may hold
    /// another one.
    pub(crate) fn arrive(
        &mut self,
        ctx: &mut Context,
        agent: AgentKey,
        (client, process): (ClientId, Option<PeerProcess>),
        name: Name,
        companion_key: Option<Hash>,
    ) {
        let origin = Origin::of(&name, process);
        if self[agent].origin != origin
            && origin.as_ref().is_none_or(|origin| self.has_share_of_names(ctx, origin))
        {
            self.set_origin(agent, origin);
        }
        self.agent_mut(agent).process = process;
        let arrived = &mut self.agents[agent.0];
        arrived.name = name;
        arrived.companion_key = CompanionKey::Stated(companion_key);
        arrived.client = Some(client);
        arrived.is_expected = false;
        arrived.since_unix_ms = ctx.now.unix_ms;
        self.guests_here += usize::from(arrived.is_guest());
        if !arrived.name.is_daemons() {
            self.here.insert(arrived.name.folded().into_bytes().into(), agent);
        }
        self.cancel_forgetting(ctx, agent);
        self.record_agent(ctx, agent);
    }

    /// Notes that an agent is away.
    pub(crate) fn leave(&mut self, agent: AgentKey, unix_ms: u64) {
        let left = &mut self.agents[agent.0];
        left.client = None;
        left.since_unix_ms = unix_ms;
        self.guests_here -= usize::from(left.is_guest());
        self.here.remove(left.name.folded().as_bytes());
    }

    /// Sets the time at which the name of an absent agent is forgotten.
    pub(crate) fn schedule_forgetting(&mut self, ctx: &mut Context, agent: AgentKey) {
        let ms = match self[agent].is_guest() {
            true => ctx.limits.resume_window_ms,
            false => ctx.limits.mailbox_days.saturating_mul(DAY_MS),
        };
        let at = ctx.now.monotonic.plus(ms);
        self.agents[agent.0].forget_at = Some(at);
        ctx.timers.set(at, Timer::Agent(agent));
        self.record_agent(ctx, agent);
    }

    /// Puts off the forgetting of a name to the next millisecond.
    pub(crate) fn put_off_forgetting(&mut self, ctx: &mut Context, agent: AgentKey) {
        self.cancel_forgetting(ctx, agent);
        let at = ctx.now.monotonic.plus(1);
        self.agents[agent.0].forget_at = Some(at);
        ctx.timers.set(at, Timer::Agent(agent));
    }

    pub(crate) fn cancel_forgetting(&mut self, ctx: &mut Context, agent: AgentKey) {
        if let Some(at) = self.agents[agent.0].forget_at.take() {
            ctx.timers.cancel(at, Timer::Agent(agent));
        }
    }

    /// Records an agent as it is now, unless it is a guest that the store does not know.
    pub(crate) fn record_agent(&self, ctx: &mut Context, agent: AgentKey) {
        let agent = &self[agent];
        if agent.is_guest() && !agent.is_recorded {
            return;
        }
        let record = AgentRecord {
            number: agent.number,
            name: agent.name.clone(),
            since_unix_ms: agent.since_unix_ms,
            forget_at: agent.forget_at,
            guest_key: agent.guest_key,
            earlier: agent.earlier.clone(),
        };
        ctx.record(Change::Agent(Box::new(record)));
    }

    /// Restores an agent, which counts as away.
    pub(crate) fn restore_agent(&mut self, ctx: &mut Context, record: AgentRecord) -> AgentKey {
        let origin = Origin::of_recorded(&record.name);
        let key = self.add(record.name, record.number, origin);
        if let Some(guest_key) = record.guest_key {
            self.set_guest_key(key, guest_key);
        }
        if !record.earlier.is_empty() {
            self.renamed.insert(record.number, key);
        }
        let agent = self.agent_mut(key);
        agent.earlier = record.earlier;
        agent.since_unix_ms = record.since_unix_ms;
        agent.forget_at = record.forget_at;
        agent.is_recorded = true;
        // The operators' name is not forgotten, because operators do not arrive and leave as agents
        // do.
        if agent.name.is_daemons() && !agent.is_guest() {
            return key;
        }
        match record.forget_at {
            Some(at) => ctx.timers.set(at, Timer::Agent(key)),
            None => {
                // The agent was here when the daemon ended.
                agent.since_unix_ms = ctx.now.unix_ms;
                self.schedule_forgetting(ctx, key);
            }
        }
        key
    }

    /// Notes that an agent's name became free.
    pub(crate) fn note_freed(&mut self, agent: AgentKey) {
        self.freed.push(agent);
    }

    /// Removes and returns a name that became free while the current input is handled.
    pub(crate) fn next_freed(&mut self) -> Option<AgentKey> {
        self.freed.pop()
    }

    /// Returns connected agents, by name.
    pub(crate) fn here(&self) -> impl ExactSizeIterator<Item = AgentKey> {
        self.here.values().copied()
    }

    /// Appends all agents that subscribe to `topic`, each once.
    pub(crate) fn subscribers(&self, ctx: &mut Context, topic: &str, agents: &mut Vec<AgentKey>) {
        ctx.spend(NODE_WORK * self.subscriptions.collect(topic, agents));
    }

    /// Returns the number of known agents, without guests and operators.
    pub(crate) fn agents(&self) -> usize {
        self.by_name.len()
    }

    /// Returns the number of guests, with those that may return.
    pub(crate) fn guests(&self) -> usize {
        self.names_of(&Origin::Guests)
    }

    /// Returns the number of connected guests.
    pub(crate) const fn guests_here(&self) -> usize {
        self.guests_here
    }

    /// Returns the number of known names, without the operators'.
    pub(crate) fn len(&self) -> usize {
        self.agents() + self.guests()
    }

    pub(crate) fn get(&self, agent: AgentKey) -> Option<&Agent> {
        count_step();
        self.agents.get(agent.0)
    }

    pub(super) fn agent_mut(&mut self, agent: AgentKey) -> &mut Agent {
        &mut self.agents[agent.0]
    }

    /// Returns the name of an agent that is not forgotten.
    pub(crate) fn name(&self, agent: AgentKey) -> Option<&Name> {
        self.get(agent).map(|agent| &agent.name)
    }

    /// Returns the connection of an agent that is here.
    pub(crate) fn client(&self, agent: AgentKey) -> Option<ClientId> {
        self.get(agent)?.client
    }

    /// Returns the session of an agent that has one.
    pub(crate) fn session(&self, agent: AgentKey) -> Option<&Session> {
        self.get(agent)?.session.as_deref()
    }

    /// Returns the numbers of those agents that are not forgotten.
    pub(crate) fn numbers_of(&self, agents: &[AgentKey]) -> Vec<u64> {
        agents.iter().filter_map(|agent| Some(self.get(*agent)?.number)).collect()
    }

    /// Returns the agents and guests that are away, in no order, without operators.
    pub(crate) fn absent(&self) -> impl Iterator<Item = AgentKey> {
        let is_operators = |agent: &Agent| agent.name.is_daemons() && !agent.is_guest();
        let absent = self
            .agents
            .iter()
            .filter(move |(_, agent)| agent.client.is_none() && !is_operators(agent));
        absent.map(|(slot, _)| AgentKey(slot))
    }

    /// Whether names of an origin, or of any, that are not needed may be searched now.
    pub(crate) fn may_search(&self, ctx: &Context, origin: Option<&Origin>) -> bool {
        let after = self.search_after.get(&origin.cloned());
        after.is_none_or(|after| ctx.now.monotonic >= *after)
    }

    /// Puts off the next search of this kind, because this one found nothing.
    pub(crate) fn put_off_search(&mut self, ctx: &Context, origin: Option<&Origin>) {
        let now = ctx.now.monotonic;
        self.search_after.retain(|_, after| *after > now);
        self.search_after.insert(origin.cloned(), now.plus(SEARCH_INTERVAL_MS));
    }

    /// Whether names that are forgotten may be logged now. If so, they may not for some time.
    pub(crate) fn may_report_forgetting(&mut self, ctx: &Context) -> bool {
        let (now, after) = (ctx.now.monotonic, self.report_after);
        if now >= after {
            self.report_after = now.plus(REPORT_INTERVAL_MS);
        }
        now >= after
    }

    /// Returns the other machines of which an agent is connected.
    pub(crate) fn machines_here(&self) -> BTreeSet<Origin> {
        let origins = self.here().filter_map(|agent| self[agent].origin.as_ref());
        origins.filter(|origin| matches!(origin, Origin::Machine(_))).cloned().collect()
    }

    /// Returns the agents after a name in lower case, by name, without guests and operators.
    pub(crate) fn after(&self, name: &[u8]) -> impl Iterator<Item = AgentKey> {
        let range = (Bound::Excluded(name), Bound::Unbounded);
        self.by_name.range::<[u8], _>(range).map(|(_, agent)| *agent)
    }

    /// Returns all agents, in the order in which they became known.
    pub(crate) fn keys(&self) -> Vec<AgentKey> {
        let mut keys: Vec<_> = self.names.values().copied().collect();
        keys.sort_unstable_by_key(|key| self[*key].number);
        keys
    }
}

impl Index<AgentKey> for Directory {
    type Output = Agent;

    fn index(&self, agent: AgentKey) -> &Agent {
        count_step();
        &self.agents[agent.0]
    }
}

#[cfg(test)]
mod inspect {
    use super::*;

    impl Directory {
        pub(crate) fn token_owner(&self, hash: &Hash) -> Option<AgentKey> {
            self.tokens.get(hash).copied()
        }

        /// Returns the number of names of each origin.
        pub(crate) fn by_origin(&self) -> impl Iterator<Item = (&Origin, &usize)> {
            self.by_origin.all()
        }

        pub(crate) fn tokens(&self) -> usize {
            self.tokens.len()
        }
    }
}
