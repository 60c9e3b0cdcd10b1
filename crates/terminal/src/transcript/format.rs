//! The description of one agent CLI's transcripts: how they are parsed, and where they are.

use super::{ContextUse, Row};
use serde::Deserialize;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A format of transcripts, and the places where its CLI keeps them.
pub struct Format {
    /// The name by which recipes refer to the format.
    pub name: &'static str,
    /// The folder in which the CLI keeps its files.
    pub home: Home,
    /// The folders below the home that contain transcripts. `/` separates folders, and `*` is any
    /// one folder.
    pub folders: &'static str,
    /// Returns the path of a conversation's transcript below the home, by the conversation's id.
    /// For CLIs whose hooks do not all state the path.
    pub path_of_session: Option<fn(&str) -> String>,
    /// The way in which the transcripts of one process are found among the CLI's transcripts.
    pub location: Location,
    /// Reads a line, which is a JSON object. Returns `None` for a line that is not of the agent's
    /// conversation.
    pub(crate) row: fn(&str) -> Option<Row<'_>>,
    /// Reads a line that tells how much of the model's context the agent's conversation takes.
    pub(crate) context: Option<fn(&str) -> Option<ContextUse>>,
    /// The lines of an example: a prompt and its reply, with TEXT for the text of both.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) turn: &'static str,
}

impl Format {
    /// Returns how much of the model's context the agent's conversation takes, as the last of these
    /// lines of its transcript that tells so. The first line may be a part of one.
    #[must_use]
    pub fn context_in(&self, lines: &str) -> Option<ContextUse> {
        lines.lines().rev().find_map(self.context?)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Format {
    /// Returns the lines of a turn in which both the prompt and the reply are this text.
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

/// The folder in which a CLI keeps its files.
pub struct Home {
    /// The folder's name in the user's home directory.
    pub folder: &'static str,
    /// The environment variable that names another place for the folder.
    pub variable: &'static str,
    /// Whether the variable names the folder's parent, and not the folder itself.
    pub variable_names_parent: bool,
}

/// The way in which the transcripts of one process are found.
pub enum Location {
    /// By a file that the CLI writes for each of its processes, which names the process's session.
    /// The transcripts themselves do not tell the process.
    ByProcess,
    /// By first lines: all growing transcripts are read, and the first line of each tells which
    /// agent leads the conversation.
    ByFirstLine {
        /// Reads the first line of a transcript, for an agent that is at work in this directory.
        leader: fn(&str, &Path) -> Leader,
        /// Whether a process keeps its transcript open. If so, and if the system lists open files,
        /// the process's transcripts are found among its open files.
        is_kept_open: bool,
        /// The CLI's list of projects, by which a transcript without a first line is recognised.
        project_list: Option<ProjectList>,
    },
}

/// The session that a process leads, as Claude Code writes it into a file of each process.
pub struct ProcessSession {
    /// The file name of the session's transcript.
    pub file_name: String,
    /// The time at which the process started, in milliseconds since 1970.
    pub started_ms: u64,
}

impl ProcessSession {
    /// Returns the file's path below the home, for a process id.
    #[must_use]
    pub fn path(pid: u32) -> String {
        format!("sessions/{pid}.json")
    }

    /// Reads the file, which has the id of the session, which is also the transcript's name, and
    /// the start of the process.
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

/// The leader of the conversation in a transcript, by its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leader {
    /// A subagent, which was started by an agent. A subagent's replies are not the agent's.
    Subagent,
    /// An agent at work in the directory in question.
    Here,
    /// An agent at work elsewhere.
    Elsewhere,
    /// An agent at work in this directory. The directory may be the one in question by another
    /// path.
    In(PathBuf),
    /// Unknown, because the file has lost its first line. The project list tells the directory.
    Unknown,
}

/// The file in which a CLI lists the folders of its projects.
pub struct ProjectList {
    /// The file's path below the home.
    pub path: &'static str,
    /// Reads the file's bytes. Returns the name of the folder that belongs to a directory.
    pub folder: fn(&[u8], &Path) -> Option<String>,
}
