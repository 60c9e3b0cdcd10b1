//! The description of one agent CLI's transcripts: how they are parsed, and where they are.

use super::Parser;
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
    /// The folders below the home that hold transcripts: `/` separates, `*` is any one folder.
    pub folders: &'static str,
    /// How the transcripts of one process are found among the CLI's transcripts.
    pub location: Location,
    /// Makes a parser for one file.
    pub parser: fn() -> Box<dyn Parser>,
    /// An example for tests: the lines of a prompt and its reply, with TEXT as their text.
    pub turn: &'static str,
}

impl Format {
    /// The lines of a turn in which the prompt and the reply are this text.
    #[must_use]
    pub fn turn_of(&self, text: &str) -> String {
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
    /// The environment variable that moves the directory.
    pub variable: &'static str,
    /// Whether the variable names the folder's parent, and not the folder itself.
    pub variable_names_parent: bool,
}

/// How the transcripts of one process are found.
pub enum Location {
    /// The CLI writes a file for each of its processes that names the session. Nothing else tells.
    ByProcess(ProcessFile),
    /// All growing transcripts are read; the first line of each names the process that leads the
    /// conversation.
    ByFirstLine {
        /// Reads a first line, for an agent at work in this directory.
        leader: fn(&str, &Path) -> Leader,
        /// Whether a process keeps its transcript open: where the system lists open files, these
        /// are the transcripts of the process.
        is_kept_open: bool,
        /// The list that names the folder of a transcript without a first line.
        project_list: Option<ProjectList>,
    },
}

/// A file that a CLI writes for each of its processes.
pub struct ProcessFile {
    /// The file's path below the home, for a process id.
    pub path: fn(u32) -> String,
    /// Reads the file.
    pub session: fn(&[u8]) -> Option<Session>,
}

/// The session that a process leads.
pub struct Session {
    /// The name of its transcript.
    pub file_name: String,
    /// When the process started, in milliseconds since 1970.
    pub started_ms: u64,
}

/// The leader of the conversation in a transcript, by its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leader {
    /// A subagent, which an agent started itself: its replies are not the agent's.
    Subagent,
    /// An agent at work in the directory in question.
    Here,
    /// An agent at work elsewhere.
    Elsewhere,
    /// An agent at work in this directory, which may be another path of the one in question.
    In(PathBuf),
    /// Unknown: the file has lost its first line, and the project list tells.
    Unknown,
}

/// The file in which a CLI lists the folders of its projects.
pub struct ProjectList {
    /// The file's path below the home.
    pub path: &'static str,
    /// Reads the file: the name of a directory's folder.
    pub folder: fn(&[u8], &Path) -> Option<String>,
}
