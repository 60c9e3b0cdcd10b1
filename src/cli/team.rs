//! `team`: start and stop the agents of a project, which agents.toml lists.

mod down;
mod names;
mod plan;
mod presence;
mod status;
mod up;
mod worktree;

use super::failure::Failure;
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;

/// Start, stop or list the agents of a project.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "team",
    help_triggers("--help"),
    example = "agent-relay team up",
    example = "agent-relay team status",
    example = "agent-relay team down",
    note = "The agents are in agents.toml, in this directory or above it. Example:",
    note = "  [[agent]]",
    note = "  name = \"web\"",
    note = "  command = \"claude\"",
    note = "  worktree = true",
    note = "  groups = [\"reviewers\"]",
    note = "Then `agent-relay send @reviewers TEXT` reaches each agent of the group."
)]
pub(super) struct Team {
    #[argh(subcommand)]
    action: Action,
}

#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand)]
enum Action {
    Up(up::Up),
    Down(down::Down),
    Status(status::Status),
}

impl Team {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        match self.action {
            Action::Up(up) => up.run(options),
            Action::Down(down) => down.run(options),
            Action::Status(status) => status.run(options),
        }
    }
}
