//! What people of other machines are shown of an exported agent: its program and its directory.
//!
//! Bridges carry these in an optional member, which a side of an earlier version ignores. They are
//! only shown: no decision follows from them.

use super::local::Daemon;
use client::{Client, ClientError, Settings};
use protocol::{
    Moment,
    name::Name,
    payload::{DIRECTORY_BYTES_MAX, PROGRAM_BYTES_MAX},
    relay::{Agents, Page, RequestName},
};
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;
use std::{collections::BTreeMap, time::Duration};

/// The time after which the daemon is asked again, in milliseconds.
const ASK_MS: u64 = 10_000;

/// The longest wait for an answer of the daemon.
const ANSWER: Duration = Duration::from_secs(2);

/// The most pages of the daemon's agents that are asked for.
const PAGES_MAX: usize = 64;

/// What an agent runs, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// The agent's program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The directory in which the program was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// The details of agents, by their names on their machine.
pub type All = BTreeMap<String, Details>;

/// Keeps of what another machine states only what is about these agents and as long as a daemon
/// keeps it.
#[must_use]
pub fn checked(stated: &All, agents: &[Name]) -> All {
    let short = |text: &Option<String>, bytes_max| text.clone().filter(|it| it.len() <= bytes_max);
    let of = |name: &Name| {
        let Details { program, directory } = stated.get(name.as_str())?;
        let program = short(program, PROGRAM_BYTES_MAX);
        let directory = short(directory, DIRECTORY_BYTES_MAX);
        Some((name.to_string(), Details { program, directory }))
    };
    agents.iter().filter_map(of).collect()
}

/// The details that fit into so many bytes of JSON: all if possible, else first the programs.
#[must_use]
pub fn fitting(all: &All, bytes_max: usize) -> All {
    let bytes = |all: &All| serde_json::to_vec(all).map_or(usize::MAX, |json| json.len());
    let mut kept = All::new();
    for with_directories in [false, true] {
        for (name, details) in all {
            let directory = details.directory.clone().filter(|_| with_directories);
            let details = Details { program: details.program.clone(), directory };
            let before = kept.insert(name.clone(), details);
            if bytes(&kept) > bytes_max {
                match before {
                    Some(before) => kept.insert(name.clone(), before),
                    None => kept.remove(name),
                };
            }
        }
    }
    kept
}

/// The details of this machine's exported agents.
#[derive(Debug)]
pub struct Exported {
    daemon: Daemon,
    exports: Vec<Name>,
    known: All,
    ask_at: Moment,
}

impl Exported {
    /// The details of these agents, which are not known yet.
    #[must_use]
    pub fn new(daemon: Daemon, exports: Vec<Name>) -> Self {
        Self { daemon, exports, known: All::new(), ask_at: Moment(0) }
    }

    /// The moment at which the daemon should be asked.
    #[must_use]
    pub const fn ask_at(&self) -> Moment {
        self.ask_at
    }

    /// Asks the daemon, if it is time. Returns the details if they have changed. While the daemon
    /// does not answer, what it said last is kept.
    pub fn ask(&mut self, now: Moment) -> Option<&All> {
        if now < self.ask_at {
            return None;
        }
        self.ask_at = now.plus(ASK_MS);
        let known = ask(&self.daemon, &self.exports).ok()?;
        if known == self.known {
            return None;
        }
        self.known = known;
        Some(&self.known)
    }
}

/// Asks the daemon what these agents run, and where.
fn ask(daemon: &Daemon, exports: &[Name]) -> Result<All, ClientError> {
    let settings = Settings { server: daemon.server.clone(), ..Settings::guest(&daemon.endpoint) };
    let client = Client::join(settings)?;
    let (mut all, mut page) = (All::new(), Page::default());
    for _ in 0..PAGES_MAX {
        let data = to_raw_value(&page).expect("a page is JSON");
        let answer = client.request_within(ANSWER, RequestName::Agents, Some(&data))?;
        let json = answer.data.as_deref().map_or("{}", |data| data.get());
        // A later daemon may answer with something else, which tells nothing then.
        let Agents { agents, next_cursor } = serde_json::from_str(json).unwrap_or_default();
        for row in agents {
            let mut exports = exports.iter();
            let name = exports.find(|it| it.as_str().eq_ignore_ascii_case(&row.name));
            let (program, directory) = (row.program.map(Into::into), row.directory.map(Into::into));
            let details = Details { program, directory };
            if let Some(name) = name.filter(|_| details != Details::default()) {
                all.insert(name.to_string(), details);
            }
        }
        let Some(cursor) = next_cursor else { break };
        page.cursor = Some(cursor.into_owned());
    }
    client.close();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machine_can_state_only_short_texts_about_its_agents() {
        let of = |program: &str, directory: &str| Details {
            program: Some(program.to_owned()),
            directory: Some(directory.to_owned()),
        };
        let stated = All::from([
            ("Bob".to_owned(), of("claude", "/src/\u{1b}[2Jweb")),
            ("Cid".to_owned(), of(&"p".repeat(65), &"d".repeat(513))),
            ("Eve".to_owned(), of("x", "y")),
        ]);
        let names = ["Bob", "Cid", "Dora"].map(|name| Name::parse(name).unwrap());
        let kept = checked(&stated, &names);
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["Bob", "Cid"]);
        assert_eq!(kept["Bob"], stated["Bob"], "control characters are escaped where it is shown");
        assert_eq!(kept["Cid"], Details::default());
    }

    #[test]
    fn details_that_are_too_long_together_are_left_out() {
        let of = |directory: &str| Details {
            program: Some("claude".to_owned()),
            directory: Some(directory.to_owned()),
        };
        let all = All::from([
            ("Ann".to_owned(), of(&"d".repeat(500))),
            ("Bob".to_owned(), of("/src/web")),
            ("Cid".to_owned(), of("/src/api")),
        ]);
        assert_eq!(fitting(&all, 1000), all);
        let kept = fitting(&all, 200);
        assert_eq!((&kept["Bob"], &kept["Cid"]), (&all["Bob"], &all["Cid"]));
        assert_eq!(
            (kept["Ann"].program.as_deref(), &kept["Ann"].directory),
            (Some("claude"), &None)
        );
        assert_eq!(fitting(&all, 2), All::new());
    }
}
