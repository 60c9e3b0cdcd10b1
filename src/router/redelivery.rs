//! Dead letters that are to be delivered again, as if they were new: with their ids and numbers.

use super::{
    AgentKey, Router, StreamKey,
    alarm::Alarm,
    doubles::Content,
    message::{Body, HEAD_BYTES, Kept, Message, SendId, Speaker, State},
    send::Refusal,
};
use crate::protocol::{code::NackCode, deliver::Shared, payload::SendMeta, relay::Redelivered};
use crate::record::{Change, DeliveryRow, Ending, StreamRecord};

impl Router {
    /// Takes up those of these deliveries that are dead letters. Refused if none can be.
    pub(super) fn redeliver(&mut self, rows: &[DeliveryRow]) -> Result<Redelivered, Refusal> {
        let dead: Vec<_> = rows.iter().rev().filter(|row| self.is_dead_letter(row)).collect();
        let (mut done, mut refused) = (Redelivered::default(), None);
        for row in &dead {
            match self.revive(row) {
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

    /// Since the store looked, it may have come back, or be acknowledged.
    fn is_dead_letter(&self, row: &DeliveryRow) -> bool {
        matches!(row.ended, Some((Ending::Dead { .. }, _)))
            && !self.deliveries.contains_key(&row.delivery.id)
            && !self.dead.is_acknowledged(row.delivery.id)
    }

    fn revive(&mut self, row: &DeliveryRow) -> Result<(), Refusal> {
        let (delivery, bytes) = (&row.delivery, row.message.shared.len() + HEAD_BYTES);
        let name = &delivery.to_name;
        let to = self.roster.find(name.as_str());
        let Some(to) = to.filter(|to| self.roster[*to].number == delivery.to) else {
            let message = format!("the name {name} was forgotten, and its mail with it");
            return Err((NackCode::UnknownAgent, message));
        };
        let said = Shared::read(&row.message.shared);
        let stream = self.stream_again(row, to, said.as_ref())?;
        let from = self.streams[stream].from();
        if let Err(why) = self.room_again(to, from, bytes) {
            self.close_if_over(stream);
            return Err(why);
        }
        let expires = self.now.monotonic.plus(self.ttl_ms_again(said.as_ref()));
        self.keep(Change::Redelivered { delivery: delivery.number, expires });
        self.dead.remove(delivery.id);
        let key = self.messages.insert(Message {
            from,
            by: None,
            to,
            stream,
            seq: delivery.seq,
            order: delivery.number,
            send_id: SendId::new(&row.message.send_id),
            bytes,
            expires,
            alarm: expires,
            is_replay: false,
            body: Body::Kept(kept_again(row)),
        });
        self.alarms.set(expires, Alarm::Message(key));
        self.deliveries.insert(delivery.id, key);
        let waits_in = &mut self.streams[stream];
        waits_in.last_order = waits_in.last_order.max(delivery.number);
        waits_in.wait(delivery.seq, key);
        self.roster[to].outbox.charge(from, bytes);
        self.memory.inside += bytes;
        self.refresh_turn(stream);
        self.pump(to);
        Ok(())
    }

    /// As long as it had, and no shorter than usual: what expired for being in a hurry isn't to do so again.
    fn ttl_ms_again(&self, said: Option<&Shared<'_>>) -> u64 {
        let meta = said.and_then(|said| said.payload_meta);
        let meta: Option<SendMeta> = meta.and_then(|meta| serde_json::from_str(meta.get()).ok());
        meta.and_then(|meta| meta.ttl_ms).unwrap_or_default().max(self.limits.ttl_ms)
    }

    /// The stream that it was in, or that was opened in place of that one. Where its sender is forgotten, it
    /// is open again for what comes back alone.
    fn stream_again(
        &mut self,
        row: &DeliveryRow,
        to: AgentKey,
        said: Option<&Shared<'_>>,
    ) -> Result<StreamKey, Refusal> {
        let (number, sender) = (row.delivery.stream, row.message.sender);
        let topic = said.and_then(|said| said.topic.as_deref());
        let is_it = |key: &&StreamKey| {
            let stream = &self.streams[**key];
            stream.from_number == sender && stream.topic().map(|topic| &**topic) == topic
        };
        if let Some(key) = self.roster[to].hears.iter().find(is_it) {
            return Ok(*key);
        }
        if !self.has_room_for_stream() {
            let message = format!("{} streams are open already", self.streams.len());
            return Err((NackCode::Limit, message));
        }
        let from = said.and_then(|said| self.roster.find(&said.from));
        if let Some(from) = from.filter(|from| self.roster[*from].number == sender) {
            let key = self.open_stream(from, to, topic);
            self.record_stream(key);
            return Ok(key);
        }
        let ghost = self.roster.ghost();
        let key = self.streams.open((ghost, sender), to, topic, (row.delivery.seq, u64::MAX));
        let stream = &mut self.streams[key];
        (stream.number, stream.is_recorded, stream.is_orphan) = (number, true, true);
        self.roster[to].hears.insert(key);
        self.keep(Change::Stream(Box::new(StreamRecord {
            number,
            from: sender,
            to: row.delivery.to,
            topic: topic.map(Into::into),
            reserved: 0,
        })));
        Ok(key)
    }

    fn room_again(&self, to: AgentKey, from: AgentKey, bytes: usize) -> Result<(), Refusal> {
        let agent = &self.roster[to];
        let held = self.memory_held() + bytes;
        if held <= self.limits.memory_bytes_max && agent.outbox.has_room(&self.limits, from, bytes)
        {
            return Ok(());
        }
        let (name, waiting) = (&agent.name, agent.outbox.total().messages);
        let message =
            format!("{name} has no room: {waiting} messages are in its queue; try again later");
        Err((NackCode::Limit, message))
    }
}

/// Nothing is known of its sender's doubles any more: it counts for none.
fn kept_again(row: &DeliveryRow) -> Kept {
    let DeliveryRow { delivery, message, .. } = row;
    Kept {
        id: delivery.id,
        message: message.number,
        shared: message.shared.clone(),
        to_everyone: message.to_everyone,
        unix_ms: message.unix_ms,
        speaker: Speaker { session: message.session.clone(), proof: message.proof },
        attempts: 0,
        recorded: 0,
        failures: 0,
        state: State::Waiting,
        content: Content::default(),
        reported: None,
    }
}
