//! A bridge between NATS and its local side: the loop around the state machines.

mod start;

use crate::{
    batch,
    link::Link,
    local::{FromLocal, Local, ToLocal},
    outbox::{self, Lane, Limit, Outbox, Published},
    presence::{self, BEAT, Beat, Presence, VERSION},
    pull::{self, Received},
    reports::{Reports, printable},
    sequencer::{self, Info, Sequencer},
    subject::{self, Token},
};
use agent_relay::{
    machines::border::Ticket,
    protocol::name::{Host, Name},
};
use async_nats::{Event, Subscriber};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
pub use start::{Started, connect, start, taken};
use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, time};

/// The bytes that wait for NATS from which on the local side carries nothing more.
const CONGESTED: usize = 32 * 1024 * 1024;

/// The pause after which a full channel to the local side is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// The beginning of a line of the local side by which similar lines are recognized, in characters.
const TOPIC_CHARS: usize = 24;

/// The shortest time between two beats.
const BEAT_MIN: Duration = Duration::from_millis(100);

/// The time in which a bridge that ends says so.
const LEAVE: Duration = Duration::from_millis(500);

/// The deliveries that wait for the loop; the window bounds them already.
const DELIVERIES_MAX: usize = crate::js::WINDOW;

/// The settings of a bridge.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This host.
    pub here: Host,
    /// The agents that it exports.
    pub exports: Vec<Name>,
    /// The agents of other hosts that may be reached from here, each with its host. All if empty.
    pub imports: Vec<(Name, Host)>,
}

impl Settings {
    /// Those agents of a host that may be reached from here.
    pub(crate) fn imported(&self, host: &Host, names: Vec<Name>) -> Vec<Name> {
        let is_wanted = |name: &Name| self.imports.contains(&(name.clone(), host.clone()));
        if self.imports.is_empty() {
            return names;
        }
        names.into_iter().filter(is_wanted).collect()
    }
}

/// Why a bridge has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The bridge was stopped.
    Stopped,
    /// Another bridge of this host has run for longer.
    Taken,
    /// The local side has ended, for this reason.
    Local(String),
}

/// The end of something that the loop has started.
#[derive(Debug)]
enum Done {
    Published(Lane, Published),
    Acknowledged(u64, bool),
    Info(Option<Info>),
    /// The removal has ended; false if JetStream could not.
    Purged(bool),
}

/// The removal of what is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purge {
    /// Nothing was acknowledged since the last removal.
    None,
    Wanted,
    Running,
    /// More was acknowledged since it began.
    RunningAndWanted,
}

struct Bridge<'a> {
    settings: &'a Settings,
    here: Token,
    instance: String,
    link: Link,
    stream_bytes: Option<i64>,
    local: Local,
    lines: &'a dyn Fn(&str),
    reports: Reports,
    presence: Presence,
    outbox: Outbox,
    sequencer: Sequencer<Received>,
    /// The sequences of the tickets, and the number of open tickets of each sequence.
    tickets: HashMap<Ticket, u64>,
    open: HashMap<u64, usize>,
    next_ticket: Ticket,
    /// Refusals and answers that are not carried yet, with the tickets that wait for each.
    refusals: HashMap<(Host, String), Vec<Ticket>>,
    to_local: VecDeque<ToLocal>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    last_beat: Instant,
    purge: Purge,
    end: Option<End>,
}

/// Runs a bridge until `stop` is ready or it cannot go on. `lines` prints a line for a person.
pub async fn run(
    settings: &Settings,
    started: Started,
    local: Local,
    lines: &dyn Fn(&str),
    stop: impl Future<Output = ()>,
) -> End {
    let Started { link, mut events, mut beats, instance, presence, stream_bytes } = started;
    let now = Instant::now();
    let here = Token::of_host(&settings.here);
    let limit = limit(&link);
    let mut bridge = Bridge {
        settings,
        here: here.clone(),
        instance,
        link: link.clone(),
        stream_bytes,
        local,
        lines,
        reports: Reports::default(),
        presence,
        outbox: Outbox::new(here.clone(), limit),
        sequencer: Sequencer::new(now),
        tickets: HashMap::new(),
        open: HashMap::new(),
        next_ticket: 0,
        refusals: HashMap::new(),
        to_local: VecDeque::new(),
        work: FuturesUnordered::new(),
        last_beat: now,
        // What an earlier bridge has acknowledged may be there.
        purge: Purge::Wanted,
        end: None,
    };
    let (deliveries_sender, mut deliveries) = mpsc::channel(DELIVERIES_MAX);
    let pull = tokio::spawn(pull::run(link, here, deliveries_sender));
    bridge.events(&mut beats, &mut events, &mut deliveries, stop).await;
    pull.abort();
    drop(time::timeout(LEAVE, bridge.leave()).await);
    bridge.end.unwrap_or(End::Stopped)
}

