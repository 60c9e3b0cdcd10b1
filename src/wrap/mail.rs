//! Messages as the client library has them, and as the bridge has them.

use crate::{
    bridge::{DeliveryFailure, FailureCause, IncomingMessage, OutgoingMessage, SendHandle},
    client::{Answer, Delivery, Meta, Outgoing, SendId},
    protocol::{
        code::NackCode,
        name::{self, OPERATOR},
        payload::{Nack, Sync},
        typed,
    },
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message whose `importance` is above this goes before others.
const IMPORTANCE_USUAL_MAX: f64 = 75.0;

/// What arrived, to be typed.
pub(super) fn incoming(delivery: &Delivery) -> IncomingMessage {
    // A message that is nothing but data is read as what it is.
    let body = match &delivery.data {
        Some(data) if delivery.body.is_empty() => data.get().to_owned(),
        _ => delivery.body.clone(),
    };
    IncomingMessage {
        id: delivery.id.clone(),
        from: delivery.from.clone(),
        session: delivery.session.clone(),
        auth: delivery.auth,
        urgent: delivery.importance.is_some_and(is_urgent),
        attempt: delivery.attempt,
        body,
    }
}

/// Whether a message of this importance goes before others.
fn is_urgent(importance: f64) -> bool {
    importance > IMPORTANCE_USUAL_MAX
}

/// What somebody answered to a question of the agent's, to be typed: as a message of its own, which nobody
/// waits to see acknowledged.
pub(super) fn answered(send_id: &SendId, answer: &Answer) -> IncomingMessage {
    let Answer { from, response, data } = answer;
    let body = answer.body().or_else(|| data.as_deref().map(|data| data.get().to_owned()));
    let word = || if *response == Some(false) { "no" } else { "yes" }.to_owned();
    IncomingMessage {
        // Several may answer one question.
        id: format!("{send_id}/{from}"),
        from: from.clone(),
        body: body.unwrap_or_else(word),
        attempt: 1,
        ..IncomingMessage::default()
    }
}

/// What the agent said, to be sent: to other agents, and to nobody who may only be answered. Errors are
/// sentences about that, and about what a block asked for.
pub(super) fn outgoing(said: OutgoingMessage) -> Result<Outgoing, String> {
    if name::is_daemons(&said.to) {
        let whose = if said.to == OPERATOR { "your user's" } else { "a guest's" };
        return Err(format!("that is {whose} command line, which hears no messages"));
    }
    let data = said.data.map(RawValue::from_string).transpose();
    let asked = said.meta.as_deref().map_or_else(|| Ok(BlockMeta::default()), typed::read);
    let asked = asked.map_err(|why| format!("the block's `meta` can't be used: {why}"))?;
    Ok(Outgoing {
        to: Some(said.to),
        topic: said.topic,
        kind: said.kind,
        body: said.body,
        data: data.map_err(|error| format!("the block's `data` can't be used: {error}"))?,
        thread: said.thread,
        meta: Meta {
            requires_ack: true,
            ttl_ms: asked.ttl_ms,
            sync: asked.sync,
            importance: asked.importance,
            reply_to: said.reply_to.or(asked.reply_to),
        },
    })
}

/// What the daemon says of a message that did not arrive, whenever it says it.
pub(super) fn refusal(handle: Option<SendHandle>, nack: Nack) -> DeliveryFailure {
    DeliveryFailure {
        handle,
        id: Some(nack.ack_id),
        to: nack.to,
        cause: NackCode::parse(&nack.code).map_or(FailureCause::Unsent, FailureCause::Nack),
        why: nack.message,
    }
}

/// What a block's `meta` may ask of the relay.
#[derive(Default, Deserialize)]
struct BlockMeta {
    ttl_ms: Option<u64>,
    sync: Option<Sync>,
    #[serde(rename = "replyTo")]
    reply_to: Option<String>,
    importance: Option<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> OutgoingMessage {
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
    fn what_an_agent_says_is_sent_at_least_once() {
        let sent =
            outgoing(OutgoingMessage { data: Some(r#"{"n": 1}"#.to_owned()), ..said() }).unwrap();
        assert!(sent.meta.requires_ack);
        assert_eq!(sent.to.as_deref(), Some("Bob"));
        assert_eq!((sent.kind.as_str(), sent.body.as_str()), ("note", "hello"));
        assert_eq!(sent.data.unwrap().get(), r#"{"n": 1}"#);
    }

    #[test]
    fn what_would_go_to_a_command_line_is_not_sent() {
        for (to, whose) in [("@operator", "your user's"), ("@guest-1a2b3c4d", "a guest's")] {
            let why = outgoing(OutgoingMessage { to: to.to_owned(), ..said() }).unwrap_err();
            assert_eq!(why, format!("that is {whose} command line, which hears no messages"));
        }
    }

    #[test]
    fn only_importance_above_75_is_urgent() {
        assert!(is_urgent(76.0) && !is_urgent(75.0));
    }

    #[test]
    fn a_blocks_meta_is_passed_on_or_refused() {
        let meta = |meta: &str| outgoing(OutgoingMessage { meta: Some(meta.to_owned()), ..said() });
        let sent = meta(r#"{"ttl_ms": 500, "replyTo": "d-1", "importance": 9}"#).unwrap();
        assert_eq!((sent.meta.ttl_ms, sent.meta.reply_to.as_deref()), (Some(500), Some("d-1")));
        assert_eq!(sent.meta.importance, Some(9));
        assert!(meta(r#"{"ttl_ms": "soon"}"#).unwrap_err().contains("meta"));
    }
    #[test]
    fn a_nack_names_its_message_its_recipient_and_its_code() {
        let nack =
            Nack { to: Some("Bob".to_owned()), ..Nack::new("s-1", NackCode::Expired, "why") };
        let told = refusal(Some(SendHandle(3)), nack.clone());
        assert_eq!((told.handle, told.id.as_deref()), (Some(SendHandle(3)), Some("s-1")));
        assert_eq!((told.to.as_deref(), told.why.as_str()), (Some("Bob"), "why"));
        assert_eq!(told.cause, FailureCause::Nack(NackCode::Expired));
        let newer = refusal(None, Nack { code: "FROM_LATER_ON".to_owned(), ..nack });
        assert_eq!((newer.handle, newer.cause), (None, FailureCause::Unsent));
    }
}
