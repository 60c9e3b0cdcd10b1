//! From the first byte to WELCOME: who may speak, and under which name.

use super::{
    AgentKey, ClientId, Router, Stopping,
    alarm::Alarm,
    client::{Client, Contender, Seat, Stage, Window},
    message::Speaker,
};
use crate::protocol::{
    PROTOCOL,
    code::{ErrorCode, Violation},
    deliver::Proof,
    envelope::{self, Envelope, Kind},
    name::Name,
    payload::{Capabilities, Hello, Server, Welcome},
    secret::Secret,
    text::Quoted,
};
use std::mem;

/// Why a token takes nothing up.
const NOT_GOOD: &str =
    "the token was used before, is out of date, or is another name's; this is a fresh session";

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
            None => {}
            Some("guest") => return self.welcome_guest(id),
            Some(mode @ ("companion" | "operator")) => {
                let message = format!("this daemon doesn't serve {mode} connections yet");
                return Err((ErrorCode::Unauthorized, message));
            }
            Some(mode) => {
                let message = format!("HELLO: mode {} is not known", Quoted(mode));
                return Err((ErrorCode::Invalid, message));
            }
        }
        let Some(text) = hello.agent else {
            return Err((ErrorCode::Invalid, "HELLO: the payload has no `agent`".to_owned()));
        };
        let name = Name::parse(&text)
            .map_err(|why| (ErrorCode::InvalidName, format!("{}: {why}", Quoted(&text))))?;
        if let Some(token) = hello.session.and_then(|session| session.resume_token) {
            if let Some(agent) = self.redeem(&Secret::stated(&token), Some(name.as_str())) {
                return self.take_over(id, agent, name, hello.capabilities);
            }
            self.violated(id, envelope.breaks(ErrorCode::ResumeRejected, NOT_GOOD));
        }
        let agent = self.roster.find(name.as_str());
        match agent.and_then(|agent| Some((agent, self.roster[agent].client?))) {
            #[cfg(test)]
            Some(_) if self.has(super::sim::Canary::TwoOwners) => {
                self.seat(id, name, hello.capabilities, Proof::Claim)?;
            }
            Some((agent, older)) => self.contend(id, name, hello.capabilities, agent, older),
            None => self.seat(id, name, hello.capabilities, Proof::Claim)?,
        }
        Ok(())
    }

    /// A session goes on with this connection, whoever has it now.
    pub(super) fn take_over(
        &mut self,
        id: ClientId,
        agent: AgentKey,
        name: Name,
        capabilities: Capabilities,
    ) -> Result<(), Refusal> {
        if let Some(older) = self.roster[agent].client {
            let why = "another connection took this session up with its token";
            self.violated(older, Violation::new(ErrorCode::SessionReplaced, why));
        }
        self.seat(id, name, capabilities, Proof::Token)
    }

    fn welcome_guest(&mut self, id: ClientId) -> Result<(), Refusal> {
        let name = loop {
            let text = format!("@guest-{}", self.random_hex(4));
            if self.roster.find(&text).is_none() {
                break Name::made_by_daemon(&text);
            }
        };
        // A guest has no mailbox, so that nothing that needs one can be meant for it.
        let capabilities =
            Capabilities { ack: false, resume: false, max_inflight: 0, supports_topics: false };
        self.seat(id, name, capabilities, Proof::Guest)
    }

    /// Somebody has the name: that connection is given a moment to prove closed.
    fn contend(
        &mut self,
        id: ClientId,
        name: Name,
        capabilities: Capabilities,
        agent: AgentKey,
        older: ClientId,
    ) {
        let since = self.now.monotonic;
        let contender = Contender { since, name, capabilities, frames: Vec::new(), frame_bytes: 0 };
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

    /// Keeps what a contender says until it has the name. Its gate is shut, so it can't be much.
    pub(super) fn frame_of_contender(&mut self, id: ClientId, json: &[u8]) {
        let Some(Client { stage: Stage::Contender(contender), .. }) = self.clients.get_mut(&id)
        else {
            return;
        };
        if contender.frame_bytes + json.len() > 2 * self.limits.frame_bytes_max {
            let message = format!("{} is connected, and this is too much to wait", contender.name);
            return self.violated(id, Violation::new(ErrorCode::NameInUse, message));
        }
        contender.frame_bytes += json.len();
        contender.frames.push(json.into());
        self.memory.inside += json.len();
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
            let Contender { name, capabilities, frames, frame_bytes, .. } = *contender;
            self.memory.inside -= frame_bytes;
            if let Err((code, message)) = self.seat(id, name, capabilities, Proof::Claim) {
                self.violated(id, Violation::new(code, message));
            }
            self.pump(agent);
            self.gate(id, true);
            for frame in frames {
                self.frame(id, &frame);
            }
        }
    }

    /// Gives a free name to a connection. Whatever waits for the name goes out when it is pumped.
    fn seat(
        &mut self,
        id: ClientId,
        name: Name,
        capabilities: Capabilities,
        proof: Proof,
    ) -> Result<(), Refusal> {
        let too_many = |count: usize, what: &str| {
            (ErrorCode::TooManyClients, format!("{count} {what} already"))
        };
        if self.members >= self.limits.clients_max {
            return Err(too_many(self.members, "clients are connected"));
        }
        let agent = match self.roster.find(name.as_str()) {
            Some(agent) => agent,
            None if self.roster.len() >= self.limits.names_max => {
                return Err(too_many(self.roster.len(), "names are known"));
            }
            None => {
                self.ledger.last.agent += 1;
                self.roster.add(name.clone(), self.ledger.last.agent)
            }
        };
        self.members += 1;
        self.strangers.remove(&id);
        self.roster[agent].name = name;
        self.roster.arrive(agent, id, self.now.unix_ms);
        if let Some(at) = self.roster[agent].forget_at.take() {
            self.alarms.remove(at, Alarm::Agent(agent));
        }
        self.keep_agent(agent);
        self.welcome(id, agent, capabilities, proof);
        Ok(())
    }

    fn welcome(&mut self, id: ClientId, agent: AgentKey, capabilities: Capabilities, proof: Proof) {
        let (session_id, resume_token) = self.renew_session(agent, capabilities, proof);
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.agent = Some(agent);
        client.heard = self.now.monotonic;
        client.stage = Stage::Member(Box::new(Seat {
            speaker: Speaker { session: session_id.clone(), proof },
            capabilities,
            tap: None,
        }));
        let welcome = Welcome {
            session_id: session_id.to_string(),
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
        self.log(id, "joined");
        self.arm(id);
    }
}
