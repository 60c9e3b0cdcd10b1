//! Gives opencode an MCP server: in the configuration in its variable, which may also have the
//! user's own servers and the plugin with our hooks.

use super::configuration::{Configuration, VARIABLE};
use crate::{
    handover::{McpServer, SERVER, TOOL_TIMEOUT_S},
    hooks::{Armed, Unarmed},
};
use serde_json::json;

/// The configuration's member that lists servers.
const SERVERS: &str = "mcp";

pub(super) fn give(server: &McpServer<'_>, armed: &mut Armed) -> Result<(), Unarmed> {
    let entry = json!({
        "type": "local", "command": server.command, "environment": server.json_variables(),
        "timeout": TOOL_TIMEOUT_S * 1000,
    });
    let mut configuration = Configuration::parse((server.env)(VARIABLE).as_deref())?;
    let mut servers: Configuration = configuration.take(SERVERS)?.unwrap_or_default();
    servers.add(SERVER, &entry);
    configuration.add(SERVERS, &servers);
    armed.env.push((VARIABLE, configuration.value()?));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn given(user: Option<&str>) -> Result<String, Unarmed> {
        let server = McpServer {
            command: &["/a \"b\"/relay".to_owned(), "mcp".to_owned()],
            variables: &[("AGENT_RELAY_AGENT", "Ann".to_owned())],
            directory: "run",
            env: &|name| user.filter(|_| name == VARIABLE).map(str::to_owned),
            read: &|_| Ok(None),
        };
        let mut armed = Armed::default();
        give(&server, &mut armed)?;
        let [(VARIABLE, value)] = &armed.env[..] else { panic!("{armed:?}") };
        assert!(armed.arguments.is_empty() && armed.files.is_empty());
        Ok(value.clone())
    }

    #[test]
    fn server_is_added_to_the_users_servers() {
        let user = r#"{"plugin":["x"], "mcp": {"mine": {"enabled": false}}, "model": "m" /**/}"#;
        let ours = json!({
            "type": "local", "command": ["/a \"b\"/relay", "mcp"],
            "environment": {"AGENT_RELAY_AGENT": "Ann"}, "timeout": 3_700_000,
        });
        let of = |value: &str| serde_json::from_str::<Value>(value).unwrap();
        let both = json!({
            "plugin": ["x"], "model": "m",
            "mcp": {"mine": {"enabled": false}, "agent-relay": ours},
        });
        assert_eq!(of(&given(Some(user)).unwrap()), both);
        for none in [None, Some("")] {
            assert_eq!(of(&given(none).unwrap()), json!({"mcp": {"agent-relay": ours}}));
        }
    }

    #[test]
    fn configuration_that_cannot_be_merged_is_not_replaced() {
        for user in ["{", "[]", r#"{"mcp": ["mine"]}"#] {
            assert_eq!(given(Some(user)), Err(Unarmed::Configuration), "{user}");
        }
    }
}
