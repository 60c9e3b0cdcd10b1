//! The plan of a team: what agents.toml means in its directory.

use super::{presence::resolved, worktree::Worktree};
use crate::{
    cli::{agent_options::AgentOptions, failure::Failure},
    config::team::{self, FILE, TeamAgent},
    wrap::teams::{self, Member, TeamRecord},
};
use client::home::{ConfigError, text};
use platform::{paths, shell::quoted};
use protocol::text::{escaped, escaped_text};
use std::{
    iter,
    path::{Path, PathBuf},
};

/// The agents of a file, in the order of their starts.
pub(super) struct Plan {
    pub(super) file: PathBuf,
    /// The hash of the content that a person agrees to: the file's text, and the directories that
    /// it means.
    pub(super) hash: String,
    pub(super) agents: Vec<Planned>,
}

/// An agent, and the place where it runs.
pub(super) struct Planned {
    pub(super) agent: TeamAgent,
    pub(super) directory: PathBuf,
    pub(super) worktree: Option<Worktree>,
}

/// Finds the file of the team here: the file of the team that this worktree belongs to, or the
/// innermost one in this directory or above it. The file of a team that is up may be gone.
pub(super) fn file_here(home: &Path) -> Result<PathBuf, Failure> {
    let here = paths::current_directory().map_err(Failure::because)?;
    let known = teams::all(home).map_err(Failure::because)?;
    let is_in = |place: &Path| resolved(&here).starts_with(resolved(place));
    let is_of_worktree = |team: &&TeamRecord| {
        team.agents.iter().filter_map(|agent| agent.worktree.as_deref()).any(is_in)
    };
    if let Some(team) = known.iter().find(is_of_worktree) {
        return Ok(team.file.clone());
    }
    // The file of a team that is up may be gone, such as on another branch.
    let up = known.iter().filter(|team| team.is_up && team.file.parent().is_some_and(is_in));
    let files = team::find(&here).into_iter().chain(up.map(|team| team.file.clone()));
    files.max_by_key(|file| file.components().count()).ok_or_else(|| {
        let failure =
            format!("there is no {FILE} in {} or above", escaped(&here.to_string_lossy()));
        Failure::failed(failure).hint("`agent-relay help team` shows an example")
    })
}

impl Plan {
    /// Reads a file.
    pub(super) fn read(file: PathBuf) -> Result<Self, Failure> {
        let failed = |error: ConfigError| Failure::failed(escaped(&error.to_string()));
        let text =
            text::read(&file).map_err(|error| failed(ConfigError::unreadable(&file, &error)))?;
        let agents = team::parse(&file, &text).map_err(failed)?;
        if agents.is_empty() {
            let failure = format!("{} has no [[agent]]", escaped(&file.to_string_lossy()));
            return Err(Failure::failed(failure));
        }
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        let agents = agents.into_iter().map(|agent| Planned::new(agent, &folder));
        let agents: Vec<_> = agents.collect::<Result<_, _>>()?;
        let hash = hash(&text, &agents);
        Ok(Self { file, hash, agents })
    }

    /// The agents that may start at the same time, in groups that start one after another.
    pub(super) fn waves(&self) -> impl Iterator<Item = &[Planned]> {
        let mut left = &*self.agents;
        iter::from_fn(move || {
            let needs_earlier = |at: &usize| left[*at].needs_one_of(&left[..*at]);
            let end = (1..left.len()).find(needs_earlier).unwrap_or(left.len());
            let (wave, later) = left.split_at(end);
            left = later;
            (!wave.is_empty()).then_some(wave)
        })
    }

    /// Describes all that is started.
    pub(super) fn in_words(&self) -> String {
        self.agents.iter().map(Planned::in_words).collect()
    }
}

fn hash(text: &str, agents: &[Planned]) -> String {
    let directories = agents.iter().map(|planned| planned.directory.as_os_str());
    let directories: Vec<_> = directories.map(|it| it.as_encoded_bytes()).collect();
    teams::hash(&[&[text.as_bytes()], &directories[..]].concat().join(&0))
}

impl Planned {
    /// Returns the agent's record for the home.
    pub(super) fn member(&self) -> Member {
        Member {
            name: self.agent.name.clone(),
            directory: self.directory.clone(),
            worktree: self.worktree.as_ref().map(|tree| tree.path.clone()),
            groups: self.agent.groups.clone(),
            prompt: None,
            owes_prompt: false,
        }
    }

