//! The words that complete a command line, for the scripts of `completions`.
//!
//! A script calls this program with the words before the cursor. The first line of the answer says
//! how to complete: `words`, `files`, `directories`, or `command N`, if a separate command line
//! begins at word N. A candidate follows on each other line: the word, a tab, and a description.
//! Nothing is started, and nothing is printed to standard error.

use super::{
    agents::activity,
    argv::{self, HELP, NAME, RUN},
    failure::{DONE, Failure},
    identity::Identity,
    messages::{beginning_of_text, each_row, route, short_id},
    print::{Out, counted},
    request::each_agent,
    values::{Completion, Kind},
};
use crate::wrap::{
    agents::{self, AGENTS},
    teams,
};
use argh::{CommandInfoWithArgs, FlagInfo, FlagInfoKind};
use client::{Client, home::HomeOptions};
use crossbeam_channel::bounded;
use protocol::{
    name::{EVERYONE, Name},
    relay::{AgentRow, HistoryRequest, MessageRow, Page, RequestName},
    text::{escaped, is_hidden},
};
use std::{collections::BTreeSet, ffi::OsString, thread, time::Duration};

/// The argument after [`AS_AGENT_RELAY`](super::program::AS_AGENT_RELAY) that makes this program
/// print candidates.
pub(super) const COMPLETE: &str = "complete";

/// The form of bash's words: as they are typed, with their quotes.
const QUOTED: &str = "quoted";

/// The form of PowerShell's words: with a dot before each, since Windows PowerShell drops empty
/// arguments.
const MARKED: &str = "marked";

/// The longest wait for the daemon.
const LOOK_UP: Duration = Duration::from_millis(250);

/// The maximum number of candidates.
const CANDIDATES_MAX: usize = 500;

/// The number of messages that provide ids and topics as candidates.
const MESSAGES: usize = 200;

/// The longest description.
const DESCRIPTION_CHARS: usize = 60;

/// Prints the candidates for the last of the words after the program's name. The first argument
/// says how the words are given: [`QUOTED`], [`MARKED`] or plain.
pub(super) fn run(arguments: &[OsString], root: &CommandInfoWithArgs) -> i32 {
    let arguments: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let Some((way, words)) = arguments.split_first() else { return DONE };
    let words = words.iter().map(|word| match &**way {
        QUOTED => unquoted(word),
        MARKED => word.get(1..).unwrap_or_default().to_owned(),
        _ => word.to_string(),
    });
    let answer = answer(&words.collect::<Vec<_>>(), root, &live);
    // A shell that is gone needs no answer.
    drop(Out::new().raw(&answer.to_text()));
    DONE
}

/// Removes the quotes and backslashes of a word of bash. An open quote ends with the word.
fn unquoted(word: &str) -> String {
    let (mut plain, mut quote) = (String::new(), None);
    let mut characters = word.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (Some('"'), '\\') if characters.peek().is_some_and(|next| "\"\\$`".contains(*next)) => {
                plain.extend(characters.next());
            }
            (None, '\\') => plain.extend(characters.next()),
            _ => plain.push(character),
        }
    }
    plain
}

/// How a shell completes the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Only the candidates are offered.
    Words,
    Files,
    Directories,
    /// The words from this number on are completed as a command line of their own.
    Command(usize),
}

/// A word that the shell offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    word: String,
    description: String,
}

impl Candidate {
    fn new(word: impl Into<String>, description: &str) -> Self {
        let description = escaped(description.lines().next().unwrap_or_default());
        let description = match description.char_indices().nth(DESCRIPTION_CHARS) {
            Some((end, _)) => format!("{}…", &description[..end]),
            None => description,
        };
        Self { word: word.into(), description }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    rest: Rest,
    candidates: Vec<Candidate>,
}

impl Answer {
    const fn new(rest: Rest) -> Self {
        Self { rest, candidates: Vec::new() }
    }

    const fn words(candidates: Vec<Candidate>) -> Self {
        Self { rest: Rest::Words, candidates }
    }

