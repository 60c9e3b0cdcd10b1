//! Tests of the order of deliveries.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

/// The state of a durable consumer.
#[derive(Clone, Debug, Default)]
struct State {
    dseq: u64,
    sseq: u64,
    pending: BTreeSet<u64>,
    acknowledged: BTreeSet<u64>,
}

/// A consumer as JetStream has it: a leader whose followers lag, and deliveries that get lost.
#[derive(Debug, Default)]
struct Server {
    /// The sequences of the consumer's messages.
    messages: Vec<u64>,
    leader: State,
    /// States that a new leader may have.
    past: VecDeque<State>,
    on_way: VecDeque<(u64, u64)>,
}

const WINDOW: usize = 8;
const LAG: usize = 6;

impl Server {
    fn remember(&mut self) {
        self.past.push_back(self.leader.clone());
        if self.past.len() > LAG {
            self.past.pop_front();
        }
    }

    fn deliver(&mut self) {
        let next = self.messages.iter().copied().find(|stream| *stream > self.leader.sseq);
        let Some(stream) = next.filter(|_| self.leader.pending.len() < WINDOW) else {
            return;
        };
        self.remember();
        self.leader.dseq += 1;
        self.leader.sseq = stream;
        // A message that an earlier leader knows as acknowledged is gone from the stream.
        self.leader.pending.insert(stream);
        self.on_way.push_back((stream, self.leader.dseq));
    }

    fn redeliver(&mut self) {
        self.remember();
        for stream in self.leader.pending.clone() {
            self.leader.dseq += 1;
            self.on_way.push_back((stream, self.leader.dseq));
        }
    }

    fn acknowledge(&mut self, stream: u64) {
        self.remember();
        self.leader.pending.remove(&stream);
        self.leader.acknowledged.insert(stream);
    }

    /// Makes a follower the leader, which knows less by up to `back` changes.
    fn fail_over(&mut self, back: usize) {
        let index = self.past.len().saturating_sub(back + 1);
        if let Some(state) = self.past.get(index).cloned() {
            self.leader = state;
            self.past.clear();
        }
    }

    fn info(&self) -> Info {
        Info {
            created: "one".to_owned(),
            consumer: self.leader.dseq,
            stream: self.leader.sseq,
            floor: self.leader.pending.first().map_or(self.leader.sseq, |stream| stream - 1),
            pending: self.leader.pending.len(),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish,
    Deliver,
    Arrive,
    Lose,
    Redeliver,
    /// With what the old leader sent on its way, which arrives first, or is lost.
    FailOver(usize, bool),
    Settle(usize),
    Acknowledged(bool, bool),
    Info(bool),
    Tick,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Publish),
        8 => Just(Step::Deliver),
        8 => Just(Step::Arrive),
        2 => Just(Step::Lose),
        1 => Just(Step::Redeliver),
        1 => (0..LAG, any::<bool>()).prop_map(|(back, lost)| Step::FailOver(back, lost)),
        6 => (0..8_usize).prop_map(Step::Settle),
        6 => (any::<bool>(), any::<bool>()).prop_map(|(taken, known)| Step::Acknowledged(taken, known)),
        3 => any::<bool>().prop_map(Step::Info),
        3 => Just(Step::Tick),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 0..200)
}

