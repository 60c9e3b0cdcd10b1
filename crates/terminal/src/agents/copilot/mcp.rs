//! Gives GitHub Copilot CLI an MCP server: in a file for this run, named by
//! `--additional-mcp-config`. Copilot adds the servers of each such option to those in its
//! settings.

use crate::{
    handover::{McpServer, SERVER, TOOL_TIMEOUT_S},
    hooks::{Armed, Unarmed},
};
use serde_json::json;
use std::path::Path;

const FILE: &str = "mcp.json";

pub(super) fn give(server: &McpServer<'_>, armed: &mut Armed) -> Result<(), Unarmed> {
    let (program, arguments) = server.command.split_first().expect("a command has a program");
    let entry = json!({
        "type": "local", "command": program, "args": arguments, "env": server.json_variables(),
        "tools": ["*"], "timeout": TOOL_TIMEOUT_S * 1000,
        // Otherwise the model has to search for the tools.
        "deferTools": "never",
    });
    armed.files.push((FILE, json!({"mcpServers": {SERVER: entry}}).to_string()));
    let file = Path::new(server.directory).join(FILE);
    let option = ["--additional-mcp-config".to_owned(), format!("@{}", file.display())];
    armed.arguments.splice(0..0, option);
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
        let arguments = ["--additional-mcp-config", "@mine.json"].map(str::to_owned).to_vec();
        let mut armed = Armed { arguments, ..Armed::default() };
        give(&server, &mut armed).unwrap();
        let ours = format!("@{}", Path::new("run").join("mcp.json").display());
        let option = "--additional-mcp-config";
        assert_eq!(armed.arguments, [option, ours.as_str(), option, "@mine.json"]);
        let text: Value = serde_json::from_str(&armed.files[0].1).unwrap();
        assert_eq!(
            text["mcpServers"]["agent-relay"],
            json!({
                "type": "local", "command": "/a b/relay", "args": ["mcp"],
                "env": {"AGENT_RELAY_AGENT": "Ann"}, "tools": ["*"], "timeout": 3_700_000,
                "deferTools": "never",
            })
        );
    }
}
