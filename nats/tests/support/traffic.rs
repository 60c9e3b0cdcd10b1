//! Agents that send to those of other hosts, and check what they receive.

use super::host::Host;
use client::{Client, Delivery, Event, Outgoing};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// The messages of one agent that its daemon has not accepted yet.
const WINDOW: usize = 8;

/// The pause between two checks for a due message.
const LOOK: Duration = Duration::from_millis(10);

/// The sent and received messages.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// The messages of each sender and recipient, in the order of their arrival.
    received: Mutex<BTreeMap<(String, String), Vec<Received>>>,
    count: AtomicUsize,
    faults: Mutex<Vec<String>>,
}

/// A message that arrived.
#[derive(Clone, Copy, Debug)]
struct Received {
    number: usize,
    /// Its place in the order of the recipient's daemon.
    seq: u64,
    /// The number of the attempt to deliver it.
    attempt: u32,
}

impl Traffic {
    /// The number of messages that arrived.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The faults so far.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap().clone()
    }

    fn fault(&self, fault: String) {
        self.faults.lock().unwrap().push(fault);
    }

    /// Runs the agent `me`: it sends `each` messages to each of `others`, evenly over at least
    /// `time`, and receives until `stop`.
    pub(crate) fn run(
        &self,
        me: &str,
        client: &Client,
        others: &[String],
        (each, time): (usize, Duration),
        stop: &dyn Fn() -> bool,
    ) {
        let (mut next, mut open, begun) = (0, 0, Instant::now());
        let count = each * others.len();
        while !stop() {
            let is_due = |next: usize| begun.elapsed() * count as u32 >= time * next as u32;
            while open < WINDOW && next < count && is_due(next) {
                let (to, number) = (&others[next % others.len()], next / others.len());
                let message = Outgoing::message(to, format!("{me} {to} {number}"));
                match client.send(message) {
                    Ok(_) => (open, next) = (open + 1, next + 1),
                    Err(error) => self.fault(format!("{me} cannot send: {error}")),
                }
            }
            match client.events().recv_timeout(LOOK) {
                Ok(Event::Delivered(delivery)) => {
                    self.receive(me, &delivery);
                    client.acknowledge(&delivery.id);
                }
                Ok(Event::Accepted { .. }) => open -= 1,
                Ok(Event::Refused { nack, .. }) => {
                    self.fault(format!("{me} got {}: {}", nack.code, nack.message));
                }
                Ok(Event::Ended(ended)) => {
                    self.fault(format!("{me} has ended: {ended}"));
                    return;
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn receive(&self, me: &str, delivery: &Delivery) {
        let Delivery { from, body, seq, attempt, .. } = delivery;
        let words: Vec<_> = body.split(' ').collect();
        let [sender, to, number] = words[..] else {
            return self.fault(format!("{me} got from {from}: {body}"));
        };
        if sender != from.as_str() || to != me {
            self.fault(format!("{me} got from {from} what {sender} sent to {to}"));
        }
        let pair = (sender.to_owned(), to.to_owned());
        let received = Received { number: number.parse().unwrap(), seq: *seq, attempt: *attempt };
        self.received.lock().unwrap().entry(pair).or_default().push(received);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks that each pair of `pairs` got the numbers below `each`, once and in order.
    pub(crate) fn check(&self, pairs: &[(String, String)], each: usize) -> Result<(), String> {
        let received = self.received.lock().unwrap();
        let (mut lost, mut doubled, mut disordered) = (0, 0, 0);
        for pair in pairs {
            let all = received.get(pair).map_or(&[][..], Vec::as_slice);
            let numbers: Vec<_> = all.iter().map(|received| received.number).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sorted.dedup();
            doubled += numbers.len() - sorted.len();
            lost += each - sorted.len();
            if !numbers.is_sorted() {
                disordered += 1;
                println!("{} to {}: {}", pair.0, pair.1, displaced(all));
            }
        }
        let faults = self.faults();
        let text = format!("{lost} lost, {doubled} doubled, {disordered} pairs out of order");
        println!("{} messages of {} pairs: {text}", self.count(), pairs.len());
        if (lost, doubled, disordered) == (0, 0, 0) && faults.is_empty() {
            return Ok(());
        }
        Err(format!("{text}; {} faults: {:#?}", faults.len(), &faults[..faults.len().min(20)]))
    }
}

/// The messages around each one with a lower number than its predecessor.
fn displaced(all: &[Received]) -> String {
    let falls = (1..all.len()).filter(|&at| all[at].number < all[at - 1].number);
    let around = |at: usize| format!("{:?}", &all[at.saturating_sub(3)..all.len().min(at + 3)]);
    falls.map(around).collect::<Vec<_>>().join(", ")
}

/// All pairs of agents on different hosts, each as `NAME@HOST`.
pub(crate) fn pairs(hosts: &[Host]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for from in hosts {
        for to in hosts.iter().filter(|to| to.name != from.name) {
            for sender in &from.agents {
                for recipient in &to.agents {
                    pairs.push((
                        format!("{sender}@{}", from.name),
                        format!("{recipient}@{}", to.name),
                    ));
                }
            }
        }
    }
    pairs
}
