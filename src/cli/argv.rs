//! The words of the command line, checked against the descriptions of the commands before argh
//! parses them.
//!
//! argh alone does not suffice: its errors are worded differently, it refuses `-`, `--as=x` and
//! `-h`, and it parses a body that begins with a dash as an option. This module finds all mistakes
//! first. The words that it hands to argh are always valid: for each command the options, with each
//! value as a separate word, then `--` and the other arguments.

use super::{failure::Failure, help, values::Kind};
use crate::wrap::agents::{self, AGENTS};
use argh::{
    CommandInfoWithArgs, FlagInfo, FlagInfoKind, Optionality, PositionalInfo, SubCommandInfo,
};
use client::home::nearest;
use protocol::text::escaped;
use std::ffi::{OsStr, OsString};

/// A command line in the form that argh parses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// The words for argh.
    pub(super) words: Vec<String>,
    /// The command for `run` or `spawn`, unchanged.
    pub(super) to_run: Vec<OsString>,
}

/// Other words for commands, each with the command and its switches. Help and completions leave
/// them out. Briefs that were installed before 1.0 may name the last three.
const SYNONYMS: [(&str, &str, &[&str]); 5] = [
    ("list", "agents", &[]),
    ("ls", "agents", &[]),
    ("dead-letters", "history", &["--dead"]),
    ("events", "tap", &["--events"]),
    ("forget", "purge", &["--forget"]),
];

/// Returns the command that a word names, and the switches that the word adds.
pub(super) fn meaning(word: &str) -> (&str, &'static [&'static str]) {
    let synonym = SYNONYMS.iter().find(|(synonym, ..)| *synonym == word);
    synonym.map_or((word, &[]), |(_, name, switches)| (*name, *switches))
}

/// Checks the arguments of a program, and brings them into the form that argh parses.
pub(super) fn check(
    program: &str,
    info: &CommandInfoWithArgs,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<CommandLine, Failure> {
    let mut arguments = arguments.into_iter();
    let (mut words, mut of_program) = (Vec::new(), Vec::new());
    let mut path = vec![program];
    let mut level = Level::new(info);
    loop {
        let read = level.read(&mut arguments, path.len() == 1);
        let next = read.map_err(|mistake| mistake.to_failure(&path, info))?;
        words.append(&mut level.options);
        of_program.append(&mut level.of_program);
        let mut early = std::mem::take(&mut level.early);
        match next {
            Next::Command(command) => {
                words.push(command.name.to_owned());
                path.push(command.name);
                level = Level::of_command(command, info);
                level.take_early(early).map_err(|mistake| mistake.to_failure(&path, info))?;
            }
            Next::Agent(to_run) => {
                let run = info.commands.iter().find(|command| command.name == RUN);
                let run = run.expect("a program that starts agents has `run`");
                let mut level = Level::of_command(run, info);
                path.push(RUN);
                let taken = level.take_early(std::mem::take(&mut early));
                taken.map_err(|mistake| mistake.to_failure(&path, info))?;
                of_program.append(&mut words);
                return Ok(level.run_agent(of_program, to_run));
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
                of_program.append(&mut words);
                return Ok(CommandLine { words: of_program, to_run });
            }
        }
    }
}

/// A mistake in the command line.
enum Mistake {
    Wrong {
        message: String,
        /// The remedy; if absent, the command's help.
        hint: Option<String>,
    },
    /// A missing argument or option: what to give, and the words that the command needs.
    Missing { what: String, words: String },
    /// An unknown command: `word` is not a subcommand of the current command, or of the command
    /// below it with the path `within`.
    NoCommand { word: String, within: Vec<String> },
}

impl Mistake {
    fn new(message: impl Into<String>) -> Self {
        Self::Wrong { message: message.into(), hint: None }
    }

    fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Wrong { message: message.into(), hint: Some(hint.into()) }
    }

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
        match self {
            Self::Wrong { message, hint } => {
                let hint = hint.as_deref().map(escaped);
                let hint = hint.unwrap_or_else(|| format!("run `{help}`"));
                Failure::usage(escaped(message)).hint(hint)
            }
            Self::Missing { what, words } => {
                let command =
                    if commands.is_empty() { (*program).to_owned() } else { commands.join(" ") };
                Failure::usage(format!("{what}: {command} {words}")).hint(format!("run `{help}`"))
            }
            Self::NoCommand { word, .. } => {
                let known = commands.iter().fold(&root.commands, |known, command| {
                    let found = known.iter().find(|known| known.name == *command);
                    found.map_or(known, |found| &found.command.commands)
                });
                let starts_agents = commands.is_empty() && known.iter().any(|it| it.name == RUN);
                let agents = AGENTS.iter().filter(|_| starts_agents).map(|agent| agent.name);
                let known = known.iter().map(|known| known.name).chain(agents);
                let near = nearest(word, known.map(str::to_owned));
                let before = [&[*program], &commands[..]].concat().join(" ");
                let hint = near.map(|name| format!("did you mean `{before} {name}`?"));
                let hint = hint.unwrap_or_else(|| format!("run `{help}` for a list"));
                Failure::usage(format!("no command \"{}\"", escaped(word))).hint(hint)
            }
        }
    }
}

