//! The command line. Each command has a file of its own, with a struct for its arguments and a
//! function `run` that carries it out and returns the exit code.
//!
//! Commands share: `argv` and `values`, which check the command line; `help`, `manual` and
//! `complete`, which are made from the structs; `context`, `identity` and `join`, which find the
//! daemon and join it; `request` and `wrapped`, which ask the daemon or a wrapper; `print`,
//! `messages`, `conversation` and `notices`, which write answers; `changes`, which follows the
//! daemon for `tap --events`, `wait` and `agents --watch`; `launch` and `restart`, which start a
//! daemon. `top` is the live screen: `model`, `keys` and `view` are pure, `feed` and `jobs` have
//! its threads.

mod agent_options;
mod agents;
mod argv;
mod ask;
mod attach;
pub mod bench;
mod bridge;
mod bridges;
mod brief;
mod changes;
mod complete;
mod completions;
mod context;
mod conversation;
mod dead_letters;
mod demo;
mod doctor;
mod down;
mod events;
mod failure;
mod folder_name;
mod frames;
mod gemini_extension;
mod groups;
mod help;
mod history;
mod hold;
mod hook;
mod identity;
mod inbox;
mod input;
mod installed;
mod join;
mod launch;
mod link;
mod listen;
mod log;
mod mailbox;
mod manual;
mod mcp;
mod messages;
mod moment;
mod notices;
mod policy;
mod print;
mod program;
mod purge;
mod read;
mod redeliver;
mod release;
mod rename;
mod request;
mod restart;
mod restore;
mod run;
mod send;
mod serve;
mod service;
mod spawn;
mod status;
mod stdio;
mod stop;
mod table;
mod tap;
mod team;
mod top;
mod up;
mod values;
mod wait;
mod wrapped;

use argh::{ArgsInfo, CommandInfoWithArgs, EarlyExit, FromArgs};
use client::home::HomeOptions;
use failure::{DONE, Failure, USAGE};
use program::{AS_AGENT_RELAY, VERSION};
use protocol::text::escaped;
use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
};

/// Runs `agent-relay` with the arguments after the program's name. Returns its exit code.
pub fn agent_relay(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let mut arguments = arguments.into_iter().peekable();
    if arguments.next_if(|first| first == AS_AGENT_RELAY).is_none() {
        return run_printing(arguments.collect());
    }
    // These words run a part of `bench` or `demo` in a separate process.
    let part = arguments
        .next_if(|word| [bench::FLOOR, demo::AGENT].map(OsStr::new).contains(&word.as_os_str()));
    if let Some(part) = part {
        let word = arguments.next().unwrap_or_default();
        let word = word.to_string_lossy();
        return exit_code(if part == bench::FLOOR {
            bench::floor(&word)
        } else {
            demo::agent(&word)
        });
    }
    if arguments.next_if(|word| word == run::CONSOLE_MEMBERS).is_some() {
        return exit_code(run::console_members());
    }
    if arguments.next_if(|word| word == hook::HOOK).is_some() {
        return hook::run(&arguments.collect::<Vec<_>>());
    }
    let arguments: Vec<_> = arguments.collect();
    if let Some((_, words)) =
        arguments.split_first().filter(|(word, _)| *word == complete::COMPLETE)
    {
        return complete::run(words, &top_info());
    }
    if let [word, directory] = &*arguments
        && word == manual::MANUAL
    {
        return exit_code(manual::write(directory.as_ref(), &manual_programs()));
    }
    match service::Hosted::of(&arguments) {
        Some(hosted) => exit_code(hosted.run()),
        None => run_printing(arguments),
    }
}

/// Runs `agent-relay-wrap` with the arguments after the program's name. Returns its exit code.
pub fn agent_relay_wrap(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let mut arguments = arguments.into_iter().peekable();
    if arguments.peek().is_some_and(|first| first == AS_AGENT_RELAY) {
        return agent_relay(arguments);
    }
    if arguments.next_if(|first| first == hook::HOOK).is_some() {
        return hook::run(&arguments.collect::<Vec<_>>());
    }
    exit_code(run_wrapper(arguments))
}

