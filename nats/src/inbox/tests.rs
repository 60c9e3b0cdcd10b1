//! Tests of the inbox, alone and with an outbox.

use super::*;
use crate::outbox::{Carry, Input, Lane as To, Limit, Outbox, Output, Published};
use proptest::prelude::*;
use protocol::name::{Host, Name};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

fn bob() -> Token {
    Token::of_agent(&Name::parse("Bob").unwrap())
}

fn batch(instance: u64, base: u64, frames: &[(u64, &str)]) -> Batch {
    let frames = frames.iter().map(|(number, frame)| (*number, Bytes::from(frame.to_string())));
    Batch { instance, base, frames: frames.collect() }
}

/// The frames that are passed on; a frame with a number that was passed before has a `+`.
fn arrived(inbox: &mut Inbox, batch: Batch) -> String {
    let text = |it: &Arrived| {
        let again = if it.again { "+" } else { "" };
        format!("{}{again}", str::from_utf8(&it.frame).unwrap())
    };
    inbox.arrived(&bob(), batch).iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn frames_are_passed_in_the_order_of_their_numbers() {
    let mut inbox = Inbox::default();
    assert_eq!(arrived(&mut inbox, batch(1, 5, &[(5, "a"), (7, "c"), (8, "d")])), "a");
    assert_eq!(arrived(&mut inbox, batch(1, 5, &[(5, "a"), (8, "d")])), "a+");
    assert_eq!(arrived(&mut inbox, batch(1, 6, &[(6, "b")])), "b c d");
}

#[test]
fn number_that_is_not_sent_any_more_is_not_waited_for() {
    let mut inbox = Inbox::default();
    assert_eq!(arrived(&mut inbox, batch(1, 1, &[(1, "a"), (3, "c"), (6, "f")])), "a");
    assert_eq!(arrived(&mut inbox, batch(1, 5, &[(5, "e")])), "e f");
    assert_eq!(arrived(&mut inbox, batch(1, 9, &[(9, "i")])), "i");
    assert_eq!(arrived(&mut inbox, batch(1, 9, &[(12, "l")])), "");
    assert_eq!(arrived(&mut inbox, batch(1, 12, &[(13, "m")])), "l m");
}

#[test]
fn late_frame_that_is_not_sent_any_more_is_dropped() {
    let mut inbox = Inbox::default();
    // The sender counted this host as absent, and carries `a`, `b` and `c` again.
    assert_eq!(arrived(&mut inbox, batch(1, 4, &[(4, "a")])), "a");
    assert_eq!(arrived(&mut inbox, batch(1, 1, &[(3, "c")])), "");
    assert_eq!(arrived(&mut inbox, batch(1, 4, &[(5, "b"), (6, "c")])), "b c");
}

#[test]
fn new_instance_starts_over() {
    let mut inbox = Inbox::default();
    assert_eq!(arrived(&mut inbox, batch(1, 1, &[(1, "a"), (3, "c")])), "a");
    assert_eq!(arrived(&mut inbox, batch(2, 1, &[(1, "a"), (2, "b")])), "a b");
    inbox.settled(&bob(), 1);
}

#[test]
fn lanes_and_their_waiting_frames_are_bounded() {
    let mut inbox = Inbox::default();
    let mut number = 1;
    let mut more = |inbox: &mut Inbox, size: usize| {
        number += 1;
        let frame = "x".repeat(size);
        inbox.arrived(&bob(), batch(1, 1, &[(number - 1, &frame)])).len()
    };
    let passed = (0..2 * FRAMES_MAX).map(|_| more(&mut inbox, 10)).sum::<usize>();
    assert_eq!(passed, FRAMES_MAX);
    inbox.settled(&bob(), 10);
    let next = FRAMES_MAX as u64 + 1;
    assert_eq!(inbox.arrived(&bob(), batch(1, 1, &[(next, "x")])).len(), 1);

    let large = "x".repeat(BYTES_MAX + 1);
    let ann = Token::of_agent(&Name::parse("Ann").unwrap());
    assert_eq!(inbox.arrived(&ann, batch(1, 1, &[(1, &large), (2, "x")])).len(), 1);
    for index in 2..LANES_MAX {
        let agent = Token::of_agent(&Name::parse(&format!("a{index}")).unwrap());
        assert_eq!(inbox.arrived(&agent, batch(1, 1, &[(1, "x")])).len(), 1);
    }
    let other = Token::of_agent(&Name::parse("other").unwrap());
    assert!(inbox.arrived(&other, batch(1, 1, &[(1, "x")])).is_empty());
}

/// An event for the oldest publish or confirmation in flight, or for a bridge.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    Deliver(usize),
    Lose(usize),
    Repeat(usize),
    LoseAnswer,
    Accept,
    Confirm,
    LoseConfirmation,
    RestartSender,
    RestartReceiver,
    AbsentForSender,
    AbsentForReceiver,
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Send),
        8 => (0..4_usize).prop_map(Step::Deliver),
        2 => (0..4_usize).prop_map(Step::Lose),
        2 => (0..4_usize).prop_map(Step::Repeat),
        2 => Just(Step::LoseAnswer),
        8 => Just(Step::Accept),
        8 => Just(Step::Confirm),
        2 => Just(Step::LoseConfirmation),
        1 => Just(Step::RestartSender),
        1 => Just(Step::RestartReceiver),
        1 => Just(Step::AbsentForSender),
        1 => Just(Step::AbsentForReceiver),
        4 => Just(Step::Wait),
    ]
}

