//! Tests of the outbox.

use super::*;
use bytes::Bytes;
use protocol::name::{Host, Name};

/// The time to live of the messages.
const LIVES: Duration = Duration::from_secs(60);

const LIMIT: Limit = Limit { name: "max_payload", bytes: 1024 * 1024 };

fn host(name: &str) -> Host {
    Host::parse(name).unwrap()
}

fn token(name: &str) -> Token {
    Token::of_host(&host(name))
}

fn lane(agent: &str) -> Lane {
    Lane { host: token("pi"), agent: Token::of_agent(&Name::parse(agent).unwrap()) }
}

struct World {
    now: Instant,
    outbox: Outbox,
}

impl World {
    fn new() -> Self {
        Self { now: Instant::now(), outbox: Outbox::new(token("desk"), 7, LIMIT) }
    }

    fn handle(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.outbox.handle(self.now, input, &mut outputs);
        outputs
    }

    fn carry(&mut self, agent: &str, id: &str, frame: &[u8]) -> Vec<Output> {
        self.carry_any(agent, id, frame, true)
    }

    fn carry_any(&mut self, agent: &str, id: &str, frame: &[u8], is_message: bool) -> Vec<Output> {
        let (host, id, frame) = (host("Pi"), id.to_owned(), Bytes::copy_from_slice(frame));
        self.handle(Input::Carry(
            lane(agent),
            Carry { host, id, is_message, is_repeated: true, time_to_live: LIVES, frame },
        ))
    }

    fn published(&mut self, agent: &str, published: Published) -> Vec<Output> {
        self.handle(Input::Published(lane(agent), published))
    }

    fn confirmed(&mut self, id: &str) -> Vec<Output> {
        self.handle(Input::Confirmed(token("pi"), id.to_owned()))
    }

    fn tick(&mut self) -> Vec<Output> {
        self.now = self.outbox.deadline().unwrap();
        self.handle(Input::Tick)
    }

    /// Lets time pass until something is published.
    fn again(&mut self) -> Arc<Publish> {
        loop {
            let outputs = self.tick();
            if !outputs.is_empty() {
                return publish(&outputs);
            }
        }
    }
}

fn publish(outputs: &[Output]) -> Arc<Publish> {
    match outputs {
        [.., Output::Publish(_, publish)] => Arc::clone(publish),
        other => panic!("{other:?}"),
    }
}

/// The base of a batch, and its frames with their numbers.
fn read(publish: &Publish) -> (u64, Vec<(u64, String)>) {
    let batch = batch::read(publish.batch.clone()).unwrap();
    assert_eq!(batch.instance, 7);
    let text = |frame: Bytes| String::from_utf8(frame.to_vec()).unwrap();
    (batch.base, batch.frames.into_iter().map(|(number, frame)| (number, text(frame))).collect())
}

fn frames(frames: &[(u64, &str)]) -> Vec<(u64, String)> {
    frames.iter().map(|(number, frame)| (*number, (*frame).to_owned())).collect()
}

fn carried(id: &str) -> Output {
    Output::Carried { host: host("Pi"), id: id.to_owned() }
}

#[test]
fn frames_of_a_lane_wait_for_its_publish_and_share_the_next() {
    let mut world = World::new();
    let first = publish(&world.carry("Bob", "1", b"one"));
    assert_eq!(first.subject, "relay.pi.desk.bob");
    assert_eq!(world.carry("Bob", "2", b"two"), []);
    assert_eq!(world.carry("bob", "3", b"three"), []);
    assert_eq!(publish(&world.carry("Carl", "4", b"four")).subject, "relay.pi.desk.carl");

    let second = publish(&world.published("Bob", Published::Stored));
    assert_eq!(read(&second), (1, frames(&[(2, "two"), (3, "three")])));
    assert_ne!(first.id, second.id);
}

