//! Fairness: for each way in which clients can spend the daemon's time, the counted work of a frame
//! is bounded by its bytes and those of its answer, or is charged to the client that caused it.

use crate::{
    ClientId, Input, Limits, Output, PeerProcess, keys,
    leftovers::LEFTOVERS_AT_ONCE,
    names::EXPIRED_AT_ONCE,
    oracle::{Arrival, Event, QUANTUM, Testbed},
    policy::{Policy, Rule},
    timers::TIMERS_PER_TICK,
    work::{CHECK_WORK, DELIVERY_WORK, FAILURE_WORK, FRAME_WORK, NODE_WORK, ROW_WORK, RULE_WORK},
};
use protocol::{
    Moment, Now,
    client_frame::ClientBatch,
    envelope::{Header, Kind},
    glob::Glob,
    record::QueryResult,
};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The most work for each byte of a frame and of all frames that it causes.
const WORK_PER_BYTE: u64 = 16;

/// The most comparisons and look-ups in a unit of work that is charged.
const STEPS_PER_WORK: f64 = 0.35;

/// The hostile clients.
const HOSTILE: usize = 20;

/// The work of a frame, and its effects.
#[derive(Debug, Default)]
struct Cost {
    /// The work that is charged to the frame's client.
    work: u64,
    /// The comparisons and look-ups, with those of the reports that follow.
    steps: u64,
    /// The bytes of the frame, and of all frames that were written because of it.
    bytes: u64,
}

/// A testbed whose clients read everything and whose store persists everything at once.
struct Stage {
    bed: Testbed,
    ids: u64,
    /// The process of all further connections; if there is none, each has one of its own.
    pid: Option<u32>,
}

impl Stage {
    fn new(limits: &Limits) -> Self {
        let now = Now { monotonic: Moment(1_000), unix_ms: 1_000_000 };
        Self { bed: Testbed::new(limits, [7; 32], now), ids: 0, pid: None }
    }

    /// Adds a client that has joined.
    fn join(&mut self, hello: &Value) -> ClientId {
        let id = self.connect();
        let hello = frame(Kind::Hello, "h", None, None, hello, None);
        self.say(id, &hello);
        id
    }

    fn agent(&mut self, name: &str) -> ClientId {
        self.join(&json!({"agent": name}))
    }

    fn connect(&mut self) -> ClientId {
        let id = self.bed.new_end();
        let pid = self.pid.unwrap_or(1_000 + id.0 as u32);
        self.run(Input::Connected(id, Some(PeerProcess { pid, start: 0 })));
        id
    }

    fn leave(&mut self, id: ClientId) -> Cost {
        self.bed.ends.remove(&id);
        self.cost(Input::Disconnected(id), 0)
    }

    /// Handles a frame at once, past the schedule.
    fn say(&mut self, id: ClientId, json: &[u8]) -> Cost {
        let batch = ClientBatch::of_frame(json);
        self.cost(Input::Frame(id, batch.frame(0)), json.len())
    }

    /// Sends a message without content.
    fn send(&mut self, id: ClientId, to: Option<&str>, topic: Option<&str>) -> Cost {
        let frame = self.message(to, topic, &json!({}));
        self.say(id, &frame)
    }

    /// Sends a message without content, and skips the testbed's checks, for great numbers.
    fn send_quickly(&mut self, id: ClientId, to: &str, topic: &str) {
        let (bed, mut out) = (&mut self.bed, Vec::new());
        let json = frame(Kind::Send, "m", Some(to), Some(topic), &json!({}), None);
        let batch = ClientBatch::of_frame(&json);
        bed.router.handle(bed.now, Input::Frame(id, batch.frame(0)), &mut out);
        while let Some(output) = out.pop() {
            match output {
                Output::Frame(id, frame) => {
                    bed.router.handle(bed.now, Input::Written(id, frame.bytes()), &mut out);
                }
                Output::Persist(change) => {
                    bed.pending.push_back(change);
                    let (_, report) = bed.commit(1, true);
                    bed.router.handle(bed.now, report, &mut out);
                }
                _ => {}
            }
        }
    }