/// A sender's daemon and bridge, a broker that may misbehave, a receiver's bridge and daemon.
struct World {
    now: Instant,
    outbox: Outbox,
    instance: u64,
    /// The messages that the sender's daemon has, and their number so far.
    unconfirmed: VecDeque<u64>,
    sent: u64,
    /// The batches in flight to the receiver.
    batches: Vec<Bytes>,
    inbox: Inbox,
    passed: VecDeque<u64>,
    confirmations: VecDeque<u64>,
    accepted: Vec<u64>,
}

impl World {
    fn new() -> Self {
        Self {
            now: Instant::now(),
            outbox: Self::outbox(1),
            instance: 1,
            unconfirmed: VecDeque::new(),
            sent: 0,
            batches: Vec::new(),
            inbox: Inbox::default(),
            passed: VecDeque::new(),
            confirmations: VecDeque::new(),
            accepted: Vec::new(),
        }
    }

    fn outbox(instance: u64) -> Outbox {
        let limit = Limit { name: "max_payload", bytes: 1 << 20 };
        Outbox::new(Token::received("desk").unwrap(), instance, limit)
    }

    fn lane() -> To {
        To { host: Token::received("pi").unwrap(), agent: bob() }
    }

    fn handle(&mut self, input: Input, is_answered: bool) {
        let mut outputs = Vec::new();
        self.outbox.handle(self.now, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Publish(lane, publish) => {
                    self.batches.push(publish.batch.clone());
                    let published = match is_answered {
                        true => Published::Stored,
                        false => Published::Unknown,
                    };
                    self.handle(Input::Published(lane, published), is_answered);
                }
                Output::Carried { id, .. } => {
                    let id: u64 = id.parse().unwrap();
                    self.unconfirmed.retain(|unconfirmed| *unconfirmed != id);
                }
                Output::Refused { .. } => panic!("{output:?}"),
            }
        }
    }

    fn carry(&mut self, id: u64) {
        let (host, id) = (Host::parse("pi").unwrap(), id.to_string());
        let (frame, time_to_live) = (Bytes::from(id.clone()), Duration::MAX);
        let carry = Carry { host, id, is_message: true, is_repeated: true, time_to_live, frame };
        self.handle(Input::Carry(Self::lane(), carry), true);
    }

    fn deliver(&mut self, bytes: Bytes) {
        let batch = crate::batch::read(bytes).unwrap();
        if batch.instance != self.instance {
            return;
        }
        for Arrived { frame, .. } in self.inbox.arrived(&bob(), batch) {
            let id: u64 = str::from_utf8(&frame).unwrap().parse().unwrap();
            if self.passed.contains(&id) {
                self.inbox.settled(&bob(), frame.len());
            } else {
                self.passed.push_back(id);
            }
        }
    }

    fn deliver_all(&mut self) {
        for bytes in std::mem::take(&mut self.batches) {
            self.deliver(bytes);
        }
    }

    fn accept(&mut self) {
        let Some(id) = self.passed.pop_front() else { return };
        self.inbox.settled(&bob(), id.to_string().len());
        // The daemon recognizes messages that it has accepted.
        if !self.accepted.contains(&id) {
            self.accepted.push(id);
        }
        self.confirmations.push_back(id);
    }

    fn confirm(&mut self) {
        if let Some(id) = self.confirmations.pop_front() {
            let confirmed = Input::Confirmed(Self::lane().host, id.to_string());
            self.handle(confirmed, true);
        }
    }

    fn restart_sender(&mut self) {
        self.instance += 1;
        self.outbox = Self::outbox(self.instance);
        self.carry_again();
    }

    /// The sender's daemon delivers unconfirmed messages to a client that joins again.
    fn carry_again(&mut self) {
        for id in self.unconfirmed.clone() {
            self.carry(id);
        }
    }

    fn step(&mut self, step: Step) {
        let at = |index: usize, count: usize| (count > 0).then(|| index % count);
        match step {
            Step::Send => {
                self.sent += 1;
                self.unconfirmed.push_back(self.sent);
                self.carry(self.sent);
            }
            Step::Deliver(index) => {
                if let Some(index) = at(index, self.batches.len()) {
                    let bytes = self.batches.remove(index);
                    self.deliver(bytes);
                }
            }
            Step::Lose(index) => {
                at(index, self.batches.len()).map(|index| self.batches.remove(index));
            }
            Step::Repeat(index) => {
                let copy = at(index, self.batches.len()).map(|index| self.batches[index].clone());
                self.batches.extend(copy);
            }
            Step::LoseAnswer => {
                self.now += Duration::from_secs(1);
                self.handle(Input::Tick, false);
            }
            Step::Accept => self.accept(),
            Step::Confirm => self.confirm(),
            Step::LoseConfirmation => drop(self.confirmations.pop_front()),
            Step::RestartSender => self.restart_sender(),
            Step::RestartReceiver => {
                self.step(Step::AbsentForReceiver);
                self.handle(Input::Restarted(Self::lane().host), true);
            }
            Step::AbsentForSender => {
                self.handle(Input::Absent(Self::lane().host), true);
                self.carry_again();
            }
            Step::AbsentForReceiver => {
                (self.inbox, self.passed) = (Inbox::default(), VecDeque::new());
            }
            Step::Wait => {
                self.now += Duration::from_secs(3);
                self.handle(Input::Tick, true);
            }
        }
    }

    /// Lets everything arrive.
    fn finish(&mut self) {
        for _ in 0..100 {
            self.deliver_all();
            while !self.passed.is_empty() {
                self.accept();
            }
            while !self.confirmations.is_empty() {
                self.confirm();
            }
            self.step(Step::Wait);
        }
    }
}