    fn to_text(&self) -> String {
        let mut text = match self.rest {
            Rest::Words => "words\n".to_owned(),
            Rest::Files => "files\n".to_owned(),
            Rest::Directories => "directories\n".to_owned(),
            Rest::Command(first) => format!("command {first}\n"),
        };
        for Candidate { word, description } in &self.candidates {
            text.extend([word, "\t", description, "\n"]);
        }
        text
    }
}

/// Candidates that come from the daemon or the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Live {
    /// Agents: all, those that are here, or those that are away.
    Agents(Option<bool>),
    /// Groups of teams that are up, which the home has.
    Groups,
    /// Ids of the newest messages, or of dead letters.
    Messages,
    DeadLetters,
    /// Topics of the newest messages.
    Topics,
}

/// A function that returns their candidates.
type LookUp<'a> = &'a dyn Fn(&HomeOptions, Live, &str) -> Vec<Candidate>;

/// Answers for the last of the words.
fn answer(words: &[String], root: &CommandInfoWithArgs, look_up: LookUp<'_>) -> Answer {
    let Some((typed, before)) = words.split_last() else { return Answer::new(Rest::Words) };
    let mut place = Place::new(root);
    for (number, word) in before.iter().enumerate() {
        match place.pass(word) {
            Passed::On => {}
            Passed::BeginOfCommand => return Answer::new(Rest::Command(number)),
            Passed::BeforeCommand => return Answer::new(Rest::Command(number + 1)),
            Passed::Nowhere => return Answer::new(Rest::Words),
        }
    }
    let mut answer = place.answer(typed, words.len() - 1, look_up);
    let is_typed = |word: &str| {
        let beginning = word.as_bytes().get(..typed.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(typed.as_bytes()))
    };
    answer.candidates.retain(|candidate| is_typed(&candidate.word));
    answer.candidates.truncate(CANDIDATES_MAX);
    answer
}

/// The place in the command line after some of its words.
struct Place<'a> {
    root: &'a CommandInfoWithArgs,
    /// The command, and its name; the program itself has none.
    info: &'a CommandInfoWithArgs,
    command: Option<&'a str>,
    /// The number of arguments that are not options.
    arguments: usize,
    /// The options that are given.
    given: Vec<&'a str>,
    /// The option that takes the next word as its value.
    valued: Option<&'a FlagInfo<'a>>,
    /// Whether `--` has not been given.
    may_be_option: bool,
    /// Whether the words are the path of a command after `help`.
    is_help: bool,
    global: HomeOptions,
}

/// The result of a word before the cursor.
enum Passed {
    On,
    /// The word begins a separate command line.
    BeginOfCommand,
    /// The word precedes a separate command line.
    BeforeCommand,
    /// The word is a mistake, so that nothing is known about later words.
    Nowhere,
}

impl<'a> Place<'a> {
    fn new(root: &'a CommandInfoWithArgs) -> Self {
        Self {
            root,
            info: root,
            command: None,
            arguments: 0,
            given: Vec::new(),
            valued: None,
            may_be_option: true,
            is_help: false,
            global: HomeOptions::default(),
        }
    }

    fn pass(&mut self, word: &str) -> Passed {
        if let Some(flag) = self.valued.take() {
            self.note(flag, word);
            return Passed::On;
        }
        let runs_command = argv::runs_command(self.info);
        if self.may_be_option && word == "--" {
            if runs_command {
                return Passed::BeforeCommand;
            }
            self.may_be_option = false;
        } else if self.may_be_option && argv::is_option(word) {
            let (option, value) = word.split_once('=').map_or((word, None), |(o, v)| (o, Some(v)));
            let Some((flag, _)) = argv::flag(self.info, self.root, option) else {
                return Passed::Nowhere;
            };
            self.given.push(flag.long);
            match (&flag.kind, value) {
                (FlagInfoKind::Option { .. }, None) => self.valued = Some(flag),
                (FlagInfoKind::Option { .. }, Some(value)) => self.note(flag, value),
                (FlagInfoKind::Switch, _) => {}
            }
        } else if self.takes_name() {
            self.given.push(NAME);
        } else if argv::is_at_command(self.info, self.arguments) {
            return Passed::BeginOfCommand;
        } else if self.info.commands.is_empty() {
            self.arguments += 1;
        } else {
            return self.pass_command(word);
        }
        Passed::On
    }

