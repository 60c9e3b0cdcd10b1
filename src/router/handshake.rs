//! From the first byte to WELCOME: who may speak, and under which name.

use super::{
    AgentKey, ClientId, Router, Stopping,
    alarm::Alarm,
    client::{Applicant, Client, Contender, Seat, Stage, Window},
    message::Speaker,
    unheard::Unheard,
};
use crate::protocol::{
    PROTOCOL,
    code::{ErrorCode, Violation},
    deliver::Proof,
    envelope::{self, Envelope, Kind},
    name::{GUEST, GUEST_DIGITS, Name, OPERATOR},
    payload::{Auth, Capabilities, Hello, Server, Welcome},
    secret::{Hash, Secret},
    text::Quoted,
};
use std::{mem, sync::Arc};

/// Why a token takes nothing up.
const NOT_GOOD: &str =
    "the token was used before, is out of date, or is another name's; this is a fresh session";

/// What a connection can do that only speaks and hears answers: it has no mailbox, so that nothing that
/// needs one can be meant for it.
const SPEAKS_ONLY: Capabilities = Capabilities {
    ack: false,
    resume: false,
    max_inflight: 0,
    supports_topics: false,
    reports: false,
};

/// Why a connection gets no name.
pub(super) type Refusal = (ErrorCode, String);

impl Router {
    pub(super) fn connected(&mut self, id: ClientId) {
        let since = self.now.monotonic;
        self.clients.insert(
            id,
            Client {
                stage: Stage::Stranger { since },
                agent: None,
                heard: since,
                pinged: None,
                alarm: None,
                window: Window::default(),
                is_gated: false,
                unheard: Unheard::default(),
            },
        );
        if self.stopping != Stopping::No {
            let going = Violation::new(ErrorCode::ShuttingDown, "the daemon is going down");
            return self.violated(id, going);
        }
        self.arm(id);
        self.strangers.insert(id);
        if self.strangers.len() > self.limits.strangers_max
            && let Some(oldest) = self.strangers.first().copied()
        {
            let most = self.limits.strangers_max;
            let message = format!("more than {most} connections are without a handshake");
            self.violated(oldest, Violation::new(ErrorCode::TooManyClients, message));
        }
    }

    /// A frame of a connection that is nobody yet.
    pub(super) fn frame_of_stranger(&mut self, id: ClientId, json: &[u8]) {
        const REQUIRED: &str = "the first frame is HELLO or RESUME";
        match Envelope::read(json) {
            Ok(envelope) => match envelope.kind {
                Kind::Hello | Kind::Resume => {
                    if let Err((code, message)) = self.introduce(id, &envelope) {
                        self.violated(id, envelope.breaks(code, message));
                    }
                    if let Some(agent) = self.agent_of(id) {
                        self.pump(agent);
                    }
                }
                _ => self.violated(id, envelope.breaks(ErrorCode::HandshakeRequired, REQUIRED)),
            },
            Err(violation) if violation.code.is_fatal() => self.violated(id, violation),
            Err(violation) => match envelope::stated_kind(json) {
                Some(Kind::Hello | Kind::Resume) => self.violated(id, violation),
                _ => {
                    let required = Violation::new(ErrorCode::HandshakeRequired, REQUIRED);
                    self.violated(id, Violation { reference: violation.reference, ..required });
                }
            },
        }
    }

    fn introduce(&mut self, id: ClientId, envelope: &Envelope<'_>) -> Result<(), Refusal> {
        match envelope.kind {
            Kind::Resume => self.resume_first(id, envelope),
            _ => self.hello(id, envelope),
        }
    }

    fn hello(&mut self, id: ClientId, envelope: &Envelope<'_>) -> Result<(), Refusal> {
        let hello: Hello = envelope
            .typed(envelope.payload)
            .map_err(|violation| (violation.code, violation.message))?;
        match hello.mode.as_deref() {
            None => self.hello_of_agent(id, envelope, hello),
            Some("companion") => self.welcome_companion(id, &hello),
            Some("guest") => self.welcome_guest(id),
            Some("operator") => self.welcome_operator(id, hello.auth),
            Some(mode) => {
                let message = format!("HELLO: mode {} is not known", Quoted(mode));
                Err((ErrorCode::Invalid, message))
            }
        }
    }

    fn hello_of_agent(
        &mut self,
        id: ClientId,
        envelope: &Envelope<'_>,
        hello: Hello,
    ) -> Result<(), Refusal> {
        let name = name_in(&hello)?;
        let proof = self.proof_of(&name, hello.auth.as_ref())?;
        let companion_key = companion_key_in(&hello);
        let applicant = Applicant { name, capabilities: hello.capabilities, proof, companion_key };
        let name = applicant.name.as_str();
        if let Some(token) = hello.session.and_then(|session| session.resume_token) {
            if let Some(agent) = self.redeem(&Secret::stated(&token), Some(name)) {
                return self.take_over(id, agent, applicant);
            }
            self.violated(id, envelope.breaks(ErrorCode::ResumeRejected, NOT_GOOD));
        }
        let agent = self.roster.find(name);
        match agent.and_then(|agent| Some((agent, self.roster[agent].client?))) {
            #[cfg(test)]
            Some(_) if self.has(super::sim::Canary::TwoOwners) => {
                self.seat(id, applicant, false)?;
            }
            Some((agent, older)) => self.contend(id, applicant, agent, older),
            None => self.seat(id, applicant, false)?,
        }
        Ok(())
    }

