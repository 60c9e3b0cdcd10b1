//! Outgoing frames, in up to two parts.

use std::sync::Arc;

/// An outgoing frame: its length prefix and its JSON, in a part for one recipient and a part that
/// recipients share.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The length prefix, and all of the JSON or its first part; empty if `shared` is the whole
    /// frame.
    pub head: Vec<u8>,
    /// The rest of the frame, which is encoded once for all recipients.
    pub shared: Option<Arc<[u8]>>,
}

impl Frame {
    /// Returns the length of the frame: its head and its shared part.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.head.len() + self.shared.as_ref().map_or(0, |shared| shared.len())
    }
}
