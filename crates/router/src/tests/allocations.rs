//! Allocations of each kind of message, counted: from the bytes of its frame to what is handed to
//! the writers, in a router that has handled many before.

use crate::{ClientId, Input, Limits, Output, Router};
use allocation_counter::measure;
use protocol::{Moment, Now, client_frame::ClientBatch, envelope::Envelope, record::Change};

const SENDER: ClientId = ClientId(1);

/// A router with a sender and some receivers, who subscribe to a topic.
struct Bed {
    router: Router,
    out: Vec<Output>,
    ids: u64,
    /// The changes so far.
    changes: u64,
    /// The DELIVERs that are not acknowledged.
    unread: Vec<(ClientId, String)>,
}

const NOW: Now = Now { monotonic: Moment(1), unix_ms: 1 << 40 };

impl Bed {
    fn new(receivers: u64) -> Self {
        let router = Router::new(Limits::default(), [7; 32]);
        let (out, unread) = (Vec::new(), Vec::new());
        let mut bed = Self { router, out, ids: 0, changes: 0, unread };
        for id in 1..=receivers + 1 {
            bed.input(Input::Connected(ClientId(id), None));
            let name = format!("agent-{id}");
            let capabilities =
                r#"{"ack":true,"resume":true,"max_inflight":256,"supports_topics":true}"#;
            let payload = format!(r#"{{"agent":"{name}","capabilities":{capabilities}}}"#);
            bed.frame(ClientId(id), &format!(r#""type":"HELLO","payload":{payload}"#));
            if ClientId(id) != SENDER {
                let subscribe = r#""type":"SUBSCRIBE","topic":"news","payload":{}"#;
                bed.frame(ClientId(id), subscribe);
            }
        }
        bed.persist();
        while bed.router.deadline().is_some_and(|due| due <= NOW.monotonic) {
            bed.input(Input::Tick);
            bed.take_outputs();
        }
        bed
    }

    fn input(&mut self, input: Input<'_>) {
        self.router.handle(NOW, input, &mut self.out);
    }

    /// Parses and routes a frame. Returns the number of allocations.
    fn frame(&mut self, client: ClientId, members: &str) -> u64 {
        self.ids += 1;
        let json = format!(r#"{{"v":1,"id":"m-{}","ts":1,{members}}}"#, self.ids);
        let info = measure(|| {
            let batch = ClientBatch::of_frame(json.as_bytes());
            self.router.handle(NOW, Input::Frame(client, batch.frame(0)), &mut self.out);
        });
        self.take_outputs();
        info.count_total
    }

    /// Reports that the store has written all changes. Returns the number of allocations.
    fn persist(&mut self) -> u64 {
        let persisted = Input::Persisted(self.changes);
        let info = measure(|| self.router.handle(NOW, persisted, &mut self.out));
        self.take_outputs();
        info.count_total
    }

    /// Writes all frames, and counts changes.
    fn take_outputs(&mut self) {
        let mut written = Vec::new();
        for output in self.out.drain(..) {
            match output {
                Output::Persist(change) => {
                    self.changes += 1;
                    assert!(!matches!(change, Change::Notice(_)), "nothing fails");
                }
                Output::Frame(client, frame) => {
                    let shared = frame.shared.as_deref().unwrap_or_default();
                    let bytes = [&frame.head, shared].concat();
                    let envelope = Envelope::read(&bytes[4..]).unwrap();
                    if envelope.delivery.is_some_and(|delivery| delivery.contains("requires_ack")) {
                        self.unread.push((client, envelope.id.to_string()));
                    }
                    written.push((client, bytes.len()));
                }
                _ => {}
            }
        }
        for (client, bytes) in written {
            self.input(Input::Written(client, bytes));
        }
    }
}

/// The allocations of a SEND of 256 bytes to some receivers, its acceptance by the store, and the
/// ACKs of all receivers.
#[derive(Debug, PartialEq, Eq)]
struct Allocations {
    send: u64,
    persisted: u64,
    acks: u64,
}

/// Counts the allocations of the last of many SENDs.
fn count(receivers: u64, address: &str, requires_ack: bool) -> Allocations {
    let mut bed = Bed::new(receivers);
    let body = "x".repeat(256);
    let meta = if requires_ack { r#","payload_meta":{"requires_ack":true}"# } else { "" };
    let send = format!(r#""type":"SEND",{address},"payload":{{"body":"{body}"}}{meta}"#);
    let mut last = None;
    for _ in 0..300 {
        let send = bed.frame(SENDER, &send);
        let persisted = bed.persist();
        assert_eq!(bed.unread.len() as u64, if requires_ack { receivers } else { 0 });
        let mut acks = 0;
        for (client, id) in std::mem::take(&mut bed.unread) {
            acks += bed.frame(client, &format!(r#""type":"ACK","payload":{{"ack_id":"{id}"}}"#));
        }
        bed.persist();
        last = Some(Allocations { send, persisted, acks });
    }
    last.expect("messages were sent")
}

#[test]
fn messages_allocate_little_and_no_more_with_time() {
    let (bob, topic) = (r#""to":"agent-2""#, r#""topic":"news""#);
    for (what, found, expected) in [
        ("at most once", count(1, bob, false), [5, 0, 0]),
        ("at most once, to 50", count(50, topic, false), [55, 0, 0]),
        ("at least once", count(1, bob, true), [11, 1, 2]),
        ("at least once, to 50", count(50, topic, true), [69, 57, 100]),
    ] {
        let [send, persisted, acks] = expected;
        assert_eq!(found, Allocations { send, persisted, acks }, "{what} (docs/BENCHMARKS.md)");
    }
}
