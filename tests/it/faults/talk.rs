//! A handful of clients, who don't give up at once: what was accepted, and what was heard.

use crate::line::Line;
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

/// How often each thing is tried while the daemon is there.
const TRIES: usize = 8;

/// Joins come more often: a listener may have to be made first.
const JOINS: usize = 1_000;

/// A talk that takes longer hangs.
const TALK_MAX: Duration = Duration::from_secs(40);

/// Ends everything that hangs, so that whoever waits for it comes to an end and says so.
pub(super) struct Watch {
    state: Arc<Mutex<State>>,
    over: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    streams: Vec<Stream>,
    daemon: Option<Child>,
    hangs: bool,
}

impl Watch {
    /// Watches over a daemon, if it is one whose end matters.
    pub(super) fn over(daemon: Option<Child>) -> Self {
        let state = Arc::new(Mutex::new(State { daemon, ..State::default() }));
        let (over, is_over) = mpsc::channel();
        let watched = Arc::clone(&state);
        let thread = thread::spawn(move || {
            if is_over.recv_timeout(TALK_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
                watched.lock().end();
            }
        });
        Self { state, over: Some(over), thread: Some(thread) }
    }

    /// Gives the daemon back. What hung until now is told.
    #[track_caller]
    pub(super) fn end(mut self) -> Option<Child> {
        self.stop();
        let mut state = self.state.lock();
        assert!(!state.hangs, "it hangs");
        state.daemon.take()
    }

    fn goes_on(&self) -> bool {
        let mut state = self.state.lock();
        let has_ended = state.daemon.as_mut().is_some_and(|it| it.try_wait().unwrap().is_some());
        !state.hangs && !has_ended
    }

    fn note(&self, stream: Stream) {
        self.state.lock().streams.push(stream);
    }

    fn stop(&mut self) {
        drop(self.over.take());
        drop(self.thread.take().map(thread::JoinHandle::join));
    }
}

impl Drop for Watch {
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
        self.hangs = true;
        for stream in &self.streams {
            stream.hang_up();
        }
        if let Some(daemon) = &mut self.daemon {
            daemon.kill().ok();
        }
    }
}

/// Ann speaks to Rob, over as many connections and daemons as it takes.
#[derive(Default)]
pub(super) struct Talk {
    /// Bodies that were accepted.
    accepted: BTreeSet<String>,
    /// The id of the DELIVER that brought a body.
    heard: BTreeMap<String, String>,
    /// The last that was heard first.
    last: u64,
    next: u64,
    /// How often STORE_FAILED was said.
    pub(super) refused: usize,
}

/// Talk at one daemon.
pub(super) struct Place<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) watch: &'a Watch,
    pub(super) talk: &'a mut Talk,
    ann: Option<Line>,
    rob: Option<Line>,
}

impl<'a> Place<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, watch: &'a Watch, talk: &'a mut Talk) -> Self {
        Self { endpoint, watch, talk, ann: None, rob: None }
    }

    /// Rob is there, goes without a word, and comes again; he leaves something for the next daemon.
    pub(super) fn all(&mut self) {
        self.rob();
        for _ in 0..3 {
            self.say();
        }
        self.hear(true);
        self.ask("status");
        drop(self.rob.take());
        for _ in 0..2 {
            self.say();
        }
        self.hear(true);
        self.say();
        self.hear(false);
        self.ask("history");
        drop(self.rob.take());
        self.say();
    }

    /// Everything is there, and all works.
    pub(super) fn last(&mut self) {
        self.rob();
        assert!(self.say(), "nothing fails any more, and it is not accepted");
        self.hear(true);
        let talk = &self.talk;
        let missing: Vec<_> =
            talk.accepted.iter().filter(|body| !talk.heard.contains_key(*body)).collect();
        assert!(missing.is_empty(), "accepted and lost: {missing:?}");
    }

    /// Whether Ann's next word is accepted.
    fn say(&mut self) -> bool {
        self.talk.next += 1;
        let (id, body) = (format!("a-{}", self.talk.next), self.talk.next.to_string());
        for _ in 0..TRIES {
            if self.ann.is_none() {
                self.ann = self.join("Ann");
            }
            let Some(ann) = &mut self.ann else { return false };
            let answer = ann.send(&id, "Rob", &body).and_then(|()| ann.hear());
            match answer {
                None => self.ann = None,
                Some(answer) if answer["type"] == "ACK" => {
                    assert_eq!(answer["payload"]["ack_id"], id, "{answer}");
                    self.talk.accepted.insert(body);
                    return true;
                }
                Some(answer) if answer["type"] == "BYE" => self.ann = None,
                Some(answer) if answer["payload"]["code"] == "STORE_FAILED" => {
                    self.talk.refused += 1;
                    thread::sleep(Duration::from_millis(20));
                }
                // Of Rob nobody has heard yet if he was never let in.
                Some(answer) if answer["payload"]["code"] == "UNKNOWN_AGENT" => {
                    assert!(self.rob.is_none() && self.talk.accepted.is_empty(), "{answer}");
                    return false;
                }
                Some(answer) => panic!("{answer}"),
            }
        }
        false
    }

    /// Rob hears all that is accepted.
    fn hear(&mut self, acknowledges: bool) {
        let mut tries = TRIES;
        while tries > 0 && !self.talk.accepted.iter().all(|body| self.talk.heard.contains_key(body))
        {
            let Some(deliver) = self.rob().and_then(Line::hear) else {
                tries -= 1;
                self.rob = None;
                continue;
            };
            if deliver["type"] == "DELIVER" {
                self.talk.hear(&deliver);
                if acknowledges && self.rob().and_then(|rob| rob.acknowledge(&deliver)).is_none() {
                    self.rob = None;
                }
            }
        }
    }

    /// Asks what has to be read for an answer, whatever that is.
    fn ask(&mut self, what: &str) {
        let Some(ann) = &mut self.ann else { return };
        let asked = json!({"v": 1, "type": "SEND", "id": "ask", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": what}});
        if ann.say(&asked).and_then(|()| ann.hear()).is_none() {
            self.ann = None;
        }
    }

    fn rob(&mut self) -> Option<&mut Line> {
        if self.rob.is_none() {
            self.rob = self.join("Rob");
        }
        self.rob.as_mut()
    }

    fn join(&self, name: &str) -> Option<Line> {
        for _ in 0..JOINS {
            if !self.watch.goes_on() {
                return None;
            }
            if let Some(mut line) = Line::connect(self.endpoint) {
                self.watch.note(line.stream());
                if line.join(name).is_some() {
                    return Some(line);
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("{name} is not let in");
    }
}

impl Talk {
    fn hear(&mut self, deliver: &Value) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (body, id) = (text(&deliver["payload"]["body"]), text(&deliver["id"]));
        if let Some(before) = self.heard.insert(body.clone(), id.clone()) {
            return assert_eq!(before, id, "a message has one DELIVER: {deliver}");
        }
        let number = body.parse().unwrap();
        let last = mem::replace(&mut self.last, number);
        assert!(last < number, "{number} comes after {last}");
    }
}
