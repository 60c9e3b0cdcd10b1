//! Handing our MCP server over to an agent CLI for one run, without a change to a file of its
//! user's.

use super::hooks::{Armed, ReadFile, Unarmed};
use serde_json::{Map, Value};

/// The name under which a CLI knows the server.
pub(crate) const SERVER: &str = "agent-relay";

/// The longest time that a CLI has to wait for the result of a tool, in seconds: an agent may be
/// asked for an hour.
pub(super) const TOOL_TIMEOUT_S: u64 = 3700;

/// A function that adds what makes a CLI start the server to a command line: to the arguments,
/// which come before the CLI's own, and to the files and variables, which may have those of hooks.
pub type GiveServer = fn(&McpServer<'_>, &mut Armed) -> Result<(), Unarmed>;

/// The server that a CLI is to start.
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
