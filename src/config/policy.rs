//! policy.toml: whose name wants a key, who may say what to whom, and how often.
//!
//! Nothing in it is taken that may not mean what it looks like, since a rule without effect would open a
//! door. What is wrong is said with its line, and never with the value of a `key`.

mod words;

pub use words::{in_words, keyed_names};

use super::{ConfigError, is_absent, line_at, not_toml, text, whole};
use crate::{
    protocol::{
        name::Name,
        secret::{self, Secret},
    },
    router::policy::{Glob, GlobError, KEYS_MAX, PER_MINUTE_MAX, Policy, RULES_MAX, Rule},
};
use std::{io, num::NonZeroU32, path::Path};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The file's name in the home directory.
pub const FILE: &str = "policy.toml";

/// How much of an unknown key is repeated.
const SHOWN_CHARACTERS_MAX: usize = 40;

/// Reads `<home>/policy.toml`; where there is none, nothing is forbidden.
pub fn load(home: &Path) -> Result<Policy, ConfigError> {
    let path = home.join(FILE);
    match text::read(&path) {
        Ok(text) => parse(&path, &text),
        Err(error) if is_absent(&error) => Ok(Policy::default()),
        Err(error) => Err(unreadable(&path, &error)),
    }
}

/// Reads a file that has to be there.
pub fn read(path: &Path) -> Result<Policy, ConfigError> {
    let text = text::read(path).map_err(|error| unreadable(path, &error))?;
    parse(path, &text)
}

/// Reads the text of a file; `path` is for what is said about it.
pub fn parse(path: &Path, text: &str) -> Result<Policy, ConfigError> {
    let wrong = |(place, reason): Wrong| ConfigError {
        path: path.to_owned(),
        line: place.map(|place| line_at(text, place)),
        reason,
    };
    let table = DeTable::parse(text)
        .map_err(|error| wrong((error.span().map(|span| span.start), not_toml(error.message()))))?;
    policy(text, table.get_ref()).map_err(wrong)
}

fn unreadable(path: &Path, error: &io::Error) -> ConfigError {
    ConfigError { path: path.to_owned(), line: None, reason: error.to_string() }
}

/// What is wrong, and where it stands.
type Wrong = (Option<usize>, String);

type Value<'a> = Spanned<DeValue<'a>>;

fn policy(text: &str, table: &DeTable<'_>) -> Result<Policy, Wrong> {
    let mut policy = Policy::default();
    let file = Section::new("the file", &["agent", "rule", "limits"], 0, table)?;
    for agent in file.list("agent", KEYS_MAX)? {
        add_key(&mut policy, &Section::of("[[agent]]", &["name", "key"], agent)?)?;
    }
    for rule in file.list("rule", RULES_MAX)? {
        let section = Section::of("[[rule]]", &["from", "to", "topic", "allow"], rule)?;
        policy.rules.push(self::rule(text, &section)?);
    }
    if let Some(limits) = file.get("limits") {
        let limits = Section::of("[limits]", &["per_pair_per_minute"], limits)?;
        policy.per_pair_per_minute =
            limits.get("per_pair_per_minute").map(per_pair_per_minute).transpose()?;
    }
    Ok(policy)
}

fn add_key(policy: &mut Policy, agent: &Section<'_, '_>) -> Result<(), Wrong> {
    let (name_value, key_value) = (agent.required("name")?, agent.required("key")?);
    let name = string("name", name_value)?;
    let name = Name::parse(name).map_err(|why| wrong(name_value, format!("`name`: {why}")))?;
    let key = string("key", key_value)?;
    let hash = secret::parse_hash(key).ok_or_else(|| {
        let reason = match Secret::parse(key) {
            Some(_) => format!(
                "`key` is the key itself, and so a secret no more: make another with `agent-relay \
                 policy key {name}`, and put its hash here"
            ),
            None => format!(
                "`key` is `sha256:` and 64 digits, as `agent-relay policy key {name}` prints it"
            ),
        };
        wrong(key_value, reason)
    })?;
    if policy.keys.contains_key(&name) {
        let reason = format!("{name} has a key already: leave one of the two out");
        return Err(wrong(name_value, reason));
    }
    policy.keys.insert(name, hash);
    Ok(())
}

