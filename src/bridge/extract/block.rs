//! The block form: `[[RELAY]]`, a JSON object, `[[/RELAY]]`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::Start;
use super::target::{Target, shown};
use crate::bridge::outgoing::OutgoingMessage;
use crate::protocol::{payload::THREAD_BYTES_MAX, topic, typed};

pub(super) const BEGIN: &str = "[[RELAY]]";
const END: &str = "[[/RELAY]]";

/// Where the JSON begins in a line that begins a block.
pub(super) fn begins(line: &str) -> Option<usize> {
    let rest = Start::of(line)?.rest.strip_prefix(BEGIN)?;
    Some(line.len() - rest.len())
}

/// Where the JSON ends in a line that ends a block.
pub(super) fn ends(line: &str) -> Option<usize> {
    line.find(END)
}

/// What a block may hold; what else stands in it is ignored.
#[derive(Deserialize)]
struct Fields<'a> {
    to: String,
    #[serde(rename = "type")]
    kind: String,
    body: String,
    topic: Option<String>,
    thread: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
}

/// Reads a block. `texts` are ways to put its rows together, the likeliest first; the first that is
/// JSON counts. The sentence says why none is a message.
pub(super) fn read(texts: &[String]) -> Result<OutgoingMessage, String> {
    let mut reason = None;
    for text in texts {
        match typed::read::<Fields<'_>>(text.trim()) {
            Ok(fields) => return fields.message(),
            Err(why) => _ = reason.get_or_insert(why),
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
            return Err(format!("`{}` is no topic one can send to", shown(topic)));
        }
        if self.thread.as_ref().is_some_and(|thread| thread.len() > THREAD_BYTES_MAX) {
            return Err(format!("`thread` is longer than {THREAD_BYTES_MAX} bytes"));
        }
        if self.meta.is_some_and(|meta| !meta.get().starts_with('{')) {
            return Err("`meta` is no object".to_owned());
        }
        Ok(OutgoingMessage {
            to,
            kind: self.kind,
            body: self.body,
            thread: self.thread.filter(|thread| !thread.is_empty()),
            topic: topic.or(self.topic),
            reply_to: None,
            data: self.data.map(|data| data.get().to_owned()),
            meta: self.meta.map(|meta| meta.get().to_owned()),
        })
    }
}
