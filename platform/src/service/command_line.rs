//! Functions that join words into a command line and split a command line, by the rules of programs
//! on Windows.

/// Joins words. Each word is in quotes, so that a blank in a path does not end the word.
pub(super) fn join(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let words: Vec<_> = words.into_iter().map(|word| quoted(word.as_ref())).collect();
    words.join(" ")
}

/// Splits a command line into words. Programs split the first word, a path, by other rules. The
/// result is the same, since a path contains no quotes.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches([' ', '\t']);
    while !rest.is_empty() {
        let (word, after) = first(rest);
        words.push(word);
        rest = after.trim_start_matches([' ', '\t']);
    }
    words
}

/// Quotes a word. Backslashes before quotes are doubled, and a backslash is put before each inner
/// quote.
fn quoted(word: &str) -> String {
    let mut quoted = String::from('"');
    let mut backslashes = 0;
    for character in word.chars() {
        if character == '"' {
            quoted.extend(std::iter::repeat_n('\\', backslashes + 1));
        }
        backslashes = if character == '\\' { backslashes + 1 } else { 0 };
        quoted.push(character);
    }
    quoted.extend(std::iter::repeat_n('\\', backslashes));
    quoted.push('"');
    quoted
}

/// The first word, and the rest of the line.
fn first(line: &str) -> (String, &str) {
    let mut word = String::new();
    let (mut is_quoted, mut backslashes) = (false, 0_usize);
    for (index, character) in line.char_indices() {
        match character {
            '\\' => {
                backslashes += 1;
                word.push('\\');
                continue;
            }
            '"' => {
                word.truncate(word.len() - backslashes.div_ceil(2));
                if backslashes % 2 == 1 {
                    word.push('"');
                } else {
                    is_quoted = !is_quoted;
                }
            }
            ' ' | '\t' if !is_quoted => return (word, &line[index..]),
            _ => word.push(character),
        }
        backslashes = 0;
    }
    (word, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_words_split_back() {
        for words in [
            &[r"C:\Program Files\a.exe", "up", "--foreground"][..],
            &[r"C:\a\", r"\\server\share\", "", " ", "\t"],
            &[r#"a"b"#, r#"a\"b"#, r#"a\\"b\\"#, r"\\", r#"""#, r#"\""#],
            &["日本", "O'Brien", "^&|<>"],
        ] {
            assert_eq!(split(&join(words)), words);
        }
    }

    #[test]
    fn foreign_lines_split_by_windows_rules() {
        for (line, words) in [
            ("", &[][..]),
            (r"C:\a.exe -x", &[r"C:\a.exe", "-x"]),
            (r#"  "C:\a b.exe"   --home "C:\c d\\" "#, &[r"C:\a b.exe", "--home", r"C:\c d\"]),
            (r#"a"b c"d e"#, &["ab cd", "e"]),
        ] {
            assert_eq!(split(line), words, "{line}");
        }
        assert_eq!(join([r"C:\a.exe"]), r#""C:\a.exe""#);
    }
}
