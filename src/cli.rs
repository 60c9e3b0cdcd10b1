//! The command line: what was asked for, done, and an exit code. One file a command.

mod agents;
mod argv;
mod ask;
mod attach;
mod bench;
mod brief;
mod completions;
mod dead_letters;
mod demo;
mod doctor;
mod down;
mod history;
mod hold;
mod identity;
mod inbox;
mod input;
mod launch;
mod listen;
mod log;
mod messages;
mod place;
mod policy;
mod print;
mod question;
mod read;
mod redeliver;
mod release;
mod restart;
mod run;
mod send;
mod service;
mod spawn;
mod status;
mod stop;
mod tap;
mod up;
mod wrapped;

use crate::client::{ClientError, Ended};
use argh::{ArgsInfo, FromArgs, SubCommandInfo};
use argv::Words;
use print::{foreign_line, say};
use std::{
    ffi::{OsStr, OsString},
    fmt::Display,
    io::{self, Write},
};

/// What was asked for was done.
const DONE: i32 = 0;
/// It failed.
const FAILED: i32 = 1;
/// It was asked for in a way that means nothing.
const USAGE: i32 = 2;
/// A message was not delivered.
const NOT_DELIVERED: i32 = 3;
/// No answer in time.
const TIMED_OUT: i32 = 4;

/// The first argument with which either executable is `agent-relay`, so that each can start the
/// daemon by running itself again.
const AS_AGENT_RELAY: &str = "--as-agent-relay";

/// This program's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs `agent-relay` with the arguments after the program's name; gives back its exit code.
pub fn agent_relay(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let mut arguments = arguments.into_iter().peekable();
    if arguments.next_if(|first| first == AS_AGENT_RELAY).is_some() {
        // Parts of commands that run in a process of their own.
        let part = arguments.next_if(|word| {
            [bench::FLOOR, demo::AGENT].map(OsStr::new).contains(&word.as_os_str())
        });
        if let Some(part) = part {
            let word = arguments.next().unwrap_or_default();
            let word = word.to_string_lossy();
            return end(if part == bench::FLOOR {
                bench::floor(&word)
            } else {
                demo::agent(&word)
            });
        }
        if arguments.next_if(|word| word == run::CONSOLE_MEMBERS).is_some() {
            return end(run::console_members());
        }
        let words: Vec<_> = arguments.by_ref().collect();
        if let Some(hosted) = service::Hosted::of(&words) {
            return end(hosted.run());
        }
        return end(argv::cut(words).and_then(|words| parse(&words)?.run(words.command)));
    }
    end(argv::cut(arguments).and_then(|words| parse(&words)?.run(words.command)))
}

/// Runs `agent-relay-wrap` with the arguments after the program's name; gives back its exit code.
pub fn agent_relay_wrap(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let mut arguments = arguments.into_iter().peekable();
    if arguments.peek().is_some_and(|first| first == AS_AGENT_RELAY) {
        return agent_relay(arguments);
    }
    end(run::agent_relay_wrap(arguments))
}

fn parse(words: &Words) -> Result<Top, Failure> {
    let own: Vec<_> = words.own.iter().map(String::as_str).collect();
    Top::from_args(&["agent-relay"], &own).map_err(|exit| {
        if exit.status.is_err()
            && let Some(unknown) = unknown_command(words)
        {
            return unknown;
        }
        Failure::early(exit, &help_of(words))
    })
}

/// How help is had for what was typed: for a command, or for a command of a command.
fn help_of(words: &Words) -> String {
    let mut help = "agent-relay help".to_owned();
    let mut all = Top::get_args_info().commands;
    let mut typed = words.own.iter().skip_while(|word| Some(*word) != words.command_word.as_ref());
    while let Some(found) = typed.next().and_then(|word| all.into_iter().find(|it| it.name == word))
    {
        help.extend([" ", found.name]);
        all = found.command.commands;
    }
    help
}

/// The command that there isn't: the first word, or the second of a command that has commands.
fn unknown_command(words: &Words) -> Option<Failure> {
    let command = words.command_word.as_deref()?;
    let all = Top::get_args_info().commands;
    let Some(found) = all.iter().find(|it| it.name == command) else {
        return Some(no_command(command, &all, "agent-relay", "agent-relay help"));
    };
    let actions = &found.command.commands;
    let word = words.own.iter().skip_while(|word| *word != command).nth(1)?;
    let is_unknown = !word.starts_with('-') && actions.iter().all(|it| it.name != word);
    let before = format!("agent-relay {command}");
    let help = format!("agent-relay help {command}");
    (!actions.is_empty() && is_unknown).then(|| no_command(word, actions, &before, &help))
}

fn no_command(word: &str, all: &[SubCommandInfo], before: &str, help: &str) -> Failure {
    let nearest = ask::closest(word, all.iter().map(|it| it.name.to_owned()));
    let advice = nearest.map(|name| format!("did you mean `{before} {name}`?"));
    let advice = advice.unwrap_or_else(|| format!("`{help}` lists the commands"));
    Failure::usage(format!("no command {}: {advice}", foreign_line(word)))
}

