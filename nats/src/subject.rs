//! Subjects of NATS, and the tokens in them.
//!
//! A message for agent `Bob` of host `pi` from host `desk` has the subject `relay.pi.desk.bob`. A
//! token is a name in lower case with `~` for `.`, because NATS compares case and splits at dots,
//! and names do neither. No name has a `~`, so the mapping can be inverted except for case.

use std::fmt;

/// The stream that holds all messages between hosts.
pub const STREAM: &str = "RELAY";

/// The first token of every message's subject.
pub const MESSAGES: &str = "relay";

/// The first token of every subject of presence.
pub const PRESENCE: &str = "relay-here";

/// The longest name of a host or an agent, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A host's name: 1 to 64 characters out of `A–Z a–z 0–9 . _ -`, the first and the last of them a
/// letter or a digit. Compared without case.
#[derive(Clone, Debug)]
pub struct Host(String);

impl Host {
    /// Checks a text and makes it a host's name.
    ///
    /// # Errors
    /// If the text is no name: a sentence that quotes it and says what a name is.
    pub fn parse(text: &str) -> Result<Self, String> {
        if is_name(text) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "{text:?} is not a host's name; use 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' \
             or '-', with a letter or digit first and last"
        ))
    }

    /// The name in its spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as a token of a subject, which is also the name of the host's consumer.
    #[must_use]
    pub fn token(&self) -> Token {
        Token::of(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name as a token of a subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(String);

impl Token {
    fn of(name: &str) -> Self {
        Self(name.to_ascii_lowercase().replace('.', "~"))
    }

    /// The token of an agent's name, or `None` if the text is not a name.
    #[must_use]
    pub fn of_agent(name: &str) -> Option<Self> {
        is_name(name).then(|| Self::of(name))
    }

    /// The token in a subject that was received, or `None` if no name has that token.
    #[must_use]
    pub fn received(text: &str) -> Option<Self> {
        let token = Self(text.to_owned());
        let name = token.name();
        (is_name(&name) && Self::of(&name) == token).then_some(token)
    }

    /// The token's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, in lower case.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.replace('~', ".")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The subject of messages from host `from` to an agent of host `to`.
#[must_use]
pub fn messages(to: &Token, from: &Token, agent: &Token) -> String {
    format!("{MESSAGES}.{to}.{from}.{agent}")
}

/// The filter that matches every message to `host`.
#[must_use]
pub fn filter(host: &Token) -> String {
    format!("{MESSAGES}.{host}.>")
}

/// The sender's host in the subject of a message that was received by `here`, or `None` if the
/// subject is not one of a message to `here`.
#[must_use]
pub fn sender(subject: &str, here: &Token) -> Option<Token> {
    let mut tokens = subject.split('.');
    let [first, to, from, agent] = [tokens.next()?, tokens.next()?, tokens.next()?, tokens.next()?];
    let matches = first == MESSAGES && to == here.as_str() && tokens.next().is_none();
    (matches && Token::received(agent).is_some()).then(|| Token::received(from))?
}

/// The subject on which `host` says that it is present.
#[must_use]
pub fn presence(host: &Token) -> String {
    format!("{PRESENCE}.{host}")
}

/// The host in a subject of presence, or `None` if the subject is another one.
#[must_use]
pub fn present(subject: &str) -> Option<Token> {
    Token::received(subject.strip_prefix(PRESENCE)?.strip_prefix('.')?)
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    bytes.len() <= NAME_BYTES_MAX
        && first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str) -> Token {
        Host::parse(name).unwrap().token()
    }

    #[test]
    fn token_of_name_has_no_dot_and_no_case() {
        assert_eq!(token("Pi.Lab-1").as_str(), "pi~lab-1");
        assert_eq!(token("Pi.Lab-1").name(), "pi.lab-1");
        assert_eq!(token("PI"), token("pi"));
    }

    #[test]
    fn text_that_is_no_name_is_refused_and_quoted() {
        for text in ["", ".", "a.", "-a", "a b", "a>", "*", "a~b", "é", &"a".repeat(65)] {
            let error = Host::parse(text).unwrap_err();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn sender_is_read_only_from_subjects_of_messages_to_this_host() {
        let pi = token("pi");
        assert_eq!(sender("relay.pi.desk~1.bob", &pi), Some(token("desk.1")));
        for subject in [
            "relay.desk.pi.bob",
            "relay.pi.desk",
            "relay.pi.desk.bob.x",
            "relay.pi.Desk.bob",
            "relay.pi.~.bob",
            "relay-here.pi",
            "other.pi.desk.bob",
            "",
        ] {
            assert_eq!(sender(subject, &pi), None, "{subject}");
        }
    }

    #[test]
    fn presence_is_read_only_from_its_own_subjects() {
        assert_eq!(present(&presence(&token("a.b"))), Some(token("a.b")));
        for subject in ["relay-here", "relay-here.A", "relay-here.a.b", "relay.a", "relay-here."] {
            assert_eq!(present(subject), None, "{subject}");
        }
    }
}
