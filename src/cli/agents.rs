//! `agents`: who is here.

use super::{
    DONE, Failure,
    ask::{each_agent, join},
    place::Asked,
    print::{Out, duration, foreign_line},
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
        let client = join(asked)?;
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
            let nobody = "nobody has been here yet: `agent-relay run -n NAME -- CMD` brings one";
            out.table(&["NAME", "STATE", "WAITING", "IN FLIGHT", "TOPICS"], rows, nobody)?;
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