    fn message(&mut self, to: Option<&str>, topic: Option<&str>, meta: &Value) -> Vec<u8> {
        self.ids += 1;
        frame(Kind::Send, &format!("m{}", self.ids), to, topic, &json!({"body": ""}), Some(meta))
    }

    fn cost(&mut self, input: Input<'_>, bytes: usize) -> Cost {
        self.bed.router.take_work();
        let steps = keys::steps();
        let written = self.run(input);
        let work = self.bed.router.take_work();
        Cost { work, steps: keys::steps() - steps, bytes: (bytes + written) as u64 }
    }

    /// Handles an input and the reports that follow. Returns the number of bytes written.
    fn run(&mut self, input: Input<'_>) -> usize {
        let events = self.bed.handle(input).unwrap();
        self.settle(events)
    }

    fn settle(&mut self, events: Vec<Event>) -> usize {
        let (mut events, mut bytes) = (VecDeque::from(events), 0);
        loop {
            match events.pop_front() {
                Some(Event::Frame(id, frame)) => {
                    bytes += frame.len();
                    self.bed.write(id, frame.len());
                    events.extend(self.bed.handle(Input::Written(id, frame.len())).unwrap());
                }
                Some(Event::Other(Output::Query(id, _))) => {
                    let nothing = QueryResult { rows: Vec::new(), more: false };
                    events.extend(self.bed.handle(Input::Found(id, Ok(nothing))).unwrap());
                }
                Some(Event::Other(_)) => {}
                None if self.bed.pending.is_empty() && !self.bed.router.ctx.journal.has_ready() => {
                    return bytes;
                }
                None if self.bed.pending.is_empty() => {
                    events.extend(self.bed.handle(Input::Tick).unwrap());
                }
                None => {
                    let (_, report) = self.bed.commit(self.bed.pending.len(), true);
                    events.extend(self.bed.handle(report).unwrap());
                }
            }
        }
    }
}

fn frame(
    kind: Kind,
    id: &str,
    to: Option<&str>,
    topic: Option<&str>,
    payload: &Value,
    meta: Option<&Value>,
) -> Vec<u8> {
    let (payload, meta) = (payload.to_string(), meta.map(Value::to_string));
    let mut members = vec![("payload", payload.as_str())];
    members.extend(meta.as_deref().map(|meta| ("payload_meta", meta)));
    let mut bytes = Vec::new();
    Header { to, topic, ..Header::new(kind, id, 1) }.append_raw(&mut bytes, members);
    bytes.split_off(4)
}

fn request(body: &str, data: &Value) -> Vec<u8> {
    let payload = json!({"kind": "request", "body": body, "data": data});
    frame(Kind::Send, "q", Some("@relay"), None, &payload, None)
}

fn resume(streams: &Value) -> Vec<u8> {
    frame(Kind::Resume, "r", None, None, &json!({"streams": streams}), None)
}

/// Checks that the work of a frame is bounded by its bytes and those that it causes.
#[track_caller]
fn check_bounded(cost: &Cost) {
    assert!(cost.work <= WORK_PER_BYTE * cost.bytes, "{cost:?}");
    check_charged(cost);
}

/// Checks that everything that was looked up for a frame is charged to its client.
#[track_caller]
fn check_charged(cost: &Cost) {
    assert!(cost.steps as f64 <= STEPS_PER_WORK * cost.work as f64, "{cost:?}");
}

/// Checks that a RESUME costs its bytes, those that it causes, and a look at the replay buffer.
#[track_caller]
fn check_resume(cost: &Cost) {
    let most =
        WORK_PER_BYTE * cost.bytes + NODE_WORK * Limits::default().replay_messages_max as u64;
    assert!(cost.work <= most, "{cost:?}");
    check_charged(cost);
}

