//! A bridge between NATS and its local side: the loop around the state machines.

mod hosts;
mod start;

use crate::{
    batch,
    js::{self, ConsumerInfo},
    link::{Link, RequestError, Server, StreamSettings},
    local::{FromLocal, Local, ToLocal},
    outbox::{self, Lane, Limit, Outbox, Published},
    presence::{self, BEAT, Presence, VERSION},
    pull::{self, Received},
    reports::{Reports, printable},
    subject::{self, Token},
};
use async_nats::{Event, Message, Subscriber};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use machines::{border, exports::Exported, report::Reporter, selector::Selector, topics::Topics};
use protocol::name::{Host, Name};
use serde::{Deserialize, Serialize};
pub use start::{Started, connect, start, taken};
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, time};

/// The notifications that wait for room in the channel to the local side; while there are more,
/// nothing is received.
const WAITING_MAX: usize = 64;

/// The pause before a full channel to the local side is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// The number of characters at the beginning of a line that make lines of the local side similar.
const TOPIC_CHARS: usize = 24;

/// The shortest time between two beats.
const BEAT_MIN: Duration = Duration::from_millis(100);

/// The longest time that an ending bridge takes to announce its end.
const LEAVE: Duration = Duration::from_millis(500);

/// The interval of removals of acknowledged messages from the stream.
const PURGE: Duration = Duration::from_secs(1);

/// The number of these intervals before the removal is repeated in any case. A server that was
/// killed may have forgotten it, and the removal also shows whether the stream exists.
const PURGES: u64 = 10;

/// The divisor of a sending host's share: the stream is emptied after each such part of it.
const PURGED_PARTS: i64 = 4;

/// The deliveries that wait for the loop.
const DELIVERIES_MAX: usize = 128;

/// The number of the local side's requests that are handled before their confirmations are sent.
const REQUESTS_MAX: usize = 64;

/// How long a confirmation waits for others, so that they share a message.
const CONFIRM_AFTER: Duration = Duration::from_millis(5);

/// The number of confirmations that do not wait: a part of an agent's window.
const CONFIRM_NOW: usize = 16;

/// The ids in a message of confirmations at most.
const CONFIRMED_MAX: usize = 256;

/// The largest message of confirmations that is read, in bytes.
const CONFIRMATIONS_BYTES_MAX: usize = 64 * 1024;

/// The likely cause of a message that NATS itself has sent: any host may name the subject of the
/// server's answer.
const DEPUTY: &str = "a host may have made the NATS server send it";

/// The settings of a bridge.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This host.
    pub here: Host,
    /// The agents of other hosts that may be reached from here, each with its host. All if empty.
    pub imports: Vec<(Selector, Host)>,
    /// The messages to several recipients that cross, in both directions.
    pub topics: Topics,
}

impl Settings {
    /// The agents of a host that may be reached from here.
    pub(crate) fn imported(&self, host: &Host, mut names: Vec<Name>) -> Vec<Name> {
        let imports = self.imports.iter().filter(|(_, of)| of == host);
        names.retain(|name| match name {
            all if all.is_all() => !self.topics.is_empty(),
            _ if self.imports.is_empty() => true,
            name => imports.clone().any(|(it, _)| it.selects(name)),
        });
        names
    }
}

/// Why a bridge has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The bridge was stopped.
    Stopped,
    /// Another bridge of this host was started earlier.
    Taken,
    /// The local side has ended, for this reason.
    Local(String),
}

/// The end of something that the loop has started.
#[derive(Debug)]
enum Done {
    Published(Lane, Published),
    /// The removal has ended. Until it began, the consumer was in this state.
    Purged(Result<ConsumerInfo, RequestError>),
    /// The stream and the consumer were created, or could not be.
    Created(Result<(), RequestError>),
}

/// The ids of handled frames. They are sent by core NATS, since a frame comes again if its
/// confirmation is lost.
#[derive(Debug, Serialize, Deserialize)]
struct Confirmations {
    version: u32,
    ids: Vec<String>,
}

/// The removal of acknowledged messages.
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
    instance: u64,
    link: Link,
    stream_bytes: Option<i64>,
    stream: StreamSettings,
    local: Local,
    lines: &'a dyn Fn(&str),
    reporter: &'a Reporter,
    /// The agents that this host exports.
    exported: Exported,
    reports: Reports,
    presence: Presence,
    outbox: Outbox,
    /// The ids that are to be confirmed, by host, and when.
    confirmations: BTreeMap<Token, Vec<String>>,
    confirm_at: Option<Instant>,
    to_local: VecDeque<ToLocal>,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    last_beat: Instant,
    purge: Purge,
    /// The messages that came since the last removal began.
    unpurged: i64,
    /// The number of them that starts the next removal at once.
    purge_after: i64,
    /// The periods since the start.
    periods: u64,
    /// The numbers of the hosts' presences, to recognize frames for an earlier presence.
    presences: BTreeMap<Token, u64>,
    last_presence: u64,
    end: Option<End>,
}

