//! Gemini's `generateContent` API, as Gemini CLI uses it.

use super::{Shared, Step, Turn, http, shape};
use serde_json::{Value, json};
use std::io::{self, Write};

pub(super) fn answer(
    shared: &Shared,
    method: &str,
    request: &Value,
    to: &mut impl Write,
) -> io::Result<()> {
    if method == "countTokens" {
        shared.record_side_request(method, request);
        return http::answer(to, "200 OK", &json!({"totalTokens": 100}));
    }
    let streaming = method == "streamGenerateContent";
    let Some(turn) = conversation(request).filter(|_| streaming) else {
        let answer = shared.record_side_request(method, request);
        let schema = ["responseJsonSchema", "responseSchema"]
            .map(|name| &request["generationConfig"][name])
            .into_iter()
            .find(|schema| schema.is_object());
        let text = schema.map_or(answer, |schema| shape::minimal_value(schema).to_string());
        let whole = chunk(&[json!({"text": text})], true);
        if !streaming {
            return http::answer(to, "200 OK", &whole);
        }
        let mut events = http::Events::begin(to)?;
        events.send(&whole)?;
        return events.end();
    };
    let reply = shared.answer_turn(turn, request);
    let mut events = http::Events::begin(to)?;
    reply.play(shared, request, |step| match step {
        Step::Text { mut pieces, .. } => {
            pieces.try_for_each(|text| events.send(&chunk(&[json!({"text": text})], false)))
        }
        Step::Call { tool, input } => {
            events.send(&chunk(&[json!({"functionCall": {"name": tool, "args": input}})], false))
        }
    })?;
    events.send(&chunk(&[json!({"text": ""})], true))?;
    events.end()?;
    shared.record_answer();
    Ok(())
}

fn chunk(parts: &[Value], last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if last {
        candidate["finishReason"] = json!("STOP");
    }
    let usage =
        json!({"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110});
    json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"})
}

/// The latest turn, if the request belongs to the conversation.
///
/// The CLI offers a tool that runs commands only in requests of the conversation.
fn conversation(request: &Value) -> Option<Turn> {
    shape::shell_call(request, "")?;
    let mut turn = Turn::default();
    let contents = request["contents"].as_array()?.iter();
    for content in contents.filter(|content| content["role"] == "user") {
        for part in content["parts"].as_array().into_iter().flatten() {
            if part["functionResponse"].is_object() {
                turn.set_result(part["functionResponse"]["response"].to_string());
            } else if let Some(text) = part["text"].as_str().filter(|text| is_user_text(text)) {
                turn.set_prompt(text);
            }
        }
    }
    turn.prompt.is_some().then_some(turn)
}

/// Whether a text is from the user. The CLI adds its own message.
fn is_user_text(text: &str) -> bool {
    !text.starts_with("<session_context>")
}
