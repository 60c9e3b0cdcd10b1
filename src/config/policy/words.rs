//! What a policy means, for its owner to read.

use crate::{
    protocol::name::{OPERATOR, RELAY},
    router::policy::{Policy, Rule},
};

/// Names that want a key, in their order.
#[must_use]
pub fn keyed_names(policy: &Policy) -> Vec<&str> {
    let mut names: Vec<_> = policy.keys.keys().map(|name| name.as_str()).collect();
    names.sort_unstable_by_key(|name| name.to_ascii_lowercase());
    names
}

/// What a policy means, a sentence a line.
#[must_use]
pub fn in_words(policy: &Policy) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push(match keyed_names(policy) {
        names if names.is_empty() => "no name wants a key".to_owned(),
        names => format!("nobody gets these names without their keys: {}", names.join(", ")),
    });
    for rule in &policy.rules {
        lines.push(format!("line {}: {}", rule.line, rule_in_words(rule)));
    }
    lines.push(match policy.rules.len() {
        0 => "there are no rules: anybody may say anything to anybody".to_owned(),
        _ => format!(
            "the first line that matches decides; allowed is what none matches, and what {OPERATOR} asks \
             {RELAY}"
        ),
    });
    lines.push(match policy.per_pair_per_minute {
        None => "anybody may speak to anybody as often as they like".to_owned(),
        Some(most) => format!("at most {most} messages a minute from one to another"),
    });
    lines
}

fn rule_in_words(rule: &Rule) -> String {
    let (from, to) = (rule.from.as_str(), rule.to.as_str());
    let subject = match (rule.from.is_any(), rule.allow) {
        (true, true) => "anybody may".to_owned(),
        (true, false) => "nobody may".to_owned(),
        (false, true) => format!("{from} may"),
        (false, false) => format!("{from} may not"),
    };
    let to = if rule.to.is_any() { "anybody" } else { to };
    match (to.eq_ignore_ascii_case(RELAY), rule.topic.as_str()) {
        (true, "*") => format!("{subject} ask {to} for anything"),
        (true, request) => format!("{subject} ask {to} for {request:?}"),
        (false, "*") => format!("{subject} speak to {to}"),
        (false, "") => format!("{subject} speak to {to} without a topic"),
        (false, topic) => format!("{subject} speak to {to} on {topic:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::secret;
    use expect_test::{Expect, expect};
    use std::path::Path;

    #[track_caller]
    fn check(text: &str, expected: &Expect) {
        let policy = super::super::parse(Path::new("policy.toml"), text).unwrap();
        expected.assert_eq(&in_words(&policy).join("\n"));
    }

    #[test]
    fn a_policy_is_said_in_words() {
        let hash = secret::hash_text(&[7; 32]);
        check(
            "",
            &expect![[r#"
                no name wants a key
                there are no rules: anybody may say anything to anybody
                anybody may speak to anybody as often as they like"#]],
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
                nobody gets these names without their keys: Ann, bob
                line 3: Ann may speak to B*
                line 4: @guest-* may not ask @relay for anything
                line 5: nobody may ask @relay for "history"
                line 6: Ann may not speak to anybody without a topic
                line 7: anybody may speak to anybody on "build.*"
                line 8: nobody may speak to anybody
                the first line that matches decides; allowed is what none matches, and what @operator asks @relay
                at most 30 messages a minute from one to another"#]],
        );
    }
}
