//! The names of a team's agents: those that belong to others are refused.

use super::{
    plan::{Plan, Planned},
    presence::Presences,
};
use crate::{
    cli::{failure::Failure, folder_name, print::counted, request::agent_row},
    wrap::{agent_record, teams::TeamRecord},
};
use client::Client;
use protocol::text::escaped;
use std::{collections::HashMap, path::Path};

/// The agents that are not started, by their names, and why.
pub(super) type Refused<'p> = HashMap<&'p str, Failure>;

/// The known facts about the names.
pub(super) struct Names<'a> {
    pub(super) home: &'a Path,
    pub(super) client: &'a Client,
    pub(super) presences: &'a Presences,
    /// The team as it was started before.
    pub(super) known: Option<&'a TeamRecord>,
}

impl Names<'_> {
    /// Refuses the names of others.
    pub(super) fn refused<'p>(&self, plan: &'p Plan) -> Refused<'p> {
        let check = |planned: &'p Planned| {
            let failure = self.check(planned, &plan.file).err()?;
            Some((&*planned.agent.name, failure))
        };
        plan.agents.iter().filter_map(check).collect()
    }

    /// Refuses a name that an agent of another project has, or that has mail for another agent.
    fn check(&self, planned: &Planned, file: &Path) -> Result<(), Failure> {
        let name = &*planned.agent.name;
        let running = self.presences.of(name);
        if let Ok(Some(running)) = &running
            && let Some(other) = running.elsewhere(&planned.directory)
            && !planned.may_have_been_in(other.as_ref(), file)
        {
            let failure = format!("{name} is the name of an agent that runs in {}", escaped(other));
            return Err(Failure::failed(failure).hint("choose another name"));
        }
        let record = agent_record::of(self.home, name);
        if let Some(record) = &record
            && !planned.may_have_been_in(&record.directory, file)
        {
            let other = escaped(&record.directory.to_string_lossy());
            let failure = format!("{name} is the name of an agent in {other}");
            let hint = format!("choose another name, or `agent-relay purge --forget {name}`");
            return Err(Failure::failed(failure).hint(hint));
        }
        let is_own = record.is_some() || !matches!(running, Ok(None)) || self.was_member(name);
        if is_own { Ok(()) } else { self.check_mail(planned, file) }
    }

    fn was_member(&self, name: &str) -> bool {
        let mut members = self.known.into_iter().flat_map(|known| &known.agents);
        members.any(|member| member.name.eq_ignore_ascii_case(name))
    }

    /// Refuses a name with waiting mail, unless the name was made up for a directory of the
    /// project.
    fn check_mail(&self, planned: &Planned, file: &Path) -> Result<(), Failure> {
        let name = &*planned.agent.name;
        let queued = agent_row(self.client, name, |row| row.map_or(0, |row| row.queued))?;
        let folder = folder_name::folder_of(self.home, name);
        if queued == 0 || folder.is_some_and(|folder| planned.may_have_been_in(&folder, file)) {
            return Ok(());
        }
        let verb = if queued == 1 { "waits" } else { "wait" };
        let messages = counted(queued, "message");
        let failure = format!("{messages} {verb} for another agent named {name}");
        let hint = format!("choose another name, or `agent-relay purge {name}`");
        Err(Failure::failed(failure).hint(hint))
    }
}
