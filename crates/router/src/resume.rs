//! RESUME: the positions that a client states for its streams, the SYNC that answers, and the
//! replay of missed messages.

use super::{
    Router,
    connections::{About, Applicant},
    handshake::Refusal,
    interface::ClientId,
    keys::{AgentKey, StreamKey},
    mail::HEAD_BYTES_MAX,
    work::{self, NODE_WORK, POSITION_WORK},
};
use protocol::{
    code::{ErrorCode, NackCode},
    deliver::Proof,
    envelope::{Envelope, Kind},
    name::RELAY,
    payload::{Resume, ResumeStreams, ResumeToken, StreamPosition, SyncInfo},
    secret::Secret,
};
use rustc_hash::FxHashMap;

/// The effect of a RESUME: the SYNC that answers it, and the sequence number after which each
/// stream is replayed.
#[derive(Debug)]
struct Rewind {
    sync: SyncInfo,
    after: FxHashMap<StreamKey, u64>,
}

impl Router {
    /// Parses a RESUME. The error is a sentence.
    pub(super) fn read_resume(&mut self, envelope: &Envelope<'_>) -> Result<Resume, String> {
        self.ctx.spend(work::of_reading(envelope.payload.len()));
        envelope.decode_member(envelope.payload).map_err(|violation| violation.message)
    }

    /// Parses the token that a RESUME shows. The error is a sentence. The streams are not read:
    /// anybody can send thousands of them.
    fn read_token(&mut self, envelope: &Envelope<'_>) -> Result<ResumeToken, String> {
        self.ctx.spend(work::of_skipping(envelope.payload.len()));
        envelope.decode_member(envelope.payload).map_err(|violation| violation.message)
    }

    /// Handles RESUME as a connection's first frame: a token resumes a session without HELLO.
    pub(super) fn resume_first(
        &mut self,
        id: ClientId,
        envelope: &Envelope<'_>,
    ) -> Result<(), Refusal> {
        let invalid = |why| (ErrorCode::Invalid, why);
        let shown = self.read_token(envelope).map_err(invalid)?;
        let Some(token) = &shown.resume_token else {
            let why = "a RESUME before HELLO needs `resume_token`; send HELLO";
            let code = NackCode::Unauthorized;
            self.connections.nack(&mut self.ctx, id, &envelope.id, code, why);
            return Ok(());
        };
        let name = Some(shown.agent.as_str()).filter(|name| !name.is_empty());
        let token = Secret::stated(token);
        let Some((agent, hash)) = self.directory.redeem(&mut self.ctx, &token, name) else {
            let why = "the token was used before, is out of date, or is another name's; send HELLO";
            self.violated(id, envelope.violation(ErrorCode::ResumeRejected, why));
            return Ok(());
        };
        if self.enforcement.has_key(&self.directory[agent].name) {
            let why = "policy.toml has a key for this name: send HELLO, with the key and the token";
            self.violated(id, envelope.violation(ErrorCode::ResumeRejected, why));
            return Ok(());
        }
        if self.directory[agent].name.host().is_some() {
            let why = "this name is another machine's: send HELLO in mode bridge";
            self.violated(id, envelope.violation(ErrorCode::ResumeRejected, why));
            return Ok(());
        }
        let resume = self.read_resume(envelope).map_err(invalid)?;
        match self.check_resume(agent, &resume.streams) {
            Ok(rewind) => {
                let resumed = &self.directory[agent];
                let session = resumed.session.as_deref();
                let applicant = Applicant {
                    name: resumed.name.clone(),
                    capabilities: session.map(|of| of.capabilities).unwrap_or_default(),
                    proof: Proof::Token,
                    companion_key: None,
                    token: Some(hash),
                    about: About::default(),
                };
                self.take_over(id, agent, applicant)?;
                self.rewind(id, agent, &rewind);
            }
            Err((code, why)) => {
                self.connections.nack(&mut self.ctx, id, &envelope.id, code, why);
            }
        }
        Ok(())
    }

    /// Handles a member's RESUME.
    pub(super) fn resume(&mut self, id: ClientId, envelope: &Envelope<'_>, resume: &Resume) {
        let membership = self.connections.membership(id);
        let is_own = membership.is_some_and(|membership| !membership.is_beside());
        let agent = self.connections.agent_of(id).filter(|_| is_own);
        let Some(agent) = agent.filter(|agent| self.directory.session(*agent).is_some()) else {
            let why = "only an agent has a session to resume";
            let code = NackCode::Forbidden;
            return self.connections.nack(&mut self.ctx, id, &envelope.id, code, why);
        };
        match self.check_resume(agent, &resume.streams) {
            Ok(rewind) => {
                self.rewind(id, agent, &rewind);
                self.pump(agent);
            }
            Err((code, why)) => {
                self.connections.nack(&mut self.ctx, id, &envelope.id, code, why);
            }
        }
    }