fn rule(text: &str, section: &Section<'_, '_>) -> Result<Rule, Wrong> {
    let allow = section.required("allow")?;
    Ok(Rule {
        from: pattern("from", section.get("from"), Glob::name)?,
        to: pattern("to", section.get("to"), Glob::name)?,
        topic: pattern("topic", section.get("topic"), Glob::topic)?,
        allow: allow
            .get_ref()
            .as_bool()
            .ok_or_else(|| wrong(allow, "`allow` is true or false, without quotes".to_owned()))?,
        line: line_at(text, section.start),
    })
}

fn pattern(
    key: &str,
    value: Option<&Value<'_>>,
    check: fn(&str) -> Result<Glob, GlobError>,
) -> Result<Glob, Wrong> {
    let Some(value) = value else { return Ok(Glob::any()) };
    check(string(key, value)?).map_err(|why| wrong(value, format!("`{key}`: {why}")))
}

fn per_pair_per_minute(value: &Value<'_>) -> Result<NonZeroU32, Wrong> {
    let number = value.get_ref().as_integer();
    let number = number.and_then(|number| whole(number.as_str(), number.radix()));
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number <= PER_MINUTE_MAX).and_then(NonZeroU32::new).ok_or_else(|| {
        let reason = format!("`per_pair_per_minute` is a whole number from 1 to {PER_MINUTE_MAX}");
        wrong(value, reason)
    })
}

fn string<'a>(key: &str, value: &'a Value<'_>) -> Result<&'a str, Wrong> {
    value.get_ref().as_str().ok_or_else(|| wrong(value, format!("`{key}` is a text, in quotes")))
}

fn wrong(value: &Value<'_>, reason: String) -> Wrong {
    (Some(value.span().start), reason)
}

/// A table of the file, and what it is called there.
struct Section<'a, 'b> {
    title: &'static str,
    start: usize,
    table: &'a DeTable<'b>,
}

impl<'a, 'b> Section<'a, 'b> {
    /// It may have these keys and no others.
    fn new(
        title: &'static str,
        keys: &[&str],
        start: usize,
        table: &'a DeTable<'b>,
    ) -> Result<Self, Wrong> {
        match table.keys().find(|key| !keys.contains(&key.get_ref().as_ref())) {
            None => Ok(Self { title, start, table }),
            Some(key) => {
                let shown: String = key.get_ref().chars().take(SHOWN_CHARACTERS_MAX).collect();
                let keys = keys.join(", ");
                let reason = format!("unknown key {shown:?}; the keys of {title} are {keys}");
                Err((Some(key.span().start), reason))
            }
        }
    }

    fn of(title: &'static str, keys: &[&str], value: &'a Value<'b>) -> Result<Self, Wrong> {
        match value.get_ref().as_table() {
            Some(table) => Self::new(title, keys, value.span().start, table),
            None => Err(wrong(value, format!("{title} begins a table, with its keys below it"))),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value<'b>> {
        self.table.get(key)
    }

    fn required(&self, key: &str) -> Result<&'a Value<'b>, Wrong> {
        self.get(key).ok_or_else(|| (Some(self.start), format!("{} has no `{key}`", self.title)))
    }

    /// The tables of a list, which may be so many.
    fn list(&self, key: &str, most: usize) -> Result<&'a [Value<'b>], Wrong> {
        let Some(value) = self.get(key) else { return Ok(&[]) };
        let Some(list) = value.get_ref().as_array() else {
            return Err(wrong(value, format!("`{key}` is a list: each begins with [[{key}]]")));
        };
        match list.get(most) {
            Some(first) => Err(wrong(first, format!("there are more than {most} [[{key}]]"))),
            None => Ok(list),
        }
    }
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

    /// What is said about each of these files.
    fn check(texts: &[&str], expected: &Expect) {
        let said = texts.iter().map(|text| format!("{}\n", parsed(text).unwrap_err()));
        expected.assert_eq(&said.collect::<String>());
    }

    fn hash() -> String {
        secret::hash_text(&[7; 32])
    }

    #[test]
    fn an_empty_or_missing_file_forbids_nothing() {
        assert_eq!(parsed("# nothing\n"), Ok(Policy::default()));
        assert_eq!(parsed("[limits]\n"), Ok(Policy::default()));
        assert_eq!(load(Path::new("/nonexistent/home")), Ok(Policy::default()));
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
        assert!(policy.allows("ANN", "bob", Some("chat")));
        assert!(!policy.allows("Ann", "Bob", Some("Chat")));
    }

