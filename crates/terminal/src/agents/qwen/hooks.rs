//! Qwen Code's hooks. They are in the [defaults] of this run, since Qwen Code combines the hooks of
//! all its settings files.
//!
//! `--input-file` cannot be used to wake Qwen Code: in shell mode, the text would run as a command.

use super::defaults;
use crate::{
    hooks::{
        Armed, Arming, Hooks, Printed, Unarmed, check_options, free_word, has_switch, refuse,
        shell_line,
    },
    words::Words,
};
use protocol::hook::Point;
use serde_json::{Map, Value, json};

pub(super) const HOOKS: Hooks = Hooks {
    since_version: "0.24.4",
    events: &[
        ("SessionStart", Point::SessionBegan),
        ("UserPromptSubmit", Point::PromptSubmitted),
        (PERMISSION, Point::PermissionAsked),
        (QUESTION, Point::PersonAsked),
        ("PostToolUse", Point::ToolEnded),
        ("PostToolUseFailure", Point::ToolEnded),
        ("Stop", Point::TurnEnded),
        ("StopFailure", Point::TurnEnded),
    ],
    user_settings: |_| None,
    arm,
    print: Printed::context,
    // In the context that a hook adds at the start, `<` becomes `&lt;`, which breaks the brief's
    // marks.
    begins: None,
    prompt_queue: None,
    extension: None,
};

const PERMISSION: &str = "PermissionRequest";

/// Our name for the request for permission to use the tool that asks the person a question.
const QUESTION: &str = "Question";

/// The variable that Qwen Code sets for the commands of its agent.
pub(super) const COMMAND_VARIABLE: &str = "QWEN_CODE";

/// Options that take one value, and options that take all words up to the next option.
pub(super) const WITH_VALUE: Words = Words(
    "--append-system-prompt --approval-mode --auth-type --channel --input-file --json-fd \
     --json-file --max-session-turns --max-subagent-depth --max-tool-calls --max-wall-time \
     --mcp-config --model --openai-api-key --openai-base-url --openai-logging-dir --output-format \
     --output-style --prompt-interactive --proxy --resume --sandbox-image --session-id \
     --system-prompt --telemetry-otlp-endpoint --telemetry-otlp-protocol --telemetry-outfile \
     --telemetry-target --worktree -i -m -o -r",
);
pub(super) const WITH_VALUES: Words = Words(
    "--add-dir --allowed-mcp-server-names --allowed-tools --core-tools --disabled-slash-commands \
     --exclude-tools --extensions --fallback-model --include-directories -e",
);

fn arm(arming: &Arming<'_>) -> Result<Armed, Unarmed> {
    check_options(arming.arguments, Words("--bare --safe-mode"), |word| {
        matches!(word, "--acp" | "--prompt")
            || word.starts_with("--prompt=")
            || has_switch(word, 'p')
    })?;
    // A free word is a subcommand or a prompt. After answering such a prompt, Qwen Code ends.
    refuse(free_word(arming.arguments, WITH_VALUE, WITH_VALUES))?;
    let mut settings = defaults::of_user(arming.env, arming.read)?;
    add_hooks(&mut settings, arming)?;
    // Unless the settings ask for it, Qwen Code must not suggest prompts in its empty composer
    // after a turn: they look like typed text.
    let ui = defaults::object(&mut settings, "ui")?;
    ui.entry("enableFollowupSuggestions").or_insert(false.into());
    let directory = arming.directory.to_str().ok_or(Unarmed::NotText)?;
    let mut armed = Armed { arguments: arming.arguments.to_vec(), ..Armed::default() };
    defaults::put(&settings, directory, &mut armed);
    // An agent of another Qwen Code may have started this one.
    armed.env.push((COMMAND_VARIABLE, String::new()));
    Ok(armed)
}