/// The reason why the words of one command end.
enum Next<'a> {
    Command(&'a SubCommandInfo),
    /// The command line of an agent CLI, which needs no `run` before it.
    Agent(Vec<OsString>),
    /// A request for help. The words are the path of a command below the current one.
    Help(Vec<String>),
    /// The end of the words, with the command to run.
    End(Vec<OsString>),
}

/// The words of one command, as read so far.
struct Level<'a> {
    info: &'a CommandInfoWithArgs,
    /// The command's name; `None` for the program itself.
    command: Option<&'a str>,
    root: &'a CommandInfoWithArgs,
    /// Options with their values.
    options: Vec<String>,
    /// Options of the program itself that were given after its command.
    of_program: Vec<String>,
    /// Options of a command that were given before it.
    early: Vec<(String, Option<String>)>,
    /// Arguments that are not options.
    arguments: Vec<String>,
    /// The names of the options that were given to this command so far.
    given: Vec<&'a str>,
}

impl<'a> Level<'a> {
    fn new(root: &'a CommandInfoWithArgs) -> Self {
        let (options, of_program, early) = (Vec::new(), Vec::new(), Vec::new());
        let (arguments, given) = (Vec::new(), Vec::new());
        Self { info: root, command: None, root, options, of_program, early, arguments, given }
    }

