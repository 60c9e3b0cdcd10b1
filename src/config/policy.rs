//! policy.toml: the names that require a key, the rules of who may send to whom, and the rate
//! limit.
//!
//! A rule without effect would allow what its author wants to forbid, so everything unknown is an
//! error. Errors name the line, and never repeat the value of a `key`.

mod words;

pub use words::{in_words, keyed_names};

use super::invalid::{Invalid, check_count};
use client::home::{
    ConfigError, is_absent,
    parse::{self, Table, line_at, whole_number},
    text,
};
use protocol::{
    glob::{Glob, GlobError},
    name::Name,
    secret::{self, Secret},
};
use router::policy::{KEYS_MAX, PER_MINUTE_MAX, Policy, RULES_MAX, Rule};
use serde::{Deserialize, Deserializer, de::Error};
use std::{num::NonZeroU32, path::Path};
use toml::Spanned;

/// The file's name in the home directory.
pub const FILE: &str = "policy.toml";

/// Reads `<home>/policy.toml`. `None` if the file is missing.
pub fn load(home: &Path) -> Result<Option<Policy>, ConfigError> {
    let path = home.join(FILE);
    match text::read(&path) {
        Ok(text) => parse(&path, &text).map(Some),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(ConfigError::unreadable(&path, &error)),
    }
}

/// The error for a home without a policy.toml although its rules were in force.
pub(crate) fn missing(home: &Path) -> ConfigError {
    ConfigError {
        path: home.join(FILE),
        line: None,
        reason:
            "the file is missing, but its rules were in force; restore it, or run `agent-relay \
                 policy clear` to go on without rules"
                .to_owned(),
    }
}

/// Reads a file that has to exist.
pub fn read(path: &Path) -> Result<Policy, ConfigError> {
    let text = text::read(path).map_err(|error| ConfigError::unreadable(path, &error))?;
    parse(path, &text)
}

