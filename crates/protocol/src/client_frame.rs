//! Frames from clients, as the daemon's readers parse them: an envelope with its typed payload, or
//! the rule that the frame breaks.
//!
//! A [`ClientBatch`] owns the text of its frames, so that it can be handed to another thread. Its
//! envelopes are kept as ranges of that text.

use super::{
    code::{ErrorCode, Violation},
    envelope::{Envelope, Kind},
    frame::Frames,
    payload::{Ack, Bye, Heartbeat, Hello, Nack, SendMeta},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, ops::Range};
use uuid::Uuid;

/// The maximum number of frames in a batch. A short frame takes more memory once it is parsed.
pub(crate) const BATCH_FRAMES_MAX: usize = 256;

/// The maximum overhead of an allocation, in bytes.
const ALLOCATION_BYTES: usize = 32;

/// The most texts in a payload.
const TEXTS_MAX: usize = 12;

/// A frame from a client.
#[derive(Clone, Debug)]
pub enum ClientFrame<'b> {
    /// A valid envelope, and its payload or the error in it.
    Valid(Envelope<'b>, Result<&'b ClientPayload, &'b str>),
    /// A frame that is not a valid envelope.
    Malformed(&'b Malformed),
}

/// A frame that is not a valid envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The rule that the frame breaks.
    pub violation: Violation,
    /// The envelope's type, if it could be read.
    pub stated_kind: Option<Kind>,
}

/// The payload of a client's frame, by the envelope's type.
#[derive(Clone, Debug)]
pub enum ClientPayload {
    /// A HELLO.
    Hello(Box<Hello>),
    /// A RESUME. Its payload is parsed only when the router handles it, since parsed positions take
    /// more memory than their text.
    Resume,
    /// The part of a SEND's `payload_meta` that is for the daemon. The payload is not parsed.
    Send(SendMeta),
    /// An ACK.
    Ack(ClientAck),
    /// A NACK.
    Nack(Box<Nack>),
    /// A BYE.
    Bye(Box<Bye>),
    /// A PONG.
    Pong(Heartbeat),
    /// The unused payload of any other type.
    Unused,
}

/// A client's ACK: the acknowledgement of a delivery, and possibly the answer to its question.
#[derive(Clone, Debug, Default)]
pub struct ClientAck {
    /// The delivery's id; `None` if the stated text cannot be one.
    pub id: Option<Uuid>,
    /// The highest acknowledged sequence number; it acknowledges all up to it.
    pub cumulative_seq: Option<u64>,
    /// The answer to the question that the delivery asked.
    pub answer: Option<Box<Answer>>,
}

/// The answer in an ACK.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The delivery's id as the client stated it.
    pub ack_id: String,
    /// The question's correlation id.
    pub correlation_id: String,
    /// Whether the answer is yes.
    pub response: Option<bool>,
    /// The answer's data.
    pub response_data: Option<Box<RawValue>>,
}

/// Parsed frames of one client, in order.
#[derive(Debug, Default)]
pub struct ClientBatch {
    /// The JSON of the valid frames.
    text: String,
    frames: Vec<Parsed>,
    /// An upper bound for the bytes that `frames` hold elsewhere.
    held: usize,
}

#[derive(Debug)]
enum Parsed {
    Valid(Parts, Result<ClientPayload, Box<str>>),
    Malformed(Box<Malformed>),
}

/// A range of a batch's text.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

/// A string member of an envelope.
#[derive(Debug)]
enum Text {
    Span(Span),
    /// A string with escapes.
    Unescaped(Box<str>),
}

/// An envelope as ranges of its batch's text.
#[derive(Debug)]
struct Parts {
    kind: Kind,
    id: Text,
    from: Option<Text>,
    to: Option<Text>,
    topic: Option<Text>,
    payload: Span,
    payload_meta: Option<Span>,
    delivery: Option<Span>,
    json: Span,
}

impl ClientBatch {
    /// Parses the next frames, `BATCH_FRAMES_MAX` at most.
    #[must_use]
    pub fn parse(frames: &mut Frames<'_>) -> Self {
        let ahead = frames.clone().take(BATCH_FRAMES_MAX);
        let (count, bytes) =
            ahead.fold((0, 0), |(count, bytes), json| (count + 1, bytes + json.len()));
        let (text, parsed) = (String::with_capacity(bytes), Vec::with_capacity(count));
        let mut batch = Self { text, frames: parsed, held: 0 };
        for json in frames.take(BATCH_FRAMES_MAX) {
            batch.push(json);
        }
        batch
    }

