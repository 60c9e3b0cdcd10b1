//! Answers to questions as messages: the store keeps each one for the history, and an answer that
//! nobody awaits becomes mail of the operator.

use super::{
    Router,
    interface::ClientId,
    questions::Question,
    work::{self, STORED_WORK},
};
use protocol::{
    client_frame::Answer,
    deliver::append_shared,
    envelope::{Envelope, Kind},
    payload::{ANSWER, MessagePayload, Meta},
    record::{AnswerRecord, Change, DeliveryRecord, MessageRecord},
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;
use uuid::Uuid;

/// The number of a stored answer in its stream: it is the only message of a stream of its own.
const ONLY: u64 = 1;

/// The number of that stream in records, which no other stream has.
const NO_STREAM: u64 = 0;

/// The parts of the message that an answer becomes.
pub(super) struct AnswerMessage {
    /// The SEND's id, the same for every repetition of the answer.
    pub(super) id: String,
    payload: Box<RawValue>,
    meta: Box<RawValue>,
}

/// An answer that is only a text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text<'a> {
    #[serde(borrow)]
    body: Cow<'a, str>,
}

/// The data of an answer that is no and has a text.
#[derive(Serialize)]
struct No {
    response: bool,
}

impl AnswerMessage {
    /// Makes the message of the answer to the question with this delivery.
    pub(super) fn new(delivery: Uuid, stated: &Answer) -> Self {
        let meta =
            Meta { requires_ack: true, reply_to: Some(delivery.to_string()), ..Meta::default() };
        let id = format!("{ANSWER}-{delivery}");
        Self { id, payload: payload_of(stated), meta: raw(&meta) }
    }

    /// Returns the message as a SEND to an agent.
    pub(super) fn envelope<'e>(&'e self, to: &'e str) -> Envelope<'e> {
        Envelope {
            kind: Kind::Send,
            id: self.id.as_str().into(),
            from: None,
            to: Some(to.into()),
            topic: None,
            payload: self.payload.get(),
            payload_meta: Some(self.meta.get()),
            delivery: None,
            json: "",
        }
    }
}

impl Router {
    /// Hands the store an answer that came in time, for the history. The asker gets the answer in
    /// any case. Returns the id of its delivery in the history; `None` if one of the two agents is
    /// forgotten.
    pub(super) fn keep_answer(
        &mut self,
        client: ClientId,
        question_id: Uuid,
        stated: &Answer,
    ) -> Option<Uuid> {
        let Question { from: asker, to: sender, .. } = self.questions.get(question_id)?;
        let (asker, sender) = (self.directory.get(*asker)?, self.directory.get(*sender)?);
        let auth = &self.connections.membership(client)?.auth;
        let AnswerMessage { id: send_id, payload, meta } = AnswerMessage::new(question_id, stated);
        let mut shared = Vec::new();
        append_shared(&mut shared, sender.name.as_str(), None, payload.get(), Some(meta.get()));
        self.ctx.spend(STORED_WORK + work::of_bytes(shared.len()));
        let (number, order) = (self.ctx.journal.next_message(), self.ctx.journal.next_delivery());
        let message = MessageRecord {
            number,
            sender: sender.number,
            session: auth.session.clone(),
            proof: auth.proof,
            send_id: send_id.into(),
            to_everyone: false,
            unix_ms: self.ctx.now.unix_ms,
            shared: shared.into(),
        };
        let delivery = DeliveryRecord {
            number: order,
            message: number,
            stream: NO_STREAM,
            to: asker.number,
            to_name: asker.name.clone(),
            seq: ONLY,
            id: self.ctx.delivery_id(order),
            expires: self.ctx.now.monotonic,
            attempts: 1,
            failures: 0,
        };
        let id = delivery.id;
        self.ctx.record(Change::Answer(Box::new(AnswerRecord { message, delivery })));
        Some(id)
    }
}

/// Returns the payload of the message that an answer becomes.
fn payload_of(stated: &Answer) -> Box<RawValue> {
    let data = stated.response_data.as_deref();
    let text = data.and_then(|data| serde_json::from_str::<Text<'_>>(data.get()).ok());
    let is_no = stated.response == Some(false);
    let no = is_no.then(|| raw(&No { response: false }));
    let (body, data) = match (text, data) {
        (Some(text), _) => (text.body, no.as_deref()),
        (None, Some(data)) => ("".into(), Some(data)),
        (None, None) => (if is_no { "no" } else { "yes" }.into(), no.as_deref()),
    };
    raw(&MessagePayload { kind: ANSWER.into(), body, data, thread: None })
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("wire types are JSON")
}
