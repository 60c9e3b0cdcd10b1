//! OpenAI's Chat Completions API, as opencode, aider, Qwen Code and GitHub Copilot CLI use it.

use super::{Shared, Step, Turn, http, shape};
use serde_json::{Value, json};
use std::io::{self, Write};

pub(super) fn answer(shared: &Shared, request: &Value, to: &mut impl Write) -> io::Result<()> {
    let count = request["messages"].as_array().map_or(0, Vec::len);
    let mut events = http::Events::begin(to)?;
    let mut chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        events.send(&json!({
            "id": format!("chatcmpl-{count:024}"), "object": "chat.completion.chunk", "created": 0,
            "model": request["model"], "choices": [choice],
        }))
    };
    chunk(json!({"role": "assistant", "content": ""}), None)?;
    let conversation = conversation(request);
    let is_conversation = conversation.is_some();
    let (mut calls, mut reason) = (0, "stop");
    if let Some(turn) = conversation {
        let reply = shared.answer_turn(turn, request);
        reply.play(shared, request, |step| match step {
            Step::Text { pieces, .. } => {
                pieces.into_iter().try_for_each(|piece| chunk(json!({"content": piece}), None))
            }
            Step::Call { tool, input } => {
                let call = json!({
                    "index": calls, "id": format!("call_{count}_{calls}"), "type": "function",
                    "function": {"name": tool, "arguments": input.to_string()},
                });
                (calls, reason) = (calls + 1, "tool_calls");
                chunk(json!({"tool_calls": [call]}), None)
            }
        })?;
    } else {
        chunk(json!({"content": shared.record_side_request("chat/completions", request)}), None)?;
    }
    chunk(json!({}), Some(reason))?;
    events.send_done()?;
    events.end()?;
    if is_conversation {
        shared.record_answer();
    }
    Ok(())
}

/// The latest turn, if the request belongs to the conversation.
///
/// A CLI offers a tool that runs commands only in requests of the conversation.
fn conversation(request: &Value) -> Option<Turn> {
    shape::shell_call(request, "")?;
    let mut turn = Turn::default();
    for message in request["messages"].as_array()? {
        match message["role"].as_str() {
            Some("user") => turn.set_prompt(without_time(prompt(&message["content"]))),
            Some("tool") => turn.set_result(text(&message["content"])),
            _ => {}
        }
    }
    turn.prompt.is_some().then_some(turn)
}

/// The prompt in a content: the last of its texts. Qwen Code puts reminders in front of it.
fn prompt(content: &Value) -> &str {
    let mut texts = content.as_array().into_iter().flatten().rev();
    let last = texts.find_map(|part| part["text"].as_str());
    content.as_str().or(last).unwrap_or_default()
}

/// The text of a content, which is a string or a list of parts.
fn text(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let texts = parts.filter_map(|part| part["text"].as_str());
    content.as_str().map_or_else(|| texts.collect(), str::to_owned)
}

/// A prompt without the time that GitHub Copilot CLI puts before it.
fn without_time(prompt: &str) -> &str {
    let timed = prompt.strip_prefix("<current_datetime>");
    let rest = timed.and_then(|rest| rest.split_once("</current_datetime>\n\n"));
    rest.map_or(prompt, |(_, prompt)| prompt)
}
