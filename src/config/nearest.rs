//! The known word that looks most like an unknown one, for "did you mean".

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

/// The Levenshtein distance: the number of characters to add, leave out or replace.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<_> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, character) in left.chars().enumerate() {
        let mut corner = above;
        row[0] = above + 1;
        for (column, candidate) in right.iter().enumerate() {
            let replaced = corner + usize::from(character != *candidate);
            corner = row[column + 1];
            row[column + 1] = replaced.min(corner + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
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
    }
}
