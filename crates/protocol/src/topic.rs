//! Topics and the patterns of subscriptions.

use std::{fmt, sync::Arc};

/// The longest topic, in bytes.
pub const TOPIC_BYTES_MAX: usize = 256;

/// Checks a message's topic: tokens separated by `.`, none empty, no wildcard.
pub fn check(topic: &str) -> Result<(), TopicError> {
    check_tokens(topic)?;
    if topic.split('.').any(|token| token == "*" || token == ">") {
        return Err(TopicError::Wildcard);
    }
    Ok(())
}

/// The pattern of a subscription. `*` matches one token, and a final `>` matches one or more.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// Checks a text and makes it a pattern.
    pub fn parse(text: &str) -> Result<Self, TopicError> {
        check_tokens(text)?;
        let tokens = text.split('.').count();
        match text.split('.').position(|token| token == ">") {
            Some(index) if index + 1 < tokens => Err(TopicError::TailNotLast),
            _ => Ok(Self(text.into())),
        }
    }

    /// The pattern's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The pattern's text, shared.
    #[must_use]
    pub const fn text(&self) -> &Arc<str> {
        &self.0
    }

    /// Whether the pattern has no wildcard, and matches only one topic.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        check(&self.0).is_ok()
    }

    /// Whether the pattern matches a topic.
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

/// The reason why a text is not a topic or not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicError {
    /// The text is longer than [`TOPIC_BYTES_MAX`].
    TooLong,
    /// The text has an empty token: two dots in a row, or a dot at an end.
    EmptyToken,
    /// A topic that is not a pattern has a `*` or `>`.
    Wildcard,
    /// The pattern has a `>` before its end.
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
    fn topics_have_no_empty_tokens_and_no_wildcards() {
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
        assert!(Pattern::parse(&format!("{}.>", "t".repeat(254))).is_ok());
        assert_eq!(Pattern::parse(&"t".repeat(257)), Err(TopicError::TooLong));
        assert!(Pattern::parse("a.b").unwrap().is_literal());
        assert!(!Pattern::parse("a.*").unwrap().is_literal());
    }
}
