//! Gives Codex an MCP server, by `-c mcp_servers.…`. Codex passes few of its environment variables
//! to its servers.

use crate::{
    handover::{McpServer, SERVER, TOOL_TIMEOUT_S},
    hooks::{Armed, Unarmed},
};
use toml::Value;

pub(super) fn give(server: &McpServer<'_>, armed: &mut Armed) -> Result<(), Unarmed> {
    let (program, arguments) = server.command.split_first().expect("a command has a program");
    let arguments: Vec<_> = arguments.iter().map(|word| text(word)).collect();
    let variables: Vec<_> =
        server.variables.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    let entry = format!(
        "mcp_servers.{SERVER}={{command={},args=[{}],env={{{}}},tool_timeout_sec={TOOL_TIMEOUT_S}}}",
        text(program),
        arguments.join(","),
        variables.join(",")
    );
    armed.arguments.splice(0..0, ["-c".to_owned(), entry]);
    Ok(())
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_an_argument() {
        let server = McpServer {
            command: &["/a \"b\"/relay".to_owned(), "mcp".to_owned()],
            variables: &[("AGENT_RELAY_AGENT", "Ann".to_owned())],
            directory: "run",
            env: &|_| None,
            read: &|_| Ok(None),
        };
        let mut armed = Armed { arguments: vec!["resume".to_owned()], ..Armed::default() };
        give(&server, &mut armed).unwrap();
        let [option, entry, resume] = &armed.arguments[..] else { panic!("{armed:?}") };
        assert_eq!([option, resume], ["-c", "resume"]);
        let entry: toml::Table = toml::from_str(entry).unwrap();
        let server = &entry["mcp_servers"]["agent-relay"];
        assert_eq!(server["command"].as_str(), Some("/a \"b\"/relay"));
        assert_eq!(server["args"].as_array().unwrap(), &[Value::from("mcp")]);
        assert_eq!(server["env"]["AGENT_RELAY_AGENT"].as_str(), Some("Ann"));
        assert!(!entry.contains_key("hooks") && armed.files.is_empty());
    }
}
