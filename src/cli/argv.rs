//! The words of the command line, checked against the descriptions of the commands before argh
//! parses them.
//!
//! argh alone does not do: its errors are worded differently, it refuses `-`, `--as=x` and `-h`,
//! and it parses a body that begins with a dash as an option. This module finds all mistakes first.
//! The words that it hands to argh are always valid: for each command the options, with each value
//! as a word of its own, then `--` and the other arguments.

use super::{escape::escaped, failure::Failure, values::Kind};
use crate::config::nearest;
use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality, SubCommandInfo};
use std::ffi::{OsStr, OsString};

/// A command line in the form that argh parses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// The words for argh.
    pub(super) words: Vec<String>,
    /// The command that `run` or `spawn` is to run, not changed.
    pub(super) to_run: Vec<OsString>,
}

/// Checks the arguments of a program, and brings them into the form that argh parses.
pub(super) fn check(
    program: &str,
    info: &CommandInfoWithArgs,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<CommandLine, Failure> {
    let mut arguments = arguments.into_iter();
    let mut words = Vec::new();
    let mut path = vec![program];
    let mut level = Level::new(info);
    loop {
        let read = level.read(&mut arguments, path.len() == 1);
        let next = read.map_err(|mistake| mistake.to_failure(&path, info))?;
        words.append(&mut level.options);
        match next {
            Next::Command(command) => {
                words.push(command.name.to_owned());
                path.push(command.name);
                level = Level::new(&command.command);
            }
            Next::Help(commands) => {
                words.extend(commands);
                words.push("--help".to_owned());
                return Ok(CommandLine { words, to_run: Vec::new() });
            }
            Next::End(to_run) => {
                if !level.arguments.is_empty() {
                    words.push("--".to_owned());
                    words.append(&mut level.arguments);
                }
                return Ok(CommandLine { words, to_run });
            }
        }
    }
}

/// A mistake in the command line.
enum Mistake {
    /// A sentence, to which the error adds how to get the command's help.
    Usage(String),
    /// A sentence that already says what to do.
    Complete(String),
    /// An unknown command: `word` is no command of the current command, or of the command below it
    /// with the path `within`.
    NoCommand { word: String, within: Vec<String> },
}

impl Mistake {
    fn to_failure(&self, path: &[&str], root: &CommandInfoWithArgs) -> Failure {
        let (program, commands) = path.split_first().expect("the program is first");
        let mut commands = commands.to_vec();
        if let Self::NoCommand { within, .. } = self {
            commands.extend(within.iter().map(String::as_str));
        }
        // A program without commands has no command `help`, only the option `--help`.
        let mut help = match root.commands.is_empty() {
            true => format!("{program} --help"),
            false => format!("{program} help"),
        };
        for command in &commands {
            help.extend([" ", command]);
        }
        Failure::usage(match self {
            Self::Usage(mistake) => format!("{}: `{help}` shows how", escaped(mistake)),
            Self::Complete(mistake) => escaped(mistake),
            Self::NoCommand { word, .. } => {
                let known = commands.iter().fold(&root.commands, |known, command| {
                    let found = known.iter().find(|known| known.name == *command);
                    found.map_or(known, |found| &found.command.commands)
                });
                let near = nearest(word, known.iter().map(|known| known.name.to_owned()));
                let before = [&[*program], &commands[..]].concat().join(" ");
                let advice = near.map(|name| format!("did you mean `{before} {name}`?"));
                let advice = advice.unwrap_or_else(|| format!("`{help}` lists the commands"));
                format!("no command {}: {advice}", escaped(word))
            }
        })
    }
}

/// The reason why the words of one command end.
enum Next<'a> {
    Command(&'a SubCommandInfo),
    /// A request for help. The words are the path of a command below the current one.
    Help(Vec<String>),
    /// The end of the words, with the command to run.
    End(Vec<OsString>),
}

/// The words of one command, as read so far.
struct Level<'a> {
    info: &'a CommandInfoWithArgs,
    /// Options with their values.
    options: Vec<String>,
    /// Arguments that are not options.
    arguments: Vec<String>,
    /// The names of the options that were given to this command so far.
    given: Vec<&'a str>,
}

impl<'a> Level<'a> {
    fn new(info: &'a CommandInfoWithArgs) -> Self {
        Self { info, options: Vec::new(), arguments: Vec::new(), given: Vec::new() }
    }

