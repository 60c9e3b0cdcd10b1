//! The policy: which agent may send what to which, which names need a key, and how often one agent
//! may send to another.
//!
//! A policy never changes: it is shared behind an `Arc`, and a reload replaces it. The state of
//! rate limits, which changes with each message, is in `Pairs`.

mod pairs;

pub use pairs::PER_MINUTE_MAX;
pub(crate) use pairs::Pairs;

use protocol::{
    glob::Glob,
    name::{Name, OPERATOR, RELAY},
    secret::Hash,
};
use std::{collections::HashMap, num::NonZeroU32, sync::Arc};

/// The most rules. Each message is checked against all of them, at worst.
pub const RULES_MAX: usize = 1_000;

/// The most names with a key.
pub const KEYS_MAX: usize = 4_096;

/// The owner's policy. An empty policy allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The hash of the key that a HELLO for each of these names has to state.
    pub keys: HashMap<Name, Hash>,
    /// The rules, of which the first that matches decides.
    pub rules: Vec<Rule>,
    /// The most messages a minute from one agent to another, in each direction: two agents cannot
    /// answer each other without end.
    pub per_pair_per_minute: Option<NonZeroU32>,
}

impl Policy {
    /// Returns the hash of the key that a HELLO for this name has to state, if it needs one.
    #[must_use]
    pub fn key_of(&self, name: &Name) -> Option<&Hash> {
        self.keys.get(name)
    }

    /// Returns the rule that forbids a message from `from` to `to`, on this topic or on none, if
    /// one does.
    ///
    /// `to` is one recipient: a message to everyone or to a topic is checked for each. For a
    /// request to `@relay` the topic is the request. A companion sends under its agent's name.
    ///
    /// No rule forbids an operator's request to `@relay`: with a rule against everyone, the owner
    /// could not replace the policy any more.
    #[must_use]
    pub fn rule_against(&self, from: &str, to: &str, topic: Option<&str>) -> Option<&Rule> {
        if from == OPERATOR && to == RELAY {
            return None;
        }
        let first = self.rules.iter().find(|rule| rule.matches(from, to, topic));
        first.filter(|rule| !rule.allow)
    }
}

/// The rules of a policy that match a sender and a topic, so that a message to many compares only
/// these rules with each recipient.
#[derive(Clone, Debug)]
pub(crate) struct Applicable {
    policy: Arc<Policy>,
    /// The rules' indices, in order.
    rules: Vec<usize>,
}

impl Applicable {
    /// Returns the rules that match messages of `from` on this topic, or on none.
    pub(crate) fn new(policy: &Arc<Policy>, from: &str, topic: Option<&str>) -> Self {
        let rules = policy.rules.iter().enumerate();
        let rules = rules.filter(|(_, rule)| rule.matches_sender(from, topic));
        Self { rules: rules.map(|(at, _)| at).collect(), policy: policy.clone() }
    }

    /// Returns the number of rules.
    pub(crate) const fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether no rule matches.
    pub(crate) const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether the rules allow the message to this agent.
    pub(crate) fn allows(&self, to: &str) -> bool {
        let mut rules = self.rules.iter().map(|at| &self.policy.rules[*at]);
        rules.find(|rule| rule.to.matches(to)).is_none_or(|rule| rule.allow)
    }
}

/// A rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The sender.
    pub from: Glob,
    /// The recipient.
    pub to: Glob,
    /// The topic.
    pub topic: Glob,
    /// Whether the rule allows what it matches.
    pub allow: bool,
    /// The rule's line in its file.
    pub line: usize,
}

impl Rule {
    /// Whether the rule matches a message. A message without a topic has the empty topic.
    #[must_use]
    pub fn matches(&self, from: &str, to: &str, topic: Option<&str>) -> bool {
        self.to.matches(to) && self.matches_sender(from, topic)
    }

    fn matches_sender(&self, from: &str, topic: Option<&str>) -> bool {
        self.from.matches(from) && self.topic.matches(topic.unwrap_or_default())
    }

    /// Returns the answer to a sender whose message this rule forbids.
    pub(crate) fn refusal(&self, from: &str, to: &str) -> String {
        format!("{from} may not send this to {to}: line {} of policy.toml forbids it", self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a policy with one rule for each line, `FROM TO TOPIC yes|no`. `-` is the empty
    /// topic.
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
        let applicable = Applicable::new(&Arc::new(policy.clone()), from, topic);
        assert!(to == RELAY || applicable.allows(to) == line.is_none(), "{applicable:?}");
    }

    #[test]
    fn empty_policy_allows_everything() {
        check(&Policy::default(), "Ann", "Bob", None, None);
        check(&Policy::default(), "@guest-1a2b3c4d", "@relay", Some("stop"), None);
    }

    #[test]
    fn first_matching_rule_decides() {
        let policy = policy("Ann Bob * yes\nAnn * * no\n* Ann chat yes\n* Ann * no");
        check(&policy, "Ann", "Bob", Some("any"), None);
        check(&policy, "Ann", "Cid", None, Some(2));
        check(&policy, "Bob", "Ann", Some("chat"), None);
        check(&policy, "Bob", "Ann", None, Some(4));
        check(&policy, "Bob", "Cid", None, None);
    }

    #[test]
    fn names_ignore_case_and_topics_do_not() {
        let policy = policy("ann BOB Chat no");
        check(&policy, "ANN", "bob", Some("Chat"), Some(1));
        check(&policy, "Ann", "Bob", Some("chat"), None);
    }

    #[test]
    fn any_topic_includes_none() {
        check(&policy("* * * no"), "Ann", "Bob", None, Some(1));
        check(&policy("* * - no"), "Ann", "Bob", None, Some(1));
        check(&policy("* * - no"), "Ann", "Bob", Some("chat"), None);
        check(&policy("* * chat* no"), "Ann", "Bob", None, None);
    }

    #[test]
    fn requests_to_relay_match_as_topics() {
        let policy = policy("Ann @relay history no\n@guest-* @relay * no");
        check(&policy, "Ann", "@relay", Some("history"), Some(1));
        check(&policy, "Ann", "@relay", Some("status"), None);
        check(&policy, "@guest-1a2b3c4d", "@relay", Some("agents"), Some(2));
        check(&policy, "@guest-1a2b3c4d", "Ann", None, None);
    }

    #[test]
    fn rules_limit_operators_except_towards_relay() {
        let policy = policy("@operator Ann * no\n* * * no");
        check(&policy, "@operator", "Ann", None, Some(1));
        check(&policy, "@operator", "Bob", None, Some(2));
        check(&policy, "@operator", "@relay", Some("reload"), None);
        check(&policy, "@guest-00000000", "@relay", Some("reload"), Some(2));
    }

    #[test]
    fn refusal_names_sender_recipient_and_line() {
        assert_eq!(
            policy("* * * no").rules[0].refusal("Ann", "Bob"),
            "Ann may not send this to Bob: line 1 of policy.toml forbids it"
        );
    }

    #[test]
    fn key_lookup_ignores_case() {
        let name = |text| Name::parse(text).unwrap();
        let policy = Policy { keys: HashMap::from([(name("Ann"), [1; 32])]), ..Policy::default() };
        assert_eq!(policy.key_of(&name("ANN")), Some(&[1; 32]));
        assert_eq!(policy.key_of(&name("Bob")), None);
    }
}