    /// Parses one frame.
    #[must_use]
    pub fn of_frame(json: &[u8]) -> Self {
        let mut batch = Self::default();
        batch.push(json);
        batch
    }

    fn push(&mut self, json: &[u8]) {
        let parsed = match Envelope::read(json) {
            Ok(envelope) => {
                let start = self.text.len();
                self.text.push_str(envelope.json);
                let payload = payload_of(&envelope);
                self.held += match &payload {
                    Ok(payload) => payload.held(&envelope),
                    Err(why) => why.len() + ALLOCATION_BYTES,
                };
                let parts = Parts::of(envelope, start);
                self.held += parts.held();
                Parsed::Valid(parts, payload)
            }
            Err(violation) => {
                let stated_kind = super::envelope::stated_kind(json);
                let malformed = Box::new(Malformed { violation, stated_kind });
                let message_bytes = malformed.violation.message.len();
                self.held += size_of::<Malformed>() + message_bytes + 2 * ALLOCATION_BYTES;
                Parsed::Malformed(malformed)
            }
        };
        self.frames.push(parsed);
    }

    /// The number of frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether the batch has no frames.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// An upper bound for the bytes of memory that the batch holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.frames.capacity() * size_of::<Parsed>() + self.held
    }

    /// Returns the frame at this index.
    ///
    /// # Panics
    /// If the index is out of range.
    #[must_use]
    pub fn frame(&self, index: usize) -> ClientFrame<'_> {
        match &self.frames[index] {
            Parsed::Valid(parts, payload) => {
                let payload = payload.as_ref().map_err(|why| &**why);
                ClientFrame::Valid(parts.envelope(&self.text), payload)
            }
            Parsed::Malformed(malformed) => ClientFrame::Malformed(malformed),
        }
    }
}

impl ClientFrame<'_> {
    /// The number of bytes of the frame that the router may copy.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Valid(envelope, _) => envelope.json.len(),
            Self::Malformed(_) => 0,
        }
    }
}

impl Span {
    /// Returns the range of `part` in the batch's text, where its frame begins at `start`.
    fn of(part: &str, json: &str, start: usize) -> Self {
        let at = start + (part.as_ptr().addr() - json.as_ptr().addr());
        let bound = |at| u32::try_from(at).expect("a batch is shorter than 4 GiB");
        Self { start: bound(at), end: bound(at + part.len()) }
    }

    const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

impl Text {
    fn of(part: Cow<'_, str>, json: &str, start: usize) -> Self {
        match part {
            Cow::Borrowed(part) => Self::Span(Span::of(part, json, start)),
            Cow::Owned(text) => Self::Unescaped(text.into()),
        }
    }

    fn read<'b>(&'b self, text: &'b str) -> Cow<'b, str> {
        Cow::Borrowed(match self {
            Self::Span(span) => &text[span.range()],
            Self::Unescaped(text) => text,
        })
    }
}

impl ClientPayload {
    /// An upper bound for the bytes that the payload holds on the heap. Its texts are parts of its
    /// JSON, each in a separate allocation.
    fn held(&self, envelope: &Envelope<'_>) -> usize {
        let boxed = |size: usize| size + envelope.payload.len() + TEXTS_MAX * ALLOCATION_BYTES;
        match self {
            Self::Hello(_) => boxed(size_of::<Hello>()),
            Self::Send(SendMeta { sync: None, .. }) => 0,
            Self::Send(_) => envelope.payload_meta.map_or(0, str::len) + ALLOCATION_BYTES,
            Self::Ack(ClientAck { answer: None, .. }) => 0,
            Self::Ack(_) => boxed(size_of::<Answer>()),
            Self::Nack(_) => boxed(size_of::<Nack>()),
            Self::Bye(_) => boxed(size_of::<Bye>()),
            Self::Pong(Heartbeat { nonce }) if nonce.is_empty() => 0,
            Self::Pong(Heartbeat { nonce }) => nonce.len() + ALLOCATION_BYTES,
            Self::Resume | Self::Unused => 0,
        }
    }
}

impl Parts {
    /// The bytes of the texts that are held outside the batch's text.
    fn held(&self) -> usize {
        let texts = [Some(&self.id), self.from.as_ref(), self.to.as_ref(), self.topic.as_ref()];
        let held = texts.into_iter().flatten().map(|text| match text {
            Text::Span(_) => 0,
            Text::Unescaped(text) => text.len() + ALLOCATION_BYTES,
        });
        held.sum()
    }