    /// Checks whether all missed messages are retained.
    fn check_resume(
        &mut self,
        agent: AgentKey,
        named: &ResumeStreams,
    ) -> Result<Rewind, (NackCode, String)> {
        let (mut streams, mut after) = (Vec::new(), FxHashMap::default());
        for (key, position) in self.positions(agent, named) {
            self.ctx.spend(POSITION_WORK);
            if position.last_seq < self.gone(agent, key, &position) {
                let StreamPosition { topic, peer, last_seq, .. } = &position;
                let why = format!(
                    "messages of {peer} on topic {topic:?} after {last_seq} are not retained any more; \
                     go on without them, or send HELLO"
                );
                return Err((NackCode::Stale, why));
            }
            if let Some(key) = key {
                let after = after.entry(key).or_insert(position.last_seq);
                *after = position.last_seq.min(*after);
            }
            streams.push(position);
        }
        let session = self.directory.session(agent);
        let session_id = session.map(|session| session.id.to_string()).unwrap_or_default();
        let sync = SyncInfo { session_id, streams };
        let bytes = serde_json::to_vec(&sync).map_or(usize::MAX, |json| json.len());
        let most = self.ctx.limits.frame_bytes_max;
        if bytes + HEAD_BYTES_MAX > most {
            let why = format!(
                "the SYNC would be larger than max_frame_bytes ({most}); name fewer streams"
            );
            return Err((NackCode::TooLarge, why));
        }
        Ok(Rewind { sync, after })
    }

    /// Returns the last sequence number of a stream whose message cannot be replayed. The stream
    /// may be closed.
    fn gone(&self, agent: AgentKey, key: Option<StreamKey>, named: &StreamPosition) -> u64 {
        match (key, self.directory.find(&named.peer)) {
            (Some(key), _) => self.mail.gone(key),
            (None, Some(peer)) => self.mail.closed_at(peer, agent, topic_of(named)),
            (None, None) => 0,
        }
    }

    /// Returns the streams that a RESUME names, with their positions for SYNC. A stream that is not
    /// open has no key.
    fn positions(
        &mut self,
        agent: AgentKey,
        named: &ResumeStreams,
    ) -> Vec<(Option<StreamKey>, StreamPosition)> {
        match named {
            ResumeStreams::ByTopic(topics) => {
                self.ctx.spend(NODE_WORK * self.mail.count_streams_to(agent) as u64);
                let positions = self.mail.streams_to(agent).filter_map(|(key, stream)| {
                    let topic = stream.topic().map_or("", |topic| topic);
                    let last_seq = topics.get(topic)?.last_seq;
                    let peer = self.directory.name(stream.from())?.to_string();
                    let server_last_seq = Some(stream.last_known(last_seq));
                    let topic = topic.to_owned();
                    Some((Some(key), StreamPosition { topic, peer, last_seq, server_last_seq }))
                });
                positions.collect()
            }
            ResumeStreams::List(list) => {
                list.iter().map(|named| self.position(agent, named)).collect()
            }
        }
    }

    fn position(
        &self,
        agent: AgentKey,
        named: &StreamPosition,
    ) -> (Option<StreamKey>, StreamPosition) {
        let peer = self.directory.find(&named.peer);
        let key = peer.and_then(|peer| self.mail.find_stream(peer, agent, topic_of(named)));
        let last = match key.and_then(|key| self.mail.stream(key)) {
            Some(stream) => stream.last_known(named.last_seq),
            // Answers of `@relay` have sequence numbers, but are not replayed.
            None if named.peer == RELAY => self.requests.last_seq(agent),
            None => 0,
        };
        (key, StreamPosition { server_last_seq: Some(last), ..named.clone() })
    }

    /// Sends SYNC, and queues the missed messages again.
    fn rewind(&mut self, id: ClientId, agent: AgentKey, rewind: &Rewind) {
        self.connections.answer(&mut self.ctx, id, Kind::Sync, &rewind.sync);
        self.mail.rewind(&mut self.ctx, agent, &rewind.after);
    }
}

/// Returns the topic of a stream position; `""` means no topic.
fn topic_of(named: &StreamPosition) -> Option<&str> {
    Some(named.topic.as_str()).filter(|topic| !topic.is_empty())
}
