//! The driver of a border: the clients that join the local daemon under the names of other
//! machines' agents, and the loop that waits for them and for a transport.

use super::{
    border::{self, AGENTS_MAX, Border, Carry, IN_FLIGHT_MAX, Outcome, Ticket},
    topics::Topics,
};
use client::{
    ClientError, ClientKey, Clients, Delivery, Ended, Event, Forwarded, Settings, WhenAbsent,
    home::{Context, HomeError, Keys, agent_around},
};
use crossbeam_channel::{Receiver, Select, TryRecvError};
use platform::{clock, peer::User};
use protocol::{
    Moment, Now,
    code::NackCode,
    name::{Host, Name},
    payload::{Capabilities, Nack},
    secret::Secret,
    text::escaped,
};
use std::{collections::VecDeque, ops::ControlFlow, time::Duration};

/// The most deliveries to one agent that wait for a transport.
const HELD_MAX: usize = 256;

/// The delay before a client that the daemon refused tries again, in milliseconds.
const RETRY_CYCLE_MS: u64 = 30_000;

/// The local daemon, and the proof that lets a bridge join it.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The daemon's endpoint.
    pub endpoint: String,
    /// A user who may run the daemon, besides this user, the system and administrators.
    pub server: Option<User>,
    /// The operator's key.
    pub key: Secret,
    /// The time to live of a message to another machine that states none, in milliseconds.
    pub remote_ttl_ms: u64,
    /// A callback for each attempt to reconnect that finds no daemon.
    pub when_absent: Option<WhenAbsent>,
}

impl Daemon {
    /// The daemon of a context, which need not run.
    ///
    /// # Errors
    /// If it has never run, or this process may not join it as a bridge.
    pub fn find(context: &Context) -> Result<Self, HomeError> {
        check_is_no_agent()?;
        let endpoint = context.sources.candidates()[0].to_owned();
        let key = Keys::of(context).of_daemon_at(&endpoint).map_err(|error| {
            let remedy = "if no daemon has run yet, run `agent-relay up`; or use --home DIR";
            HomeError::because(error).hint(remedy)
        })?;
        let remote_ttl_ms = context.config.remote_ttl_ms;
        let server = context.server(&endpoint);
        Ok(Self { server, key, remote_ttl_ms, when_absent: None, endpoint })
    }

    fn settings(&self, name: &Name, bridge: &Secret, topics: &Topics) -> Settings {
        let keys = (self.key.clone(), bridge.clone());
        let bridge = Settings::bridge(&self.endpoint, name.as_str(), keys);
        let broadcasts = name.is_all() && topics.broadcasts;
        let capabilities =
            Capabilities { max_inflight: IN_FLIGHT_MAX, broadcasts, ..bridge.capabilities };
        Settings { capabilities, ..self.returning(bridge) }
    }

    /// The settings of the connection that the clients share.
    fn operator(&self) -> Settings {
        self.returning(Settings::operator(&self.endpoint, self.key.clone()))
    }

    fn returning(&self, settings: Settings) -> Settings {
        Settings {
            server: self.server.clone(),
            retry_cycle_after_ms: Some(RETRY_CYCLE_MS),
            local: true,
            when_absent: self.when_absent.clone(),
            ..settings
        }
    }
}

/// Refuses to link machines for an agent.
///
/// # Errors
/// If this process runs in a wrapped agent.
pub fn check_is_no_agent() -> Result<(), HomeError> {
    let Some(agent) = agent_around() else { return Ok(()) };
    let message = format!("{} would link machines: only a person does", escaped(&agent));
    Err(HomeError::usage(message).hint("run this outside of an agent"))
}

/// A way to carry frames to other machines.
pub trait Transport {
    /// An event that the transport waits for.
    type Event;
    /// The reason why the transport ends.
    type End;

    /// Handles an event of the transport.
    fn event(&mut self, now: Now, event: Self::Event, local: &mut Local) -> ControlFlow<Self::End>;

    /// Handles the passing of [`deadline`](Self::deadline).
    fn tick(&mut self, now: Now, local: &mut Local) -> ControlFlow<Self::End>;

    /// The moment when the transport needs [`tick`](Self::tick).
    fn deadline(&self) -> Option<Moment>;

    /// Whether the transport accepts another message for an agent of a machine. Answers and
    /// refusals are always accepted.
    fn has_room(&self, host: &Host, agent: &Name) -> bool;

    /// Carries a frame. The error is a sentence that says why the frame cannot be carried.
    fn carry(&mut self, now: Now, carry: Carry) -> Result<(), String>;

    /// Notes that a frame that the transport has passed on is settled.
    fn settled(&mut self, now: Now, host: &Host, ticket: Ticket, outcome: Outcome);

