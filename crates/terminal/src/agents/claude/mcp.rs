//! Gives Claude Code an MCP server: in a file for this run, named by `--mcp-config`. Claude Code
//! adds the servers of each `--mcp-config` to those in its settings.

use crate::{
    handover::{McpServer, SERVER},
    hooks::{Armed, Unarmed},
};
use serde_json::json;
use std::path::Path;

const FILE: &str = "mcp.json";

pub(super) fn give(server: &McpServer<'_>, armed: &mut Armed) -> Result<(), Unarmed> {
    let (program, arguments) = server.command.split_first().expect("a command has a program");
    let server_entry = json!({"type": "stdio", "command": program, "args": arguments, "env": server.json_variables()});
    armed.files.push((FILE, json!({"mcpServers": {SERVER: server_entry}}).to_string()));
    let file = Path::new(server.directory).join(FILE);
    // One word: after a separate `--mcp-config`, the following words would count as further files.
    armed.arguments.insert(0, format!("--mcp-config={}", file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn server_is_in_a_file_of_the_run() {
        let server = McpServer {
            command: &["/a b/relay".to_owned(), "mcp".to_owned()],
            variables: &[("AGENT_RELAY_AGENT", "Ann".to_owned())],
            directory: "run",
            env: &|_| None,
            read: &|_| Ok(None),
        };
        let arguments = vec!["--mcp-config".to_owned(), "mine.json".to_owned()];
        let mut armed = Armed { arguments, ..Armed::default() };
        give(&server, &mut armed).unwrap();
        let file = Path::new("run").join("mcp.json");
        let ours = format!("--mcp-config={}", file.display());
        assert_eq!(armed.arguments, [ours.as_str(), "--mcp-config", "mine.json"]);
        let text: Value = serde_json::from_str(&armed.files[0].1).unwrap();
        assert_eq!(
            text["mcpServers"]["agent-relay"],
            json!({
                "type": "stdio", "command": "/a b/relay", "args": ["mcp"],
                "env": {"AGENT_RELAY_AGENT": "Ann"},
            })
        );
    }
}