    fn read(
        &mut self,
        words: &mut impl Iterator<Item = OsString>,
        is_root: bool,
    ) -> Result<Next<'a>, Mistake> {
        let mut may_be_option = true;
        while let Some(word) = words.next() {
            if may_be_option && word == "--" {
                if self.runs_command() {
                    return self.end(words.collect(), is_root);
                }
                may_be_option = false;
                continue;
            }
            if self.is_at_command(&word, may_be_option) {
                let to_run = std::iter::once(word).chain(words).collect();
                return self.end(to_run, is_root);
            }
            let word = utf8(&word)?;
            if may_be_option && ["-h", "--help"].contains(&word.as_str()) {
                return Ok(Next::Help(Vec::new()));
            }
            if may_be_option && is_option(&word) {
                self.option(&word, words)?;
            } else if self.info.commands.is_empty() {
                self.argument(word)?;
            } else if is_root && word == "help" {
                return self.help(words);
            } else {
                let known = self.info.commands.iter().find(|known| known.name == word);
                return known
                    .map(Next::Command)
                    .ok_or(Mistake::NoCommand { word, within: Vec::new() });
            }
        }
        self.end(Vec::new(), is_root)
    }

    /// Reports whether the last argument is a command to run with all that follows it.
    fn runs_command(&self) -> bool {
        let last = self.info.positionals.last();
        last.is_some_and(|last| last.optionality == Optionality::Greedy)
    }

    /// Reports whether this word begins the command to run. The word need not be UTF-8.
    fn is_at_command(&self, word: &OsStr, may_be_option: bool) -> bool {
        let begins_option = may_be_option && word.as_encoded_bytes().starts_with(b"-");
        let is_last = self.arguments.len() + 1 == self.info.positionals.len();
        self.runs_command() && is_last && !begins_option
    }

    fn option(
        &mut self,
        word: &str,
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), Mistake> {
        let (option, value) = match word.split_once('=').filter(|_| word.starts_with("--")) {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (word, None),
        };
        let flag = self.info.flags.iter().find(|flag| is_named(flag, option));
        let flag = flag.ok_or_else(|| self.no_option(option))?;
        let is_repeated = self.given.contains(&flag.long);
        self.given.push(flag.long);
        let FlagInfoKind::Option { arg_name } = flag.kind else {
            self.options.push(flag.long.to_owned());
            return match value {
                Some(_) => Err(Mistake::Usage(format!("{option} takes no value"))),
                None => Ok(()),
            };
        };
        if is_repeated && flag.optionality != Optionality::Repeating {
            return Err(Mistake::Usage(format!("{option} is given twice")));
        }
        let kind = Kind::of(arg_name);
        let value = match value {
            Some(value) => value,
            None => words.next().map(|word| utf8(&word)).transpose()?.ok_or_else(|| {
                let kind = kind.map(|kind| format!(" ({})", kind.description()));
                Mistake::Usage(format!("{option} needs a value{}", kind.unwrap_or_default()))
            })?,
        };
        check_value(kind, option, &value)?;
        self.options.extend([flag.long.to_owned(), value]);
        Ok(())
    }

    fn no_option(&self, option: &str) -> Mistake {
        let flags = self.info.flags.iter().filter(|flag| !flag.hidden);
        match nearest(option, flags.map(|flag| flag.long.to_owned())) {
            Some(near) => Mistake::Complete(format!("no option {option}: did you mean {near}?")),
            None => Mistake::Usage(format!("no option {option}")),
        }
    }

    fn argument(&mut self, word: String) -> Result<(), Mistake> {
        let Some(positional) = self.info.positionals.get(self.arguments.len()) else {
            return Err(Mistake::Usage(format!(
                "{word} is one word too many (a text with blanks goes in quotes)"
            )));
        };
        check_value(Kind::of(positional.name), positional.name, &word)?;
        self.arguments.push(word);
        Ok(())
    }

    /// Parses the words after `help`, which are the path of a command.
    fn help(&self, words: &mut impl Iterator<Item = OsString>) -> Result<Next<'a>, Mistake> {
        let (mut info, mut path) = (self.info, Vec::new());
        while !info.commands.is_empty() {
            let Some(word) = words.next() else { break };
            let word = utf8(&word)?;
            let Some(command) = info.commands.iter().find(|known| known.name == word) else {
                return Err(Mistake::NoCommand { word, within: path });
            };
            info = &command.command;
            path.push(word);
        }
        Ok(Next::Help(path))
    }

    /// Checks that no argument or option is missing. The program itself needs no command.
    fn end(&self, to_run: Vec<OsString>, is_root: bool) -> Result<Next<'a>, Mistake> {
        let arguments = self.info.positionals.iter().skip(self.arguments.len());
        let arguments = arguments.map(|argument| (argument.name, &argument.optionality));
        let options = self.info.flags.iter().filter(|flag| !self.given.contains(&flag.long));
        let options = options.map(|flag| (flag.long, &flag.optionality));
        let missing = arguments.chain(options);
        let missing = missing.filter(|(_, optionality)| **optionality == Optionality::Required);
        let missing: Vec<_> = missing.map(|(name, _)| name).collect();
        let commands: Vec<_> = self.info.commands.iter().map(|command| command.name).collect();
        if !missing.is_empty() {
            return Err(Mistake::Usage(format!("missing: {}", missing.join(", "))));
        }
        if !commands.is_empty() && !is_root {
            return Err(Mistake::Usage(format!("missing: one of {}", commands.join(", "))));
        }
        Ok(Next::End(to_run))
    }
}

