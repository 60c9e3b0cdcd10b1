//! The ends of a measured path, through the floor or the daemon, and the messages on it.

use platform::{
    endpoint::Endpoint,
    peer::User,
    transport::{Stream, Written},
};
use protocol::{
    envelope::{Envelope, Header, Kind, stated_kind},
    frame::{self, Decoder, FRAME_BYTES_MAX, Frames},
    payload::{Capabilities, Empty, ErrorPayload, Heartbeat, Hello, MessagePayload},
};
use std::io::{self, Read, Write};

/// Digits of a bench message's id, patched into the frame for each message.
const ID_DIGITS: usize = 16;

/// The daemon that is measured.
pub struct Daemon {
    /// The endpoint of the daemon.
    pub endpoint: Endpoint,
    /// A user who may run the daemon, besides this user, the system and administrators.
    pub server: Option<User>,
}

/// An end of a path, which reads whole frames and writes bytes.
pub struct End {
    stream: Stream,
    decoder: Decoder,
}

impl End {
    /// Connects without a HELLO.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        Stream::connect(endpoint).map(Self::over)
    }

    fn over(stream: Stream) -> Self {
        Self { stream, decoder: Decoder::new(FRAME_BYTES_MAX) }
    }

    /// Connects and joins a daemon as an agent that can resume, as a wrapper and a listener can:
    /// retaining delivered messages is part of the daemon's work.
    pub fn join(daemon: &Daemon, name: &str, window: u64) -> io::Result<Self> {
        let capabilities =
            Capabilities { resume: true, max_inflight: window, ..Capabilities::default() };
        let agent = Some(name.to_owned());
        Self::join_with(daemon, &Hello { agent, capabilities, ..Hello::default() })
    }

    /// Connects and joins a daemon with this HELLO.
    pub fn join_with(daemon: &Daemon, hello: &Hello) -> io::Result<Self> {
        let stream = Stream::connect_among(&daemon.endpoint, daemon.server.as_slice())?;
        let mut end = Self::over(stream);
        end.send(&Header::new(Kind::Hello, "hello", 0), hello)?;
        end.await_kind(Kind::Welcome)?;
        Ok(end)
    }

    /// Subscribes to a topic, and waits for the ACK.
    pub(super) fn subscribe(&mut self, topic: &str) -> io::Result<()> {
        let header = Header { topic: Some(topic), ..Header::new(Kind::Subscribe, "subscribe", 0) };
        self.send(&header, &Empty {})?;
        self.await_kind(Kind::Ack)
    }

    /// Ends the session, so that the daemon retains nothing for it.
    pub fn leave(self) -> io::Result<()> {
        self.send(&Header::new(Kind::Bye, "bye", 0), &Empty {})
    }

    /// Reads once, and discards the input. Answers a PING.
    pub fn discard(&mut self) -> io::Result<()> {
        self.await_frames(0)
    }

    /// Reads until this many frames besides PINGs have come, but at least once, and discards them.
    pub fn await_frames(&mut self, count: usize) -> io::Result<()> {
        let mut seen = 0;
        loop {
            let mut pings = Vec::new();
            for json in self.read()? {
                match stated_kind(json) {
                    Some(Kind::Ping) => pings.push(json.to_vec()),
                    _ => seen += 1,
                }
            }
            pings.iter().try_for_each(|json| self.answer(json))?;
            if seen >= count {
                return Ok(());
            }
        }
    }

    /// Writes all bytes.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.stream).write_all(bytes)
    }

    /// Writes as much as the system takes at once, as [`Stream::write_now`] does.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<Written> {
        self.stream.write_now(bytes)
    }

    /// Reads once, and counts the messages. Answers a PING.
    pub(super) fn count_messages(&mut self) -> io::Result<u64> {
        let mut count = 0;
        let mut others = Vec::new();
        for json in self.read()? {
            if is_message(json) {
                count += 1;
            } else {
                others.push(json.to_vec());
            }
        }
        for json in others {
            self.answer(&json)?;
        }
        Ok(count)
    }

    /// Reads once, and calls `each` with every ACK and DELIVER. Answers a PING. A refusal is an
    /// error.
    pub fn read_kinds(&mut self, mut each: impl FnMut(Kind, &[u8])) -> io::Result<()> {
        let mut others = Vec::new();
        for json in self.read()? {
            match stated_kind(json) {
                Some(kind @ (Kind::Ack | Kind::Deliver)) => each(kind, json),
                _ => others.push(json.to_vec()),
            }
        }
        others.iter().try_for_each(|json| self.answer(json))
    }

    /// Returns a function that writes while another thread reads from this end.
    pub fn writer(&self) -> impl Fn(&[u8]) -> io::Result<()> + use<> {
        let stream = self.stream.clone();
        move |bytes| (&stream).write_all(bytes)
    }

    /// Returns a function that ends the connection, and wakes threads that wait for it.
    pub fn hang_up(&self) -> impl FnOnce() + Send + use<> {
        let stream = self.stream.clone();
        move || stream.hang_up()
    }

    /// Reads the next whole frames. They are not copied, since the time of this call is part of the
    /// measured time.
    fn read(&mut self) -> io::Result<Frames<'_>> {
        while !self.decoder.has_next() {
            let count = (&self.stream).read(self.decoder.space())?;
            if count == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other side closed"));
            }
            self.decoder.filled(count);
        }
        let taken = self.decoder.take().map_err(|violation| invalid(&violation.to_string()))?;
        Ok(taken.expect("the decoder has a frame"))
    }

    fn send(&self, header: &Header<'_>, payload: &impl serde::Serialize) -> io::Result<()> {
        let mut bytes = Vec::new();
        header.append(&mut bytes, payload);
        self.write(&bytes)
    }

    fn await_kind(&mut self, wanted: Kind) -> io::Result<()> {
        loop {
            let frames: Vec<_> = self.read()?.map(<[u8]>::to_vec).collect();
            for json in frames {
                let envelope =
                    Envelope::read(&json).map_err(|error| invalid(&error.to_string()))?;
                if envelope.kind == wanted {
                    return Ok(());
                }
                self.answer(&json)?;
            }
        }
    }

    /// Answers a PING. An ERROR or a refusal is an error.
    fn answer(&self, json: &[u8]) -> io::Result<()> {
        let envelope = Envelope::read(json).map_err(|error| invalid(&error.to_string()))?;
        match envelope.kind {
            Kind::Ping => {
                let ping: Heartbeat = envelope
                    .decode_member(envelope.payload)
                    .map_err(|error| invalid(&error.to_string()))?;
                self.send(&Header::new(Kind::Pong, "pong", 0), &ping)
            }
            Kind::Error => {
                let fault: Result<ErrorPayload, _> = envelope.decode_member(envelope.payload);
                Err(invalid(&fault.map_or_else(|error| error.to_string(), |fault| fault.message)))
            }
            Kind::Nack | Kind::Busy => Err(invalid(envelope.payload)),
            _ => Ok(()),
        }
    }
}