/// A sequencer, the server, and a receiver that knows what it has received.
struct World {
    now: Instant,
    server: Server,
    sequencer: Sequencer<u64>,
    to_settle: Vec<u64>,
    to_acknowledge: VecDeque<u64>,
    asked: bool,
    /// In the order in which each was passed for the first time.
    received: Vec<u64>,
    settled: BTreeSet<u64>,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            now,
            server: Server::default(),
            sequencer: Sequencer::new(now),
            to_settle: Vec::new(),
            to_acknowledge: VecDeque::new(),
            asked: false,
            received: Vec::new(),
            settled: BTreeSet::new(),
        }
    }

    fn input(&mut self, input: Input<u64>) {
        let mut outputs = Vec::new();
        self.sequencer.handle(self.now, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Pass(stream, message) => {
                    assert_eq!(stream, message);
                    if !self.received.contains(&stream) {
                        let last = self.received.last().copied().unwrap_or(0);
                        assert!(stream > last, "{stream} came after {last}");
                        self.received.push(stream);
                    }
                    self.to_settle.push(stream);
                }
                Output::Acknowledge(stream, reply) => {
                    assert_eq!(reply, stream.to_string());
                    assert!(self.settled.contains(&stream), "{stream} was not settled");
                    self.to_acknowledge.push_back(stream);
                }
                Output::AskInfo => {
                    assert!(!self.asked);
                    self.asked = true;
                }
                Output::Replaced | Output::GaveUp(_) => panic!("{output:?}"),
            }
        }
    }

    fn step(&mut self, step: &Step) {
        self.now += Duration::from_millis(20);
        match step {
            Step::Publish => {
                let last = self.server.messages.last().copied().unwrap_or(0);
                self.server.messages.push(last + 1 + last % 3);
            }
            Step::Deliver => self.server.deliver(),
            Step::Arrive => {
                if let Some((stream, consumer)) = self.server.on_way.pop_front() {
                    let reply = stream.to_string();
                    let delivery = Delivery { stream, consumer, reply, message: stream };
                    self.input(Input::Delivered(delivery));
                }
            }
            Step::Lose => drop(self.server.on_way.pop_front()),
            Step::Redeliver => self.server.redeliver(),
            Step::FailOver(back, lost) => {
                if *lost {
                    self.server.on_way.clear();
                }
                while !self.server.on_way.is_empty() {
                    self.step(&Step::Arrive);
                }
                self.server.fail_over(*back);
                self.input(Input::Interrupted);
            }
            Step::Settle(index) => {
                if !self.to_settle.is_empty() {
                    let stream = self.to_settle.remove(index % self.to_settle.len());
                    self.settled.insert(stream);
                    self.input(Input::Settled(stream));
                }
            }
            Step::Acknowledged(taken, known) => {
                if let Some(stream) = self.to_acknowledge.pop_front() {
                    if *taken {
                        self.server.acknowledge(stream);
                    }
                    self.input(Input::Acknowledged(stream, *taken && *known));
                }
            }
            Step::Info(known) => {
                if std::mem::take(&mut self.asked) {
                    let info = self.server.info();
                    self.input(Input::Info(known.then_some(info)));
                }
            }
            Step::Tick => self.input(Input::Tick),
            Step::Restart => {
                self.sequencer = Sequencer::new(self.now);
                self.to_settle.clear();
                self.to_acknowledge.clear();
                self.server.on_way.clear();
                self.asked = false;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn every_message_is_passed_in_order_whatever_is_lost(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        // Nothing fails any more.
        for _ in 0..3 * steps.len() + 30 {
            for step in [
                Step::Deliver,
                Step::Arrive,
                Step::Arrive,
                Step::Settle(0),
                Step::Acknowledged(true, true),
                Step::Info(true),
                Step::Tick,
            ] {
                world.step(&step);
            }
            if world.server.on_way.is_empty() && world.server.leader.pending.len() > world.to_settle.len() {
                world.step(&Step::Redeliver);
            }
        }
        prop_assert_eq!(&world.received, &world.server.messages);
        prop_assert!(world.server.leader.pending.is_empty(), "{:?}", world.server);
        prop_assert_eq!(world.sequencer.recovering(), None);
    }
}

fn delivery(stream: u64, consumer: u64) -> Input<u64> {
    Input::Delivered(Delivery { stream, consumer, reply: stream.to_string(), message: stream })
}

fn info(consumer: u64, stream: u64, pending: usize) -> Input<u64> {
    Input::Info(Some(Info { created: "one".to_owned(), consumer, stream, floor: 0, pending }))
}

fn after(
    sequencer: &mut Sequencer<u64>,
    now: Instant,
    inputs: impl IntoIterator<Item = Input<u64>>,
) -> Vec<Output<u64>> {
    let mut outputs = Vec::new();
    for input in inputs {
        sequencer.handle(now, input, &mut outputs);
    }
    outputs
}

#[test]
fn message_of_a_process_that_died_comes_before_newer_ones() {
    let now = Instant::now();
    let mut sequencer = Sequencer::new(now);
    let outputs = after(&mut sequencer, now, [Input::Tick, delivery(9, 3), info(3, 9, 2)]);
    assert_eq!(outputs, [Output::AskInfo]);
    let later = now + ASK_AGAIN;
    let outputs = after(&mut sequencer, later, [delivery(4, 4), info(4, 9, 2)]);
    assert_eq!(outputs, [Output::AskInfo, Output::Pass(4, 4), Output::Pass(9, 9)]);
    assert_eq!(after(&mut sequencer, later, [delivery(12, 5)]), [Output::Pass(12, 12)]);
}

#[test]
fn stream_that_was_created_anew_loses_nothing() {
    let now = Instant::now();
    let mut sequencer = Sequencer::new(now);
    let inputs = [Input::Tick, info(0, 0, 0), delivery(1, 1), Input::Settled(1)];
    after(&mut sequencer, now, inputs);
    after(&mut sequencer, now, [Input::Acknowledged(1, true), delivery(2, 2)]);
    // The new stream's first message has the number of one that was acknowledged.
    let anew = |consumer, stream, pending| {
        Input::Info(Some(Info { created: "two".to_owned(), consumer, stream, floor: 0, pending }))
    };
    let outputs = after(&mut sequencer, now, [delivery(1, 1), anew(1, 1, 1)]);
    assert_eq!(outputs, [Output::AskInfo, Output::Replaced, Output::AskInfo]);
    let later = now + ASK_AGAIN;
    let outputs = after(&mut sequencer, later, [delivery(1, 2), anew(2, 1, 1)]);
    assert_eq!(outputs, [Output::Pass(1, 1)]);
}

#[test]
fn message_that_a_new_leader_has_not_delivered_is_acknowledged_when_it_comes_again() {
    let now = Instant::now();
    let mut sequencer = Sequencer::new(now);
    after(&mut sequencer, now, [Input::Tick, info(0, 0, 0), delivery(1, 1), delivery(2, 2)]);
    let inputs = [Input::Interrupted, info(1, 1, 1), Input::Settled(2), Input::Settled(1)];
    let outputs = after(&mut sequencer, now, inputs);
    assert_eq!(outputs, [Output::AskInfo, Output::Acknowledge(1, "1".to_owned())]);
    let outputs = after(&mut sequencer, now, [delivery(2, 2)]);
    assert_eq!(outputs, [Output::Acknowledge(2, "2".to_owned())]);
}

#[test]
fn recovery_that_waits_for_nothing_ends_and_passes_what_comes_later() {
    let now = Instant::now();
    let mut sequencer = Sequencer::new(now);
    after(&mut sequencer, now, [Input::Tick, delivery(9, 3), info(3, 9, 2)]);
    let later = now + RECOVERY_MAX;
    let outputs = after(&mut sequencer, later, [Input::Tick, info(3, 9, 2)]);
    assert_eq!(outputs, [Output::AskInfo, Output::GaveUp(1), Output::Pass(9, 9)]);
    // The next recovery does not wait for the same message again.
    let outputs = after(&mut sequencer, later, [Input::Interrupted, info(3, 9, 2)]);
    assert_eq!(outputs, [Output::AskInfo]);
    assert_eq!(sequencer.recovering(), None);
    assert_eq!(after(&mut sequencer, later, [delivery(4, 4)]), [Output::Pass(4, 4)]);
}