#[test]
fn frame_is_published_until_it_is_confirmed() {
    let mut world = World::new();
    let first = publish(&world.carry("Bob", "1", b"one"));
    world.carry("Bob", "2", b"two");
    world.published("Bob", Published::Stored);
    world.published("Bob", Published::Stored);
    let began = world.now;
    assert_eq!(world.confirmed("1"), [carried("1")]);
    assert_eq!(world.confirmed("1"), []);
    let again = world.again();
    assert!(world.now - began >= RESEND);
    assert_eq!(read(&again), (2, frames(&[(2, "two")])));
    assert_ne!(again.id, first.id, "NATS would take it for the first");
    world.published("Bob", Published::Stored);
    assert_eq!(world.confirmed("2"), [carried("2")]);
    assert_eq!(world.outbox.deadline(), None);
}

#[test]
fn refused_message_and_known_message_are_not_published_again() {
    let mut world = World::new();
    world.carry("Bob", "1", b"one");
    assert_eq!(world.carry("Bob", "1", b"one"), []);
    world.published("Bob", Published::Stored);
    assert_eq!(world.handle(Input::Refused(token("pi"), "1".to_owned())), []);
    assert_eq!(world.outbox.deadline(), None);
    assert_eq!(read(&publish(&world.carry("Bob", "1", b"one"))).1, frames(&[(2, "one")]));
}

#[test]
fn restarted_bridge_gets_all_that_is_not_confirmed_at_once() {
    let mut world = World::new();
    for (id, frame) in [("1", "one"), ("2", "two"), ("3", "three")] {
        world.carry("Bob", id, frame.as_bytes());
        world.published("Bob", Published::Stored);
    }
    world.confirmed("2");
    world.handle(Input::Restarted(token("lab")));
    // The bridge would wait for the number of the confirmed message.
    let again = publish(&world.handle(Input::Restarted(token("pi"))));
    assert_eq!(read(&again), (4, frames(&[(4, "one"), (5, "three")])));
    world.published("Bob", Published::Stored);
    assert_eq!(world.confirmed("3"), [carried("3")]);
    assert_eq!(world.confirmed("1"), [carried("1")]);
}

#[test]
fn answers_and_at_most_once_messages_in_flight_keep_their_numbers() {
    let mut world = World::new();
    world.carry_any("Bob", "answer", b"answer", false);
    world.published("Bob", Published::Stored);
    let (host, id, frame) = (host("Pi"), "once".to_owned(), Bytes::from("once"));
    let time_to_live = LIVES;
    let once = Carry { host, id, is_message: true, is_repeated: false, time_to_live, frame };
    world.handle(Input::Carry(lane("Bob"), once));
    world.carry("Bob", "1", b"one");
    // The at-most-once message is in flight.
    assert_eq!(world.handle(Input::Restarted(token("pi"))), []);
    let again = publish(&world.published("Bob", Published::Stored));
    assert_eq!(read(&again), (1, frames(&[(1, "answer"), (4, "one")])));
}

#[test]
fn messages_to_an_absent_host_are_forgotten_and_answers_are_not() {
    let mut world = World::new();
    world.carry_any("Bob", "1", b"one", true);
    world.published("Bob", Published::Stored);
    world.carry_any("Bob", "2", b"two", false);
    world.published("Bob", Published::Stored);
    world.handle(Input::Absent(token("pi")));
    assert_eq!(read(&world.again()), (2, frames(&[(2, "two")])));
    let began = world.now;
    while let Some(deadline) = world.outbox.deadline() {
        world.now = deadline;
        world.handle(Input::Tick);
        world.published("Bob", Published::Stored);
    }
    assert!(world.now - began >= REPLY_MAX - 2 * RESEND);
}

#[test]
fn unknown_outcome_is_repeated_before_anything_else_of_the_lane() {
    let mut world = World::new();
    let first = publish(&world.carry("Bob", "1", b"one"));
    world.carry("Bob", "2", b"two");
    for _ in 0..8 {
        assert_eq!(world.published("Bob", Published::Unknown), []);
        assert_eq!(world.carry("Bob", "3", b"three"), []);
        assert_eq!(world.again(), first);
    }
    assert_ne!(publish(&world.published("Bob", Published::Stored)).id, first.id);
}

