//! Whom a message may name.

use super::Target;

/// Names nobody may have, as people or the daemon are meant by them.
const RESERVED: [&str; 14] = [
    "user",
    "human",
    "owner",
    "operator",
    "overseer",
    "admin",
    "administrator",
    "root",
    "system",
    "assistant",
    "relay",
    "agent-relay",
    "cli",
    "all",
];

impl Target {
    /// Reads what stands after the arrow or in a block's `to`; the sentence says why not.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Everyone);
        }
        if let Some(topic) = text.strip_prefix('#') {
            return match sendable_topic(topic) {
                true => Ok(Self::Topic(topic.to_owned())),
                false => Err(format!("`{}` is no topic one can send to", shown(text))),
            };
        }
        match agent_name(text) {
            true => Ok(Self::Agent(text.to_owned())),
            false => Err(format!("`{}` is no agent's name", shown(text))),
        }
    }
}

/// Whether an agent can have this name.
fn agent_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    (1..=64).contains(&bytes.len())
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text))
        && !text.eq_ignore_ascii_case("everyone")
}

/// Whether a message can be sent to this topic: no wildcards, no empty token.
pub(super) fn sendable_topic(text: &str) -> bool {
    (1..=256).contains(&text.len())
        && text.split('.').all(|token| !token.is_empty() && token != "*" && token != ">")
        && !text.contains(char::is_control)
}

/// Foreign text for a sentence: short, and on one line.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
