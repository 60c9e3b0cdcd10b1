//! A trie of patterns, by their tokens.
//!
//! A lookup follows the topic's token and `*` at each node, and collects `>`, as message brokers
//! do. Tokens between two branches are one node, so that a long pattern costs no chain of nodes.

use std::collections::BTreeMap;

/// The bytes of a node and of its entry in its parent.
const _: () = assert!(size_of::<Node<u64>>() <= 64);

/// Values by patterns.
///
/// `n` patterns make at most `2n` nodes. A lookup visits a node at most once, so it visits at most
/// `2n` nodes, and at most `2^t` of those that are reached by the topic's first `t` tokens. At each
/// node it searches the children three times, and compares at most the topic's bytes.
#[derive(Debug)]
pub(super) struct PatternTrie<T> {
    children: Children<T>,
}

type Children<T> = BTreeMap<Box<str>, Box<Node<T>>>;

/// The work of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Visited {
    pub(super) nodes: u64,
    /// The tokens that were compared inside of these nodes.
    pub(super) tokens: u64,
}

/// The patterns that begin with the same tokens: the parent's, the node's key, and `rest`.
#[derive(Debug)]
struct Node<T> {
    /// The tokens after the node's key; empty if there are none.
    rest: Box<str>,
    /// The values of the pattern that ends here, sorted.
    values: Vec<T>,
    children: Children<T>,
}

impl<T: Copy + Ord> PatternTrie<T> {
    pub(super) const fn new() -> Self {
        Self { children: BTreeMap::new() }
    }

    /// Adds a value to a pattern. Returns whether the pattern did not have it.
    pub(super) fn insert(&mut self, pattern: &str, value: T) -> bool {
        insert(&mut self.children, pattern, value)
    }

    /// Removes a value from a pattern. Returns whether the pattern had it.
    pub(super) fn remove(&mut self, pattern: &str, value: T) -> bool {
        remove(&mut self.children, pattern, value)
    }

    /// Appends the values of all patterns that match a topic, sorted for each pattern.
    pub(super) fn collect(&self, topic: &str, values: &mut Vec<T>) -> Visited {
        let mut visited = Visited::default();
        collect(&self.children, topic, values, &mut visited);
        visited
    }
}

fn insert<T: Copy + Ord>(children: &mut Children<T>, pattern: &str, value: T) -> bool {
    let (token, rest) = split_first(pattern);
    let Some(node) = children.get_mut(token) else {
        let leaf = Node { rest: rest.into(), values: vec![value], children: BTreeMap::new() };
        children.insert(token.into(), Box::new(leaf));
        return true;
    };
    node.split_at(common(&node.rest, rest));
    match after(rest, node.rest.len()) {
        "" => insert_sorted(&mut node.values, value),
        below => insert(&mut node.children, below, value),
    }
}

fn remove<T: Copy + Ord>(children: &mut Children<T>, pattern: &str, value: T) -> bool {
    let (token, rest) = split_first(pattern);
    let Some(node) = children.get_mut(token) else { return false };
    if common(&node.rest, rest) < node.rest.len() {
        return false;
    }
    let was_there = match after(rest, node.rest.len()) {
        "" => remove_sorted(&mut node.values, value),
        below => remove(&mut node.children, below, value),
    };
    if node.values.is_empty() {
        match node.children.len() {
            0 => _ = children.remove(token),
            1 => node.absorb_child(),
            _ => {}
        }
    }
    was_there
}

fn collect<T: Copy>(
    children: &Children<T>,
    topic: &str,
    values: &mut Vec<T>,
    visited: &mut Visited,
) {
    let (token, left) = split_first(topic);
    for key in [token, "*"] {
        if let Some(node) = children.get(key) {
            node.collect(left, values, visited);
        }
    }
    if let Some(node) = children.get(">") {
        visited.nodes += 1;
        values.extend_from_slice(&node.values);
    }
}

impl<T: Copy> Node<T> {
    /// Moves the tokens after the first `bytes` bytes of `rest` into a child.
    fn split_at(&mut self, bytes: usize) {
        if bytes == self.rest.len() {
            return;
        }
        let (token, rest) = split_first(after(&self.rest, bytes));
        let lower = Self {
            rest: rest.into(),
            values: std::mem::take(&mut self.values),
            children: std::mem::take(&mut self.children),
        };
        self.children.insert(token.into(), Box::new(lower));
        self.rest = self.rest[..bytes].into();
    }

