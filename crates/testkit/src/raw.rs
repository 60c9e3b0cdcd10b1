//! A client that sends exactly the bytes of a test, and returns the daemon's frames.

use crate::waiting::WATCHDOG;
use platform::transport::Stream;
use serde_json::{Value, json};
use std::{
    io::{self, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

/// HELLO's `session` member. A `null` token is not the same as an absent one.
pub fn session(token: Option<&Value>) -> Value {
    token.map_or_else(|| json!({}), |token| json!({"resume_token": token}))
}

/// A connection without a session layer. Only PINGs are answered, and only if `answers_pings` is
/// set.
pub struct Raw {
    stream: Stream,
    pub answers_pings: bool,
    next_id: u32,
    watchdog: Watchdog,
}

/// A thread that ends a connection when one read or write takes longer than [`WATCHDOG`].
struct Watchdog {
    /// The number of reads and writes begun and ended: odd during a read or write, and [`STALLED`]
    /// once the watchdog has ended the connection.
    calls: Arc<AtomicU64>,
    _thread: mpsc::Sender<()>,
}

const STALLED: u64 = u64::MAX;

/// The most bytes of one read of [`Raw::receive_to_end`].
const CHUNK_BYTES: usize = 256 << 10;

impl Watchdog {
    fn over(stream: Stream) -> Self {
        let (sender, ended) = mpsc::channel::<()>();
        let calls = Arc::new(AtomicU64::new(0));
        let watched = Arc::clone(&calls);
        thread::spawn(move || {
            let mut before = 0;
            while ended.recv_timeout(WATCHDOG) == Err(mpsc::RecvTimeoutError::Timeout) {
                let now = watched.load(Ordering::SeqCst);
                let is_stalled = now == before && now % 2 == 1;
                let swap =
                    |new| watched.compare_exchange(now, new, Ordering::SeqCst, Ordering::SeqCst);
                if is_stalled && swap(STALLED).is_ok() {
                    return stream.hang_up();
                }
                before = now;
            }
        });
        Self { calls, _thread: sender }
    }

    /// Runs one read or write. Panics if the watchdog had to end the connection.
    #[track_caller]
    fn watch<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let result = call();
        let calls = self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(calls != STALLED, "the connection stalled for {WATCHDOG:?}");
        result
    }
}

impl Raw {
    /// A connection over `stream`. No read or write in it can hang.
    pub fn over(stream: Stream) -> Self {
        let watchdog = Watchdog::over(stream.clone());
        Self { stream, answers_pings: true, next_id: 0, watchdog }
    }

    /// Joins as an agent. Returns WELCOME's payload.
    #[track_caller]
    pub fn hello(&mut self, name: &str) -> Value {
        let mut answer = self.try_hello(name);
        assert_eq!(answer["type"], "WELCOME", "{answer}");
        answer["payload"].take()
    }

    /// Asks to join as an agent. Returns the answer.
    #[track_caller]
    pub fn try_hello(&mut self, name: &str) -> Value {
        self.send_json(
            &json!({"v": 1, "type": "HELLO", "id": "hello", "ts": 0, "payload": {"agent": name}}),
        );
        self.receive().expect("an answer to HELLO, not the end")
    }

    /// Sends one frame with this envelope.
    pub fn send_json(&mut self, envelope: &Value) {
        self.send_text(&envelope.to_string());
    }

    /// Sends one frame with this text.
    pub fn send_text(&mut self, json: &str) {
        self.send_bytes(&framed(json));
    }

    /// Sends one frame to a daemon that may have ended the connection. Returns false if it has.
    pub fn try_send_json(&mut self, envelope: &Value) -> bool {
        self.try_send_bytes(&framed(&envelope.to_string()))
    }

    /// Sends bytes without a frame around them.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.watchdog.watch(|| (&self.stream).write_all(bytes)).unwrap();
    }

    /// Sends bytes to a daemon that may have ended the connection. Returns false if it has.
    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.watchdog.watch(|| (&self.stream).write_all(bytes)).is_ok()
    }

    /// Sends a message. Returns its id.
    pub fn send(&mut self, to: &str, body: &str, meta: Value) -> String {
        self.next_id += 1;
        let id = format!("m-{}", self.next_id);
        self.send_json(&json!({
            "v": 1, "type": "SEND", "id": id, "ts": 0, "to": to,
            "payload": {"kind": "message", "body": body}, "payload_meta": meta,
        }));
        id
    }

    /// Sends a request to `@relay`. Returns the `data` of the answer.
    #[track_caller]
    pub fn ask(&mut self, body: &str, data: &Value) -> Value {
        self.send_json(&json!({
            "v": 1, "type": "SEND", "id": "ask", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": body, "data": data},
        }));
        self.expect("DELIVER")["payload"]["data"].take()
    }

    pub fn acknowledge(&mut self, deliver: &Value) {
        self.send_json(&json!({
            "v": 1, "type": "ACK", "id": "ack", "ts": 0,
            "payload": {"ack_id": deliver["id"], "seq": deliver["delivery"]["seq"]},
        }));
    }

    /// Receives the content of the next frame, or `None` at the end.
    pub fn receive_content(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        if !self.read(&mut length) {
            return None;
        }
        let mut content = vec![0; u32::from_be_bytes(length) as usize];
        assert!(self.read(&mut content), "the connection ended within a frame");
        Some(content)
    }

    /// Receives the next envelope as text, or `None` at the end.
    pub fn receive_text(&mut self) -> Option<String> {
        loop {
            let text = String::from_utf8(self.receive_content()?).unwrap();
            if !(self.answers_pings && self.answer_ping(&text)) {
                return Some(text);
            }
        }
    }

    /// Receives the next envelope, or `None` at the end.
    pub fn receive(&mut self) -> Option<Value> {
        self.receive_text().map(|text| serde_json::from_str(&text).unwrap())
    }

    /// Receives envelopes as fast as they come, until the connection ends, possibly within one.
    pub fn receive_to_end(&mut self) {
        let mut unread = Vec::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(count @ 1..) = self.watchdog.watch(|| (&self.stream).read(&mut chunk)) {
            unread.extend_from_slice(&chunk[..count]);
            let mut rest = &unread[..];
            while let Some((length, behind)) = rest.split_first_chunk()
                && let Some((json, behind)) =
                    behind.split_at_checked(u32::from_be_bytes(*length) as usize)
            {
                rest = behind;
                if self.answers_pings {
                    self.answer_ping(str::from_utf8(json).unwrap());
                }
            }
            unread = rest.to_vec();
        }
    }

    /// Receives the next envelope, and checks its type.
    #[track_caller]
    pub fn expect(&mut self, kind: &str) -> Value {
        let envelope = self.receive().unwrap_or_else(|| panic!("{kind} expected, not the end"));
        assert_eq!(envelope["type"], kind, "{envelope}");
        envelope
    }

    /// Receives the next envelope, and checks its type and its code.
    #[track_caller]
    pub fn expect_code(&mut self, kind: &str, code: &str) -> Value {
        let envelope = self.expect(kind);
        assert_eq!(envelope["payload"]["code"], code, "{envelope}");
        let sentence = envelope["payload"]["message"].as_str().unwrap_or_default();
        assert!(sentence.len() > 8, "no sentence: {envelope}");
        envelope
    }

    /// Checks that the daemon closes the connection and sends nothing before.
    #[track_caller]
    pub fn expect_end(&mut self) {
        assert_eq!(self.receive_text(), None);
    }

    /// Waits until the daemon has handled everything sent before. Returns the envelopes that came
    /// meanwhile.
    #[track_caller]
    pub fn drain(&mut self) -> Vec<Value> {
        self.send_json(&json!({
            "v": 1, "type": "SEND", "id": "fence", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": "status"},
        }));
        let mut envelopes = Vec::new();
        loop {
            let envelope = self.receive().expect("an answer to the fence");
            if envelope["payload_meta"]["replyTo"] == "fence" {
                return envelopes;
            }
            envelopes.push(envelope);
        }
    }

    /// Returns the rows of the request `agents`.
    #[track_caller]
    pub fn agents(&mut self) -> Vec<Value> {
        self.send_json(&json!({
            "v": 1, "type": "SEND", "id": "agents", "ts": 0, "to": "@relay",
            "payload": {"kind": "request", "body": "agents"},
        }));
        let mut answer = self.expect("DELIVER");
        assert_eq!(answer["payload_meta"]["replyTo"], "agents");
        serde_json::from_value(answer["payload"]["data"]["agents"].take()).expect("rows")
    }

    /// Sends BYE, and waits until the daemon closes the connection.
    #[track_caller]
    pub fn leave(mut self) {
        self.send_json(&json!({"v": 1, "type": "BYE", "id": "bye", "ts": 0, "payload": {}}));
        self.expect_end();
    }

    pub fn hang_up(&self) {
        self.stream.hang_up();
    }

    /// Fills `buffer`. Returns false at the end of the stream, if no byte came before.
    fn read(&mut self, buffer: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.watchdog.watch(|| (&self.stream).read(&mut buffer[filled..])) {
                Ok(0) | Err(_) => {
                    assert_eq!(filled, 0, "the connection ended within a frame");
                    return false;
                }
                Ok(count) => filled += count,
            }
        }
        true
    }

    fn answer_ping(&mut self, text: &str) -> bool {
        if !text.contains("\"type\":\"PING\"") {
            return false;
        }
        let envelope: Value = serde_json::from_str(text).unwrap();
        let pong =
            json!({"v": 1, "type": "PONG", "id": "pong", "ts": 0, "payload": envelope["payload"]});
        // If the daemon has ended the connection, the reader notices it.
        self.try_send_json(&pong);
        true
    }
}

fn framed(json: &str) -> Vec<u8> {
    let length = u32::try_from(json.len()).unwrap();
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}