/// Reports whether a frame is a DELIVER, or on the floor a SEND.
fn is_message(json: &[u8]) -> bool {
    json.starts_with(b"{\"v\":1,\"type\":\"DELIVER\"")
        || json.starts_with(b"{\"v\":1,\"type\":\"SEND\"")
}

pub(super) fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A frame with a SEND. Its id is changed in place for each message.
#[derive(Clone)]
pub struct Template {
    frame: Vec<u8>,
    id_at: usize,
    next: u64,
}

impl Template {
    /// A SEND to an agent or on a topic, with a body of this length.
    pub fn new(to: Option<&str>, topic: Option<&str>, body_bytes: usize) -> Self {
        let id = "0".repeat(ID_DIGITS);
        let header = Header { to, topic, ..Header::new(Kind::Send, &id, 1_700_000_000_000) };
        let body = "x".repeat(body_bytes);
        let spoken = MessagePayload {
            kind: "message".into(),
            body: body.into(),
            ..MessagePayload::default()
        };
        let mut frame = Vec::new();
        header.append(&mut frame, &spoken);
        let offset = frame.windows(ID_DIGITS).position(|window| window == id.as_bytes());
        Self { frame, id_at: offset.expect("the frame holds its id"), next: 0 }
    }

    /// A SEND with at-least-once delivery. Its first id is `next`, which must be above the ids of
    /// earlier runs, since the daemon ignores an id that it has seen.
    pub(super) fn acknowledged(to: &str, body_bytes: usize, next: u64) -> Self {
        let plain = Self::new(Some(to), None, body_bytes);
        let mut frame = plain.frame;
        frame.pop();
        frame.extend_from_slice(br#","payload_meta":{"requires_ack":true}}"#);
        frame::seal(&mut frame, 0, 0);
        Self { frame, id_at: plain.id_at, next }
    }

    /// Appends a frame with the next id.
    pub(super) fn append(&mut self, bytes: &mut Vec<u8>) {
        let mut rest = self.next;
        self.next += 1;
        for digit in self.frame[self.id_at..self.id_at + ID_DIGITS].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        bytes.extend_from_slice(&self.frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::{paths, transport::Listener};
    use protocol::frame::Batch;
    use std::{env, fs, process, thread};

    #[test]
    fn end_can_resume_until_it_leaves() {
        let folder = env::temp_dir().join(format!("agent-relay-route-{}", process::id()));
        paths::make_private_dir(&folder).unwrap();
        let endpoint = Endpoint::inside(&folder, "daemon").unwrap();
        let listener = Listener::bind(&endpoint).unwrap();
        let daemon = Daemon { endpoint, server: None };
        thread::scope(|scope| {
            let joined = scope.spawn(|| End::join(&daemon, "bench-a", 7).unwrap().leave().unwrap());
            let mut near = End::over(listener.accept().unwrap());
            let hello = near.read().unwrap().next().unwrap().to_vec();
            let hello = Envelope::read(&hello).unwrap();
            let hello: Hello = hello.decode_member(hello.payload).unwrap();
            assert!(hello.capabilities.resume);
            assert_eq!(hello.capabilities.max_inflight, 7);
            near.send(&Header::new(Kind::Welcome, "welcome", 0), &Empty {}).unwrap();
            near.await_kind(Kind::Bye).unwrap();
            joined.join().unwrap();
        });
        drop(listener);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn frames_of_a_template_have_different_ids() {
        let mut template = Template::new(Some("bench-b"), None, 256);
        let mut bytes = Vec::new();
        template.append(&mut bytes);
        template.append(&mut bytes);
        assert_eq!(bytes.len(), 2 * template.frame.len());
        let batch = Batch::of(bytes);
        let ids: Vec<_> =
            batch.frames().map(|json| Envelope::read(json).unwrap().id.into_owned()).collect();
        assert_eq!(ids, ["0000000000000000", "0000000000000001"]);
        assert!(batch.frames().all(is_message));
    }
}