    /// Joins the node with its only child.
    fn absorb_child(&mut self) {
        let Some((token, child)) = self.children.pop_first() else { return };
        let tokens = [&*self.rest, &*token, &*child.rest];
        let tokens: Vec<_> = tokens.into_iter().filter(|tokens| !tokens.is_empty()).collect();
        let rest = tokens.join(".").into();
        *self = Self { rest, ..*child };
    }

    /// Appends the values of the patterns that match a topic of which `left` is not compared yet.
    fn collect(&self, mut left: &str, values: &mut Vec<T>, visited: &mut Visited) {
        visited.nodes += 1;
        let mut rest = &*self.rest;
        while !rest.is_empty() {
            visited.tokens += 1;
            let ((wanted, rest_after), (token, left_after)) =
                (split_first(rest), split_first(left));
            match wanted {
                _ if left.is_empty() => return,
                ">" => break,
                "*" => {}
                _ if wanted == token => {}
                _ => return,
            }
            (rest, left) = (rest_after, left_after);
        }
        if left.is_empty() || !rest.is_empty() {
            values.extend_from_slice(&self.values);
        } else {
            collect(&self.children, left, values, visited);
        }
    }
}

/// Splits tokens into the first one and the others.
fn split_first(tokens: &str) -> (&str, &str) {
    tokens.split_once('.').unwrap_or((tokens, ""))
}

/// Returns the tokens after the first `bytes` bytes, which are whole tokens.
fn after(tokens: &str, bytes: usize) -> &str {
    if bytes == 0 { tokens } else { tokens.get(bytes + 1..).unwrap_or_default() }
}

/// Returns the length in bytes of the tokens with which both begin.
fn common(one: &str, other: &str) -> usize {
    let equal = one.split('.').zip(other.split('.')).take_while(|(one, other)| one == other);
    equal.map(|(token, _)| token.len() + 1).sum::<usize>().saturating_sub(1)
}

/// Inserts a value into a sorted list. Returns whether the list did not have it.
pub(super) fn insert_sorted<T: Ord>(values: &mut Vec<T>, value: T) -> bool {
    let place = values.binary_search(&value);
    if let Err(index) = place {
        values.insert(index, value);
    }
    place.is_err()
}

