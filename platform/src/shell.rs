//! Words of command lines that a person pastes into a shell.

#[cfg(unix)]
#[path = "shell/unix.rs"]
mod imp;
#[cfg(windows)]
#[path = "shell/windows.rs"]
mod imp;

use std::ffi::OsStr;

/// A word of a command line as it can be pasted into a shell: of POSIX, or on Windows `cmd` and
/// `PowerShell`, where `%` and `$` still mean a variable. Quoted only if it has to be.
#[must_use]
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let is_plain = |character: char| character.is_alphanumeric() || imp::PLAIN.contains(&character);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => imp::quoted(&word),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        let cases = match std::env::consts::OS {
            "windows" => [
                (r"C:\Users\ann\x-1.toml", r"C:\Users\ann\x-1.toml"),
                (r"C:\a b\", r#""C:\a b\\""#),
                (r"C:\it's", r#""C:\it's""#),
                ("", r#""""#),
            ],
            _ => [
                ("/home/ann/x-1.toml", "/home/ann/x-1.toml"),
                ("/a b/", "'/a b/'"),
                ("/it's $HOME", r"'/it'\''s $HOME'"),
                ("", "''"),
            ],
        };
        for (word, pasted) in cases {
            assert_eq!(quoted(word), pasted);
        }
    }
}