    /// Handles the end of a client: the daemon no longer admits it.
    fn client_ended(&mut self, agent: &Name, ended: &Ended) -> ControlFlow<Self::End>;

    /// Writes a line to the log.
    fn log(&mut self, line: String);
}

/// A client that has joined for an agent of another machine.
#[derive(Debug)]
struct Joined {
    host: Host,
    /// The agent's name on its machine.
    name: Name,
    client: ClientKey,
    /// Deliveries that wait until the transport has room. Other events from the daemon must not
    /// wait: the other side's room depends on it.
    held: VecDeque<Box<Delivery>>,
}

impl Joined {
    /// Whether a delivery would have to wait too long: at-least-once deliveries are limited by
    /// `IN_FLIGHT_MAX`, and others are dropped.
    fn is_full(&self, delivery: &Delivery) -> bool {
        !delivery.requires_ack && self.held.len() >= HELD_MAX
    }
}

/// The local daemon's side of a border.
#[derive(Debug)]
pub struct Local {
    daemon: Daemon,
    topics: Topics,
    clients: Clients,
    border: Border,
    joined: Vec<Joined>,
    outputs: Vec<border::Output>,
}

impl Local {
    /// This daemon's side, which exports these agents and lets messages on these topics cross.
    #[must_use]
    pub fn new(daemon: Daemon, exports: impl IntoIterator<Item = Name>, topics: Topics) -> Self {
        let border = Border::new(exports, topics.clone(), daemon.remote_ttl_ms);
        let clients = Clients::new(daemon.operator());
        Self { daemon, topics, clients, border, joined: Vec::new(), outputs: Vec::new() }
    }

    /// Joins the daemon for the agents of a machine, replacing those that were joined before. The
    /// agent `all` gets messages to everyone and on topics.
    /// `bridge` is a secret of the bridge: with it, a name is taken over from an older connection,
    /// and left alone if another bridge has it.
    ///
    /// # Errors
    /// If the daemon refuses one; none of the machine's agents is joined then.
    pub fn present(
        &mut self,
        now: Now,
        host: &Host,
        agents: &[Name],
        bridge: &Secret,
    ) -> Result<(), JoinError> {
        self.absent(now, host);
        for name in agents.iter().take(AGENTS_MAX + 1) {
            if let Err(error) = self.join(host, name, bridge) {
                self.absent(now, host);
                return Err(error);
            }
        }
        self.input(now, border::Input::Present(host.clone(), agents.to_vec()));
        Ok(())
    }

    /// Joins the daemon for another agent of a machine.
    ///
    /// # Errors
    /// If the daemon refuses it.
    pub fn add(
        &mut self,
        now: Now,
        host: &Host,
        agent: &Name,
        bridge: &Secret,
    ) -> Result<(), JoinError> {
        self.join(host, agent, bridge)?;
        self.present_joined(now, host);
        Ok(())
    }

    /// Leaves the daemon for an agent of a machine. Its session can be resumed.
    pub fn remove(&mut self, now: Now, host: &Host, agent: &Name) {
        let is_agent = |joined: &mut Joined| joined.host == *host && joined.name == *agent;
        let left = self.joined.extract_if(.., is_agent);
        left.for_each(|joined| self.clients.hang_up(joined.client));
        self.present_joined(now, host);
    }

    /// Tells the border which agents of a machine are joined.
    fn present_joined(&mut self, now: Now, host: &Host) {
        let joined = self.joined.iter().filter(|joined| joined.host == *host);
        let agents = joined.map(|joined| joined.name.clone()).collect();
        self.input(now, border::Input::Present(host.clone(), agents));
    }

    fn join(&mut self, host: &Host, name: &Name, bridge: &Secret) -> Result<(), JoinError> {
        let agent = name.at(host);
        match self.clients.join(self.daemon.settings(&agent, bridge, &self.topics)) {
            Ok(client) => {
                for pattern in self.topics.patterns.iter().filter(|_| name.is_all()) {
                    self.clients.subscribe(client, pattern.as_str());
                }
                let (host, name, held) = (host.clone(), name.clone(), VecDeque::new());
                self.joined.push(Joined { host, name, client, held });
                Ok(())
            }
            Err(error) => Err(JoinError { agent, error }),
        }
    }

    /// Leaves the daemon for the agents of a machine. Their sessions can be resumed.
    pub fn absent(&mut self, now: Now, host: &Host) {
        self.input(now, border::Input::Absent(host.clone()));
        let left = self.joined.extract_if(.., |joined| joined.host == *host);
        left.for_each(|joined| self.clients.hang_up(joined.client));
    }

