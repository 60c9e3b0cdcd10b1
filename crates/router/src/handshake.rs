//! The handshake: from a new connection to its WELCOME, or to the ERROR that refuses it.

use super::{
    Router,
    accounts::{self, Class, Principal},
    connections::{About, Applicant, Membership},
    directory::{CompanionKey, Origin},
    interface::{ClientId, Output, PeerProcess},
    keys::AgentKey,
    sender::SenderAuth,
};
use protocol::{
    PROTOCOL,
    channel::CHANNELS_MAX,
    client_frame::{ClientFrame, ClientPayload, Malformed},
    code::{ErrorCode, Violation},
    deliver::Proof,
    envelope::{Envelope, Kind},
    name::{GUEST, GUEST_DIGITS, Name, NameError},
    payload::{Auth, Capabilities, Hello, Server, Welcome},
    secret::{Hash, Secret},
    text::Quoted,
};
use std::{ops::RangeInclusive, sync::Arc};

/// The text of the ERROR for a token that resumes no session.
const TOKEN_REJECTED: &str =
    "the token was used before, is out of date, or is another name's; this is a fresh session";

/// The capabilities of companions, operators and guests: they send and get answers, but no
/// at-least-once messages, topics or replays.
const SENDS_ONLY: Capabilities = Capabilities {
    ack: false,
    resume: false,
    max_inflight: 0,
    supports_topics: false,
    reports: false,
    broadcasts: false,
};

/// The bytes of a guest's key.
const GUEST_KEY_BYTES: RangeInclusive<usize> = 16..=128;

/// The time in which the holder of a name must answer a PING when another client asks for the name.
const PROBE_MS: u64 = 250;

/// The places beyond `clients_max` for operators, so that the owner is admitted to a full daemon.
const OPERATOR_PLACES: usize = 16;

/// The reason why a connection gets no name.
pub(super) type Refusal = (ErrorCode, String);

impl Router {
    pub(super) fn connected(&mut self, id: ClientId, process: Option<PeerProcess>) {
        self.connections.add(&self.ctx, id, process);
        if self.lifecycle.is_stopping() {
            let stopping = Violation::new(ErrorCode::ShuttingDown, "the daemon is going down");
            return self.violated(id, stopping);
        }
        if let Some(loser) = self.connections.await_handshake(&mut self.ctx, id) {
            let most = self.ctx.limits.unauthenticated_max;
            let message = format!("more than {most} connections are without a handshake");
            self.violated(loser, Violation::new(ErrorCode::TooManyClients, message));
        }
    }

    /// Handles a frame of a connection that has not completed the handshake.
    pub(super) fn first_frame(&mut self, id: ClientId, frame: &ClientFrame<'_>) {
        const REQUIRED: &str = "the first frame is HELLO or RESUME";
        match frame {
            ClientFrame::Valid(envelope, payload) if begins_handshake(envelope.kind) => {
                if let Err((code, message)) = self.introduce(id, envelope, *payload) {
                    self.violated(id, envelope.violation(code, message));
                }
                if let Some(agent) = self.connections.agent_of(id) {
                    self.pump(agent);
                }
            }
            ClientFrame::Valid(envelope, _) => {
                self.violated(id, envelope.violation(ErrorCode::HandshakeRequired, REQUIRED));
            }
            ClientFrame::Malformed(Malformed { violation, stated_kind })
                if violation.code.is_fatal() || stated_kind.is_some_and(begins_handshake) =>
            {
                self.violated(id, violation.clone());
            }
            ClientFrame::Malformed(Malformed { violation, .. }) => {
                let required = Violation::new(ErrorCode::HandshakeRequired, REQUIRED);
                let reference = violation.reference.clone();
                self.violated(id, Violation { reference, ..required });
            }
        }
    }

