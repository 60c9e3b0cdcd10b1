//! Claude Code's hooks. A settings file for this run (`--settings`) holds them, merged with the
//! file that the user's own `--settings` names.

use crate::{
    hooks::{Armed, Arming, Begins, Hooks, Printed, Unarmed, check_options, has_switch, refuse},
    words::Words,
};
use protocol::hook::Point;
use serde_json::{Map, Value, json};

pub(super) const HOOKS: Hooks = Hooks {
    since_version: "2.1.197",
    events: &[
        ("SessionStart", Point::SessionBegan),
        ("UserPromptSubmit", Point::PromptSubmitted),
        ("PreToolUse", Point::PersonAsked),
        ("PostToolUse", Point::ToolEnded),
        ("PostToolUseFailure", Point::ToolEnded),
        ("PermissionRequest", Point::PermissionAsked),
        ("Stop", Point::TurnEnded),
        (WAIT, Point::Waits),
    ],
    user_settings,
    arm,
    print,
    begins: Some(Begins::AtStart),
    prompt_queue: None,
    extension: None,
};

/// Our name for a hook that Claude Code runs in the background after a start and after each turn.
/// If such a hook ends with the code 2, its standard error begins a turn.
const WAIT: &str = "Wait";

/// The only tool that is also reported before its use, because it puts a question to the person.
/// Each hook costs a process.
const QUESTION: &str = "AskUserQuestion";

/// The events that leave the agent idle; a hook waits from then on.
const IDLE_AFTER: [&str; 2] = ["SessionStart", "Stop"];

/// The maximum time that a hook waits, in seconds: a week.
const WAIT_S: u64 = 7 * 24 * 3600;

const SETTINGS: &str = "--settings";
const FILE: &str = "settings.json";

/// Subcommands. They begin no conversation.
const SUBCOMMANDS: Words = Words(
    "agents attach auth auto-mode config doctor gateway install kill logs mcp migrate-installer \
     plugin plugins project remote-control respawn rm server setup-token ultrareview update \
     upgrade",
);

fn user_settings(arguments: &[String]) -> Option<&str> {
    split(arguments).0
}

/// Returns the value of the last `--settings`, and the other arguments.
fn split(arguments: &[String]) -> (Option<&str>, Vec<String>) {
    let (mut settings, mut rest) = (None, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix(SETTINGS) {
            Some("") => settings = words.next().map(String::as_str).or(settings),
            Some(value) if value.starts_with('=') => settings = Some(&value[1..]),
            _ => rest.push(word.clone()),
        }
        if word == "--" {
            rest.extend(words.by_ref().cloned());
        }
    }
    (settings, rest)
}

fn arm(arming: &Arming<'_>) -> Result<Armed, Unarmed> {
    let (_, mut arguments) = split(arming.arguments);
    let prints = |word: &str| word == "--print" || has_switch(word, 'p');
    check_options(&arguments, Words("--bare --safe-mode"), prints)?;
    let first = arguments.first().map(String::as_str);
    refuse(first.filter(|word| SUBCOMMANDS.contains(word)))?;
    let mut settings = serde_json::from_str(arming.user_settings.unwrap_or("{}"))
        .map_err(|_| Unarmed::Settings)?;
    add_hooks(&mut settings, arming)?;
    let path = arming.directory.join(FILE).into_os_string();
    let path = path.into_string().map_err(|_| Unarmed::NotText)?;
    arguments.splice(0..0, [SETTINGS.to_owned(), path]);
    Ok(Armed {
        arguments,
        files: vec![(FILE, Value::Object(settings).to_string())],
        ..Armed::default()
    })
}

/// Adds our hooks after those in the settings.
fn add_hooks(settings: &mut Map<String, Value>, arming: &Arming<'_>) -> Result<(), Unarmed> {
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    let hooks = hooks.as_object_mut().ok_or(Unarmed::Settings)?;
    for (event, _) in HOOKS.events.iter().filter(|(event, _)| *event != WAIT) {
        let mut ours = vec![entry(arming, event)];
        if IDLE_AFTER.contains(event) {
            let mut waiting = entry(arming, WAIT);
            waiting["asyncRewake"] = true.into();
            waiting["timeout"] = WAIT_S.into();
            ours.push(waiting);
        }
        let mut group = json!({ "hooks": ours });
        if *event == "PreToolUse" {
            group["matcher"] = QUESTION.into();
        }
        let groups = hooks.entry(*event).or_insert_with(|| json!([]));
        groups.as_array_mut().ok_or(Unarmed::Settings)?.push(group);
    }
    Ok(())
}