fn end(result: Result<i32, Failure>) -> i32 {
    match result {
        Ok(code) => code,
        Err(Failure { code, words: None }) => code,
        Err(Failure { code, words: Some(words) }) => {
            say(words);
            code
        }
    }
}

/// Lets AI coding agents that run side by side on one machine talk to each other.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    help_triggers("--help"),
    example = "agent-relay run -n Ann -- claude",
    example = "agent-relay send Ann \"How far are you?\"",
    note = "`agent-relay help COMMAND` says more about one of them.",
    error_code(0, "done"),
    error_code(1, "failed"),
    error_code(2, "usage"),
    error_code(3, "a message was not delivered"),
    error_code(4, "no answer in time")
)]
struct Top {
    /// where the daemon is: a socket's path, or a pipe's name (or AGENT_RELAY_ENDPOINT)
    #[argh(option, arg_name = "path", from_str_fn(argv::text))]
    endpoint: Option<String>,

    /// the directory for configuration and logs (or AGENT_RELAY_HOME)
    #[argh(option, arg_name = "dir", from_str_fn(argv::text))]
    home: Option<String>,

    /// print the version
    #[argh(switch)]
    version: bool,

    #[argh(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    Up(up::Up),
    Down(down::Down),
    Status(status::Status),
    Agents(agents::Agents),
    Run(run::Run),
    Spawn(spawn::Spawn),
    Attach(attach::Attach),
    Hold(hold::Hold),
    Release(release::Release),
    Stop(stop::Stop),
    Send(send::Send),
    Ask(question::Ask),
    Listen(listen::Listen),
    Inbox(inbox::Inbox),
    Read(read::Read),
    History(history::History),
    DeadLetters(dead_letters::DeadLetters),
    Redeliver(redeliver::Redeliver),
    Tap(tap::Tap),
    Policy(policy::Policy),
    Service(service::Service),
    Brief(brief::Brief),
    Doctor(doctor::Doctor),
    Bench(bench::Bench),
    Demo(demo::Demo),
    Completions(completions::Completions),
}

impl Top {
    fn run(self, wrapped: Vec<OsString>) -> Result<i32, Failure> {
        if self.version {
            print::Out::new().line(format_args!("agent-relay {VERSION}"))?;
            return Ok(DONE);
        }
        let Some(command) = self.command else {
            let help = Self::from_args(&["agent-relay"], &["--help"]);
            print::help(&help.expect_err("help is never a command").output);
            return Ok(USAGE);
        };
        let asked = place::Asked { endpoint: self.endpoint, home: self.home };
        match command {
            Command::Up(up) => up.run(&asked),
            Command::Down(down) => down.run(&asked),
            Command::Status(status) => status.run(&asked),
            Command::Agents(agents) => agents.run(&asked),
            Command::Run(run) => run.run(&asked, wrapped),
            Command::Spawn(spawn) => spawn.run(&asked, wrapped),
            Command::Attach(attach) => attach.run(&asked),
            Command::Hold(hold) => hold.run(&asked),
            Command::Release(release) => release.run(&asked),
            Command::Stop(stop) => stop.run(&asked),
            Command::Send(send) => send.run(&asked),
            Command::Ask(ask) => ask.run(&asked),
            Command::Listen(listen) => listen.run(&asked),
            Command::Inbox(inbox) => inbox.run(&asked),
            Command::Read(read) => read.run(&asked),
            Command::History(history) => history.run(&asked),
            Command::DeadLetters(letters) => letters.run(&asked),
            Command::Redeliver(redeliver) => redeliver.run(&asked),
            Command::Tap(tap) => tap.run(&asked),
            Command::Policy(policy) => policy.run(&asked),
            Command::Service(service) => service.run(&asked),
            Command::Brief(brief) => brief.run(),
            Command::Doctor(doctor) => doctor.run(&asked),
            Command::Bench(bench) => bench.run(&asked),
            Command::Demo(demo) => demo.run(),
            Command::Completions(completions) => completions.run(),
        }
    }
}

/// Why a command ends early: an exit code, and a sentence where there is something to say.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    code: i32,
    words: Option<String>,
}

impl Failure {
    fn new(code: i32, words: impl Into<String>) -> Self {
        Self { code, words: Some(words.into()) }
    }

    fn failed(words: impl Into<String>) -> Self {
        Self::new(FAILED, words)
    }

    /// What failed says itself why.
    fn because(error: impl Display) -> Self {
        Self::failed(error.to_string())
    }

    fn usage(words: impl Into<String>) -> Self {
        Self::new(USAGE, words)
    }

    fn no_daemon(endpoint: &str) -> Self {
        Self::failed(format!("no daemon at {endpoint}: start one with `agent-relay up`"))
    }

