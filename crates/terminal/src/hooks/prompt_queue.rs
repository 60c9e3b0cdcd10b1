//! The queue of prompts that Codex's app server keeps for each conversation, as JSON lines over a
//! process's standard streams.
//!
//! A prompt in the queue begins a turn once the agent is idle. If it has not begun one in time, it
//! is deleted, so that it cannot begin one later.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

const INITIALIZE: u64 = 1;
const ADD: u64 = 2;
const DELETE: u64 = 3;

/// An exchange that adds one prompt to a conversation's queue.
pub struct PromptQueue {
    session: String,
    text: String,
    /// The id of the sender's message.
    message: String,
    stage: Stage,
}

enum Stage {
    Adding,
    /// The prompt is or was in the queue, with this id.
    Added(String),
    Deleting,
}

/// The next step of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Write these lines.
    Write(String),
    /// Wait for another line.
    Wait,
    /// The exchange is over. The value says whether the prompt has left the queue to begin a turn,
    /// or may still do so.
    Over(bool),
}

/// A line from the server. A request has a method, and a refusal has an error.
#[derive(Deserialize)]
struct Line {
    id: Option<Value>,
    method: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
    #[serde(default)]
    result: Value,
}

impl PromptQueue {
    /// Begins an exchange that adds `text` to a conversation's queue.
    #[must_use]
    pub fn new(session: String, text: String, message: String) -> Self {
        Self { session, text, message, stage: Stage::Adding }
    }

    /// Returns the first lines to write.
    #[must_use]
    pub fn first_lines(&self) -> String {
        let client = json!({"name": "agent-relay", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
        let text = json!({"type": "text", "text": self.text});
        let add = json!({
            "threadId": self.session, "clientUserMessageId": self.message, "input": [text],
        });
        [
            request(INITIALIZE, "initialize", &params),
            format!("{}\n", json!({"method": "initialized"})),
            request(ADD, "thread/queue/add", &add),
        ]
        .concat()
    }

    /// Handles a line from the server.
    pub fn received(&mut self, line: &str) -> Step {
        let Ok(Line { id: Some(id), method: None, error, result }) = serde_json::from_str(line)
        else {
            return Step::Wait;
        };
        match &self.stage {
            Stage::Adding if id == ADD => match result["queuedSubmission"]["id"].as_str() {
                Some(added) => self.stage = Stage::Added(added.to_owned()),
                None => return Step::Over(error.is_none()),
            },
            // Unless it is known to be deleted, the prompt may still begin a turn.
            Stage::Deleting if id == DELETE => return Step::Over(result["deleted"] != true),
            _ => {}
        }
        Step::Wait
    }

    /// Whether the server has yet to answer that it has added the prompt.
    #[must_use]
    pub fn is_adding(&self) -> bool {
        matches!(self.stage, Stage::Adding)
    }

    /// Ends the time that the prompt has to begin a turn.
    pub fn time_out(&mut self) -> Step {
        match std::mem::replace(&mut self.stage, Stage::Deleting) {
            Stage::Added(id) => {
                let delete = json!({"threadId": self.session, "queuedSubmissionId": id});
                Step::Write(request(DELETE, "thread/queue/delete", &delete))
            }
            // The prompt may or may not be in the queue.
            Stage::Adding | Stage::Deleting => Step::Over(true),
        }
    }
}

fn request(id: u64, method: &str, params: &Value) -> String {
    format!("{}\n", json!({"id": id, "method": method, "params": params}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> PromptQueue {
        PromptQueue::new("s-1".into(), "one\ntwo".into(), "d-1".into())
    }

    const ADDED: &str = r#"{"id":2,"result":{"queuedSubmission":{"id":"q-1","input":[]}}}"#;

    #[test]
    fn prompt_is_added_and_deleted_unless_it_has_begun_a_turn() {
        for (deleted, has_begun) in [(false, true), (true, false)] {
            let mut queue = queue();
            let lines = queue.first_lines();
            assert_eq!(lines.lines().count(), 3);
            let add: Value = serde_json::from_str(lines.lines().nth(2).unwrap()).unwrap();
            assert_eq!(add["params"]["input"][0]["text"], "one\ntwo");
            for line in [r#"{"id":1,"result":{}}"#, r#"{"method":"note"}"#, "no JSON", ADDED] {
                assert_eq!(queue.received(line), Step::Wait, "{line}");
            }
            let Step::Write(line) = queue.time_out() else { panic!("the prompt is not deleted") };
            assert!(line.contains(r#""queuedSubmissionId":"q-1""#), "{line}");
            assert_eq!(queue.received(ADDED), Step::Wait);
            let answer = json!({"id": 3, "result": {"deleted": deleted}}).to_string();
            assert_eq!(queue.received(&answer), Step::Over(has_begun));
        }
    }

    #[test]
    fn refused_prompt_begins_no_turn() {
        let refusal = r#"{"id":2,"error":{"code":-32603,"message":"no rollout"}}"#;
        assert_eq!(queue().received(refusal), Step::Over(false));
    }

    /// If nothing is known of a prompt, it may have begun a turn, so it is not redelivered at once.
    #[test]
    fn prompt_without_an_answer_may_have_begun_a_turn() {
        let mut silent = queue();
        assert_eq!(silent.time_out(), Step::Over(true));
        let mut cut_off = queue();
        cut_off.received(ADDED);
        cut_off.time_out();
        assert_eq!(cut_off.received(r#"{"id":3,"method":"ask"}"#), Step::Wait);
        assert_eq!(cut_off.received(r#"{"id":3,"error":{}}"#), Step::Over(true));
        assert_eq!(cut_off.time_out(), Step::Over(true));
        assert_eq!(queue().received(r#"{"id":2,"result":{}}"#), Step::Over(true));
    }
}
