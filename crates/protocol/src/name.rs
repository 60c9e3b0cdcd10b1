//! Names of agents: their syntax, and their comparison without case.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// Names that no agent can have, in any case.
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

/// The longest name of an agent of this machine, in bytes.
pub const LOCAL_NAME_BYTES_MAX: usize = 64;

/// The longest name of a machine, in bytes.
pub const HOST_BYTES_MAX: usize = 32;

/// The longest name, in bytes: `NAME@HOST`, for an agent of another machine.
pub const NAME_BYTES_MAX: usize = LOCAL_NAME_BYTES_MAX + 1 + HOST_BYTES_MAX;

/// The daemon's own name.
pub const RELAY: &str = "@relay";

/// The name of all operators.
pub const OPERATOR: &str = "@operator";

/// The prefix of a guest's name; [`GUEST_DIGITS`] hexadecimal digits follow.
pub const GUEST: &str = "@guest-";

/// The beginning of guests' names, which no group's name may have.
const GUEST_WORD: &str = "guest";

/// The number of digits in a guest's name.
pub const GUEST_DIGITS: usize = 8;

/// The `to` of a SEND to everyone.
pub const EVERYONE: &str = "*";

/// The name of all agents of a machine together, which no agent has. On other machines it is
/// `all@HOST`.
pub const ALL: &str = "all";

/// A name in its agent's spelling; compared and hashed without case.
#[derive(Clone, Debug)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks a text and makes it the name of an agent of this machine.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check(text).map(|()| Self(text.into()))
    }

    /// Checks a text and makes it the name of an agent of another machine, `NAME@HOST`, or of all
    /// its agents, `all@HOST`.
    pub fn parse_remote(text: &str) -> Result<Self, NameError> {
        let (name, host) = text.split_once('@').ok_or(NameError::NoHost)?;
        if !name.eq_ignore_ascii_case(ALL) {
            check(name)?;
        }
        check_host(host)?;
        Ok(Self(text.into()))
    }

    /// Checks a text and makes it the name of an agent of this machine or another one.
    pub fn parse_any(text: &str) -> Result<Self, NameError> {
        if text.contains('@') { Self::parse_remote(text) } else { Self::parse(text) }
    }

    /// The name that an agent of another machine has on this one.
    ///
    /// # Panics
    /// If this is not the name of an agent of its machine.
    #[must_use]
    pub fn at(&self, host: &Host) -> Self {
        assert!(!self.0.contains('@'), "an agent is on one machine only: {self}");
        Self(format!("{self}@{host}").into())
    }

    /// The name of all agents of a machine together, on that machine.
    #[must_use]
    pub fn all() -> Self {
        Self(ALL.into())
    }

    /// Whether this is the name of all agents of this machine or another one.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.split('@').next().is_some_and(|name| name.eq_ignore_ascii_case(ALL))
    }

    /// The machine of an agent of another machine.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.0.split_once('@').filter(|(name, _)| !name.is_empty()).map(|(_, host)| host)
    }

    /// Makes a name that the daemon assigns, such as `@guest-1a2b3c4d`.
    ///
    /// # Panics
    /// If the text does not begin with `@`.
    #[must_use]
    pub fn made_by_daemon(text: &str) -> Self {
        assert!(text.starts_with('@'), "the daemon's names begin with @: {text}");
        Self(text.into())
    }

    /// The name in its spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `text` is this name, in any case.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.0.eq_ignore_ascii_case(text)
    }

    /// Whether this is the name of a guest.
    #[must_use]
    pub fn is_guests(&self) -> bool {
        self.0.starts_with(GUEST)
    }

    /// Whether the daemon assigned this name: to guests, operators or itself.
    #[must_use]
    pub fn is_daemons(&self) -> bool {
        is_daemons(&self.0)
    }

    /// The name in lower case, so that equal names are equal strings.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.matches(&other.0)
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

/// The name of a machine, in its owner's spelling; compared without case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host(Name);

impl Host {
    /// Checks a text and makes it a machine's name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check_host(text).map(|()| Self(Name(text.into())))
    }

    /// The name in its spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the first name that is a repetition of an earlier one.
#[must_use]
pub fn first_repeated<T: PartialEq>(names: &[T]) -> Option<&T> {
    let is_repeated = |(at, name): &(usize, &T)| names[..*at].contains(name);
    names.iter().enumerate().find(is_repeated).map(|(_, name)| name)
}

/// Whether a name has the form that the daemon assigns, which no agent's name has.
#[must_use]
pub fn is_daemons(text: &str) -> bool {
    text.starts_with('@')
}

/// Returns the name of the group in an address such as `@reviewers`. The addresses of the daemon,
/// of operators and of guests are not groups.
#[must_use]
pub fn group_of(address: &str) -> Option<&str> {
    address.strip_prefix('@').filter(|group| check_group(group).is_ok())
}

