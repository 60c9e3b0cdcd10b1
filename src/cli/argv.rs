//! Words as people and agents type them, made into words that the argument parser takes.
//!
//! The parser by itself refuses `-`, `--as=x` and `-h`, takes a body that says `help` for a cry for
//! help, and a body that begins with a dash for an option.

use super::Failure;
use std::ffi::{OsStr, OsString};

/// Stands before a word that is text, whatever it begins with. No argument can hold it.
const TEXT: char = '\0';

/// Commands whose last words are another command's, and how many words of their own come first.
const WRAPPING: [(&str, usize); 2] = [("run", 0), ("spawn", 1)];

/// Top-level options that take a value.
const TOP_VALUES: [&str; 2] = ["--endpoint", "--home"];

/// A command line, cut up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// For the parser.
    pub(super) own: Vec<String>,
    /// Which command it is, if any.
    pub(super) command_word: Option<String>,
    /// What is to be wrapped, untouched.
    pub(super) command: Vec<OsString>,
}

/// Cuts up the arguments of `agent-relay`.
pub(super) fn cut(arguments: impl IntoIterator<Item = OsString>) -> Result<Words, Failure> {
    let mut arguments = arguments.into_iter().peekable();
    let mut own = Vec::new();
    while let Some(word) = arguments.next() {
        let word = utf8(&word)?;
        match word.as_str() {
            "help" => {
                // Some commands have commands.
                let words = arguments.take(2).map(|word| utf8(&word));
                let words: Vec<_> = words.collect::<Result<_, _>>()?;
                let command_word = words.first().cloned();
                own.extend(words);
                own.push("--help".to_owned());
                return Ok(Words { own, command_word, ..Words::default() });
            }
            "-V" => own.push("--version".to_owned()),
            _ if TOP_VALUES.contains(&word.as_str()) => {
                own.push(word);
                own.extend(arguments.next().map(|word| utf8(&word)).transpose()?);
            }
            _ if word.starts_with('-') => push(&mut own, &word),
            _ => {
                let wraps = WRAPPING.iter().find(|(command, _)| *command == word);
                own.push(word.clone());
                let words = match wraps {
                    Some((_, first)) => wrapped(own, *first, arguments),
                    None => plain(own, arguments),
                };
                return words.map(|words| Words { command_word: Some(word), ..words });
            }
        }
    }
    Ok(Words { own, ..Words::default() })
}

/// Cuts up the arguments of a command that wraps another: what isn't an option begins the other, but
/// for the `first` of such words.
pub(super) fn wrapped(
    mut own: Vec<String>,
    mut first: usize,
    arguments: impl Iterator<Item = OsString>,
) -> Result<Words, Failure> {
    let mut arguments = arguments;
    while let Some(word) = arguments.next() {
        if word == "--" {
            return Ok(Words { own, command: arguments.collect(), ..Words::default() });
        }
        if !word.as_encoded_bytes().starts_with(b"-") {
            if first > 0 {
                first -= 1;
                own.push(utf8(&word)?);
                continue;
            }
            let command = std::iter::once(word).chain(arguments).collect();
            return Ok(Words { own, command, ..Words::default() });
        }
        let word = utf8(&word)?;
        let takes_value = !SWITCHES.contains(&word.as_str()) && !word.contains('=');
        push(&mut own, &word);
        if takes_value {
            own.extend(arguments.next().map(|word| utf8(&word)).transpose()?);
        }
    }
    Ok(Words { own, ..Words::default() })
}

/// Options of wrapping commands that take no value.
pub(super) const SWITCHES: [&str; 8] =
    ["-h", "--help", "--inline", "--grid", "--accepts-text", "--brief", "--json", "--detached"];

/// Cuts up the arguments of any other command.
pub(super) fn plain(
    mut own: Vec<String>,
    arguments: impl Iterator<Item = OsString>,
) -> Result<Words, Failure> {
    let mut options = true;
    for word in arguments {
        let word = utf8(&word)?;
        options &= word != "--";
        if options { push(&mut own, &word) } else { own.push(word) }
    }
    Ok(Words { own, ..Words::default() })
}

