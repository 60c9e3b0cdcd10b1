//! Codex's hooks. They are given as `-c hooks.EVENT=…`. Each comes with a hash, and Codex trusts
//! exactly the command with this hash.

use crate::{
    hooks::{Armed, Arming, Begins, Hooks, Printed, Unarmed, refuse, shell_line, subcommand},
    words::Words,
};
use protocol::{hook::Point, secret::hash_text};
use serde_json::json;
use sha2::{Digest, Sha256};
use toml::{Table, Value};

pub(super) const HOOKS: Hooks = Hooks {
    since_version: "0.169",
    events: &[
        ("SessionStart", Point::SessionBegan),
        ("UserPromptSubmit", Point::PromptSubmitted),
        ("PostToolUse", Point::ToolEnded),
        ("PermissionRequest", Point::PermissionAsked),
        ("Stop", Point::TurnEnded),
    ],
    user_settings: |_| None,
    arm,
    print: Printed::context,
    begins: Some(Begins::WithPrompt),
    prompt_queue: Some(&["app-server"]),
    extension: None,
};

/// The timeout of a hook, in seconds. It is Codex's default, and a part of the hash.
const TIMEOUT_S: u64 = 600;

/// Subcommands. They begin no conversation in this terminal.
const SUBCOMMANDS: Words = Words(
    "a app app-server apply archive cloud completion daemon debug doctor e exec exec-server \
     features help login logout mcp mcp-server plugin queue remote-control review sandbox \
     unarchive update",
);

/// Options that take a value as their next argument.
pub(super) const WITH_VALUE: Words = Words(
    "--add-dir --ask-for-approval --cd --config --disable --enable --image --local-provider \
     --model --profile --remote --sandbox -C -a -c -i -m -p -s",
);

fn arm(arming: &Arming<'_>) -> Result<Armed, Unarmed> {
    refuse(subcommand(arming.arguments, SUBCOMMANDS, WITH_VALUE))?;
    let (mut hooks, rest) = take_hooks(arming.arguments).ok_or(Unarmed::OwnHooks)?;
    let mut state = table(hooks.remove("state")).ok_or(Unarmed::OwnHooks)?;
    for (event, _) in HOOKS.events {
        let command = shell_line(&(arming.command)(event));
        let list = hooks.entry(*event).or_insert_with(|| Value::Array(Vec::new()));
        let list = list.as_array_mut().ok_or(Unarmed::OwnHooks)?;
        let event = snake_case(event);
        let key = format!("/<session-flags>/config.toml:{event}:{}:0", list.len());
        state.insert(key, table_of([("trusted_hash", hash(&event, &command).into())]));
        let hook = table_of([("type", "command".into()), ("command", command.into())]);
        list.push(table_of([("hooks", Value::Array(vec![hook]))]));
    }
    hooks.insert("state".to_owned(), Value::Table(state));
    let set = |(key, value)| ["-c".to_owned(), format!("hooks.{key}={value}")];
    let mut arguments: Vec<_> = hooks.into_iter().flat_map(set).collect();
    arguments.extend(rest);
    Ok(Armed { arguments, ..Armed::default() })
}

fn table_of<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Table(members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
}

/// Returns a table, or an empty table if there is no value. `None` if the value is not a table.
fn table(value: Option<Value>) -> Option<Table> {
    match value {
        Some(Value::Table(table)) => Some(table),
        Some(_) => None,
        None => Some(Table::new()),
    }
}

/// Returns the hooks that the arguments set by `--config`, and the other arguments. `None` if Codex
/// would read these hooks differently than we do.
fn take_hooks(arguments: &[String]) -> Option<(Table, Vec<String>)> {
    let (mut hooks, mut rest) = (Table::new(), Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            rest.push(word.clone());
            rest.extend(words.cloned());
            break;
        }
        let is_option = word == "-c" || word == "--config";
        let value = if is_option { words.next() } else { None };
        let joined = word.strip_prefix("--config=").or_else(|| word.strip_prefix("-c"));
        let setting = value.map(String::as_str).or(joined).unwrap_or_default();
        if sets_hooks(setting) {
            let setting: Table = toml::from_str(setting.trim_start_matches('=')).ok()?;
            merge(&mut hooks, table(setting.get("hooks").cloned())?);
        } else {
            rest.push(word.clone());
            rest.extend(value.cloned());
        }
    }
    Some((hooks, rest))
}

/// Adds settings to earlier ones, as Codex does: a later value replaces an earlier one, and tables
/// are merged.
fn merge(earlier: &mut Table, later: Table) {
    for (key, value) in later {
        match (earlier.get_mut(&key), value) {
            (Some(Value::Table(earlier)), Value::Table(later)) => merge(earlier, later),
            (_, value) => drop(earlier.insert(key, value)),
        }
    }
}

