//! `team status`: the agents of a project, and their activities.

use super::{
    plan::{Plan, Planned, file_here},
    presence::{Running, is_same},
};
use crate::{
    cli::{
        agents::activity,
        context::context,
        failure::{DONE, Failure},
        identity::Identity,
        print::Out,
        request::agent_row,
        table::Column,
    },
    wrap::agent_record,
};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client,
    home::{Context, HomeOptions},
};
use protocol::text::escaped;
use serde::Serialize;
use std::borrow::Cow;

/// The columns of the list.
const COLUMNS: [Column; 4] = [
    Column::cut("NAME", 12),
    Column::cut("STATE", 20),
    Column::cut("GROUPS", 10),
    Column::cut("DIRECTORY", 20),
];

/// List the agents of a project, in the order of their start.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "status",
    help_triggers("--help"),
    example = "agent-relay team status",
    example = "agent-relay team status --json"
)]
pub(super) struct Status {
    /// print one JSON object a line for each agent
    #[argh(switch)]
    json: bool,
}

/// An agent of the team.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    running: bool,
    /// The state in words.
    state: String,
    directory: Cow<'a, str>,
    worktree: bool,
    groups: &'a [String],
    topics: &'a [String],
    needs: &'a [String],
}

impl Status {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let context = context(options)?;
        let plan = Plan::read(file_here(&context.home)?)?;
        let identity = Identity::of_process(&context)?;
        // Without a daemon, the wrappers still show which agents run.
        let client = context.try_join(&|endpoint| identity.settings(endpoint)).ok();
        let rows = plan.agents.iter().map(|planned| row(&context, client.as_ref(), planned));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let mut out = Out::new();
        if self.json {
            return rows.iter().try_for_each(|row| out.json("team", row)).map(|()| DONE);
        }
        let cells = rows.iter().map(|row| {
            let groups: Vec<_> = row.groups.iter().map(|group| format!("@{group}")).collect();
            [row.name, &row.state, &groups.join(" "), &row.directory].map(escaped).to_vec()
        });
        out.table(&COLUMNS, cells.collect(), "")?;
        Ok(DONE)
    }
}

fn row<'p>(
    context: &Context,
    client: Option<&Client>,
    planned: &'p Planned,
) -> Result<Row<'p>, Failure> {
    let Planned { agent, directory, worktree } = planned;
    let running = Running::of(&context.home, &agent.name);
    let running = running.as_ref().map(|it| it.as_ref().map(|(it, _)| it.elsewhere(directory)));
    let state = match running {
        Err(_) => "does not answer".to_owned(),
        Ok(Some(None)) => {
            let doing = |client| agent_row(client, &agent.name, |row| row.and_then(activity));
            let doing = client.map(doing).transpose()?.flatten();
            doing.map_or_else(|| "runs".to_owned(), |(words, _)| words)
        }
        Ok(Some(Some(other))) => format!("runs in {other}"),
        Ok(None) => {
            let record = agent_record::of(&context.home, &agent.name);
            let own = record.filter(|record| is_same(&record.directory, directory));
            match own.map(|record| record.ended.is_some()) {
                Some(true) => "has ended",
                Some(false) => "was cut off",
                None => "does not run",
            }
            .to_owned()
        }
    };
    Ok(Row {
        name: &agent.name,
        running: running == Ok(Some(None)),
        state,
        directory: directory.to_string_lossy(),
        worktree: worktree.is_some(),
        groups: &agent.groups,
        topics: &agent.topics,
        needs: &agent.needs,
    })
}
