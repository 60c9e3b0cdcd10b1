//! Patterns of names and topics in rules: `*` matches any run of characters, including none.
//!
//! No other character in a pattern is special, and a pattern always matches the whole name or
//! topic. A pattern that can never match is an error, since a rule that was meant to forbid would
//! then allow.

use crate::{
    name::{GUEST, GUEST_DIGITS, NAME_BYTES_MAX, Name, NameError, OPERATOR, RELAY},
    topic::{Pattern, TopicError},
};
use std::fmt;

/// A valid pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: Box<str>,
    /// Whether case is ignored, as for names; topics are compared with case.
    ignores_case: bool,
}

impl Glob {
    /// Parses a pattern of names: agents', and the daemon's own (`@relay`, `@operator`,
    /// `@guest-*`).
    pub fn name(text: &str) -> Result<Self, GlobError> {
        check_name(text)?;
        Ok(Self { text: text.into(), ignores_case: true })
    }

    /// Parses a pattern of topics. The empty pattern means no topic.
    pub fn topic(text: &str) -> Result<Self, GlobError> {
        check_topic(text)?;
        Ok(Self { text: text.into(), ignores_case: false })
    }

    /// Returns the pattern that matches every text, for a rule without a pattern.
    #[must_use]
    pub fn any() -> Self {
        Self { text: "*".into(), ignores_case: false }
    }

    /// Returns the pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches everything.
    #[must_use]
    pub fn is_any(&self) -> bool {
        &*self.text == "*"
    }

    /// Whether the pattern matches this whole text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        // Comparing bytes suffices: in UTF-8, no character begins inside another one.
        let (pattern, text) = (self.text.as_bytes(), text.as_bytes());
        let is_same = |one: u8, other: u8| match self.ignores_case {
            true => one.eq_ignore_ascii_case(&other),
            false => one == other,
        };
        self.is_any() || matches(pattern, text, is_same)
    }
}

fn matches(pattern: &[u8], text: &[u8], is_same: impl Fn(u8, u8) -> bool) -> bool {
    let (mut place, mut at) = (0, 0);
    // The pattern's position after the last star so far, and the end of that star's run in the
    // text. Only the last star's run has to grow: this star can match whatever an earlier one
    // would.
    let mut star = None;
    while let Some(byte) = text.get(at) {
        match pattern.get(place) {
            Some(b'*') => {
                place += 1;
                star = Some((place, at));
            }
            Some(wanted) if is_same(*wanted, *byte) => {
                place += 1;
                at += 1;
            }
            _ => {
                let Some((behind, end)) = star else { return false };
                (place, at) = (behind, end + 1);
                star = Some((behind, at));
            }
        }
    }
    pattern[place..].iter().all(|byte| *byte == b'*')
}

fn check_name(text: &str) -> Result<(), GlobError> {
    let Some(star) = text.find('*') else {
        let is_daemons = text.starts_with('@');
        return if is_daemons {
            check_daemons(text, true)
        } else {
            Ok(Name::parse_any(text).map(drop)?)
        };
    };
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong.into());
    }
    let rest = match text.strip_prefix('@') {
        Some(rest) => {
            check_daemons(&text[..star], false)?;
            rest.to_owned()
        }
        None => text.replacen('@', "", 1),
    };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte);
    if !rest.bytes().all(is_allowed) {
        return Err(NameError::Character.into());
    }
    if text.starts_with(['_', '-', '.']) || text.ends_with(['_', '-', '.', '@']) {
        return Err(NameError::Ends.into());
    }
    Ok(())
}

/// Checks a name of the daemon's own, or the beginning of such a name.
fn check_daemons(text: &str, is_whole: bool) -> Result<(), GlobError> {
    let text = text.to_ascii_lowercase();
    let is_known = match text.strip_prefix(GUEST) {
        Some(digits) => {
            let count = digits.len();
            let is_long = if is_whole { count == GUEST_DIGITS } else { count <= GUEST_DIGITS };
            is_long && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        }
        None if is_whole => [RELAY, OPERATOR].contains(&&*text),
        None => [RELAY, OPERATOR, GUEST].iter().any(|name| name.starts_with(&*text)),
    };
    if is_known { Ok(()) } else { Err(GlobError::Daemons) }
}

fn check_topic(text: &str) -> Result<(), GlobError> {
    if text.is_empty() {
        return Ok(());
    }
    if text.split('.').any(|token| token == ">") {
        return Err(GlobError::Tail);
    }
    Pattern::parse(text)?;
    Ok(())
}

/// The reason why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlobError {
    /// No agent can have such a name.
    Name(NameError),
    /// The text begins with `@` and is not one of the daemon's own names.
    Daemons,
    /// No topic matches the text.
    Topic(TopicError),
    /// The text has a `>`, which is valid in subscriptions only.
    Tail,
}

