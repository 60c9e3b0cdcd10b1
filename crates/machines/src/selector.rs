//! Selectors of agents: a name, or a pattern of names.

use protocol::{glob::Glob, name::Name};
use std::fmt;

/// The most names that a line lists.
const LISTED_MAX: usize = 20;

/// An agent of one machine, or all agents with names that match a pattern. In a pattern, `*` is any
/// run of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The agent of this name, whether its daemon knows it or not.
    Name(Name),
    /// The agents with such names.
    Pattern(Glob),
}

impl Selector {
    /// Reads a name, or a pattern. The error is a sentence.
    ///
    /// # Errors
    /// If no agent of one machine can have such a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.contains('*') {
            return Name::parse(text).map(Self::Name).map_err(|why| why.to_string());
        }
        match Glob::name(text) {
            Ok(_) if text.contains('@') => {
                Err("only agents of one machine are selected, so it has no @".to_owned())
            }
            Ok(glob) => Ok(Self::Pattern(glob)),
            Err(why) => Err(why.to_string()),
        }
    }

    /// The name of the only agent that is selected.
    #[must_use]
    pub const fn name(&self) -> Option<&Name> {
        match self {
            Self::Name(name) => Some(name),
            Self::Pattern(_) => None,
        }
    }

    /// Whether this is a pattern.
    #[must_use]
    pub const fn is_pattern(&self) -> bool {
        matches!(self, Self::Pattern(_))
    }

    /// Whether an agent of the machine is selected.
    #[must_use]
    pub fn selects(&self, name: &Name) -> bool {
        match self {
            Self::Name(selected) => selected == name,
            Self::Pattern(glob) => glob.matches(name.as_str()),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name(name) => name.as_str(),
            Self::Pattern(glob) => glob.as_str(),
        })
    }
}

/// The names for a line: the first ones, and the number of the others.
#[must_use]
pub fn listed(names: &[Name]) -> String {
    let (first, more) = names.split_at(names.len().min(LISTED_MAX));
    let first: Vec<_> = first.iter().map(Name::as_str).collect();
    match more.len() {
        _ if first.is_empty() => "no agent".to_owned(),
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_names_and_patterns_of_one_machine() {
        let selects = |text: &str, name: &str| {
            Selector::parse(text).unwrap().selects(&Name::parse(name).unwrap())
        };
        assert!(selects("Web-*", "web-1") && selects("*", "Ann") && selects("ANN", "Ann"));
        assert!(!selects("web-*", "web") && !selects("web-*", "my-web-1") && !selects("Ann", "Al"));
        for text in ["", "a b", "*@pi", "@guest-*", "@*", "Bob@pi", "all", "-*", "web-*-"] {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn many_names_are_counted() {
        let names: Vec<_> = (0..23).map(|n| Name::parse(&format!("a{n}")).unwrap()).collect();
        assert_eq!(listed(&names[..0]), "no agent");
        assert_eq!(listed(&names[..2]), "a0, a1");
        assert!(listed(&names).ends_with(", a18, a19 and 3 more"));
    }
}
