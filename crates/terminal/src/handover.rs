//! Gives our MCP server to an agent CLI for one run, without changing a file of the user's.

use super::hooks::{Armed, ReadFile, Unarmed};
use serde_json::{Map, Value};

/// The CLI's name for the server.
pub(crate) const SERVER: &str = "agent-relay";

/// How long a CLI must wait at most for a tool's result, in seconds: an agent may have an hour to
/// answer a question.
pub(super) const TOOL_TIMEOUT_S: u64 = 3700;

/// A function that makes a command line start the server. It adds arguments before the CLI's own,
/// and files and variables, which may be shared with the hooks.
pub type GiveServer = fn(&McpServer<'_>, &mut Armed) -> Result<(), Unarmed>;

/// The server that the CLI should start.
pub struct McpServer<'a> {
    /// The program and its arguments.
    pub command: &'a [String],
    /// The variables that the server needs. Some CLIs pass on no others.
    pub variables: &'a [(&'static str, String)],
    /// The directory for the files of this run.
    pub directory: &'a str,
    /// Returns the value of a variable that the CLI would get.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file of settings.
    pub read: ReadFile<'a>,
}

impl McpServer<'_> {
    /// The variables as the members of a JSON object.
    pub(super) fn json_variables(&self) -> Map<String, Value> {
        let member = |(name, value): &(&str, String)| ((*name).to_owned(), value.as_str().into());
        self.variables.iter().map(member).collect()
    }
}
