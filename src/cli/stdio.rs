//! `stdio`: the other machine's side of a bridge, over standard input and output.

use super::{
    failure::{DONE, Failure},
    link::{Ended, Side},
    values::{host, selector, topic_pattern},
};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use machines::{link::End, selector::Selector, topics::Topics};
use platform::tty::{Standard, is_terminal};
use protocol::{name::Host, text::escaped, topic::Pattern};
use std::io;

/// Link this machine's agents to those of the machine that runs `bridge`.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "stdio",
    help_triggers("--help"),
    usage = "--peer <host> --export <agents> [--import <agents>]",
    example = "agent-relay stdio --peer laptop --export Bob",
    note = "`agent-relay bridge` on the other machine starts this, for example through ssh. docs/MACHINES.md has more."
)]
pub(super) struct Stdio {
    /// the name of the other machine here: its agents are called NAME@HOST
    #[argh(option, arg_name = "host", from_str_fn(host))]
    peer: Host,

    /// agents of this machine that the other one may talk to: a name, or a pattern such as 'web-*';
    /// required; repeat it for more
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
}

impl Stdio {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if is_terminal(Standard::Input) {
            let failure = Failure::usage("stdio speaks with a bridge, and not with a person");
            return Err(failure.hint("run `agent-relay bridge` on the other machine"));
        }
        let names = (self.export, self.import);
        let topics = Topics { patterns: self.topic, broadcasts: self.broadcasts };
        let side = Side::begin(options, self.peer, names, topics, None, !self.no_details)?;
        let ended = side.link(io::stdin(), io::stdout());
        // The other side, which has started the link, reports why there is none.
        side.end(None);
        match ended? {
            Ended { end: None, .. } | Ended { end: Some(End::Lost(_)), was_open: true } => Ok(DONE),
            Ended { end: Some(end), .. } => Err(Failure::failed(escaped(&end.to_string()))),
        }
    }
}