/// Checks that the end of a connection, which no frame pays for, costs little.
#[track_caller]
fn check_departure(cost: &Cost) {
    assert!(cost.steps < 1_000, "{cost:?}");
}

/// Checks that an innocent pair is served while 20 clients send these frames, and that nobody waits
/// longer than for the quanta of the others.
#[track_caller]
fn check_innocent(stage: &mut Stage, hostile: &[ClientId], frames: &[Vec<u8>]) {
    const ROUND_TRIPS: u64 = 12;
    let innocent = stage.agent("Innocent");
    stage.agent("Friend");
    for frame in frames {
        for id in hostile {
            arrive(stage, *id, frame);
        }
    }
    let (mut own, mut others, mut largest) = (0, 0, 0);
    for _ in 0..ROUND_TRIPS {
        let frame = stage.message(Some("Friend"), None, &json!({}));
        arrive(stage, innocent, &frame);
        loop {
            let (id, _) =
                stage.bed.next_arrival().unwrap().expect("the innocent client's frame waits");
            let before = stage.bed.router.ctx.work;
            let events = stage.bed.serve().unwrap().unwrap();
            let work = stage.bed.router.ctx.work - before;
            stage.settle(events);
            if id == innocent {
                own += work;
                break;
            }
            others += work;
            largest = largest.max(work);
        }
    }
    let rounds = own.div_ceil(QUANTUM as u64) + 1;
    let most = HOSTILE as u64 * (rounds * QUANTUM as u64 + largest);
    assert!(others <= most, "{others} of others' work before {own}, a frame up to {largest}");
}

fn arrive(stage: &mut Stage, id: ClientId, frame: &[u8]) {
    let events = stage.bed.arrive(id, Arrival::Frame(frame.into())).unwrap();
    stage.settle(events);
}

fn hostile(stage: &mut Stage) -> Vec<ClientId> {
    (0..HOSTILE).map(|at| stage.agent(&format!("Hostile{at}"))).collect()
}

#[test]
fn floods_on_topics_among_25600_patterns() {
    let mut stage = Stage::new(&Limits::default());
    for agent in 0..100 {
        let id = stage.agent(&format!("A{agent}"));
        for of in 0..256 {
            let pattern = match of % 4 {
                0 => format!("t{agent}.*.{of}"),
                1 => format!("*.{of}.t{agent}"),
                2 => format!("*.*.{of}.t{agent}.>"),
                _ => format!("all.{of}.>"),
            };
            stage.say(id, &frame(Kind::Subscribe, "s", None, Some(&pattern), &json!({}), None));
        }
    }
    let hostile = hostile(&mut stage);
    for topic in ["elsewhere", "t1.x.4", "a.b.c.d.e.f.g.h", "all.3.x"] {
        let cost = stage.send(hostile[0], None, Some(topic));
        check_bounded(&cost);
    }
    let missed = stage.send(hostile[0], None, Some("a.b.c.d"));
    assert!(missed.work <= 2 * FRAME_WORK + 16 * NODE_WORK, "{missed:?}");
    let frames: Vec<_> = (0..3).map(|_| stage.message(None, Some("all.3.x"), &json!({}))).collect();
    check_innocent(&mut stage, &hostile, &frames);
}

#[test]
fn requests_and_unknown_names_among_3900_names() {
    let mut stage = Stage::new(&Limits::default());
    for agent in 0..3_900 {
        stage.agent(&format!("A{agent}"));
    }
    let hostile = hostile(&mut stage);
    let unknown = stage.message(Some("Nobody"), None, &json!({}));
    let frames = [
        unknown,
        request("status", &json!({})),
        request("agents", &json!({})),
        request("agents", &json!({"cursor": "A2", "limit": 1})),
        request("message", &json!({"id": "00000000"})),
        request("inbox", &json!({"of": "Hostile0"})),
        request("tap", &json!({})),
    ];
    for frame in &frames {
        check_bounded(&stage.say(hostile[0], frame));
    }
    check_innocent(&mut stage, &hostile, &frames);
}

