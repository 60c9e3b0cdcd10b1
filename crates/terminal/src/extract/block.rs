//! The block form of a message: `[[RELAY]]`, a JSON object, `[[/RELAY]]`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    logical_line::LineStart,
    target::{Target, shorten},
};
use crate::outgoing::OutgoingMessage;
use protocol::{payload::THREAD_BYTES_MAX, topic, typed};

const BEGIN: &str = "[[RELAY]]";
const END: &str = "[[/RELAY]]";

/// Returns the byte where the JSON begins, if the line begins a block.
pub(super) fn begin(line: &str) -> Option<usize> {
    let rest = LineStart::of(line)?.rest.strip_prefix(BEGIN)?;
    Some(line.len() - rest.len())
}

/// Returns the byte where the JSON ends, if the line ends a block.
pub(super) fn end(line: &str) -> Option<usize> {
    line.find(END)
}

/// The members of a block's JSON object. Other members are ignored.
#[derive(Deserialize)]
struct Fields<'a> {
    to: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    body: String,
    topic: Option<String>,
    thread: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
}

/// Parses a block. `texts` are the results of several ways to join its rows, the most probable
/// first. The first text that is JSON is used.
///
/// # Errors
///
/// If no text is a message: a clause that says why.
pub(super) fn parse(texts: &[String]) -> Result<OutgoingMessage, String> {
    let mut reason = None;
    for text in texts {
        match typed::read::<Fields<'_>>(text.trim()) {
            Ok(fields) => return fields.message(),
            Err(error) => _ = reason.get_or_insert(error),
        }
    }
    Err(reason.unwrap_or_else(|| "it is empty".to_owned()))
}

impl Fields<'_> {
    fn message(self) -> Result<OutgoingMessage, String> {
        let Target { to, topic } = Target::parse(&self.to)?;
        if self.kind.is_empty() {
            return Err("`type` is empty".to_owned());
        }
        if let Some(topic) = self.topic.as_ref().filter(|topic| topic::check(topic).is_err()) {
            return Err(format!("`{}` is not a topic that can be sent to", shorten(topic)));
        }
        if self.thread.as_ref().is_some_and(|thread| thread.len() > THREAD_BYTES_MAX) {
            return Err(format!("`thread` is longer than {THREAD_BYTES_MAX} bytes"));
        }
        if self.meta.is_some_and(|meta| !meta.get().starts_with('{')) {
            return Err("`meta` is not an object".to_owned());
        }
        Ok(OutgoingMessage {
            to,
            topic: topic.or(self.topic),
            thread: self.thread.filter(|thread| !thread.is_empty()),
            kind: self.kind,
            body: self.body,
            data: self.data.map(|data| data.get().to_owned()),
            meta: self.meta.map(|meta| meta.get().to_owned()),
            reply_to: None,
        })
    }
}