fn run_command_line(arguments: impl IntoIterator<Item = OsString>) -> Result<i32, Failure> {
    let info = top_info();
    let line = argv::check("agent-relay", &info, arguments)?;
    // The help of the program itself. argh prints the help of the commands.
    let words: Vec<_> = line.words.iter().map(String::as_str).collect();
    let help = match *words {
        [.., word, "--help"] if word == help::ALL => Some(help::all(&info)),
        [.., "--help"] if !words.iter().any(|word| is_command(&info, word)) => {
            Some(help::screen(&info))
        }
        _ => None,
    };
    if let Some(help) = help {
        print::Out::new().raw(&help)?;
        return Ok(DONE);
    }
    let top: Top = from_words(&["agent-relay"], &line.words)?;
    top.run(line.to_run)
}

fn is_command(info: &CommandInfoWithArgs, word: &str) -> bool {
    info.commands.iter().any(|command| command.name == word)
}

/// Runs `agent-relay-wrap`, which is `agent-relay run` and `extract` under another name.
fn run_wrapper(arguments: impl Iterator<Item = OsString>) -> Result<i32, Failure> {
    const PROGRAM: &str = "agent-relay-wrap";
    let mut arguments = arguments.peekable();
    if arguments.next_if(|first| first == "extract").is_some() {
        let extract = [PROGRAM, "extract"];
        let info = run::Extract::get_args_info();
        let line = argv::check(&extract.join(" "), &info, arguments)?;
        return from_words::<run::Extract>(&extract, &line.words)?.run();
    }
    if arguments.next_if(|first| first == "--version" || first == "-V").is_some() {
        print::Out::new().line(format_args!("{PROGRAM} {VERSION}"))?;
        return Ok(DONE);
    }
    let help = arguments.next_if(|first| first == "help").map(|_| "--help".into());
    let arguments = help.into_iter().chain(arguments);
    let line = argv::check(PROGRAM, &run::Run::get_args_info(), arguments)?;
    let run: run::Run = from_words(&[PROGRAM], &line.words)?;
    run.run(&HomeOptions::default(), line.to_run)
}

/// Parses words with argh, after [`argv::check`] has checked them.
fn from_words<T: FromArgs>(path: &[&str], words: &[String]) -> Result<T, Failure> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    T::from_args(path, &words).map_err(parser_end)
}

/// Handles an early exit of argh: prints the help, or reports an error that [`argv::check`] should
/// have found.
fn parser_end(exit: EarlyExit) -> Failure {
    match exit.status {
        Ok(()) => {
            let printed = io::stdout().write_all(print::fit(&exit.output).as_bytes());
            printed.map_or_else(Failure::unwritten, |()| Failure::silent(DONE))
        }
        Err(()) => Failure::usage(escaped(exit.output.trim_end())),
    }
}

fn exit_code(result: Result<i32, Failure>) -> i32 {
    exit_code_as(false, result)
}

/// Prints a failure as a line or as JSON. Returns the exit code.
fn exit_code_as(json: bool, result: Result<i32, Failure>) -> i32 {
    result.unwrap_or_else(|failure| {
        if let Some(object) = failure.json().filter(|_| json) {
            // If standard output is closed, the exit code is all that is left.
            drop(print::Out::new().json("error", &object));
        } else if let Some(line) = failure.line() {
            print::eprint_line(line);
        }
        failure.code
    })
}

/// Runs a command line of `agent-relay`. With `--json` before a command to run, a failure is JSON.
fn run_printing(arguments: Vec<OsString>) -> i32 {
    let json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    exit_code_as(json, run_command_line(arguments))
}

/// The descriptions for the manual pages.
fn manual_programs() -> manual::Programs {
    manual::Programs {
        relay: top_info(),
        wrap: run::Run::get_args_info(),
        extract: run::Extract::get_args_info(),
    }
}