    #[test]
    fn an_unknown_key_is_said_with_its_line() {
        check(
            &[
                "\nrules = 1",
                "[[agent]]\nname = 'Ann'\nhash = 'x'",
                "\n[[rule]]\nform = 'Ann'\nallow = false",
                "[limits]\nper_minute = 1",
                &format!("{} = 1", "x".repeat(100)),
            ],
            &expect![[r#"
                policy.toml:2: unknown key "rules"; the keys of the file are agent, rule, limits
                policy.toml:3: unknown key "hash"; the keys of [[agent]] are name, key
                policy.toml:3: unknown key "form"; the keys of [[rule]] are from, to, topic, allow
                policy.toml:2: unknown key "per_minute"; the keys of [limits] are per_pair_per_minute
                policy.toml:1: unknown key "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"; the keys of the file are agent, rule, limits
            "#]],
        );
    }

    #[test]
    fn a_bad_value_is_said_with_its_line_and_what_would_be_right() {
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
                policy.toml:1: `agent` is a list: each begins with [[agent]]
                policy.toml:1: `rule` is a list: each begins with [[rule]]
                policy.toml:1: [[rule]] begins a table, with its keys below it
                policy.toml:2: [limits] begins a table, with its keys below it
                policy.toml:1: [limits] begins a table, with its keys below it
                policy.toml:1: [[agent]] has no `name`
                policy.toml:2: [[agent]] has no `key`
                policy.toml:3: `name`: this name is reserved; choose another
                policy.toml:3: `name` is a text, in quotes
                policy.toml:3: `key` is a text, in quotes
                policy.toml:1: [[rule]] has no `allow`
                policy.toml:2: `allow` is true or false, without quotes
                policy.toml:3: `from`: a name has at least one character, and `*` is any run of characters
                policy.toml:3: `from` is a text, in quotes
                policy.toml:3: `to`: with @ begin only @relay, @operator and @guest- with eight digits
                policy.toml:3: `topic`: '>' is for subscriptions; here `*` is any run of characters
                policy.toml:3: `topic`: a topic is one or more tokens split by '.', none of them empty, and `*` is any run of characters
            "#]],
        );
    }

    #[test]
    fn a_limit_is_a_number_in_its_range() {
        let words = "policy.toml:2: `per_pair_per_minute` is a whole number from 1 to 1000000";
        for value in ["0", "-1", "1000001", "1.0", "'30'", "true", "99999999999999999999"] {
            refused(&format!("[limits]\nper_pair_per_minute = {value}"), words);
        }
        let policy = parsed("limits.per_pair_per_minute = 0x10").unwrap();
        assert_eq!(policy.per_pair_per_minute, NonZeroU32::new(16));
    }

    #[test]
    fn a_name_has_one_key() {
        let agent = |name: &str| format!("[[agent]]\nname = '{name}'\nkey = '{}'\n", hash());
        refused(
            &(agent("Ann") + &agent("Bob") + &agent("ANN")),
            "policy.toml:8: ANN has a key already: leave one of the two out",
        );
    }

    #[test]
    fn a_key_in_the_place_of_its_hash_is_told_and_not_repeated() {
        let key = Secret::from_random([0xab; 32]);
        let key = key.reveal();
        refused(
            &format!("[[agent]]\nname = 'Ann'\nkey = '{key}'"),
            "policy.toml:3: `key` is the key itself, and so a secret no more: make another with \
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
        ] {
            let said = parsed(&wrong).unwrap_err().to_string();
            assert!(!said.to_lowercase().contains(&key[..8]), "{said}");
        }
    }

    #[test]
    fn a_broken_file_is_said_with_its_line() {
        for (text, line) in [("\n[[rule]", 2), ("[[rule]]\nallow = false\nallow = true", 3)] {
            assert_eq!(parsed(text).unwrap_err().line, Some(line), "{text}");
        }
    }

    #[test]
    fn there_are_bounds() {
        assert!(parsed(&"[[rule]]\nallow = true\n".repeat(RULES_MAX)).is_ok());
        refused(
            &"[[rule]]\nallow = true\n".repeat(RULES_MAX + 1),
            "policy.toml:2001: there are more than 1000 [[rule]]",
        );
        // Deep nesting ends in an error, not in the stack's end.
        assert!(parsed(&format!("rule = {}", "[".repeat(100_000))).is_err());
    }
}
