//! `rename`: give an agent another name.

use super::{
    failure::{DONE, Failure},
    folder_name,
    join::join,
    print::Out,
    request::call_with,
    values::agent_name,
    wrapped,
};
use crate::wrap::agent_record;
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::{
    relay::{RenameRequest, RequestName},
    text::escaped,
};

/// Give an agent that does not run another name.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "rename",
    help_triggers("--help"),
    example = "agent-relay rename web-2 reviewer",
    note = "Its mail, history, session and subscriptions go along, and so does what `agent-relay restore` needs. If the old name was a directory's, the new one is.",
    note = "Messages that wait for others keep the old name of their sender. Senders to the old name are told the new one, until another agent takes the old name."
)]
pub(super) struct Rename {
    /// print one JSON object
    #[argh(switch)]
    json: bool,

    /// the agent
    #[argh(positional, arg_name = "agent")]
    agent: String,

    /// its new name
    #[argh(positional, arg_name = "name", from_str_fn(agent_name))]
    new_name: String,
}

impl Rename {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let Self { agent: name, new_name, .. } = self;
        for name in [&name, &new_name] {
            wrapped::check_is_over(options, name)?;
        }
        let (client, home) = (join(options)?, options.home()?);
        let request = RenameRequest { name, new_name };
        folder_name::rename(&home, [&request.name, &request.new_name], || {
            call_with(&client, RequestName::Rename, &request).map(drop)
        })?;
        agent_record::rename(&home, &request.name, &request.new_name).map_err(|error| {
            let failure = format!("what `restore` needs has the old name: {error}");
            Failure::failed(failure).hint("run the same command again")
        })?;
        let mut out = Out::new();
        if self.json {
            out.json("renamed", &request)?;
        } else {
            let [before, after] = [&request.name, &request.new_name].map(|name| escaped(name));
            out.line(format_args!("{before} is {after} now"))?;
        }
        Ok(DONE)
    }
}
