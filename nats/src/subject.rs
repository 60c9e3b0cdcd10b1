//! Subjects of NATS, and the tokens in them.
//!
//! A message for agent `Bob` of host `pi` from host `desk` has the subject `relay.pi.desk.bob`. A
//! token is a name in lower case with `~` for `.`, because NATS compares subjects with case and
//! splits them at dots, unlike names. No name has a `~`, so the mapping can be inverted except for
//! case.

use protocol::name::{Host, Name};
use std::fmt;

/// The first token of every message's subject.
pub const MESSAGES: &str = "relay";

/// The first token of every subject of presence.
pub const PRESENCE: &str = "relay-here";

/// The first token of every subject of confirmations.
pub const CONFIRMATIONS: &str = "relay-done";

/// A name as a token of a subject. A host's is also the name of its consumer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(String);

impl Token {
    /// The token of a host.
    #[must_use]
    pub fn of_host(host: &Host) -> Self {
        Self::of(host.as_str())
    }

    /// The token of an agent.
    #[must_use]
    pub fn of_agent(agent: &Name) -> Self {
        Self::of(agent.as_str())
    }

    fn of(name: &str) -> Self {
        Self(name.to_ascii_lowercase().replace('.', "~"))
    }

    /// The token of a host in a subject that was received, or `None` if no host has that token.
    #[must_use]
    pub fn received(text: &str) -> Option<Self> {
        let token = Self::of(&text.replace('~', "."));
        (token.0 == text && Host::parse(&token.name()).is_ok()).then_some(token)
    }

    /// The host, in lower case. `None` if the token is not a host's.
    #[must_use]
    pub fn host(&self) -> Option<Host> {
        Host::parse(&self.name()).ok()
    }

    /// The token's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, in lower case.
    fn name(&self) -> String {
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

/// The stream of the messages to `host`.
///
/// Each host has its own, so that permissions can name it, and a flood fills only one.
#[must_use]
pub fn stream(host: &Token) -> String {
    format!("RELAY_{host}")
}

/// The filter that matches every message to `host`.
#[must_use]
pub fn filter(host: &Token) -> String {
    format!("{MESSAGES}.{host}.>")
}

/// The pattern of the subjects of messages to `host`.
#[must_use]
pub fn pattern(host: &Token) -> String {
    format!("{MESSAGES}.{host}.*.*")
}

/// The token that replaces the agent in the subjects that a stream keeps. No agent has it.
const ANY_AGENT: &str = "~";

/// The subject that the stream of `host` keeps for one of [`pattern`], as a destination of a
/// subject transform. All messages of one sending host get one subject, and the stream limits each
/// subject.
#[must_use]
pub fn kept(host: &Token) -> String {
    format!("{MESSAGES}.{host}.{{{{wildcard(1)}}}}.{ANY_AGENT}")
}

/// The sender's host in the subject of a message that was received by `here`, and the agent, if the
/// stream has kept it. `None` if the subject is not for a message to `here`.
#[must_use]
pub fn sender(subject: &str, here: &Token) -> Option<(Token, Option<Token>)> {
    let mut tokens = subject.split('.');
    let [first, to, from, agent] = [tokens.next()?, tokens.next()?, tokens.next()?, tokens.next()?];
    let matches = first == MESSAGES && to == here.as_str() && tokens.next().is_none();
    (matches && !agent.is_empty()).then_some(())?;
    let agent = (agent != ANY_AGENT).then(|| Token(agent.to_owned()));
    Some((Token::received(from)?, agent))
}

/// The subject for confirmations of frames, from `from` to `to`.
#[must_use]
pub fn confirmations(to: &Token, from: &str) -> String {
    format!("{CONFIRMATIONS}.{to}.{from}")
}

/// The host that confirms, in a subject that was received by `here`, or `None` if the subject is
/// another one.
#[must_use]
pub fn confirmer(subject: &str, here: &Token) -> Option<Token> {
    let rest = subject.strip_prefix(CONFIRMATIONS)?.strip_prefix('.')?;
    Token::received(rest.strip_prefix(here.as_str())?.strip_prefix('.')?)
}

/// The subject for announcements of `host`.
#[must_use]
pub fn presence(host: &Token) -> String {
    format!("{PRESENCE}.{host}")
}

/// The host in a subject of presence, or `None` if the subject is another one.
#[must_use]
pub fn present(subject: &str) -> Option<Token> {
    Token::received(subject.strip_prefix(PRESENCE)?.strip_prefix('.')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str) -> Token {
        Token::of_host(&Host::parse(name).unwrap())
    }

    #[test]
    fn token_of_name_has_no_dot_and_no_case() {
        assert_eq!(token("Pi.Lab-1").as_str(), "pi~lab-1");
        assert_eq!(token("Pi.Lab-1").host().unwrap().as_str(), "pi.lab-1");
        assert_eq!(token("PI"), token("pi"));
    }

    #[test]
    fn sender_is_read_only_from_subjects_of_messages_to_this_host() {
        let pi = token("pi");
        let bob = Token::of_agent(&Name::parse("Bob").unwrap());
        assert_eq!(sender("relay.pi.desk~1.bob", &pi), Some((token("desk.1"), Some(bob))));
        assert_eq!(sender("relay.pi.desk~1.~", &pi), Some((token("desk.1"), None)));
        for subject in [
            "relay.desk.pi.bob",
            "relay.pi.desk",
            "relay.pi.desk.bob.x",
            "relay.pi.Desk.bob",
            "relay.pi.~.bob",
            "relay.pi.desk.",
            "relay-here.pi",
            "other.pi.desk.bob",
            "",
        ] {
            assert_eq!(sender(subject, &pi), None, "{subject}");
        }
    }

    #[test]
    fn confirmer_is_read_only_from_subjects_of_confirmations_to_this_host() {
        let pi = token("pi");
        assert_eq!(confirmer(&confirmations(&pi, "desk~1"), &pi), Some(token("desk.1")));
        for subject in ["relay-done.desk.pi", "relay-done.pi", "relay-done.pi.A", "relay.pi.desk"] {
            assert_eq!(confirmer(subject, &pi), None, "{subject}");
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
