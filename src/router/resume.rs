//! RESUME: how far a client heard each stream, SYNC for an answer, and what comes again.

use super::{
    AgentKey, ClientId, Router, StreamKey,
    client::Applicant,
    handshake::Refusal,
    hash::FastMap,
    message::{Body, HEAD_BYTES, Message, State},
};
use crate::protocol::{
    code::{ErrorCode, NackCode},
    deliver::Proof,
    envelope::{Envelope, Kind},
    name::RELAY,
    payload::{Resume, ResumeStreams, StreamPosition, SyncInfo},
    secret::Secret,
};

/// What a RESUME comes to: its answer, and after which number each stream comes again.
#[derive(Debug)]
pub(super) struct Rewind {
    sync: SyncInfo,
    after: FastMap<StreamKey, u64>,
}

impl Router {
    /// RESUME as a connection's first frame: a token takes a session up without HELLO.
    pub(super) fn resume_first(
        &mut self,
        id: ClientId,
        envelope: &Envelope<'_>,
    ) -> Result<(), Refusal> {
        let resume: Resume = match envelope.typed(envelope.payload) {
            Ok(resume) => resume,
            Err(violation) => {
                self.violated(id, violation);
                return Ok(());
            }
        };
        let Some(token) = &resume.resume_token else {
            let why = "a RESUME before HELLO needs `resume_token`; say HELLO";
            self.nack(id, &envelope.id, NackCode::Unauthorized, why);
            return Ok(());
        };
        let name = Some(resume.agent.as_str()).filter(|name| !name.is_empty());
        let Some(agent) = self.redeem(&Secret::stated(token), name) else {
            let why = "the token was used before, is out of date, or is another name's; say HELLO";
            self.violated(id, envelope.breaks(ErrorCode::ResumeRejected, why));
            return Ok(());
        };
        if self.policy.key_of(&self.roster[agent].name).is_some() {
            let why = "policy.toml has a key for this name: say HELLO, with the key and the token";
            self.violated(id, envelope.breaks(ErrorCode::ResumeRejected, why));
            return Ok(());
        }
        match self.judge_resume(agent, &resume.streams) {
            Ok(rewind) => {
                let (name, session) = (self.roster[agent].name.clone(), self.session_of(agent));
                let capabilities = session.capabilities;
                let (proof, companion_key) = (Proof::Token, None);
                let applicant = Applicant { name, capabilities, proof, companion_key };
                self.take_over(id, agent, applicant)?;
                self.rewind(id, agent, rewind);
            }
            Err((code, why)) => self.nack(id, &envelope.id, code, why),
        }
        Ok(())
    }

    /// RESUME of a member.
    pub(super) fn resume(&mut self, id: ClientId, envelope: &Envelope<'_>) {
        let resume: Resume = match envelope.typed(envelope.payload) {
            Ok(resume) => resume,
            Err(violation) => return self.violated(id, violation),
        };
        let agent =
            self.agent_of(id).filter(|_| self.seat_of(id).is_some_and(|seat| !seat.is_beside()));
        let Some(agent) = agent.filter(|agent| self.roster[*agent].session.is_some()) else {
            let why = "only an agent has a session to resume";
            return self.nack(id, &envelope.id, NackCode::Forbidden, why);
        };
        match self.judge_resume(agent, &resume.streams) {
            Ok(rewind) => {
                self.rewind(id, agent, rewind);
                self.pump(agent);
            }
            Err((code, why)) => self.nack(id, &envelope.id, code, why),
        }
    }

    /// Whether everything that was missed is there.
    fn judge_resume(
        &self,
        agent: AgentKey,
        named: &ResumeStreams,
    ) -> Result<Rewind, (NackCode, String)> {
        let (mut streams, mut after) = (Vec::new(), FastMap::default());
        for (key, place) in self.places(agent, named) {
            if place.last_seq < self.gone_of(agent, key, &place) {
                let StreamPosition { topic, peer, last_seq, .. } = &place;
                let why = format!(
                    "what {peer} said on topic {topic:?} after {last_seq} is not all kept any more; \
                     go on without it, or say HELLO"
                );
                return Err((NackCode::Stale, why));
            }
            if let Some(key) = key {
                let after = after.entry(key).or_insert(place.last_seq);
                *after = place.last_seq.min(*after);
            }
            streams.push(place);
        }
        let session_id = self.session_of(agent).id.to_string();
        let sync = SyncInfo { session_id, streams };
        let bytes = serde_json::to_vec(&sync).map_or(usize::MAX, |json| json.len());
        let most = self.limits.frame_bytes_max;
        if bytes + HEAD_BYTES > most {
            let why =
                format!("its SYNC would be over max_frame_bytes ({most}); name fewer streams");
            return Err((NackCode::TooLarge, why));
        }
        Ok(Rewind { sync, after })
    }