    /// What gives a connection this name, unless a token does. Where policy has a key for it, nothing
    /// else will do.
    fn proof_of(&self, name: &Name, auth: Option<&Auth>) -> Result<Proof, Refusal> {
        let Some(hash) = self.policy.key_of(name) else { return Ok(Proof::Claim) };
        let stated = auth.and_then(|auth| auth.key.as_deref());
        let message = match stated.map(Secret::stated) {
            Some(key) if key.has_hash(hash) => return Ok(Proof::Key),
            Some(_) => format!("policy.toml has another key for {name} than `auth.key` states"),
            None => format!("policy.toml has a key for {name}: HELLO states it in `auth.key`"),
        };
        Err((ErrorCode::Unauthorized, message))
    }

    /// A session goes on with this connection, whoever has it now.
    pub(super) fn take_over(
        &mut self,
        id: ClientId,
        agent: AgentKey,
        applicant: Applicant,
    ) -> Result<(), Refusal> {
        if let Some(older) = self.roster[agent].client {
            let why = "another connection took this session up with its token";
            self.violated(older, Violation::new(ErrorCode::SessionReplaced, why));
        }
        let proof = match applicant.proof {
            Proof::Claim => Proof::Token,
            proof => proof,
        };
        self.seat(id, Applicant { proof, ..applicant }, true)
    }

    fn welcome_guest(&mut self, id: ClientId) -> Result<(), Refusal> {
        let name = loop {
            let text = format!("{GUEST}{}", self.random_hex(GUEST_DIGITS / 2));
            if self.roster.find(&text).is_none() {
                break Name::made_by_daemon(&text);
            }
        };
        let (capabilities, proof) = (SPEAKS_ONLY, Proof::Guest);
        self.seat(id, Applicant { name, capabilities, proof, companion_key: None }, false)
    }

    fn welcome_operator(&mut self, id: ClientId, auth: Option<Auth>) -> Result<(), Refusal> {
        let key = auth.and_then(|auth| auth.key).map(|key| Secret::stated(&key));
        if !key.zip(self.operator_key).is_some_and(|(key, hash)| key.has_hash(&hash)) {
            let message =
                "an operator states in `auth.key` what is in operator.key, in the daemon's home";
            return Err((ErrorCode::Unauthorized, message.to_owned()));
        }
        // It is known before there are too many to know another: an owner isn't to be shut out.
        let agent = match self.roster.find(OPERATOR) {
            Some(agent) => agent,
            None => {
                let agent = self.add_agent(Name::made_by_daemon(OPERATOR));
                self.keep_agent(agent);
                agent
            }
        };
        self.seat_beside(id, agent, Proof::Operator, None)
    }

    /// Whether its agent is here is asked of each message: both may be on their way back.
    fn welcome_companion(&mut self, id: ClientId, hello: &Hello) -> Result<(), Refusal> {
        let name = name_in(hello)?;
        let refused = |message: String| Err((ErrorCode::Unauthorized, message));
        let Some(key) = companion_key_in(hello) else {
            return refused(format!(
                "a companion states in `companion_key` what {name} stated in its HELLO"
            ));
        };
        let Some(agent) = self.roster.find(name.as_str()) else {
            return refused(format!("no agent {name} was ever here, so it has no companion"));
        };
        if self.roster[agent].client.is_some() && !self.has_companion(agent, &key) {
            return refused(format!("{name} stated another key for its companions, or none"));
        }
        self.seat_beside(id, agent, Proof::Companion, Some(key))
    }

    /// Somebody has the name: that connection is given a moment to prove closed.
    fn contend(&mut self, id: ClientId, applicant: Applicant, agent: AgentKey, older: ClientId) {
        let since = self.now.monotonic;
        let contender = Contender { since, applicant };
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.stage = Stage::Contender(Box::new(contender));
        let contenders = &mut self.roster[agent].contenders;
        contenders.push(id);
        // A dead connection is often found out only by writing to it. Asking once is enough.
        if contenders.len() == 1 {
            self.ping(older);
        }
        self.gate(id, false);
        self.arm(id);
    }