/// Each HELLO that finds no room searches the names of its process, and may forget some with their
/// mail.
#[test]
fn newcomers_of_a_process_that_holds_half_of_the_names_by_its_own_mail() {
    let mut stage = Stage::new(&Limits::default());
    stage.pid = Some(7);
    let hello = |name: String| frame(Kind::Hello, "h", None, None, &json!({"agent": name}), None);
    for number in 0..2_048 {
        let name = format!("A{number}");
        let id = stage.agent(&name);
        let own = stage.message(Some(&name), None, &json!({"requires_ack": true}));
        stage.say(id, &own);
        stage.say(id, &frame(Kind::Bye, "b", None, None, &json!({}), None));
        stage.leave(id);
    }
    for number in 0..100 {
        let id = stage.connect();
        check_charged(&stage.say(id, &hello(format!("B{number}"))));
    }
    assert!(stage.bed.router.directory.len() <= 2_048);
}

#[test]
fn inbox_of_10000_messages() {
    let mut stage = Stage::new(&Limits { window_bytes: 0, ..Limits::default() });
    let hostile = hostile(&mut stage);
    let hello = json!({"agent": "Full", "capabilities": {"ack": true}});
    let full = stage.join(&hello);
    stage.leave(full);
    for at in 0..10_000 {
        let frame = stage.message(Some("Full"), None, &json!({"requires_ack": true}));
        stage.say(hostile[at % 2], &frame);
    }
    let full = stage.join(&hello);
    let frames = [
        request("inbox", &json!({"limit": 1})),
        request("inbox", &json!({})),
        request("agents", &json!({"limit": 1})),
        request("message", &json!({"id": "00000000"})),
    ];
    for frame in &frames {
        check_bounded(&stage.say(full, frame));
    }
    check_departure(&stage.leave(full));
    check_innocent(&mut stage, &hostile, &frames);
}

#[test]
fn resumes_and_reconnects_of_a_listener_to_64000_streams() {
    let mut stage = Stage::new(&Limits { streams_max: 1 << 18, ..Limits::default() });
    let hello = json!({"agent": "Listener", "capabilities": {"ack": true, "resume": true}});
    let mut listener = stage.join(&hello);
    let hostile = hostile(&mut stage);
    for at in 0..64_000 {
        let topic = format!("t{at}");
        stage.send_quickly(hostile[at % HOSTILE], "Listener", &topic);
    }
    let named = json!([{"topic": "t63999", "peer": "Hostile19", "last_seq": 0}]);
    check_bounded(&stage.say(listener, &resume(&json!([]))));
    check_resume(&stage.say(listener, &resume(&named)));
    for topics in [json!({}), json!({"t1": {"last_seq": 0}}), json!({"t63999": {"last_seq": 0}})] {
        let cost = stage.say(listener, &resume(&topics));
        assert!(cost.work >= 64_000 * NODE_WORK, "{cost:?}");
        check_charged(&cost);
    }
    for _ in 0..2 {
        check_departure(&stage.leave(listener));
        listener = stage.connect();
        let cost = stage.say(listener, &frame(Kind::Hello, "h", None, None, &hello, None));
        check_bounded(&cost);
    }
    let frames = [resume(&json!({"t1": {"last_seq": 1}})), resume(&json!([]))];
    check_innocent(&mut stage, &hostile, &frames);
}

#[test]
fn first_resumes_without_a_good_token_have_unread_streams() {
    let mut stage = Stage::new(&Limits::default());
    let position = json!({"topic": "", "peer": "Peer", "last_seq": 1});
    for token in ["", "made up"] {
        let resume = json!({"resume_token": token, "streams": vec![position.clone(); 9_000]});
        let newcomer = stage.connect();
        let frame = frame(Kind::Resume, "r", None, None, &resume, None);
        let cost = stage.say(newcomer, &frame);
        assert!(cost.work < 2 * frame.len() as u64, "{cost:?}");
        assert!(cost.steps < 100, "{cost:?}");
    }
}

