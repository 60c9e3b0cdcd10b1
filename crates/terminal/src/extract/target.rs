//! The recipient that a message names.

use protocol::{
    name::{self, EVERYONE, GUEST, GUEST_DIGITS, Name, OPERATOR},
    topic,
};

/// The recipient of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// An agent's name, `*`, a group, or the name of a person's command line.
    pub(super) to: String,
    /// The topic after `#`; its subscribers are the recipients.
    pub(super) topic: Option<String>,
}

impl Target {
    /// Parses the text after the arrow, or a block's `to`.
    ///
    /// # Errors
    ///
    /// If the text names no recipient: a clause that says why.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(topic) = text.strip_prefix('#') {
            return match topic::check(topic) {
                Ok(()) => Ok(Self { to: EVERYONE.to_owned(), topic: Some(topic.to_owned()) }),
                Err(_) => Err(format!("`{}` is not a topic that can be sent to", shorten(text))),
            };
        }
        let everyone = (text == EVERYONE).then(|| EVERYONE.to_owned());
        let agent = || Name::parse_any(&text.replacen("\\@", "@", 1)).ok();
        let to = everyone
            .or_else(|| agent().map(|name| name.as_str().to_owned()))
            .or_else(|| command_line(text))
            .or_else(|| group(text));
        let unknown = || format!("`{}` is not an agent's name", shorten(text));
        to.map(|to| Self { to, topic: None }).ok_or_else(unknown)
    }
}

/// Other names that agents use for the command line of a person who asked them something. The name
/// in the frame is also accepted.
const PERSONS: [&str; 2] = ["operator", "user"];

/// Returns the name of a person's command line. In the header of a frame, the name may have a
/// backslash, if the program would attach a file after an `@`. The sending wrapper ensures that
/// such a message is an answer.
fn command_line(text: &str) -> Option<String> {
    let text = text.strip_prefix('\\').unwrap_or(text);
    let word = text.strip_prefix('@').unwrap_or(text);
    if PERSONS.iter().any(|person| person.eq_ignore_ascii_case(word)) {
        return Some(OPERATOR.to_owned());
    }
    let digits = text.strip_prefix(GUEST)?;
    let is_guest = digits.len() == GUEST_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_guest.then(|| text.to_owned())
}

/// Returns the address of a group. Like a command line's name, it may have a backslash.
fn group(text: &str) -> Option<String> {
    let text = text.strip_prefix('\\').unwrap_or(text);
    name::group_of(text).map(|_| text.to_owned())
}

/// Shortens foreign text for use in a sentence, and removes its control characters.
pub(super) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_accepted_by_each_name_and_other_addresses_are_groups() {
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
            ("@reviewers", Some("@reviewers")),
            ("\\@reviewers", Some("@reviewers")),
            ("@guests", None),
            ("\\\\@operator", None),
        ] {
            let target = Target::parse(text).ok().map(|target| target.to);
            assert_eq!(target.as_deref(), name, "{text}");
        }
    }
}