/// Whether a value of `--config` sets hooks.
fn sets_hooks(setting: &str) -> bool {
    let key = setting.trim_start_matches('=').trim_start().strip_prefix("hooks");
    key.is_some_and(|rest| rest.trim_start().starts_with(['.', '=']))
}

/// Returns the hash that Codex identifies a hook by: the SHA-256 of its definition as JSON, with
/// sorted members.
fn hash(event: &str, command: &str) -> String {
    let hook = json!({"async": false, "command": command, "timeout": TIMEOUT_S, "type": "command"});
    let definition = json!({"event_name": event, "hooks": [hook]}).to_string();
    hash_text(&Sha256::digest(definition.as_bytes()).into())
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(arguments: &[&str]) -> Result<Armed, Unarmed> {
        let arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
        arm(&Arming::of(&arguments, "run"))
    }

    /// Returns the values of `-c hooks.KEY=…` among arguments.
    fn given(arguments: &[String]) -> Table {
        let mut hooks = Table::new();
        for word in arguments.iter().filter(|word| sets_hooks(word)) {
            let setting: Table = toml::from_str(word).unwrap();
            merge(&mut hooks, setting["hooks"].as_table().unwrap().clone());
        }
        hooks
    }

    const COMMAND: &str = r"'/a b/it'\''s' 'PostToolUse'";

    #[test]
    fn each_hook_comes_with_its_hash() {
        let Armed { arguments, .. } = armed(&["resume", "--last"]).unwrap();
        assert_eq!(arguments[arguments.len() - 2..], ["resume", "--last"]);
        let hooks = given(&arguments);
        assert_eq!(hooks["PostToolUse"][0]["hooks"][0]["command"].as_str(), Some(COMMAND));
        let hash = hash("post_tool_use", COMMAND);
        assert!(hash.starts_with("sha256:"), "{hash}");
        let trusted = &hooks["state"]["/<session-flags>/config.toml:post_tool_use:0:0"];
        assert_eq!(trusted["trusted_hash"].as_str(), Some(&*hash));
    }

    #[test]
    fn own_hooks_of_the_arguments_are_kept() {
        let own = r#"hooks.PostToolUse=[{hooks=[{type="command",command="mine"}]}]"#;
        let trust = r#"hooks.state={"a"={trusted_hash="b"}}"#;
        for words in [
            vec!["-c", own, "-c", trust, "-m", "x"],
            vec![&*format!("--config={own}"), &*format!("-c{trust}"), "-m", "x"],
            vec!["-c", "hooks={Stop=[], PostToolUse=[]}", "--config", own, "-c", trust, "-m", "x"],
        ] {
            let Armed { arguments, .. } = armed(&words).unwrap();
            assert_eq!(arguments[arguments.len() - 2..], ["-m", "x"], "{words:?}");
            let hooks = given(&arguments);
            let commands: Vec<_> = hooks["PostToolUse"].as_array().unwrap().iter().collect();
            assert_eq!(commands.len(), 2, "{hooks:?}");
            assert_eq!(commands[0]["hooks"][0]["command"].as_str(), Some("mine"));
            assert_eq!(commands[1]["hooks"][0]["command"].as_str(), Some(COMMAND));
            let state = &hooks["state"];
            assert_eq!(state["a"]["trusted_hash"].as_str(), Some("b"));
            let hash = hash("post_tool_use", COMMAND);
            let trusted = &state["/<session-flags>/config.toml:post_tool_use:1:0"];
            assert_eq!(trusted["trusted_hash"].as_str(), Some(&*hash));
        }
    }

    #[test]
    fn subcommands_are_not_armed() {
        assert_eq!(armed(&["--search", "exec", "x"]), Err(Unarmed::NotInteractive("exec".into())));
        assert!(armed(&["-m", "exec"]).is_ok());
        assert!(armed(&["--", "exec"]).is_ok());
        assert!(armed(&["fork"]).is_ok());
    }

    #[test]
    fn hooks_that_are_not_understood_are_left_as_they_are() {
        for word in ["hooks.Stop=yes", "hooks = 1", "hooks.state=[]", "hooks.Stop=\"x\""] {
            assert_eq!(armed(&["-c", word]), Err(Unarmed::OwnHooks), "{word}");
        }
        assert!(armed(&["-c", "hooksy=1", "hooks are fine", "--", "-c", "hooks=1"]).is_ok());
    }
}