#[test]
fn resumes_that_replay_1000_messages() {
    let mut stage = Stage::new(&Limits::default());
    let hello = json!({"agent": "Listener", "capabilities": {"ack": true, "resume": true}});
    let listener = stage.join(&hello);
    let hostile = hostile(&mut stage);
    for _ in 0..1_000 {
        stage.send(hostile[0], Some("Listener"), None);
    }
    for last_seq in [0, 999, 1_000] {
        let frame = resume(&json!([{"topic": "", "peer": "Hostile0", "last_seq": last_seq}]));
        check_resume(&stage.say(listener, &frame));
    }
}

#[test]
fn reconnects_with_1000_deliveries_in_flight() {
    let mut stage = Stage::new(&Limits::default());
    let capabilities = json!({"ack": true, "max_inflight": 1_000});
    let hello = json!({"agent": "Listener", "capabilities": capabilities});
    let mut listener = stage.join(&hello);
    let sender = stage.agent("Sender");
    for _ in 0..1_000 {
        let frame = stage.message(Some("Listener"), None, &json!({"requires_ack": true}));
        stage.say(sender, &frame);
    }
    let mut owed = Cost::default();
    for _ in 0..2 {
        let left = stage.leave(listener);
        listener = stage.connect();
        let joined = stage.say(listener, &frame(Kind::Hello, "h", None, None, &hello, None));
        // Deliveries that are repeated after this frame are paid for with the next one.
        let next = stage.say(listener, &frame(Kind::Pong, "p", None, None, &json!({}), None));
        let steps = left.steps + joined.steps + next.steps;
        owed = Cost { work: joined.work + next.work, steps, bytes: joined.bytes + next.bytes };
        check_bounded(&owed);
    }
    assert!(owed.work > 1_000 * DELIVERY_WORK, "{owed:?}");
}

/// Fills the queue of Reader, which joins and reads nothing. Returns its connection, and the number
/// of messages in the queue.
fn fill_queue(stage: &mut Stage) -> (ClientId, u64) {
    let (sender, reader) = (stage.agent("Sender"), stage.agent("Reader"));
    for _ in 0..2_000 {
        let frame = stage.message(Some("Reader"), None, &json!({"padding": "x".repeat(200)}));
        let (bed, mut out) = (&mut stage.bed, Vec::new());
        let batch = ClientBatch::of_frame(&frame);
        // What is written is not reported, as if the reader read nothing.
        bed.router.handle(bed.now, Input::Frame(sender, batch.frame(0)), &mut out);
        bed.pending.extend(out.into_iter().filter_map(|output| match output {
            Output::Persist(change) => Some(change),
            _ => None,
        }));
    }
    let waiting = stage.bed.router.mail.messages() as u64;
    assert!(waiting > 500, "{waiting}");
    (reader, waiting)
}

/// Ticks until nothing is due, and has an innocent pair exchange a message before each tick. Checks
/// that no tick ends more than `most` messages. Returns the costs of the ticks.
#[track_caller]
fn tick_amid_innocent(stage: &mut Stage, most: usize) -> Cost {
    let (innocent, mut all) = (stage.agent("Innocent"), Cost::default());
    stage.agent("Friend");
    while stage.bed.router.deadline().is_some_and(|due| due <= stage.bed.now.monotonic.plus(1)) {
        let (delivered, mail) =
            (stage.bed.router.ctx.counts.delivered, stage.bed.router.mail.messages());
        stage.send(innocent, Some("Friend"), None);
        assert_eq!(stage.bed.router.ctx.counts.delivered, delivered + 1);
        assert_eq!(stage.bed.router.mail.messages(), mail);
        stage.bed.advance(1);
        let Cost { work, steps, bytes } = stage.cost(Input::Tick, 0);
        all = Cost { work: all.work + work, steps: all.steps + steps, bytes: all.bytes + bytes };
        assert!(mail - stage.bed.router.mail.messages() <= most);
    }
    all
}

