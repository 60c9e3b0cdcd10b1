//! Topics and the patterns of subscriptions.

use std::{fmt, sync::Arc};

/// The longest topic, in bytes; a thread's and a correlation id's bound too.
pub const TOPIC_BYTES_MAX: usize = 256;

/// Checks a topic that something is sent on: tokens split by `.`, none empty, no wildcard.
pub fn check(topic: &str) -> Result<(), TopicError> {
    check_tokens(topic)?;
    if topic.split('.').any(|token| token == "*" || token == ">") {
        return Err(TopicError::Wildcard);
    }
    Ok(())
}

/// A subscription's topic: `*` is any one token, a final `>` any one or more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// Checks a subscription's topic.
    pub fn parse(text: &str) -> Result<Self, TopicError> {
        check_tokens(text)?;
        let tokens = text.split('.').count();
        match text.split('.').position(|token| token == ">") {
            Some(place) if place + 1 < tokens => Err(TopicError::TailNotLast),
            _ => Ok(Self(text.into())),
        }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same, to share.
    #[must_use]
    pub const fn text(&self) -> &Arc<str> {
        &self.0
    }

    /// Whether it has no wildcard, and so matches just the topic it spells.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        check(&self.0).is_ok()
    }

    /// Whether a message on `topic` is meant.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        let mut tokens = topic.split('.');
        for wanted in self.0.split('.') {
            match (wanted, tokens.next()) {
                (_, None) => return false,
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(token)) if wanted == token => {}
                _ => return false,
            }
        }
        tokens.next().is_none()
    }
}

fn check_tokens(text: &str) -> Result<(), TopicError> {
    if text.len() > TOPIC_BYTES_MAX {
        return Err(TopicError::TooLong);
    }
    if text.split('.').any(str::is_empty) {
        return Err(TopicError::EmptyToken);
    }
    Ok(())
}

/// Why a text is no topic, or no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicError {
    /// Over [`TOPIC_BYTES_MAX`].
    TooLong,
    /// Empty, or two dots in a row, or a dot at an end.
    EmptyToken,
    /// `*` or `>` where something is sent.
    Wildcard,
    /// `>` before the end of a pattern.
    TailNotLast,
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a topic has at most 256 bytes",
            Self::EmptyToken => "a topic is one or more tokens split by '.', none of them empty",
            Self::Wildcard => "a message is sent on one topic: '*' and '>' are for subscriptions",
            Self::TailNotLast => "'>' stands at the end of a pattern only",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_have_tokens_and_no_wildcards() {
        for good in ["a", "build.linux", "a.b.c", "ä.ö", "x*y.z>"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        assert_eq!(check(&"t".repeat(256)), Ok(()));
        assert_eq!(check(&"t".repeat(257)), Err(TopicError::TooLong));
        for bad in ["", ".", "a.", ".a", "a..b"] {
            assert_eq!(check(bad), Err(TopicError::EmptyToken), "{bad:?}");
        }
        for wild in ["*", ">", "a.*", "a.>"] {
            assert_eq!(check(wild), Err(TopicError::Wildcard), "{wild}");
        }
    }

    #[track_caller]
    fn matched(pattern: &str, topic: &str, expected: bool) {
        assert_eq!(Pattern::parse(pattern).unwrap().matches(topic), expected, "{pattern} {topic}");
    }

    #[test]
    fn patterns_match_by_token() {
        matched("build", "build", true);
        matched("build", "build.x", false);
        matched("build.*", "build.x", true);
        matched("build.*", "build.x.y", false);
        matched("build.*", "build", false);
        matched("*.x", "build.x", true);
        matched("build.>", "build.x", true);
        matched("build.>", "build.x.y", true);
        matched("build.>", "build", false);
        matched(">", "a.b", true);
        matched("*", "a", true);
        matched("*", "a.b", false);
        assert_eq!(Pattern::parse("a.>.b"), Err(TopicError::TailNotLast));
        assert_eq!(Pattern::parse("a..b"), Err(TopicError::EmptyToken));
        assert!(Pattern::parse("a.b").unwrap().is_literal());
        assert!(!Pattern::parse("a.*").unwrap().is_literal());
    }
}
