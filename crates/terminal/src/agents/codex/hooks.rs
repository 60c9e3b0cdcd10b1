//! Codex's hooks. They are given as `-c hooks.EVENT=…`, each with the hash by which Codex trusts
//! exactly this command.

use crate::hooks::{Armed, Arming, Begins, Hooks, Printed, Unarmed, shell_line, subcommand};
use protocol::{hook::Point, secret::hash_text};
use serde_json::json;
use sha2::{Digest, Sha256};

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

/// The time after which Codex ends a hook, in seconds. It is the default, and a part of the hash.
const TIMEOUT_S: u64 = 600;

/// Subcommands that are no conversations in this terminal.
const SUBCOMMANDS: &[&str] = &[
    "a",
    "app",
    "app-server",
    "apply",
    "archive",
    "cloud",
    "completion",
    "daemon",
    "debug",
    "doctor",
    "e",
    "exec",
    "exec-server",
    "features",
    "help",
    "login",
    "logout",
    "mcp",
    "mcp-server",
    "plugin",
    "queue",
    "remote-control",
    "review",
    "sandbox",
    "unarchive",
    "update",
];

/// Options that take a value as their next argument.
const WITH_VALUE: &[&str] = &[
    "--add-dir",
    "--ask-for-approval",
    "--cd",
    "--config",
    "--disable",
    "--enable",
    "--image",
    "--local-provider",
    "--model",
    "--profile",
    "--remote",
    "--sandbox",
    "-C",
    "-a",
    "-c",
    "-i",
    "-m",
    "-p",
    "-s",
];

fn arm(arming: &Arming<'_>) -> Result<Armed, Unarmed> {
    if arming.is_windows {
        return Err(Unarmed::System);
    }
    if let Some(word) = subcommand(arming.arguments, SUBCOMMANDS, WITH_VALUE) {
        return Err(Unarmed::NotInteractive(word.to_owned()));
    }
    if arming.arguments.iter().any(|word| sets_hooks(word)) {
        return Err(Unarmed::OwnHooks);
    }
    let (mut arguments, mut trust) = (Vec::new(), Vec::new());
    for (event, _) in HOOKS.events {
        let command = shell_line(&(arming.command)(event));
        let text = toml::Value::from(command.as_str());
        let hook = format!("hooks.{event}=[{{hooks=[{{type=\"command\",command={text}}}]}}]");
        arguments.extend(["-c".to_owned(), hook]);
        let event = snake_case(event);
        let hash = hash(&event, &command);
        trust.push(format!(
            "\"/<session-flags>/config.toml:{event}:0:0\"={{trusted_hash=\"{hash}\"}}"
        ));
    }
    arguments.extend(["-c".to_owned(), format!("hooks.state={{{}}}", trust.join(","))]);
    arguments.extend(arming.arguments.iter().cloned());
    Ok(Armed { arguments, ..Armed::default() })
}

/// Whether a word is a value of `--config`, or the whole option, that sets hooks. It would replace
/// ours.
fn sets_hooks(word: &str) -> bool {
    let values = [Some(word), word.strip_prefix("--config="), word.strip_prefix("-c")];
    values.into_iter().flatten().any(|value| {
        let key = value.trim_start_matches('=').trim_start().strip_prefix("hooks");
        key.is_some_and(|rest| rest.trim_start().starts_with(['.', '=']))
    })
}

/// Returns the hash by which Codex knows a hook: the SHA-256 of its definition as JSON, with sorted
/// members.
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

    #[test]
    fn each_hook_comes_with_its_hash() {
        let Armed { arguments, .. } = armed(&["resume", "--last"]).unwrap();
        assert_eq!(arguments[arguments.len() - 2..], ["resume", "--last"]);
        let command = r"'/a b/it'\''s' 'PostToolUse'";
        let hook = arguments.iter().find_map(|word| word.strip_prefix("hooks.PostToolUse="));
        let hook: toml::Table = toml::from_str(&format!("x={}", hook.unwrap())).unwrap();
        assert_eq!(hook["x"][0]["hooks"][0]["command"].as_str(), Some(command));
        let state = &arguments[2 * HOOKS.events.len() + 1];
        let hash = hash("post_tool_use", command);
        let trust = format!("config.toml:post_tool_use:0:0\"={{trusted_hash=\"{hash}\"}}");
        assert!(hash.starts_with("sha256:"), "{hash}");
        assert!(state.contains(&trust), "{state}");
    }

    #[test]
    fn subcommands_are_not_armed() {
        assert_eq!(armed(&["--search", "exec", "x"]), Err(Unarmed::NotInteractive("exec".into())));
        assert!(armed(&["-m", "exec"]).is_ok());
        assert!(armed(&["--", "exec"]).is_ok());
        assert!(armed(&["fork"]).is_ok());
    }

    #[test]
    fn own_hooks_of_the_arguments_stay_alone() {
        for word in ["hooks.Stop=[]", "hooks = {}", "--config=hooks.state={}", "-chooks.Stop=[]"] {
            assert_eq!(armed(&["-c", word]), Err(Unarmed::OwnHooks), "{word}");
        }
        assert!(armed(&["-c", "hooksy=1", "hooks are fine"]).is_ok());
    }
}