    fn of_command(command: &'a SubCommandInfo, root: &'a CommandInfoWithArgs) -> Self {
        Self { info: &command.command, command: Some(command.name), ..Self::new(root) }
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
            } else if self.takes_name() {
                let is_cli = agents::named(&word).is_some();
                let rest: Vec<_> = words.collect();
                // The name of an agent CLI is the command, except before `--`.
                if is_cli && rest.first().is_none_or(|next| next != "--") {
                    let to_run = std::iter::once(word.into()).chain(rest).collect();
                    return self.end(to_run, is_root);
                }
                self.option(NAME, &mut [OsString::from(word)].into_iter())?;
                return self.read(&mut rest.into_iter(), is_root);
            } else if self.info.commands.is_empty() {
                self.argument(word, words)?;
            } else if is_root && word == HELP {
                return self.help(words);
            } else {
                if is_root && agents::named(&word).is_some() {
                    let to_run = std::iter::once(word.into()).chain(words).collect();
                    return Ok(Next::Agent(to_run));
                }
                let (name, switches) = if is_root { meaning(&word) } else { (&*word, &[][..]) };
                self.early.extend(switches.iter().map(|switch| ((*switch).to_owned(), None)));
                let known = self.info.commands.iter().find(|known| known.name == name);
                return known
                    .map(Next::Command)
                    .ok_or(Mistake::NoCommand { word, within: Vec::new() });
            }
        }
        self.end(Vec::new(), is_root)
    }

    /// Reads the options that were given before the command.
    fn take_early(&mut self, early: Vec<(String, Option<String>)>) -> Result<(), Mistake> {
        early.into_iter().try_for_each(|(option, value)| {
            self.option(&option, &mut value.into_iter().map(OsString::from))
        })
    }

    /// The line that runs an agent CLI, with a brief whatever recipe it has.
    fn run_agent(mut self, mut of_program: Vec<String>, to_run: Vec<OsString>) -> CommandLine {
        of_program.push(RUN.to_owned());
        of_program.append(&mut self.options);
        if ![BRIEF, NO_BRIEF].iter().any(|option| self.given.contains(option)) {
            of_program.push(BRIEF.to_owned());
        }
        CommandLine { words: of_program, to_run }
    }

    fn runs_command(&self) -> bool {
        runs_command(self.info)
    }

    /// Reports whether this word begins the command to run. The word need not be UTF-8.
    fn is_at_command(&self, word: &OsStr, may_be_option: bool) -> bool {
        let begins_option = may_be_option && word.as_encoded_bytes().starts_with(b"-");
        is_at_command(self.info, self.arguments.len()) && !self.takes_name() && !begins_option
    }

    /// Reports whether the next argument is the name of the agent that is to run a command.
    fn takes_name(&self) -> bool {
        takes_name(self.info, &self.given)
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
        let (flag, owner) = self.flag(option).ok_or_else(|| self.no_option(option))?;
        let is_repeated = self.given.contains(&flag.long);
        self.given.push(flag.long);
        let value = match flag.kind {
            FlagInfoKind::Switch if value.is_some() => {
                return Err(Mistake::new(format!("{option} takes no value")));
            }
            FlagInfoKind::Switch => None,
            FlagInfoKind::Option { .. }
                if is_repeated && flag.optionality != Optionality::Repeating =>
            {
                return Err(Mistake::new(format!("{option} is given twice")));
            }
            FlagInfoKind::Option { arg_name } => {
                let kind = Kind::of(arg_name);
                let value = match value {
                    Some(value) => value,
                    None => words.next().map(|word| utf8(&word)).transpose()?.ok_or_else(|| {
                        let kind = kind.map(|kind| format!(" ({})", kind.description()));
                        Mistake::new(format!("{option} needs a value{}", kind.unwrap_or_default()))
                    })?,
                };
                check_value(kind, option, &value)?;
                Some(value)
            }
        };
        let long = flag.long.to_owned();
        match owner {
            Owner::Command => self.options.extend([long].into_iter().chain(value)),
            Owner::Program => self.of_program.extend([long].into_iter().chain(value)),
            Owner::LaterCommand => self.early.push((long, value)),
        }
        Ok(())
    }

    fn flag(&self, option: &str) -> Option<(&'a FlagInfo<'a>, Owner)> {
        flag(self.info, self.root, option)
    }

    fn no_option(&self, option: &str) -> Mistake {
        let message = format!("no option {option}");
        let flags = self.info.flags.iter().filter(|flag| !flag.hidden);
        match nearest(option, flags.map(|flag| flag.long.to_owned())) {
            Some(near) => Mistake::with_hint(message, format!("did you mean {near}?")),
            None => Mistake::new(message),
        }
    }

    fn argument(
        &mut self,
        word: String,
        others: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), Mistake> {
        let Some(positional) = positional(self.info, self.arguments.len()) else {
            return Err(self.unexpected(&word, others));
        };
        check_value(Kind::of(positional.name), positional.name, &word)?;
        self.arguments.push(word);
        Ok(())
    }

    /// An argument after the last one: a part of a text without quotes, or an option without its
    /// dashes.
    fn unexpected(&self, word: &str, others: &mut impl Iterator<Item = OsString>) -> Mistake {
        let message = format!("unexpected argument \"{word}\"");
        let option = format!("--{word}");
        if self.info.flags.iter().any(|flag| flag.long == option) {
            return Mistake::with_hint(message, format!("did you mean {option}?"));
        }
        let last = self.info.positionals.last().and_then(|last| Kind::of(last.name));
        let (Some(Kind::Body), [arguments @ .., text]) = (last, &*self.arguments) else {
            return Mistake::new(message);
        };
        let others = others.map(|other| other.to_string_lossy().into_owned());
        let text = [text, word].map(str::to_owned).into_iter().chain(others);
        let text = text.collect::<Vec<_>>().join(" ");
        let quoted = match text.contains(['"', '$', '`', '\\', '!']) {
            true => "…".to_owned(),
            false => text,
        };
        let command = self.command.into_iter().chain(arguments.iter().map(String::as_str));
        let command = command.collect::<Vec<_>>().join(" ");
        Mistake::with_hint(message, format!("quote the text: {command} \"{quoted}\""))
    }

    /// Parses the words after `help`, which are the path of a command.
    fn help(&self, words: &mut impl Iterator<Item = OsString>) -> Result<Next<'a>, Mistake> {
        let (mut info, mut path) = (self.info, Vec::new());
        while !info.commands.is_empty() {
            let Some(word) = words.next() else { break };
            let word = utf8(&word)?;
            let name = match path.is_empty() {
                true if agents::named(&word).is_some() => RUN,
                true => meaning(&word).0,
                false => &word,
            };
            let Some(command) = info.commands.iter().find(|known| known.name == name) else {
                if path.is_empty() && word == help::ALL {
                    return Ok(Next::Help(vec![word]));
                }
                return Err(Mistake::NoCommand { word, within: path });
            };
            info = &command.command;
            path.push(command.name.to_owned());
        }
        Ok(Next::Help(path))
    }

    /// The mistake of a missing argument or option.
    fn missing(&self, name: &str) -> Mistake {
        let what = Kind::of(name).map_or_else(|| name.to_owned(), |kind| kind.description().into());
        let required = self.info.flags.iter();
        let required = required.filter(|flag| flag.optionality == Optionality::Required);
        let options = required.filter_map(|flag| match flag.kind {
            FlagInfoKind::Option { arg_name } => {
                Some(format!("{} {}", flag.long, arg_name.to_uppercase()))
            }
            FlagInfoKind::Switch => None,
        });
        let arguments = self.info.positionals.iter().map(|argument| {
            let name = argument.name.to_uppercase();
            match argument.optionality {
                Optionality::Greedy => format!("-- {name}"),
                Optionality::Repeating => format!("[{name}...]"),
                Optionality::Required => name,
                _ => format!("[{name}]"),
            }
        });
        let words = options.chain(arguments).collect::<Vec<_>>().join(" ");
        Mistake::Missing { what: format!("give {what}"), words }
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
        if let Some(first) = missing.first() {
            return Err(self.missing(first));
        }
        if !commands.is_empty() && !is_root {
            let command = self.command.unwrap_or_default();
            let names = commands.join(", ");
            return Err(Mistake::new(format!("{command} needs one of: {names}")));
        }
        Ok(Next::End(to_run))
    }
}

