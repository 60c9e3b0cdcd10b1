//! opencode's hooks. A plugin for this run calls them. The configuration in a variable names the
//! plugin, and includes the user's own value.

use super::configuration::{Configuration, VARIABLE};
use crate::{
    hooks::{Armed, Arming, Hooks, Printed, Unarmed, check_options, refuse, subcommand},
    words::Words,
};
use protocol::hook::Point;
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};
use std::path::Path;

pub(super) const HOOKS: Hooks = Hooks {
    since_version: "1.18",
    events: &[
        ("start", Point::SessionBegan),
        ("chat.message", Point::PromptSubmitted),
        ("tool.execute.after", Point::ToolEnded),
        ("permission.asked", Point::PermissionAsked),
        ("permission.replied", Point::ToolStarts),
        ("question.asked", Point::PersonAsked),
        ("question.replied", Point::ToolStarts),
        ("session.idle", Point::TurnEnded),
        ("wait", Point::Waits),
    ],
    user_settings: |_| None,
    arm,
    print: |_, text| Printed::out(text.to_owned()),
    begins: None,
    prompt_queue: None,
    extension: None,
};

/// The configuration's member that lists plugins.
const PLUGINS: &str = "plugin";

const FILE: &str = "plugin.js";
const PLUGIN: &str = include_str!("plugin.js");

/// Subcommands. They begin no conversation in this terminal.
const SUBCOMMANDS: Words = Words(
    "acp agent attach auth completion db debug export github import mcp models plug plugin pr \
     providers run serve session stats uninstall upgrade web",
);

/// Options that take a value as their next argument.
pub(super) const WITH_VALUE: Words = Words(
    "--agent --cors --hostname --log-level --mdns-domain --model --port --prompt --replay-limit \
     --session -m -s",
);

fn arm(arming: &Arming<'_>) -> Result<Armed, Unarmed> {
    check_options(arming.arguments, Words("--pure"), |_| false)?;
    refuse(subcommand(arming.arguments, SUBCOMMANDS, WITH_VALUE))?;
    let value = with_plugin((arming.env)(VARIABLE).as_deref(), arming.directory)?;
    let commands = HOOKS.events.iter().map(|(event, _)| {
        let command = (arming.command)(event);
        ((*event).to_owned(), command.into())
    });
    let commands = Value::Object(commands.collect::<Map<_, _>>());
    Ok(Armed {
        arguments: arming.arguments.to_owned(),
        files: vec![(FILE, format!("const COMMANDS = {commands}\n{PLUGIN}"))],
        env: vec![(VARIABLE, value)],
    })
}

/// Returns the user's configuration with the plugin in this directory added.
fn with_plugin(user: Option<&str>, directory: &Path) -> Result<String, Unarmed> {
    let mut configuration = Configuration::parse(user)?;
    let directory = file_url(directory.to_str().ok_or(Unarmed::NotText)?);
    let ours = to_raw_value(&format!("{directory}/{FILE}")).expect("a text is JSON");
    let mut plugins: Vec<Box<RawValue>> = configuration.take(PLUGINS)?.unwrap_or_default();
    plugins.push(ours);
    configuration.add(PLUGINS, &plugins);
    configuration.value()
}

/// Returns the file URL of a path. URLs have slashes on every system.
fn file_url(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let encoded = path.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    format!("file://{}", encoded.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(arguments: &[&str], user: Option<&str>) -> Result<Armed, Unarmed> {
        let arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
        arm(&Arming {
            command: &|event| vec!["/a \"b\"/relay".into(), event.into()],
            env: &|name| user.filter(|_| name == VARIABLE).map(str::to_owned),
            ..Arming::of(&arguments, "/run/Ann 1{x}")
        })
    }

    const OURS: &str = "file:///run/Ann%201%7Bx%7D/plugin.js";

    #[test]
    fn plugin_knows_the_command_of_each_event() {
        let Armed { arguments, files, env } = armed(&["--continue"], None).unwrap();
        assert_eq!(arguments, ["--continue"]);
        assert_eq!(env, [(VARIABLE, format!(r#"{{"plugin":["{OURS}"]}}"#))]);
        let (name, text) = &files[0];
        assert_eq!(*name, "plugin.js");
        let commands = text.lines().next().unwrap().strip_prefix("const COMMANDS = ").unwrap();
        let commands: Value = serde_json::from_str(commands).unwrap();
        for (event, _) in HOOKS.events {
            assert_eq!(commands[*event][1], *event);
        }
    }

    #[test]
    fn users_configuration_is_kept_as_written() {
        let value = |user| armed(&[], Some(user)).unwrap().env[0].1.clone();
        let user = r#"{
            // The last rule that matches wins.
            "permission": {"bash": {"git *": "allow", "*": "ask"}},
            "plugin": [["x", {"b": 1, "a": 2}], "file:///y.js"], /* these */
        }"#;
        let permission = r#""permission":{"bash": {"git *": "allow", "*": "ask"}}"#;
        let plugins = r#"["x", {"b": 1, "a": 2}],"file:///y.js""#;
        assert_eq!(value(user), format!(r#"{{{permission},"plugin":[{plugins},"{OURS}"]}}"#));
        assert_eq!(value(""), format!(r#"{{"plugin":["{OURS}"]}}"#));
    }

    #[test]
    fn configuration_that_cannot_be_merged_is_not_replaced() {
        let long = format!(r#"{{"model":"{}"}}"#, "m".repeat(32_000));
        for user in ["{", "[]", "7", r#"{"plugin":"x"}"#, r#"{"a":{env:A}}"#, "{} {}", &long] {
            assert_eq!(armed(&[], Some(user)), Err(Unarmed::Configuration), "{user}");
        }
    }

    #[test]
    fn run_without_a_conversation_or_plugins_is_not_armed() {
        assert_eq!(armed(&["run", "hello"], None), Err(Unarmed::NotInteractive("run".into())));
        assert_eq!(
            armed(&["--log-level", "INFO", "serve"], None).unwrap_err().to_string(),
            "`serve` starts no conversation"
        );
        assert_eq!(armed(&["--pure"], None), Err(Unarmed::Disabled("--pure".into())));
        assert!(armed(&["my/project", "--prompt", "run"], None).is_ok());
    }
}