/// The greatest size of a message that the server accepts.
fn limit(link: &Link) -> Limit {
    Limit { name: "max_payload", bytes: link.server().1 }
}

impl Bridge<'_> {
    async fn events(
        &mut self,
        beats: &mut Subscriber,
        events: &mut mpsc::Receiver<Event>,
        deliveries: &mut mpsc::Receiver<pull::Event>,
        stop: impl Future<Output = ()>,
    ) {
        let mut beat = time::interval(BEAT);
        let mut progress = time::interval(crate::js::PROGRESS);
        tokio::pin!(stop);
        self.sequence(sequencer::Input::Tick);
        while self.end.is_none() {
            let deadline = self.deadline();
            tokio::select! {
                () = &mut stop => self.end = Some(End::Stopped),
                Some(done) = self.work.next() => self.done(done),
                from = self.local.from.recv() => match from {
                    Some(from) => self.local_event(from),
                    None => self.end = Some(End::Local("the local side has ended".to_owned())),
                },
                Some(event) = deliveries.recv() => self.sequence(match event {
                    pull::Event::Delivered(delivery) => sequencer::Input::Delivered(delivery),
                    pull::Event::Interrupted => sequencer::Input::Interrupted,
                }),
                Some(message) = beats.next() => self.beat_came(&message).await,
                Some(event) = events.recv() => self.link_event(&event),
                _ = beat.tick() => self.beat(false, false).await,
                _ = progress.tick() => self.progress().await,
                () = sleep_until(deadline) => self.tick(),
            }
            self.flush();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let full = (!self.to_local.is_empty()).then(|| Instant::now() + FULL_PAUSE);
        [self.outbox.deadline(), self.sequencer.deadline(), self.presence.deadline(), full]
            .into_iter()
            .flatten()
            .min()
    }

    fn tick(&mut self) {
        self.carry(outbox::Input::Tick);
        self.sequence(sequencer::Input::Tick);
        let mut outputs = Vec::new();
        self.presence.handle(Instant::now(), presence::Input::Tick, &mut outputs);
        self.present(outputs);
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Published(lane, published) => {
                self.carry(outbox::Input::Published(lane, published));
            }
            Done::Acknowledged(stream, confirmed) => {
                self.purge = match self.purge {
                    Purge::None | Purge::Wanted => Purge::Wanted,
                    Purge::Running | Purge::RunningAndWanted => Purge::RunningAndWanted,
                };
                self.sequence(sequencer::Input::Acknowledged(stream, confirmed));
            }
            Done::Info(info) => self.sequence(sequencer::Input::Info(info)),
            Done::Purged(true) if self.purge == Purge::Running => self.purge = Purge::None,
            Done::Purged(_) => self.purge = Purge::Wanted,
        }
    }

    fn link_event(&mut self, event: &Event) {
        match event {
            Event::Connected => {
                self.carry(outbox::Input::Limit(limit(&self.link)));
                self.sequence(sequencer::Input::Interrupted);
                let server = self.link.server().0;
                (self.lines)(&printable(&format!("joined to NATS server {server}")));
            }
            Event::Disconnected => (self.lines)("lost the connection to NATS"),
            other => self.report("NATS", &format!("NATS: {other}")),
        }
    }

    fn report(&mut self, topic: &str, line: &str) {
        if let Some(line) = self.reports.line(Instant::now(), topic, line) {
            (self.lines)(&line);
        }
    }

    /// Sends the local side what it has room for.
    fn flush(&mut self) {
        while let Some(next) = self.to_local.pop_front() {
            // If the local side is gone, its reason comes through the other channel.
            if let Err(crossbeam_channel::TrySendError::Full(next)) = self.local.to.try_send(next) {
                self.to_local.push_front(next);
                return;
            }
        }
    }

    /// Says that this bridge ends, and lets JetStream redeliver at once.
    async fn leave(&mut self) {
        // If the local side is gone, it needs no notice.
        drop(self.local.to.try_send(ToLocal::Stop));
        self.last_beat -= BEAT_MIN;
        self.beat(false, true).await;
        for reply in self.sequencer.unsettled() {
            self.link.note(reply.to_owned(), "-NAK").await;
        }
        // Without the flush, the hosts notice the silence and JetStream waits.
        drop(self.link.client().flush().await);
    }
}

