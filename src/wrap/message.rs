//! Conversions between the client library's messages and the terminal side's.

use client::{Answer, Delivery, Meta, Outgoing, SendId};
use protocol::{
    activity::Activity,
    code::NackCode,
    name::{self, OPERATOR},
    payload::{Group, LoopCount, Nack, Sync},
    relay, typed,
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use terminal::{
    DeliveryFailure, FailureCause, IncomingMessage, OutgoingMessage, SendHandle, UnreadMessage,
};

/// The highest importance of a message that is not urgent.
const IMPORTANCE_USUAL_MAX: f64 = 75.0;

/// Converts a delivery into a message for the terminal side.
pub(super) fn to_type(delivery: &Delivery) -> IncomingMessage {
    IncomingMessage {
        id: delivery.id.clone(),
        from: delivery.from.clone(),
        session: delivery.session.clone(),
        auth: delivery.auth,
        topic: delivery.topic.clone(),
        thread: delivery.thread.clone(),
        urgent: delivery.importance.is_some_and(is_urgent),
        attempt: delivery.attempt,
        hops: delivery.hops,
        requires_ack: delivery.requires_ack,
        body: text_with_data(&delivery.body, delivery.data.as_deref()),
    }
}

/// Returns a text with its data below it, or the data alone if the text is empty.
fn text_with_data(text: &str, data: Option<&RawValue>) -> String {
    match data.map(RawValue::get) {
        None => text.to_owned(),
        Some(data) if text.is_empty() => data.to_owned(),
        Some(data) => format!("{text}\ndata: {data}"),
    }
}

/// Whether a message of this importance is typed before others.
fn is_urgent(importance: f64) -> bool {
    importance > IMPORTANCE_USUAL_MAX
}

/// Converts an answer to the agent's question into a message for the terminal side. The daemon
/// expects no acknowledgement of an answer.
pub(super) fn answer_to_type(send_id: &SendId, answer: &Answer) -> IncomingMessage {
    let Answer { from, response, data } = answer;
    let body = answer.body().or_else(|| data.as_deref().map(|data| data.get().to_owned()));
    let word = || if *response == Some(false) { "no" } else { "yes" }.to_owned();
    IncomingMessage {
        // A question to several agents has several answers.
        id: format!("{send_id}/{from}"),
        from: from.clone(),
        body: body.unwrap_or_else(word),
        attempt: 1,
        ..IncomingMessage::default()
    }
}

/// Converts a notice of the daemon's that a message of the agent's waits. `None` for an unknown
/// notice, which a later daemon may send.
pub(super) fn unread(handle: Option<SendHandle>, delivery: &Delivery) -> Option<UnreadMessage> {
    let unread: relay::Unread<'_> = typed::read(delivery.data.as_deref()?.get()).ok()?;
    let activity = unread.activity.as_deref().and_then(Activity::parse);
    Some(UnreadMessage {
        handle,
        to: unread.to.into_owned(),
        for_ms: unread.for_ms,
        why: unread.why.into_owned(),
        doing: activity.zip(unread.activity_ms),
    })
}

/// Converts the agent's message for the client library. `hops` is the agent's count of messages
/// with the recipient.
///
/// # Errors
/// A sentence, if the recipient is a guest, which accepts only answers, or if a block's `meta` or
/// `data` is not valid.
pub(super) fn to_send(
    message: OutgoingMessage,
    hops: Option<LoopCount>,
) -> Result<Outgoing, String> {
    if name::is_daemons(&message.to) && message.to != OPERATOR {
        return Err("that is a guest's command line, which hears no messages".to_owned());
    }
    let data = message.data.map(RawValue::from_string).transpose();
    let asked = message.meta.as_deref().map_or_else(|| Ok(BlockMeta::default()), typed::read);
    let asked = asked.map_err(|why| format!("the block's `meta` is not valid: {why}"))?;
    Ok(Outgoing {
        id: None,
        to: Some(message.to),
        topic: message.topic,
        kind: message.kind,
        body: message.body,
        data: data.map_err(|error| format!("the block's `data` is not valid: {error}"))?,
        thread: message.thread,
        meta: Meta {
            requires_ack: true,
            ttl_ms: asked.ttl_ms,
            sync: asked.sync,
            importance: asked.importance,
            reply_to: message.reply_to.or(asked.reply_to),
            group: asked.group,
            hops,
        },
    })
}

/// Returns the `meta` of a message to a group of this many agents.
///
/// # Errors
/// A clause, if the block's `meta` is not valid, or if the system has no random bytes.
pub(super) fn meta_of_several(message: &OutgoingMessage, size: usize) -> Result<String, String> {
    let meta = message.meta.as_deref().map_or_else(|| Ok(Map::new()), serde_json::from_str);
    let mut meta = meta.map_err(|why| format!("the block's `meta` is not valid: {why}"))?;
    let id = SendId::random().map_err(|error| error.to_string())?.0;
    let group = json!(Group { id, name: message.to.clone(), size });
    meta.insert("group".to_owned(), group);
    Ok(Value::from(meta).to_string())
}

/// Converts a NACK. `handle` is the message's handle, if the message is still remembered.
pub(super) fn failure(handle: Option<SendHandle>, nack: Nack) -> DeliveryFailure {
    DeliveryFailure {
        handle,
        id: Some(nack.ack_id),
        to: nack.to,
        cause: NackCode::parse(&nack.code).map_or(FailureCause::Unsent, FailureCause::Nack),
        why: nack.message,
    }
}

/// The members of a block's `meta`.
#[derive(Default, Deserialize)]
struct BlockMeta {
    ttl_ms: Option<u64>,
    sync: Option<Sync>,
    #[serde(rename = "replyTo")]
    reply_to: Option<String>,
    importance: Option<u8>,
    group: Option<Box<Group>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note_to_bob() -> OutgoingMessage {
        OutgoingMessage {
            to: "Bob".to_owned(),
            topic: None,
            thread: Some("t".to_owned()),
            kind: "note".to_owned(),
            body: "hello".to_owned(),
            data: None,
            meta: None,
            reply_to: None,
        }
    }

    #[test]
    fn agents_message_requires_an_acknowledgement() {
        let sent = to_send(
            OutgoingMessage { data: Some(r#"{"n": 1}"#.to_owned()), ..note_to_bob() },
            Some(LoopCount { hops: 3, work: 7 }),
        )
        .unwrap();
        assert_eq!(sent.meta.hops, Some(LoopCount { hops: 3, work: 7 }));
        assert!(sent.meta.requires_ack);
        assert_eq!(sent.to.as_deref(), Some("Bob"));
        assert_eq!((sent.kind.as_str(), sent.body.as_str()), ("note", "hello"));
        assert_eq!(sent.data.unwrap().get(), r#"{"n": 1}"#);
    }

    #[test]
    fn message_to_a_guest_is_rejected_and_to_the_operator_sent() {
        let to = |to: &str| to_send(OutgoingMessage { to: to.to_owned(), ..note_to_bob() }, None);
        let why = to("@guest-1a2b3c4d").unwrap_err();
        assert_eq!(why, "that is a guest's command line, which hears no messages");
        let sent = to("@operator").unwrap();
        assert_eq!(sent.to.as_deref(), Some("@operator"));
        assert!(sent.meta.requires_ack);
    }

    #[test]
    fn data_stands_below_the_text() {
        let data = RawValue::from_string(r#"{"n": 1}"#.to_owned()).unwrap();
        assert_eq!(text_with_data("3 failed", Some(&data)), "3 failed\ndata: {\"n\": 1}");
        assert_eq!(text_with_data("", Some(&data)), r#"{"n": 1}"#);
        assert_eq!(text_with_data("3 failed", None), "3 failed");
    }

    #[test]
    fn only_importance_above_75_is_urgent() {
        assert!(is_urgent(76.0) && !is_urgent(75.0));
    }

    #[test]
    fn blocks_meta_is_passed_on_or_rejected() {
        let meta = |meta: &str| {
            to_send(OutgoingMessage { meta: Some(meta.to_owned()), ..note_to_bob() }, None)
        };
        let sent = meta(r#"{"ttl_ms": 500, "replyTo": "d-1", "importance": 9}"#).unwrap();
        assert_eq!((sent.meta.ttl_ms, sent.meta.reply_to.as_deref()), (Some(500), Some("d-1")));
        assert_eq!(sent.meta.importance, Some(9));
        assert!(meta(r#"{"ttl_ms": "soon"}"#).unwrap_err().contains("meta"));
    }

    #[test]
    fn message_to_a_group_is_marked_in_its_meta() {
        let marked = |meta: Option<&str>| {
            let meta = meta.map(str::to_owned);
            let message = OutgoingMessage { to: "@all".to_owned(), meta, ..note_to_bob() };
            let meta = Some(meta_of_several(&message, 2)?);
            to_send(OutgoingMessage { meta, ..note_to_bob() }, None)
        };
        for meta in [None, Some(r#"{"ttl_ms": 500}"#)] {
            let sent = marked(meta).unwrap().meta;
            let group = sent.group.unwrap();
            assert_eq!(
                (&*group.name, group.size, sent.ttl_ms.is_some()),
                ("@all", 2, meta.is_some())
            );
        }
        assert!(marked(Some("[]")).unwrap_err().contains("meta"));
    }

    #[test]
    fn nack_keeps_its_message_recipient_and_code() {
        let nack =
            Nack { to: Some("Bob".to_owned()), ..Nack::new("s-1", NackCode::Expired, "why") };
        let refused = failure(Some(SendHandle(3)), nack.clone());
        assert_eq!((refused.handle, refused.id.as_deref()), (Some(SendHandle(3)), Some("s-1")));
        assert_eq!((refused.to.as_deref(), refused.why.as_str()), (Some("Bob"), "why"));
        assert_eq!(refused.cause, FailureCause::Nack(NackCode::Expired));
        let newer = failure(None, Nack { code: "FROM_LATER_ON".to_owned(), ..nack });
        assert_eq!((newer.handle, newer.cause), (None, FailureCause::Unsent));
    }
}
