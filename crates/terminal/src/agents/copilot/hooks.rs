//! GitHub Copilot CLI's hooks. They are a plugin for this run (`--plugin-dir`), in addition to the
//! user's own plugins and hooks.

use crate::{
    hooks::{
        Armed, Arming, Begins, Hooks, Printed, Unarmed, free_word, has_switch, options, refuse,
        shell_line,
    },
    words::Words,
};
use protocol::hook::Point;
use serde_json::{Map, Value, json};

pub(super) const HOOKS: Hooks = Hooks {
    since_version: "1.0.102",
    events: &[
        ("SessionStart", Point::SessionBegan),
        ("PreCompact", Point::SessionCompacts),
        ("UserPromptSubmit", Point::PromptSubmitted),
        ("PostToolUse", Point::ToolEnded),
        ("PostToolUseFailure", Point::ToolEnded),
        ("permission_prompt", Point::PermissionAsked),
        ("elicitation_dialog", Point::PersonAsked),
        ("Stop", Point::TurnEnded),
    ],
    user_settings: |_| None,
    arm,
    print: |_, text| Printed::out(json!({ "additionalContext": text }).to_string()),
    begins: Some(Begins::WithPrompt),
    prompt_queue: None,
    extension: None,
};

/// Events that Copilot reports as kinds of its event `Notification`. Its event `PermissionRequest`
/// also comes for a tool that runs without a question.
const NOTIFICATIONS: [&str; 2] = ["permission_prompt", "elicitation_dialog"];

/// Options that take a value as their next argument.
pub(super) const WITH_VALUE: Words = Words(
    "--add-dir --add-github-mcp-tool --add-github-mcp-toolset --additional-mcp-config --agent \
     --attachment --auto-tier --bash-env --config-dir --connect --context --disable-mcp-server \
     --dynamic-retrieval --enable-mcp-server --extension-sdk-path --interactive --log-dir \
     --log-level --max-ai-credits --max-autopilot-continues --mcp-github-auth --mode --model \
     --mouse --name --output-format --plugin-dir --reasoning-effort --resume --session-id --share \
     --stream --usage-output-file -C -i -n -r",
);

/// The options of [`WITH_VALUE`] that may also come without a value, directly before another
/// option.
const WITH_OPTIONAL_VALUE: Words = Words("--bash-env --connect --mouse --resume --share -r");

/// Options that take all words up to the next option as their values.
pub(super) const WITH_VALUES: Words = Words(
    "--allow-tool --allow-url --available-tools --deny-tool --deny-url --excluded-tools \
     --secret-env-vars",
);

fn arm(arming: &Arming<'_>) -> Result<Armed, Unarmed> {
    let takes_any =
        |option: &str| WITH_VALUE.contains(option) && !WITH_OPTIONAL_VALUE.contains(option);
    let not_interactive =
        options(arming.arguments, takes_any).find(|word| is_not_interactive(word));
    let subcommand = free_word(arming.arguments, WITH_VALUE, WITH_VALUES);
    refuse(not_interactive.or(subcommand))?;
    let directory = arming.directory.to_str().ok_or(Unarmed::NotText)?;
    let plugin = ["--plugin-dir", directory].map(str::to_owned);
    let manifest = json!({"name": "agent-relay-run", "version": "1.0.0", "hooks": "hooks.json"});
    Ok(Armed {
        arguments: plugin.into_iter().chain(arming.arguments.iter().cloned()).collect(),
        files: vec![("plugin.json", manifest.to_string()), ("hooks.json", hooks(arming))],
        ..Armed::default()
    })
}

/// Whether this option makes Copilot begin no conversation in this terminal.
fn is_not_interactive(word: &str) -> bool {
    let is_prompt = word.starts_with("-p") || has_switch(word, 'p');
    is_prompt
        || ["--prompt", "--acp"].contains(&word)
        || ["--prompt=", "--environment-"].iter().any(|start| word.starts_with(start))
}

/// Returns the file with the hooks.
fn hooks(arming: &Arming<'_>) -> String {
    let (mut hooks, mut notifications) = (Map::new(), Vec::new());
    for (event, _) in HOOKS.events {
        let line = shell_line(&(arming.command)(event));
        let mut hook = json!({"type": "command", "bash": line});
        if NOTIFICATIONS.contains(event) {
            hook["matcher"] = (*event).into();
            notifications.push(hook);
        } else {
            hooks.insert((*event).to_owned(), json!([hook]));
        }
    }
    hooks.insert("Notification".to_owned(), notifications.into());
    json!({"version": 1, "hooks": Value::Object(hooks)}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(arguments: &[&str]) -> Result<Armed, Unarmed> {
        let arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
        arm(&Arming::of(&arguments, "/run/Ann-1"))
    }

    #[test]
    fn plugin_has_the_command_of_each_event() {
        let Armed { arguments, files, env } = armed(&["--plugin-dir", "mine"]).unwrap();
        assert_eq!(arguments, ["--plugin-dir", "/run/Ann-1", "--plugin-dir", "mine"]);
        assert_eq!(env, []);
        let [(manifest, text), (name, hooks)] = &files[..] else { panic!("{files:?}") };
        let text: Value = serde_json::from_str(text).unwrap();
        assert_eq!((*manifest, text["hooks"].as_str()), ("plugin.json", Some(*name)));
        let hooks: Value = serde_json::from_str(hooks).unwrap();
        let line = |event: &str| format!(r"'/a b/it'\''s' '{event}'");
        assert_eq!(hooks["hooks"]["Stop"][0]["bash"], line("Stop"));
        let asked = &hooks["hooks"]["Notification"][1];
        assert_eq!(asked["matcher"], "elicitation_dialog");
        assert_eq!(asked["bash"], line("elicitation_dialog"));
        assert!(hooks["hooks"]["elicitation_dialog"].is_null());
    }

    #[test]
    fn run_without_a_conversation_is_not_armed() {
        for (arguments, word) in [
            (&["-p", "hello"][..], "-p"),
            (&["-sp", "hello"], "-sp"),
            (&["--prompt=hello"], "--prompt=hello"),
            (&["--acp"], "--acp"),
            (&["--resume", "-p", "hello"], "-p"),
            (&["--model", "m", "plugin", "list"], "plugin"),
            (&["--allow-tool", "a", "b", "--resume", "login", "mcp"], "mcp"),
        ] {
            assert_eq!(armed(arguments), Err(Unarmed::NotInteractive(word.into())), "{word}");
        }
        assert!(armed(&["-i", "plugin", "--allow-tool", "mcp", "login", "--resume"]).is_ok());
        assert!(armed(&["--plan", "--continue"]).is_ok());
        assert!(armed(&["-i", "-p is broken"]).is_ok(), "a value of an option is no option");
        assert!(armed(&["--allow-tool"]).is_ok(), "Copilot reports a missing value itself");
    }
}