/// The command that shows help.
pub(super) const HELP: &str = "help";

/// The option with the name of the agent that `run` and `spawn` start. The name may also stand
/// before the command.
pub(super) const NAME: &str = "--name";

/// The command that runs an agent.
pub(super) const RUN: &str = "run";

/// The options of `run` that decide whether an agent is told how to send messages.
const BRIEF: &str = "--brief";
const NO_BRIEF: &str = "--no-brief";

/// The command that an option belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The command that contains it.
    Command,
    Program,
    /// The command that comes later.
    LaterCommand,
}

/// Reports whether a command's last argument is a command to run with all that follows it.
pub(super) fn runs_command(info: &CommandInfoWithArgs) -> bool {
    let last = info.positionals.last();
    last.is_some_and(|last| last.optionality == Optionality::Greedy)
}

/// Returns the argument with this number, that is not an option. The last one may be repeated.
pub(super) fn positional(info: &CommandInfoWithArgs, number: usize) -> Option<&PositionalInfo<'_>> {
    let last = info.positionals.last();
    let repeated = last.filter(|last| last.optionality == Optionality::Repeating);
    info.positionals.get(number).or(repeated)
}

/// Reports whether all arguments before the command to run are given.
pub(super) fn is_at_command(info: &CommandInfoWithArgs, arguments: usize) -> bool {
    runs_command(info) && arguments + 1 >= info.positionals.len()
}

/// Reports whether the next argument is the name of the agent that is to run a command.
pub(super) fn takes_name(info: &CommandInfoWithArgs, given: &[&str]) -> bool {
    info.flags.iter().any(|flag| flag.long == NAME) && runs_command(info) && !given.contains(&NAME)
}

/// Finds an option: of this command, of the program, or, before the command is known, of any
/// command.
pub(super) fn flag<'a>(
    info: &'a CommandInfoWithArgs,
    root: &'a CommandInfoWithArgs,
    option: &str,
) -> Option<(&'a FlagInfo<'a>, Owner)> {
    let find =
        |info: &'a CommandInfoWithArgs| info.flags.iter().find(|flag| is_named(flag, option));
    let own = find(info).map(|flag| (flag, Owner::Command));
    let of_program = || find(root).map(|flag| (flag, Owner::Program));
    let is_root = std::ptr::eq(info, root);
    let of_any = || {
        let mut commands = root.commands.iter().filter(|_| is_root);
        let flag = commands.find_map(|command| find(&command.command))?;
        Some((flag, Owner::LaterCommand))
    };
    own.or_else(of_program).or_else(of_any)
}