fn push(own: &mut Vec<String>, word: &str) {
    if word == "-h" {
        own.push("--help".to_owned());
    } else if is_text(word) {
        own.push(format!("{TEXT}{word}"));
    } else if let Some((option, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
        own.push(option.to_owned());
        own.push(value.to_owned());
    } else {
        own.push(word.to_owned());
    }
}

/// Begins with a dash and is no option: `-`, `-5`, `- an item`, `--- a/file`.
fn is_text(word: &str) -> bool {
    let Some(rest) = word.strip_prefix('-') else { return false };
    let name = rest.strip_prefix('-').unwrap_or(rest);
    let is_end_of_options = rest == "-";
    let name = name.split('=').next().unwrap_or(name);
    let is_option = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !name.contains(char::is_whitespace);
    !is_option && !is_end_of_options
}

/// What the parser hands on for a word, as it was typed.
pub(super) fn text(word: &str) -> Result<String, String> {
    Ok(word.strip_prefix(TEXT).unwrap_or(word).to_owned())
}

/// What the parser has to say, in words like ours.
pub(super) fn complaint(output: &str) -> String {
    let output = output.replace(TEXT, "");
    let words = output.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.trim_end_matches('.');
    if let Some(word) = words.strip_prefix("Unrecognized argument: ") {
        return match word.starts_with('-') {
            true => format!("no option {word}"),
            false => format!("{word} is one word too many (a text with blanks goes in quotes)"),
        };
    }
    if let Some(option) = words.strip_prefix("No value provided for option ") {
        return format!("{} needs a value", option.trim_matches('\''));
    }
    for start in ["Required options not provided: ", "Required positional arguments not provided: "]
    {
        if let Some(names) = words.strip_prefix(start) {
            return format!("missing: {}", names.replace(' ', ", "));
        }
    }
    let choice = words.strip_prefix("One of the following subcommands must be present: help ");
    if let Some(names) = choice {
        return format!("missing: one of {}", names.replace(' ', ", "));
    }
    let wrong = ["Error parsing option '", "Error parsing positional argument '"];
    let wrong = wrong.iter().find_map(|start| words.strip_prefix(start));
    match wrong.and_then(|rest| rest.split_once("' with value ")) {
        Some((option, why)) => format!("{option} {why}"),
        None => words.to_owned(),
    }
}

fn utf8(word: &OsStr) -> Result<String, Failure> {
    word.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!(
            "the argument {} is not UTF-8: give the text on standard input (`-`) or with --file",
            word.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &[&str], own: &[&str], command: &[&str]) {
        let words = cut(line.iter().map(OsString::from)).unwrap();
        let own: Vec<_> = own.iter().map(|word| word.replace('~', "\0")).collect();
        assert_eq!(words.own, own);
        assert_eq!(words.command, command.iter().map(OsString::from).collect::<Vec<_>>());
    }

    #[test]
    fn ordinary_words_stay() {
        check(&["status"], &["status"], &[]);
        check(
            &["--home", "-x", "up", "--foreground"],
            &["--home", "-x", "up", "--foreground"],
            &[],
        );
        check(&[], &[], &[]);
    }

    #[test]
    fn values_behind_an_equals_sign_and_short_help_are_understood() {
        check(
            &["--endpoint=/x=y", "send", "--as=Ann"],
            &["--endpoint", "/x=y", "send", "--as", "Ann"],
            &[],
        );
        check(&["send", "-h"], &["send", "--help"], &[]);
        check(&["-h"], &["--help"], &[]);
        check(&["-V"], &["--version"], &[]);
        check(&["help"], &["--help"], &[]);
        check(&["help", "send"], &["send", "--help"], &[]);
        check(&["help", "policy", "key", "Ann"], &["policy", "key", "--help"], &[]);
    }

    #[test]
    fn text_that_begins_with_a_dash_is_no_option() {
        for body in ["-", "-5", "- an item", "--- a/file", "->relay:Bob", "-not an option", "-=x"] {
            check(&["send", "Bob", body], &["send", "Bob", &format!("~{body}")], &[]);
        }
        check(&["send", "--", "Bob", "--as=x", "-"], &["send", "--", "Bob", "--as=x", "-"], &[]);
        assert_eq!(text("\0-5"), Ok("-5".to_owned()));
        assert_eq!(text("x"), Ok("x".to_owned()));
    }

    #[test]
    fn the_parsers_complaints_are_said_in_our_words() {
        for (said, ours) in [
            ("Unrecognized argument: --x\n", "no option --x"),
            (
                "Unrecognized argument: b\n",
                "b is one word too many (a text with blanks goes in quotes)",
            ),
            ("Required options not provided:\n    --name\n    --as\n", "missing: --name, --as"),
            ("Required positional arguments not provided:\n    to\n", "missing: to"),
            ("No value provided for option '--home'.\n", "--home needs a value"),
            (
                "Error parsing option '--count' with value '\0-1': invalid digit\n",
                "--count '-1': invalid digit",
            ),
            (
                "Error parsing positional argument 'name' with value 'root': reserved\n",
                "name 'root': reserved",
            ),
            (
                "One of the following subcommands must be present:\n    help\n    key\n    check\n",
                "missing: one of key, check",
            ),
            ("Something new.\n", "Something new"),
        ] {
            assert_eq!(complaint(said), ours);
        }
    }

    #[test]
    fn a_wrapped_command_is_not_touched() {
        check(&["run", "-n", "Ann", "--", "-x", "-h"], &["run", "-n", "Ann"], &["-x", "-h"]);
        check(
            &["run", "--name=Ann", "bash", "-c", "a=b"],
            &["run", "--name", "Ann"],
            &["bash", "-c", "a=b"],
        );
        check(&["run", "--help"], &["run", "--help"], &[]);
        check(
            &["spawn", "Ann", "--json", "--cwd=/x", "--", "bash", "-c", "x"],
            &["spawn", "Ann", "--json", "--cwd", "/x"],
            &["bash", "-c", "x"],
        );
        check(
            &["spawn", "--json", "Ann", "cat", "-n"],
            &["spawn", "--json", "Ann"],
            &["cat", "-n"],
        );
        check(
            &["run", "-n", "Ann", "bash", "--", "x"],
            &["run", "-n", "Ann"],
            &["bash", "--", "x"],
        );
    }
}
