//! What of an agent outlives its connection: its session, and the token that takes it up again.

use super::{AgentKey, Output, Router, alarm::Alarm, outcome::Answers, replay::Replay};
use crate::protocol::{
    Moment,
    payload::Capabilities,
    secret::{Hash, Secret, is_same},
    topic::Pattern,
};
use crate::record::{Change, SessionRecord};
use std::{collections::VecDeque, mem, sync::Arc};

/// Used tokens of a session that are recognised.
const SPENT_MAX: usize = 8;

/// An agent's, from its HELLO until it says BYE, stays away for too long, or begins a fresh one.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Arc<str>,
    /// Of the token that takes it up.
    pub(super) token: Hash,
    /// Of those that did so, the last one last: who shows one again may have stolen it. An earlier daemon's
    /// are forgotten but for the last.
    pub(super) spent: VecDeque<Hash>,
    /// When the token ends to be good, while the agent is away.
    pub(super) expires: Option<Moment>,
    pub(super) capabilities: Capabilities,
    pub(super) subscriptions: Vec<Pattern>,
    pub(super) replay: Replay,
    /// What became of its messages while it was away.
    pub(super) answers: Answers,
}

impl Session {
    fn new(id: Arc<str>, token: Hash) -> Self {
        Self {
            id,
            token,
            spent: VecDeque::new(),
            expires: None,
            capabilities: Capabilities::default(),
            subscriptions: Vec::new(),
            replay: Replay::default(),
            answers: Answers::default(),
        }
    }

    /// All that are known to be its own, good or used.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &Hash> {
        self.spent.iter().chain([&self.token])
    }

    /// Whether it can be taken up.
    pub(super) fn is_good_at(&self, now: Moment) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl Router {
    /// Whose session a token takes up, where that is the agent of this name, if one is said. Nothing is
    /// used up by asking.
    pub(super) fn redeem(&mut self, token: &Secret, name: Option<&str>) -> Option<AgentKey> {
        let hash = token.hash();
        let agent = *self.tokens.get(&hash)?;
        let owner = &self.roster[agent];
        let session = owner.session.as_deref()?;
        if !is_same(&session.token, &hash) {
            let name = &owner.name;
            let line = format!("{name}: a token that was used came again; it may have been stolen");
            self.out.push(Output::Log(line));
            return None;
        }
        (name.is_none_or(|name| owner.name.is(name)) && session.is_good_at(self.now.monotonic))
            .then_some(agent)
    }

    /// Begins a session, or takes up the one there is. Gives back its id and the token for the next time.
    pub(super) fn renew_session(
        &mut self,
        agent: AgentKey,
        capabilities: Capabilities,
        goes_on: bool,
    ) -> (Arc<str>, Secret) {
        let taken_up = if goes_on { self.roster[agent].session.take() } else { None };
        if taken_up.is_none() {
            self.drop_session(agent);
        }
        let id = match &taken_up {
            Some(session) => session.id.clone(),
            None => format!("s-{}", self.random_hex(8)).into(),
        };
        let secret = Secret::stated(&self.random_hex(32));
        let token = secret.hash();
        self.tokens.insert(token, agent);
        let mut session = match taken_up {
            Some(session) => self.use_up(agent, session, token),
            None => Box::new(Session::new(id.clone(), token)),
        };
        session.capabilities = capabilities;
        self.roster[agent].session = Some(session);
        if !capabilities.resume {
            self.drop_replay(agent);
        }
        self.keep_session(agent);
        (id, secret)
    }

    /// A session's token has done its service, and this is the next one.
    fn use_up(&mut self, agent: AgentKey, mut session: Box<Session>, next: Hash) -> Box<Session> {
        if let Some(at) = session.expires.take() {
            self.alarms.remove(at, Alarm::Session(agent));
        }
        let used = mem::replace(&mut session.token, next);
        session.spent.push_back(used);
        if session.spent.len() > SPENT_MAX
            && let Some(oldest) = session.spent.pop_front()
        {
            self.tokens.remove(&oldest);
        }
        session
    }

    /// The session of an agent that has one.
    pub(super) fn session_of(&self, agent: AgentKey) -> &Session {
        self.roster[agent].session.as_deref().expect("whoever asks knows that it has one")
    }

    pub(super) fn session_mut(&mut self, agent: AgentKey) -> &mut Session {
        self.roster[agent].session.as_deref_mut().expect("whoever asks knows that it has one")
    }

    /// Hands an agent's session to the store, as it is now.
    pub(super) fn keep_session(&mut self, agent: AgentKey) {
        let agent = &self.roster[agent];
        let session = agent.session.as_deref().expect("only one that is there changes");
        let record = SessionRecord {
            agent: agent.number,
            id: session.id.clone(),
            token: session.token,
            spent: session.spent.back().copied(),
            expires: session.expires,
            capabilities: session.capabilities,
            subscriptions: session.subscriptions.iter().map(|of| of.text().clone()).collect(),
        };
        self.keep(Change::Session(Box::new(record)));
    }

    /// An agent is away: its session waits for it, for some time.
    pub(super) fn leave_session(&mut self, agent: AgentKey) {
        let expires = self.now.monotonic.plus(self.limits.resume_window_ms);
        let Some(session) = self.roster[agent].session.as_deref_mut() else { return };
        session.expires = Some(expires);
        self.alarms.set(expires, Alarm::Session(agent));
        self.keep_session(agent);
    }

    /// Nobody came for it.
    pub(super) fn ring_session(&mut self, agent: AgentKey) {
        let now = self.now.monotonic;
        let session = self.roster.get(agent).and_then(|agent| agent.session.as_deref());
        if session.is_some_and(|session| !session.is_good_at(now)) {
            self.end_session(agent);
        }
    }

    /// A session is over, here and in the store.
    pub(super) fn end_session(&mut self, agent: AgentKey) {
        if self.drop_session(agent) {
            let agent = self.roster[agent].number;
            self.keep(Change::SessionEnded { agent });
        }
    }

    /// A session leaves every table, and its mail is lost. False if there was none.
    pub(super) fn drop_session(&mut self, agent: AgentKey) -> bool {
        self.drop_replay(agent);
        self.drop_once(agent);
        self.drop_answers(agent);
        let Some(session) = self.roster[agent].session.take() else { return false };
        if let Some(at) = session.expires {
            self.alarms.remove(at, Alarm::Session(agent));
        }
        for hash in session.tokens() {
            self.tokens.remove(hash);
        }
        for pattern in &session.subscriptions {
            self.subscriptions.remove(pattern, agent);
        }
        true
    }
}
