//! Redelivery of dead letters with their old ids and numbers, but with new counts of attempts and
//! failures and a new time to live.

use super::{
    Router,
    keys::{AgentKey, StreamKey},
    mail::{HEAD_BYTES_MAX, RECORD_BYTES, Sent},
    send_digest::SendDigest,
    send_request::Refusal,
    sender::SenderAuth,
};
use protocol::{
    code::NackCode,
    deliver::Shared,
    payload::SendMeta,
    record::{Change, DeliveryRecord, DeliveryRow, Ending, StreamRecord},
    relay::Redelivered,
};
use std::sync::Arc;

impl Router {
    /// Redelivers the dead letters among these deliveries. An error means that none of them can be
    /// redelivered.
    pub(super) fn redeliver(&mut self, rows: &[DeliveryRow]) -> Result<Redelivered, Refusal> {
        // A dead letter may have been redelivered or acknowledged since the store found it.
        let is_dead = |row: &&DeliveryRow| {
            matches!(row.ended, Some((Ending::Dead { .. }, _)))
                && self.mail.is_still_dead_letter(row.delivery.id)
        };
        let dead: Vec<_> = rows.iter().rev().filter(is_dead).collect();
        let (mut done, mut refused) = (Redelivered::default(), None);
        for row in &dead {
            match self.redeliver_one(row) {
                Ok(()) => done.redelivered += 1,
                Err(why) => {
                    done.left += 1;
                    refused.get_or_insert(why);
                }
            }
        }
        match refused {
            None if dead.is_empty() => {
                let message = "it is no dead letter: it waits, or was acknowledged".to_owned();
                Err((NackCode::Invalid, message))
            }
            Some(why) if done.redelivered == 0 => Err(why),
            refused => Ok(Redelivered { why: refused.map(|(_, why)| why), ..done }),
        }
    }

    fn redeliver_one(&mut self, row: &DeliveryRow) -> Result<(), Refusal> {
        let (delivery, bytes) = (&row.delivery, row.message.shared.len() + HEAD_BYTES_MAX);
        let name = &delivery.to_name;
        if row.message.sender == 0 {
            let message = "its text is damaged in the store".to_owned();
            return Err((NackCode::StoreFailed, message));
        }
        let Some(to) = self.directory.find_recorded(delivery.to, name.as_str()) else {
            let message = format!("the name {name} was forgotten, and its mail with it");
            return Err((NackCode::UnknownAgent, message));
        };
        let shared = Shared::read(&row.message.shared);
        let (stream, from) = self.stream_of(row, to, shared.as_ref())?;
        if let Some(why) = self.lack_of_room(to, from, bytes) {
            self.mail.close_if_over(&mut self.ctx, stream);
            return Err((NackCode::Limit, why));
        }
        let meta = stated_meta(shared.as_ref());
        let limits = &self.ctx.limits;
        let ttl_ms = limits.ttl_of(&meta, self.directory[to].name.as_str()).max(limits.ttl_ms);
        let expires = self.ctx.now.monotonic.plus(ttl_ms);
        self.ctx.record(Change::Redelivered { delivery: delivery.number, expires });
        self.mail.forget_dead_letter(delivery.id);
        let fresh = DeliveryRecord { expires, failures: 0, ..delivery.clone() };
        // The redelivery does not count as an open delivery in the sender's dedup window.
        let digest = SendDigest::default();
        let (ctx, message) = (&mut self.ctx, &row.message);
        let sent = Arc::new(Sent::restored(from, message, SenderAuth::of_record(message)));
        self.mail.restore_message(ctx, stream, &fresh, (message, sent), 0, digest);
        self.notify_redelivered(delivery.id);
        self.pump(to);
        Ok(())
    }

    /// Returns why there is no room for a message, if there is none.
    fn lack_of_room(&mut self, to: AgentKey, from: AgentKey, bytes: usize) -> Option<String> {
        if !self.mail.has_room(&self.ctx, to, from, bytes) {
            let (name, waiting) = (&self.directory[to].name, self.mail.queued(to).0);
            let words = format!("{waiting} messages are in its queue; try again later");
            return Some(format!("{name} has no room: {words}"));
        }
        let has_shares = self.has_memory_for(from, bytes + RECORD_BYTES)
            && self.ctx.has_share_of_mail(from, bytes);
        let why = "mail of its sender has used up the sender's share; try again later";
        (!has_shares).then(|| why.to_owned())
    }

    /// Returns the stream on which a dead letter is redelivered, and the stream's sender. A stream
    /// that was closed is opened again; if its sender is forgotten, for redelivered messages only.
    fn stream_of(
        &mut self,
        row: &DeliveryRow,
        to: AgentKey,
        shared: Option<&Shared<'_>>,
    ) -> Result<(StreamKey, AgentKey), Refusal> {
        let (number, sender) = (row.delivery.stream, row.message.sender);
        let topic = shared.and_then(|shared| shared.topic.as_deref());
        if let Some(key) = self.mail.find_stream_to(to, sender, topic)
            && let Some(stream) = self.mail.stream(key)
        {
            return Ok((key, stream.from()));
        }
        let from = shared.and_then(|shared| self.directory.find_recorded(sender, &shared.from));
        let payer = from.unwrap_or_else(|| self.directory.unused_key());
        if !self.mail.has_room_for_stream(&mut self.ctx, payer) {
            return Err((NackCode::Limit, self.too_many_streams()));
        }
        if let Some(from) = from {
            let key = self.mail.open_stream(&mut self.ctx, from, to, topic);
            self.mail.record_stream(&mut self.ctx, key);
            return Ok((key, from));
        }
        let ghost = payer;
        let (to_number, topic) = (row.delivery.to, topic.map(Into::into));
        let record = StreamRecord { number, from: sender, to: to_number, topic, reserved: 0 };
        let key = self.mail.restore_orphan(&mut self.ctx, &record, ghost, to, row.delivery.seq);
        self.ctx.record(Change::Stream(Box::new(record)));
        Ok((key, ghost))
    }
}

/// Returns the `payload_meta` of a dead letter's SEND. A redelivered dead letter gets the time to
/// live that it states again, but at least the default, so that a message with a short time does
/// not expire again at once.
fn stated_meta(shared: Option<&Shared<'_>>) -> SendMeta {
    let meta = shared.and_then(|shared| shared.payload_meta);
    meta.and_then(|meta| serde_json::from_str(meta.get()).ok()).unwrap_or_default()
}