    /// The agent's start options, like those of `spawn`.
    pub(super) fn options(&self) -> AgentOptions<'_> {
        let TeamAgent { topics, brief, hooks, mcp, accepts_text, .. } = &self.agent;
        AgentOptions {
            topics,
            brief: *brief == Some(true),
            no_brief: *brief == Some(false),
            no_hooks: !hooks,
            mcp: *mcp,
            accepts_text: *accepts_text,
            ..AgentOptions::default()
        }
    }

    fn new(agent: TeamAgent, folder: &Path) -> Result<Self, Failure> {
        let directory = match &agent.directory {
            Some(below) => paths::absolute(folder.join(below)).map_err(Failure::because)?,
            None => folder.to_owned(),
        };
        if !directory.is_dir() {
            let shown = directory.to_string_lossy();
            return Err(Failure::failed(escaped(&format!(
                "{FILE}: the directory of {} does not exist: {shown}",
                agent.name
            ))));
        }
        // A link leads elsewhere tomorrow.
        let directory = resolved(&directory);
        if !agent.worktree {
            return Ok(Self { agent, directory, worktree: None });
        }
        let (worktree, directory) = Worktree::of(&directory, &agent.name)?;
        Ok(Self { agent, directory, worktree: Some(worktree) })
    }

    fn needs_one_of(&self, others: &[Self]) -> bool {
        let is_needed = |other: &Self| {
            self.agent.needs.iter().any(|need| need.eq_ignore_ascii_case(&other.agent.name))
        };
        others.iter().any(is_needed)
    }

    /// Whether an agent of this name that ran in a directory was one of the project: the file may
    /// have changed its directory since.
    pub(super) fn may_have_been_in(&self, directory: &Path, file: &Path) -> bool {
        let directory = resolved(directory);
        let is_in = |place: &Path| directory.starts_with(resolved(place));
        let folder = file.parent().unwrap_or(file);
        let of_git = || Worktree::of(folder, &self.agent.name);
        is_in(&self.directory) || is_in(folder) || of_git().is_ok_and(|(tree, _)| is_in(&tree.path))
    }

    fn in_words(&self) -> String {
        let Self { agent, directory, worktree } = self;
        let command: Vec<_> = agent.command.iter().map(quoted).collect();
        let mut lines = vec![format!("  {}: {}", agent.name, command.join(" "))];
        let mut add = |line: String| lines.push(format!("    {line}"));
        add(format!("in {}", directory.display()));
        if let Some(tree) = worktree {
            add(format!("a worktree of git on the branch {}", tree.branch));
        }
        let groups: Vec<_> = agent.groups.iter().map(|group| format!("@{group}")).collect();
        for (words, list) in
            [("after", &agent.needs), ("in", &groups), ("gets messages on", &agent.topics)]
        {
            if !list.is_empty() {
                add(format!("{words} {}", list.join(", ")));
            }
        }
        for (is_set, words) in [
            (agent.brief == Some(true), "is told how to send messages"),
            (agent.brief == Some(false), "is not told how to send messages"),
            (!agent.hooks, "without hooks"),
            (agent.mcp, "with the tools of the MCP server"),
            (agent.accepts_text, "messages are typed into it, whatever it is"),
        ] {
            if is_set {
                lines.push(format!("    {words}"));
            }
        }
        let mut text: String = lines.iter().map(|line| format!("{}\n", escaped(line))).collect();
        if let Some(prompt) = &agent.prompt {
            text.push_str("    first prompt:\n");
            let prompt = escaped_text(prompt);
            text.extend(prompt.lines().map(|line| format!("      | {line}\n")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_start_together_unless_one_needs_another() {
        let text = "[[agent]]\nname = 'c'\ncommand = 'x'\nneeds = ['B']\n\
                    [[agent]]\nname = 'a'\ncommand = 'x'\n\
                    [[agent]]\nname = 'b'\ncommand = 'x'\nneeds = ['a']\n\
                    [[agent]]\nname = 'd'\ncommand = 'x'\n";
        let agents = team::parse(Path::new(FILE), text).unwrap().into_iter();
        let planned = |agent| Planned { agent, directory: PathBuf::new(), worktree: None };
        let agents = agents.map(planned).collect();
        let plan = Plan { file: PathBuf::new(), hash: String::new(), agents };
        let names = |wave: &[Planned]| wave.iter().map(|it| it.agent.name.clone()).collect();
        let waves: Vec<Vec<_>> = plan.waves().map(names).collect();
        assert_eq!(waves, [vec!["a"], vec!["b"], vec!["c", "d"]]);
    }
}
