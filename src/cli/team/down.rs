//! `team down`: end the agents of a project.

use super::{plan::file_here, presence::Running, worktree};
use crate::{
    cli::{
        failure::{DONE, Failure, first_failure},
        print::{Out, eprint_line},
        stop,
        wrapped::check_is_person,
    },
    wrap::teams::{self, Member, TeamRecord},
};
use argh::{ArgsInfo, FromArgs};
use client::home::HomeOptions;
use protocol::text::escaped;
use std::path::Path;

/// Stop a project's agents, in the reverse order of their starts.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "down",
    help_triggers("--help"),
    example = "agent-relay team down",
    example = "agent-relay team down --worktrees",
    note = "`agent-relay team up` starts them again, each with its own conversation."
)]
pub(super) struct Down {
    /// also remove worktrees without changes, with the files that git ignores; branches stay
    #[argh(switch)]
    worktrees: bool,

    /// print one JSON object a line for each agent that ended
    #[argh(switch)]
    json: bool,
}

impl Down {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        check_is_person()?;
        let home = options.home()?;
        let file = file_here(&home)?;
        let team = teams::of(&home, &file).map_err(Failure::because)?;
        let Some(team) = team else {
            let file = escaped(&file.to_string_lossy());
            if !self.json {
                Out::new().line(format_args!("no agent of {file} was started"))?;
            }
            return Ok(DONE);
        };
        let mut has_ended = false;
        let ended = team.agents.iter().rev().map(|agent| {
            has_ended |= self.end(&home, agent)?;
            Ok(())
        });
        let mut code = first_failure(self.json, ended);
        if !has_ended && code == DONE && !self.json {
            Out::new().line("no agent of the team ran")?;
        }
        if code == DONE {
            let down = TeamRecord { is_up: false, ..team };
            down.write(&home).map_err(Failure::because)?;
            if self.worktrees {
                code = first_failure(self.json, down.agents.iter().map(remove_worktree));
            }
        }
        Ok(code)
    }

    /// Ends an agent. Returns whether it ran.
    fn end(&self, home: &Path, agent: &Member) -> Result<bool, Failure> {
        let name = &agent.name;
        let Some((running, wrapper)) = Running::of(home, name)? else { return Ok(false) };
        if let Some(other) = running.elsewhere(&agent.directory) {
            eprint_line(format_args!("note: {name} runs on, in {}", escaped(other)));
            return Ok(false);
        }
        wrapper.begin_to_stop();
        stop::await_end(&agent.name, &wrapper, stop::deadline(), self.json)?;
        Ok(true)
    }
}

fn remove_worktree(agent: &Member) -> Result<(), Failure> {
    let Some(path) = &agent.worktree else { return Ok(()) };
    if worktree::remove(path)? {
        let path = escaped(&path.to_string_lossy());
        eprint_line(format_args!("removed the worktree {path}"));
    }
    Ok(())
}