/// Adds our hooks after those in the settings.
fn add_hooks(settings: &mut Map<String, Value>, arming: &Arming<'_>) -> Result<(), Unarmed> {
    let hooks = defaults::object(settings, "hooks")?;
    for (name, _) in HOOKS.events {
        let line = shell_line(&(arming.command)(name));
        // The agent may run another Qwen Code as a command, and that one reads these hooks, too.
        let line = format!("test -n \"${COMMAND_VARIABLE}\" || exec {line}");
        let mut group = json!({"hooks": [{"type": "command", "command": line}]});
        let event = if *name == QUESTION { PERMISSION } else { name };
        if event == PERMISSION {
            let is_question = if *name == QUESTION { "?=" } else { "?!" };
            group["matcher"] = format!("^({is_question}ask_user_question$)").into();
        }
        let groups = hooks.entry(event).or_insert_with(|| json!([]));
        groups.as_array_mut().ok_or(Unarmed::Defaults)?.push(group);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Arms a run with these variables and these existing files.
    fn armed(
        arguments: &[&str],
        variables: &[(&str, &str)],
        files: &[(&str, &str)],
    ) -> Result<Armed, Unarmed> {
        let arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let find = |list: &[(&str, &str)], name: &str| {
            list.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        arm(&Arming {
            command: &|event| vec!["/a b/relay".into(), event.into()],
            env: &|name| find(variables, name),
            read: &|path| Ok(find(files, path)),
            ..Arming::of(&arguments, "run")
        })
    }

    fn settings(armed: &Armed) -> Value {
        serde_json::from_str(&armed.files[0].1).unwrap()
    }

    #[test]
    fn hooks_are_in_a_file_that_a_variable_names() {
        let armed = armed(&["--model", "m", "-i", "Begin."], &[], &[]).unwrap();
        assert_eq!(armed.arguments, ["--model", "m", "-i", "Begin."]);
        let path = Path::new("run").join("system-defaults.json").to_str().unwrap().to_owned();
        let variables = [("QWEN_CODE_SYSTEM_DEFAULTS_PATH", path), ("QWEN_CODE", String::new())];
        assert_eq!(armed.env, variables);
        let settings = settings(&armed);
        assert_eq!(
            (&settings["$version"], &settings["ui"]["enableFollowupSuggestions"]),
            (&json!(4), &json!(false))
        );
        let command = "test -n \"$QWEN_CODE\" || exec '/a b/relay' 'Stop'";
        let hook = json!({"type": "command", "command": command});
        assert_eq!(settings["hooks"]["Stop"], json!([{ "hooks": [hook] }]));
        let asked = settings["hooks"]["PermissionRequest"].as_array().unwrap();
        let matchers: Vec<_> = asked.iter().map(|group| &group["matcher"]).collect();
        assert_eq!(matchers, ["^(?!ask_user_question$)", "^(?=ask_user_question$)"]);
    }

    #[test]
    fn defaults_of_the_system_are_merged() {
        let own = r#"{"ui":{"enableFollowupSuggestions":true},"hooks":{"Stop":[{"hooks":[1]}],"Other":[2]}}"#;
        let unset = [("QWEN_CODE_SYSTEM_DEFAULTS_PATH", "")];
        let beside = [("QWEN_CODE_SYSTEM_SETTINGS_PATH", "/x/settings.json")];
        let named = [("QWEN_CODE_SYSTEM_DEFAULTS_PATH", "/y.json"), beside[0]];
        for (variables, path) in [
            (&unset[..], "/etc/qwen-code/system-defaults.json"),
            (&[], "/Library/Application Support/QwenCode/system-defaults.json"),
            (&beside, "/x/system-defaults.json"),
            (&named, "/y.json"),
        ] {
            let armed = armed(&[], variables, &[(path, own)]).unwrap();
            let settings = settings(&armed);
            assert_eq!(
                (&settings["ui"]["enableFollowupSuggestions"], &settings["$version"]),
                (&json!(true), &Value::Null)
            );
            assert_eq!(settings["hooks"]["Other"], json!([2]));
            assert_eq!(settings["hooks"]["Stop"][0], json!({"hooks": [1]}));
            assert!(settings["hooks"]["Stop"][1]["hooks"][0]["command"].is_string());
        }
        for broken in ["{", "[]", r#"{"ui":1}"#, r#"{"hooks":1}"#, r#"{"hooks":{"Stop":{}}}"#] {
            let files = [("/etc/qwen-code/system-defaults.json", broken)];
            assert_eq!(armed(&[], &[], &files), Err(Unarmed::Defaults), "{broken}");
        }
    }

    #[test]
    fn run_without_a_conversation_or_hooks_is_not_armed() {
        let not_interactive = |word: &str| Err(Unarmed::NotInteractive(word.to_owned()));
        for (arguments, word) in [
            (&["-p", "hello"][..], "-p"),
            (&["-yp", "hello"], "-yp"),
            (&["--prompt=hello"], "--prompt=hello"),
            (&["hello"], "hello"),
            (&["--model", "m", "hello"], "hello"),
            (&["--model=m", "hello"], "hello"),
            (&["mcp", "list"], "mcp"),
            (&["--", "hello"], "hello"),
            (&["--acp"], "--acp"),
        ] {
            assert_eq!(armed(arguments, &[], &[]), not_interactive(word), "{arguments:?}");
        }
        assert_eq!(armed(&["--bare"], &[], &[]), Err(Unarmed::Disabled("--bare".to_owned())));
        assert!(armed(&["--allowed-tools", "a", "b", "--resume", "x", "-y"], &[], &[]).is_ok());
    }
}
