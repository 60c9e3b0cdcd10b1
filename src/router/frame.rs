//! A frame on its way out, in up to two parts.

use std::sync::Arc;

/// A frame's bytes with its length in front: the recipient's own part, and the part shared by
/// recipients.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The length, and all or the first part of the JSON.
    pub head: Vec<u8>,
    /// The rest, made once for all recipients.
    pub shared: Option<Arc<[u8]>>,
}

impl Frame {
    /// Returns the length of the frame: its head and its shared part.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.head.len() + self.shared.as_ref().map_or(0, |shared| shared.len())
    }
}