    /// Passes an input to the border.
    pub fn input(&mut self, now: Now, input: border::Input<'_>) {
        self.border.handle(now, input, &mut self.outputs);
    }

    /// Runs until the transport ends. Returns `None` if something comes through `stop` before.
    ///
    /// # Panics
    /// If all senders of `events` are dropped.
    pub fn run<T: Transport>(
        &mut self,
        transport: &mut T,
        events: &Receiver<T::Event>,
        stop: &Receiver<()>,
    ) -> Option<T::End> {
        loop {
            let ready = self.wait(transport, events, stop);
            let now = now();
            let step = match ready {
                Ready::Transport => match events.try_recv() {
                    Ok(event) => transport.event(now, event, self),
                    Err(TryRecvError::Empty) => ControlFlow::Continue(()),
                    Err(TryRecvError::Disconnected) => panic!("a transport has events"),
                },
                Ready::Stop => return None,
                Ready::Nothing => ControlFlow::Continue(()),
            };
            self.clients.work();
            let step = match step {
                ControlFlow::Continue(()) => self.client_events(now, transport),
                end @ ControlFlow::Break(_) => end,
            };
            let step = match step {
                ControlFlow::Continue(()) => self.tick(now, transport),
                end @ ControlFlow::Break(_) => end,
            };
            self.carry_out(now, transport);
            self.release(now, transport);
            self.clients.write();
            if let ControlFlow::Break(end) = step {
                return Some(end);
            }
        }
    }

    fn wait<T: Transport>(
        &self,
        transport: &T,
        events: &Receiver<T::Event>,
        stop: &Receiver<()>,
    ) -> Ready {
        // Waits for: the clients' connections until their sessions' deadlines, the transport's
        // channel, signals. A join waits for the daemon, 10 s at most for each agent.
        let mut select = Select::new();
        select.recv(events);
        select.recv(stop);
        self.clients.watch(&mut select);
        let deadlines = [self.border.deadline(), transport.deadline(), self.clients.deadline()];
        let ready = match deadlines.into_iter().flatten().min() {
            _ if self.clients.has_events() => select.try_ready().ok(),
            Some(deadline) => {
                let timeout = deadline.since(now().monotonic);
                select.ready_timeout(Duration::from_millis(timeout)).ok()
            }
            None => Some(select.ready()),
        };
        match ready {
            Some(0) => Ready::Transport,
            Some(1) => Ready::Stop,
            Some(_) | None => Ready::Nothing,
        }
    }

    fn tick<T: Transport>(&mut self, now: Now, transport: &mut T) -> ControlFlow<T::End> {
        if self.border.deadline().is_some_and(|at| at <= now.monotonic) {
            self.input(now, border::Input::Tick);
        }
        match transport.deadline().is_some_and(|at| at <= now.monotonic) {
            true => transport.tick(now, self),
            false => ControlFlow::Continue(()),
        }
    }

