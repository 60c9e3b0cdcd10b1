//! Deliveries as `@relay` tells of them: what is kept of them, and over it what the machine knows better.

use super::{cursor, not_found, raw, rows_wanted};
use crate::{
    protocol::{
        Moment,
        code::NackCode,
        deliver::{Shared, shared_object},
        name::Name,
        relay::{MessageRequest, MessageRow, Messages, Piece, Way},
    },
    record::{DeliveryRecord, DeliveryRow, Ending, MessageRecord, QueryResult},
    router::{
        MessageKey, Router,
        message::{HEAD_BYTES, Kept, Message, State},
        send::Refusal,
    },
};
use serde_json::value::RawValue;

/// Room for what an answer is beside its rows.
const PAGE_BYTES: usize = 4 * HEAD_BYTES;

impl Router {
    /// The answer to `message`.
    pub(super) fn message(
        &self,
        asked: &MessageRequest,
        mut found: QueryResult,
    ) -> Result<Box<RawValue>, Refusal> {
        let Some(first) = found.rows.first() else { return Err(not_found(&asked.id)) };
        if let Some(offset) = asked.offset {
            return self.piece(&first.message.shared, offset).map(|piece| raw(&piece));
        }
        if let Some(before) = cursor(asked.cursor.as_deref())? {
            found.rows.retain(|row| row.delivery.number < before);
        }
        let wanted = rows_wanted(asked.limit);
        let more = found.more || found.rows.len() > wanted;
        Ok(raw(&self.page(found.rows.iter().take(wanted), more)))
    }

