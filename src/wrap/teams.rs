//! The started teams. The home keeps a record of each agents.toml, so that its groups are known in
//! every directory, and the team can be stopped as it was started.

use super::records;
use protocol::{name, text::escaped};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// The directory in the home with a file for each team.
const DIRECTORY: &str = "teams";

/// The maximum number of known teams. Beyond that, a stopped team is forgotten.
const TEAMS_MAX: usize = 256;

/// The number of bytes of a path's hash in the name of a record's file.
const HASH_BYTES: usize = 16;

/// The record of a team in the home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TeamRecord {
    /// The path of the team's agents.toml.
    pub(crate) file: PathBuf,
    /// The hash of the text that the person has agreed to.
    pub(crate) agreed: String,
    /// Whether the team was started and not stopped.
    pub(crate) is_up: bool,
    /// The agents, in the order of their starts.
    pub(crate) agents: Vec<Member>,
}

/// An agent of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// The agent's working directory.
    pub(crate) directory: PathBuf,
    /// The worktree of git that was made for the agent.
    pub(crate) worktree: Option<PathBuf>,
    pub(crate) groups: Vec<String>,
    /// The id of the agent's last first prompt, sent or to be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    /// Whether the daemon may not have accepted that prompt yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) owes_prompt: bool,
}

impl TeamRecord {
    /// Writes the record.
    ///
    /// # Errors
    /// If it cannot be written, or if [`TEAMS_MAX`] other teams are up.
    pub(crate) fn write(&self, home: &Path) -> io::Result<()> {
        let others: Vec<_> = all(home)?.into_iter().filter(|it| it.file != self.file).collect();
        if others.len() >= TEAMS_MAX {
            let down = others.iter().find(|team| !team.is_up).ok_or_else(|| {
                io::Error::other(format!("{TEAMS_MAX} teams are up; stop one with `team down`"))
            })?;
            fs::remove_file(path(home, &down.file))?;
        }
        records::write(&path(home, &self.file), self)
    }

    /// Returns the agent of a name.
    pub(crate) fn member(&mut self, name: &str) -> Option<&mut Member> {
        self.agents.iter_mut().find(|agent| agent.name.eq_ignore_ascii_case(name))
    }

    fn has_group(&self, group: &str) -> bool {
        self.agents.iter().any(|agent| agent.is_in(group))
    }
}

impl Member {
    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own.eq_ignore_ascii_case(group))
    }
}

/// Returns the hash of a text.
pub(crate) fn hash(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn path(home: &Path, file: &Path) -> PathBuf {
    let hash = hash(file.as_os_str().as_encoded_bytes());
    home.join(DIRECTORY).join(format!("{}.json", &hash[..2 * HASH_BYTES]))
}

/// Reads the record of the team of a file. `None` if the team was never started.
///
/// # Errors
/// If the record cannot be read.
pub(crate) fn of(home: &Path, file: &Path) -> io::Result<Option<TeamRecord>> {
    records::read(&path(home, file))
}

/// Reads all records, in the order of their files. Unreadable records are logged and omitted.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn all(home: &Path) -> io::Result<Vec<TeamRecord>> {
    let mut teams: Vec<TeamRecord> = records::all(&home.join(DIRECTORY))?;
    teams.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(teams)
}

/// The sender of a message to a group.
pub(crate) struct Sender<'a> {
    /// The sender's name, if it is an agent.
    pub(crate) name: Option<&'a str>,
    /// The directory of the agent or of a person's command, if it is known.
    pub(crate) directory: Option<&'a Path>,
}

impl Sender<'_> {
    fn is(&self, agent: &Member) -> bool {
        self.name.is_some_and(|name| name.eq_ignore_ascii_case(&agent.name))
    }

    /// The distance of a team from the sender, if several teams have the group. The sender's own
    /// team is nearest, then teams around the sender's directory, the innermost first.
    fn nearness(&self, team: &TeamRecord) -> usize {
        if team.agents.iter().any(|agent| self.is(agent)) {
            return usize::MAX;
        }
        let Some(directory) = self.directory else { return 0 };
        let worktrees = team.agents.iter().filter_map(|agent| agent.worktree.as_deref());
        let around = team.file.parent().into_iter().chain(worktrees);
        let around = around.filter(|folder| directory.starts_with(folder));
        around.map(|folder| folder.components().count()).max().unwrap_or(0)
    }
}

/// Returns the agents of the group with this address, without the sender. If several running teams
/// have the group, the team nearest to the sender counts.
///
/// # Errors
/// A clause that says why the address matches no agent.
pub(crate) fn members(
    home: &Path,
    address: &str,
    sender: &Sender<'_>,
) -> Result<Vec<String>, String> {
    let Some(group) = name::group_of(address) else {
        return Err(format!("{} cannot be a group", escaped(address)));
    };
    let teams = all(home).map_err(|error| format!("the teams cannot be read: {error}"))?;
    let up: Vec<_> = teams.iter().filter(|team| team.is_up).collect();
    let having: Vec<_> = up.iter().filter(|team| team.has_group(group)).collect();
    let nearest = having.iter().map(|team| sender.nearness(team)).max();
    let mut near = having.iter().filter(|team| Some(sender.nearness(team)) == nearest);
    let Some(team) = near.next() else { return Err(unknown(group, &up)) };
    if let Some(other) = near.next() {
        let files = [team, other].map(|team| escaped(&team.file.to_string_lossy()));
        return Err(format!("{} and {} both have a group @{group}", files[0], files[1]));
    }
    let in_group = team.agents.iter().filter(|agent| agent.is_in(group) && !sender.is(agent));
    let names: Vec<_> = in_group.map(|agent| agent.name.clone()).collect();
    match names.is_empty() {
        true => Err(format!("nobody else is in @{group}")),
        false => Ok(names),
    }
}

