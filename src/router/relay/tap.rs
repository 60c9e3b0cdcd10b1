//! What is routed, shown to those who asked for it.

use super::raw;
use crate::{
    protocol::{
        name::EVERYONE,
        relay::{TAP, TapCopy},
    },
    router::{
        ClientId, Router,
        client::{Tap, What},
        message::HEAD_BYTES,
        send::{Said, Taken},
    },
};
use serde_json::value::RawValue;

impl Router {
    /// Shows a SEND that was taken to everyone who taps. Who is too slow loses it, and will be told.
    pub(in crate::router) fn copy_to_taps(
        &mut self,
        said: &Said<'_>,
        recipients: u64,
        one: Option<Taken>,
    ) {
        for place in 0..self.taps.len() {
            self.copy_to_tap(self.taps[place], said, recipients, one.as_ref());
        }
    }

    fn copy_to_tap(
        &mut self,
        client: ClientId,
        said: &Said<'_>,
        recipients: u64,
        one: Option<&Taken>,
    ) {
        let window_bytes = self.limits.window_bytes;
        // Room for the copy's own fields, and for header strings with escapes in them.
        let bytes = said.bytes + 4 * HEAD_BYTES;
        let fits = bytes <= self.limits.frame_bytes_max;
        let has_room = self.clients[&client].window.has_room(bytes, window_bytes);
        let Some(Tap { asked, lost }) = self.seat_mut(client).and_then(|s| s.tap.as_mut()) else {
            return;
        };
        if !has_room {
            *lost += 1;
            return;
        }
        let (asked, lost) = (asked.clone(), std::mem::take(lost));
        let envelope = said.envelope;
        let json = |text: &'_ str| serde_json::from_str::<Box<RawValue>>(text).ok();
        let payload = fits.then(|| json(envelope.payload)).flatten();
        let payload_meta = envelope.payload_meta.filter(|_| fits).and_then(json);
        let copy = raw(&TapCopy {
            id: one.map(|taken| taken.id.to_string().into()),
            send_id: (&*envelope.id).into(),
            from: self.roster[said.from].name.as_str().into(),
            to: envelope.to.as_deref().unwrap_or(EVERYONE).into(),
            topic: envelope.topic.as_deref().map(Into::into),
            seq: one.map(|taken| taken.seq),
            recipients,
            requires_ack: said.requires_ack,
            payload: payload.as_deref(),
            payload_meta: payload_meta.as_deref(),
            lost,
        });
        if let Some(frame) = self.relay_frame(client, TAP, "", &copy, &asked) {
            self.hand(client, frame, What::Copy);
        }
    }
}