/// Runs a bridge until `stop` is ready or it cannot continue. `lines` prints a line for a person.
pub async fn run(
    settings: &Settings,
    started: Started,
    local: Local,
    (lines, reporter): (&dyn Fn(&str), &Reporter),
    stop: impl Future<Output = ()>,
) -> End {
    let Started {
        link,
        mut events,
        mut subscribers,
        instance,
        presence,
        answers,
        stream_bytes,
        stream,
        exported,
    } = started;
    let now = Instant::now();
    let here = Token::of_host(&settings.here);
    let limit = limit(&link);
    let mut bridge = Bridge {
        settings,
        here: here.clone(),
        instance,
        link: link.clone(),
        stream_bytes,
        stream,
        local,
        lines,
        reporter,
        exported,
        reports: Reports::default(),
        presence,
        outbox: Outbox::new(here.clone(), instance, limit),
        confirmations: BTreeMap::new(),
        confirm_at: None,
        to_local: VecDeque::new(),
        work: FuturesUnordered::new(),
        last_beat: now,
        // An earlier bridge may have left acknowledged messages.
        purge: Purge::Wanted,
        unpurged: 0,
        purge_after: i64::MAX,
        periods: 0,
        presences: BTreeMap::new(),
        last_presence: 0,
        end: None,
    };
    bridge.linked();
    bridge.present(answers);
    let (deliveries_sender, mut deliveries) = mpsc::channel(DELIVERIES_MAX);
    let pull = tokio::spawn(pull::run(link, here, deliveries_sender));
    bridge.events(&mut subscribers, &mut events, &mut deliveries, stop).await;
    pull.abort();
    drop(time::timeout(LEAVE, bridge.leave()).await);
    bridge.end.unwrap_or(End::Stopped)
}

/// The subscriptions of a bridge, in addition to the stream's.
#[derive(Debug)]
struct Subscribers {
    beats: Subscriber,
    confirmations: Subscriber,
}

/// The greatest size of a message that the server accepts.
fn limit(link: &Link) -> Limit {
    Limit { name: "max_payload", bytes: link.server().max_payload }
}

/// Whether a server of this version may stop to deliver messages after it was killed.
fn is_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (2, 10))
}

