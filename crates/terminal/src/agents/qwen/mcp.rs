//! Gives Qwen Code an MCP server: in the [defaults] of this run, since Qwen Code combines the
//! servers of all its settings files.

use super::defaults;
use crate::{
    handover::{McpServer, SERVER, TOOL_TIMEOUT_S},
    hooks::{Armed, Unarmed},
};
use serde_json::json;

pub(super) fn give(server: &McpServer<'_>, armed: &mut Armed) -> Result<(), Unarmed> {
    let mut settings = match defaults::take(armed) {
        Some(settings) => settings?,
        None => defaults::of_user(server.env, server.read)?,
    };
    let (program, arguments) = server.command.split_first().expect("a command has a program");
    let entry = json!({
        "command": program, "args": arguments, "env": server.json_variables(), "timeout": TOOL_TIMEOUT_S * 1000,
        // Otherwise the model has to search for the tools.
        "alwaysLoadTools": true,
    });
    defaults::object(&mut settings, "mcpServers")?.insert(SERVER.to_owned(), entry);
    defaults::put(&settings, server.directory, armed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Gives a server to a run that has these hook files and these user defaults.
    fn given(files: &[(&'static str, &str)], user: &str) -> Result<(Armed, Value), Unarmed> {
        let server = McpServer {
            command: &["/a b/relay".to_owned(), "mcp".to_owned()],
            variables: &[("AGENT_RELAY_AGENT", "Ann".to_owned())],
            directory: "run",
            env: &|_| None,
            read: &|_| Ok(Some(user.to_owned())),
        };
        let files = files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        let mut armed = Armed { files, ..Armed::default() };
        give(&server, &mut armed)?;
        let settings = serde_json::from_str(&armed.files.last().unwrap().1).unwrap();
        Ok((armed, settings))
    }

    #[test]
    fn server_is_added_to_the_defaults_of_the_user() {
        let (armed, settings) = given(&[], r#"{"mcpServers":{"own":{"command":"x"}}}"#).unwrap();
        assert_eq!(armed.env.len(), 1);
        assert_eq!(settings["mcpServers"]["own"], json!({"command": "x"}));
        assert_eq!(
            settings["mcpServers"]["agent-relay"],
            json!({
                "command": "/a b/relay", "args": ["mcp"], "env": {"AGENT_RELAY_AGENT": "Ann"},
                "timeout": 3_700_000, "alwaysLoadTools": true,
            })
        );
        assert_eq!(given(&[], r#"{"mcpServers":[]}"#), Err(Unarmed::Defaults));
    }

    #[test]
    fn server_and_hooks_share_a_file() {
        let files = [("system-defaults.json", r#"{"hooks":{"Stop":[1]}}"#), ("other", "")];
        let (armed, settings) = given(&files, "{}").unwrap();
        let names: Vec<_> = armed.files.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["other", "system-defaults.json"]);
        assert_eq!(settings["hooks"]["Stop"], json!([1]));
        assert!(settings["mcpServers"]["agent-relay"].is_object());
    }
}