#[test]
fn publish_with_all_frames_confirmed_is_not_repeated() {
    let mut world = World::new();
    world.carry("Bob", "1", b"one");
    world.carry("Bob", "2", b"two");
    world.published("Bob", Published::Unknown);
    let outputs = world.confirmed("1");
    assert_eq!(outputs[0], carried("1"));
    assert_eq!(read(&publish(&outputs)).1, frames(&[(2, "two")]));
}

#[test]
fn pause_of_repetitions_is_bounded() {
    let mut world = World::new();
    world.carry("Bob", "1", b"one");
    let mut last = world.now;
    for _ in 0..10 {
        world.published("Bob", Published::Unknown);
        world.again();
        assert!(world.now - last <= PAUSE_MAX);
        last = world.now;
    }
}

#[test]
fn host_without_a_stream_has_its_messages_refused_after_a_while() {
    let mut world = World::new();
    let began = world.now;
    world.carry("Bob", "1", b"one");
    world.carry("Bob", "2", b"two");
    let outputs = loop {
        let outputs = world.published("Bob", Published::NoStream);
        if !outputs.is_empty() {
            break outputs;
        }
        world.again();
    };
    assert!(world.now - began >= STREAM_MAX);
    let [Output::Refused { id: one, refusal, .. }, Output::Refused { id: two, .. }] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!((one.as_str(), two.as_str()), ("1", "2"));
    assert!(refusal.message.contains("no stream RELAY_pi for Pi"), "{}", refusal.message);
    publish(&world.carry("Bob", "3", b"three"));
}

