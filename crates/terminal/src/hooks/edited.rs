//! The files that a tool has edited, as reported to a CLI's hook.

use crate::foreign_json::repaired;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::borrow::Cow;

/// How many files of one tool call count at most.
const FILES_MAX: usize = 32;

/// The names of tools that edit files in any of the CLIs, in lower case and without `_`.
const TOOLS: &[&str] = &[
    "applypatch",
    "create",
    "edit",
    "multiedit",
    "notebookedit",
    "patch",
    "replace",
    "strreplace",
    "strreplaceeditor",
    "write",
    "writefile",
];

/// The members of a tool's input that may hold the file's path.
const PATHS: &[&str] = &["file_path", "filePath", "notebook_path", "path"];

/// The members of a tool's input that may hold a patch.
const PATCHES: &[&str] = &["command", "input", "patch", "patchText"];

/// The beginnings of the patch lines that name a file.
const FILES_OF_PATCH: &[&str] =
    &["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// Files that a tool has edited.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Edited {
    /// The directory of relative paths, if the CLI states it.
    pub directory: Option<String>,
    /// The paths as written by the agent.
    pub paths: Vec<String>,
}

/// The members of a hook's input that count.
#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    tool_name: Option<Cow<'a, str>>,
    tool_input: Option<&'a RawValue>,
    cwd: Option<Cow<'a, str>>,
}

/// Returns the files that a tool has edited, from the input of the hook after its use. There are
/// none if the tool has failed or is not known to edit files. Edits by subagents count as their
/// agent's.
#[must_use]
pub fn edited(event: &str, json: &[u8]) -> Edited {
    if event.ends_with("Failure") {
        return Edited::default();
    }
    let json = repaired(json);
    let Ok(Input { tool_name: Some(name), tool_input: Some(input), cwd }) =
        serde_json::from_str(&json)
    else {
        return Edited::default();
    };
    let name = name.to_ascii_lowercase().replace('_', "");
    if !TOOLS.contains(&&*name) {
        return Edited::default();
    }
    let input = serde_json::from_str(input.get()).unwrap_or_default();
    Edited { directory: cwd.map(Cow::into_owned), paths: paths_in(&input) }
}

/// Returns the paths in a tool's input, without duplicates.
fn paths_in(input: &Value) -> Vec<String> {
    // This command of `str_replace_editor` only reads.
    if input["command"] == "view" {
        return Vec::new();
    }
    let text = |member: &&str| input[member].as_str();
    let named = PATHS.iter().find_map(text);
    let patch = input.as_str().or_else(|| PATCHES.iter().find_map(text)).unwrap_or_default();
    let file = |line: &str| {
        let of_line = FILES_OF_PATCH.iter().find_map(|begin| line.strip_prefix(begin));
        of_line.map(|path| path.trim_end().to_owned())
    };
    let mut paths: Vec<String> = Vec::new();
    for path in named.map(str::to_owned).into_iter().chain(patch.lines().filter_map(file)) {
        if paths.len() < FILES_MAX && !path.is_empty() && !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(name: &str, input: &Value) -> Vec<String> {
        let json = json!({"tool_name": name, "tool_input": input, "cwd": "/w", "agent_id": "a"});
        edited("PostToolUse", json.to_string().as_bytes()).paths
    }

    #[test]
    fn each_cli_names_its_files() {
        for (name, input) in [
            ("Edit", json!({"file_path": "/w/a", "old_string": "x", "new_string": "y"})),
            ("Write", json!({"file_path": "/w/a", "content": "*** Add File: b"})),
            ("MultiEdit", json!({"file_path": "/w/a", "edits": []})),
            ("NotebookEdit", json!({"notebook_path": "/w/a"})),
            ("write_file", json!({"file_path": "/w/a", "content": ""})),
            ("replace", json!({"file_path": "/w/a"})),
            ("create", json!({"path": "/w/a", "file_text": ""})),
            ("str_replace_editor", json!({"command": "create", "path": "/w/a"})),
            ("edit", json!({"filePath": "/w/a"})),
            ("apply_patch", json!({"patchText": "*** Begin Patch\n*** Add File: /w/a\n+x"})),
            ("apply_patch", json!("*** Begin Patch\n*** Delete File: /w/a\n*** End Patch")),
        ] {
            assert_eq!(paths(name, &input), ["/w/a"], "{name}");
        }
        let patch = "*** Begin Patch\n*** Update File: a b \r\n*** Move to: c\n@@\n-*** Add File: d\n\
                     *** Update File: c\n*** End Patch";
        assert_eq!(paths("apply_patch", &json!({ "command": patch })), ["a b", "c"]);
    }

    #[test]
    fn other_tools_and_failed_ones_edit_nothing() {
        let input = json!({"file_path": "/w/a", "path": "/w/a", "command": "view"});
        for name in ["Read", "Bash", "mcp__x__edit", "str_replace_editor", ""] {
            assert_eq!(paths(name, &input), [""; 0], "{name}");
        }
        let input = json!({"file_path": "/w/a"});
        let json = json!({"tool_name": "Edit", "tool_input": input, "cwd": "/w"}).to_string();
        let found = edited("PostToolUse", json.as_bytes());
        let directory = Some("/w".to_owned());
        assert_eq!(found, Edited { directory, paths: vec!["/w/a".to_owned()] });
        assert_eq!(edited("PostToolUseFailure", json.as_bytes()), Edited::default());
    }

    #[test]
    fn hostile_inputs_are_bounded() {
        for input in [json!(null), json!([]), json!({"file_path": 7}), json!({"file_path": ""})] {
            assert_eq!(paths("Edit", &input), [""; 0], "{input}");
        }
        for json in ["", "[]", "{", r#"{"tool_name":"Edit"}"#, r#"{"tool_name":7}"#] {
            assert_eq!(edited("PostToolUse", json.as_bytes()), Edited::default(), "{json}");
        }
        let many: String = (0..100).map(|n| format!("*** Add File: {n}\n")).collect();
        assert_eq!(paths("apply_patch", &json!(many)).len(), FILES_MAX);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let deep = format!(r#"{{"tool_name":"Edit","tool_input":{deep}}}"#);
        assert_eq!(edited("PostToolUse", deep.as_bytes()).paths, [""; 0]);
    }
}
