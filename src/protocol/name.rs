//! Names of agents: what they may look like, and when two of them are the same.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// Names that nobody can have, in any case.
pub const RESERVED: [&str; 15] = [
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
    "everyone",
];

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The daemon's own name.
pub const RELAY: &str = "@relay";

/// The name of everybody who proved that he runs the place.
pub const OPERATOR: &str = "@operator";

/// What a guest's name begins with; [`GUEST_DIGITS`] hexadecimal digits follow.
pub const GUEST: &str = "@guest-";

/// Digits of a guest's name.
pub const GUEST_DIGITS: usize = 8;

/// Everyone, as a SEND's `to`.
pub const EVERYONE: &str = "*";

/// A name as its agent spells it; compared and hashed without case.
#[derive(Clone, Debug)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks that an agent may have this name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check(text).map(|()| Self(text.into()))
    }

    /// A name of the daemon's own making, such as `@guest-1a2b3c4d`.
    ///
    /// # Panics
    /// If it doesn't begin with `@`.
    #[must_use]
    pub fn made_by_daemon(text: &str) -> Self {
        assert!(text.starts_with('@'), "the daemon's names begin with @: {text}");
        Self(text.into())
    }

    /// The name as it is spelled.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `text` means this name.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        self.0.eq_ignore_ascii_case(text)
    }

    /// Whether a guest has it.
    #[must_use]
    pub fn is_guests(&self) -> bool {
        self.0.starts_with(GUEST)
    }

    /// Whether the daemon gave it (guests, operators, the daemon itself).
    #[must_use]
    pub fn is_daemons(&self) -> bool {
        is_daemons(&self.0)
    }

    /// The form in which equal names are equal strings.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.0.bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether the daemon gave this name, if it is one: then it is no agent's.
#[must_use]
pub fn is_daemons(text: &str) -> bool {
    text.starts_with('@')
}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
        return Err(NameError::Character);
    }
    let ends = [text.as_bytes()[0], text.as_bytes()[text.len() - 1]];
    if !ends.iter().all(u8::is_ascii_alphanumeric) {
        return Err(NameError::Ends);
    }
    if RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return Err(NameError::Reserved);
    }
    Ok(())
}

/// Why a text is no agent's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nothing in it.
    Empty,
    /// Over [`NAME_BYTES_MAX`].
    TooLong,
    /// A character that is not one of `A–Z a–z 0–9 . _ -`.
    Character,
    /// It begins or ends with something else than a letter or a digit.
    Ends,
    /// One of [`RESERVED`].
    Reserved,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a name has at least one character",
            Self::TooLong => "a name has at most 64 characters",
            Self::Character => {
                "a name is made of the letters A-Z and a-z, digits, '.', '_' and '-'"
            }
            Self::Ends => "a name begins and ends with a letter or a digit",
            Self::Reserved => "this name is reserved; choose another",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, why: NameError) {
        assert_eq!(Name::parse(text).unwrap_err(), why, "{text:?}");
    }

    #[test]
    fn names_are_short_plain_and_not_reserved() {
        for good in ["a", "Ann", "claude-1", "x.y_z-9", &"n".repeat(64), "users", "relay2"] {
            assert_eq!(Name::parse(good).unwrap().as_str(), good);
        }
        refused("", NameError::Empty);
        refused(&"n".repeat(65), NameError::TooLong);
        for odd in ["a b", "a/b", "ä", "a\n", "@relay", "*", "a:b", "Bоb"] {
            refused(odd, NameError::Character);
        }
        for ends in ["-a", "a-", ".a", "a_", "-"] {
            refused(ends, NameError::Ends);
        }
        for word in RESERVED {
            refused(word, NameError::Reserved);
            refused(&word.to_uppercase(), NameError::Reserved);
        }
    }

    #[test]
    fn case_is_kept_but_not_distinguished() {
        use std::collections::HashSet;
        let (upper, lower) = (Name::parse("Bob").unwrap(), Name::parse("bob").unwrap());
        assert_eq!(upper, lower);
        assert_eq!(upper.to_string(), "Bob");
        assert_eq!(upper.folded(), "bob");
        assert!(HashSet::from([upper]).contains(&lower));
    }
}