#[test]
fn frame_larger_than_nats_carries_is_refused_with_the_limit() {
    let mut world = World::new();
    let frame = vec![0; LIMIT.bytes];
    let outputs = world.carry("Bob", "1", &frame);
    let [Output::Refused { refusal, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(refusal.kind, RefusalKind::TooLarge);
    assert!(refusal.message.contains("max_payload is 1048576"), "{}", refusal.message);
    let longest = LIMIT.bytes - HEADER_ROOM - batch::one(b"");
    publish(&world.carry("Bob", "2", &frame[..longest]));
    let outputs = world.carry("Bob", "3", &frame[..=longest]);
    let [Output::Refused { refusal, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    let sizes =
        format!("has {} bytes with its header, and NATS carries at most {longest}", longest + 1);
    assert!(refusal.message.contains(&sizes), "{}", refusal.message);
}

#[test]
fn batch_stays_within_a_small_limit_of_nats() {
    let mut world = World::new();
    world.handle(Input::Limit(Limit { name: "max_msg_size", bytes: HEADER_ROOM + 130 }));
    world.carry("Bob", "0", b"");
    for id in 1..10 {
        world.carry("Bob", &id.to_string(), &[b'x'; 40]);
    }
    let second = publish(&world.published("Bob", Published::Stored));
    assert_eq!(read(&second).1.len(), 2);
}

#[test]
fn smaller_limit_of_another_server_refuses_large_frames_and_divides_batches() {
    let mut world = World::new();
    world.carry("Bob", "0", b"");
    world.carry("Bob", "1", &[b'x'; 500]);
    for id in 2..6 {
        world.carry("Bob", &id.to_string(), &[b'x'; 80]);
    }
    assert_eq!(read(&publish(&world.published("Bob", Published::Stored))).1.len(), 5);
    world.confirmed("0");
    let small = Limit { name: "max_payload", bytes: HEADER_ROOM + 250 };
    let outputs = world.handle(Input::Limit(small));
    let [Output::Refused { id, refusal, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((id.as_str(), refusal.kind), ("1", RefusalKind::TooLarge));
    // The server refuses the batch in its own way.
    world.published("Bob", Published::Unknown);
    assert_eq!(read(&world.again()).1.len(), 2);
}

#[test]
fn message_that_may_have_arrived_is_not_refused() {
    let mut world = World::new();
    world.carry("Bob", "1", b"one");
    world.published("Bob", Published::Stored);
    world.again();
    let refusal = Refusal { kind: RefusalKind::Full, message: "full".to_owned() };
    assert_eq!(world.published("Bob", Published::Refused(refusal)), []);
    world.again();
    for _ in 0..60 {
        assert_eq!(world.published("Bob", Published::NoStream), []);
        world.again();
    }
    assert_eq!(world.confirmed("1"), [carried("1")]);
}

#[test]
fn message_with_unanswered_publish_is_not_refused() {
    let mut world = World::new();
    world.carry("Bob", "1", b"one");
    world.published("Bob", Published::NotSent);
    world.again();
    let refusal = Refusal { kind: RefusalKind::Full, message: "full".to_owned() };
    let outputs = world.published("Bob", Published::Refused(refusal.clone()));
    assert!(matches!(outputs[..], [Output::Refused { .. }]), "{outputs:?}");
    world.carry("Bob", "2", b"two");
    world.published("Bob", Published::Unknown);
    world.again();
    assert_eq!(world.published("Bob", Published::Refused(refusal)), []);
}

#[test]
fn message_that_is_sent_at_most_once_is_not_published_again() {
    let mut world = World::new();
    let (host, id, frame) = (host("Pi"), "1".to_owned(), Bytes::from("one"));
    let time_to_live = LIVES;
    let carry = Carry { host, id, is_message: true, is_repeated: false, time_to_live, frame };
    publish(&world.handle(Input::Carry(lane("Bob"), carry)));
    assert_eq!(world.published("Bob", Published::Stored), [carried("1")]);
    assert_eq!(world.outbox.deadline(), None);
}

#[test]
fn answers_and_refusals_to_a_host_are_bounded_and_lanes_are_forgotten() {
    let mut world = World::new();
    for index in 0..2 * REPLIES_MAX {
        let (agent, id) = (format!("a{index}"), index.to_string());
        world.carry_any(&agent, &id, b"no", false);
        world.published(&agent, Published::Stored);
    }
    assert_eq!(world.outbox.queues.len(), REPLIES_MAX);
    for index in 0..REPLIES_MAX {
        world.confirmed(&index.to_string());
    }
    assert_eq!(world.outbox.queues.len(), 0);
    let next = REPLIES_MAX as u64 + 1;
    let again = publish(&world.carry("a0", "x", b"x"));
    assert_eq!(read(&again), (next, frames(&[(next, "x")])));
}

#[test]
fn publish_waits_for_room_in_a_full_stream() {
    let mut world = World::new();
    let first = publish(&world.carry("Bob", "1", b"one"));
    world.carry("Bob", "2", b"two");
    let began = world.now;
    while world.now - began < LIVES / 2 {
        assert_eq!(world.published("Bob", Published::Full("full".to_owned())), []);
        assert_eq!(world.again(), first);
    }
    let second = publish(&world.published("Bob", Published::Stored));
    assert_eq!(read(&second).1, frames(&[(2, "two")]));
}

#[test]
fn message_is_refused_once_its_time_passed_in_front_of_a_full_stream() {
    let mut world = World::new();
    world.carry("Bob", "1", b"one");
    world.published("Bob", Published::NotSent);
    world.carry_any("Bob", "2", b"two", false);
    world.now += LIVES / 2;
    world.carry("Bob", "3", b"three");
    world.now += LIVES / 2;
    let outputs = world.published("Bob", Published::Full("it is full".to_owned()));
    let message = "it is full, and stayed so for the message's time to live".to_owned();
    let refusal = Refusal { kind: RefusalKind::Full, message };
    assert_eq!(outputs[0], Output::Refused { host: host("Pi"), id: "1".to_owned(), refusal });
    assert_eq!(read(&publish(&outputs)).1, frames(&[(2, "two"), (3, "three")]));
}

#[test]
fn flood_is_refused_and_other_lanes_are_not() {
    let mut world = World::new();
    let frame = vec![0; 1024 * 1024 - 1024];
    let refused = (0..300).find_map(|id| match world.carry("Bob", &id.to_string(), &frame).pop() {
        Some(Output::Refused { refusal, .. }) => Some(refusal),
        _ => None,
    });
    assert_eq!(refused.unwrap().kind, RefusalKind::Full);
    publish(&world.carry("Carl", "c", &frame));
}