/// The descriptions of all commands.
fn top_info() -> CommandInfoWithArgs {
    Top::get_args_info()
}

/// Lets AI coding agents that run side by side on one machine talk to each other.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    help_triggers("--help"),
    example = "agent-relay run -n Ann -- claude",
    example = "agent-relay send Ann \"How far are you?\"",
    note = "`agent-relay help COMMAND` shows the options and examples of a command.",
    error_code(0, "done"),
    error_code(1, "failed"),
    error_code(2, "wrong command line"),
    error_code(3, "a message was not delivered"),
    error_code(4, "no answer in time")
)]
struct Top {
    /// the daemon's endpoint: the path of a socket, or the name of a pipe; else
    /// AGENT_RELAY_ENDPOINT
    #[argh(option, arg_name = "endpoint")]
    endpoint: Option<String>,

    /// the home directory, for configuration and logs; else AGENT_RELAY_HOME
    #[argh(option, arg_name = "dir")]
    home: Option<String>,

    /// print the version
    #[argh(switch, short = 'V')]
    version: bool,

    #[argh(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Command {
    Run(run::Run),
    Spawn(spawn::Spawn),
    Attach(attach::Attach),
    Send(send::Send),
    Ask(ask::Ask),
    Listen(listen::Listen),
    Inbox(inbox::Inbox),
    Read(read::Read),
    History(history::History),
    Status(status::Status),
    Agents(agents::Agents),
    Wait(wait::Wait),
    Tap(tap::Tap),
    Top(top::Top),
    Redeliver(redeliver::Redeliver),
    Restore(restore::Restore),
    Team(team::Team),
    Purge(purge::Purge),
    Hold(hold::Hold),
    Release(release::Release),
    Rename(rename::Rename),
    Stop(stop::Stop),
    Up(up::Up),
    Down(down::Down),
    Service(service::Service),
    Policy(policy::Policy),
    Bridge(bridge::Bridge),
    Stdio(stdio::Stdio),
    Brief(brief::Brief),
    Mcp(mcp::Mcp),
    GeminiExtension(gemini_extension::GeminiExtension),
    Doctor(doctor::Doctor),
    Demo(demo::Demo),
    Bench(bench::Bench),
    Completions(completions::Completions),
}

