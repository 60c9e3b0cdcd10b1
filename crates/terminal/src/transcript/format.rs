//! The description of one agent CLI's transcripts: how they are parsed, and where they are.

use super::{ContextUse, Row};
use serde::Deserialize;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A format of transcripts, and where its CLI stores them.
pub struct Format {
    /// The format's name in recipes.
    pub name: &'static str,
    /// The folder for the CLI's files.
    pub home: Home,
    /// The folders below the home that contain transcripts. `/` separates folders, and `*` is any
    /// one folder.
    pub folders: &'static str,
    /// Returns the path of a conversation's transcript below the home, given the conversation's id.
    /// For CLIs with hooks that do not all state the path.
    pub path_of_session: Option<fn(&str) -> String>,
    /// How to find one process's transcripts among all of the CLI's.
    pub location: Location,
    /// Reads a line: a JSON object. Returns `None` for a line that does not belong to the agent's
    /// conversation.
    pub(crate) row: fn(&str) -> Option<Row<'_>>,
    /// Reads how much of the model's context the agent's conversation takes, if a line states it.
    pub(crate) context: Option<fn(&str) -> Option<ContextUse>>,
    /// The lines of an example: a prompt and its reply, with TEXT for the text of both.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) turn: &'static str,
}

impl Format {
    /// Returns how much of the model's context the agent's conversation takes. The last line that
    /// states it counts. The first line may be incomplete.
    #[must_use]
    pub fn context_in(&self, lines: &str) -> Option<ContextUse> {
        lines.lines().rev().find_map(self.context?)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Format {
    /// Returns the lines of a turn with this text as both prompt and reply.
    pub(crate) fn turn_of(&self, text: &str) -> String {
        self.turn.replace("\"TEXT\"", &serde_json::Value::from(text).to_string())
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

/// A CLI's folder for its files.
pub struct Home {
    /// The folder's name in the user's home directory.
    pub folder: &'static str,
    /// The environment variable that overrides the folder's location.
    pub variable: &'static str,
    /// Whether the variable names the folder's parent rather than the folder itself.
    pub variable_names_parent: bool,
}

/// How to find one process's transcripts.
pub enum Location {
    /// By a file that the CLI writes for each of its processes and that names the process's
    /// session. The transcripts themselves do not identify the process.
    ByProcess,
    /// By first lines: all growing transcripts are read, and the first line of each identifies the
    /// agent that leads the conversation.
    ByFirstLine {
        /// Reads the first line of a transcript, for an agent that works in this directory.
        leader: fn(&str, &Path) -> Leader,
        /// Whether a process keeps its transcript open. If so, and if the system lists open files,
        /// the process's transcripts are found among its open files.
        is_kept_open: bool,
        /// The CLI's list of projects. It identifies a transcript without a first line.
        project_list: Option<ProjectList>,
    },
}

/// The session that a process leads. Claude Code writes it to a file for each process.
pub struct ProcessSession {
    /// The file name of the session's transcript.
    pub file_name: String,
    /// When the process started, in milliseconds since 1970.
    pub started_ms: u64,
}

impl ProcessSession {
    /// Returns the file's path below the home, for a process id.
    #[must_use]
    pub fn path(pid: u32) -> String {
        format!("sessions/{pid}.json")
    }

    /// Reads the file. It has the session's id, which is also the transcript's name, and the time
    /// when the process started.
    #[must_use]
    pub fn read(file: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Process {
            session_id: String,
            started_at: u64,
        }
        let Process { session_id, started_at } = serde_json::from_slice(file).ok()?;
        // The id becomes a part of a path, so it must not contain a separator.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let file_name = format!("{session_id}.jsonl");
        session_id.chars().all(is_plain).then_some(Self { file_name, started_ms: started_at })
    }
}

/// The leader of the conversation in a transcript, according to its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leader {
    /// A subagent that an agent has started. Its replies are not the agent's.
    Subagent,
    /// An agent in the expected directory.
    Here,
    /// An agent in another directory.
    Elsewhere,
    /// An agent in this directory. It may be the expected directory under another path.
    In(PathBuf),
    /// Unknown, because the file has lost its first line. The project list tells the directory.
    Unknown,
}

/// The file that lists the folders of a CLI's projects.
pub struct ProjectList {
    /// The file's path below the home.
    pub path: &'static str,
    /// Reads the file's bytes. Returns the name of the folder that belongs to a directory.
    pub folder: fn(&[u8], &Path) -> Option<String>,
}
