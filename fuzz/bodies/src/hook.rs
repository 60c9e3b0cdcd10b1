//! Fuzzing of the input of a CLI's hook, and of settings that hooks are merged into. No text may be
//! mistaken for a report, and no member of the settings may be lost.

use protocol::hook::{Frame, Point, TRANSCRIPT_BYTES_MAX};
use serde_json::Value;
use std::path::Path;
use terminal::{
    agents,
    hooks::{Armed, Arming, edited, read},
};

const POINTS: [Point; 4] =
    [Point::SessionBegan, Point::PromptSubmitted, Point::ToolEnded, Point::TurnEnded];

/// Reads the bytes as a hook's input, and as a person's settings of each CLI.
pub fn run(bytes: &[u8]) {
    for point in POINTS {
        if let Some(report) = read(point, bytes) {
            assert!(bytes.trim_ascii_start().starts_with(b"{"), "a report is an object");
            for Frame { hex, length } in &report.frames {
                assert!(hex.len() == 6 && *length <= bytes.len(), "{hex} {length}");
            }
            if let Some(path) = &report.transcript {
                assert!((1..=TRANSCRIPT_BYTES_MAX).contains(&path.len()), "{path}");
            }
            assert!(!report.forgets || point == Point::SessionBegan);
        }
    }
    for path in edited("PostToolUse", bytes).paths {
        assert!(!path.is_empty() && path.len() <= 3 * bytes.len(), "{path}");
    }
    if let Ok(text) = str::from_utf8(bytes) {
        check_settings(text);
        check_configuration(text);
    }
}

/// Checks that hooks are added to the settings of Claude Code and to the defaults of Qwen Code, and
/// nothing else is changed.
fn check_settings(settings: &str) {
    for cli in ["claude", "qwen"] {
        let hooks = agents::named(cli).and_then(|agent| agent.hooks).expect("hooks of the CLI");
        let arming = Arming {
            command: &|event| vec!["relay".into(), event.into()],
            arguments: &[],
            user_settings: Some(settings),
            env: &|_| None,
            read: &|_| Ok(Some(settings.to_owned())),
            directory: Path::new("run"),
        };
        let Ok(Armed { files, .. }) = (hooks.arm)(&arming) else { continue };
        let before: Value = serde_json::from_str(settings).expect("only JSON is armed");
        let after: Value = serde_json::from_str(&files[0].1).expect("settings are JSON");
        assert!(before.is_object(), "only an object is armed");
        check_members(&before, &after);
    }
}

/// Checks that settings have all members that they had before.
fn check_members(before: &Value, after: &Value) {
    let kept = match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.iter().for_each(|(name, value)| check_members(value, &after[name]));
            true
        }
        (Value::Array(before), Value::Array(after)) => after.starts_with(before),
        _ => before == after,
    };
    assert!(kept, "{before} {after}");
}

/// Checks that a plugin is added to opencode's configuration, and nothing else is changed.
fn check_configuration(configuration: &str) {
    let hooks = agents::named("opencode").and_then(|agent| agent.hooks).expect("opencode's hooks");
    let arming = Arming {
        command: &|event| vec!["relay".into(), event.into()],
        arguments: &[],
        user_settings: None,
        env: &|_| Some(configuration.to_owned()),
        read: &|_| Ok(None),
        directory: Path::new("/run"),
    };
    let Ok(Armed { env, .. }) = (hooks.arm)(&arming) else { return };
    let after: Value = match serde_json::from_str(&env[0].1) {
        Ok(after) => after,
        // Numbers are copied as they are, and need not be ones that can be compared here.
        Err(bad) => return assert!(bad.to_string().starts_with("number out of range"), "{bad}"),
    };
    let plugins = after["plugin"].as_array().expect("plugins");
    assert_eq!(plugins.last(), Some(&"file:///run/plugin.js".into()));
    // JSON has no comments and no trailing commas.
    let Ok(Value::Object(before)) = serde_json::from_str(configuration) else { return };
    for (name, value) in &before {
        match value.as_array().filter(|_| name == "plugin") {
            Some(before) => assert_eq!(&plugins[..plugins.len() - 1], before),
            None => assert_eq!(&after[name], value, "{name}"),
        }
    }
}
