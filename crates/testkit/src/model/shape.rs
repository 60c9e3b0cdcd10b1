//! Values that fit a request: its schema, and the input of its tools.

use serde_json::{Value, json};

/// The smallest value that a JSON schema allows; of several choices the first.
pub(super) fn minimal_value(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|choices| choices.first()) {
        return first.clone();
    }
    if let Some(only) = schema.get("const") {
        return only.clone();
    }
    let kind = schema["type"].as_str().unwrap_or("object").to_ascii_lowercase();
    match kind.as_str() {
        "object" => {
            let properties = schema["properties"].as_object();
            properties
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), minimal_value(schema)))
                .collect()
        }
        "array" => json!([]),
        "boolean" => json!(false),
        "number" | "integer" => json!(1),
        _ => json!("Scripted"),
    }
}

/// The tool that the CLI runs commands with, and an input that makes the CLI ask the user first.
pub(super) fn shell_call(request: &Value, command: &str) -> Option<(String, Value)> {
    let described = json!({"command": command, "description": "Runs what the script says"});
    let escalated = json!({
        "cmd": command, "sandbox_permissions": "require_escalated", "justification": "May this run?",
    });
    let known = [
        ("Bash", described.clone()),
        ("bash", described.clone()),
        ("run_shell_command", described),
        ("exec_command", escalated),
    ];
    let offered = tools(request);
    let fits = |(name, _): &(&str, Value)| offered.iter().any(|offer| offer == name);
    known.into_iter().find(fits).map(|(name, input)| (name.to_owned(), input))
}

/// The names of the tools that a request offers.
pub(super) fn tools(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().into_iter().flatten();
    let named = tools.flat_map(|tool| match tool["functionDeclarations"].as_array() {
        Some(functions) => functions.iter().collect(),
        None => vec![tool.get("function").unwrap_or(tool)],
    });
    named.filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect()
}
