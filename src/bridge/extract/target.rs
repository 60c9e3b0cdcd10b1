//! Whom a message may name.

use crate::protocol::name::{EVERYONE, Name};
use crate::protocol::topic;

/// Whom a message is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// An agent's name, or `*`.
    pub(super) to: String,
    /// What stood after `#`: only its subscribers are meant.
    pub(super) topic: Option<String>,
}

impl Target {
    /// Reads what stands after the arrow or in a block's `to`; the sentence says why not.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == EVERYONE {
            return Ok(Self { to: EVERYONE.to_owned(), topic: None });
        }
        if let Some(topic) = text.strip_prefix('#') {
            return match topic::check(topic) {
                Ok(()) => Ok(Self { to: EVERYONE.to_owned(), topic: Some(topic.to_owned()) }),
                Err(_) => Err(format!("`{}` is no topic one can send to", shown(text))),
            };
        }
        match Name::parse(text) {
            Ok(name) => Ok(Self { to: name.as_str().to_owned(), topic: None }),
            Err(_) => Err(format!("`{}` is no agent's name", shown(text))),
        }
    }
}

/// Foreign text for a sentence: short, and on one line.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
