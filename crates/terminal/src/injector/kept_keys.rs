//! The person's keys that are kept back while a text is being typed.

use super::interference::Interference;

/// The bytes of kept keys, to be written after the text.
#[derive(Debug, Default)]
pub(super) struct KeptKeys {
    bytes: Vec<u8>,
    /// Whether one of the keys submits a line.
    has_submit: bool,
}

impl KeptKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the kind of the kept keys.
    pub(super) fn interference(&self) -> Interference {
        if self.is_empty() { Interference::None } else { Interference::of(self.has_submit) }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn add(&mut self, bytes: &[u8], has_submit: bool) {
        self.bytes.extend_from_slice(bytes);
        self.has_submit |= has_submit;
    }

    /// Takes all keys. Returns them, and whether one of them submits a line; `None` if there are
    /// none.
    pub(super) fn take(&mut self) -> Option<(Vec<u8>, bool)> {
        let Self { bytes, has_submit } = std::mem::take(self);
        (!bytes.is_empty()).then_some((bytes, has_submit))
    }
}