    fn introduce(
        &mut self,
        id: ClientId,
        envelope: &Envelope<'_>,
        payload: Result<&ClientPayload, &str>,
    ) -> Result<(), Refusal> {
        let payload = payload.map_err(|why| (ErrorCode::Invalid, why.to_owned()))?;
        let hello = match payload {
            ClientPayload::Hello(hello) => Hello::clone(hello),
            ClientPayload::Resume => return self.resume_first(id, envelope),
            _ => unreachable!("HELLO and RESUME begin a handshake"),
        };
        match hello.mode.as_deref() {
            None => self.hello_of_agent(id, envelope, hello),
            Some("companion") => self.hello_of_companion(id, &hello),
            Some("guest") => self.hello_of_guest(id, &hello),
            Some("operator") => self.hello_of_operator(id, hello.auth.as_ref()),
            Some("bridge") => self.hello_of_bridge(id, hello),
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
        let name = name_in(&hello, Name::parse)?;
        let key = hello.auth.as_ref().and_then(|auth| auth.key.as_deref());
        let proof = self.enforcement.proof_of(&name, key);
        let proof = proof.map_err(|why| (ErrorCode::Unauthorized, why))?;
        let is_owners = self.enforcement.is_operator_key(key.map(Secret::stated));
        let companion_key = companion_key_in(&hello);
        let (capabilities, about) = (hello.capabilities, About::of(&hello));
        let mut applicant =
            Applicant { name, capabilities, proof, companion_key, token: None, about };
        let name = applicant.name.as_str();
        if let Some(token) = hello.session.and_then(|session| session.resume_token) {
            let token = Secret::stated(&token);
            if let Some((agent, hash)) = self.directory.redeem(&mut self.ctx, &token, Some(name)) {
                applicant.token = Some(hash);
                return self.take_over(id, agent, applicant);
            }
            self.violated(id, envelope.violation(ErrorCode::ResumeRejected, TOKEN_REJECTED));
        }
        let agent = self.directory.find(name);
        let holder = agent.and_then(|agent| Some((agent, self.directory.client(agent)?)));
        if let Some((agent, holder)) = self.ctx.planted.holder(holder) {
            self.wait_for_name(id, applicant, agent, holder);
            return Ok(());
        }
        match agent.filter(|agent| !is_owners && self.may_return(*agent)) {
            Some(agent) => {
                self.wait_for_return(id, applicant, agent);
                Ok(())
            }
            None => self.join_free_name(id, applicant),
        }
    }

    /// Whether the name's session is kept for who can resume it, since the daemon has started only
    /// now.
    fn may_return(&self, agent: AgentKey) -> bool {
        self.lifecycle.is_awaiting_returns(self.ctx.now.monotonic) && self.has_good_session(agent)
    }

    /// Lets a client wait for a name until the time is over in which its session may be resumed.
    fn wait_for_return(&mut self, id: ClientId, applicant: Applicant, agent: AgentKey) {
        let Some(until) = self.lifecycle.returns_until() else { return };
        self.connections.wait_for_name(id, applicant, agent, until.plus(PROBE_MS));
        self.connections.pause_for_name(&mut self.ctx, id);
    }

    /// Gives the names whose sessions nobody has resumed to those who wait for them.
    pub(super) fn end_wait_for_returns(&mut self) {
        for agent in self.connections.awaited_names() {
            if self.directory.client(agent).is_none() {
                self.directory.note_freed(agent);
            }
        }
    }

    /// Begins a session of a name that no connection has.
    fn join_free_name(&mut self, id: ClientId, applicant: Applicant) -> Result<(), Refusal> {
        let name = applicant.name.clone();
        self.join(id, applicant, false)?;
        if let Some(agent) = self.directory.find(name.as_str()) {
            self.notify_presence(agent);
        }
        Ok(())
    }

    /// Continues a session on this connection. Another connection that has the session now is
    /// closed.
    pub(super) fn take_over(
        &mut self,
        id: ClientId,
        agent: AgentKey,
        applicant: Applicant,
    ) -> Result<(), Refusal> {
        let older = self.directory[agent].client;
        if let Some(older) = older {
            let why = "another connection took this session up";
            self.violated(older, Violation::new(ErrorCode::SessionReplaced, why));
        }
        let proof = match applicant.proof {
            Proof::Claim => Proof::Token,
            proof => proof,
        };
        self.join(id, Applicant { proof, ..applicant }, true)?;
        if older.is_none() {
            self.notify_presence(agent);
        }
        Ok(())
    }

    /// Admits a guest. One that shows its key again is the same guest.
    fn hello_of_guest(&mut self, id: ClientId, hello: &Hello) -> Result<(), Refusal> {
        let key = guest_key_in(hello)?;
        let known = key.and_then(|key| self.directory.find_guest(&key));
        let known = self.ctx.planted.known_guest(known);
        let name = match known {
            Some(agent) => self.directory[agent].name.clone(),
            None => self.free_guest_name(),
        };
        let (capabilities, proof, about) = (SENDS_ONLY, Proof::Guest, About::default());
        let applicant =
            Applicant { name, capabilities, proof, companion_key: None, token: None, about };
        if let Some(agent) = known {
            return self.take_over(id, agent, applicant);
        }
        self.join(id, applicant, false)?;
        if let Some((agent, key)) = self.connections.agent_of(id).zip(key) {
            self.directory.set_guest_key(agent, key);
        }
        Ok(())
    }

    fn free_guest_name(&mut self) -> Name {
        loop {
            let text = format!("{GUEST}{}", self.ctx.random_hex(GUEST_DIGITS / 2));
            if self.directory.find(&text).is_none() {
                break Name::made_by_daemon(&text);
            }
        }
    }

    /// Admits a bridge under the name of an agent of another machine. The operator's key proves
    /// more than a token would, so the name's session continues without one; but not while another
    /// bridge has the name.
    fn hello_of_bridge(&mut self, id: ClientId, hello: Hello) -> Result<(), Refusal> {
        self.check_operator_key(hello.auth.as_ref())?;
        let name = name_in(&hello, Name::parse_remote)?;
        // Only a client in place of all agents of a machine gets what several recipients get.
        let Capabilities { supports_topics, broadcasts, .. } = hello.capabilities;
        let (supports_topics, broadcasts) =
            (supports_topics && name.is_all(), broadcasts && name.is_all());
        let capabilities = Capabilities { supports_topics, broadcasts, ..hello.capabilities };
        let (proof, companion_key) = (Proof::Bridge, companion_key_in(&hello));
        let about = About::of(&hello);
        let applicant = Applicant { name, capabilities, proof, companion_key, token: None, about };
        let Some(agent) = self.directory.find(applicant.name.as_str()) else {
            return self.join_free_name(id, applicant);
        };
        let holder = self.directory.client(agent);
        if let Some(holder) = holder.filter(|_| !self.is_of_bridge(agent, companion_key)) {
            self.wait_for_name(id, applicant, agent, holder);
            return Ok(());
        }
        if self.has_good_session(agent) {
            return self.take_over(id, agent, applicant);
        }
        self.join_free_name(id, applicant)
    }

    /// Whether the bridge with this key has joined as an agent of another machine.
    fn is_of_bridge(&self, agent: AgentKey, key: Option<Hash>) -> bool {
        key.is_some_and(|key| self.has_companion(agent, &key))
    }

    fn has_good_session(&self, agent: AgentKey) -> bool {
        let session = self.directory.session(agent);
        session.is_some_and(|session| session.is_good_at(self.ctx.now.monotonic))
    }

    /// Lets a client wait for a name until the client that has the name proves to be closed.
    fn wait_for_name(
        &mut self,
        id: ClientId,
        applicant: Applicant,
        agent: AgentKey,
        holder: ClientId,
    ) {
        // Often, only writing to a dead connection shows that it is dead. One PING serves all
        // clients that wait for the name.
        let until = self.ctx.now.monotonic.plus(PROBE_MS);
        if self.connections.wait_for_name(id, applicant, agent, until) {
            self.connections.ping(&mut self.ctx, holder);
        }
        self.connections.pause_for_name(&mut self.ctx, id);
    }

    fn check_operator_key(&self, auth: Option<&Auth>) -> Result<(), Refusal> {
        let key = auth.and_then(|auth| auth.key.as_deref()).map(Secret::stated);
        if self.enforcement.is_operator_key(key) {
            return Ok(());
        }
        let message = "`auth.key` must be what operator.key in the daemon's home contains";
        Err((ErrorCode::Unauthorized, message.to_owned()))
    }

    fn hello_of_operator(&mut self, id: ClientId, auth: Option<&Auth>) -> Result<(), Refusal> {
        self.check_operator_key(auth)?;
        let agent = self.operator();
        self.join_beside(id, agent, Proof::Operator, None)?;
        self.ctx.emit(Output::Operator(id));
        Ok(())
    }

    /// Admits a companion with its agent's key, even while the agent is away: both may be
    /// reconnecting. Each SEND of the companion requires that the agent is here. A daemon that has
    /// not seen the agent yet admits any.
    fn hello_of_companion(&mut self, id: ClientId, hello: &Hello) -> Result<(), Refusal> {
        let name = name_in(hello, Name::parse)?;
        let refused = |message: String| Err((ErrorCode::Unauthorized, message));
        let Some(key) = companion_key_in(hello) else {
            return refused(format!(
                "a companion states in `companion_key` what {name} stated in its HELLO"
            ));
        };
        let Some(agent) = self.directory.find(name.as_str()) else {
            return refused(format!("no agent {name} was ever here, so it has no companion"));
        };
        let stated = self.directory[agent].companion_key;
        if !matches!(stated, CompanionKey::Unknown) && !stated.is(&key) {
            return refused(format!("{name} stated another key for its companions, or none"));
        }
        self.join_beside(id, agent, Proof::Companion, Some(key))
    }

    /// Closes the companions of an agent that were admitted before the daemon knew their key, and
    /// show another one: they would count in the agent's shares.
    fn dismiss_companions(&mut self, agent: AgentKey) {
        let stated = self.directory[agent].companion_key;
        let why = "the agent is back, and stated another key for its companions, or none";
        for id in self.connections.companions_of(agent, |key| !stated.is(key)) {
            self.violated(id, Violation::new(ErrorCode::Unauthorized, why));
        }
    }

    /// Whether an agent is here and stated this companion key in its HELLO.
    pub(super) fn has_companion(&self, agent: AgentKey, key: &Hash) -> bool {
        let agent = self.directory.get(agent).filter(|agent| agent.client.is_some());
        agent.is_some_and(|agent| agent.companion_key.is(key))
    }

    /// Gives each name that became free to the first client that waits for it.
    pub(super) fn assign_freed_names(&mut self) {
        while let Some(agent) = self.directory.next_freed() {
            // The session may have continued on another connection, which has the name now.
            let is_free = self.directory.get(agent).is_some_and(|agent| agent.client.is_none());
            if !is_free || self.lifecycle.is_stopping() {
                continue;
            }
            let Some((id, applicant)) = self.connections.next_waiting(&self.ctx, agent) else {
                continue;
            };
            let resumes = applicant.proof == Proof::Bridge && self.has_good_session(agent);
            match self.join(id, applicant, resumes) {
                Ok(()) => self.notify_presence(agent),
                Err((code, message)) => self.violated(id, Violation::new(code, message)),
            }
            self.pump(agent);
            self.connections.end_pause(&mut self.ctx, id);
        }
    }

    /// Gives a free name to a connection, with the agent's session if `resumes`, or else with a
    /// fresh one. The caller has to pump the agent's queue, so that waiting messages go out.
    fn join(&mut self, id: ClientId, applicant: Applicant, resumes: bool) -> Result<(), Refusal> {
        self.check_room_for_member(0)?;
        self.check_share_of_process(id)?;
        let Applicant { name, capabilities, proof, companion_key, token, about } = applicant;
        let process = self.connections.process(id);
        let known = self.directory.find(name.as_str());
        if proof == Proof::Guest {
            self.check_share_of_members(None)?;
        }
        let agent = match known {
            Some(agent) => agent,
            None => {
                let origin = Origin::of(&name, process);
                if let Some(origin) = &origin {
                    self.check_room_for_name(origin)?;
                }
                self.add_agent(name.clone(), origin)
            }
        };
        let is_back = matches!(self.directory[agent].companion_key, CompanionKey::Unknown);
        self.directory.arrive(&mut self.ctx, agent, (id, process), name, companion_key);
        if is_back && known.is_some() {
            self.dismiss_companions(agent);
        }
        let (session, next_token) = match proof {
            Proof::Guest => self.draw_session(),
            _ => {
                if !resumes {
                    self.drop_session(agent);
                }
                let ctx = &mut self.ctx;
                let renewed = self.directory.renew_session(ctx, agent, capabilities, token);
                if !capabilities.resume {
                    self.mail.drop_replay(&mut self.ctx, agent);
                }
                renewed
            }
        };
        let auth = SenderAuth::new(session, proof);
        let name = &self.directory[agent].name;
        let mut membership = Membership::new(name, auth, capabilities);
        membership.knows_session = !resumes || proof == Proof::Guest;
        membership.about = about;
        self.welcome(id, agent, membership, &next_token);
        Ok(())
    }

    /// Admits a companion or an operator. Several such connections may send in the name of one
    /// agent.
    fn join_beside(
        &mut self,
        id: ClientId,
        agent: AgentKey,
        proof: Proof,
        companion_key: Option<Hash>,
    ) -> Result<(), Refusal> {
        let reserved = if proof == Proof::Operator { OPERATOR_PLACES } else { 0 };
        self.check_room_for_member(reserved)?;
        if proof == Proof::Companion {
            self.check_share_of_process(id)?;
            self.check_share_of_members(Some(agent))?;
        }
        let (session, token) = self.draw_session();
        let auth = SenderAuth::new(session, proof);
        let name = &self.directory[agent].name;
        let mut membership = Membership::new(name, auth, SENDS_ONLY);
        membership.companion_key = companion_key;
        self.welcome(id, agent, membership, &token);
        Ok(())
    }

    /// Checks whether another connection may join, in `reserved` places beyond `clients_max`.
    fn check_room_for_member(&self, reserved: usize) -> Result<(), Refusal> {
        let members = self.ctx.accounts.total(Class::Members);
        if members < self.ctx.limits.clients_max + reserved {
            return Ok(());
        }
        Err(too_many(members, "clients are connected"))
    }

    /// Checks whether a client's process may have another connection.
    fn check_share_of_process(&self, id: ClientId) -> Result<(), Refusal> {
        let Some(process) = self.connections.process(id) else { return Ok(()) };
        let (own, most) = (self.connections.members_of(process), self.ctx.limits.clients_max);
        let total = self.ctx.accounts.total(Class::Members);
        if accounts::may_have_another(own, total, most) {
            return Ok(());
        }
        Err(too_many(own, &format!("connections of process {} are open", process.pid)))
    }

    /// Checks whether the companions of an agent, or all guests together, may have another
    /// connection.
    fn check_share_of_members(&self, principal: Principal) -> Result<(), Refusal> {
        let accounts = &self.ctx.accounts;
        if accounts.excess(Class::Members, principal, 1, self.ctx.limits.clients_max) == 0 {
            return Ok(());
        }
        let own = accounts.held(Class::Members, principal);
        let name = principal.and_then(|agent| self.directory.name(agent));
        let of = name.map_or("guests", Name::as_str);
        Err(too_many(own, &format!("connections of {of} are open")))
    }

    pub(super) fn add_agent(&mut self, name: Name, origin: Option<Origin>) -> AgentKey {
        let (number, is_guest) = (self.ctx.journal.next_agent(), name.is_guests());
        let agent = self.directory.add(name, number, origin);
        self.mail.open_mailbox(&mut self.ctx, agent, number, is_guest);
        agent
    }

    /// Returns the id and the token of a new session that ends with its connection.
    fn draw_session(&mut self) -> (Arc<str>, Secret) {
        let id = format!("s-{}", self.ctx.random_hex(8)).into();
        (id, Secret::stated(&self.ctx.random_hex(32)))
    }

    fn welcome(
        &mut self,
        id: ClientId,
        agent: AgentKey,
        membership: Membership,
        resume_token: &Secret,
    ) {
        let (limits, proof) = (&self.ctx.limits, membership.auth.proof);
        let welcome = Welcome {
            session_id: membership.auth.session.to_string(),
            resume_token: resume_token.reveal().to_owned(),
            agent: self.directory[agent].name.to_string(),
            capabilities: membership.capabilities,
            server: Server {
                max_frame_bytes: limits.frame_bytes_max as u64,
                heartbeat_ms: limits.heartbeat_ms,
                protocol: PROTOCOL.to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                resume_window_ms: limits.resume_window_ms,
                queue_max_messages: limits.queue_messages_max as u64,
                channels_max: (proof == Proof::Operator).then_some(CHANNELS_MAX as u64),
            },
        };
        let has_session = !membership.is_beside() && proof != Proof::Guest;
        self.connections.join(&mut self.ctx, id, agent, membership);
        if has_session {
            // A WELCOME that the client gets states a token that the store knows.
            self.connections.hold_frames(id);
        }
        self.connections.answer(&mut self.ctx, id, Kind::Welcome, &welcome);
        self.await_recorded(id);
        self.log(id, &format!("joined ({})", proof.as_str()));
        self.connections.set_timer(&mut self.ctx, id);
    }
}

/// Whether a connection may begin with a frame of this type.
const fn begins_handshake(kind: Kind) -> bool {
    match kind {
        Kind::Hello | Kind::Resume => true,
        Kind::Welcome
        | Kind::Send
        | Kind::Deliver
        | Kind::Ack
        | Kind::Nack
        | Kind::Ping
        | Kind::Pong
        | Kind::Error
        | Kind::Busy
        | Kind::Sync
        | Kind::Bye
        | Kind::Subscribe
        | Kind::Unsubscribe => false,
    }
}

/// Returns the name that a HELLO requests.
fn name_in(
    hello: &Hello,
    parse: impl FnOnce(&str) -> Result<Name, NameError>,
) -> Result<Name, Refusal> {
    let Some(text) = &hello.agent else {
        return Err((ErrorCode::Invalid, "HELLO: the payload has no `agent`".to_owned()));
    };
    parse(text).map_err(|why| (ErrorCode::InvalidName, format!("{}: {why}", Quoted(text))))
}

fn guest_key_in(hello: &Hello) -> Result<Option<Hash>, Refusal> {
    let Some(key) = hello.guest_key.as_deref() else { return Ok(None) };
    if GUEST_KEY_BYTES.contains(&key.len()) {
        return Ok(Some(Secret::stated(key).hash()));
    }
    let (least, most) = (GUEST_KEY_BYTES.start(), GUEST_KEY_BYTES.end());
    Err((ErrorCode::Invalid, format!("HELLO: `guest_key` must have {least} to {most} bytes")))
}

fn companion_key_in(hello: &Hello) -> Option<Hash> {
    let key = hello.companion_key.as_deref().filter(|key| !key.is_empty());
    key.map(|key| Secret::stated(key).hash())
}

pub(super) fn too_many(count: usize, what: &str) -> Refusal {
    (ErrorCode::TooManyClients, format!("{count} {what} already"))
}