impl Top {
    fn run(self, to_run: Vec<OsString>) -> Result<i32, Failure> {
        if self.version {
            print::Out::new().line(format_args!("agent-relay {VERSION}"))?;
            return Ok(DONE);
        }
        let options = HomeOptions { endpoint: self.endpoint, home: self.home };
        let Some(command) = self.command else {
            if let Some(done) = top::alone(&options) {
                return done;
            }
            print::eprint_text(&help::screen(&top_info()));
            return Ok(USAGE);
        };
        match command {
            Command::Run(run) => run.run(&options, to_run),
            Command::Spawn(spawn) => spawn.run(&options, to_run),
            Command::Attach(attach) => attach.run(&options),
            Command::Send(send) => send.run(&options),
            Command::Ask(ask) => ask.run(&options),
            Command::Listen(listen) => listen.run(&options),
            Command::Inbox(inbox) => inbox.run(&options),
            Command::Read(read) => read.run(&options),
            Command::History(history) => history.run(&options),
            Command::Status(status) => status.run(&options),
            Command::Agents(agents) => agents.run(&options),
            Command::Wait(wait) => wait.run(&options),
            Command::Tap(tap) => tap.run(&options),
            Command::Top(top) => top.run(&options),
            Command::Redeliver(redeliver) => redeliver.run(&options),
            Command::Restore(restore) => restore.run(&options),
            Command::Team(team) => team.run(&options),
            Command::Purge(purge) => purge.run(&options),
            Command::Hold(hold) => hold.run(&options),
            Command::Release(release) => release.run(&options),
            Command::Rename(rename) => rename.run(&options),
            Command::Stop(stop) => stop.run(&options),
            Command::Up(up) => up.run(&options),
            Command::Down(down) => down.run(&options),
            Command::Service(service) => service.run(&options),
            Command::Bridge(bridge) => bridge.run(&options, to_run),
            Command::Stdio(stdio) => stdio.run(&options),
            Command::Policy(policy) => policy.run(&options),
            Command::Brief(brief) => brief.run(&options),
            Command::Mcp(mcp) => mcp.run(&options),
            Command::GeminiExtension(extension) => extension.run(),
            Command::Doctor(doctor) => doctor.run(&options),
            Command::Demo(demo) => demo.run(),
            Command::Bench(bench) => bench.run(&options),
            Command::Completions(completions) => completions.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a line that is split at blanks, except at those between double quotes.
    fn top(line: &str) -> Result<Top, Failure> {
        let mut words = vec![String::new()];
        for (position, part) in line.split('"').enumerate() {
            let separator = if position % 2 == 0 { ' ' } else { '\0' };
            for (number, piece) in part.split(separator).enumerate() {
                match words.last_mut() {
                    Some(last) if number == 0 => last.push_str(piece),
                    _ => words.push(piece.to_owned()),
                }
            }
        }
        let words = words.into_iter().filter(|word| !word.is_empty()).map(OsString::from);
        let line = argv::check("agent-relay", &top_info(), words)?;
        from_words(&["agent-relay"], &line.words)
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        for subcommand in top_info().commands {
            let examples = subcommand.command.examples;
            assert!(!examples.is_empty(), "{} has no example", subcommand.name);
            for example in examples {
                let (_, line) = example.split_once("agent-relay ").expect("a command");
                let line = [" < ", " > ", " | "].iter().fold(line, |line, shells| {
                    line.split_once(shells).map_or(line, |(own, _)| own)
                });
                let command = top(line).expect(line).command;
                assert!(command.is_some(), "{example}");
            }
        }
    }

    #[test]
    fn help_fits_into_80_columns() {
        for subcommand in top_info().commands {
            let failure = Top::from_args(&["agent-relay"], &[subcommand.name, "--help"]);
            let help = print::fit(&failure.unwrap_err().output);
            let is_example = |line: &&str| line.starts_with("  agent-relay ");
            for line in help.lines().filter(|line| !is_example(line)) {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn wrong_command_lines_are_usage_errors() {
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

    /// Values that pass our check must not fail in argh, whose error messages are different.
    #[test]
    fn parser_accepts_every_value_that_the_check_accepts() {
        let values = ["", "-", "-1", "0", "1", "101", "70000", "x", "a b", "@x", "60s", "ctrl-x"];
        let mut accepted = 0;
        for (command, argument) in [
            ("ask Bob x", "--as"),
            ("ask Bob x", "--timeout"),
            ("ask Bob x", "--importance"),
            ("attach Bob", "--detach-key"),
            ("history", "--limit"),
            ("history", "--search"),
            ("listen --as Bob", "--count"),
            ("listen --as Bob", "--topic"),
            ("send Bob x", "--thread"),
            ("send Bob x", "--ttl"),
            ("wait Bob", ""),
            ("wait Bob idle", "--timeout"),
            ("send Bob x", "--file"),
            ("policy", "key"),
            ("status", ""),
        ] {
            for value in values {
                let words = command.split(' ').chain([argument]).filter(|word| !word.is_empty());
                let words = words.chain([value]).map(OsString::from);
                let Ok(line) = argv::check("agent-relay", &top_info(), words) else { continue };
                let parsed: Result<Top, _> = from_words(&["agent-relay"], &line.words);
                assert_eq!(parsed.err(), None, "{command} {argument} {value:?}");
                accepted += 1;
            }
        }
        assert!(accepted > 50, "{accepted}");
    }

    #[test]
    fn body_may_be_the_word_help() {
        let Command::Send(send) = top("send Bob help").unwrap().command.unwrap() else { panic!() };
        assert_eq!(send.body.as_deref(), Some("help"));
    }
}