#[test]
fn messages_for_a_client_that_leaves_end_in_portions_at_its_cost() {
    let mut stage = Stage::new(&Limits::default());
    let (reader, waiting) = fill_queue(&mut stage);
    let mut left = stage.leave(reader);
    let rest = stage.bed.router.mail.messages();
    assert_eq!(rest as u64, waiting - LEFTOVERS_AT_ONCE as u64);
    let ended = tick_amid_innocent(&mut stage, LEFTOVERS_AT_ONCE);
    assert_eq!((stage.bed.router.mail.messages(), ended.work), (0, 0));
    assert!(left.work >= waiting * DELIVERY_WORK, "{left:?} for {waiting}");
    left.steps += ended.steps;
    check_charged(&left);
}

#[test]
fn client_that_is_back_gets_no_message_from_before_and_all_new_ones() {
    let mut stage = Stage::new(&Limits::default());
    let (reader, _) = fill_queue(&mut stage);
    stage.leave(reader);
    let sender = stage.agent("Other");
    stage.agent("Reader");
    let (sent, delivered) = (stage.ids, stage.bed.router.ctx.counts.delivered);
    stage.send(sender, Some("Reader"), None);
    assert!(stage.bed.router.mail.messages() > 1, "it waits behind messages from before");
    tick_amid_innocent(&mut stage, LEFTOVERS_AT_ONCE + 1);
    assert_eq!(stage.bed.router.mail.messages(), 0);
    assert_eq!(stage.bed.router.ctx.counts.delivered - delivered, stage.ids - sent);
}

#[test]
fn mail_of_a_name_that_is_forgotten_ends_in_portions() {
    const MANY: usize = 1_000;
    let limits = Limits { mailbox_days: 1, ttl_ms: u64::MAX, ..Limits::default() };
    let mut stage = Stage::new(&limits);
    let absent = stage.join(&json!({"agent": "Absent", "capabilities": {"ack": true}}));
    stage.leave(absent);
    let sender = stage.agent("Sender");
    for _ in 0..MANY {
        let frame = stage.message(Some("Absent"), None, &json!({"requires_ack": true}));
        stage.say(sender, &frame);
    }
    stage.leave(sender);
    assert_eq!(stage.bed.router.mail.messages(), MANY);
    stage.bed.advance(86_400_000);
    tick_amid_innocent(&mut stage, EXPIRED_AT_ONCE);
    assert_eq!(stage.bed.router.mail.messages(), 0);
    assert!(stage.bed.router.directory.find("Absent").is_none());
}

#[test]
fn at_least_once_floods_that_expire_at_once() {
    const MANY: u64 = 2_000;
    let mut stage = Stage::new(&Limits::default());
    let absent = stage.join(&json!({"agent": "Absent", "capabilities": {"ack": true}}));
    stage.leave(absent);
    let hostile = hostile(&mut stage);
    let meta = json!({"requires_ack": true, "ttl_ms": 1});
    let mut spent = 0;
    for _ in 0..MANY {
        let frame = stage.message(Some("Absent"), None, &meta);
        let cost = stage.say(hostile[0], &frame);
        check_bounded(&cost);
        spent += cost.work;
    }
    stage.bed.advance(2);
    let (mut ticks, mut steps, mut bytes) = (0, 0, 0);
    while stage.bed.router.deadline().is_some_and(|due| due <= stage.bed.now.monotonic) {
        let ticked = stage.cost(Input::Tick, 0);
        assert_eq!(ticked.work, 0, "the sender pays with its next frame");
        (ticks, steps, bytes) = (ticks + 1, steps + ticked.steps, bytes + ticked.bytes);
    }
    assert_eq!(ticks, MANY.div_ceil(TIMERS_PER_TICK as u64), "frames are handled in between");
    check_charged(&Cost { work: spent, steps, bytes });
    let next = stage.message(Some("Absent"), None, &meta);
    let owed = stage.say(hostile[0], &next).work;
    assert!(owed > MANY * FAILURE_WORK, "{owed}");
    let frames: Vec<_> = (0..3).map(|_| stage.message(Some("Absent"), None, &meta)).collect();
    check_innocent(&mut stage, &hostile, &frames);
}

