//! A generator of changes that a daemon could make, with the oracle that applies them.

use super::folder::NOW_MS;
use protocol::{
    Moment,
    code::NackCode,
    deliver::{self, Proof},
    delivery_id::IdKey,
    name::Name,
    payload::Capabilities,
    record::{
        AcceptedSend, AgentRecord, AnswerRecord, Change, DedupRecord, DeliveryRecord, Ending,
        MessageRecord, NoticeRecord, QuestionRecord, SessionRecord, StreamRecord,
    },
};
use std::collections::BTreeSet;
use testkit::records::Oracle;
use uuid::Uuid;

const NAMES: [&str; 5] = ["Ann", "bob", "Cy-7", "d.o.t", "@guest-1a2b3c4d"];

/// The state from which valid changes are generated.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) oracle: Oracle,
    message: u64,
    delivery: u64,
    stream: u64,
    notice: u64,
    /// Agents that were removed; their numbers are not used again.
    forgotten: BTreeSet<u64>,
    /// Deliveries of answers, which have ended from the start.
    answers: BTreeSet<u64>,
}

impl World {
    /// Generates the change that `kind` and `pick` stand for, and applies it.
    pub(super) fn change(&mut self, kind: u8, pick: u64) -> Change {
        let change = self.make(kind, pick);
        self.oracle.apply(&change);
        change
    }

    /// Generates a message from one agent to others, without applying it.
    pub(super) fn accepted(
        &mut self,
        from: u64,
        to: &[u64],
        topic: Option<&str>,
        body: &str,
    ) -> AcceptedSend {
        self.message += 1;
        let mut shared = Vec::new();
        let payload = format!("{{\"kind\":\"message\",\"body\":\"{body}\"}}");
        deliver::append_shared(&mut shared, name(from).as_str(), topic, &payload, None);
        let message = MessageRecord {
            number: self.message,
            sender: from,
            session: format!("s-{from}").into(),
            proof: [Proof::Claim, Proof::Key, Proof::Companion][from as usize % 3],
            send_id: format!("m-{}", self.message).into(),
            to_everyone: to.len() != 1,
            unix_ms: NOW_MS + self.message,
            shared: shared.into(),
        };
        self.accepted_for(message, to)
    }

    fn accepted_for(&mut self, message: MessageRecord, to: &[u64]) -> AcceptedSend {
        let deliveries = to.iter().map(|to| {
            self.delivery += 1;
            DeliveryRecord {
                number: self.delivery,
                message: message.number,
                stream: message.sender * 100 + to,
                to: *to,
                to_name: name(*to),
                seq: self.delivery,
                id: id(self.delivery),
                expires: Moment(u64::MAX - self.delivery),
                attempts: (to % 2) as u32,
                failures: 0,
            }
        });
        AcceptedSend {
            deliveries: deliveries.collect(),
            dedup: DedupRecord {
                message: message.number,
                sender: message.sender,
                fingerprint: u128::from(message.number).to_le_bytes(),
                recipients: message.to_everyone.then_some(to.len() as u64),
                remaining: if to.len() == 3 { vec![4, u64::MAX] } else { Vec::new() },
            },
            message,
        }
    }

    fn make(&mut self, kind: u8, pick: u64) -> Change {
        let agent = 1 + pick % 5;
        match kind % 16 {
            0..=2 => {
                let to: Vec<u64> = (0..pick % 4).map(|n| 1 + (agent + n) % 5).collect();
                Change::Accepted(Box::new(self.accepted(
                    agent,
                    &to,
                    Some("build.done"),
                    "all is well",
                )))
            }
            3 => self.some_added_recipient(pick),
            4 => Change::Attempted {
                delivery: self.some_delivery(pick),
                attempts: 2 + pick as u32 % 9,
                failures: pick as u32 % 3,
            },
            5 | 6 => Change::Ended {
                delivery: self.some_delivery(pick),
                ending: Ending::Acknowledged,
                unix_ms: NOW_MS + pick,
            },
            7 => Change::Ended {
                delivery: self.some_delivery(pick),
                ending: Ending::Dead { code: NackCode::Expired, why: "nobody came".into() },
                unix_ms: NOW_MS + pick,
            },
            8 => {
                let dead = self.oracle.image().dead_letters;
                match dead.keys().nth(pick as usize % dead.len().max(1)) {
                    Some(delivery) => {
                        Change::Redelivered { delivery: *delivery, expires: Moment(pick) }
                    }
                    None => Change::SessionEnded { agent },
                }
            }
            9 => self.agent(pick),
            10 if self.forgotten.contains(&agent) => Change::SessionEnded { agent },
            10 => Change::Session(Box::new(session(agent, pick))),
            11 => self.notice(agent, pick),
            12 => self.question(agent, pick),
            13 => self.some_resent(pick),
            14 => self.answer(agent, 1 + pick % 5, "8080"),
            _ => self.stream(agent, pick),
        }
    }

    /// Returns the number of a delivery that may be open, or one that no delivery has.
    fn some_delivery(&self, pick: u64) -> u64 {
        let number = 1 + pick % (self.delivery + 2);
        if self.answers.contains(&number) { self.delivery + 1 } else { number }
    }