fn entry(arming: &Arming<'_>, event: &str) -> Value {
    let command = (arming.command)(event);
    let (program, arguments) = command.split_first().expect("a command has a program");
    json!({"type": "command", "command": program, "args": arguments})
}

fn print(event: &str, text: &str) -> Printed {
    if event == WAIT {
        // Claude Code puts the text between tags; the text must not close them.
        let error = text.replace("</", "<\\/");
        return Printed { out: String::new(), error, code: 2 };
    }
    Printed::context(event, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn armed(arguments: &[&str], user_settings: Option<&str>) -> Result<Armed, Unarmed> {
        let arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
        arm(&Arming {
            command: &|event| vec!["relay".into(), event.into()],
            user_settings,
            ..Arming::of(&arguments, "run")
        })
    }

    #[test]
    fn users_settings_are_merged() {
        let user = r#"{"model":"m","hooks":{"Stop":[{"hooks":[1]}],"Other":[2]}}"#;
        let armed = armed(&["--settings", "x.json", "--resume", "--", "--settings"], Some(user));
        let Armed { arguments, files, .. } = armed.unwrap();
        let path = Path::new("run").join("settings.json");
        let path = path.to_str().unwrap();
        assert_eq!(arguments, ["--settings", path, "--resume", "--", "--settings"]);
        let settings: Value = serde_json::from_str(&files[0].1).unwrap();
        assert_eq!((&settings["model"], &settings["hooks"]["Other"][0]), (&json!("m"), &json!(2)));
        assert_eq!(settings["hooks"]["Stop"][0], json!({"hooks": [1]}));
        let stop = &settings["hooks"]["Stop"][1]["hooks"];
        assert_eq!(stop[0], json!({"type": "command", "command": "relay", "args": ["Stop"]}));
        assert_eq!((&stop[1]["args"], &stop[1]["asyncRewake"]), (&json!(["Wait"]), &json!(true)));
        assert!(settings["hooks"]["PostToolUse"][0]["hooks"][1].is_null());
        assert_eq!(settings["hooks"]["PreToolUse"][0]["matcher"], json!("AskUserQuestion"));
    }

    #[test]
    fn users_settings_are_named() {
        let named = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            user_settings(&words).map(str::to_owned)
        };
        assert_eq!(named(&["--settings", "a", "--settings={}"]).as_deref(), Some("{}"));
        assert_eq!(named(&["--settings"]), None);
        assert_eq!(named(&["--", "--settings", "a"]), None);
        assert_eq!(named(&["--settings-x=1"]), None);
    }

    #[test]
    fn run_without_a_conversation_or_hooks_is_not_armed() {
        let not_interactive = |word: &str| Err(Unarmed::NotInteractive(word.to_owned()));
        assert_eq!(armed(&["-p", "hello"], None), not_interactive("-p"));
        assert_eq!(armed(&["-cp", "hello"], None), not_interactive("-cp"));
        assert_eq!(armed(&["mcp", "list"], None), not_interactive("mcp"));
        assert_eq!(armed(&["--bare"], None), Err(Unarmed::Disabled("--bare".to_owned())));
        for settings in ["{", "[]", r#"{"hooks":1}"#, r#"{"hooks":{"Stop":{}}}"#] {
            assert_eq!(armed(&[], Some(settings)), Err(Unarmed::Settings), "{settings}");
        }
        assert!(armed(&["tell me about mcp", "--", "-p"], None).is_ok());
    }

    #[test]
    fn text_of_a_waiting_hook_cannot_close_a_tag() {
        assert_eq!(print(WAIT, "a</system-reminder>").error, "a<\\/system-reminder>");
        let out =
            r#"{"hookSpecificOutput":{"additionalContext":"a","hookEventName":"PostToolUse"}}"#;
        assert_eq!(print("PostToolUse", "a"), Printed::out(out.to_owned()));
    }
}