    /// The last number in a stream that can't come again; it may have been closed.
    fn gone_of(&self, agent: AgentKey, key: Option<StreamKey>, named: &StreamPosition) -> u64 {
        match (key, self.roster.find(&named.peer)) {
            (Some(key), _) => self.streams[key].gone,
            (None, Some(peer)) => self.streams.closed_at(peer, agent, topic_of(named)),
            (None, None) => 0,
        }
    }

    /// The streams that are named, as far as there are any, and what SYNC says of them.
    fn places(
        &self,
        agent: AgentKey,
        named: &ResumeStreams,
    ) -> Vec<(Option<StreamKey>, StreamPosition)> {
        match named {
            ResumeStreams::ByTopic(topics) => {
                let hears = self.roster[agent].hears.iter();
                let places = hears.filter_map(|key| {
                    let stream = &self.streams[*key];
                    let topic = stream.topic().map_or("", |topic| topic);
                    let last_seq = topics.get(topic)?.last_seq;
                    let peer = self.roster.get(stream.from())?.name.to_string();
                    let server_last_seq = Some(stream.last_known(last_seq));
                    let topic = topic.to_owned();
                    Some((Some(*key), StreamPosition { topic, peer, last_seq, server_last_seq }))
                });
                places.collect()
            }
            ResumeStreams::List(list) => {
                list.iter().map(|place| self.place(agent, place)).collect()
            }
        }
    }

    fn place(
        &self,
        agent: AgentKey,
        named: &StreamPosition,
    ) -> (Option<StreamKey>, StreamPosition) {
        let peer = self.roster.find(&named.peer);
        let key = peer.and_then(|peer| self.streams.find(peer, agent, topic_of(named)));
        let last = match key {
            Some(key) => self.streams[key].last_known(named.last_seq),
            // Its answers don't come again.
            None if named.peer == RELAY => self.relay_seq_base + self.roster[agent].relay_seq,
            None => 0,
        };
        (key, StreamPosition { server_last_seq: Some(last), ..named.clone() })
    }

    /// Says SYNC, and puts what was missed back into line.
    fn rewind(&mut self, id: ClientId, agent: AgentKey, rewind: Rewind) {
        let Rewind { sync, after } = rewind;
        self.answer(id, Kind::Sync, &sync);
        for (stream, after) in &after {
            // Where an older connection was replaced, the last of a forgotten sender's may have gone.
            let Some(stream) = self.streams.get_mut(*stream) else { continue };
            for key in stream.take_back(*after) {
                self.roster[agent].outbox.in_flight -= 1;
                if let Some(kept) = self.messages[key].kept_mut() {
                    kept.take_back(State::Waiting);
                }
            }
        }
        let now = self.now.monotonic;
        let missed = self.session_of(agent).replay.iter().filter(|message| {
            let (stream, seq) = (message.stream, message.seq);
            after.get(&stream).is_some_and(|after| seq > *after)
                && message.expires > now
                && self.streams.get(stream).is_some_and(|stream| !stream.is_waiting(seq))
        });
        let missed = missed.map(|message| message.order);
        #[cfg(test)]
        let missed = missed.skip(usize::from(self.loses_replay()));
        for order in missed.collect::<Vec<_>>() {
            if let Some(copy) = self.copy_of(agent, order) {
                self.memory.inside += copy.bytes;
                self.wait_once(copy);
            }
        }
        for stream in after.into_keys() {
            if self.streams.get(stream).is_some() {
                self.refresh_turn(stream);
            }
        }
    }

    /// A message that was delivered, to be handed out once more.
    fn copy_of(&mut self, agent: AgentKey, order: u64) -> Option<Message> {
        let session = self.roster[agent].session.as_deref_mut()?;
        if let Body::Kept(kept) = &mut session.replay.get_mut(order)?.body {
            kept.attempts += 1;
        }
        let message = self.session_of(agent).replay.get(order)?;
        let frame = match &message.body {
            Body::Once(frame) => frame.clone(),
            // It is acknowledged: no other ACK is awaited.
            Body::Kept(kept) => {
                self.frame_again(Vec::with_capacity(HEAD_BYTES), message, kept, false)
            }
        };
        let send_id = message.send_id.clone();
        Some(Message { send_id, is_replay: true, body: Body::Once(frame), ..*message })
    }
}

/// The topic that is named; `""` is none.
fn topic_of(named: &StreamPosition) -> Option<&str> {
    Some(named.topic.as_str()).filter(|topic| !topic.is_empty())
}
