//! Tests of what is published, and in which order.

use super::*;
use agent_relay::protocol::name::Name;

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
        Self { now: Instant::now(), outbox: Outbox::new(token("desk"), LIMIT) }
    }

    fn handle(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.outbox.handle(self.now, input, &mut outputs);
        outputs
    }

    fn carry(&mut self, agent: &str, id: &str, frame: &[u8]) -> Vec<Output> {
        let carry = Carry { host: host("Pi"), id: id.to_owned(), frame: frame.to_vec() };
        self.handle(Input::Carry(lane(agent), carry))
    }

    fn published(&mut self, agent: &str, published: Published) -> Vec<Output> {
        self.handle(Input::Published(lane(agent), published))
    }

    fn tick(&mut self) -> Vec<Output> {
        self.now = self.outbox.deadline().unwrap();
        self.handle(Input::Tick)
    }
}

fn publish(outputs: &[Output]) -> Arc<Publish> {
    match outputs {
        [.., Output::Publish(_, publish)] => Arc::clone(publish),
        other => panic!("{other:?}"),
    }
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

    let outputs = world.published("Bob", Published::Stored);
    assert_eq!(outputs[0], carried("1"));
    let second = publish(&outputs);
    assert_eq!(batch::frames(&second.batch).unwrap(), [&b"two"[..], b"three"]);
    assert_eq!(world.published("Bob", Published::Stored), [carried("2"), carried("3")]);
    assert_eq!(world.outbox.deadline(), None);
}

#[test]
fn unknown_outcome_is_repeated_before_anything_else_of_the_lane() {
    let mut world = World::new();
    let first = publish(&world.carry("Bob", "1", b"one"));
    world.carry("Bob", "2", b"two");
    for _ in 0..8 {
        assert_eq!(world.published("Bob", Published::Unknown), []);
        assert_eq!(world.carry("Bob", "3", b"three"), []);
        assert_eq!(publish(&world.tick()), first);
    }
    let outputs = world.published("Bob", Published::Stored);
    assert_eq!(outputs[0], carried("1"));
    assert_ne!(publish(&outputs).id, first.id);
}

#[test]
fn pause_of_repetitions_is_bounded() {
    let mut world = World::new();
    world.carry("Bob", "1", b"one");
    let mut last = world.now;
    for _ in 0..10 {
        world.published("Bob", Published::Unknown);
        world.tick();
        assert!(world.now - last <= PAUSE_MAX);
        last = world.now;
    }
}

#[test]
fn batch_of_other_frames_has_another_id() {
    let id = |ids: &[&str]| {
        let mut world = World::new();
        let mut last = publish(&world.carry("Bob", "0", b""));
        for id in ids {
            world.carry("Bob", id, b"");
        }
        if !ids.is_empty() {
            last = publish(&world.published("Bob", Published::Stored));
        }
        last.id.clone()
    };
    let all = [id(&[]), id(&["1"]), id(&["1", "2"]), id(&["12"]), id(&["1", "2", "3"])];
    for (index, one) in all.iter().enumerate() {
        assert!(!all[..index].contains(one), "{all:?}");
    }
    assert_eq!(id(&["1", "2"]), all[2]);
}

#[test]
fn frame_larger_than_nats_carries_is_refused_with_the_limit() {
    let mut world = World::new();
    let frame = vec![0; LIMIT.bytes];
    let outputs = world.carry("Bob", "1", &frame);
    let [Output::Refused { refusal, .. }] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(refusal.kind, RefusalKind::TooLarge);
    assert!(refusal.message.contains("max_payload is 1048576"), "{}", refusal.message);
    let room = LIMIT.bytes - HEADER_ROOM - batch::size_of(b"");
    publish(&world.carry("Bob", "2", &frame[..room]));
}

#[test]
fn batch_stays_within_a_small_limit_of_nats() {
    let mut world = World::new();
    world.handle(Input::Limit(Limit { name: "max_msg_size", bytes: HEADER_ROOM + 100 }));
    world.carry("Bob", "0", b"");
    for id in 1..10 {
        world.carry("Bob", &id.to_string(), &[0; 40]);
    }
    let second = publish(&world.published("Bob", Published::Stored));
    assert_eq!(batch::frames(&second.batch).unwrap().len(), 2);
}

#[test]
fn refused_batch_frees_its_lane() {
    let mut world = World::new();
    world.carry("Bob", "1", b"one");
    world.carry("Bob", "2", b"two");
    let refusal = Refusal { kind: RefusalKind::Full, message: "full".to_owned() };
    let outputs = world.published("Bob", Published::Refused(refusal.clone()));
    let refused = Output::Refused { host: host("Pi"), id: "1".to_owned(), refusal };
    assert_eq!(outputs[0], refused);
    publish(&outputs);
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
