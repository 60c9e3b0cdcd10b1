//! `bridge`: link this machine's agents to those of another machine.

mod command;

use super::{
    failure::{DONE, Failure},
    link::{Ended, Side, log},
    values::{host, selector, topic_pattern},
};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use command::{Running, Started};
use crossbeam_channel::RecvTimeoutError;
use machines::{
    link::End,
    selector::Selector,
    settings::{self, BRIDGES_FILE},
    topics::Topics,
};
use platform::{clock, random};
use protocol::{calendar::time_limit, name::Host, secret::Secret, text::escaped, topic::Pattern};
use std::{ffi::OsString, time::Duration};

/// The first wait before the command is run again, in milliseconds. Each further wait is twice as
/// long.
const RETRY_MS: u64 = 1_000;

/// The longest wait before the command is run again, in milliseconds.
const RETRY_MS_MAX: u64 = 30_000;

/// The minimum duration of a steady link, in milliseconds. After a steady link, the waits start
/// over.
const STEADY_MS: u64 = 10_000;

/// Link agents of this machine to agents of another one, whose daemon a command reaches.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "bridge",
    help_triggers("--help"),
    usage = "<host> [--export <agents>] [--import <agents>] [-- <command...>]",
    example = "agent-relay bridge pi --export Ann -- ssh pi agent-relay stdio --peer laptop --export Bob",
    example = "agent-relay bridge box --export Ann -- docker exec -i box agent-relay stdio --peer host --export Bob",
    example = "agent-relay bridge pi",
    note = "Ann then writes to Bob@pi, and Bob to Ann@laptop: each side chooses the name of the other machine. A link that is lost is made again, until Ctrl-C. Without a command, the table [pi] of bridges.toml in the home has it, with `export` and the like; options stand in place of these. docs/MACHINES.md has more."
)]
pub(super) struct Bridge {
    /// the name of the other machine here: its agents are called NAME@HOST
    #[argh(positional, from_str_fn(host))]
    host: Host,

    /// agents of this machine that the other one may talk to: a name, or a pattern such as 'web-*';
    /// required unless bridges.toml names some; repeat it for more
    #[argh(option, arg_name = "agents", from_str_fn(selector))]
    export: Vec<Selector>,

    /// agents of the other machine to link: a name or a pattern; default: all that it exports;
    /// repeat it for more
    #[argh(option, arg_name = "agents", from_str_fn(selector))]
    import: Vec<Selector>,

    /// topics on which messages cross, in both directions, such as 'build.>'; repeat it for more
    #[argh(option, arg_name = "pattern", from_str_fn(topic_pattern))]
    topic: Vec<Pattern>,

    /// let messages to everyone cross, in both directions
    #[argh(switch)]
    broadcasts: bool,

    /// do not tell the other machine which programs the exported agents run, and in which
    /// directories
    #[argh(switch)]
    no_details: bool,

    /// the command that runs `agent-relay stdio` on the other machine
    #[argh(positional, greedy, arg_name = "command")]
    _command: Vec<String>,
}

impl Bridge {
    /// Runs `command`, again whenever the link is lost. Without `command`, runs the command in
    /// bridges.toml.
    pub(super) fn run(
        mut self,
        options: &HomeOptions,
        mut command: Vec<OsString>,
    ) -> Result<i32, Failure> {
        if command.is_empty() {
            command = self.complete(options)?;
        }
        let secret = Secret::from_random(random::bytes().map_err(Failure::because)?);
        let (names, tells) = ((self.export, self.import), !self.no_details);
        let topics = Topics { patterns: self.topic, broadcasts: self.broadcasts };
        let side = Side::begin(options, self.host, names, topics, Some(secret), tells)?;
        let ended = keep_linked(&side, &command);
        side.end(ended.as_ref().err());
        // The last line of the log has a time, too.
        ended.map(|()| DONE).map_err(|failure| {
            failure.line().into_iter().for_each(|line| log(&line));
            failure.silenced()
        })
    }

    /// Returns the command of bridges.toml, and its settings for missing options.
    fn complete(&mut self, options: &HomeOptions) -> Result<Vec<OsString>, Failure> {
        let path = options.home()?.join(BRIDGES_FILE);
        let mut all = settings::Bridge::load_all(&path).map_err(Failure::because)?;
        let found = all.remove(&self.host).filter(|found| !found.command.is_empty());
        let Some(found) = found else {
            let host = &self.host;
            let hint = format!(
                "end the line with `-- ssh {host} agent-relay stdio --peer HERE --export AGENT`, or \
                 add a table [{host}] with `command` to {}",
                path.display()
            );
            return Err(Failure::usage(format!("no command that reaches {host}")).hint(hint));
        };
        let settings::Bridge { command, export, import, topic, broadcasts, details } = found;
        if self.topic.is_empty() {
            self.topic = topic;
        }
        self.broadcasts |= broadcasts;
        for (agents, of_file) in [(&mut self.export, export), (&mut self.import, import)] {
            if agents.is_empty() {
                *agents = of_file;
            }
        }
        self.no_details |= details == Some(false);
        Ok(command.into_iter().map(Into::into).collect())
    }
}

/// Runs the command until this process is asked to stop.
fn keep_linked(side: &Side, command: &[OsString]) -> Result<(), Failure> {
    let (mut was_linked, mut wait_ms) = (false, RETRY_MS);
    loop {
        let began = clock::monotonic_ms();
        let Some(why) = link(side, command, &mut was_linked)? else { return Ok(()) };
        if clock::monotonic_ms() - began >= STEADY_MS {
            wait_ms = RETRY_MS;
        }
        side.lost(&why);
        let (peer, wait) = (&side.agents.peer, time_limit(wait_ms));
        log(&format!("lost {peer}: {why}; trying again in {wait}"));
        // Waits for: the next attempt, 30 s at most, or signals.
        match side.stopped.recv_timeout(Duration::from_millis(wait_ms)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        wait_ms = (wait_ms * 2).min(RETRY_MS_MAX);
    }
}

/// Runs the command until the link ends. Returns why it is lost, or `None` if this process was
/// asked to stop. A failure ends the bridge: a link would fail again, or there has never been one.
fn link(
    side: &Side,
    command: &[OsString],
    was_linked: &mut bool,
) -> Result<Option<String>, Failure> {
    let peer = &side.agents.peer;
    let Started { running, input, output } = Running::start(command, peer)?;
    let Ended { was_open, end } = side.link(output, input)?;
    *was_linked |= was_open;
    let exit = running.end();
    match end {
        None => Ok(None),
        Some(End::Lost(why)) if *was_linked => Ok(Some(exit.unwrap_or(why))),
        Some(End::Lost(why)) => {
            let why = exit.unwrap_or(why);
            let hint = "run the command alone to see its output";
            Err(Failure::failed(format!("cannot link to {peer}: {}", escaped(&why))).hint(hint))
        }
        Some(End::Refused(why)) => Err(Failure::failed(escaped(&why))),
    }
}