    fn pass_command(&mut self, word: &str) -> Passed {
        let is_root = self.command.is_none();
        if is_root && !self.is_help && word == HELP {
            self.is_help = true;
            return Passed::On;
        }
        if is_root && agents::named(word).is_some() {
            return if self.is_help { Passed::Nowhere } else { Passed::BeginOfCommand };
        }
        let (name, switches) = if is_root { argv::meaning(word) } else { (word, &[][..]) };
        self.given.extend(switches);
        let Some(command) = self.info.commands.iter().find(|known| known.name == name) else {
            return Passed::Nowhere;
        };
        (self.info, self.command) = (&command.command, Some(command.name));
        Passed::On
    }

    /// Notes the value of an option that determines the daemon.
    fn note(&mut self, flag: &FlagInfo<'_>, value: &str) {
        match flag.long {
            "--home" => self.global.home = Some(value.to_owned()),
            "--endpoint" => self.global.endpoint = Some(value.to_owned()),
            _ => {}
        }
    }

    /// Whether the next argument is the name of the agent that is to run a command.
    fn takes_name(&self) -> bool {
        argv::takes_name(self.info, &self.given)
    }

    fn answer(&self, typed: &str, number: usize, look_up: LookUp<'_>) -> Answer {
        if let Some(FlagInfo { kind: FlagInfoKind::Option { arg_name }, .. }) = self.valued {
            return self.value(arg_name, typed, look_up);
        }
        if self.may_be_option && !self.is_help && typed.starts_with('-') {
            return self.option(typed, look_up);
        }
        if self.takes_name() && !self.is_help {
            let names = look_up(&self.global, Live::Agents(Some(false)), typed);
            return Answer::words(names);
        }
        if argv::is_at_command(self.info, self.arguments) && !self.is_help {
            return Answer::new(Rest::Command(number));
        }
        if !self.info.commands.is_empty() {
            return Answer::words(self.commands());
        }
        match argv::positional(self.info, self.arguments) {
            Some(argument) if !self.is_help => self.value(argument.name, typed, look_up),
            _ => Answer::new(Rest::Words),
        }
    }

    fn commands(&self) -> Vec<Candidate> {
        let commands = self.info.commands.iter();
        let commands = commands.map(|known| Candidate::new(known.name, known.command.description));
        let mut candidates: Vec<_> = commands.collect();
        if self.command.is_none() && !self.is_help {
            let note = |name| Candidate::new(name, &format!("Run {name} as an agent."));
            candidates.extend(AGENTS.iter().map(|agent| note(agent.name)));
            candidates.push(Candidate::new(HELP, "Show the commands, or the help of a command."));
        }
        candidates
    }

    /// Answers for an option, or for its value after an equals sign.
    fn option(&self, typed: &str, look_up: LookUp<'_>) -> Answer {
        if let Some((option, value)) = typed.split_once('=') {
            let flag = argv::flag(self.info, self.root, option);
            let Some((FlagInfo { kind: FlagInfoKind::Option { arg_name }, .. }, _)) = flag else {
                return Answer::new(Rest::Words);
            };
            let mut answer = self.value(arg_name, value, look_up);
            for candidate in &mut answer.candidates {
                candidate.word.insert_str(0, &format!("{option}="));
            }
            return answer;
        }
        let of_run =
            self.root.commands.iter().filter(|known| self.command.is_none() && known.name == RUN);
        let flags = self.info.flags.iter().chain(self.root.flags);
        let flags = flags.chain(of_run.flat_map(|run| run.command.flags));
        let mut seen = BTreeSet::new();
        let flags = flags.filter(|flag| {
            !flag.hidden && !self.given.contains(&flag.long) && seen.insert(flag.long)
        });
        Answer::words(flags.map(|flag| Candidate::new(flag.long, flag.description)).collect())
    }