impl From<NameError> for GlobError {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<TopicError> for GlobError {
    fn from(error: TopicError) -> Self {
        Self::Topic(error)
    }
}

impl fmt::Display for GlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(f, "{error}, and `*` is any run of characters"),
            Self::Daemons => {
                f.write_str("with @ begin only @relay, @operator and @guest- with eight digits")
            }
            Self::Topic(error) => write!(f, "{error}, and `*` is any run of characters"),
            Self::Tail => {
                f.write_str("'>' is for subscriptions; here `*` is any run of characters")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn matched(pattern: &str, text: &str, expected: bool) {
        assert_eq!(Glob::topic(pattern).unwrap().matches(text), expected, "{pattern} {text}");
    }

    #[test]
    fn star_matches_any_run_of_characters() {
        matched("*", "", true);
        matched("*", "a.b", true);
        matched("**", "", true);
        matched("build.*", "build.x.y", true);
        matched("build.*", "build.", true);
        matched("build.*", "build", false);
        matched("build*", "build", true);
        matched("*.x", "a.b.x", true);
        matched("a*b*c", "a-b-b-c", true);
        matched("a*b*c", "a-c-b", false);
        matched("*ab", "aab", true);
        matched("*ä*", "xäy", true);
        matched("a?c", "abc", false);
        matched("[a]", "a", false);
    }

    #[test]
    fn pattern_matches_the_whole_text_only() {
        matched("build", "build", true);
        matched("build", "build2", false);
        matched("build", "rebuild", false);
        matched("", "", true);
        matched("", "a", false);
    }

    /// Returns all texts of these letters, up to `most` long.
    fn texts(letters: &str, most: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..most {
            let to = all.len();
            for at in from..to {
                all.extend(
                    letters
                        .chars()
                        .map(|letter| format!("{}{letter}", all[at]))
                        .collect::<Vec<_>>(),
                );
            }
            from = to;
        }
        all
    }

    #[test]
    fn matching_agrees_with_the_definition_for_all_short_texts() {
        fn defined(pattern: &[u8], text: &[u8]) -> bool {
            match pattern.split_first() {
                None => text.is_empty(),
                Some((b'*', rest)) => (0..=text.len()).any(|run| defined(rest, &text[run..])),
                Some((first, rest)) => text.first() == Some(first) && defined(rest, &text[1..]),
            }
        }
        for pattern in texts("ab*", 5) {
            for text in texts("ab", 6) {
                let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
                let found = matches(pattern, text, |one, other| one == other);
                assert_eq!(found, defined(pattern, text), "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn impossible_names_are_refused() {
        for good in ["*", "Ann", "a*", "*-1", "claude-*", "*n*", "@*", "@relay", "*@pi"] {
            assert_eq!(Glob::name(good).map(|glob| glob.as_str().to_owned()), Ok(good.to_owned()));
        }
        for good in ["@guest-*", "@guest-1A2b3c4d", "@g*", "@*1", "@Operator", "Ann@*", "Ann@pi"] {
            assert!(Glob::name(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", NameError::Empty),
            ("Ann ", NameError::Character),
            ("A nn*", NameError::Character),
            ("a@*@b", NameError::Character),
            ("*@", NameError::Ends),
            ("-a*", NameError::Ends),
            ("*.", NameError::Ends),
            ("root", NameError::Reserved),
        ] {
            assert_eq!(Glob::name(bad), Err(why.into()), "{bad:?}");
        }
        assert_eq!(Glob::name(&"n".repeat(65)), Err(NameError::TooLong.into()));
        assert_eq!(Glob::name(&format!("*{}", "n".repeat(97))), Err(NameError::TooLong.into()));
        for bad in
            ["@", "@rely", "@guest", "@guest-", "@guest-1", "@gest-*", "@guest-x*", "@relay2*"]
        {
            assert_eq!(Glob::name(bad), Err(GlobError::Daemons), "{bad:?}");
        }
    }

    #[test]
    fn impossible_topics_are_refused() {
        for good in ["", "a", "a.b", "*.x", "a.*", "a*", "dead-letters", "ä.ö"] {
            assert!(Glob::topic(good).is_ok(), "{good}");
        }
        for bad in [".", "a.", "a..*", ".*"] {
            assert_eq!(Glob::topic(bad), Err(TopicError::EmptyToken.into()), "{bad:?}");
        }
        for bad in [">", "a.>", "a.>.b"] {
            assert_eq!(Glob::topic(bad), Err(GlobError::Tail), "{bad:?}");
        }
        assert_eq!(Glob::topic(&"t".repeat(257)), Err(TopicError::TooLong.into()));
    }
}