    fn client_events<T: Transport>(&mut self, now: Now, transport: &mut T) -> ControlFlow<T::End> {
        while let Some((client, event)) = self.clients.next_event() {
            if client == ClientKey::SHARED {
                Self::shared_event(&event, transport);
            } else {
                self.client_event(now, client, event, transport)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Logs an event of the connection that the clients share.
    fn shared_event<T: Transport>(event: &Event, transport: &mut T) {
        match event {
            Event::Error(error) => transport.log(format!("{} ({})", error.message, error.code)),
            Event::Ended(ended) => {
                transport.log(format!("{ended}; each agent joins over its own connection"));
            }
            _ => {}
        }
    }

    fn client_event<T: Transport>(
        &mut self,
        now: Now,
        client: ClientKey,
        event: Event,
        transport: &mut T,
    ) -> ControlFlow<T::End> {
        let Some(joined) = self.joined.iter_mut().find(|joined| joined.client == client) else {
            return ControlFlow::Continue(());
        };
        let (host, name) = (&joined.host, joined.name.clone());
        let input = match event {
            Event::Delivered(delivery) => {
                if joined.is_full(&delivery) {
                    let agent = name.at(host);
                    transport.log(format!("too many messages for {agent}: one is dropped"));
                } else {
                    joined.held.push_back(delivery);
                }
                return ControlFlow::Continue(());
            }
            Event::Accepted { send_id, .. } => border::Input::Accepted(host, name, send_id),
            Event::Refused { nack, .. } => border::Input::Refused(host, name, nack),
            Event::Answered { send_id, correlation_id, answer } => {
                border::Input::Answered(host, name, send_id, correlation_id, answer)
            }
            Event::Missed { why } => {
                transport.log(format!("{}: {why}", name.at(host)));
                return ControlFlow::Continue(());
            }
            Event::Error(error) => {
                transport.log(format!("{}: {} ({})", name.at(host), error.message, error.code));
                return ControlFlow::Continue(());
            }
            Event::Ended(ended) => return transport.client_ended(&name.at(host), &ended),
            Event::Subscribed { pattern, refused: Some(nack) } => {
                let Nack { message, code, .. } = nack;
                transport.log(format!(
                    "{} gets nothing on {pattern}: {message} ({code})",
                    name.at(host)
                ));
                return ControlFlow::Continue(());
            }
            Event::Busy { .. } | Event::Subscribed { .. } | Event::State(_) => {
                return ControlFlow::Continue(());
            }
        };
        self.border.handle(now, input, &mut self.outputs);
        ControlFlow::Continue(())
    }

    /// Passes on the deliveries that the transport has room for.
    fn release<T: Transport>(&mut self, now: Now, transport: &mut T) {
        for index in 0..self.joined.len() {
            loop {
                let joined = &mut self.joined[index];
                if !transport.has_room(&joined.host, &joined.name) {
                    break;
                }
                let Some(delivery) = joined.held.pop_front() else { break };
                let input = border::Input::Delivered(&joined.host, joined.name.clone(), delivery);
                self.border.handle(now, input, &mut self.outputs);
                self.carry_out(now, transport);
            }
        }
    }

    /// Carries out the border's outputs.
    fn carry_out<T: Transport>(&mut self, now: Now, transport: &mut T) {
        while !self.outputs.is_empty() {
            for output in std::mem::take(&mut self.outputs) {
                match output {
                    border::Output::Carry(carry) => {
                        let (host, id) = (carry.host.clone(), carry.id.clone());
                        if let Err(why) = transport.carry(now, carry) {
                            self.input(now, border::Input::NotCarried(&host, id, why));
                        }
                    }
                    border::Output::Settled(host, ticket, outcome) => {
                        transport.settled(now, &host, ticket, outcome);
                    }
                    border::Output::Log(line) => transport.log(line),
                    output => {
                        if let Err(line) = self.execute(now, output) {
                            transport.log(line);
                        }
                    }
                }
            }
        }
    }

    /// Carries out an output for the daemon. The error is a line for the log.
    fn execute(&mut self, now: Now, output: border::Output) -> Result<(), String> {
        use border::Output;
        match output {
            Output::Acknowledge(host, name, id) => {
                if let Some(client) = self.client(&host, &name) {
                    self.clients.acknowledge(client, &id);
                }
            }
            Output::Return(host, name, id, why) => {
                if let Some(client) = self.client(&host, &name) {
                    let nack = Nack::new(id, NackCode::Refused, why);
                    self.clients.return_delivery(client, nack);
                }
            }
            Output::Forward(host, name, message) => self.forward(now, &host, &name, message),
            Output::Answer(host, name, reply) => {
                let client = self.client(&host, &name);
                let sent = client.map(|client| self.clients.reply(client, reply));
                sent.transpose().map_err(|error| format!("an answer is lost: {error}"))?;
            }
            Output::Notify(host, name, message) => {
                let client = self.client(&host, &name);
                let sent = client.map(|client| self.clients.send(client, message));
                sent.transpose().map_err(|error| format!("a refusal is lost: {error}"))?;
            }
            Output::Carry(_) | Output::Settled(..) | Output::Log(_) => {}
        }
        Ok(())
    }

    fn forward(&mut self, now: Now, host: &Host, name: &Name, message: Forwarded) {
        let (id, to) = (message.id.0.clone(), message.to.clone());
        let client = self.client(host, name);
        let Some(Err(error @ ClientError::Full { .. })) =
            client.map(|client| self.clients.forward(client, message))
        else {
            return;
        };
        let nack = Nack { to: Some(to), ..Nack::new(id, NackCode::Limit, error.to_string()) };
        self.input(now, border::Input::Refused(host, name.clone(), nack));
    }

    fn client(&self, host: &Host, name: &Name) -> Option<ClientKey> {
        let mut joined = self.joined.iter();
        joined.find(|it| it.host == *host && it.name == *name).map(|joined| joined.client)
    }
}

/// The operation that is ready.
enum Ready {
    Transport,
    Stop,
    /// A connection of the clients, or none.
    Nothing,
}

/// The daemon's refusal of a client for another machine's agent.
#[derive(Debug)]
pub struct JoinError {
    /// The agent's name here.
    pub agent: Name,
    /// The refusal.
    pub error: ClientError,
}

/// Both clocks.
#[must_use]
pub fn now() -> Now {
    Now { monotonic: Moment(clock::monotonic_ms()), unix_ms: clock::unix_ms() }
}
