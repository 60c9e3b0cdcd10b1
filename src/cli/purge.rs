//! `purge`: end the mail of an agent, or forget its name.

use super::{
    failure::{DONE, Failure},
    input::confirm,
    join::join,
    print::{Out, counted, eprint_line},
    request::{call_with, parse},
};
use crate::wrap::agent_record;
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::{
    name::Name,
    relay::{ForgetRequest, PurgeRequest, Purged, RequestName},
    text::escaped,
};

/// End the messages that wait for an agent. They become dead letters, and their senders are told.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "purge",
    help_triggers("--help"),
    example = "agent-relay purge Ann",
    example = "agent-relay purge Ann --force",
    example = "agent-relay purge Ann --delete",
    example = "agent-relay purge Ann --forget",
    note = "`agent-relay history --dead` shows them, `agent-relay redeliver ID` delivers one again."
)]
pub(super) struct Purge {
    /// also end messages that the agent was given and has not acknowledged
    #[argh(switch)]
    force: bool,

    /// delete the messages for good, rather than make them dead letters
    #[argh(switch)]
    delete: bool,

    /// delete without asking
    #[argh(switch)]
    yes: bool,

    /// forget the name instead, of an agent that is away and has no mail and no key
    #[argh(switch)]
    forget: bool,

    /// print one JSON object
    #[argh(switch)]
    json: bool,

    /// the agent
    #[argh(positional, arg_name = "agent")]
    name: String,
}

impl Purge {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.forget {
            return self.forget(options);
        }
        let Self { name, force, delete, .. } = self;
        if delete && !self.yes {
            let question =
                format!("Delete the messages that wait for {} for good?", escaped(&name));
            confirm(&question, "nothing was deleted")?;
        }
        let client = join(options)?;
        let request = PurgeRequest { name, force, delete };
        let mut done = Purged::default();
        loop {
            let json = call_with(&client, RequestName::Purge, &request)?;
            let Purged { purged, in_flight, more } = parse(RequestName::Purge, &json)?;
            done = Purged { purged: done.purged + purged, in_flight, more };
            if !more || purged == 0 {
                break;
            }
        }
        let mut out = Out::new();
        if self.json {
            out.json("purged", &done)?;
        } else {
            let messages = counted(done.purged, "message");
            out.line(format_args!("purged {messages} of {}", request.name))?;
        }
        if done.in_flight > 0 {
            let name = &request.name;
            eprint_line(format_args!(
                "{name} has {} more and has not acknowledged them; --force ends these, too",
                done.in_flight
            ));
        }
        Ok(DONE)
    }

    fn forget(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.force || self.delete {
            let failure = Failure::usage("--forget ends no messages");
            return Err(failure.hint("purge the agent first, then forget its name"));
        }
        let client = join(options)?;
        let request = ForgetRequest { name: self.name };
        let home = options.home()?;
        // The daemon forgets names by itself, after a time.
        match call_with(&client, RequestName::Forget, &request) {
            Err(failure) if failure.is_of_unknown_agent() => {
                let is_name = Name::parse(&request.name).is_ok();
                if !(is_name && agent_record::exists(&home, &request.name)) {
                    return Err(failure);
                }
            }
            forgotten => drop(forgotten?),
        }
        // The next agent of that name is another one.
        agent_record::remove(&home, &request.name).map_err(|error| {
            let failure = format!("what `restore` needs of it is still there: {error}");
            Failure::failed(failure).hint("remove its file in `agents` in the home")
        })?;
        let mut out = Out::new();
        if self.json {
            out.json("forgotten", &request)?;
        } else {
            out.line(format_args!("{} is forgotten", request.name))?;
        }
        Ok(DONE)
    }
}