/// Removes a value from a sorted list. Returns whether the list had it.
pub(super) fn remove_sorted<T: Ord>(values: &mut Vec<T>, value: T) -> bool {
    let place = values.binary_search(&value);
    if let Ok(index) = place {
        values.remove(index);
    }
    place.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use protocol::topic::Pattern;
    use std::collections::BTreeSet;

    impl<T: Copy + Ord> PatternTrie<T> {
        fn nodes(&self) -> usize {
            fn count<T>(children: &Children<T>) -> usize {
                children.values().map(|node| 1 + count(&node.children)).sum()
            }
            count(&self.children)
        }
    }

    /// Returns the values of all patterns that match a topic, sorted, and the nodes visited.
    fn matching(trie: &PatternTrie<u32>, topic: &str) -> (Vec<u32>, u64) {
        let mut values = Vec::new();
        let visited = trie.collect(topic, &mut values);
        values.sort_unstable();
        (values, visited.nodes)
    }

    fn of_patterns(patterns: impl IntoIterator<Item = String>) -> PatternTrie<u32> {
        let mut trie = PatternTrie::new();
        for (value, pattern) in patterns.into_iter().enumerate() {
            assert!(trie.insert(&pattern, value as u32), "{pattern}");
        }
        trie
    }

    #[test]
    fn unrelated_patterns_are_not_visited() {
        let trie = of_patterns((0..10_000).flat_map(|number| {
            [format!("build.{number}.*"), format!("*.{number}.>"), format!("n{number}.*")]
        }));
        assert_eq!(matching(&trie, "build.7.linux").0, [21, 22]);
        let (_, visited) = matching(&trie, "build.7.linux");
        assert!(visited <= 6, "{visited} nodes");
        assert_eq!(matching(&trie, "elsewhere"), (vec![], 1));
    }

    /// Returns all patterns of a literal or `*` at each of `tokens` places, each ending with a tail
    /// that no topic has.
    fn pathological(tokens: u32, tail: &str) -> Vec<String> {
        let token = |bits: u32, at: u32| if bits >> at & 1 == 0 { "a" } else { "*" };
        let head = |bits| (0..tokens).map(|at| token(bits, at)).collect::<Vec<_>>().join(".");
        (0..1 << tokens).map(|bits| format!("{}.{tail}", head(bits))).collect()
    }

    #[test]
    fn pathological_patterns_are_each_visited_at_most_twice() {
        let tail = ["a.*"; 50].join(".") + ".z";
        let patterns = pathological(10, &tail);
        let count = patterns.len() as u64;
        let trie = of_patterns(patterns);
        assert!(trie.nodes() as u64 <= 2 * count, "{} nodes", trie.nodes());
        let (values, visited) = matching(&trie, &["a"; 111].join("."));
        assert!(values.is_empty());
        assert!((count..=2 * count).contains(&visited), "{visited} nodes");
        let tokens = trie.collect(&["a"; 111].join("."), &mut Vec::new()).tokens;
        assert!(tokens >= 90 * count, "{tokens} tokens");
        let (_, visited) = matching(&trie, "a.a.a");
        assert!(visited <= 2 + 4 + 8, "{visited} nodes for a short topic");
    }

    #[test]
    fn removal_leaves_the_nodes_of_the_other_patterns() {
        let mut trie = PatternTrie::new();
        for pattern in ["a.b.*", "a.b.*.d.>", "a.b.*.e"] {
            assert!(trie.insert(pattern, 1));
        }
        assert_eq!(trie.nodes(), 3);
        assert!(!trie.remove("a.b", 1) && !trie.remove("a.b.*", 2) && !trie.remove("a.b.*.d", 1));
        assert!(trie.remove("a.b.*", 1));
        assert_eq!(trie.nodes(), 3);
        assert!(trie.remove("a.b.*.e", 1));
        assert_eq!(trie.nodes(), 1);
        assert_eq!(matching(&trie, "a.b.c.d.e").0, [1]);
        assert!(trie.remove("a.b.*.d.>", 1));
        assert_eq!(trie.nodes(), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(String, u32),
        Remove(usize),
        Collect(String),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let token = || prop::sample::select(&["a", "b", "ab", "a*"][..]);
        let wild = prop_oneof![3 => token(), 2 => Just("*")];
        let tail = prop_oneof![Just(None), Just(Some(">"))];
        let pattern = (vec(wild, 0..5), tail)
            .prop_map(|(tokens, tail)| tokens.into_iter().chain(tail).collect::<Vec<_>>().join("."))
            .prop_filter("a pattern has a token", |pattern| !pattern.is_empty());
        let topic = vec(token(), 1..6).prop_map(|tokens| tokens.join("."));
        let step = prop_oneof![
            4 => (pattern, 0..3_u32).prop_map(|(pattern, value)| Step::Insert(pattern, value)),
            2 => any::<usize>().prop_map(Step::Remove),
            3 => topic.prop_map(Step::Collect),
        ];
        vec(step, 1..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn trie_agrees_with_a_scan_of_all_patterns(steps in steps()) {
            let mut trie = PatternTrie::new();
            let mut scanned: BTreeSet<(Pattern, u32)> = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Insert(text, value) => {
                        let pattern = Pattern::parse(&text).unwrap();
                        prop_assert_eq!(trie.insert(&text, value), scanned.insert((pattern, value)));
                    }
                    Step::Remove(index) => {
                        let Some(index) = index.checked_rem(scanned.len()) else { continue };
                        let entry = scanned.iter().nth(index).unwrap().clone();
                        prop_assert!(trie.remove(entry.0.as_str(), entry.1));
                        prop_assert!(!trie.remove(entry.0.as_str(), entry.1));
                        scanned.remove(&entry);
                    }
                    Step::Collect(topic) => {
                        let scan = scanned.iter().filter(|(pattern, _)| pattern.matches(&topic));
                        let mut expected: Vec<_> = scan.map(|(_, value)| *value).collect();
                        expected.sort_unstable();
                        prop_assert_eq!(matching(&trie, &topic).0, expected);
                    }
                }
                let patterns: BTreeSet<_> = scanned.iter().map(|(pattern, _)| pattern).collect();
                prop_assert!(trie.nodes() <= 2 * patterns.len());
            }
        }
    }
}
