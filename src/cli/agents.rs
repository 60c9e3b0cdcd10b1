//! `agents`: who is here.

use super::{
    DONE, Failure,
    ask::{each_agent, guest},
    place::Asked,
    print::{Colour, Out, duration, foreign_line, table},
};
use crate::protocol::relay::AgentRow;
use argh::{ArgsInfo, FromArgs};
use platform::clock;

/// List the agents that the daemon knows, here or away.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "agents",
    help_triggers("--help"),
    example = "agent-relay agents",
    example = "agent-relay agents --json"
)]
pub(super) struct Agents {
    /// print one JSON object a line for each agent
    #[argh(switch)]
    json: bool,
}

impl Agents {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let client = guest(&asked.place()?)?;
        let mut out = Out::new();
        let mut rows = Vec::new();
        each_agent(&client, |agent| {
            if self.json {
                return out.json("agent", &agent);
            }
            rows.push(row(&agent));
            Ok(())
        })?;
        if !self.json {
            show(&mut out, rows)?;
        }
        Ok(DONE)
    }
}

fn row(agent: &AgentRow<'_>) -> Vec<String> {
    let state = if agent.here { "here" } else { "away" };
    let since = clock::unix_ms().saturating_sub(agent.since);
    vec![
        foreign_line(&agent.name),
        format!("{state} for {}", duration(since)),
        agent.queued.to_string(),
        agent.in_flight.to_string(),
        agent.subscriptions.to_string(),
    ]
}

fn show(out: &mut Out, rows: Vec<Vec<String>>) -> Result<(), Failure> {
    if rows.is_empty() {
        return out.line("nobody has been here yet: `agent-relay run -n NAME -- CMD` brings one");
    }
    let heading = ["NAME", "STATE", "WAITING", "IN FLIGHT", "TOPICS"].map(str::to_owned).to_vec();
    let all: Vec<_> = std::iter::once(heading).chain(rows).collect();
    for (place, line) in table(&all).into_iter().enumerate() {
        if place == 0 {
            let line = out.paint(Colour::Bold, line);
            out.line(line)?;
        } else {
            out.line(line)?;
        }
    }
    Ok(())
}