    /// Gives each name that became free to the first who waits for it.
    pub(super) fn fill_vacated(&mut self) {
        while let Some(agent) = self.vacated.pop() {
            let Some(vacant) = self.roster.get_mut(agent) else { continue };
            // It may be taken again: a session went on with another connection.
            if vacant.client.is_some()
                || vacant.contenders.is_empty()
                || self.stopping != Stopping::No
            {
                continue;
            }
            let id = vacant.contenders.remove(0);
            let Some(client) = self.clients.get_mut(&id) else { continue };
            let since = self.now.monotonic;
            let stage = mem::replace(&mut client.stage, Stage::Stranger { since });
            let Stage::Contender(contender) = stage else {
                unreachable!("who is no contender any more was struck off");
            };
            if let Err((code, message)) = self.seat(id, contender.applicant, false) {
                self.violated(id, Violation::new(code, message));
            }
            self.pump(agent);
            self.hear_on(id);
        }
    }

    /// Gives a free name to a connection, with the session that its agent had or a fresh one. Whatever
    /// waits for the name goes out when it is pumped.
    fn seat(&mut self, id: ClientId, applicant: Applicant, goes_on: bool) -> Result<(), Refusal> {
        self.check_room_for_member()?;
        let Applicant { name, capabilities, proof, companion_key } = applicant;
        let agent = match self.roster.find(name.as_str()) {
            Some(agent) => agent,
            None if self.roster.len() >= self.limits.names_max => {
                return Err(too_many(self.roster.len(), "names are known"));
            }
            None => self.add_agent(name.clone()),
        };
        self.members += 1;
        self.strangers.remove(&id);
        self.roster[agent].name = name;
        self.roster.arrive(agent, id, self.now.unix_ms);
        if let Some(at) = self.roster[agent].forget_at.take() {
            self.alarms.remove(at, Alarm::Agent(agent));
        }
        self.keep_agent(agent);
        let (session, token) = match proof {
            Proof::Guest => self.draw_session(),
            _ => self.renew_session(agent, capabilities, goes_on),
        };
        let speaker = Speaker { session, proof };
        self.welcome(id, agent, Seat::new(speaker, capabilities, companion_key), &token);
        Ok(())
    }

    /// Has a connection speak in the name of an agent that it isn't.
    fn seat_beside(
        &mut self,
        id: ClientId,
        agent: AgentKey,
        proof: Proof,
        companion_key: Option<Hash>,
    ) -> Result<(), Refusal> {
        self.check_room_for_member()?;
        self.members += 1;
        self.strangers.remove(&id);
        let (session, token) = self.draw_session();
        let speaker = Speaker { session, proof };
        let seat = Seat::new(speaker, SPEAKS_ONLY, companion_key);
        self.welcome(id, agent, seat, &token);
        Ok(())
    }

    fn check_room_for_member(&self) -> Result<(), Refusal> {
        if self.members < self.limits.clients_max {
            return Ok(());
        }
        Err(too_many(self.members, "clients are connected"))
    }

    fn add_agent(&mut self, name: Name) -> AgentKey {
        self.ledger.last.agent += 1;
        self.roster.add(name, self.ledger.last.agent)
    }

    /// What is for nobody to take up: the id and the token of a session that ends with its connection.
    fn draw_session(&mut self) -> (Arc<str>, Secret) {
        let id = format!("s-{}", self.random_hex(8)).into();
        (id, Secret::stated(&self.random_hex(32)))
    }

    fn welcome(&mut self, id: ClientId, agent: AgentKey, seat: Seat, resume_token: &Secret) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Speaker { session, proof } = &seat.speaker;
        let (session_id, proof, capabilities) = (session.to_string(), *proof, seat.capabilities);
        let is_beside = seat.is_beside();
        client.agent = Some(agent);
        client.heard = self.now.monotonic;
        client.stage = Stage::Member(Box::new(seat));
        let welcome = Welcome {
            session_id,
            resume_token: resume_token.reveal().to_owned(),
            agent: self.roster[agent].name.to_string(),
            capabilities,
            server: Server {
                max_frame_bytes: self.limits.frame_bytes_max as u64,
                heartbeat_ms: self.limits.heartbeat_ms,
                protocol: PROTOCOL.to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                resume_window_ms: self.limits.resume_window_ms,
                queue_max_messages: self.limits.queue_messages_max as u64,
            },
        };
        self.answer(id, Kind::Welcome, &welcome);
        self.await_seat(id);
        // What waits for an agent is its own: others may join before it does, and with any key.
        if !is_beside {
            self.hand_answers(id, agent);
        }
        self.log(id, &format!("joined ({})", proof.as_str()));
        self.arm(id);
    }
}

/// The name that a HELLO asks for.
fn name_in(hello: &Hello) -> Result<Name, Refusal> {
    let Some(text) = &hello.agent else {
        return Err((ErrorCode::Invalid, "HELLO: the payload has no `agent`".to_owned()));
    };
    Name::parse(text).map_err(|why| (ErrorCode::InvalidName, format!("{}: {why}", Quoted(text))))
}

fn companion_key_in(hello: &Hello) -> Option<Hash> {
    let key = hello.companion_key.as_deref().filter(|key| !key.is_empty());
    key.map(|key| Secret::stated(key).hash())
}

fn too_many(count: usize, what: &str) -> Refusal {
    (ErrorCode::TooManyClients, format!("{count} {what} already"))
}