/// Checks the name of a group of agents, without its `@`.
///
/// # Errors
/// If an agent could not have the name, or if it begins like the name of a guest.
pub fn check_group(group: &str) -> Result<(), NameError> {
    check(group)?;
    let beginning = group.get(..GUEST_WORD.len());
    match beginning.is_some_and(|word| word.eq_ignore_ascii_case(GUEST_WORD)) {
        true => Err(NameError::Reserved),
        false => Ok(()),
    }
}

fn check(text: &str) -> Result<(), NameError> {
    check_word(text, LOCAL_NAME_BYTES_MAX, NameError::TooLong)?;
    if RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return Err(NameError::Reserved);
    }
    Ok(())
}

fn check_host(text: &str) -> Result<(), NameError> {
    check_word(text, HOST_BYTES_MAX, NameError::HostTooLong)
}

fn check_word(text: &str, bytes_max: usize, too_long: NameError) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > bytes_max {
        return Err(too_long);
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
        return Err(NameError::Character);
    }
    let ends = [text.as_bytes()[0], text.as_bytes()[text.len() - 1]];
    if !ends.iter().all(u8::is_ascii_alphanumeric) {
        return Err(NameError::Ends);
    }
    Ok(())
}

/// The reason why a text is not an agent's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The text is empty.
    Empty,
    /// The text is longer than [`LOCAL_NAME_BYTES_MAX`].
    TooLong,
    /// The machine's name is longer than [`HOST_BYTES_MAX`].
    HostTooLong,
    /// The text names no machine.
    NoHost,
    /// The text has a character that is not one of `A–Z a–z 0–9 . _ -`.
    Character,
    /// The text does not begin and end with a letter or a digit.
    Ends,
    /// The text is one of [`RESERVED`].
    Reserved,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a name has at least one character",
            Self::TooLong => "a name has at most 64 characters",
            Self::HostTooLong => "the name of a machine has at most 32 characters",
            Self::NoHost => "the name of an agent of another machine is NAME@HOST",
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
    fn names_have_a_length_an_alphabet_and_reserved_words() {
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
    fn name_of_another_machine_has_a_name_and_a_host() {
        let ann = Name::parse_remote("Ann@pi.local").unwrap();
        assert_eq!((ann.as_str(), ann.host()), ("Ann@pi.local", Some("pi.local")));
        assert_eq!(ann, Name::parse("Ann").unwrap().at(&Host::parse("PI.local").unwrap()));
        assert_eq!(Name::parse_any("Ann@pi.local").unwrap(), ann);
        assert_eq!(Name::parse_any("Ann").unwrap().host(), None);
        assert_eq!(Name::made_by_daemon("@relay").host(), None);
        for (text, why) in [
            ("Ann", NameError::NoHost),
            ("@pi", NameError::Empty),
            ("Ann@", NameError::Empty),
            ("Ann@pi@pi", NameError::Character),
            ("everyone@pi", NameError::Reserved),
            ("all@", NameError::Empty),
            ("Ann@-pi", NameError::Ends),
            (&format!("Ann@{}", "h".repeat(33)), NameError::HostTooLong),
            (&format!("{}@pi", "n".repeat(65)), NameError::TooLong),
        ] {
            assert_eq!(Name::parse_remote(text).unwrap_err(), why, "{text}");
        }
        refused("Ann@pi", NameError::Character);
    }

    #[test]
    fn all_agents_of_another_machine_have_a_name_that_no_agent_has() {
        let all = Name::parse_remote("ALL@pi").unwrap();
        assert_eq!(all, Name::all().at(&Host::parse("pi").unwrap()));
        assert!(all.is_all() && Name::all().is_all());
        for other in ["Ann@all", "allan@pi", "Ann"] {
            assert!(!Name::parse_any(other).unwrap().is_all(), "{other}");
        }
        refused("all", NameError::Reserved);
    }

    #[test]
    fn daemons_names_are_not_groups() {
        assert_eq!(group_of("@reviewers"), Some("reviewers"));
        for address in [
            "reviewers",
            "@",
            "@relay",
            "@Operator",
            "@guest",
            "@Guests",
            "@guest-1a2b3c4d",
            "@a@b",
            "@-a",
            "@user",
            "@*",
        ] {
            assert_eq!(group_of(address), None, "{address}");
        }
    }

    #[test]
    fn case_is_kept_and_ignored_in_comparisons() {
        use std::collections::HashSet;
        let (upper, lower) = (Name::parse("Bob").unwrap(), Name::parse("bob").unwrap());
        assert_eq!(upper, lower);
        assert_eq!(upper.to_string(), "Bob");
        assert_eq!(upper.folded(), "bob");
        assert!(HashSet::from([upper]).contains(&lower));
    }
}
