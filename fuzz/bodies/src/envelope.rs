//! Fuzzing of the envelope's reader. The reader and serde_json must accept the same bytes as JSON,
//! with the same values.

use protocol::{
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

/// Reads the bytes as a frame's JSON.
pub fn run(bytes: &[u8]) {
    let stated = envelope::stated_kind(bytes);
    match Envelope::read(bytes) {
        Ok(envelope) => {
            assert!(is_object(bytes), "what was read is JSON");
            assert_eq!(stated, Some(envelope.kind));
            check_against_tree(bytes, &envelope);
            check_round_trip(&envelope);
            check_typed_payloads(&envelope);
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

/// Reports whether serde_json reads the bytes as an object, with only white space around it.
fn is_object(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let first = text.trim_start_matches([' ', '\t', '\r', '\n']).as_bytes().first();
    first == Some(&b'{') && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Reports whether the JSON may be nested too deep, which the reader checks before the rest of the
/// grammar.
fn is_deep(bytes: &[u8]) -> bool {
    bytes.iter().filter(|byte| b"{[".contains(byte)).count() > DEPTH_MAX
}

/// Checks that the tree of serde_json has the same header. No tree is compared if serde_json
/// rejects JSON that the relay passes on.
fn check_against_tree(bytes: &[u8], envelope: &Envelope<'_>) {
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

/// Checks that a frame that is written from the envelope is read as the same envelope.
fn check_round_trip(envelope: &Envelope<'_>) {
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
    header.append_raw(&mut frame, members);
    let reread = Envelope::read(&frame[PREFIX..]).expect("a written envelope is readable");
    assert_eq!((reread.kind, &reread.id), (envelope.kind, &envelope.id));
    assert_eq!(
        (&reread.from, &reread.to, &reread.topic),
        (&envelope.from, &envelope.to, &envelope.topic)
    );
    assert_eq!((reread.payload, reread.payload_meta), (envelope.payload, envelope.payload_meta));
}

/// Checks that each type of payload is read, or refused with a sentence.
fn check_typed_payloads(envelope: &Envelope<'_>) {
    macro_rules! typed {
        ($($type:ty),*) => {
            $(if let Err(violation) = envelope.decode_member::<$type>(envelope.payload) {
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
