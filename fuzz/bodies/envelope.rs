//! The envelope's reader and serde_json agree on what is JSON, and on what it says.

use agent_relay::protocol::{
    code::ErrorCode,
    deliver,
    envelope::{self, DEPTH_MAX, Envelope, Header, ID_BYTES_MAX, Kind},
    frame::PREFIX,
    payload::{
        Ack, Busy, Bye, ErrorPayload, Heartbeat, Hello, MessagePayload, Nack, Resume, SendMeta,
        SyncInfo, Welcome,
    },
    relay::Page,
};
use serde_json::{Value, value::RawValue};

/// Judges the bytes as a frame's JSON.
pub(crate) fn run(bytes: &[u8]) {
    let stated = envelope::stated_kind(bytes);
    match Envelope::read(bytes) {
        Ok(envelope) => {
            assert!(is_object(bytes), "what was read is JSON");
            assert_eq!(stated, Some(envelope.kind));
            agrees_with_a_tree(bytes, &envelope);
            is_written_as_it_was_read(&envelope);
            type_all(&envelope);
        }
        Err(violation) => {
            assert!(!violation.message.is_empty() && violation.message.len() < 1024);
            if violation.code == ErrorCode::BadFrame {
                assert!(!is_object(bytes), "what is JSON is no bad frame: {violation}");
            } else {
                assert!(is_object(bytes) || is_deep(bytes), "{violation}");
            }
        }
    }
}

/// What serde_json takes for an object, with white space around it at most.
fn is_object(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let first = text.trim_start_matches([' ', '\t', '\r', '\n']).as_bytes().first();
    first == Some(&b'{') && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Whether it may be too deep: depth is judged before the rest of the grammar.
fn is_deep(bytes: &[u8]) -> bool {
    bytes.iter().filter(|byte| b"{[".contains(byte)).count() > DEPTH_MAX
}

/// A tree of the same text has the same header. (A tree refuses some JSON that the relay passes on.)
fn agrees_with_a_tree(bytes: &[u8], envelope: &Envelope<'_>) {
    assert!((1..=ID_BYTES_MAX).contains(&envelope.id.len()));
    for object in [Some(envelope.payload), envelope.payload_meta, envelope.delivery] {
        assert!(object.is_none_or(|object| is_object(object.as_bytes())));
    }
    let Ok(tree) = serde_json::from_slice::<Value>(bytes) else { return };
    assert_eq!(tree["v"], 1);
    assert_eq!(tree["type"], envelope.kind.as_str());
    assert_eq!(tree["id"], *envelope.id);
    assert!(tree["ts"].is_number());
    let texts = [("from", &envelope.from), ("to", &envelope.to), ("topic", &envelope.topic)];
    for (name, text) in texts {
        assert_eq!(tree.get(name).and_then(Value::as_str), text.as_deref(), "{name}");
    }
    let objects = [
        ("payload", Some(envelope.payload)),
        ("payload_meta", envelope.payload_meta),
        ("delivery", envelope.delivery),
    ];
    for (name, text) in objects {
        let object = text.map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(tree.get(name), object.as_ref(), "{name}");
    }
}

/// Its own writer's frame is read as the same.
fn is_written_as_it_was_read(envelope: &Envelope<'_>) {
    let header = Header {
        from: envelope.from.as_deref(),
        to: envelope.to.as_deref(),
        topic: envelope.topic.as_deref(),
        ..Header::new(envelope.kind, &envelope.id, 7)
    };
    let meta = envelope.payload_meta.map(|meta| ("payload_meta", meta));
    let members: Vec<_> =
        [Some(("payload", envelope.payload)), meta].into_iter().flatten().collect();
    let mut frame = Vec::new();
    header.append_raw(&mut frame, &members);
    let again = Envelope::read(&frame[PREFIX..]).expect("what is written can be read");
    assert_eq!((again.kind, &again.id), (envelope.kind, &envelope.id));
    assert_eq!(
        (&again.from, &again.to, &again.topic),
        (&envelope.from, &envelope.to, &envelope.topic)
    );
    assert_eq!((again.payload, again.payload_meta), (envelope.payload, envelope.payload_meta));
}

/// Whatever type a payload is taken for, it is that or it is refused with a sentence.
fn type_all(envelope: &Envelope<'_>) {
    macro_rules! typed {
        ($($type:ty),*) => {
            $(if let Err(violation) = envelope.typed::<$type>(envelope.payload) {
                assert!(violation.code == ErrorCode::Invalid && !violation.message.is_empty());
                assert_eq!(violation.reference.as_deref(), Some(&*envelope.id));
            })*
        };
    }
    typed!(
        Ack<'_>,
        Busy,
        Bye,
        ErrorPayload,
        Heartbeat,
        Hello,
        Nack,
        Page,
        Resume,
        SendMeta,
        MessagePayload<'_>,
        SyncInfo,
        Welcome
    );
    if envelope.kind == Kind::Deliver {
        drop(deliver::read(envelope));
    }
}