/// Parses the text of a file; `path` is for errors.
pub fn parse(path: &Path, text: &str) -> Result<Policy, ConfigError> {
    let file: File = parse::parse(path, text)?;
    policy(text, file).map_err(|invalid| invalid.of_file(path, text))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    agent: Vec<Spanned<Table<AgentEntry>>>,
    #[serde(default)]
    rule: Vec<Spanned<Table<RuleEntry>>>,
    limits: Option<Table<Limits>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentEntry {
    name: Option<Spanned<String>>,
    key: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    #[serde(default = "Glob::any", deserialize_with = "name_pattern")]
    from: Glob,
    #[serde(default = "Glob::any", deserialize_with = "name_pattern")]
    to: Glob,
    #[serde(default = "Glob::any", deserialize_with = "topic_pattern")]
    topic: Glob,
    allow: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    #[serde(default, deserialize_with = "per_minute")]
    per_pair_per_minute: Option<NonZeroU32>,
}

fn name_pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Glob, D::Error> {
    pattern(deserializer, Glob::name)
}

fn topic_pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Glob, D::Error> {
    pattern(deserializer, Glob::topic)
}

fn pattern<'de, D: Deserializer<'de>>(
    deserializer: D,
    check: fn(&str) -> Result<Glob, GlobError>,
) -> Result<Glob, D::Error> {
    check(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn per_minute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroU32>, D::Error> {
    let number = whole_number::<_, 1, { PER_MINUTE_MAX as u64 }>(deserializer)?;
    Ok(u32::try_from(number).ok().and_then(NonZeroU32::new))
}

fn policy(text: &str, file: File) -> Result<Policy, Invalid> {
    check_count(&file.agent, "agent", KEYS_MAX)?;
    check_count(&file.rule, "rule", RULES_MAX)?;
    let mut policy = Policy::default();
    for agent in &file.agent {
        add_key(&mut policy, agent)?;
    }
    for rule in file.rule {
        policy.rules.push(self::rule(text, rule)?);
    }
    policy.per_pair_per_minute = file.limits.and_then(|Table(limits)| limits.per_pair_per_minute);
    Ok(policy)
}

fn add_key(policy: &mut Policy, agent: &Spanned<Table<AgentEntry>>) -> Result<(), Invalid> {
    let missing = |key: &str| Invalid::at(agent, format!("[[agent]] has no `{key}`"));
    let Table(entry) = agent.get_ref();
    let name_value = entry.name.as_ref().ok_or_else(|| missing("name"))?;
    let key_value = entry.key.as_ref().ok_or_else(|| missing("key"))?;
    let name = Name::parse(name_value.get_ref())
        .map_err(|why| Invalid::at(name_value, format!("`name`: {why}")))?;
    let key = key_value.get_ref();
    let hash = secret::parse_hash(key).ok_or_else(|| {
        let reason = match Secret::parse(key) {
            Some(_) => format!(
                "`key` is the key itself, which is no longer secret; make another with \
                 `agent-relay policy key {name}`, and put its hash here"
            ),
            None => format!(
                "`key` is `sha256:` and 64 digits, as `agent-relay policy key {name}` prints it"
            ),
        };
        Invalid::at(key_value, reason)
    })?;
    if policy.keys.contains_key(&name) {
        let reason = format!("{name} has a key already; leave one of the two out");
        return Err(Invalid::at(name_value, reason));
    }
    policy.keys.insert(name, hash);
    Ok(())
}

fn rule(text: &str, rule: Spanned<Table<RuleEntry>>) -> Result<Rule, Invalid> {
    let missing = Invalid::at(&rule, "[[rule]] has no `allow`".to_owned());
    let line = line_at(text, rule.span().start);
    let Table(RuleEntry { from, to, topic, allow }) = rule.into_inner();
    Ok(Rule { from, to, topic, allow: allow.ok_or(missing)?, line })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn parsed(text: &str) -> Result<Policy, ConfigError> {
        parse(Path::new("policy.toml"), text)
    }

    #[track_caller]
    fn refused(text: &str, words: &str) {
        assert_eq!(parsed(text).unwrap_err().to_string(), words);
    }

    /// Compares the error of each of these files.
    fn check(texts: &[&str], expected: &Expect) {
        let said = texts.iter().map(|text| format!("{}\n", parsed(text).unwrap_err()));
        expected.assert_eq(&said.collect::<String>());
    }

    fn hash() -> String {
        secret::hash_text(&[7; 32])
    }

    #[test]
    fn empty_or_missing_file_forbids_nothing() {
        assert_eq!(parsed("# nothing\n"), Ok(Policy::default()));
        assert_eq!(parsed("[limits]\n"), Ok(Policy::default()));
        assert_eq!(load(Path::new("/nonexistent/home")), Ok(None));
        assert!(read(Path::new("/nonexistent/policy.toml")).is_err());
    }

    #[test]
    fn every_key_is_read_and_rules_keep_their_order() {
        let text = format!(
            "[[rule]]\nfrom = 'Ann'\nto = 'B*'\ntopic = 'chat'\nallow = true\n\n\
             [[agent]]\nname = 'Ann'\nkey = '{}'\n\n[[rule]]\nallow = false\n\n\
             [limits]\nper_pair_per_minute = 30\n",
            hash()
        );
        let policy = parsed(&text).unwrap();
        assert_eq!(policy.key_of(&Name::parse("ann").unwrap()), Some(&[7; 32]));
        assert_eq!(policy.per_pair_per_minute, NonZeroU32::new(30));
        let rules: Vec<_> = policy.rules.iter().map(|rule| (rule.line, rule.allow)).collect();
        assert_eq!(rules, [(1, true), (11, false)]);
        assert_eq!(policy.rule_against("ANN", "bob", Some("chat")), None);
        assert_eq!(policy.rule_against("Ann", "Bob", Some("Chat")), Some(&policy.rules[1]));
    }

    #[test]
    fn unknown_key_is_reported_with_its_line() {
        check(
            &[
                "\nrules = 1",
                "[[agent]]\nname = 'Ann'\nhash = 'x'",
                "\n[[rule]]\nform = 'Ann'\nallow = false",
                "[limits]\nper_minute = 1",
                &format!("{} = 1", "x".repeat(100)),
            ],
            &expect![[r#"
                policy.toml:2: unknown key "rules" (did you mean "rule"?)
                policy.toml:3: unknown key "hash"; the keys are name, key
                policy.toml:3: unknown key "form" (did you mean "from"?)
                policy.toml:2: unknown key "per_minute"; the keys are per_pair_per_minute
                policy.toml:1: unknown key "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"; the keys are agent, rule, limits
            "#]],
        );
    }

    #[test]
    fn bad_value_is_reported_with_line_and_expectation() {
        check(
            &[
                "[agent]\nname = 'Ann'",
                "rule = 1",
                "rule = [1]",
                "\nlimits = 1",
                "[[limits]]\nper_pair_per_minute = 1",
                "[[agent]]\nkey = 'x'",
                "\n[[agent]]\nname = 'Ann'",
                "[[agent]]\nkey = 'x'\nname = 'root'",
                "[[agent]]\nkey = 'x'\nname = 7",
                "[[agent]]\nname = 'Ann'\nkey = 7",
                "[[rule]]\nfrom = 'Ann'",
                "[[rule]]\nallow = 'no'",
                "[[rule]]\nallow = false\nfrom = ''",
                "[[rule]]\nallow = false\nfrom = 7",
                "[[rule]]\nallow = false\nto = '@gest-*'",
                "[[rule]]\nallow = false\ntopic = 'build.>'",
                "[[rule]]\nallow = false\ntopic = 'a..b'",
            ],
            &expect![[r#"
                policy.toml:1: `agent`: expected a list: each item begins with [[agent]]
                policy.toml:1: `rule`: expected a list: each item begins with [[rule]]
                policy.toml:1: `rule`: expected a table, with its keys below it
                policy.toml:2: `limits`: expected a table, with its keys below it
                policy.toml:1: `limits`: expected a table, with its keys below it
                policy.toml:1: [[agent]] has no `name`
                policy.toml:2: [[agent]] has no `key`
                policy.toml:3: `name`: this name is reserved; choose another
                policy.toml:3: `name`: expected a text in quotes
                policy.toml:3: `key`: expected a text in quotes
                policy.toml:1: [[rule]] has no `allow`
                policy.toml:2: `allow`: expected true or false, without quotes
                policy.toml:3: `from`: a name has at least one character, and `*` is any run of characters
                policy.toml:3: `from`: expected a text in quotes
                policy.toml:3: `to`: with @ begin only @relay, @operator and @guest- with eight digits
                policy.toml:3: `topic`: '>' is for subscriptions; here `*` is any run of characters
                policy.toml:3: `topic`: a topic is one or more tokens split by '.', none of them empty, and `*` is any run of characters
            "#]],
        );
    }

    #[test]
    fn limit_out_of_range_is_refused() {
        let words =
            "policy.toml:2: `per_pair_per_minute`: expected a whole number from 1 to 1000000";
        for value in ["0", "-1", "1000001", "1.0", "'30'", "true", "99999999999999999999"] {
            refused(&format!("[limits]\nper_pair_per_minute = {value}"), words);
        }
        let policy = parsed("limits.per_pair_per_minute = 0x10").unwrap();
        assert_eq!(policy.per_pair_per_minute, NonZeroU32::new(16));
    }

    #[test]
    fn second_key_of_a_name_is_refused() {
        let agent = |name: &str| format!("[[agent]]\nname = '{name}'\nkey = '{}'\n", hash());
        refused(
            &(agent("Ann") + &agent("Bob") + &agent("ANN")),
            "policy.toml:8: ANN has a key already; leave one of the two out",
        );
    }

    #[test]
    fn key_in_the_place_of_its_hash_is_refused_and_not_repeated() {
        let key = Secret::from_random([0xab; 32]);
        let key = key.reveal();
        refused(
            &format!("[[agent]]\nname = 'Ann'\nkey = '{key}'"),
            "policy.toml:3: `key` is the key itself, which is no longer secret; make another with \
             `agent-relay policy key Ann`, and put its hash here",
        );
        for wrong in [
            format!("[[agent]]\nname = 'Ann'\nkey = {key}"),
            format!("[[agent]]\nname = 'Ann'\nkey = '{key}"),
            format!("[[agent]]\nname = 'Ann'\nkey = 'sha256:{key}0'"),
            format!("[[agent]]\nname = 'Ann'\nkey = '{}'", key.to_uppercase()),
            format!("[[agent]]\nname = 'Ann'\nkey = ['{key}']"),
            format!("[[agent]]\nname = 'Ann'\n{key}"),
            format!("[[agent]]\nname = '{key}0'\nkey = 'x'"),
            format!("agent = '{key}'"),
            format!("agent = ['{key}']"),
            format!("[[agent]]\nname = ['{key}']"),
            format!("[[rule]]\nallow = '{key}'"),
        ] {
            let said = parsed(&wrong).unwrap_err().to_string();
            assert!(!said.to_lowercase().contains(&key[..8]), "{said}");
        }
    }

    #[test]
    fn broken_file_is_reported_with_its_line() {
        for (text, line) in [("\n[[rule]", 2), ("[[rule]]\nallow = false\nallow = true", 3)] {
            assert_eq!(parsed(text).unwrap_err().line, Some(line), "{text}");
        }
    }

    #[test]
    fn too_many_rules_and_deep_nesting_are_refused() {
        assert!(parsed(&"[[rule]]\nallow = true\n".repeat(RULES_MAX)).is_ok());
        refused(
            &"[[rule]]\nallow = true\n".repeat(RULES_MAX + 1),
            "policy.toml:2001: there are more than 1000 [[rule]]",
        );
        // Deep nesting is an error, and does not overflow the stack.
        assert!(parsed(&format!("rule = {}", "[".repeat(100_000))).is_err());
    }
}
