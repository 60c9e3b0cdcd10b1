//! The list of agents in `top`, with one selected.

use crate::cli::agents::Agent;

/// The agents, those that wait for their person first.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentList {
    agents: Vec<Agent>,
    /// The name of the selected agent.
    selected: Option<String>,
    /// The position of the first agent that is visible.
    first: usize,
    /// Whether agents that are away have no rows, even if they have mail.
    hides_away: bool,
}

impl AgentList {
    /// Replaces the agents. Returns whether they differ.
    pub(super) fn replace(&mut self, mut agents: Vec<Agent>) -> bool {
        agents.sort_by_cached_key(Agent::rank);
        let differ = self.agents != agents;
        self.agents = agents;
        // A selection that only meant "the first" would move while the person acts.
        if self.selected.is_none() {
            self.selected = self.agents.first().map(|agent| agent.name.clone());
        }
        differ
    }

    pub(super) fn all(&self) -> &[Agent] {
        &self.agents
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Agent> {
        self.agents.iter_mut().find(|agent| agent.name == name)
    }

    /// The agents that match a filter. Without a filter, the agents with their own rows.
    pub(super) fn matching(&self, filter: &str) -> Vec<&Agent> {
        let lower = filter.to_lowercase();
        let agents = self.agents.iter().filter(|agent| agent.contains(&lower));
        agents.filter(|agent| !filter.is_empty() || !self.is_summed_up(agent)).collect()
    }

    /// The agents that have one line together, if no filter is set.
    pub(super) fn summed_up(&self, filter: &str) -> Vec<&Agent> {
        let agents = self.agents.iter().filter(|_| filter.is_empty());
        agents.filter(|agent| self.is_summed_up(agent)).collect()
    }

    fn is_summed_up(&self, agent: &Agent) -> bool {
        agent.is_dormant() || (self.hides_away && agent.is_away)
    }

    pub(super) fn hides_away(&self) -> bool {
        self.hides_away
    }

    /// Hides the agents that are away, or shows those with mail again.
    pub(super) fn toggle_away(&mut self) {
        self.hides_away = !self.hides_away;
    }

    /// The position of the selected agent among those that match a filter, or of the first one if
    /// the selected agent does not match.
    pub(super) fn selected_at(&self, filter: &str) -> Option<usize> {
        let shown = self.matching(filter);
        let is_selected = |agent: &&Agent| self.selected.as_ref() == Some(&agent.name);
        let found = shown.iter().position(is_selected);
        found.or_else(|| (!shown.is_empty()).then_some(0))
    }

    pub(super) fn selected(&self, filter: &str) -> Option<&Agent> {
        self.selected_at(filter).map(|at| self.matching(filter)[at])
    }

    /// The position of the first agent that is visible.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// Selects the agent `by` rows after the selected one.
    pub(super) fn step(&mut self, filter: &str, by: isize) {
        let (Some(from), shown) = (self.selected_at(filter), self.matching(filter)) else { return };
        let to = from.saturating_add_signed(by).min(shown.len() - 1);
        self.selected = Some(shown[to].name.clone());
    }

    /// Selects the agent in a visible row.
    pub(super) fn select_row(&mut self, filter: &str, row: usize) {
        let name = self.matching(filter).get(self.first + row).map(|agent| agent.name.clone());
        self.selected = name.or_else(|| self.selected.take());
    }

    /// Selects the next agent that waits for its person, wrapping around. Returns false if none
    /// waits.
    pub(super) fn select_next(&mut self, filter: &str) -> bool {
        let (shown, from) = (self.matching(filter), self.selected_at(filter).unwrap_or(0));
        let mut others = shown.iter().cycle().skip(from + 1).take(shown.len());
        let next = others.find(|agent| agent.needs_person()).map(|agent| agent.name.clone());
        let is_found = next.is_some();
        self.selected = next.or_else(|| self.selected.take());
        is_found
    }

    /// Keeps the selected agent visible in a pane of this many rows.
    pub(super) fn settle(&mut self, filter: &str, height: usize) {
        let count = self.matching(filter).len();
        let at = self.selected_at(filter).unwrap_or(0);
        let least = (at + 1).saturating_sub(height);
        let most = at.min(count.saturating_sub(height)).max(least);
        self.first = self.first.clamp(least, most);
    }
}