    /// Answers for the value of an option or an argument with this placeholder.
    fn value(&self, placeholder: &str, typed: &str, look_up: LookUp<'_>) -> Answer {
        let Some(kind) = Kind::of(placeholder) else { return Answer::new(Rest::Words) };
        let rest = match kind.completion() {
            Completion::Files => Rest::Files,
            Completion::Directories => Rest::Directories,
            Completion::Words(_) | Completion::Nothing => Rest::Words,
        };
        let mut candidates = match kind.completion() {
            Completion::Words(words) => {
                words.iter().map(|word| Candidate::new(*word, "")).collect()
            }
            _ => Vec::new(),
        };
        // The names before the last comma stay.
        let others = match typed.rsplit_once(',').filter(|_| kind == Kind::Recipient) {
            Some((others, _)) => &typed[..=others.len()],
            None => "",
        };
        let typed = &typed[others.len()..];
        let live = match kind {
            Kind::Agent => Some(Live::Agents(match self.command {
                Some("attach" | "hold" | "release" | "stop") => Some(true),
                Some("rename") => Some(false),
                Some("purge") if self.given.contains(&"--forget") => Some(false),
                _ => None,
            })),
            Kind::Name | Kind::NameOrFile | Kind::Recipient => Some(Live::Agents(None)),
            Kind::MessageId if self.command == Some("redeliver") => Some(Live::DeadLetters),
            Kind::MessageId => Some(Live::Messages),
            Kind::Topic | Kind::TopicPattern => Some(Live::Topics),
            _ => None,
        };
        let takes_groups = match kind {
            Kind::Recipient => true,
            Kind::Agent => matches!(self.command, Some("hold" | "release" | "stop")),
            _ => false,
        };
        for live in live.into_iter().chain(takes_groups.then_some(Live::Groups)) {
            candidates.extend(look_up(&self.global, live, typed));
        }
        for candidate in &mut candidates {
            candidate.word.insert_str(0, others);
        }
        if kind == Kind::Recipient && others.is_empty() {
            candidates.push(Candidate::new(EVERYONE, "all agents"));
        }
        Answer { rest, candidates }
    }
}

