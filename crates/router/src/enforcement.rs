//! Enforcement of the owner's policy: rules, rates, and who is an operator.

use super::policy::{Applicable, Pairs, Policy, Rule};
use protocol::{
    Now,
    calendar::time_limit,
    deliver::Proof,
    name::Name,
    relay::TooOften,
    secret::{Hash, Secret},
};
use std::sync::Arc;

/// The most pairs of agents whose rate is remembered. A pair is remembered for a minute or two
/// after its last message.
const PAIRS_MAX: usize = 1 << 16;

/// The policy in force, and the state of its rate limits.
#[derive(Debug)]
pub(super) struct Enforcement {
    policy: Arc<Policy>,
    /// The rates of pairs of agents, by the agents' numbers in records.
    pairs: Pairs<u64>,
    /// The last SEND above the rate limit, and the count of such SENDs.
    too_often: Option<TooOften<'static>>,
    /// The hash of the operator's key. Without a key, no client is admitted as an operator.
    operator_key: Option<Hash>,
}

impl Default for Enforcement {
    fn default() -> Self {
        let pairs = Pairs::new(PAIRS_MAX);
        Self { policy: Arc::default(), pairs, too_often: None, operator_key: None }
    }
}

impl Enforcement {
    pub(super) fn set_policy(&mut self, policy: Arc<Policy>) {
        self.policy = policy;
    }

    pub(super) const fn set_operator_key(&mut self, key: Hash) {
        self.operator_key = Some(key);
    }

    pub(super) const fn admits_operators(&self) -> bool {
        self.operator_key.is_some()
    }

    pub(super) fn is_operator_key(&self, key: Option<Secret>) -> bool {
        key.zip(self.operator_key).is_some_and(|(key, hash)| key.has_hash(&hash))
    }

    /// Whether the policy has a key for a name.
    pub(super) fn has_key(&self, name: &Name) -> bool {
        self.policy.key_of(name).is_some()
    }

    /// Returns the proof of its name that a HELLO with this key gives. The error is a sentence. If
    /// the policy has a key for the name, only that key is accepted.
    pub(super) fn proof_of(&self, name: &Name, key: Option<&str>) -> Result<Proof, String> {
        let Some(hash) = self.policy.key_of(name) else { return Ok(Proof::Claim) };
        match key.map(Secret::stated) {
            Some(key) if key.has_hash(hash) => Ok(Proof::Key),
            Some(_) => {
                Err(format!("policy.toml has another key for {name} than `auth.key` states"))
            }
            None => Err(format!("policy.toml has a key for {name}: HELLO states it in `auth.key`")),
        }
    }

    /// Returns the number of rules, each of which may have to be compared with a SEND.
    pub(super) fn rules(&self) -> usize {
        self.policy.rules.len()
    }

    /// Returns the rules that match a sender's messages on a topic.
    pub(super) fn rules_on(&self, from: &str, topic: Option<&str>) -> Applicable {
        Applicable::new(&self.policy, from, topic)
    }

    /// Returns the rule that forbids a SEND, if one does.
    pub(super) fn rule_against(&self, from: &str, to: &str, topic: Option<&str>) -> Option<&Rule> {
        self.policy.rule_against(from, to, topic)
    }

    /// Returns the milliseconds that an agent has to wait until it may send to another agent; 0 if
    /// it may send now. `pair` tells both agents' numbers in records, if there is a rate limit.
    pub(super) fn wait_ms(&self, now: Now, pair: impl FnOnce() -> (u64, u64)) -> u64 {
        let Some(per_minute) = self.policy.per_pair_per_minute else { return 0 };
        let (from, to) = pair();
        self.pairs.wait_ms(now.monotonic, per_minute, from, to)
    }

    /// Counts a message from one agent to another against the rate limit. `pair` tells both agents'
    /// numbers in records, if there is a rate limit.
    pub(super) fn note_message(&mut self, now: Now, pair: impl FnOnce() -> (u64, u64)) {
        if let Some(per_minute) = self.policy.per_pair_per_minute {
            let (from, to) = pair();
            self.pairs.note(now.monotonic, per_minute, from, to);
        }
    }

    /// Counts a SEND above the rate limit, for `status`. Returns the text of the NACK to its
    /// sender.
    pub(super) fn note_too_often(
        &mut self,
        now: Now,
        from: &Name,
        to: &Name,
        wait_ms: u64,
    ) -> String {
        let why = format!(
            "{from} speaks to {to} more often than per_pair_per_minute in policy.toml allows; the \
             next one may come in {}",
            time_limit(wait_ms)
        );
        let refused = self.too_often.as_ref().map_or(0, |before| before.refused) + 1;
        let (from, to) = (from.to_string().into(), to.to_string().into());
        self.too_often = Some(TooOften { refused, from, to, at: now.unix_ms });
        why
    }

    pub(super) const fn too_often(&self) -> Option<&TooOften<'static>> {
        self.too_often.as_ref()
    }
}
