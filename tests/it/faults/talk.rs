//! Two clients that retry, and a record of the messages that were accepted and received.

use crate::fallible_client::FallibleClient;
use parking_lot::Mutex;
use platform::{endpoint::Endpoint, transport::Stream};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    process::Child,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};
use testkit::waiting::WATCHDOG;

/// The maximum number of attempts at each step while the daemon runs.
const TRIES: usize = 8;

/// Ends the connections and the daemon after [`WATCHDOG`], so that no test hangs.
pub(super) struct Watchdog {
    state: Arc<Mutex<State>>,
    over: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    streams: Vec<Stream>,
    daemon: Option<Child>,
    timed_out: bool,
}

impl Watchdog {
    /// Starts a watchdog. If a daemon is given, its end counts as the end of the conversation.
    pub(super) fn start(daemon: Option<Child>) -> Self {
        let state = Arc::new(Mutex::new(State { daemon, ..State::default() }));
        let (over, is_over) = mpsc::channel();
        let watched = Arc::clone(&state);
        let thread = thread::spawn(move || {
            if is_over.recv_timeout(WATCHDOG) == Err(mpsc::RecvTimeoutError::Timeout) {
                watched.lock().end();
            }
        });
        Self { state, over: Some(over), thread: Some(thread) }
    }

    /// Returns the daemon. Panics if the watchdog had to end the conversation.
    #[track_caller]
    pub(super) fn end(mut self) -> Option<Child> {
        self.stop();
        let mut state = self.state.lock();
        assert!(!state.timed_out, "the conversation timed out");
        state.daemon.take()
    }

    fn is_running(&self) -> bool {
        let mut state = self.state.lock();
        let has_ended =
            state.daemon.as_mut().is_some_and(|daemon| daemon.try_wait().unwrap().is_some());
        !state.timed_out && !has_ended
    }

    fn add_stream(&self, stream: Stream) {
        self.state.lock().streams.push(stream);
    }

    fn stop(&mut self) {
        drop(self.over.take());
        drop(self.thread.take().map(thread::JoinHandle::join));
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop();
        if let Some(mut daemon) = self.state.lock().daemon.take() {
            daemon.kill().ok();
            daemon.wait().ok();
        }
    }
}

impl State {
    fn end(&mut self) {
        self.timed_out = true;
        for stream in &self.streams {
            stream.hang_up();
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.kill().ok();
        }
    }
}

/// The messages from Ann to Rob, over any number of connections and daemons.
#[derive(Default)]
pub(super) struct Messages {
    /// Bodies that were accepted.
    accepted: BTreeSet<String>,
    /// The id of the DELIVER of each body.
    received: BTreeMap<String, String>,
    /// The last number received. Redeliveries do not count.
    last: u64,
    next: u64,
    /// The number of sends refused with STORE_FAILED.
    pub(super) refused: usize,
    /// The last token of each agent.
    tokens: BTreeMap<&'static str, Option<String>>,
}

