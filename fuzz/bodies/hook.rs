//! Fuzzing of what a CLI's hook reads, and of settings into which hooks are merged. No text may be
//! taken for a report that is none, and no member of the settings may be lost.

use agent_relay::{
    bridge::{
        agents,
        hooks::{Armed, Arming, read},
    },
    protocol::hook::{Frame, Point, TRANSCRIPT_BYTES_MAX},
};
use serde_json::Value;
use std::path::Path;

const POINTS: [Point; 4] =
    [Point::SessionBegan, Point::PromptSubmitted, Point::ToolEnded, Point::TurnEnded];

/// Reads the bytes as a hook's input, and as a person's settings of each CLI.
pub(crate) fn run(bytes: &[u8]) {
    for point in POINTS {
        if let Some(report) = read(point, bytes) {
            let text = str::from_utf8(bytes).expect("a report is read from text");
            assert!(matches!(serde_json::from_str(text), Ok(Value::Object(_)) | Err(_)));
            for Frame { hex, length } in &report.frames {
                assert!(hex.len() == 6 && *length <= text.len(), "{hex} {length}");
            }
            if let Some(path) = &report.transcript {
                assert!((1..=TRANSCRIPT_BYTES_MAX).contains(&path.len()), "{path}");
            }
            assert!(!report.forgets || point == Point::SessionBegan);
        }
    }
    if let Ok(text) = str::from_utf8(bytes) {
        check_settings(text);
        check_configuration(text);
    }
}

/// Checks that hooks are added to settings, and nothing else is changed.
fn check_settings(settings: &str) {
    let hooks = agents::named("claude").and_then(|agent| agent.hooks).expect("Claude Code's hooks");
    let arming = Arming {
        command: &|event| vec!["relay".into(), event.into()],
        arguments: &[],
        user_settings: Some(settings),
        env: &|_| None,
        directory: Path::new("run"),
        is_windows: false,
    };
    let Ok(Armed { files, .. }) = (hooks.arm)(&arming) else { return };
    let before: Value = serde_json::from_str(settings).expect("only JSON is armed");
    let after: Value = serde_json::from_str(&files[0].1).expect("settings are JSON");
    for (name, value) in before.as_object().expect("only an object is armed") {
        if name != "hooks" {
            assert_eq!(&after[name], value, "{name}");
        }
    }
    for (event, groups) in before["hooks"].as_object().into_iter().flatten() {
        let groups = groups.as_array().map(Vec::as_slice);
        let kept = groups.is_none_or(|groups| {
            after["hooks"][event].as_array().is_some_and(|after| after.starts_with(groups))
        });
        assert!(kept, "{event}");
    }
}

/// Checks that a plugin is added to opencode's configuration, and nothing else is changed.
fn check_configuration(configuration: &str) {
    let hooks = agents::named("opencode").and_then(|agent| agent.hooks).expect("opencode's hooks");
    let arming = Arming {
        command: &|event| vec!["relay".into(), event.into()],
        arguments: &[],
        user_settings: None,
        env: &|_| Some(configuration.to_owned()),
        directory: Path::new("/run"),
        is_windows: false,
    };
    let Ok(Armed { env, .. }) = (hooks.arm)(&arming) else { return };
    let after: Value = serde_json::from_str(&env[0].1).expect("the configuration is JSON");
    let plugins = after["plugin"].as_array().expect("plugins");
    assert_eq!(plugins.last(), Some(&"file:///run/plugin.js".into()));
    // Comments and last commas are no JSON.
    let Ok(Value::Object(before)) = serde_json::from_str(configuration) else { return };
    for (name, value) in &before {
        match value.as_array().filter(|_| name == "plugin") {
            Some(before) => assert_eq!(&plugins[..plugins.len() - 1], before),
            None => assert_eq!(&after[name], value, "{name}"),
        }
    }
}