    /// Writing to standard output failed. Where nobody reads it any more, the work is done.
    fn unwritten(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { code: DONE, words: None };
        }
        Self::failed(format!("write to standard output: {error}"))
    }

    /// The parser's own end: help that was asked for, or a usage that means nothing.
    fn early(exit: argh::EarlyExit, help: &str) -> Self {
        match exit.status {
            Ok(()) => {
                let printed = io::stdout().write_all(exit.output.as_bytes());
                printed.map_or_else(Self::unwritten, |()| Self { code: DONE, words: None })
            }
            Err(()) => {
                let words = argv::complaint(&exit.output);
                Self::usage(format!("{}: `{help}` shows how", foreign_line(&words)))
            }
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::NoDaemon { endpoint, .. } => Self::no_daemon(&endpoint),
            ClientError::TimedOut { .. } => Self::new(TIMED_OUT, foreign_line(&error.to_string())),
            ClientError::Ended(ended) => ended.into(),
            error => Self::failed(foreign_line(&error.to_string())),
        }
    }
}

impl From<Ended> for Failure {
    fn from(ended: Ended) -> Self {
        let words = foreign_line(&ended.to_string());
        match ended {
            Ended::GaveUp { absent: true, .. } => {
                Self::failed(format!("{words}: start a daemon with `agent-relay up`"))
            }
            _ => Self::failed(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as a shell cuts them up: blanks between double quotes don't count.
    fn top(line: &str) -> Result<Top, Failure> {
        let mut words = vec![String::new()];
        for (place, part) in line.split('"').enumerate() {
            for (number, piece) in part.split(if place % 2 == 0 { ' ' } else { '\0' }).enumerate() {
                match words.last_mut() {
                    Some(last) if number == 0 => last.push_str(piece),
                    _ => words.push(piece.to_owned()),
                }
            }
        }
        let words = words.into_iter().filter(|word| !word.is_empty()).map(OsString::from);
        argv::cut(words).and_then(|words| parse(&words))
    }

    #[test]
    fn every_command_is_parsed_and_has_an_example() {
        for subcommand in Top::get_args_info().commands {
            let examples = subcommand.command.examples;
            assert!(!examples.is_empty(), "{} has no example", subcommand.name);
            for example in examples {
                let (_, line) = example.split_once("agent-relay ").expect("it is a command");
                let line = [" < ", " > ", " | "].iter().fold(line, |line, shells| {
                    line.split_once(shells).map_or(line, |(own, _)| own)
                });
                let command = top(line).expect(line).command;
                assert!(command.is_some(), "{example}");
            }
        }
    }

    #[test]
    fn what_means_nothing_is_a_usage_error() {
        for line in [
            "nonsense",
            "send",
            "status --nonsense",
            "completions",
            "listen --count x",
            "policy",
            "policy key",
            "policy x",
        ] {
            assert_eq!(top(line).unwrap_err().code, USAGE, "{line}");
        }
    }

    #[test]
    fn a_command_that_there_is_not_is_told_the_nearest() {
        for (line, words) in [
            ("stauts", "no command stauts: did you mean `agent-relay status`?"),
            ("nonsense", "no command nonsense: `agent-relay help` lists the commands"),
            ("policy relaod", "no command relaod: did you mean `agent-relay policy reload`?"),
            (
                "policy nonsense x",
                "no command nonsense: `agent-relay help policy` lists the commands",
            ),
            ("policy", "missing: one of key, check, reload: `agent-relay help policy` shows how"),
            ("policy key", "missing: name: `agent-relay help policy key` shows how"),
            ("policy key Ann --x", "no option --x: `agent-relay help policy key` shows how"),
            ("send --x", "no option --x: `agent-relay help send` shows how"),
            ("--x", "no option --x: `agent-relay help` shows how"),
        ] {
            assert_eq!(top(line).unwrap_err().words.as_deref(), Some(words));
        }
    }

    #[test]
    fn who_gave_up_where_nobody_was_is_told_what_brings_one_back() {
        let words = |absent| {
            let why = "connect to /s: Connection refused".to_owned();
            Failure::from(Ended::GaveUp { attempts: 10, why, absent }).words.unwrap_or_default()
        };
        let said = "gave up after 10 attempts: connect to /s: Connection refused";
        assert_eq!(words(true), format!("{said}: start a daemon with `agent-relay up`"));
        assert_eq!(words(false), said);
    }

    #[test]
    fn a_body_may_say_help() {
        let Command::Send(send) = top("send Bob help").unwrap().command.unwrap() else { panic!() };
        assert_eq!(send.body.as_deref(), Some("help"));
    }

    #[test]
    fn a_reader_who_left_is_no_failure() {
        assert_eq!(Failure::unwritten(io::ErrorKind::BrokenPipe.into()).code, DONE);
        assert_eq!(Failure::unwritten(io::ErrorKind::StorageFull.into()).code, FAILED);
    }
}
