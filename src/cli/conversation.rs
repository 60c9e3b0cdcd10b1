//! Conversations: the message that a message answers, its thread, and the message to several agents
//! that it is part of, as its sender states them.

use crate::wrap::teams::hash;
use protocol::{
    payload::{Group, MessagePayload},
    relay::{MessageRow, TapCopy},
    text::{self, escaped},
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The longest part of a thread's name that is shown, in characters.
const THREAD_CHARS: usize = 32;

/// The place of a message in a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conversation {
    /// The id of the message that this one answers.
    pub(super) reply_to: Option<String>,
    /// The thread's name.
    pub(super) thread: Option<String>,
}

impl Conversation {
    /// Reads the place of a message from its payload and its `payload_meta`.
    pub(super) fn of(payload: Option<&RawValue>, payload_meta: Option<&RawValue>) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Reply {
            reply_to: String,
        }
        let reply = payload_meta.and_then(|meta| serde_json::from_str(meta.get()).ok());
        let payload = payload.and_then(|payload| serde_json::from_str(payload.get()).ok());
        let thread = payload.and_then(|payload: MessagePayload<'_>| payload.thread);
        Self {
            reply_to: reply.map(|Reply { reply_to }| reply_to).filter(|id| !id.is_empty()),
            thread: thread.filter(|thread| !thread.is_empty()),
        }
    }

    /// Reads the place of a message in the history. Unknown if the row is truncated.
    pub(super) fn of_row(row: &MessageRow<'_>) -> Self {
        Self::of(row.payload, row.payload_meta)
    }

    /// The place of a message or an answer that was routed just now.
    pub(super) fn of_copy(copy: &TapCopy<'_>) -> Self {
        match copy.answer {
            // An answer has the id of its question.
            Some(_) => Self { reply_to: copy.id.as_deref().map(str::to_owned), thread: None },
            None => Self::of(copy.payload, copy.payload_meta),
        }
    }

    /// Returns a mark before a text on one line: `[port] re 1a2b3c4d: `.
    pub(super) fn mark(&self) -> String {
        let thread = self.shown_thread().map(|thread| format!("[{thread}] "));
        let reply =
            self.reply_to.as_deref().map(|id| format!("re {}: ", escaped(&text::short_id(id))));
        thread.unwrap_or_default() + &reply.unwrap_or_default()
    }

    /// Returns words after a message's sender and recipient: `, an answer to 1a2b3c4d, thread port`.
    pub(super) fn words(&self) -> String {
        let reply = self
            .reply_to
            .as_deref()
            .map(|id| format!(", an answer to {}", escaped(&text::short_id(id))));
        let thread = self.shown_thread().map(|thread| format!(", thread {thread}"));
        reply.unwrap_or_default() + &thread.unwrap_or_default()
    }

    fn shown_thread(&self) -> Option<String> {
        let thread = escaped(self.thread.as_deref()?);
        Some(match thread.char_indices().nth(THREAD_CHARS) {
            None => thread,
            Some((end, _)) => format!("{}…", &thread[..end]),
        })
    }
}

/// A message to several agents, which was sent to each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Several {
    /// The agents as the sender has named them, such as `@reviewers`.
    name: String,
    /// The identity of the message: all its parts have the same sender and text.
    pub(super) key: String,
    /// The number of its parts.
    pub(super) size: usize,
}

impl Several {
    /// The time within which all its parts are sent, in milliseconds.
    pub(super) const WITHIN_MS: u64 = 60_000;

    /// Reads the message to several agents that a row is part of. Unknown if the row is truncated.
    pub(super) fn of_row(row: &MessageRow<'_>) -> Option<Self> {
        Self::of(&row.from, row.payload?, row.payload_meta?)
    }

    /// Reads the message to several agents that a copy is part of.
    pub(super) fn of_copy(copy: &TapCopy<'_>) -> Option<Self> {
        Self::of(&copy.from, copy.payload?, copy.payload_meta?)
    }

    /// The recipients in words, not escaped. `to` is one of them; the others are only the sender's
    /// word.
    pub(super) fn recipients(&self, to: &str) -> String {
        format!("{to} and {} more ({})", self.size.saturating_sub(1), self.name)
    }

    fn of(from: &str, payload: &RawValue, payload_meta: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Part {
            group: Group,
        }
        let Part { group } = serde_json::from_str(payload_meta.get()).ok()?;
        // A sender may state the same id with another text.
        let key = format!("{from} {} {}", hash(payload.get().as_bytes()), group.id);
        Some(Self { name: group.name, key, size: group.size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_and_words_are_short_and_escaped() {
        let place = |payload: &str, meta: &str| {
            let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
            let place = Conversation::of(Some(&raw(payload)), Some(&raw(meta)));
            (place.mark(), place.words())
        };
        let shown = |mark: &str, words: &str| (mark.to_owned(), words.to_owned());
        let reply = r#"{"replyTo":"1a2b3c4d-55f7"}"#;
        assert_eq!(place(r#"{"body":"x"}"#, "{}"), shown("", ""));
        assert_eq!(place("[1]", reply), shown("re 1a2b3c4d: ", ", an answer to 1a2b3c4d"));
        assert_eq!(
            place(r#"{"thread":"port"}"#, reply),
            shown("[port] re 1a2b3c4d: ", ", an answer to 1a2b3c4d, thread port")
        );
        let hostile = format!(r#"{{"thread":"\u001b{}"}}"#, "x".repeat(100));
        let cut = format!("\\u{{1b}}{}…", "x".repeat(THREAD_CHARS - 6));
        assert_eq!(
            place(&hostile, r#"{"replyTo":"\n"}"#),
            shown(
                &format!("[{cut}] re \\u{{a}}: "),
                &format!(", an answer to \\u{{a}}, thread {cut}")
            )
        );
        assert_eq!(place(r#"{"thread":""}"#, r#"{"replyTo":7}"#), shown("", ""));
    }
}