/// Asks the running daemon for candidates. Returns none if no daemon runs, or if the daemon does
/// not answer in time.
fn live(global: &HomeOptions, live: Live, typed: &str) -> Vec<Candidate> {
    let (send, received) = bounded(1);
    let (global, typed) = (global.clone(), typed.to_owned());
    let asking = move || {
        let mut candidates = Vec::new();
        // Whatever was found before a failure is offered.
        drop(look_up(&global, live, &typed, &mut candidates));
        let _ = send.send(candidates);
    };
    // Waits for: the system, the daemon. Not joined: the main thread waits 250 ms, then the process
    // ends.
    match thread::Builder::new().name("complete".into()).spawn(asking) {
        Ok(_) => received.recv_timeout(LOOK_UP).unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

fn look_up(
    global: &HomeOptions,
    live: Live,
    typed: &str,
    candidates: &mut Vec<Candidate>,
) -> Result<(), Failure> {
    if live == Live::Groups {
        let groups = teams::groups(&global.home()?).map_err(Failure::because)?;
        let described = |(group, agents): (_, Vec<_>)| Candidate::new(group, &agents.join(", "));
        candidates.extend(groups.into_iter().map(described));
        return Ok(());
    }
    let context = global.context()?;
    let identity = Identity::of_process(&context)?;
    let client = context.try_join(&|endpoint| identity.settings(endpoint))?;
    match live {
        // The daemon does not know them.
        Live::Groups => Ok(()),
        Live::Agents(here) => each_agent(&client, |agent| {
            let is_wanted = here.is_none_or(|here| here == agent.here);
            if is_wanted && Name::parse_any(&agent.name).is_ok() {
                candidates.push(Candidate::new(&*agent.name, &state(&agent)));
            }
            Ok(())
        }),
        Live::Messages => messages(&client, RequestName::History, |message| {
            let id = id(message, typed);
            candidates.push(Candidate::new(id, &described(message)));
        }),
        Live::DeadLetters => messages(&client, RequestName::DeadLetters, |message| {
            let id = id(message, typed);
            candidates.push(Candidate::new(id, &described(message)));
        }),
        Live::Topics => {
            let mut topics = BTreeSet::new();
            messages(&client, RequestName::History, |message| {
                topics.extend(message.topic.as_deref().map(str::to_owned));
            })?;
            topics.retain(|topic| !topic.contains(|c| is_hidden(c) || c == '\n' || c == '\t'));
            candidates.extend(topics.into_iter().map(|topic| Candidate::new(topic, "")));
            Ok(())
        }
    }
}

/// Calls `each` with the newest messages of a list.
fn messages(
    client: &Client,
    list: RequestName,
    mut each: impl FnMut(&MessageRow<'_>),
) -> Result<(), Failure> {
    let request = |Page { cursor, limit }| HistoryRequest { cursor, limit, ..Default::default() };
    let mut left = MESSAGES;
    each_row(client, list, MESSAGES, request, |_, message| {
        each(message);
        left -= 1;
        Ok(left > 0)
    })
}

/// The id of a message: the part that people see, or the whole id if more is typed already.
fn id(message: &MessageRow<'_>, typed: &str) -> String {
    let short = short_id(&message.id);
    if typed.len() > short.len() { escaped(&message.id) } else { short }
}

fn described(message: &MessageRow<'_>) -> String {
    format!("{}: {}", route(message), beginning_of_text(message))
}

/// The state of an agent in words.
fn state(agent: &AgentRow<'_>) -> String {
    let state = match activity(agent) {
        Some((words, _)) => words.strip_prefix("is ").unwrap_or(&words).to_owned(),
        None if agent.here => "here".to_owned(),
        None => "away".to_owned(),
    };
    match agent.waiting {
        0 => state,
        waiting => format!("{state}, {} waiting", counted(waiting, "message")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top_info;

    /// Answers a line, with an agent `Ann`, a message `1a2b3c4d` and a topic `build:main`.
    fn answered(line: &[&str]) -> (Rest, Vec<String>) {
        let words: Vec<_> = line.iter().map(|word| (*word).to_owned()).collect();
        let found = answer(&words, &top_info(), &|_, live, _| {
            let word = match live {
                Live::Agents(Some(true)) => "Here",
                Live::Agents(_) => "Ann",
                Live::Groups => "@team",
                Live::Messages => "1a2b3c4d",
                Live::DeadLetters => "5e6f7a8b",
                Live::Topics => "build:main",
            };
            vec![Candidate::new(word, "")]
        });
        (found.rest, found.candidates.into_iter().map(|candidate| candidate.word).collect())
    }

    #[track_caller]
    fn offers(line: &[&str], words: &[&str]) {
        assert_eq!(answered(line), (Rest::Words, words.iter().map(|w| (*w).to_owned()).collect()));
    }

    #[test]
    fn commands_and_agent_clis_are_offered() {
        offers(&["his"], &["history"]);
        offers(&["dea"], &[]);
        offers(&["dead-letters", "--dea"], &[]);
        offers(&["cla"], &["claude"]);
        offers(&["policy", "re"], &["reload"]);
        offers(&["--home", "/x", "sen"], &["send"]);
        offers(&["--as", "Ann", "inb"], &["inbox"]);
        offers(&["help", "sen"], &["send"]);
        offers(&["help", "policy", "che"], &["check"]);
        offers(&["help", "cla"], &[]);
        offers(&["nonsense", ""], &[]);
        let (_, all) = answered(&[""]);
        assert!(["run", "codex", "help"].iter().all(|word| all.contains(&(*word).to_owned())));
        assert!(all.iter().all(|word| !word.starts_with('-')), "{all:?}");
    }

    #[test]
    fn options_are_offered_after_a_dash_only() {
        offers(&["send", "--top"], &["--topic"]);
        offers(&["send", "--topic", "x", "--top"], &[]);
        offers(&["status", "--ho"], &["--home"]);
        offers(&["--rec"], &["--record"]);
        offers(&["--made"], &[]);
        offers(&["send", "Ann", ""], &[]);
        offers(&["send", "--", "--to"], &[]);
        let (_, hidden) = answered(&["up", "--"]);
        assert!(!hidden.contains(&"--detached".to_owned()), "{hidden:?}");
    }

    #[test]
    fn values_are_offered_by_their_kind() {
        offers(&["send", ""], &["Ann", "@team", "*"]);
        offers(&["send", "@"], &["@team"]);
        offers(&["send", "Ann,@t"], &["Ann,@team"]);
        offers(&["send", "a"], &["Ann"]);
        offers(&["send", "Bob,a"], &["Bob,Ann"]);
        offers(&["send", "Bob,"], &["Bob,Ann", "Bob,@team"]);
        offers(&["ls", "--json", ""], &["Ann"]);
        offers(&["stop", ""], &["Here", "@team"]);
        offers(&["stop", "Here", ""], &["Here", "@team"]);
        offers(&["attach", ""], &["Here"]);
        offers(&["purge", "--forget", ""], &["Ann"]);
        offers(&["forget", ""], &["Ann"]);
        offers(&["inbox", "--as="], &["--as=Ann"]);
        offers(&["send", "--topic", "build:"], &["build:main"]);
        offers(&["redeliver", ""], &["5e6f7a8b"]);
        offers(&["status", "1a"], &["1a2b3c4d"]);
        offers(&["wait", "Ann", ""], &["idle", "ended", "message"]);
        offers(&["completions", "z"], &["zsh"]);
        offers(&["send", "--ttl", ""], &[]);
        assert_eq!(answered(&["send", "--file", ""]).0, Rest::Files);
        assert_eq!(answered(&["--home", ""]).0, Rest::Directories);
        assert_eq!(answered(&["--home=/t"]).0, Rest::Directories);
    }

    #[test]
    fn command_to_run_is_handed_over() {
        for (line, first) in [
            (&["run", "-n", "Ann", "--", ""][..], 4),
            (&["run", "-n", "Ann", "cl"], 3),
            (&["run", "-n", "Ann", "--", "git", "--", "x"], 4),
            (&["run", "Ann", "git", "pu"], 2),
            (&["run", "--", "git"], 2),
            (&["claude", "--mod"], 0),
            (&["-n", "Ann", "codex", ""], 2),
        ] {
            assert_eq!(answered(line), (Rest::Command(first), Vec::new()), "{line:?}");
        }
        offers(&["run", ""], &["Ann"]);
        offers(&["run", "-n", ""], &["Ann"]);
    }

    #[test]
    fn candidates_are_on_one_line_and_bounded() {
        let hostile = Candidate::new("x", "a\tb\u{1b}[31m\u{202e}\nsecond line");
        let text = Answer::words(vec![hostile]).to_text();
        assert_eq!(text, "words\nx\ta\\u{9}b\\u{1b}[31m\\u{202e}\n");
        let long = Candidate::new("x", &"é".repeat(100));
        assert_eq!(long.description.chars().count(), DESCRIPTION_CHARS + 1);
        let many = |_: &HomeOptions, _, _: &str| vec![Candidate::new("Ann", ""); 1000];
        let words = ["send".to_owned(), String::new()];
        assert_eq!(answer(&words, &top_info(), &many).candidates.len(), CANDIDATES_MAX);
    }

    #[test]
    fn words_of_bash_lose_their_quotes() {
        for (word, plain) in [
            (r"a\ b", "a b"),
            ("'a b", "a b"),
            (r#""a\$b\c"d"#, r"a$b\cd"),
            (r"\", ""),
            ("$(x)", "$(x)"),
        ] {
            assert_eq!(unquoted(word), plain);
        }
    }
}