/// Returns the addresses of all groups, each with its agents.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn groups(home: &Path) -> io::Result<BTreeMap<String, Vec<String>>> {
    let teams = all(home)?;
    Ok(groups_of(&teams.iter().filter(|team| team.is_up).collect::<Vec<_>>()))
}

/// Names of groups that differ only in case are one group, in lower case.
fn groups_of(up: &[&TeamRecord]) -> BTreeMap<String, Vec<String>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for agent in up.iter().flat_map(|team| &team.agents) {
        for group in &agent.groups {
            let address = format!("@{}", group.to_ascii_lowercase());
            groups.entry(address).or_default().push(agent.name.clone());
        }
    }
    groups
}

fn unknown(group: &str, up: &[&TeamRecord]) -> String {
    let agents = up.iter().flat_map(|team| &team.agents);
    if agents.clone().any(|agent| agent.name.eq_ignore_ascii_case(group)) {
        return format!("there is no group @{group}, only an agent {group}: leave out the @");
    }
    let known: Vec<_> = groups_of(up).into_keys().collect();
    match known.is_empty() {
        true => format!("there is no group @{group}, since no team with groups is up"),
        false => format!("there is no group @{group}, but {}", escaped(&known.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::paths;
    use std::{env, process};

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("ar-teams-{}-{name}", process::id()));
            paths::make_private_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn team(file: &str, is_up: bool, agents: &[(&str, &[&str])]) -> TeamRecord {
        let member = |(name, groups): &(&str, &[&str])| Member {
            name: (*name).to_owned(),
            directory: "/src".into(),
            worktree: None,
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            prompt: None,
            owes_prompt: false,
        };
        let agents = agents.iter().map(member).collect();
        TeamRecord { file: file.into(), agreed: hash(b"x"), is_up, agents }
    }

    fn named(name: &str) -> Sender<'_> {
        Sender { name: Some(name), directory: None }
    }

    #[test]
    fn group_is_that_of_the_senders_team_or_directory() {
        let home = Home::new("nearest");
        let shop = [("web", &["reviewers"][..]), ("api", &["Reviewers", "all-but-web"])];
        team("/src/shop/agents.toml", true, &shop).write(&home.0).unwrap();
        let ask = |address: &str, sender: &Sender<'_>| members(&home.0, address, sender);
        assert_eq!(ask("@REVIEWERS", &named("Zed")), Ok(vec!["web".into(), "api".into()]));
        assert_eq!(ask("@reviewers", &named("WEB")), Ok(vec!["api".into()]));
        let blog = [("text", &["reviewers"][..])];
        team("/src/blog/agents.toml", true, &blog).write(&home.0).unwrap();
        assert_eq!(ask("@reviewers", &named("web")), Ok(vec!["api".into()]));
        assert_eq!(ask("@reviewers", &named("text")).unwrap_err(), "nobody else is in @reviewers");
        assert_eq!(
            ask("@reviewers", &named("Zed")).unwrap_err(),
            "/src/blog/agents.toml and /src/shop/agents.toml both have a group @reviewers"
        );
        let here = |path| Sender { name: None, directory: Some(Path::new(path)) };
        let mut tree = team("/src/shop/agents.toml", true, &shop);
        tree.agents[0].worktree = Some("/src/shop.worktrees/web".into());
        tree.write(&home.0).unwrap();
        assert_eq!(
            ask("@reviewers", &here("/src/shop.worktrees/web/css")),
            Ok(vec!["web".into(), "api".into()])
        );
        assert_eq!(ask("@reviewers", &here("/src/blog/posts")), Ok(vec!["text".into()]));
        team("/src/blog/agents.toml", false, &blog).write(&home.0).unwrap();
        assert_eq!(ask("@reviewers", &here("/")), Ok(vec!["web".into(), "api".into()]));
    }

    #[test]
    fn unknown_group_is_refused_with_those_that_are_known() {
        let home = Home::new("unknown");
        let why = |address: &str| members(&home.0, address, &named("Zed")).unwrap_err();
        assert_eq!(why("@x"), "there is no group @x, since no team with groups is up");
        team("/a", true, &[("web", &["b", "a"][..]), ("api", &["b"])]).write(&home.0).unwrap();
        assert_eq!(why("@x"), "there is no group @x, but @a, @b");
        assert_eq!(why("@web"), "there is no group @web, only an agent web: leave out the @");
        assert_eq!(why("@relay"), "@relay cannot be a group");
    }

    #[test]
    fn team_that_is_down_makes_room() {
        let home = Home::new("room");
        for n in 0..TEAMS_MAX {
            team(&format!("/{n}"), n != 7, &[]).write(&home.0).unwrap();
        }
        let next = team("/next", true, &[]);
        next.write(&home.0).unwrap();
        next.write(&home.0).unwrap();
        assert_eq!(of(&home.0, Path::new("/7")).unwrap(), None);
        assert_eq!(of(&home.0, Path::new("/next")).unwrap(), Some(next));
        let full = team("/more", true, &[]).write(&home.0).unwrap_err();
        assert!(full.to_string().contains("256 teams are up"), "{full}");
        fs::write(path(&home.0, Path::new("/8")), "{").unwrap();
        assert_eq!(all(&home.0).unwrap().len(), TEAMS_MAX - 1);
        assert!(of(&home.0, Path::new("/8")).is_err());
    }
}