#[test]
fn bridge_that_lost_its_place_does_not_wait_for_confirmed_messages() {
    check_lost_place(&[Step::RestartReceiver]);
    check_lost_place(&[Step::AbsentForReceiver, Step::Wait, Step::Wait]);
}

fn check_lost_place(steps: &[Step]) {
    let mut world = World::new();
    (0..6).for_each(|_| world.step(Step::Send));
    world.deliver_all();
    for id in [2, 3, 5] {
        world.handle(Input::Confirmed(World::lane().host, id.to_string()), true);
    }
    steps.iter().for_each(|step| world.step(*step));
    world.deliver_all();
    assert_eq!(world.passed, [1, 4, 6], "{steps:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn messages_arrive_in_order_despite_losses_and_repetitions(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            prop_assert!(world.accepted.is_sorted(), "{:?}", world.accepted);
        }
        world.finish();
        prop_assert_eq!(&world.accepted, &(1..=world.sent).collect::<Vec<_>>());
        prop_assert!(world.unconfirmed.is_empty(), "{:?}", world.unconfirmed);
    }
}

#[test]
fn host_that_fills_many_lanes_has_one_frame_in_each_further_one() {
    let mut inbox = Inbox::default();
    let text = "x".repeat(BYTES_MAX / 2);
    let frames = [(1, text.as_str()), (2, &text)];
    let arrived = |inbox: &mut Inbox, lane: usize| {
        let agent = Token::of_agent(&Name::parse(&format!("a{lane}")).unwrap());
        inbox.arrived(&agent, batch(1, 1, &frames)).len()
    };
    let most = HOST_BYTES_MAX / BYTES_MAX;
    assert!((0..most).all(|lane| arrived(&mut inbox, lane) == 2));
    assert_eq!(arrived(&mut inbox, most), 1);
    let (lane, bytes) = (Token::of_agent(&Name::parse("a0").unwrap()), text.len());
    (0..2).for_each(|_| inbox.settled(&lane, bytes));
    (0..2).for_each(|_| inbox.settled(&Token::of_agent(&Name::parse("a1").unwrap()), bytes));
    assert_eq!(arrived(&mut inbox, most + 1), 2);
}
