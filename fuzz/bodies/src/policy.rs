//! Fuzzing of policy.toml. Arbitrary text must be read, or refused with a sentence that names the
//! line. No description or error may contain a key.

use agent_relay::config::policy::{in_words, keyed_names, parse};
use router::policy::{KEYS_MAX, PER_MINUTE_MAX, RULES_MAX};
use std::path::Path;

/// The number of digits of a key.
const KEY_DIGITS: usize = 64;

/// Reads the bytes as policy.toml, and checks some decisions of the policy.
pub fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match parse(Path::new("policy.toml"), text) {
        Ok(policy) => {
            assert!(policy.rules.len() <= RULES_MAX && keyed_names(&policy).len() <= KEYS_MAX);
            let per_minute = policy.per_pair_per_minute.map(std::num::NonZeroU32::get);
            assert!(per_minute.is_none_or(|count| count <= PER_MINUTE_MAX));
            for words in in_words(&policy) {
                assert!(!words.is_empty() && !has_key(&words), "{words}");
            }
            for (from, to) in [("Ann", "Bob"), ("ann", "*"), ("@guest-12345678", "Ann")] {
                for topic in [None, Some("build.linux"), Some("")] {
                    let against = policy.rule_against(from, to, topic);
                    assert!(
                        against.is_none_or(|rule| !rule.allow && rule.matches(from, to, topic))
                    );
                }
            }
        }
        Err(error) => {
            let lines = 1 + text.bytes().filter(|byte| *byte == b'\n').count();
            assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
            assert!(!error.reason.is_empty() && error.to_string().starts_with("policy.toml"));
            assert!(!has_key(&error.to_string()), "{error}");
        }
    }
}

fn has_key(text: &str) -> bool {
    text.split(|character: char| !character.is_ascii_hexdigit()).any(|run| run.len() >= KEY_DIGITS)
}