    /// A part of what was said. As a JSON text it can become twice as long.
    fn piece(&self, shared: &[u8], offset: usize) -> Result<Piece<'static>, Refusal> {
        let text = shared_object(shared);
        let Some(rest) = text.get(offset..) else {
            let message = "an offset is the `next_offset` of the piece before it".to_owned();
            return Err((NackCode::Invalid, message));
        };
        let bytes = (self.room_for_rows() / 2).max(4);
        let ends = (0..=rest.len().min(bytes)).rev();
        let end = ends.into_iter().find(|end| rest.is_char_boundary(*end)).unwrap_or(0);
        let next_offset = (end < rest.len()).then_some(offset + end);
        Ok(Piece { text: rest[..end].to_owned().into(), next_offset })
    }

    /// What waits for an agent, and what it has not acknowledged, the oldest first.
    pub(super) fn inbox(
        &self,
        of: Option<&Name>,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<Messages<Box<RawValue>>, Refusal> {
        let Some(of) = of else {
            let message = "who has no name has no inbox: say whose in `of`".to_owned();
            return Err((NackCode::Invalid, message));
        };
        let Some(agent) = self.roster.find(of.as_str()) else {
            return Err((NackCode::UnknownAgent, format!("no agent {of} was ever here")));
        };
        let after = cursor(after)?.unwrap_or(0);
        let streams = self.roster[agent].hears.iter().filter_map(|key| self.streams.get(*key));
        let keys = streams.flat_map(|stream| {
            stream.waiting.iter().map(|(_, key)| *key).chain(stream.on_way.values().copied())
        });
        let mut open: Vec<_> = keys
            .map(|key| (self.messages[key].order, key))
            .filter(|(order, key)| *order > after && self.messages[*key].kept().is_some())
            .collect();
        open.sort_unstable_by_key(|(order, _)| *order);
        let wanted = rows_wanted(limit);
        let rows: Vec<_> =
            open.iter().take(wanted).filter_map(|(_, key)| self.row_of(*key)).collect();
        Ok(self.page(rows.iter(), open.len() > wanted))
    }

    /// An open delivery, as the store would tell of it.
    fn row_of(&self, key: MessageKey) -> Option<DeliveryRow> {
        let message = &self.messages[key];
        let kept = message.kept()?;
        let stream = &self.streams[message.stream];
        let to = &self.roster[message.to];
        let delivery = DeliveryRecord {
            number: message.order,
            message: 0,
            stream: stream.number,
            to: to.number,
            to_name: to.name.clone(),
            seq: message.seq,
            id: kept.id,
            expires: message.expires,
            attempts: kept.attempts,
            failures: kept.failures,
        };
        let message = MessageRecord {
            number: 0,
            sender: stream.from_number,
            session: kept.speaker.session.clone(),
            proof: kept.speaker.proof,
            send_id: message.send_id.as_str().into(),
            to_everyone: kept.to_everyone,
            unix_ms: kept.unix_ms,
            shared: kept.shared.clone(),
        };
        Some(DeliveryRow { delivery, message, ended: None })
    }

    /// Rows, as many as fit into a frame. One that is too long for any goes without what was said.
    pub(super) fn page<'r>(
        &self,
        rows: impl Iterator<Item = &'r DeliveryRow>,
        mut more: bool,
    ) -> Messages<Box<RawValue>> {
        let (room, mut bytes) = (self.room_for_rows(), 0);
        let (mut messages, mut last) = (Vec::new(), None);
        for row in rows {
            let mut told = self.tell(row, true);
            if messages.is_empty() && told.get().len() > room {
                told = self.tell(row, false);
            }
            bytes += told.get().len() + 1;
            if bytes > room && !messages.is_empty() {
                more = true;
                break;
            }
            messages.push(told);
            last = Some(row.delivery.number);
        }
        Messages { messages, next_cursor: last.filter(|_| more).map(|number| number.to_string()) }
    }

    /// Bytes of a frame that rows may have.
    pub(super) const fn room_for_rows(&self) -> usize {
        self.limits.frame_bytes_max.saturating_sub(PAGE_BYTES)
    }

    fn tell(&self, row: &DeliveryRow, whole: bool) -> Box<RawValue> {
        let DeliveryRow { delivery, message, .. } = row;
        let shared = Shared::read(&message.shared);
        let said = shared.as_ref().filter(|_| whole);
        raw(&MessageRow {
            id: delivery.id.to_string().into(),
            send_id: (&*message.send_id).into(),
            from: shared.as_ref().map_or_else(Default::default, |shared| (&*shared.from).into()),
            auth: message.proof,
            to: delivery.to_name.as_str().into(),
            to_everyone: message.to_everyone,
            topic: shared.as_ref().and_then(|shared| shared.topic.as_deref()).map(Into::into),
            seq: delivery.seq,
            taken: message.unix_ms,
            durability: self.limits.durability.as_str().into(),
            way: self.way(row),
            payload: said.map(|said| said.payload),
            payload_meta: said.and_then(|said| said.payload_meta),
            truncated: said.is_none(),
        })
    }

    /// Whether the store says that a delivery is open which is over by now.
    pub(super) fn is_overtaken(&self, row: &DeliveryRow) -> bool {
        row.ended.is_none() && !self.deliveries.contains_key(&row.delivery.id)
    }

    /// How far a delivery is. Of an open one the machine knows more than the store.
    fn way<'r>(&'r self, row: &'r DeliveryRow) -> Way<'r> {
        let open = self.deliveries.get(&row.delivery.id).and_then(|key| self.messages.get(*key));
        if let Some(message) = open
            && let Some(kept) = message.kept()
        {
            return self.way_of_open(message, kept);
        }
        let DeliveryRecord { attempts, failures, .. } = row.delivery;
        let reported = self.reports.get(row.delivery.id).cloned();
        let way = Way { attempts, failures, reported, ..Way::default() };
        match &row.ended {
            None => Way { state: "over".into(), ..way },
            Some((Ending::Acknowledged, at)) => {
                Way { state: "acknowledged".into(), ended: Some(*at), ..way }
            }
            Some((Ending::Dead { code, why }, at)) => Way {
                state: "dead".into(),
                ended: Some(*at),
                code: Some(code.as_str().into()),
                why: Some((&**why).into()),
                ..way
            },
        }
    }

    fn way_of_open<'r>(&self, message: &Message, kept: &'r Kept) -> Way<'r> {
        let (state, waits_for, until) = match kept.state {
            State::Storing => ("waiting", Some("store"), None),
            State::Waiting => ("waiting", Some(self.obstacle(message)), None),
            State::Resting(until) => ("waiting", Some("rest"), Some(until)),
            State::OnWay { .. } => {
                let (state, waits_for) = self.progress_of(message, kept);
                (state, waits_for, None)
            }
        };
        let reported = kept.reported.as_deref();
        let waiting = reported.filter(|reported| reported.is_waiting());
        Way {
            state: state.into(),
            waits_for: waits_for.map(Into::into),
            until: until.map(|until| self.unix_ms_at(until)),
            attempts: kept.attempts,
            failures: kept.failures,
            expires: Some(self.unix_ms_at(message.expires)),
            why: waiting.and_then(|reported| reported.why.as_deref()).map(Into::into),
            reported: reported.cloned(),
            ..Way::default()
        }
    }

    /// Why a message that may go out has not.
    fn obstacle(&self, message: &Message) -> &'static str {
        let to = &self.roster[message.to];
        let Some(seat) = to.client.and_then(|client| self.seat_of(client)) else {
            return "recipient";
        };
        let stream = &self.streams[message.stream];
        match stream.turn {
            None if message.seq > stream.reserved => "store",
            Some(turn)
                if turn.order == message.order && to.outbox.in_flight >= seat.in_flight_max() =>
            {
                "window"
            }
            _ => "turn",
        }
    }

    const fn unix_ms_at(&self, moment: Moment) -> u64 {
        let now = self.now;
        let ahead = moment.since(now.monotonic);
        let behind = now.monotonic.since(moment);
        now.unix_ms.saturating_add(ahead).saturating_sub(behind)
    }
}
