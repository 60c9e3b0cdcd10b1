//! The directory's sessions: how they begin, continue and end, and their subscriptions.

use super::{session::Session, table::Directory};
use crate::{context::Context, interface::Output, keys::AgentKey, timers::Timer};
use protocol::{
    payload::Capabilities,
    record::{Change, SessionRecord},
    secret::{Hash, Secret},
    topic::Pattern,
};
use std::{mem, sync::Arc};

/// The most used tokens of a session that are recognised.
const SPENT_MAX: usize = 8;

impl Directory {
    /// Returns the agent whose session a token resumes, if `name` is absent or the agent's, and
    /// the token's hash. The token stays valid.
    pub(crate) fn redeem(
        &self,
        ctx: &mut Context,
        token: &Secret,
        name: Option<&str>,
    ) -> Option<(AgentKey, Hash)> {
        let hash = token.hash();
        let agent = *self.tokens.get(&hash)?;
        let owner = &self[agent];
        let session = owner.session.as_deref()?;
        if !session.accepts(&hash) {
            let name = &owner.name;
            let line = format!("{name}: a token that was used came again; it may have been stolen");
            ctx.emit(Output::Log(line));
            return None;
        }
        let is_good = name.is_none_or(|name| owner.name.matches(name))
            && session.is_good_at(ctx.now.monotonic);
        is_good.then_some((agent, hash))
    }

    /// Begins a session, or continues the one that the agent has. `shown` is the hash of the token
    /// that resumes it; none if a bridge does. Returns the session's id and its next token.
    pub(crate) fn renew_session(
        &mut self,
        ctx: &mut Context,
        agent: AgentKey,
        capabilities: Capabilities,
        shown: Option<Hash>,
    ) -> (Arc<str>, Secret) {
        let resumed = self.agent_mut(agent).session.take();
        let id = match &resumed {
            Some(session) => session.id.clone(),
            None => format!("s-{}", ctx.random_hex(8)).into(),
        };
        let secret = Secret::stated(&ctx.random_hex(32));
        let token = secret.hash();
        self.tokens.insert(token, agent);
        let mut session = match resumed {
            Some(session) => self.replace_token(ctx, agent, session, shown, token),
            None => Box::new(Session::new(id.clone(), token)),
        };
        session.capabilities = capabilities;
        self.agent_mut(agent).session = Some(session);
        self.record_session(ctx, agent);
        (id, secret)
    }

    fn replace_token(
        &mut self,
        ctx: &mut Context,
        agent: AgentKey,
        mut session: Box<Session>,
        shown: Option<Hash>,
        next: Hash,
    ) -> Box<Session> {
        if let Some(at) = session.expires.take() {
            ctx.timers.cancel(at, Timer::Session(agent));
        }
        let last = mem::replace(&mut session.token, next);
        let shown = shown.unwrap_or(last);
        let former = session.former.replace(shown);
        for used in former.into_iter().chain([last]).filter(|used| *used != shown) {
            self.note_spent(&mut session, used);
        }
        session
    }

    /// Notes that a token is valid no more.
    fn note_spent(&mut self, session: &mut Session, used: Hash) {
        session.spent.push_back(used);
        if session.spent.len() > SPENT_MAX
            && let Some(oldest) = session.spent.pop_front()
        {
            self.tokens.remove(&oldest);
        }
    }

    /// Notes that an agent's client has the token of its last WELCOME: the one before ends.
    pub(crate) fn confirm_token(&mut self, ctx: &mut Context, agent: AgentKey) {
        let Some(mut session) = self.agents.get_mut(agent.0).and_then(|it| it.session.take())
        else {
            return;
        };
        let former = session.former.take();
        if let Some(former) = former {
            self.note_spent(&mut session, former);
        }
        self.agent_mut(agent).session = Some(session);
        if former.is_some() {
            self.record_session(ctx, agent);
        }
    }

    /// Records an agent's session as it is now.
    pub(crate) fn record_session(&self, ctx: &mut Context, agent: AgentKey) {
        let agent = &self[agent];
        let Some(session) = agent.session.as_deref() else { return };
        let texts = session.subscriptions.iter().map(|pattern| pattern.text().clone());
        let record = SessionRecord {
            agent: agent.number,
            id: session.id.clone(),
            token: session.token,
            former: session.former,
            spent: session.spent.back().copied(),
            expires: session.expires,
            capabilities: session.capabilities,
            subscriptions: texts.collect(),
        };
        ctx.record(Change::Session(Box::new(record)));
    }

    /// Starts the resume window of an agent that is away.
    pub(crate) fn leave_session(&mut self, ctx: &mut Context, agent: AgentKey) {
        let expires = ctx.now.monotonic.plus(ctx.limits.resume_window_ms);
        let Some(session) = self.agent_mut(agent).session.as_deref_mut() else { return };
        session.expires = Some(expires);
        ctx.timers.set(expires, Timer::Session(agent));
        self.record_session(ctx, agent);
    }

    /// Removes an agent's session from every table. Returns whether there was a session.
    pub(crate) fn remove_session(&mut self, ctx: &mut Context, agent: AgentKey) -> bool {
        let Some(session) = self.agent_mut(agent).session.take() else { return false };
        if let Some(at) = session.expires {
            ctx.timers.cancel(at, Timer::Session(agent));
        }
        for hash in session.tokens() {
            self.tokens.remove(hash);
        }
        for pattern in &session.subscriptions {
            self.subscriptions.remove(ctx, pattern, agent);
        }
        true
    }

    /// Adds a subscription to an agent's session.
    pub(crate) fn subscribe(&mut self, ctx: &mut Context, agent: AgentKey, pattern: Pattern) {
        let Some(session) = self.agents[agent.0].session.as_deref_mut() else { return };
        self.subscriptions.add(ctx, &pattern, agent);
        session.subscriptions.push(pattern);
        self.record_session(ctx, agent);
    }

    /// Removes a subscription from an agent's session.
    pub(crate) fn unsubscribe(&mut self, ctx: &mut Context, agent: AgentKey, pattern: &Pattern) {
        let Some(session) = self.agents[agent.0].session.as_deref_mut() else { return };
        let index = session.subscriptions.iter().position(|other| other == pattern);
        let Some(index) = index else { return };
        session.subscriptions.swap_remove(index);
        self.subscriptions.remove(ctx, pattern, agent);
        self.record_session(ctx, agent);
    }

    /// Restores an agent's session. `was_here` tells whether the agent was connected when the last
    /// daemon ended.
    pub(crate) fn restore_session(
        &mut self,
        ctx: &mut Context,
        agent: AgentKey,
        record: SessionRecord,
        was_here: bool,
    ) {
        // Patterns were checked when they were accepted; a pattern that is invalid now is dropped.
        let patterns = record.subscriptions.iter().filter_map(|text| Pattern::parse(text).ok());
        let subscriptions: Vec<_> = patterns.collect();
        for pattern in &subscriptions {
            self.subscriptions.add(ctx, pattern, agent);
        }
        for hash in [Some(record.token), record.former, record.spent].into_iter().flatten() {
            self.tokens.insert(hash, agent);
        }
        let owner = self.agent_mut(agent);
        owner.is_expected = was_here;
        owner.session = Some(Box::new(Session {
            id: record.id,
            token: record.token,
            former: record.former,
            spent: record.spent.into_iter().collect(),
            expires: record.expires,
            capabilities: record.capabilities,
            subscriptions,
        }));
        match record.expires {
            Some(at) => ctx.timers.set(at, Timer::Session(agent)),
            // The session was in use when the daemon ended.
            None => self.leave_session(ctx, agent),
        }
    }
}
