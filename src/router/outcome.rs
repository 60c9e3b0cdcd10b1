//! What becomes of a message after it was taken: its sender is told, at once or when it is back.
//!
//! What waits for a sender that is away is in the store, too, so that it outlives the daemon. It is taken
//! out there once it has left for the system: a crash before that is known has it told again.

use super::{AgentKey, ClientId, Frame, Output, Router, client::What, message::Message};
use crate::protocol::{
    code::NackCode,
    envelope::{Header, Kind},
    payload::Nack,
};
use crate::record::{Change, NoticeRecord};
use serde::Serialize;
use std::{collections::BTreeMap, mem, sync::Arc};
use uuid::Uuid;

/// What a sender is to hear, be it later.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The whole of it.
    pub(super) frame: Arc<[u8]>,
    /// In the store, if it is there.
    pub(super) number: Option<u64>,
}

/// What waits for a session to be taken up, by its number.
#[derive(Debug, Default)]
pub(super) struct Answers {
    frames: BTreeMap<u64, Arc<[u8]>>,
    bytes: usize,
}

impl Answers {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// One may always wait.
    fn is_over(&self, bytes_max: usize) -> bool {
        self.bytes > bytes_max && self.frames.len() > 1
    }

    fn put(&mut self, number: u64, frame: Arc<[u8]>) {
        self.bytes += frame.len();
        self.frames.insert(number, frame);
    }

    /// Takes out the oldest.
    fn pop(&mut self) -> Option<(u64, Arc<[u8]>)> {
        let (number, frame) = self.frames.pop_first()?;
        self.bytes -= frame.len();
        Some((number, frame))
    }
}

impl Router {
    /// A delivery failed: whoever sent it is told, and who waits for its answer waits no longer. Where a companion
    /// has sent it and left, its agent is: a command ends once its message is taken.
    pub(super) fn report_failure(&mut self, message: &Message, code: NackCode, why: String) {
        let question = message.kept().and_then(|kept| self.close_question(kept.id));
        let client = question.as_ref().and_then(|question| question.client);
        let nack = Nack {
            to: self.roster.get(message.to).map(|agent| agent.name.to_string()),
            correlation_id: question.map(|question| question.correlation_id.into()),
            ..Nack::new(message.send_id.as_str(), code, why)
        };
        let frame = self.frame_for_sender(Kind::Nack, None, &nack);
        let by = message.by.filter(|by| self.seat_of(*by).is_some());
        self.inform((message.from, by), client, frame);
    }

    pub(super) fn frame_for_sender(
        &mut self,
        kind: Kind,
        from: Option<&str>,
        payload: &impl Serialize,
    ) -> Arc<[u8]> {
        let (mut text, mut bytes) = (Uuid::encode_buffer(), Vec::new());
        let id = self.new_id().hyphenated().encode_lower(&mut text);
        Header { from, ..Header::new(kind, id, self.now.unix_ms) }.append(&mut bytes, payload);
        bytes.into()
    }

    /// Gives a sender a frame: on the connection that asked for it, on the one it has now, or when its
    /// session is taken up. A connection that isn't the agent's own has no return: nobody else would know
    /// what this answers.
    pub(super) fn inform(
        &mut self,
        (sender, by): (AgentKey, Option<ClientId>),
        client: Option<ClientId>,
        frame: Arc<[u8]>,
    ) {
        if let Some(by) = by {
            return self.hand(by, Frame { head: Vec::new(), shared: Some(frame) }, What::Answer);
        }
        let outcome = Outcome { frame, number: None };
        match client.filter(|client| self.seat_of(*client).is_some()) {
            Some(client) => self.hand_outcome(client, outcome),
            None => self.inform_again(sender, outcome),
        }
    }

    /// The same, where the connection that it was for has ended.
    pub(super) fn inform_again(&mut self, sender: AgentKey, outcome: Outcome) {
        match self.roster.get(sender).and_then(|agent| agent.client) {
            Some(client) => self.hand_outcome(client, outcome),
            None => self.keep_for_return(sender, outcome),
        }
    }

    fn hand_outcome(&mut self, client: ClientId, outcome: Outcome) {
        let frame = Frame { head: Vec::new(), shared: Some(outcome.frame.clone()) };
        self.hand(client, frame, What::Outcome(outcome));
    }

    /// It has left for the system, or nobody will come for it.
    pub(super) fn outcome_is_over(&mut self, outcome: &Outcome) {
        if let Some(number) = outcome.number {
            self.keep(Change::NoticeEnded(number));
        }
    }

    fn keep_for_return(&mut self, sender: AgentKey, outcome: Outcome) {
        let session = self.roster.get(sender).and_then(|agent| agent.session.as_deref());
        if session.is_none() {
            return self.outcome_is_over(&outcome);
        }
        let Outcome { frame, number } = outcome;
        let number = number.unwrap_or_else(|| self.keep_answer(sender, &frame));
        self.put_answer(sender, number, frame);
    }

