//! What is routed, shown to those who asked for it.

use super::raw;
use crate::{
    protocol::{
        name::EVERYONE,
        payload::Ack,
        relay::{TAP, TapAnswer, TapCopy},
    },
    router::{
        Router,
        asking::Question,
        client::What,
        message::HEAD_BYTES,
        send::{Said, Taken},
    },
};
use serde_json::value::RawValue;
use uuid::Uuid;

impl Router {
    /// Shows a SEND that was taken to everyone who taps.
    pub(in crate::router) fn copy_to_taps(
        &mut self,
        said: &Said<'_>,
        recipients: u64,
        one: Option<Taken>,
    ) {
        let envelope = said.envelope;
        self.show_taps(said.bytes, |router, fits, lost| {
            let json = |text: &'_ str| serde_json::from_str::<Box<RawValue>>(text).ok();
            let payload = fits.then(|| json(envelope.payload)).flatten();
            let payload_meta = envelope.payload_meta.filter(|_| fits).and_then(json);
            raw(&TapCopy {
                id: one.as_ref().map(|taken| taken.id.to_string().into()),
                topic: envelope.topic.as_deref().map(Into::into),
                seq: one.as_ref().map(|taken| taken.seq),
                recipients,
                requires_ack: said.requires_ack,
                payload: payload.as_deref(),
                payload_meta: payload_meta.as_deref(),
                lost,
                ..TapCopy::new(
                    &envelope.id,
                    router.roster[said.from].name.as_str(),
                    envelope.to.as_deref().unwrap_or(EVERYONE),
                )
            })
        });
    }

    /// Shows the answer to a question, whose frame is so long, to everyone who taps.
    pub(in crate::router) fn copy_answer_to_taps(
        &mut self,
        delivery: Uuid,
        question: &Question,
        answer: &Ack<'_>,
        bytes: usize,
    ) {
        self.show_taps(bytes, |router, fits, lost| {
            let name = |agent| router.roster.get(agent).map_or("", |agent| agent.name.as_str());
            let words = TapAnswer {
                response: answer.response,
                response_data: answer.response_data.filter(|_| fits),
            };
            raw(&TapCopy {
                id: Some(delivery.to_string().into()),
                recipients: 1,
                answer: fits.then_some(words),
                lost,
                ..TapCopy::new(&answer.ack_id, name(question.to), name(question.from))
            })
        });
    }

    /// Shows everyone who taps what `copy` makes of whether it fits into a frame, and of how many were lost before it.
    /// Who is too slow loses it, and will be told.
    fn show_taps(&mut self, bytes: usize, copy: impl Fn(&Self, bool, u64) -> Box<RawValue>) {
        // Room for the copy's own fields, and for header strings with escapes in them.
        let bytes = bytes + 4 * HEAD_BYTES;
        for place in 0..self.taps.len() {
            let client = self.taps[place];
            let has_room = self.clients[&client].window.has_room(bytes, self.limits.window_bytes);
            let Some(tap) = self.seat_mut(client).and_then(|seat| seat.tap.as_mut()) else {
                continue;
            };
            if !has_room {
                tap.lost += 1;
                continue;
            }
            let (asked, lost) = (tap.asked.clone(), std::mem::take(&mut tap.lost));
            let copy = copy(self, bytes <= self.limits.frame_bytes_max, lost);
            if let Some(frame) = self.relay_frame(client, TAP, "", &copy, &asked) {
                self.hand(client, frame, What::Copy);
            }
        }
    }
}
