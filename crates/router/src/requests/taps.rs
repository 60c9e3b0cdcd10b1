//! Copies of all routed messages, for the clients that tap.

use super::rows::raw;
use crate::{
    Router,
    connections::Content,
    keys::{AgentKey, MessageKey},
    mail::HEAD_BYTES_MAX,
    send_request::{Queued, SendRequest},
};
use protocol::{
    deliver::Shared,
    name::{EVERYONE, Name},
    payload::Ack,
    relay::{TAP, TapAnswer, TapCopy},
};
use serde_json::value::RawValue;
use uuid::Uuid;

impl Router {
    /// Copies an accepted SEND to all taps. `queued` is its message, if it has one recipient.
    pub(crate) fn copy_to_taps(
        &mut self,
        send: &SendRequest<'_>,
        recipients: u64,
        queued: Option<Queued>,
    ) {
        let envelope = send.envelope;
        self.copy_to_all(send.bytes, |router, fits, lost| {
            let json = |text: &'_ str| serde_json::from_str::<Box<RawValue>>(text).ok();
            let payload = fits.then(|| json(envelope.payload)).flatten();
            let payload_meta = envelope.payload_meta.filter(|_| fits).and_then(json);
            raw(&TapCopy {
                id: queued.as_ref().map(|queued| queued.id.to_string().into()),
                topic: envelope.topic.as_deref().map(Into::into),
                seq: queued.as_ref().map(|queued| queued.seq),
                recipients,
                requires_ack: send.requires_ack,
                payload: payload.as_deref(),
                payload_meta: payload_meta.as_deref(),
                lost,
                ..TapCopy::new(
                    &envelope.id,
                    router.directory[send.from].name.as_str(),
                    envelope.to.as_deref().unwrap_or(EVERYONE),
                )
            })
        });
    }

    /// Copies a message that was accepted for these deliveries to all taps.
    pub(crate) fn copy_accepted_to_taps(&mut self, deliveries: &[MessageKey]) {
        if self.requests.taps().is_empty() {
            return;
        }
        let Some(message) = deliveries.iter().find_map(|key| self.mail.message(*key)) else {
            return;
        };
        let (sent, bytes) = (message.sent.clone(), message.bytes);
        let (id, seq, to) = (message.id.to_string(), message.seq, message.to);
        let Some(shared) = Shared::read(&sent.shared) else { return };
        let is_single = !sent.to_everyone;
        self.copy_to_all(bytes, |router, fits, lost| {
            let to = router.directory.name(to).filter(|_| is_single);
            raw(&TapCopy {
                id: is_single.then(|| id.as_str().into()),
                topic: shared.topic.as_deref().map(Into::into),
                seq: is_single.then_some(seq),
                recipients: deliveries.len() as u64,
                requires_ack: true,
                payload: Some(shared.payload).filter(|_| fits),
                payload_meta: shared.payload_meta.filter(|_| fits),
                lost,
                ..TapCopy::new(sent.id.as_str(), &shared.from, to.map_or(EVERYONE, Name::as_str))
            })
        });
    }

    /// Copies the answer to a question to all taps. `question` is its delivery, and `kept` that of
    /// the answer in the history. `from` has answered, `to` has asked, and `bytes` is the length of
    /// the answer's frame.
    pub(crate) fn copy_answer_to_taps(
        &mut self,
        (question, kept): (Uuid, Option<Uuid>),
        (from, to): (AgentKey, AgentKey),
        answer: &Ack<'_>,
        bytes: usize,
    ) {
        self.copy_to_all(bytes, |router, fits, lost| {
            let name = |agent| router.directory.name(agent).map_or("", |name| name.as_str());
            let answered = TapAnswer {
                id: kept.map(|id| id.to_string().into()),
                response: answer.response,
                response_data: answer.response_data.filter(|_| fits),
            };
            raw(&TapCopy {
                id: Some(question.to_string().into()),
                recipients: 1,
                answer: fits.then_some(answered),
                lost,
                ..TapCopy::new(&answer.ack_id, name(from), name(to))
            })
        });
    }

    /// Hands a copy to each tap. `copy` makes it, given whether the content fits into a frame and
    /// how many copies were lost before. A tap whose window is full loses the copy.
    fn copy_to_all(&mut self, bytes: usize, copy: impl Fn(&Self, bool, u64) -> Box<RawValue>) {
        // Room for the copy's own fields, and for header strings with escapes in them.
        let bytes = bytes + 4 * HEAD_BYTES_MAX;
        for index in 0..self.requests.taps().len() {
            let tap = &self.requests.taps()[index];
            if tap.has_changes {
                continue;
            }
            let (client, request) = (tap.client, tap.request.clone());
            if !self.connections.has_room(&self.ctx, client, bytes) {
                self.requests.note_lost_copy(index);
                continue;
            }
            let lost = self.requests.take_lost_copies(index);
            let copy = copy(self, bytes <= self.ctx.limits.frame_bytes_max, lost);
            if let Some(frame) = self.relay_frame(client, TAP, "", &copy, &request) {
                self.connections.hand(&mut self.ctx, client, frame, Content::Copy);
            }
        }
    }
}
