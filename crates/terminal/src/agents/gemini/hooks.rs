//! Gemini CLI's hooks. They cannot be given for a single run, so the user installs them as an
//! extension. A run only sets the variable that tells the hooks where the wrapper is.

use crate::{
    hooks::{Armed, Arming, Extension, Hooks, Printed, Unarmed, check_options, refuse, shell_line},
    words::Words,
};
use protocol::hook::Point;
use serde_json::{Map, Value, json};

pub(super) const HOOKS: Hooks = Hooks {
    since_version: "0.61",
    events: &[
        ("SessionStart", Point::SessionBegan),
        ("BeforeAgent", Point::PromptSubmitted),
        ("Notification", Point::PermissionAsked),
        ("AfterTool", Point::ToolEnded),
        ("AfterAgent", Point::TurnEnded),
        ("SessionEnd", Point::SessionEnded),
    ],
    user_settings: |_| None,
    arm,
    print: Printed::context,
    begins: None,
    prompt_queue: None,
    extension: Some(Extension { manifest: MANIFEST, files }),
};

/// The file that makes a folder an extension.
const MANIFEST: &str = "gemini-extension.json";

/// Gemini CLI's timeout for a hook, in milliseconds.
const TIMEOUT_MS: u64 = 5000;

/// The subcommands, and the options without a conversation in this terminal.
const SUBCOMMANDS: Words = Words("extension extensions gemma hook hooks mcp skill skills");
const NOT_INTERACTIVE: Words = Words(
    "--acp --delete-session --experimental-acp --list-extensions --list-sessions --prompt -l -p",
);

fn arm(arming: &Arming<'_>) -> Result<Armed, Unarmed> {
    let first = arming.arguments.first().map(String::as_str);
    refuse(first.filter(|word| SUBCOMMANDS.contains(word)))?;
    check_options(arming.arguments, Words(""), |word| {
        NOT_INTERACTIVE.contains(word.split_once('=').map_or(word, |(option, _)| option))
    })?;
    // Another agent's command may have started this Gemini CLI. With the variable set, its hooks
    // would count this run as a command of that agent.
    let not_nested = (super::COMMAND_VARIABLE, String::new());
    Ok(Armed { arguments: arming.arguments.to_owned(), env: vec![not_nested], ..Armed::default() })
}

/// Returns the files of the extension.
fn files(command: &[String]) -> Vec<(&'static str, String)> {
    let manifest = json!({
        "name": Extension::NAME, "version": env!("CARGO_PKG_VERSION"),
        "description": "Tells the agents of Agent Relay of their messages while they work",
    });
    let of_event = |(event, _): &(&str, Point)| ((*event).to_owned(), group(command, event));
    let hooks: Map<_, _> = HOOKS.events.iter().map(of_event).collect();
    let pretty = |value: Value| format!("{value:#}\n");
    vec![(MANIFEST, pretty(manifest)), ("hooks/hooks.json", pretty(json!({ "hooks": hooks })))]
}

/// Returns the hooks of an event. They do not fail if our program has been removed.
fn group(command: &[String], event: &str) -> Value {
    let (program, line) = (shell_line(&command[..1]), shell_line(command));
    let command = format!("[ ! -x {program} ] || {line} {event}");
    let hook = json!({
        "type": "command", "name": Extension::NAME, "command": command, "timeout": TIMEOUT_MS,
    });
    json!([{ "hooks": [hook] }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed(arguments: &[&str]) -> Result<Armed, Unarmed> {
        let arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
        arm(&Arming::of(&arguments, "/run"))
    }

    #[test]
    fn conversation_is_armed() {
        let Armed { arguments, files, env } = armed(&["--resume", "mcp"]).unwrap();
        assert_eq!(arguments, ["--resume", "mcp"]);
        assert!(files.is_empty());
        assert_eq!(env, [("GEMINI_CLI", String::new())]);
    }

    #[test]
    fn run_without_a_conversation_is_not_armed() {
        for word in ["mcp", "--prompt=hello", "-p"] {
            assert_eq!(armed(&[word]), Err(Unarmed::NotInteractive(word.into())));
        }
        assert!(armed(&["-i", "mcp"]).is_ok());
        assert!(armed(&["--", "-p"]).is_ok());
    }

    #[test]
    fn extension_has_the_command_of_each_event() {
        let files = files(&["/it's/relay".into(), "hook".into(), "gemini".into()]);
        let hooks: Value = serde_json::from_str(&files[1].1).unwrap();
        for (event, _) in HOOKS.events {
            let program = r"'/it'\''s/relay'";
            let command = format!("[ ! -x {program} ] || {program} 'hook' 'gemini' {event}");
            assert_eq!(hooks["hooks"][event][0]["hooks"][0]["command"], command);
        }
    }
}
