//! Whom a message may name.

use crate::protocol::name::{EVERYONE, GUEST, GUEST_DIGITS, Name, OPERATOR};
use crate::protocol::topic;

/// Whom a message is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// An agent's name, `*`, or the name of a person's command line.
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
            Err(_) => match command_line(text) {
                Some(name) => Ok(Self { to: name, topic: None }),
                None => Err(format!("`{}` is no agent's name", shown(text))),
            },
        }
    }
}

/// What agents call a person's command line who has asked them something, beside its name in a frame.
const PERSONS: [&str; 2] = ["operator", "user"];

/// The name of a person's command line, as the header of a frame has it: with a backslash where the program
/// would attach what an `@` names. It can be answered, which who sends sees to.
fn command_line(text: &str) -> Option<String> {
    let text = text.strip_prefix('\\').unwrap_or(text);
    let word = text.strip_prefix('@').unwrap_or(text);
    if PERSONS.iter().any(|person| person.eq_ignore_ascii_case(word)) {
        return Some(OPERATOR.to_owned());
    }
    let digits = text.strip_prefix(GUEST)?;
    let is_guests = digits.len() == GUEST_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_guests.then(|| text.to_owned())
}

/// Foreign text for a sentence: short, and on one line.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_named_as_its_frame_names_it() {
        for (text, name) in [
            ("@operator", Some("@operator")),
            ("\\@operator", Some("@operator")),
            ("@Operator", Some("@operator")),
            ("operator", Some("@operator")),
            ("user", Some("@operator")),
            ("@user", Some("@operator")),
            ("@guest-1a2b3c4d", Some("@guest-1a2b3c4d")),
            ("\\@guest-1a2b3c4d", Some("@guest-1a2b3c4d")),
            ("guest-1a2b3c4d", Some("guest-1a2b3c4d")),
            ("@guest-1a2b3c4", None),
            ("@guest-1a2b3c4x", None),
            ("@guest-1a2b3c4d5", None),
            ("@relay", None),
            ("@", None),
            ("\\", None),
            ("\\Bob", None),
            ("@Bob", None),
            ("\\\\@operator", None),
        ] {
            let target = Target::parse(text).ok().map(|target| target.to);
            assert_eq!(target.as_deref(), name, "{text}");
        }
    }
}