/// A conversation with one daemon.
pub(super) struct Conversation<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) watchdog: &'a Watchdog,
    pub(super) messages: &'a mut Messages,
    ann: Option<FallibleClient>,
    rob: Option<FallibleClient>,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        endpoint: &'a Endpoint,
        watchdog: &'a Watchdog,
        messages: &'a mut Messages,
    ) -> Self {
        Self { endpoint, watchdog, messages, ann: None, rob: None }
    }

    /// Runs all steps: Rob leaves without a BYE, returns, and has messages left for the next
    /// daemon.
    pub(super) fn run(&mut self) {
        self.rob();
        for _ in 0..3 {
            self.send_next();
        }
        self.receive_all(true);
        self.ask("status");
        drop(self.rob.take());
        for _ in 0..2 {
            self.send_next();
        }
        self.receive_all(true);
        self.send_next();
        self.receive_all(false);
        self.ask("history");
        drop(self.rob.take());
        self.send_next();
    }

    /// Checks that sends succeed, and that every accepted message was received.
    pub(super) fn check_all_received(&mut self) {
        self.rob();
        assert!(self.send_next(), "a send failed without a fault");
        self.receive_all(true);
        let messages = &self.messages;
        let missing: Vec<_> = messages
            .accepted
            .iter()
            .filter(|body| !messages.received.contains_key(*body))
            .collect();
        assert!(missing.is_empty(), "accepted and lost: {missing:?}");
    }

    /// Sends Ann's next message. Returns whether it was accepted.
    fn send_next(&mut self) -> bool {
        self.messages.next += 1;
        let (id, body) = (format!("a-{}", self.messages.next), self.messages.next.to_string());
        for _ in 0..TRIES {
            if self.ann.is_none() {
                self.ann = self.join("Ann");
            }
            let Some(ann) = &mut self.ann else { return false };
            let answer = ann.send(&id, "Rob", &body).and_then(|()| ann.receive());
            match answer {
                None => self.ann = None,
                Some(answer) if answer["type"] == "ACK" => {
                    assert_eq!(answer["payload"]["ack_id"], id, "{answer}");
                    self.messages.accepted.insert(body);
                    return true;
                }
                Some(answer) if answer["type"] == "BYE" => self.ann = None,
                Some(answer) if answer["payload"]["code"] == "STORE_FAILED" => {
                    self.messages.refused += 1;
                    thread::sleep(Duration::from_millis(20));
                }
                // Rob is unknown if no daemon has welcomed him.
                Some(answer) if answer["payload"]["code"] == "UNKNOWN_AGENT" => {
                    assert!(self.rob.is_none() && self.messages.accepted.is_empty(), "{answer}");
                    return false;
                }
                Some(answer) => panic!("{answer}"),
            }
        }
        false
    }

    /// Receives as Rob until he has all accepted messages.
    fn receive_all(&mut self, acknowledges: bool) {
        let mut tries = TRIES;
        while tries > 0
            && !self.messages.accepted.iter().all(|body| self.messages.received.contains_key(body))
        {
            let Some(deliver) = self.rob().and_then(FallibleClient::receive) else {
                tries -= 1;
                self.rob = None;
                continue;
            };
            if deliver["type"] == "DELIVER" {
                self.messages.receive(&deliver);
                if acknowledges && self.rob().and_then(|rob| rob.acknowledge(&deliver)).is_none() {
                    self.rob = None;
                }
            }
        }
    }

    /// Sends a request to `@relay`, and waits for the answer.
    fn ask(&mut self, what: &str) {
        let Some(ann) = &mut self.ann else { return };
        let request = json!({"v": 1, "type": "SEND", "id": "ask", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": what}});
        if ann.send_json(&request).and_then(|()| ann.receive()).is_none() {
            self.ann = None;
        }
    }

    fn rob(&mut self) -> Option<&mut FallibleClient> {
        if self.rob.is_none() {
            self.rob = self.join("Rob");
        }
        self.rob.as_mut()
    }

    fn join(&mut self, name: &'static str) -> Option<FallibleClient> {
        // After a failed call the daemon may have to listen again first.
        while self.watchdog.is_running() {
            if let Some(mut client) = FallibleClient::connect(self.endpoint) {
                self.watchdog.add_stream(client.stream());
                let token = self.messages.tokens.entry(name).or_default();
                if client.join(name, token).is_some() {
                    return Some(client);
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Messages {
    fn receive(&mut self, deliver: &Value) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (body, id) = (text(&deliver["payload"]["body"]), text(&deliver["id"]));
        if let Some(before) = self.received.insert(body.clone(), id.clone()) {
            return assert_eq!(before, id, "a message has one DELIVER: {deliver}");
        }
        let number = body.parse().unwrap();
        let last = mem::replace(&mut self.last, number);
        assert!(last < number, "{number} comes after {last}");
    }
}
