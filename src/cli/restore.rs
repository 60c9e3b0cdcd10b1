//! `restore`: start agents again that were cut off, each with its own conversation.

use super::{
    context::context,
    failure::{DONE, Failure, first_failure},
    print::{Out, eprint_line},
    spawn::{Agent, STARTED_MS, Starting},
    table::Column,
    wrapped::{RUN_DIRECTORY, check_name},
};
use crate::wrap::{
    agent_record::{self, AgentRecord},
    control::client::ControlClient,
};
use argh::{ArgsInfo, FromArgs};
use client::home::{Context, HomeOptions};
use platform::clock;
use protocol::{calendar::duration, text::escaped};
use serde::Serialize;
use std::{ffi::OsString, path::Path};

/// The columns of the list.
const COLUMNS: [Column; 4] = [
    Column::cut("NAME", 12),
    Column::whole("CLI"),
    Column::cut("DIRECTORY", 20),
    Column::whole("STATE"),
];

/// The list without agents.
const NONE: &str =
    "no agent was cut off; `agent-relay restore NAME` also starts one that has ended";

/// Start agents again that were cut off, such as by a reboot, in the background.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "restore",
    help_triggers("--help"),
    example = "agent-relay restore",
    example = "agent-relay restore --all",
    example = "agent-relay restore web api-2",
    note = "Without names, lists the agents that can be started again.",
    note = "Each agent gets its name, directory and options, its own conversation, and the messages that wait for it. `agent-relay attach NAME` shows it."
)]
pub(super) struct Restore {
    /// start all agents that were cut off
    #[argh(switch)]
    all: bool,

    /// print one JSON object a line for each agent
    #[argh(switch)]
    json: bool,

    /// the agents, which may also have ended by themselves
    #[argh(positional, arg_name = "agent")]
    names: Vec<String>,
}

/// An agent that can be started again.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    cli: &'a str,
    directory: &'a Path,
    command: Vec<String>,
    conversation: Option<&'a str>,
    started: u64,
    ended: Option<u64>,
}

#[derive(Serialize)]
struct Restored<'a> {
    name: &'a str,
    pid: Option<u32>,
    conversation: Option<&'a str>,
}

impl Restore {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.all && !self.names.is_empty() {
            return Err(Failure::usage("--all takes no names").hint("leave one of them out"));
        }
        let mut context = context(options)?;
        if !self.names.is_empty() {
            let chosen = choose(&context.home, &self.names)?;
            return Ok(self.start(&mut context, &chosen));
        }
        let cut_off = cut_off(&context.home)?;
        if self.all && !cut_off.is_empty() {
            return Ok(self.start(&mut context, &cut_off));
        }
        self.list(&cut_off)
    }

    fn list(&self, records: &[AgentRecord]) -> Result<i32, Failure> {
        let mut out = Out::new();
        if self.json {
            return records
                .iter()
                .try_for_each(|record| out.json("restorable", &row(record)))
                .map(|()| DONE);
        }
        let cells = records.iter().map(|record| {
            let conversation =
                record.conversation.as_ref().map_or("no conversation", |_| "cut off");
            let since = duration(clock::unix_ms().saturating_sub(record.started));
            let directory = record.directory.to_string_lossy();
            [
                &*record.name,
                &record.cli,
                &directory,
                &format!("{conversation}, started {since} ago"),
            ]
            .map(escaped)
            .to_vec()
        });
        out.table(&COLUMNS, cells.collect(), NONE)?;
        if !records.is_empty() {
            eprint_line("`agent-relay restore --all` starts them again");
        }
        Ok(DONE)
    }

    /// Starts the agents, and waits for a while whether they end at once. Returns the exit code of
    /// the first failure.
    fn start(&self, context: &mut Context, records: &[AgentRecord]) -> i32 {
        let begun: Vec<_> = records.iter().map(|record| begin(context, record)).collect();
        let started: Vec<_> = begun.into_iter().map(|begun| begun?.finish(context)).collect();
        let deadline = clock::monotonic_ms() + STARTED_MS;
        let checked = records.iter().zip(started).map(|(record, started)| {
            let mut started = started?;
            started.check_until(&record.name, deadline)?;
            self.print(record, started.pid)
        });
        let code = first_failure(self.json, checked);
        if !self.json {
            eprint_line("`agent-relay attach NAME` shows one, `agent-relay top` all");
        }
        code
    }

    fn print(&self, record: &AgentRecord, pid: Option<u32>) -> Result<(), Failure> {
        let mut out = Out::new();
        let (name, conversation) = (&*record.name, record.conversation.as_deref());
        if self.json {
            return out.json("restored", &Restored { name, pid, conversation });
        }
        let Some(pid) = pid else {
            return out.line(format_args!("{name} ran, and has ended already"));
        };
        let how = match conversation {
            Some(_) => "goes on",
            None => "begins a conversation, since it had none",
        };
        out.line(format_args!("{name} {how} (process {pid})"))
    }
}

/// Returns the records of the agents that were cut off and do not run, in the order of their names.
pub(super) fn cut_off(home: &Path) -> Result<Vec<AgentRecord>, Failure> {
    let mut records = all(home)?;
    records.retain(|record| record.ended.is_none() && !runs(home, record));
    Ok(records)
}

fn all(home: &Path) -> Result<Vec<AgentRecord>, Failure> {
    let failed = |error| Failure::failed(format!("the records of agents cannot be read: {error}"));
    agent_record::all(home).map_err(failed)
}

fn runs(home: &Path, record: &AgentRecord) -> bool {
    ControlClient::connect(&home.join(RUN_DIRECTORY), &record.name).is_ok()
}

fn begin(context: &mut Context, record: &AgentRecord) -> Result<Starting, Failure> {
    if !record.directory.is_dir() {
        let directory = record.directory.display();
        let failure = format!("{} ran in {directory}, which is gone", record.name);
        return Err(Failure::failed(escaped(&failure)));
    }
    let agent = Agent {
        name: &record.name,
        directory: record.directory.clone(),
        options: record.options.iter().map(OsString::from).collect(),
        command: record.command().into_iter().map(OsString::from).collect(),
        restored: Some(record.conversation.as_deref()),
    };
    agent.begin(context)
}

/// Finds the records of the named agents, which must not run.
fn choose(home: &Path, names: &[String]) -> Result<Vec<AgentRecord>, Failure> {
    let records = all(home)?;
    let mut chosen: Vec<AgentRecord> = Vec::new();
    for name in names {
        check_name(name)?;
        let is = |record: &AgentRecord| record.name.eq_ignore_ascii_case(name);
        let Some(record) = records.iter().find(|record| is(record)) else {
            return Err(Failure::failed(format!("nothing is recorded of {name}"))
                .hint("`agent-relay restore` lists the agents that can be started again"));
        };
        if runs(home, record) {
            return Err(Failure::failed(format!("{name} runs already"))
                .hint(format!("`agent-relay attach {name}` shows it")));
        }
        if !chosen.iter().any(is) {
            chosen.push(record.clone());
        }
    }
    Ok(chosen)
}

fn row(record: &AgentRecord) -> Row<'_> {
    Row {
        name: &record.name,
        cli: &record.cli,
        directory: &record.directory,
        command: record.command(),
        conversation: record.conversation.as_deref(),
        started: record.started,
        ended: record.ended,
    }
}