impl Bridge<'_> {
    async fn events(
        &mut self,
        Subscribers { beats, confirmations }: &mut Subscribers,
        events: &mut mpsc::Receiver<Event>,
        deliveries: &mut mpsc::Receiver<Received>,
        stop: impl Future<Output = ()>,
    ) {
        let mut beat = time::interval(BEAT);
        let mut purge = time::interval(PURGE);
        let mut requests = Vec::new();
        tokio::pin!(stop);
        while self.end.is_none() {
            let deadline = self.deadline();
            let has_room = self.to_local.len() < WAITING_MAX;
            tokio::select! {
                () = &mut stop => self.end = Some(End::Stopped),
                Some(done) = self.work.next() => self.done(done),
                count = self.local.from.recv_many(&mut requests, REQUESTS_MAX) => match count {
                    0 => self.end = Some(End::Local("the local side has ended".to_owned())),
                    _ => requests.drain(..).for_each(|request| self.local_event(request)),
                },
                Some(received) = deliveries.recv(), if has_room => self.received(&received),
                Some(message) = confirmations.next(), if has_room => self.confirmed(&message),
                Some(message) = beats.next(), if has_room => self.beat_came(&message),
                Some(event) = events.recv() => self.link_event(&event),
                _ = beat.tick() => self.period(),
                _ = purge.tick() => self.purge_in_time(),
                () = sleep_until(deadline) => self.tick(),
            }
            if self.confirm_at.is_some_and(|at| at <= Instant::now()) {
                self.confirm();
            }
            self.flush();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let full = (!self.to_local.is_empty()).then(|| Instant::now() + FULL_PAUSE);
        let deadlines = [self.outbox.deadline(), self.presence.deadline(), self.confirm_at, full];
        deadlines.into_iter().flatten().min()
    }

    fn tick(&mut self) {
        self.carry(outbox::Input::Tick);
        let mut outputs = Vec::new();
        self.presence.handle(Instant::now(), presence::Input::Tick, &mut outputs);
        self.present(outputs);
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Published(lane, published) => {
                if let Published::Full(why) = &published {
                    let host = &lane.host;
                    let line = format!("messages to {host} wait for room: {why}");
                    self.report(&format!("full {host}"), &line);
                }
                self.carry(outbox::Input::Published(lane, published));
            }
            Done::Purged(Ok(consumer)) => {
                let is_done = self.purge == Purge::Running && consumer.num_ack_pending == 0;
                self.purge = if is_done { Purge::None } else { Purge::Wanted };
                self.stream = consumer.stream(self.stream);
                self.stream_bytes = consumer.config.stream_bytes().or(self.stream_bytes);
                self.purge_much();
            }
            Done::Purged(Err(error)) => {
                self.purge = Purge::Wanted;
                if error.is_not_found() {
                    self.report("stream", "NATS has lost this host's stream; creating it");
                    let (link, stream) = (self.link.clone(), self.stream);
                    let create = async move { link.find_or_create(stream).await.map(drop) };
                    self.work.push(create.map(Done::Created).boxed());
                }
            }
            Done::Created(Ok(())) => self.say("created", "the stream is there again"),
            Done::Created(Err(error)) => {
                let here = &self.settings.here;
                let line = format!(
                    "the stream cannot be created: {error}; run `agent-relay-nats setup --host {here}`"
                );
                self.report("create", &line);
            }
        }
    }

    fn link_event(&mut self, event: &Event) {
        match event {
            Event::Connected => {
                self.carry(outbox::Input::Limit(limit(&self.link)));
                let Server { name, version, .. } = self.link.server();
                (self.lines)(&printable(&format!("joined to NATS server {name}")));
                self.linked();
                if is_old(&version) {
                    self.report(
                        "version",
                        &format!("{name} has version {version}; use 2.10 or newer"),
                    );
                }
            }
            Event::Disconnected => {
                let why = "lost the connection to NATS";
                (self.lines)(why);
                self.reporter.update(move |report| report.lost(why));
            }
            other => self.report("NATS", &format!("NATS: {other}")),
        }
    }

    /// Reports that there is a connection, unless it is lost already.
    fn linked(&self) {
        if self.link.is_connected() {
            let server = printable(&self.link.server().name);
            self.reporter.update(move |report| report.linked(Some(server)));
        }
    }

    /// Says that something is wrong.
    fn report(&mut self, topic: &str, line: &str) {
        if let Some(line) = self.reports.line(Instant::now(), topic, line) {
            (self.lines)(&line);
            self.reporter.update(move |report| report.failed(&line));
        }
    }

    fn say(&mut self, topic: &str, line: &str) {
        if let Some(line) = self.reports.line(Instant::now(), topic, line) {
            (self.lines)(&line);
        }
    }

    /// Sends the local side as much as it has room for.
    fn flush(&mut self) {
        while let Some(next) = self.to_local.pop_front() {
            // If the local side has ended, the reason comes through the other channel.
            if let Err(crossbeam_channel::TrySendError::Full(next)) = self.local.to.try_send(next) {
                self.to_local.push_front(next);
                return;
            }
        }
    }

    /// Says that this bridge ends.
    async fn leave(&mut self) {
        // If the local side is gone, it needs no notice.
        drop(self.local.to.try_send(ToLocal::Stop));
        self.confirm();
        self.last_beat -= BEAT_MIN;
        self.beat(false, true);
        // If the flush fails, the hosts notice the silence.
        drop(self.link.client().flush().await);
    }
}

/// From and to the local side.
impl Bridge<'_> {
    fn local_event(&mut self, from: FromLocal) {
        match from {
            FromLocal::Carry(carry, presence) => {
                let lane =
                    Lane { host: Token::of_host(&carry.host), agent: Token::of_agent(&carry.to) };
                let border::Carry { host, id, is_message, requires_ack, ttl_ms, frame, .. } = carry;
                if is_message && self.presences.get(&lane.host) != Some(&presence) {
                    // The daemon has it for the host's next presence.
                    return;
                }
                let (is_repeated, frame) = (requires_ack || !is_message, frame.into());
                let time_to_live = Duration::from_millis(ttl_ms);
                let carry =
                    outbox::Carry { host, id, is_message, is_repeated, time_to_live, frame };
                self.carry(outbox::Input::Carry(lane, carry));
            }
            FromLocal::Confirm(host, id) => {
                let ids = self.confirmations.entry(Token::of_host(&host)).or_default();
                ids.push(id);
                let now = Instant::now();
                let at = if ids.len() < CONFIRM_NOW { now + CONFIRM_AFTER } else { now };
                self.confirm_at = Some(self.confirm_at.map_or(at, |known| known.min(at)));
            }
            FromLocal::Refused(host, id) => {
                self.carry(outbox::Input::Refused(Token::of_host(&host), id));
            }
            FromLocal::Line(line) => {
                let topic: String = line.chars().take(TOPIC_CHARS).collect();
                self.report(&topic, &line);
            }
            FromLocal::Exported(exported) => self.exports_changed(*exported),
            FromLocal::Ended(why) => self.end = Some(End::Local(why)),
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
                    self.to_local.push_back(ToLocal::Carried(host, id));
                }
                outbox::Output::Refused { host, id, refusal } => {
                    let line = format!("a message to {host} is refused: {}", refusal.message);
                    self.report(&format!("to {host}"), &line);
                    self.to_local.push_back(ToLocal::Refused(host, id, refusal));
                }
            }
        }
    }
}