fn is_named(flag: &FlagInfo<'_>, option: &str) -> bool {
    let is_short =
        |short: char| option.strip_prefix('-').is_some_and(|name| name.chars().eq([short]));
    flag.long == option || flag.short.is_some_and(is_short)
}

fn check_value(kind: Option<Kind>, name: &str, value: &str) -> Result<(), Mistake> {
    let checked = kind.map_or(Ok(()), |kind| kind.check(value));
    checked.map_err(|reason| Mistake::Usage(format!("{name} '{value}': {reason}")))
}

/// Reports whether a word is an option, and not a text that begins with a dash: `-`, `-5`,
/// `- an item`, `--- a/file`.
fn is_option(word: &str) -> bool {
    let Some(name) = word.strip_prefix('-') else { return false };
    let name = name.strip_prefix('-').unwrap_or(name);
    let name = name.split('=').next().unwrap_or(name);
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !name.contains(char::is_whitespace)
}

fn utf8(word: &OsStr) -> Result<String, Mistake> {
    word.to_str().map(str::to_owned).ok_or_else(|| {
        Mistake::Complete(format!(
            "the argument {} is not UTF-8: give the text on standard input (`-`) or with --file",
            word.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top_info;

    #[track_caller]
    fn checked(line: &[&str], words: &[&str], to_run: &[&str]) {
        let info = top_info();
        let line = check("agent-relay", &info, line.iter().map(OsString::from)).unwrap();
        assert_eq!(line.words, words);
        assert_eq!(line.to_run, to_run.iter().map(OsString::from).collect::<Vec<_>>());
    }

    #[test]
    fn ordinary_words_stay() {
        checked(&["status"], &["status"], &[]);
        checked(
            &["--home", "-x", "up", "--foreground"],
            &["--home", "-x", "up", "--foreground"],
            &[],
        );
        checked(&[], &[], &[]);
    }

    #[test]
    fn values_after_an_equals_sign_and_short_options_are_understood() {
        checked(
            &["--endpoint=/x=y", "send", "--as=Ann", "Bob", "x"],
            &["--endpoint", "/x=y", "send", "--as", "Ann", "--", "Bob", "x"],
            &[],
        );
        checked(&["send", "-h"], &["send", "--help"], &[]);
        checked(&["-h"], &["--help"], &[]);
        checked(&["-V"], &["--version"], &[]);
        checked(&["help"], &["--help"], &[]);
        checked(&["help", "send"], &["send", "--help"], &[]);
        checked(&["help", "policy", "key", "Ann"], &["policy", "key", "--help"], &[]);
    }

    #[test]
    fn options_come_before_arguments() {
        checked(
            &["send", "Bob", "--as", "Ann", "x", "--json"],
            &["send", "--as", "Ann", "--json", "--", "Bob", "x"],
            &[],
        );
    }

    #[test]
    fn text_that_begins_with_a_dash_is_not_an_option() {
        for body in ["-", "-5", "- an item", "--- a/file", "->relay:Bob", "-not an option", "-=x"] {
            checked(&["send", "Bob", body], &["send", "--", "Bob", body], &[]);
        }
        checked(&["send", "--", "Bob", "--as=x"], &["send", "--", "Bob", "--as=x"], &[]);
        checked(&["send", "Bob", "help"], &["send", "--", "Bob", "help"], &[]);
    }

    #[test]
    fn command_to_run_is_untouched() {
        checked(&["run", "-n", "Ann", "--", "-x", "-h"], &["run", "--name", "Ann"], &["-x", "-h"]);
        checked(
            &["run", "--name=Ann", "bash", "-c", "a=b"],
            &["run", "--name", "Ann"],
            &["bash", "-c", "a=b"],
        );
        checked(&["run", "--help"], &["run", "--help"], &[]);
        checked(
            &["spawn", "Ann", "--json", "--cwd=/x", "--", "bash", "-c", "x"],
            &["spawn", "--json", "--cwd", "/x", "--", "Ann"],
            &["bash", "-c", "x"],
        );
        checked(
            &["spawn", "--json", "Ann", "cat", "-n"],
            &["spawn", "--json", "--", "Ann"],
            &["cat", "-n"],
        );
        checked(
            &["run", "-n", "Ann", "bash", "--", "x"],
            &["run", "--name", "Ann"],
            &["bash", "--", "x"],
        );
    }

    #[test]
    fn mistakes_are_reported_with_a_remedy() {
        for (line, message) in [
            (&["stauts"][..], "no command stauts: did you mean `agent-relay status`?"),
            (&["nonsense"], "no command nonsense: `agent-relay help` lists the commands"),
            (&["policy", "relaod"], "no command relaod: did you mean `agent-relay policy reload`?"),
            (
                &["policy", "nonsense", "x"],
                "no command nonsense: `agent-relay help policy` lists the commands",
            ),
            (
                &["help", "policy", "nonsense"],
                "no command nonsense: `agent-relay help policy` lists the commands",
            ),
            (
                &["policy"],
                "missing: one of key, check, reload, clear: `agent-relay help policy` shows how",
            ),
            (&["policy", "key"], "missing: name: `agent-relay help policy key` shows how"),
            (
                &["policy", "key", "Ann", "--x"],
                "no option --x: `agent-relay help policy key` shows how",
            ),
            (&["send", "--x"], "no option --x: `agent-relay help send` shows how"),
            (&["send", "--topc"], "no option --topc: did you mean --topic?"),
            (&["--x"], "no option --x: `agent-relay help` shows how"),
            (&["run", "-nAnn"], "no option -nAnn: `agent-relay help run` shows how"),
            (
                &["send", "a", "b", "c"],
                "c is one word too many (a text with blanks goes in quotes): \
                 `agent-relay help send` shows how",
            ),
            (&["run", "x"], "missing: --name: `agent-relay help run` shows how"),
            (&["--home"], "--home needs a value (a directory): `agent-relay help` shows how"),
            (
                &["listen", "--as", "B", "--as", "C"],
                "--as is given twice: `agent-relay help listen` shows how",
            ),
            (
                &["status", "--json=yes"],
                "--json takes no value: `agent-relay help status` shows how",
            ),
            (
                &["listen", "--count", "-1"],
                "--count '-1': give a whole number of messages, 1 at least: \
                 `agent-relay help listen` shows how",
            ),
        ] {
            let info = top_info();
            let failure = check("agent-relay", &info, line.iter().map(OsString::from)).unwrap_err();
            assert_eq!(failure, Failure::usage(message), "{line:?}");
        }
    }

    /// Collects every command with its path.
    fn commands<'a>(
        path: &[&'a str],
        info: &'a CommandInfoWithArgs,
        found: &mut Vec<(Vec<&'a str>, &'a CommandInfoWithArgs)>,
    ) {
        found.push((path.to_vec(), info));
        for command in &info.commands {
            commands(&[path, &[command.name]].concat(), &command.command, found);
        }
    }

    #[test]
    fn every_value_has_a_kind() {
        let (info, mut all) = (top_info(), Vec::new());
        commands(&[], &info, &mut all);
        let mut kinds = Vec::new();
        for (path, command) in all {
            let options = command.flags.iter().filter_map(|flag| match flag.kind {
                FlagInfoKind::Option { arg_name } => Some(arg_name),
                FlagInfoKind::Switch => None,
            });
            for name in options.chain(command.positionals.iter().map(|argument| argument.name)) {
                kinds.push(Kind::of(name).unwrap_or_else(|| panic!("{path:?}: no kind of {name}")));
            }
        }
        assert!(kinds.contains(&Kind::Shell) && kinds.contains(&Kind::TopicPattern));
    }
}
