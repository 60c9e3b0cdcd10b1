//! The words of a command line that a person types in `top`.

/// Splits a line at blanks, except between quotes, which are left out. There are no escapes, so
/// that Windows paths are words. The error is a sentence.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, None) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    if let Some(open) = quote {
        return Err(format!("a quote is not closed: {open}"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        for (line, words) in [
            ("Bob -- codex", &["Bob", "--", "codex"][..]),
            ("  Bob   'a  b'\"c\" ''  ", &["Bob", "a  bc", ""]),
            (r"Bob C:\x\claude.exe", &["Bob", r"C:\x\claude.exe"]),
            ("", &[]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        assert_eq!(split("a 'b").unwrap_err(), "a quote is not closed: '");
    }
}
