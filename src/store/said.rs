//! What stands in a message's bytes, as far as the history tells by it. Of bytes that are not as we
//! write them, nothing is known.

use crate::protocol::{
    VERSION,
    envelope::{Envelope, Kind},
    payload::MessagePayload,
};
use std::borrow::Cow;

/// Who spoke, and on which topic: a message begins with that.
pub(super) fn head(shared: &[u8]) -> Option<(&str, Option<Cow<'_, str>>)> {
    let rest = shared.strip_prefix(b"\"from\":\"")?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    let from = str::from_utf8(&rest[..end]).ok()?;
    let topic = rest[end..].strip_prefix(b"\",\"topic\":").map(|rest| {
        // A value, whatever comes after it.
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Cow<'_, str>>();
        values.next()?.ok()
    });
    match topic {
        None => Some((from, None)),
        Some(topic) => Some((from, Some(topic?))),
    }
}

/// The text that was said.
pub(super) fn body(shared: &[u8]) -> Option<String> {
    let (version, kind) = (VERSION, Kind::Deliver.as_str());
    let mut json =
        format!("{{\"v\":{version},\"type\":\"{kind}\",\"id\":\"-\",\"ts\":0,").into_bytes();
    json.extend_from_slice(shared);
    let envelope = Envelope::read(&json).ok()?;
    let spoken: MessagePayload<'_> = envelope.typed(envelope.payload).ok()?;
    Some(spoken.body.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::deliver;

    #[test]
    fn a_message_tells_who_spoke_where_and_what() {
        let said = |topic, payload| {
            let mut shared = Vec::new();
            deliver::append_shared(&mut shared, "Ann", topic, payload, Some("{}"));
            shared
        };
        let shared = said(Some("a\"b"), r#"{"kind":"message","body":"caf\u00e9"}"#);
        assert_eq!(head(&shared), Some(("Ann", Some("a\"b".into()))));
        assert_eq!(body(&shared).as_deref(), Some("café"));
        let shared = said(None, r#"{"body":7}"#);
        assert_eq!(head(&shared), Some(("Ann", None)));
        assert_eq!(body(&shared), None);
        for wrong in [&b"\xff{"[..], b"\"from\":\"", b"\"from\":\"Ann\",\"topic\":\"", b""] {
            assert_eq!((head(wrong), body(wrong)), (None, None));
        }
    }
}
