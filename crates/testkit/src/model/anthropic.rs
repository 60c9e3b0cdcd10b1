//! Anthropic's Messages API, as Claude Code uses it.

use super::{Shared, Step, Turn, http, shape};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    iter,
};

pub(super) fn answer(shared: &Shared, request: &Value, to: &mut impl Write) -> io::Result<()> {
    let message = message(request);
    let Some(turn) = conversation(request) else {
        let answer = shared.record_side_request("messages", request);
        let format = &request["output_config"]["format"]["schema"];
        let text = match format.is_object() {
            true => shape::minimal_value(format).to_string(),
            false => answer,
        };
        return answer_side_request(request, message, &text, to);
    };
    let reply = shared.answer_turn(turn, request);
    let mut events = http::Events::begin(to)?;
    events.send(&json!({"type": "message_start", "message": message}))?;
    let (mut index, mut reason) = (0, "end_turn");
    reply.play(shared, request, |step| {
        let (block, deltas): (_, Box<dyn Iterator<Item = Value>>) = match step {
            Step::Text { pieces, .. } => (
                json!({"type": "text", "text": ""}),
                Box::new(pieces.map(|text| json!({"type": "text_delta", "text": text}))),
            ),
            Step::Call { tool, input } => {
                reason = "tool_use";
                let id = format!(
                    "toolu_{:016x}{index:02}",
                    request["messages"].as_array().map_or(0, Vec::len)
                );
                let input = json!({"type": "input_json_delta", "partial_json": input.to_string()});
                (
                    json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
                    Box::new(iter::once(input)),
                )
            }
        };
        events.send(
            &json!({"type": "content_block_start", "index": index, "content_block": block}),
        )?;
        for delta in deltas {
            events.send(&json!({"type": "content_block_delta", "index": index, "delta": delta}))?;
        }
        events.send(&json!({"type": "content_block_stop", "index": index}))?;
        index += 1;
        Ok(())
    })?;
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    events
        .send(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}}))?;
    events.send(&json!({"type": "message_stop"}))?;
    events.end()?;
    shared.record_answer();
    Ok(())
}

/// An empty message of the model.
fn message(request: &Value) -> Value {
    let id = format!("msg_{:024}", request["messages"].as_array().map_or(0, Vec::len));
    json!({
        "id": id, "type": "message", "role": "assistant", "model": request["model"], "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 1,
                  "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    })
}

/// Answers a request that is not part of the conversation.
fn answer_side_request(
    request: &Value,
    mut message: Value,
    text: &str,
    to: &mut impl Write,
) -> io::Result<()> {
    if request["stream"] != true {
        message["content"] = json!([{"type": "text", "text": text}]);
        message["stop_reason"] = json!("end_turn");
        return http::answer(to, "200 OK", &message);
    }
    let mut events = http::Events::begin(to)?;
    events.send(&json!({"type": "message_start", "message": message}))?;
    let block = json!({"type": "text", "text": ""});
    events.send(&json!({"type": "content_block_start", "index": 0, "content_block": block}))?;
    let delta = json!({"type": "text_delta", "text": text});
    events.send(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))?;
    events.send(&json!({"type": "content_block_stop", "index": 0}))?;
    let delta = json!({"stop_reason": "end_turn", "stop_sequence": null});
    events
        .send(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}))?;
    events.send(&json!({"type": "message_stop"}))?;
    events.end()
}

/// The latest turn, if the request belongs to the conversation.
///
/// The CLI offers all its tools only there. A subagent has most of the tools as well, but its
/// system prompt says that it is a subagent.
fn conversation(request: &Value) -> Option<Turn> {
    let is_subagent = texts(&request["system"]).any(|text| text.contains("cc_is_subagent=true"));
    if is_subagent || !shape::tools(request).iter().any(|tool| tool == "Bash") {
        return None;
    }
    let mut turn = Turn::default();
    let messages = request["messages"].as_array()?.iter();
    for message in messages.filter(|message| message["role"] == "user") {
        read(&message["content"], &mut turn);
    }
    turn.prompt.as_ref().is_some_and(|prompt| !prompt.starts_with(SUMMARY)).then_some(turn)
}

fn read(content: &Value, turn: &mut Turn) {
    if let Some(text) = content.as_str() {
        return turn.set_prompt(text);
    }
    for block in content.as_array().into_iter().flatten() {
        if block["type"] == "tool_result" {
            turn.set_result(texts(&block["content"]).collect());
        } else if let Some(text) = block["text"].as_str().filter(|text| is_user_text(text)) {
            turn.set_prompt(text);
        }
    }
}

/// The beginning of the CLI's request for a summary of a long conversation.
const SUMMARY: &str = "CRITICAL: Respond with TEXT ONLY.";

/// Whether a text is from the user, or has a hook's message that began the turn. The CLI adds its
/// own reminders.
fn is_user_text(text: &str) -> bool {
    !text.starts_with("<system-reminder>") || text.contains("[/relay ")
}

/// The texts of a content, which is a string or a list of blocks.
fn texts(content: &Value) -> impl Iterator<Item = &str> {
    let blocks = content.as_array().into_iter().flatten().map(|block| &block["text"]);
    blocks.chain([content]).filter_map(Value::as_str)
}
