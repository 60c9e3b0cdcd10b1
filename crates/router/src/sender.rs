//! The parts of a SEND that its deliveries carry: its id, and the proof of its sender.

use protocol::{
    deliver::{Proof, SenderText},
    record::MessageRecord,
};
use std::sync::Arc;

/// The session that a SEND came from, and the proof of its sender's name.
#[derive(Debug)]
pub(super) struct SenderAuth {
    pub(super) session: Arc<str>,
    pub(super) proof: Proof,
    /// Both, as DELIVERs state them.
    pub(super) text: SenderText,
}

impl SenderAuth {
    pub(super) fn new(session: Arc<str>, proof: Proof) -> Self {
        let text = SenderText::new(&session, proof);
        Self { session, proof, text }
    }

    /// The sender of a recorded message.
    pub(super) fn of_record(message: &MessageRecord) -> Arc<Self> {
        Arc::new(Self::new(message.session.clone(), message.proof))
    }
}

/// A copy of a SEND's id, for later answers. An id of at most 36 bytes is stored without an
/// allocation.
#[derive(Clone, Debug)]
pub(super) enum SendId {
    Short(u8, [u8; 36]),
    Long(Box<str>),
}

impl SendId {
    pub(super) fn new(text: &str) -> Self {
        let mut bytes = [0; 36];
        match bytes.get_mut(..text.len()) {
            Some(start) => {
                start.copy_from_slice(text.as_bytes());
                Self::Short(text.len() as u8, bytes)
            }
            None => Self::Long(text.into()),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Short(length, bytes) => std::str::from_utf8(&bytes[..usize::from(*length)])
                .expect("the bytes are a copy of a `str`"),
            Self::Long(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_ids_of_any_length_read_back() {
        for text in ["", "m-001", &"é".repeat(18), &"é".repeat(19), &"i".repeat(128)] {
            assert_eq!(SendId::new(text).as_str(), text);
        }
    }
}