/// From and to the local side.
impl Bridge<'_> {
    fn local_event(&mut self, from: FromLocal) {
        match from {
            FromLocal::Carry(carry) => {
                let lane =
                    Lane { host: Token::of_host(&carry.host), agent: Token::of_agent(&carry.to) };
                if !carry.requires_ack {
                    self.refusals.entry((carry.host.clone(), carry.id.clone())).or_default();
                }
                let carry = outbox::Carry { host: carry.host, id: carry.id, frame: carry.frame };
                self.carry(outbox::Input::Carry(lane, carry));
            }
            FromLocal::Settled { ticket, after } => {
                match after.and_then(|refusal| self.refusals.get_mut(&refusal)) {
                    Some(waiting) => waiting.push(ticket),
                    None => self.settle(ticket),
                }
            }
            FromLocal::Line(line) => {
                let topic: String = line.chars().take(TOPIC_CHARS).collect();
                self.report(&topic, &line);
            }
            FromLocal::Ended(why) => self.end = Some(End::Local(why)),
        }
    }

    fn settle(&mut self, ticket: Ticket) {
        // A ticket of a consumer that was replaced is unknown.
        let Some(stream) = self.tickets.remove(&ticket) else { return };
        let Some(open) = self.open.get_mut(&stream) else { return };
        *open -= 1;
        if *open == 0 {
            self.open.remove(&stream);
            self.sequence(sequencer::Input::Settled(stream));
        }
    }

    fn carry(&mut self, input: outbox::Input) {
        let mut outputs = Vec::new();
        self.outbox.handle(Instant::now(), input, &mut outputs);
        for output in outputs {
            match output {
                outbox::Output::Publish(lane, publish) => {
                    let bytes = self.presence.stream_bytes(&lane.host);
                    let link = self.link.clone();
                    let publish = async move {
                        let published = link.publish(&lane.host, &publish, bytes).await;
                        Done::Published(lane, published)
                    };
                    self.work.push(publish.boxed());
                }
                outbox::Output::Carried { host, id } => {
                    self.carried(host.clone(), id.clone());
                    self.to_local.push_back(ToLocal::Carried(host, id));
                }
                outbox::Output::Refused { host, id, refusal } => {
                    let line = format!("a message to {host} is refused: {}", refusal.message);
                    self.report(&format!("to {host}"), &line);
                    self.carried(host.clone(), id.clone());
                    self.to_local.push_back(ToLocal::Refused(host, id, refusal));
                }
            }
        }
        let congested = self.outbox.bytes() > CONGESTED;
        self.local.congested.store(congested, Ordering::Relaxed);
    }

    fn carried(&mut self, host: Host, id: String) {
        for ticket in self.refusals.remove(&(host, id)).unwrap_or_default() {
            self.settle(ticket);
        }
    }
}

/// From the stream.
impl Bridge<'_> {
    fn sequence(&mut self, input: sequencer::Input<Received>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut outputs = Vec::new();
            self.sequencer.handle(Instant::now(), input, &mut outputs);
            for output in outputs {
                inputs.extend(self.sequenced(output));
            }
        }
    }

    /// Carries out an output of the sequencer. Returns an input that follows from it.
    fn sequenced(
        &mut self,
        output: sequencer::Output<Received>,
    ) -> Option<sequencer::Input<Received>> {
        let link = self.link.clone();
        match output {
            sequencer::Output::Pass(stream, received) => {
                if let Err((host, why)) = self.pass(stream, &received) {
                    let line = format!("a message of {host} is dropped: {why}");
                    self.report(&format!("from {host}"), &line);
                    return Some(sequencer::Input::Settled(stream));
                }
            }
            sequencer::Output::Acknowledge(stream, reply) => {
                let acknowledge = async move {
                    let confirmed = link.acknowledge(reply).await;
                    Done::Acknowledged(stream, confirmed)
                };
                self.work.push(acknowledge.boxed());
            }
            sequencer::Output::AskInfo => {
                let ask = async move { Done::Info(link.info().await.ok()) };
                self.work.push(ask.boxed());
            }
            sequencer::Output::Replaced => {
                self.tickets.clear();
                self.open.clear();
                (self.lines)("the stream or this host's consumer was created anew");
            }
            sequencer::Output::GaveUp(missing) => {
                let line = format!("{missing} messages that NATS counts did not come; going on");
                (self.lines)(&line);
            }
        }
        None
    }

    /// Passes the frames of a message to the local side. The error names the host and the reason.
    fn pass(&mut self, stream: u64, received: &Received) -> Result<(), (String, String)> {
        let Some(sender) = subject::sender(&received.subject, &self.here) else {
            let why = format!("its subject is {:?}", received.subject);
            return Err(("an unknown host".to_owned(), why));
        };
        let host = self.presence.host(&sender).cloned().or_else(|| sender.host());
        let Some(host) = host.filter(|_| sender != self.here) else {
            return Err((sender.to_string(), "it is this host".to_owned()));
        };
        let failed = |why: String| (host.to_string(), why);
        match received.version.as_deref() {
            None => return Err(failed("no bridge has sent it".to_owned())),
            Some(version) if version != VERSION.to_string() => {
                return Err(failed(format!(
                    "it is of version {version:?}, this bridge of version {VERSION}; install the \
                     same release on both"
                )));
            }
            Some(_) => {}
        }
        let frames = batch::frames(&received.batch).map_err(|why| failed(why.to_string()))?;
        self.open.insert(stream, frames.len());
        for frame in frames {
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.tickets.insert(ticket, stream);
            let frame = received.batch.slice_ref(frame);
            self.to_local.push_back(ToLocal::Incoming(host.clone(), frame, ticket));
        }
        Ok(())
    }

    async fn progress(&mut self) {
        if let Some((since, missing)) = self.sequencer.recovering()
            && since.elapsed() > 2 * crate::js::ACK_WAIT
        {
            let line = format!("waiting for {missing} messages that NATS has delivered before");
            self.report("recovery", &line);
        }
        if self.purge == Purge::Wanted {
            self.purge = Purge::Running;
            let link = self.link.clone();
            let purge = async move {
                // If JetStream cannot, it is asked again.
                Done::Purged(link.purge().await.is_ok())
            };
            self.work.push(purge.boxed());
        }
        for reply in self.sequencer.in_progress() {
            self.link.note(reply.to_owned(), "+WPI").await;
        }
    }
}

