//! A policy in words, for its owner to read.

use protocol::name::{OPERATOR, RELAY};
use router::policy::{Policy, Rule};

/// Returns the names that require a key, in alphabetical order.
#[must_use]
pub fn keyed_names(policy: &Policy) -> Vec<&str> {
    let mut names: Vec<_> = policy.keys.keys().map(|name| name.as_str()).collect();
    names.sort_unstable_by_key(|name| name.to_ascii_lowercase());
    names
}

/// Returns the meaning of a policy, one sentence a line.
#[must_use]
pub fn in_words(policy: &Policy) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push(match keyed_names(policy) {
        names if names.is_empty() => "no name requires a key".to_owned(),
        names => format!("these names require their keys: {}", names.join(", ")),
    });
    for rule in &policy.rules {
        lines.push(format!("line {}: {}", rule.line, rule_in_words(rule)));
    }
    lines.push(match policy.rules.len() {
        0 => "there are no rules: anyone may send to anyone".to_owned(),
        _ => format!(
            "the first rule that matches decides; what no rule matches is allowed, and so is \
             every request of {OPERATOR} to {RELAY}"
        ),
    });
    lines.push(match policy.per_pair_per_minute {
        None => "there is no limit of messages a minute".to_owned(),
        Some(most) => format!("at most {most} messages a minute from one agent to another"),
    });
    lines
}

fn rule_in_words(rule: &Rule) -> String {
    let (from, to) = (rule.from.as_str(), rule.to.as_str());
    let subject = match (rule.from.is_any(), rule.allow) {
        (true, true) => "anyone may".to_owned(),
        (true, false) => "no one may".to_owned(),
        (false, true) => format!("{from} may"),
        (false, false) => format!("{from} may not"),
    };
    let to = if rule.to.is_any() { "anyone" } else { to };
    match (to.eq_ignore_ascii_case(RELAY), rule.topic.as_str()) {
        (true, "*") => format!("{subject} send any request to {to}"),
        (true, request) => format!("{subject} send the request {request:?} to {to}"),
        (false, "*") => format!("{subject} send to {to}"),
        (false, "") => format!("{subject} send to {to} without a topic"),
        (false, topic) => format!("{subject} send to {to} on {topic:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use protocol::secret;
    use std::path::Path;

    #[track_caller]
    fn check(text: &str, expected: &Expect) {
        let policy = super::super::parse(Path::new("policy.toml"), text).unwrap();
        expected.assert_eq(&in_words(&policy).join("\n"));
    }

    #[test]
    fn policy_is_described_in_words() {
        let hash = secret::hash_text(&[7; 32]);
        check(
            "",
            &expect![[r#"
                no name requires a key
                there are no rules: anyone may send to anyone
                there is no limit of messages a minute"#]],
        );
        check(
            &format!(
                "agent = [{{name = 'bob', key = '{hash}'}}, {{name = 'Ann', key = '{hash}'}}]\n\
                 rule = [\n{{from = 'Ann', to = 'B*', allow = true}},\n\
                 {{from = '@guest-*', to = '@relay', allow = false}},\n\
                 {{to = '@relay', topic = 'history', allow = false}},\n\
                 {{from = 'Ann', topic = '', allow = false}},\n\
                 {{topic = 'build.*', allow = true}},\n{{allow = false}}]\n\
                 limits.per_pair_per_minute = 30\n"
            ),
            &expect![[r#"
                these names require their keys: Ann, bob
                line 3: Ann may send to B*
                line 4: @guest-* may not send any request to @relay
                line 5: no one may send the request "history" to @relay
                line 6: Ann may not send to anyone without a topic
                line 7: anyone may send to anyone on "build.*"
                line 8: no one may send to anyone
                the first rule that matches decides; what no rule matches is allowed, and so is every request of @operator to @relay
                at most 30 messages a minute from one agent to another"#]],
        );
    }
}
