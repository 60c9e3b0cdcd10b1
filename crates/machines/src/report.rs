//! Reports of running bridges: each bridge keeps a file in the directory `bridges` of its home, and
//! the commands `status`, `agents` and `doctor` read these files.
//!
//! A running bridge holds a lock next to its report, so a report without a held lock belongs to a
//! bridge that has ended. A stopped bridge removes its report.

mod reading;
mod writing;

pub use reading::{Known, read};
pub use writing::{Counters, Reporter, Reporting};

use crate::details;
use platform::clock;
use protocol::name::ALL;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The directory of the reports in the home directory.
pub const DIRECTORY: &str = "bridges";

/// The longest error in a report, in characters.
const ERROR_MAX: usize = 300;

/// A program that joins machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The command `bridge`, which has started a link.
    Bridge,
    /// The command `stdio`, the other side of a link.
    Stdio,
    /// `agent-relay-nats`.
    Nats,
}

impl Kind {
    /// The kind as a word of JSON and of file names.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Stdio => "stdio",
            Self::Nats => "nats",
        }
    }
}

/// The state of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There was no link yet.
    Connecting,
    /// The link to the other machine, or to a NATS server, works.
    Linked,
    /// The link is lost, and made again.
    Lost,
    /// The bridge has ended with an error, or was killed.
    Ended,
}

impl State {
    /// The state as a word of JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Linked => "linked",
            Self::Lost => "lost",
            Self::Ended => "ended",
        }
    }
}

/// The report of a bridge. Times are in milliseconds since 1970. docs/MACHINES.md has the comments
/// of the fields as a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The program: `bridge`, `stdio` or `nats`.
    pub kind: Kind,
    /// The other machine's name here; for `nats`, the name of this machine.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The process id, for information only.
    pub pid: u32,
    /// The time of its start.
    pub started: u64,
    /// `connecting` before the first link, `linked`, `lost` while a link is made again, or `ended`.
    pub state: State,
    /// The time since which it is in that state.
    pub since: u64,
    /// The name of the connected NATS server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The last error, and `at`, its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<LastError>,
    /// The machines that are linked: `host`, the name of each, `since`, the time when it linked,
    /// `agents`, its linked agents, `takes_topics`, if it takes messages to everyone or on topics,
    /// and `details`, by the agents' names, with `program` and `directory`, as that machine states
    /// them.
    pub hosts: Vec<Remote>,
    /// The number of links that it has had.
    pub links: u64,
    /// The number of messages for other machines that it has carried, repetitions included.
    #[serde(default)]
    pub sent: u64,
    /// The number of these that were not carried or that the other machine refused.
    #[serde(default)]
    pub sent_refused: u64,
    /// The number of messages of other machines that the daemon has accepted.
    #[serde(default)]
    pub received: u64,
    /// The number of messages of other machines that were refused here.
    #[serde(default)]
    pub received_refused: u64,
}

/// The last error of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// The error in words. It may repeat what another machine or a server has sent.
    pub text: String,
    /// The time of the error.
    pub at: u64,
}

/// A machine that is linked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// The machine's name here.
    pub host: String,
    /// The time when it linked.
    pub since: u64,
    /// Its agents that are linked, with their names there.
    pub agents: Vec<String>,
    /// Whether it takes messages to everyone or on topics.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_topics: bool,
    /// The machine's statements about its agents.
    #[serde(default, skip_serializing_if = "details::All::is_empty")]
    pub details: details::All,
}

impl Report {
    /// The report of a bridge that starts now.
    #[must_use]
    pub fn new(kind: Kind, name: &str, version: &str) -> Self {
        let now = clock::unix_ms();
        Self {
            kind,
            name: name.to_owned(),
            version: version.to_owned(),
            pid: std::process::id(),
            started: now,
            state: State::Connecting,
            since: now,
            server: None,
            error: None,
            hosts: Vec::new(),
            links: 0,
            sent: 0,
            sent_refused: 0,
            received: 0,
            received_refused: 0,
        }
    }

    /// Notes that there is a link, for NATS to this server.
    pub fn linked(&mut self, server: Option<String>) {
        self.links += u64::from(self.state != State::Linked);
        self.server = server;
        self.enter(State::Linked);
    }

    /// Notes that the link is lost for a reason, or could not be made.
    pub fn lost(&mut self, why: &str) {
        self.failed(why);
        self.server = None;
        if self.kind != Kind::Nats {
            self.hosts.clear();
        }
        if self.links > 0 {
            self.enter(State::Lost);
        }
    }

    /// Notes an error that does not end the link.
    pub fn failed(&mut self, why: &str) {
        let text = why.chars().take(ERROR_MAX).collect();
        self.error = Some(LastError { text, at: clock::unix_ms() });
    }

    /// Notes that a machine is linked with these agents.
    pub fn host_came(&mut self, host: &str, mut agents: Vec<String>) {
        let all = agents.extract_if(.., |name| name == ALL);
        let takes_topics = all.count() > 0;
        let known = self.hosts.iter().find(|remote| remote.host == host);
        let since = known.map_or_else(clock::unix_ms, |remote| remote.since);
        let details = known.map(|remote| remote.details.clone()).unwrap_or_default();
        self.host_left(host);
        self.hosts.push(Remote { host: host.to_owned(), since, agents, takes_topics, details });
    }

    /// Records a linked machine's statements about its agents.
    pub fn host_stated(&mut self, host: &str, details: details::All) {
        if let Some(remote) = self.hosts.iter_mut().find(|remote| remote.host == host) {
            remote.details = details;
        }
    }

    /// The details of an agent of another machine, by its name here.
    #[must_use]
    pub fn details_of(&self, agent: &str) -> Option<&details::Details> {
        let (name, host) = agent.split_once('@')?;
        let remote = self.hosts.iter().find(|remote| remote.host.eq_ignore_ascii_case(host))?;
        let mut all = remote.details.iter();
        all.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, details)| details)
    }

    /// Notes that a machine is no longer linked.
    pub fn host_left(&mut self, host: &str) {
        self.hosts.retain(|remote| remote.host != host);
    }

    /// The file of the report in a home.
    #[must_use]
    pub fn path(&self, home: &Path) -> PathBuf {
        home.join(DIRECTORY).join(format!("{}-{}.json", self.kind.as_str(), self.name))
    }

    /// Whether the report is about a machine.
    #[must_use]
    pub fn is_about(&self, host: &str) -> bool {
        let is_peer = self.kind != Kind::Nats && self.name.eq_ignore_ascii_case(host);
        is_peer || self.hosts.iter().any(|remote| remote.host.eq_ignore_ascii_case(host))
    }

    fn enter(&mut self, state: State) {
        if self.state != state {
            (self.state, self.since) = (state, clock::unix_ms());
        }
    }
}

#[cfg(test)]
mod tests;