/// Presence.
impl Bridge<'_> {
    async fn beat_came(&mut self, message: &async_nats::Message) {
        // The subject shows who published; others may have made the server send it here.
        let Some(host) = subject::present(&message.subject) else {
            self.report("presence", "a message that is no beat came as one; ignored");
            return;
        };
        let mut outputs = Vec::new();
        let input = presence::Input::Beat(&host, &message.payload);
        self.presence.handle(Instant::now(), input, &mut outputs);
        let asked = outputs.contains(&presence::Output::Answer);
        self.present(outputs);
        if asked {
            self.beat(false, false).await;
        }
    }

    fn present(&mut self, outputs: Vec<presence::Output>) {
        for output in outputs {
            match output {
                presence::Output::Present(host, names) => {
                    let names = self.settings.imported(&host, names);
                    let list: Vec<_> = names.iter().map(Name::as_str).collect();
                    let list =
                        if list.is_empty() { "no agent".to_owned() } else { list.join(", ") };
                    (self.lines)(&format!("{host} is here: {list}"));
                    self.to_local.push_back(ToLocal::Present(host, names));
                }
                presence::Output::Absent(host) => {
                    (self.lines)(&format!("{host} is gone"));
                    self.to_local.push_back(ToLocal::Absent(host));
                }
                presence::Output::Refused(host, why) => {
                    let line = format!("{host} is refused: {why}");
                    self.report(&format!("beat {host}"), &line);
                }
                presence::Output::Answer => {}
                presence::Output::Taken => self.end = Some(End::Taken),
            }
        }
    }

    async fn beat(&mut self, ask: bool, bye: bool) {
        let now = Instant::now();
        if now.saturating_duration_since(self.last_beat) < BEAT_MIN || !self.link.is_connected() {
            return;
        }
        self.last_beat = now;
        let age = self.presence.age(now);
        let (settings, stream_bytes) = (self.settings, self.stream_bytes);
        let beat = Own { settings, instance: &self.instance, stream_bytes }.beat(age, ask, bye);
        // Without this beat, the next one or the silence counts.
        drop(self.link.client().publish(subject::presence(&self.here), beat).await);
    }
}

/// The source of this bridge's announcements.
struct Own<'a> {
    settings: &'a Settings,
    instance: &'a str,
    stream_bytes: Option<i64>,
}

impl Own<'_> {
    /// A beat as the bytes of a message.
    fn beat(&self, age: Duration, ask: bool, bye: bool) -> bytes::Bytes {
        let beat = Beat {
            version: VERSION,
            host: self.settings.here.to_string(),
            instance: self.instance.to_owned(),
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            exports: self.settings.exports.iter().map(ToString::to_string).collect(),
            stream_bytes: self.stream_bytes,
            ask,
            bye,
        };
        serde_json::to_vec(&beat).expect("a beat is JSON").into()
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