    /// Adds a recipient to a stored message, as if that recipient's queue had been full when the
    /// other recipients got the message.
    fn some_added_recipient(&mut self, pick: u64) -> Change {
        let rows = &self.oracle.rows;
        let Some(row) = rows.values().nth(pick as usize % rows.len().max(1)) else {
            return Change::SessionEnded { agent: 1 };
        };
        let message = row.message.clone();
        Change::Accepted(Box::new(self.accepted_for(message, &[1 + pick % 5])))
    }

    /// Repeats a stored SEND of which no delivery has ended and whose sender is known.
    fn some_resent(&self, pick: u64) -> Change {
        let rows = &self.oracle.rows;
        let message = match rows.values().nth(pick as usize % rows.len().max(1)) {
            Some(row) => row.message.clone(),
            None => return Change::SessionEnded { agent: 1 },
        };
        let deliveries = || rows.values().filter(|row| row.message.number == message.number);
        let has_ended = deliveries().any(|row| row.ended.is_some());
        if has_ended || self.forgotten.contains(&message.sender) {
            return Change::SessionEnded { agent: 1 };
        }
        let deliveries: Vec<_> = deliveries().map(|row| row.delivery.clone()).collect();
        let dedup = DedupRecord {
            message: message.number,
            sender: message.sender,
            fingerprint: u128::from(message.number).to_le_bytes(),
            recipients: Some(deliveries.len() as u64),
            remaining: Vec::new(),
        };
        Change::AcceptedAgain(Box::new(AcceptedSend { message, deliveries, dedup }))
    }

    fn agent(&mut self, pick: u64) -> Change {
        if pick.is_multiple_of(16) {
            let agent = 1 + pick / 16 % 5;
            self.forgotten.insert(agent);
            return Change::AgentForgotten(agent);
        }
        let number = 1 + pick % 5;
        if self.forgotten.contains(&number) {
            return Change::SessionEnded { agent: number };
        }
        Change::Agent(Box::new(AgentRecord {
            number,
            name: name(number),
            since_unix_ms: pick,
            forget_at: pick.is_multiple_of(2).then_some(Moment(pick)),
            guest_key: pick.is_multiple_of(3).then_some([pick as u8; 32]),
            earlier: (0..pick % 4).map(|earlier| name(earlier + pick)).collect(),
        }))
    }

    fn notice(&mut self, agent: u64, pick: u64) -> Change {
        if pick.is_multiple_of(3) {
            return Change::NoticeEnded(1 + pick % (self.notice + 1));
        }
        self.notice += 1;
        let frame = vec![pick as u8; pick as usize % 700];
        Change::Notice(Box::new(NoticeRecord { number: self.notice, agent, frame: frame.into() }))
    }

    fn question(&self, from: u64, pick: u64) -> Change {
        let delivery = id(self.some_delivery(pick));
        if pick.is_multiple_of(3) {
            return Change::QuestionEnded(delivery);
        }
        Change::Question(Box::new(QuestionRecord {
            delivery,
            from,
            to: pick,
            send_id: format!("m-{pick}").into(),
            correlation_id: "c \0 \" ä".into(),
            timeout_ms: pick,
            until: Moment(u64::MAX - pick),
        }))
    }

    /// Generates an answer from one agent to another, without applying it.
    pub(super) fn answer(&mut self, from: u64, to: u64, body: &str) -> Change {
        // `some_delivery` may have chosen either of the next two numbers for a change, and no change
        // comes before its delivery.
        self.delivery += 2;
        let AcceptedSend { message, mut deliveries, .. } = self.accepted(from, &[to], None, body);
        let delivery = deliveries.remove(0);
        self.answers.insert(delivery.number);
        Change::Answer(Box::new(AnswerRecord { message, delivery }))
    }

    fn stream(&mut self, from: u64, pick: u64) -> Change {
        if pick.is_multiple_of(3) {
            return Change::StreamEnded(1 + pick % (self.stream + 1));
        }
        self.stream += 1;
        Change::Stream(Box::new(StreamRecord {
            number: self.stream,
            from,
            to: pick,
            topic: pick.is_multiple_of(2).then(|| "a \0 \" b".into()),
            reserved: 1_024 * pick,
        }))
    }
}

/// The key of the ids of deliveries.
pub(super) const ID_KEY: IdKey = IdKey::new(*b"the tests' 16 ke");

fn id(delivery: u64) -> Uuid {
    ID_KEY.id(delivery, [7; 16])
}

pub(super) fn name(agent: u64) -> Name {
    let text = NAMES[agent as usize % 5];
    if text.starts_with('@') { Name::made_by_daemon(text) } else { Name::parse(text).unwrap() }
}

fn session(agent: u64, pick: u64) -> SessionRecord {
    SessionRecord {
        agent,
        id: format!("s-{pick}").into(),
        token: [pick as u8; 32],
        former: pick.is_multiple_of(5).then_some([8; 32]),
        spent: pick.is_multiple_of(3).then_some([7; 32]),
        expires: pick.is_multiple_of(2).then_some(Moment(pick)),
        capabilities: Capabilities {
            ack: pick.is_multiple_of(2),
            resume: pick.is_multiple_of(3),
            max_inflight: u64::MAX - pick,
            supports_topics: pick.is_multiple_of(5),
            reports: false,
            broadcasts: false,
        },
        subscriptions: (0..pick % 3).map(|n| format!("ä.{n}.>").into()).collect(),
    }
}
