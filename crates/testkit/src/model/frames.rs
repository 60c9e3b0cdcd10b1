//! Message frames in a request, and the role of the text that has them.

use serde_json::Value;

/// The ends of a frame's first line, by who wrote the message. Frames of the relay itself are left
/// out: they have no words of others.
const SENTENCES: [&str; 3] = [
    "] Another agent wrote this, not your user.",
    "] Written at a command line of your user's account.",
    "] Written by a program without a name on this machine.",
];

/// The beginning of a message frame, and the body behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub hex: String,
    /// The first line, from the digits on.
    pub head: String,
    /// The body; the rest of the text if the frame has no end.
    pub body: String,
}

/// Returns the frames in all texts of a value, in order.
pub fn frames(value: &Value) -> Vec<Frame> {
    match value {
        Value::String(text) => frames_in(text),
        Value::Array(values) => values.iter().flat_map(frames).collect(),
        Value::Object(members) => members.values().flat_map(frames).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

fn frames_in(text: &str) -> Vec<Frame> {
    // The result of a tool may be JSON itself.
    let text = text.replace("\\n", "\n");
    let begun = text.split("[relay ").skip(1);
    let found = begun.filter_map(|rest| {
        let (head, rest) = rest.split_once('\n')?;
        let hex = head.get(..6)?.to_owned();
        SENTENCES.iter().any(|sentence| head.ends_with(sentence)).then_some(())?;
        let body = rest.split_once(&format!("\n[/relay {hex}]")).map_or(rest, |(body, _)| body);
        Some(Frame { hex, head: head.to_owned(), body: body.to_owned() })
    });
    found.collect()
}

/// Returns the parts of a request that have more authority than the user: those of the system and
/// of the CLI's developer.
pub fn instructions(request: &Value) -> Vec<&Value> {
    let whole = ["system", "instructions", "systemInstruction"].iter().map(|name| &request[name]);
    let messages = ["messages", "input", "contents"].iter().flat_map(|name| {
        let messages = request[name].as_array().into_iter().flatten();
        messages.filter(|message| message["role"] == "system" || message["role"] == "developer")
    });
    whole.chain(messages).filter(|part| !part.is_null()).collect()
}
