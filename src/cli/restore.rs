//! `restore`: start agents again that were cut off, each with its own conversation.

use super::{
    context::context,
    failure::{DONE, Failure},
    print::{Out, eprint_line},
    spawn::{Agent, STARTED_MS, Started},
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
use std::ffi::OsString;

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
    directory: &'a std::path::Path,
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
    error: Option<String>,
}

impl Restore {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.all && !self.names.is_empty() {
            return Err(Failure::usage("--all takes no names").hint("leave one of them out"));
        }
        let mut context = context(options)?;
        let records = agent_record::all(&context.home).map_err(Failure::because)?;
        let is_running = |record: &AgentRecord| {
            ControlClient::connect(&context.home.join(RUN_DIRECTORY), &record.name).is_ok()
        };
        let (running, idle): (Vec<_>, Vec<_>) = records.into_iter().partition(is_running);
        if !self.names.is_empty() {
            let chosen = choose(&self.names, &running, idle)?;
            return self.start(&mut context, &chosen);
        }
        let cut_off: Vec<_> = idle.into_iter().filter(|record| record.ended.is_none()).collect();
        if self.all && !cut_off.is_empty() {
            return self.start(&mut context, &cut_off);
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
    fn start(&self, context: &mut Context, records: &[AgentRecord]) -> Result<i32, Failure> {
        let mut out = Out::new();
        let mut code = DONE;
        let started: Vec<_> = records.iter().map(|record| start(context, record)).collect();
        let deadline = clock::monotonic_ms() + STARTED_MS;
        for (record, started) in records.iter().zip(started) {
            let name = &*record.name;
            let started = started.and_then(|mut started| {
                started.check_until(name, deadline)?;
                Ok(started)
            });
            if self.json {
                let pid = started.as_ref().ok().and_then(|started| started.pid);
                let error = started.as_ref().err().and_then(Failure::line);
                let conversation = record.conversation.as_deref();
                out.json("restored", &Restored { name, pid, conversation, error })?;
            }
            match started {
                Ok(_) if self.json => {}
                Ok(Started { pid: Some(pid), .. }) => {
                    let how = match record.conversation {
                        Some(_) => "goes on",
                        None => "begins a conversation, since it had none",
                    };
                    out.line(format_args!("{name} {how} (process {pid})"))?;
                }
                Ok(_) => out.line(format_args!("{name} ran, and has ended already"))?,
                Err(failure) => {
                    code = if code == DONE { failure.code } else { code };
                    if !self.json {
                        eprint_line(failure.into_message());
                    }
                }
            }
        }
        if !self.json {
            eprint_line("`agent-relay attach NAME` shows one, `agent-relay top` all");
        }
        Ok(code)
    }
}

fn start(context: &mut Context, record: &AgentRecord) -> Result<Started, Failure> {
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
    agent.start(context)
}

/// Finds the records of the named agents.
fn choose(
    names: &[String],
    running: &[AgentRecord],
    idle: Vec<AgentRecord>,
) -> Result<Vec<AgentRecord>, Failure> {
    let mut chosen: Vec<AgentRecord> = Vec::new();
    for name in names {
        check_name(name)?;
        let is = |record: &AgentRecord| record.name.eq_ignore_ascii_case(name);
        if running.iter().any(is) {
            return Err(Failure::failed(format!("{name} runs already"))
                .hint(format!("`agent-relay attach {name}` shows it")));
        }
        let Some(record) = idle.iter().find(|record| is(record)) else {
            return Err(Failure::failed(format!("nothing is recorded of {name}"))
                .hint("`agent-relay restore` lists the agents that can be started again"));
        };
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