#[test]
fn broadcasts_to_busy_recipients_under_1000_rules() {
    const RECIPIENTS: u64 = 200;
    let mut stage = Stage::new(&Limits { queue_messages_max: 2, ..Limits::default() });
    let hostile = hostile(&mut stage);
    for at in 0..RECIPIENTS {
        let full = stage.agent(&format!("Full{at}"));
        stage.bed.handle(Input::Written(full, 0)).unwrap();
    }
    for (from, compared) in [("Other*", 0), ("Hostile*", RECIPIENTS + HOSTILE as u64 - 1)] {
        let rule = |line| Rule {
            from: Glob::name(from).unwrap(),
            to: Glob::name("Somebody*").unwrap(),
            topic: Glob::any(),
            allow: false,
            line,
        };
        let rules = (1..=1_000).map(rule).collect();
        stage.run(Input::Policy(Policy { rules, ..Policy::default() }.into()));
        // Nobody reads, so that all queues are full after the first broadcast.
        let mut broadcast = || {
            let frame = stage.message(Some("*"), None, &json!({}));
            let batch = ClientBatch::of_frame(&frame);
            let steps = keys::steps();
            stage.bed.router.take_work();
            stage.bed.handle(Input::Frame(hostile[0], batch.frame(0))).unwrap();
            (stage.bed.router.take_work(), keys::steps() - steps)
        };
        broadcast();
        let (work, steps) = broadcast();
        let rules = 1_000 * (1 + compared) * RULE_WORK;
        let checks = (RECIPIENTS + HOSTILE as u64) * CHECK_WORK;
        assert!((rules..rules + checks + 2 * FRAME_WORK).contains(&work), "{work} for {rules}");
        check_charged(&Cost { work: work - rules, steps, bytes: 0 });
    }
    let frames: Vec<_> = (0..3).map(|_| stage.message(Some("*"), None, &json!({}))).collect();
    check_innocent(&mut stage, &hostile, &frames);
}

#[test]
fn memory_that_is_short_among_3000_replay_buffers() {
    let mut stage = Stage::new(&Limits::default());
    for at in 0..3_000 {
        stage.join(&json!({"agent": format!("A{at}"), "capabilities": {"resume": true}}));
    }
    let hostile = hostile(&mut stage);
    for _ in 0..2 {
        stage.send(hostile[0], Some("*"), None);
    }
    let held = stage.bed.router.ctx.memory.held();
    stage.run(Input::Outside(Limits::default().memory_bytes_max - held));
    check_bounded(&stage.send(hostile[0], Some("A1"), None));
    let frames: Vec<_> = (0..3).map(|_| stage.message(Some("A1"), None, &json!({}))).collect();
    check_innocent(&mut stage, &hostile, &frames);
}

#[test]
fn answers_of_the_store_are_charged_to_who_asked() {
    let mut stage = Stage::new(&Limits::default());
    let (asker, other) = (stage.agent("Asker"), stage.agent("Other"));
    let usual = [asker, other].map(|id| stage.send(id, Some("Nobody"), None).work);
    for body in ["message", "status"] {
        let batch = ClientBatch::of_frame(&request(body, &json!({"id": "00000000"})));
        stage.bed.handle(Input::Frame(asker, batch.frame(0))).unwrap();
    }
    stage.bed.router.take_work();
    stage.run(Input::Found(asker, Ok(QueryResult { rows: Vec::new(), more: false })));
    assert_eq!(stage.bed.router.take_work(), 0);
    assert_eq!(stage.send(other, Some("Nobody"), None).work, usual[1]);
    assert!(stage.send(asker, Some("Nobody"), None).work >= usual[0] + ROW_WORK);
    assert_eq!(stage.send(asker, Some("Nobody"), None).work, usual[0]);
}
