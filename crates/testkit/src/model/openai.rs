//! OpenAI's Responses API, as Codex uses it.

use super::{Pieces, Shared, Step, Turn, http, shape};
use serde_json::{Value, json};
use std::io::{self, Write};

pub(super) fn answer(shared: &Shared, request: &Value, to: &mut impl Write) -> io::Result<()> {
    let input = request["input"].as_array().map_or(0, Vec::len);
    let id = format!("resp_{input:024}");
    let mut events = http::Events::begin(to)?;
    let response = json!({"id": id, "object": "response", "status": "in_progress", "output": []});
    events.send(&json!({"type": "response.created", "response": response}))?;
    let mut output = Vec::new();
    let conversation = conversation(request);
    let is_conversation = conversation.is_some();
    if let Some(turn) = conversation {
        let reply = shared.answer_turn(turn, request);
        reply.play(shared, request, |step| {
            let id = format!("{input}_{}", output.len());
            let offered = Offered::of(request, &step);
            output.push(item(&mut events, &id, output.len(), step, offered)?);
            Ok(())
        })?;
    } else {
        let answer = shared.record_side_request("responses", request);
        let format = &request["text"]["format"]["schema"];
        let text = match format.is_object() {
            true => shape::minimal_value(format).to_string(),
            false => answer,
        };
        let step = Step::Text { text: &text, pieces: Pieces::whole(&text) };
        output.push(item(&mut events, "0_0", 0, step, Offered::default())?);
    }
    let usage = json!({
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 110,
    });
    let response = json!({"id": id, "object": "response", "status": "completed", "output": output, "usage": usage});
    events.send(&json!({"type": "response.completed", "response": response}))?;
    if is_conversation {
        // The answer is recorded before the stream ends, since the client may hang up after this
        // event.
        shared.record_answer();
    }
    events.end()
}

/// The form of the called tool in the request.
#[derive(Default)]
struct Offered<'a> {
    /// The tool group that contains it, if any.
    namespace: Option<&'a str>,
    /// Whether its input is a text.
    takes_text: bool,
}

impl<'a> Offered<'a> {
    fn of(request: &'a Value, step: &Step<'_>) -> Self {
        let Step::Call { tool, .. } = step else { return Self::default() };
        let named = |tools: &'a Value| {
            let mut offers = tools.as_array().into_iter().flatten();
            offers.find(|offer| offer["name"] == *tool)
        };
        let mut groups = request["tools"].as_array().into_iter().flatten();
        let group = groups.find(|group| named(&group["tools"]).is_some());
        let offer = named(&request["tools"]);
        Self {
            namespace: group.and_then(|group| group["name"].as_str()),
            takes_text: offer.is_some_and(|offer| offer["type"] == "custom"),
        }
    }
}

/// Streams one item of the output, and returns the complete item.
fn item<W: Write>(
    events: &mut http::Events<'_, W>,
    id: &str,
    index: usize,
    step: Step<'_>,
    offered: Offered<'_>,
) -> io::Result<Value> {
    let mut item = match step {
        Step::Text { text, pieces } => {
            let id = format!("msg_{id}");
            let message = |content: Value| json!({"type": "message", "id": id, "role": "assistant", "content": content});
            events.send(&json!({"type": "response.output_item.added", "output_index": index, "item": message(json!([]))}))?;
            for piece in pieces {
                events.send(&json!({"type": "response.output_text.delta", "item_id": id, "output_index": index, "content_index": 0, "delta": piece}))?;
            }
            message(json!([{"type": "output_text", "text": text, "annotations": []}]))
        }
        Step::Call { tool, input } if offered.takes_text => json!({
            "type": "custom_tool_call", "id": format!("ctc_{id}"), "call_id": format!("call_{id}"),
            "name": tool, "input": input,
        }),
        Step::Call { tool, input } => json!({
            "type": "function_call", "id": format!("fc_{id}"), "call_id": format!("call_{id}"),
            "name": tool, "arguments": input.to_string(),
        }),
    };
    if let Some(namespace) = offered.namespace {
        item["namespace"] = json!(namespace);
    }
    events
        .send(&json!({"type": "response.output_item.done", "output_index": index, "item": item}))?;
    Ok(item)
}

/// The latest turn, if the request belongs to the conversation.
///
/// The CLI offers a tool that runs commands only in requests of the conversation.
fn conversation(request: &Value) -> Option<Turn> {
    shape::shell_call(request, "")?;
    let mut turn = Turn::default();
    for item in request["input"].as_array()? {
        match item["type"].as_str() {
            Some("function_call_output" | "custom_tool_call_output") => {
                turn.set_result(text(&item["output"]))
            }
            Some("message") if item["role"] == "user" => {
                let parts = item["content"].as_array().into_iter().flatten();
                let texts = parts.filter_map(|part| part["text"].as_str());
                texts.filter(|text| is_user_text(text)).for_each(|text| turn.set_prompt(text));
            }
            _ => {}
        }
    }
    turn.prompt.is_some().then_some(turn)
}

/// Whether a text is from the user. The CLI adds its own messages.
fn is_user_text(text: &str) -> bool {
    let own = ["<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md"];
    !own.iter().any(|own| text.starts_with(own))
}

fn text(output: &Value) -> String {
    match output.as_str() {
        Some(text) => text.to_owned(),
        None => output.to_string(),
    }
}