    /// What an earlier daemon kept for a sender.
    pub(super) fn restore_answer(&mut self, sender: Option<AgentKey>, record: NoticeRecord) {
        self.ledger.last_answer = self.ledger.last_answer.max(record.number);
        let outcome = Outcome { frame: record.frame, number: Some(record.number) };
        match sender {
            Some(sender) => self.keep_for_return(sender, outcome),
            None => self.outcome_is_over(&outcome),
        }
    }

    fn keep_answer(&mut self, sender: AgentKey, frame: &Arc<[u8]>) -> u64 {
        self.ledger.last_answer += 1;
        let number = self.ledger.last_answer;
        self.say_answer(sender, number, frame);
        number
    }

    fn say_answer(&mut self, sender: AgentKey, number: u64, frame: &Arc<[u8]>) {
        let (agent, frame) = (self.roster[sender].number, frame.clone());
        self.keep(Change::Notice(Box::new(NoticeRecord { number, agent, frame })));
    }

    /// Beyond the bounds, the oldest are dropped, and the log says so.
    fn put_answer(&mut self, sender: AgentKey, number: u64, frame: Arc<[u8]>) {
        self.make_room(frame.len());
        let Some(session) = self.roster[sender].session.as_deref_mut() else { return };
        self.memory.inside += frame.len();
        session.answers.put(number, frame);
        let (most, mut dropped) = (self.limits.waiting_answers_bytes_max, 0);
        while self.memory_held() > self.limits.memory_bytes_max
            || self.session_of(sender).answers.is_over(most)
        {
            let Some((number, oldest)) = self.session_mut(sender).answers.pop() else { break };
            self.memory.inside -= oldest.len();
            self.keep(Change::NoticeEnded(number));
            dropped += 1;
        }
        if dropped > 0 {
            let name = &self.roster[sender].name;
            let line = format!("{name} is away: {dropped} of the answers that wait for it dropped");
            self.out.push(Output::Log(line));
        }
    }

    /// A session is taken up: what waited for that goes out.
    pub(super) fn hand_answers(&mut self, client: ClientId, agent: AgentKey) {
        for outcome in self.take_answers(agent) {
            self.hand_outcome(client, outcome);
        }
    }

    /// Nobody will take up this agent's session.
    pub(super) fn drop_answers(&mut self, agent: AgentKey) {
        for outcome in self.take_answers(agent) {
            self.outcome_is_over(&outcome);
        }
    }

    fn take_answers(&mut self, agent: AgentKey) -> impl Iterator<Item = Outcome> + use<> {
        let session = self.roster[agent].session.as_deref_mut();
        let answers = session.map(|session| mem::take(&mut session.answers)).unwrap_or_default();
        self.memory.inside -= answers.bytes();
        let frames = answers.frames.into_iter();
        frames.map(|(number, frame)| Outcome { frame, number: Some(number) })
    }

    /// The daemon ends: what connections were handed and have not written waits for the next one.
    pub(super) fn keep_unwritten(&mut self) {
        let mut unwritten = Vec::new();
        for client in self.clients.values_mut() {
            let Some(agent) = client.agent else { continue };
            let handed = client.window.frames_mut().filter_map(|handed| match &handed.what {
                What::Outcome(outcome) if outcome.number.is_none() => Some(outcome.frame.clone()),
                _ => None,
            });
            unwritten.extend(handed.map(|frame| (agent, frame)));
        }
        for (agent, frame) in unwritten {
            self.keep_for_return(agent, Outcome { frame, number: None });
        }
    }

    /// Tells a store that lost it what waits for senders.
    pub(super) fn say_answers_again(&mut self) {
        let mut all: Vec<_> = self.kept_answers().collect();
        all.sort_unstable_by_key(|(number, ..)| *number);
        for (number, agent, frame) in all {
            // Whose name is forgotten has no return.
            if self.roster.get(agent).is_some() {
                self.say_answer(agent, number, &frame);
            }
        }
    }

    /// What the store has for senders: for those who are away, and for those who are being told.
    pub(super) fn kept_answers(&self) -> impl Iterator<Item = (u64, AgentKey, Arc<[u8]>)> {
        let waiting = self.roster.keys().into_iter().flat_map(|key| {
            let answers = self.roster[key].session.as_deref().map(|session| &session.answers);
            let frames = answers.into_iter().flat_map(|answers| &answers.frames);
            frames.map(move |(number, frame)| (*number, key, frame.clone()))
        });
        let on_way = self.clients.values().flat_map(|client| {
            let handed = client.window.frames().map(|handed| &handed.what);
            handed.filter_map(|what| match what {
                What::Outcome(Outcome { frame, number: Some(number) }) => {
                    Some((*number, client.agent?, frame.clone()))
                }
                _ => None,
            })
        });
        waiting.chain(on_way)
    }
}
