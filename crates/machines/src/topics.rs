//! Messages to several recipients that cross: on topics, and to everyone.

use protocol::topic::Pattern;

/// The most patterns of topics.
pub const PATTERNS_MAX: usize = 64;

/// The messages to several recipients that this side sends to other machines and takes from them.
/// None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topics {
    /// The topics.
    pub patterns: Vec<Pattern>,
    /// Whether messages to everyone cross that have no topic.
    pub broadcasts: bool,
}

impl Topics {
    /// Whether no message crosses.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.patterns.is_empty() && !self.broadcasts
    }

    /// Whether a message on this topic, or without one, crosses.
    #[must_use]
    pub fn includes(&self, topic: Option<&str>) -> bool {
        match topic {
            Some(topic) => self.patterns.iter().any(|pattern| pattern.matches(topic)),
            None => self.broadcasts,
        }
    }
}