/// From other hosts.
impl Bridge<'_> {
    /// Acknowledges a message of the stream, and passes it to the local side. If it gets lost here,
    /// its sender publishes it again.
    fn received(&mut self, received: &Received) {
        self.link.publish_now(received.reply.clone(), "+ACK".into());
        self.purge = match self.purge {
            Purge::None | Purge::Wanted => Purge::Wanted,
            Purge::Running | Purge::RunningAndWanted => Purge::RunningAndWanted,
        };
        self.unpurged += 1;
        self.purge_much();
        if let Err((host, why)) = self.pass(received) {
            let line = format!("a message in the name of {host} is dropped: {why}");
            self.report(&format!("from {host}"), &line);
        }
    }

    /// Passes a batch to the local side. The error names the host and the reason.
    fn pass(&mut self, received: &Received) -> Result<(), (String, String)> {
        let Some((sender, agent)) = subject::sender(&received.subject, &self.here) else {
            let why = format!("its subject is {:?}", received.subject);
            return Err(("an unknown host".to_owned(), why));
        };
        let failed = |why: String| (sender.to_string(), why);
        match received.version.as_deref() {
            None => return Err(failed(format!("no bridge has sent it; {DEPUTY}"))),
            Some(version) if version != VERSION.to_string() => {
                return Err(failed(format!(
                    "it is of version {version:?}, this bridge of version {VERSION}; install the \
                     same release on both"
                )));
            }
            Some(_) => {}
        }
        let batch = batch::read(received.batch.clone()).map_err(|why| failed(why.to_string()))?;
        // Messages from another instance, or from an absent host, come again when it is here.
        if self.presence.is_instance(&sender, batch.instance)
            && let Some(host) = self.presence.host(&sender)
        {
            self.to_local.push_back(ToLocal::Incoming(host.clone(), agent, batch));
        }
        Ok(())
    }

    /// Handles another host's confirmations.
    fn confirmed(&mut self, message: &Message) {
        let Some(host) = subject::confirmer(&message.subject, &self.here) else { return };
        let is_short = message.payload.len() <= CONFIRMATIONS_BYTES_MAX;
        match serde_json::from_slice(&message.payload) {
            Ok(Confirmations { version: VERSION, ids }) if is_short => {
                for id in ids {
                    self.carry(outbox::Input::Confirmed(host.clone(), id));
                }
            }
            _ => self.report(
                &format!("confirmed {host}"),
                &format!("{host} confirms nothing that is readable"),
            ),
        }
    }

    /// Confirms the frames that the local side has handled.
    fn confirm(&mut self) {
        self.confirm_at = None;
        for (host, ids) in std::mem::take(&mut self.confirmations) {
            for ids in ids.chunks(CONFIRMED_MAX) {
                let confirmations = Confirmations { version: VERSION, ids: ids.to_vec() };
                let bytes = serde_json::to_vec(&confirmations).expect("ids are JSON");
                let subject = subject::confirmations(&host, self.here.as_str());
                self.link.publish_now(subject, bytes.into());
            }
        }
    }

    /// Removes acknowledged messages from the stream at intervals.
    fn purge_in_time(&mut self) {
        self.periods += 1;
        let is_due = self.purge == Purge::None && self.periods.is_multiple_of(PURGES);
        if self.purge == Purge::Wanted || is_due {
            self.purge();
        }
    }

    /// Removes acknowledged messages from the stream before a sending host has used up its share.
    fn purge_much(&mut self) {
        if self.purge == Purge::Wanted && self.unpurged >= self.purge_after {
            self.purge();
        }
    }

    fn purge(&mut self) {
        (self.purge, self.unpurged) = (Purge::Running, 0);
        let share = js::share(self.stream.bytes, self.link.server().max_payload);
        self.purge_after = share / PURGED_PARTS;
        let link = self.link.clone();
        // If JetStream cannot, or has not all acknowledgements yet, it is asked again.
        let purge = async move { Done::Purged(link.purge().await) };
        self.work.push(purge.boxed());
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_recognized() {
        for (version, old) in [("2.9.10", true), ("1.4", true), ("2.10.27", false), ("x", false)] {
            assert_eq!(is_old(version), old, "{version}");
        }
    }
}
