//! The known word that is most similar to an unknown one, for "did you mean".

/// Returns the word that differs least from `wanted`, or `None` if all words differ too much. A
/// third of the characters of `wanted` may differ, at least one and at most three. Case does not
/// count.
pub fn nearest(wanted: &str, words: impl Iterator<Item = String>) -> Option<String> {
    let allowed = (wanted.chars().count() / 3).clamp(1, 3);
    words
        .map(|word| (distance(&wanted.to_lowercase(), &word.to_lowercase()), word))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, word)| word)
}

/// The number of characters to add, leave out, replace, or exchange with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<_>, Vec<_>) = (left.chars().collect(), right.chars().collect());
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (line, character) in left.iter().enumerate() {
        let mut row = vec![line + 1];
        for (column, candidate) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(character != candidate);
            let mut least = replaced.min(above[column + 1] + 1).min(row[column] + 1);
            if line > 0
                && column > 0
                && *character == right[column - 1]
                && left[line - 1] == *candidate
            {
                least = least.min(before[column - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word_is_found_unless_it_is_far() {
        let names = || ["Bob", "Barbara", "Cid"].into_iter().map(str::to_owned);
        assert_eq!(nearest("bop", names()).as_deref(), Some("Bob"));
        assert_eq!(nearest("Barbra", names()).as_deref(), Some("Barbara"));
        assert_eq!(nearest("Zoe", names()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("sned", "send"), 1);
        assert_eq!((distance("", "ab"), distance("ab", "")), (2, 2));
    }
}