fn is_named(flag: &FlagInfo<'_>, option: &str) -> bool {
    let is_short =
        |short: char| option.strip_prefix('-').is_some_and(|name| name.chars().eq([short]));
    flag.long == option || flag.short.is_some_and(is_short)
}

fn check_value(kind: Option<Kind>, name: &str, value: &str) -> Result<(), Mistake> {
    let checked = kind.map_or(Ok(()), |kind| kind.check(value));
    checked.map_err(|reason| Mistake::new(format!("{name} \"{value}\": {reason}")))
}

/// Reports whether a word is an option, rather than a text that begins with a dash: `-`, `-5`,
/// `- an item`, `--- a/file`.
pub(super) fn is_option(word: &str) -> bool {
    let Some(name) = word.strip_prefix('-') else { return false };
    let name = name.strip_prefix('-').unwrap_or(name);
    let name = name.split('=').next().unwrap_or(name);
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && !name.contains(char::is_whitespace)
}

fn utf8(word: &OsStr) -> Result<String, Mistake> {
    word.to_str().map(str::to_owned).ok_or_else(|| {
        Mistake::with_hint(
            format!("the argument {} is not UTF-8", word.display()),
            "give the text on standard input or with --file",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{failure::USAGE, top_info};

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
        checked(&["help", "all"], &["all", "--help"], &[]);
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
    fn argument_may_be_repeated() {
        checked(&["stop", "Ann", "Bob", "--json"], &["stop", "--json", "--", "Ann", "Bob"], &[]);
        checked(&["restore"], &["restore"], &[]);
        checked(&["restore", "a", "b", "c"], &["restore", "--", "a", "b", "c"], &[]);
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
            &["spawn", "--name", "Ann", "--json", "--cwd", "/x"],
            &["bash", "-c", "x"],
        );
        checked(
            &["spawn", "--json", "Ann", "cat", "-n"],
            &["spawn", "--json", "--name", "Ann"],
            &["cat", "-n"],
        );
        checked(&["spawn", "-n", "Ann", "cat"], &["spawn", "--name", "Ann"], &["cat"]);
        checked(&["run", "Ann", "--", "cat"], &["run", "--name", "Ann"], &["cat"]);
        checked(&["run", "--", "cat"], &["run"], &["cat"]);
        checked(
            &["bridge", "pi", "--export", "Ann", "--", "ssh", "pi"],
            &["bridge", "--export", "Ann", "--", "pi"],
            &["ssh", "pi"],
        );
        checked(
            &["bridge", "--export=Ann", "pi", "ssh", "--", "x"],
            &["bridge", "--export", "Ann", "--", "pi"],
            &["ssh", "--", "x"],
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
            (&["sned"][..], "no command \"sned\"; did you mean `agent-relay send`?"),
            (&["claud"], "no command \"claud\"; did you mean `agent-relay claude`?"),
            (&["nonsense"], "no command \"nonsense\"; run `agent-relay help` for a list"),
            (
                &["policy", "relaod"],
                "no command \"relaod\"; did you mean `agent-relay policy reload`?",
            ),
            (
                &["policy", "nonsense", "x"],
                "no command \"nonsense\"; run `agent-relay help policy` for a list",
            ),
            (
                &["help", "policy", "nonsense"],
                "no command \"nonsense\"; run `agent-relay help policy` for a list",
            ),
            (
                &["policy"],
                "policy needs one of: key, check, reload, clear; run `agent-relay help policy`",
            ),
            (
                &["policy", "key"],
                "give the name of an agent: policy key NAME; run `agent-relay help policy key`",
            ),
            (
                &["send"],
                "give the name of an agent, or *: send TO [BODY]; run `agent-relay help send`",
            ),
            (&["policy", "key", "Ann", "--x"], "no option --x; run `agent-relay help policy key`"),
            (&["send", "--x"], "no option --x; run `agent-relay help send`"),
            (&["send", "--topc"], "no option --topc; did you mean --topic?"),
            (&["--x"], "no option --x; run `agent-relay help`"),
            (&["run", "-nAnn"], "no option -nAnn; run `agent-relay help run`"),
            (
                &["send", "Bob", "hello", "there", "world"],
                "unexpected argument \"there\"; quote the text: send Bob \"hello there world\"",
            ),
            (
                &["ask", "Bob", "what", "is", "$HOME?"],
                "unexpected argument \"is\"; quote the text: ask Bob \"…\"",
            ),
            (&["status", "x", "json"], "unexpected argument \"json\"; did you mean --json?"),
            (&["agents", "x", "y"], "unexpected argument \"y\"; run `agent-relay help agents`"),
            (
                &["stop"],
                "give the name of an agent: stop AGENT [AGENT...]; run `agent-relay help stop`",
            ),
            (&["--as", "Bob", "agents"], "no option --as; run `agent-relay help agents`"),
            (&["--home"], "--home needs a value (a directory); run `agent-relay help`"),
            (
                &["listen", "--as", "B", "--as", "C"],
                "--as is given twice; run `agent-relay help listen`",
            ),
            (&["status", "--json=yes"], "--json takes no value; run `agent-relay help status`"),
            (
                &["listen", "--count", "-1"],
                "--count \"-1\": give a whole number of messages, 1 at least; \
                 run `agent-relay help listen`",
            ),
        ] {
            let info = top_info();
            let failure = check("agent-relay", &info, line.iter().map(OsString::from)).unwrap_err();
            assert_eq!(
                (failure.code, failure.line().as_deref()),
                (USAGE, Some(message)),
                "{line:?}"
            );
        }
    }

    #[test]
    fn options_before_and_after_the_command_are_understood() {
        checked(&["--json", "status"], &["status", "--json"], &[]);
        checked(&["--as", "Bob", "inbox"], &["inbox", "--as", "Bob"], &[]);
        checked(&["status", "--home", "/x"], &["--home", "/x", "status"], &[]);
        checked(
            &["policy", "key", "Ann", "--home=/x", "--json"],
            &["--home", "/x", "policy", "key", "--json", "--", "Ann"],
            &[],
        );
        checked(&["ls"], &["agents"], &[]);
        checked(&["list", "--json"], &["agents", "--json"], &[]);
        checked(&["help", "ls"], &["agents", "--help"], &[]);
    }

    #[test]
    fn old_words_for_commands_are_understood() {
        checked(&["dead-letters", "--json"], &["history", "--dead", "--json"], &[]);
        checked(&["--json", "forget", "Ann"], &["purge", "--json", "--forget", "--", "Ann"], &[]);
        checked(&["events", "-f"], &["tap", "--events", "--follow"], &[]);
        checked(&["events", "--events"], &["tap", "--events", "--events"], &[]);
        checked(&["help", "events"], &["tap", "--help"], &[]);
        checked(&["forget", "--help"], &["purge", "--forget", "--help"], &[]);
        for (word, name, switches) in SYNONYMS {
            let info = top_info();
            let known = info.commands.iter().find(|known| known.name == name).expect(word);
            let is_switch = |switch| known.command.flags.iter().any(|flag| flag.long == switch);
            assert!(switches.iter().all(|switch| is_switch(*switch)), "{word}");
        }
    }

    #[test]
    fn agent_cli_needs_no_run() {
        let given = ["run", "--brief"];
        checked(&["claude"], &given, &["claude"]);
        checked(&["codex", "--json", "-n", "x"], &given, &["codex", "--json", "-n", "x"]);
        checked(
            &["--home", "/x", "-n", "Ann", "gemini"],
            &["--home", "/x", "run", "--name", "Ann", "--brief"],
            &["gemini"],
        );
        checked(&["--no-brief", "claude"], &["run", "--no-brief"], &["claude"]);
        checked(&["spawn", "claude", "--model", "x"], &["spawn"], &["claude", "--model", "x"]);
        checked(&["run", "--no-brief", "codex"], &["run", "--no-brief"], &["codex"]);
        checked(&["run", "claude", "--", "bash"], &["run", "--name", "claude"], &["bash"]);
        checked(&["help", "claude"], &["run", "--help"], &[]);
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
    fn options_that_commands_share_say_the_same() {
        let info = top_info();
        for (option, sharing) in [
            ("--as", &["ask", "send"][..]),
            ("--importance", &["ask", "send"]),
            ("--key-file", &["ask", "send", "listen", "run", "spawn"]),
        ] {
            let commands = info.commands.iter().filter(|it| sharing.contains(&it.name));
            let texts: Vec<_> = commands
                .flat_map(|it| it.command.flags.iter().filter(|flag| flag.long == option))
                .map(|flag| flag.description)
                .collect();
            assert_eq!(texts, vec![texts[0]; sharing.len()], "{option}");
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
