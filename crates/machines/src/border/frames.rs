//! The frames that cross a border: messages, their refusals, and answers to questions. They have no
//! length, since not every transport needs one.

use protocol::{
    Now,
    envelope::{Header, Kind},
    name::{EVERYONE, Name},
    payload::{Ack, Nack},
};

/// The form of a name in a frame.
pub(super) fn address(name: &Name) -> &str {
    if name.is_all() { EVERYONE } else { name.as_str() }
}

/// The sender and the recipient of a frame, each named as on its own machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    pub(super) from: &'a Name,
    pub(super) to: &'a Name,
}

impl<'a> Way<'a> {
    fn header(self, now: Now, kind: Kind, id: &'a str) -> Header<'a> {
        let (from, to) = (Some(address(self.from)), Some(address(self.to)));
        Header { from, to, ..Header::new(kind, id, now.unix_ms) }
    }

    /// A message, with the bytes of its payload and `payload_meta`.
    pub(super) fn send(
        self,
        now: Now,
        id: &str,
        topic: Option<&str>,
        payload: &str,
        meta: Option<&str>,
    ) -> Vec<u8> {
        let header = Header { topic, ..self.header(now, Kind::Send, id) };
        let meta = meta.map(|meta| ("payload_meta", meta));
        let mut json = Vec::new();
        header.append_raw_envelope(&mut json, [("payload", payload)].into_iter().chain(meta));
        json
    }

    /// An answer to a question, which is the message with the id `ack.ack_id`.
    pub(super) fn answer(self, now: Now, id: &str, ack: &Ack<'_>) -> Vec<u8> {
        let mut json = Vec::new();
        self.header(now, Kind::Ack, id).append_envelope(&mut json, ack);
        json
    }

    /// The refusal of the message with the id `nack.ack_id`.
    pub(super) fn refusal(self, now: Now, id: &str, nack: &Nack) -> Vec<u8> {
        let mut json = Vec::new();
        self.header(now, Kind::Nack, id).append_envelope(&mut json, nack);
        json
    }
}
