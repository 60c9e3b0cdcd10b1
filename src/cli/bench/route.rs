//! The two paths a message can take from one end of the bench to the other: the floor, and a daemon.

use crate::protocol::{
    envelope::{Envelope, Header, Kind, stated_kind},
    frame::{self, Decoder, FRAME_BYTES_MAX, Frames},
    payload::{Capabilities, Empty, Fault, Heartbeat, Hello, MessagePayload},
};
use platform::{endpoint::Endpoint, peer::User, transport::Stream};
use std::io::{self, Read, Write};

/// Digits of a bench message's id, patched into the frame for each message.
const ID_DIGITS: usize = 16;

/// The daemon that is measured.
pub(super) struct Daemon {
    pub(super) endpoint: Endpoint,
    /// Who may run it beside this user, the system and administrators.
    pub(super) server: Option<User>,
}

/// One end of a connection: whole frames in, bytes out.
pub(super) struct End {
    stream: Stream,
    decoder: Decoder,
}

impl End {
    /// Connects, and says nothing.
    pub(super) fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        Stream::connect(endpoint).map(Self::over)
    }

    fn over(stream: Stream) -> Self {
        Self { stream, decoder: Decoder::new(FRAME_BYTES_MAX) }
    }

    /// Connects and joins a daemon as an agent.
    pub(super) fn join(daemon: &Daemon, name: &str, window: u64) -> io::Result<Self> {
        let stream = Stream::connect_among(&daemon.endpoint, daemon.server.as_slice())?;
        let mut end = Self::over(stream);
        let capabilities = Capabilities { max_inflight: window, ..Capabilities::default() };
        let hello = Hello { agent: Some(name.to_owned()), capabilities, ..Hello::default() };
        end.say(&Header::new(Kind::Hello, "hello", 0), &hello)?;
        end.await_kind(Kind::Welcome)?;
        Ok(end)
    }

    /// Subscribes to a topic and waits for the daemon's word.
    pub(super) fn subscribe(&mut self, topic: &str) -> io::Result<()> {
        let header = Header { topic: Some(topic), ..Header::new(Kind::Subscribe, "subscribe", 0) };
        self.say(&header, &Empty {})?;
        self.await_kind(Kind::Ack)
    }

    /// Writes everything.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.stream).write_all(bytes)
    }

    /// Reads once and counts the messages in it; a PING is answered.
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

    /// Reads once and shows every frame with its kind; a PING is answered, a refusal ends the bench.
    pub(super) fn read_kinds(&mut self, mut each: impl FnMut(Kind, &[u8])) -> io::Result<()> {
        let mut others = Vec::new();
        for json in self.read()? {
            match stated_kind(json) {
                Some(kind @ (Kind::Ack | Kind::Deliver)) => each(kind, json),
                _ => others.push(json.to_vec()),
            }
        }
        others.iter().try_for_each(|json| self.answer(json))
    }

    /// Writes while another thread has this end to read from.
    pub(super) fn writer(&self) -> impl Fn(&[u8]) -> io::Result<()> + use<> {
        let stream = self.stream.clone();
        move |bytes| (&stream).write_all(bytes)
    }

    /// Ends the connection, whoever waits on it.
    pub(super) fn hang_up(&self) -> impl FnOnce() + Send + use<> {
        let stream = self.stream.clone();
        move || stream.hang_up()
    }

    /// The next whole frames, in place: counting them must not cost what the daemon is measured by.
    fn read(&mut self) -> io::Result<Frames<'_>> {
        while !self.decoder.has_next() {
            let count = (&self.stream).read(self.decoder.space())?;
            if count == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other side closed"));
            }
            self.decoder.filled(count);
        }
        let taken = self.decoder.take().map_err(|violation| invalid(&violation.to_string()))?;
        Ok(taken.expect("it has whole frames"))
    }

    fn say(&self, header: &Header<'_>, payload: &impl serde::Serialize) -> io::Result<()> {
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

    /// A PING gets its PONG; an ERROR or a refusal ends the bench.
    fn answer(&self, json: &[u8]) -> io::Result<()> {
        let envelope = Envelope::read(json).map_err(|error| invalid(&error.to_string()))?;
        match envelope.kind {
            Kind::Ping => {
                let ping: Heartbeat = envelope
                    .typed(envelope.payload)
                    .map_err(|error| invalid(&error.to_string()))?;
                self.say(&Header::new(Kind::Pong, "pong", 0), &ping)
            }
            Kind::Error => {
                let fault: Result<Fault, _> = envelope.typed(envelope.payload);
                Err(invalid(&fault.map_or_else(|error| error.to_string(), |fault| fault.message)))
            }
            Kind::Nack | Kind::Busy => Err(invalid(envelope.payload)),
            _ => Ok(()),
        }
    }
}

/// A DELIVER of ours, or on the floor the SEND itself.
fn is_message(json: &[u8]) -> bool {
    json.starts_with(b"{\"v\":1,\"type\":\"DELIVER\"")
        || json.starts_with(b"{\"v\":1,\"type\":\"SEND\"")
}

pub(super) fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A SEND's frame whose id can be changed in place.
#[derive(Clone)]
pub(super) struct Template {
    frame: Vec<u8>,
    id_at: usize,
    next: u64,
}

impl Template {
    /// To an agent or on a topic, with a body of so many bytes.
    pub(super) fn new(to: Option<&str>, topic: Option<&str>, body_bytes: usize) -> Self {
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
        let place = frame.windows(ID_DIGITS).position(|window| window == id.as_bytes());
        Self { frame, id_at: place.expect("the frame holds its id"), next: 0 }
    }

    /// The same, at least once. Its ids begin with `next`: what the daemon has taken before, it knows.
    pub(super) fn acknowledged(to: &str, body_bytes: usize, next: u64) -> Self {
        let plain = Self::new(Some(to), None, body_bytes);
        let mut frame = plain.frame;
        frame.pop();
        frame.extend_from_slice(br#","payload_meta":{"requires_ack":true}}"#);
        frame::seal(&mut frame, 0, 0);
        Self { frame, id_at: plain.id_at, next }
    }

    /// Appends one frame with an id of its own.
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
    use crate::protocol::frame::Batch;

    #[test]
    fn each_frame_of_a_template_has_an_id_of_its_own() {
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