    fn of(envelope: Envelope<'_>, start: usize) -> Self {
        let json = envelope.json;
        let text = |member| Text::of(member, json, start);
        let span = |member| Span::of(member, json, start);
        Self {
            kind: envelope.kind,
            id: text(envelope.id),
            from: envelope.from.map(text),
            to: envelope.to.map(text),
            topic: envelope.topic.map(text),
            payload: span(envelope.payload),
            payload_meta: envelope.payload_meta.map(span),
            delivery: envelope.delivery.map(span),
            json: span(json),
        }
    }

    fn envelope<'b>(&'b self, text: &'b str) -> Envelope<'b> {
        let member = |member: &'b Option<Text>| member.as_ref().map(|member| member.read(text));
        let span = |span: Span| &text[span.range()];
        Envelope {
            kind: self.kind,
            id: self.id.read(text),
            from: member(&self.from),
            to: member(&self.to),
            topic: member(&self.topic),
            payload: span(self.payload),
            payload_meta: self.payload_meta.map(span),
            delivery: self.delivery.map(span),
            json: span(self.json),
        }
    }
}

/// Decodes the payload of an envelope. The error is a sentence.
fn payload_of(envelope: &Envelope<'_>) -> Result<ClientPayload, Box<str>> {
    let json = envelope.payload;
    let payload = match envelope.kind {
        Kind::Hello => envelope.decode_member(json).map(ClientPayload::Hello),
        Kind::Resume => Ok(ClientPayload::Resume),
        Kind::Send => {
            let meta = envelope.payload_meta.map(|meta| envelope.decode_member(meta));
            meta.transpose().map(|meta| ClientPayload::Send(meta.unwrap_or_default()))
        }
        Kind::Ack => envelope.decode_member(json).map(|ack| ClientPayload::Ack(ClientAck::of(ack))),
        Kind::Nack => envelope.decode_member(json).map(ClientPayload::Nack),
        Kind::Bye => envelope.decode_member(json).map(ClientPayload::Bye),
        Kind::Pong => envelope.decode_member(json).map(ClientPayload::Pong),
        Kind::Subscribe
        | Kind::Unsubscribe
        | Kind::Welcome
        | Kind::Deliver
        | Kind::Ping
        | Kind::Error
        | Kind::Busy
        | Kind::Sync => Ok(ClientPayload::Unused),
    };
    payload.map_err(|violation| violation.message.into())
}

impl ClientAck {
    fn of(ack: Ack<'_>) -> Self {
        let answer = ack.correlation_id.map(|correlation_id| Answer {
            ack_id: ack.ack_id.to_string(),
            correlation_id,
            response: ack.response,
            response_data: ack.response_data.map(ToOwned::to_owned),
        });
        Self {
            id: Uuid::try_parse(&ack.ack_id).ok(),
            cumulative_seq: ack.cumulative_seq,
            answer: answer.map(Box::new),
        }
    }
}

/// Returns the violation of a payload with wrong members, for this reason.
#[must_use]
pub fn wrong_payload(envelope: &Envelope<'_>, why: &str) -> Violation {
    envelope.violation(ErrorCode::Invalid, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes counted for a batch of one frame, without its text and its entry.
    fn held(json: &str) -> usize {
        let batch = ClientBatch::of_frame(json.as_bytes());
        let own = batch.text.capacity() + batch.frames.capacity() * size_of::<Parsed>();
        batch.bytes() - own
    }

    #[test]
    fn payload_memory_is_counted() {
        let frame = |kind: &str, payload: &str| {
            held(&format!(r#"{{"v":1,"type":"{kind}","id":"a","ts":1,"payload":{payload}}}"#))
        };
        let long = "x".repeat(5_000);
        for (kind, member) in [("PONG", "nonce"), ("NACK", "ack_id"), ("BYE", "reason")] {
            assert!(frame(kind, &format!(r#"{{"{member}":"{long}"}}"#)) >= long.len(), "{kind}");
        }
        // The most frequent frames hold nothing else.
        assert_eq!(frame("PONG", r#"{"nonce":""}"#), 0);
        assert_eq!(frame("SEND", r#"{"body":"x"}"#), 0);
    }

    #[test]
    fn memory_of_malformed_frames_and_escaped_texts_is_counted() {
        assert!(held("{}") > size_of::<Malformed>());
        let ping = |topic| {
            held(&format!(
                r#"{{"v":1,"type":"PING","id":"a","ts":1,"topic":"{topic}","payload":{{}}}}"#
            ))
        };
        assert_eq!(ping("build"), 0);
        assert_eq!(ping(r"buil\u0064"), "build".len() + ALLOCATION_BYTES);
    }
}
