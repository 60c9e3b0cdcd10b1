//! Policy: who may say what to whom, whose name wants a key, and how often one may speak to another.
//!
//! A policy is made once, from a file, and only read from then on: it is shared behind an `Arc`, and a
//! reload puts another in its place. What changes as messages go by is in [`Pairs`].

mod glob;
mod pairs;

pub use glob::{Glob, GlobError};
pub use pairs::{PER_MINUTE_MAX, Pairs};

use crate::protocol::{
    name::{Name, OPERATOR, RELAY},
    secret::Hash,
};
use std::{collections::HashMap, num::NonZeroU32};

/// The most rules: each message is held against all of them, at worst.
pub const RULES_MAX: usize = 1_000;

/// The most names with a key.
pub const KEYS_MAX: usize = 4_096;

/// What the owner has decided. Without anything in it, everything is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Hashes of the keys that these names want of a HELLO.
    pub keys: HashMap<Name, Hash>,
    /// The first that matches decides.
    pub rules: Vec<Rule>,
    /// How many messages a minute one may send another, each direction on its own: so that two agents
    /// don't answer each other for ever.
    pub per_pair_per_minute: Option<NonZeroU32>,
}

impl Policy {
    /// The hash of the key without which nobody gets this name.
    #[must_use]
    pub fn key_of(&self, name: &Name) -> Option<&Hash> {
        self.keys.get(name)
    }

    /// Whether `from` may say something to `to`, on this topic or on none.
    ///
    /// `to` is one recipient: what is said to everyone or to a topic is judged for each. For a request
    /// to `@relay` the topic is the request. A companion speaks under its agent's name.
    #[must_use]
    pub fn allows(&self, from: &str, to: &str, topic: Option<&str>) -> bool {
        self.rule_against(from, to, topic).is_none()
    }

    /// The rule that forbids it.
    ///
    /// None does where the operator asks `@relay`: the file is the operator's own, and with a rule against
    /// everyone nobody could put a better one in force.
    #[must_use]
    pub fn rule_against(&self, from: &str, to: &str, topic: Option<&str>) -> Option<&Rule> {
        if from == OPERATOR && to == RELAY {
            return None;
        }
        let first = self.rules.iter().find(|rule| rule.matches(from, to, topic));
        first.filter(|rule| !rule.allow)
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Who speaks.
    pub from: Glob,
    /// Who would hear it.
    pub to: Glob,
    /// On which topic.
    pub topic: Glob,
    /// What it decides.
    pub allow: bool,
    /// Where it stands in its file.
    pub line: usize,
}

impl Rule {
    /// Whether it is about this message. No topic is an empty one.
    #[must_use]
    pub fn matches(&self, from: &str, to: &str, topic: Option<&str>) -> bool {
        self.from.matches(from)
            && self.to.matches(to)
            && self.topic.matches(topic.unwrap_or_default())
    }

    /// What the sender is told where this rule forbids it.
    #[must_use]
    pub fn refusal(&self, from: &str, to: &str) -> String {
        format!("{from} may not say this to {to}: line {} of policy.toml forbids it", self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule a line, `FROM TO TOPIC yes|no`; `-` is an empty topic.
    fn policy(rules: &str) -> Policy {
        let rule = |(at, line): (usize, &str)| {
            let [from, to, topic, allow] =
                line.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
            Rule {
                from: Glob::name(from).unwrap(),
                to: Glob::name(to).unwrap(),
                topic: Glob::topic(topic.trim_matches('-')).unwrap(),
                allow: allow == "yes",
                line: at + 1,
            }
        };
        Policy { rules: rules.lines().enumerate().map(rule).collect(), ..Policy::default() }
    }

    #[track_caller]
    fn check(policy: &Policy, from: &str, to: &str, topic: Option<&str>, line: Option<usize>) {
        let against = policy.rule_against(from, to, topic).map(|rule| rule.line);
        assert_eq!(against, line, "{from} to {to} on {topic:?}");
        assert_eq!(policy.allows(from, to, topic), line.is_none());
    }

    #[test]
    fn without_rules_everything_is_allowed() {
        check(&Policy::default(), "Ann", "Bob", None, None);
        check(&Policy::default(), "@guest-1a2b3c4d", "@relay", Some("stop"), None);
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = policy("Ann Bob * yes\nAnn * * no\n* Ann chat yes\n* Ann * no");
        check(&policy, "Ann", "Bob", Some("any"), None);
        check(&policy, "Ann", "Cid", None, Some(2));
        check(&policy, "Bob", "Ann", Some("chat"), None);
        check(&policy, "Bob", "Ann", None, Some(4));
        check(&policy, "Bob", "Cid", None, None);
    }

    #[test]
    fn names_are_compared_without_case_and_topics_with_it() {
        let policy = policy("ann BOB Chat no");
        check(&policy, "ANN", "bob", Some("Chat"), Some(1));
        check(&policy, "Ann", "Bob", Some("chat"), None);
    }

    #[test]
    fn any_topic_is_also_none_and_none_can_be_named() {
        check(&policy("* * * no"), "Ann", "Bob", None, Some(1));
        check(&policy("* * - no"), "Ann", "Bob", None, Some(1));
        check(&policy("* * - no"), "Ann", "Bob", Some("chat"), None);
        check(&policy("* * chat* no"), "Ann", "Bob", None, None);
    }

    #[test]
    fn what_relay_is_asked_is_the_topic() {
        let policy = policy("Ann @relay history no\n@guest-* @relay * no");
        check(&policy, "Ann", "@relay", Some("history"), Some(1));
        check(&policy, "Ann", "@relay", Some("status"), None);
        check(&policy, "@guest-1a2b3c4d", "@relay", Some("agents"), Some(2));
        check(&policy, "@guest-1a2b3c4d", "Ann", None, None);
    }

    #[test]
    fn operators_can_be_kept_from_agents_but_not_from_their_own_daemon() {
        let policy = policy("@operator Ann * no\n* * * no");
        check(&policy, "@operator", "Ann", None, Some(1));
        check(&policy, "@operator", "Bob", None, Some(2));
        check(&policy, "@operator", "@relay", Some("reload"), None);
        check(&policy, "@guest-00000000", "@relay", Some("reload"), Some(2));
    }

    #[test]
    fn a_refusal_names_both_and_the_line() {
        assert_eq!(
            policy("* * * no").rules[0].refusal("Ann", "Bob"),
            "Ann may not say this to Bob: line 1 of policy.toml forbids it"
        );
    }

    #[test]
    fn a_key_is_found_in_whatever_case() {
        let name = |text| Name::parse(text).unwrap();
        let policy = Policy { keys: HashMap::from([(name("Ann"), [1; 32])]), ..Policy::default() };
        assert_eq!(policy.key_of(&name("ANN")), Some(&[1; 32]));
        assert_eq!(policy.key_of(&name("Bob")), None);
    }
}
