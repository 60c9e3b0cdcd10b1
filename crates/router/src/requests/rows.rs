//! Rows of answers: agents, and deliveries from the store with the router's newer state of them.

use super::{
    request::{cursor, not_found, rows_wanted},
    table::Requests,
};
use crate::{
    connections::{Connections, Membership},
    context::Context,
    directory::{Agent, Directory},
    keys::{AgentKey, MessageKey},
    mail::{HEAD_BYTES_MAX, Mail, Message, QueueState, Reliable},
    send_request::Refusal,
    work::{self, ROW_WORK},
};
use protocol::{
    Moment,
    code::NackCode,
    deliver::{Shared, shared_object},
    name::Name,
    payload::{DIRECTORY_BYTES_MAX, PROGRAM_BYTES_MAX},
    record::{DeliveryRecord, DeliveryRow, Ending, QueryResult},
    relay::{
        AgentRow, Agents, DeliveryProgress, DeliveryState, MessageRequest, MessageRow, Messages,
        Page, Piece, WaitsFor,
    },
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Borrow;

/// The bytes reserved for the parts of an answer other than its rows.
const PAGE_BYTES: usize = 4 * HEAD_BYTES_MAX;

/// The longest reason that a recipient may give with a report, in characters.
pub(super) const WHY_CHARS_MAX: usize = 200;

/// The bytes of the longest row in a page of agents. A character of its texts takes at most six
/// bytes of JSON.
const ROW_BYTES: usize = 512 + 6 * (WHY_CHARS_MAX + PROGRAM_BYTES_MAX + DIRECTORY_BYTES_MAX);

/// The time after the start in which an agent of the last daemon counts as reconnecting.
const RECONNECTING_MS: u64 = 30_000;

/// A view of the router, from which rows are made.
#[derive(Clone, Copy)]
pub(super) struct Rows<'r> {
    pub(super) ctx: &'r Context,
    pub(super) connections: &'r Connections,
    pub(super) directory: &'r Directory,
    pub(super) mail: &'r Mail,
    pub(super) requests: &'r Requests,
    pub(super) uptime_ms: u64,
}

pub(super) fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("wire types are JSON")
}

impl<'r> Rows<'r> {
    /// Returns the answer to `message`.
    pub(super) fn message(
        &self,
        request: &MessageRequest,
        mut found: QueryResult,
    ) -> Result<Box<RawValue>, Refusal> {
        let Some(first) = found.rows.first() else { return Err(not_found(&request.id)) };
        if let Some(offset) = request.offset {
            return self.piece(&first.message.shared, offset).map(|piece| raw(&piece));
        }
        if let Some(before) = cursor(request.cursor.as_deref())? {
            found.rows.retain(|row| row.delivery.number < before);
        }
        let wanted = rows_wanted(request.limit);
        Ok(raw(&self.page(found.rows.iter(), wanted, found.more).0))
    }

    /// Returns a part of a message's text, at most half of a frame: escapes in JSON may double its
    /// length.
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

    /// Returns an agent's open at-least-once deliveries, the oldest first, and the work of reading
    /// them.
    pub(super) fn inbox(
        &self,
        of: &Name,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<(Messages<Box<RawValue>>, u64), Refusal> {
        let Some(agent) = self.directory.find(of.as_str()) else {
            return Err((NackCode::UnknownAgent, format!("no agent {of} was ever here")));
        };
        let open = self.mail.open_deliveries(agent, cursor(after)?.unwrap_or(0));
        Ok(self.page(open.filter_map(|key| self.row_of(key)), rows_wanted(limit), false))
    }

    /// Returns the row of an open delivery, as the store would return it.
    fn row_of(&self, key: MessageKey) -> Option<DeliveryRow> {
        let message = self.mail.message(key)?;
        let delivery = self.mail.delivery_record(key, self.directory.name(message.to)?)?;
        let attempts = message.attempts;
        let delivery = DeliveryRecord { attempts, ..delivery };
        Some(DeliveryRow { delivery, message: self.mail.message_record(key)?, ended: None })
    }

    /// Returns as many of the first `most` rows as fit into a frame, and the work of reading them.
    /// `more` tells whether others follow the last row. A row that is too long for a frame is sent
    /// without its payload.
    pub(super) fn page<R: Borrow<DeliveryRow>>(
        &self,
        rows: impl Iterator<Item = R>,
        most: usize,
        mut more: bool,
    ) -> (Messages<Box<RawValue>>, u64) {
        let (room, mut bytes, mut work) = (self.room_for_rows(), 0, 0);
        let (mut messages, mut last) = (Vec::new(), None);
        for row in rows {
            let row = row.borrow();
            if messages.len() == most {
                more = true;
                break;
            }
            let read_bytes = row.message.shared.len();
            if bytes + read_bytes > room && !messages.is_empty() {
                more = true;
                break;
            }
            work += ROW_WORK + work::of_reading(read_bytes);
            let mut json = self.message_row(row, read_bytes <= room);
            if messages.is_empty() && json.get().len() > room {
                work += work::of_reading(read_bytes);
                json = self.message_row(row, false);
            }
            bytes += json.get().len() + 1;
            if bytes > room && !messages.is_empty() {
                more = true;
                break;
            }
            messages.push(json);
            last = Some(row.delivery.number);
        }
        let next_cursor = last.filter(|_| more).map(|number| number.to_string());
        (Messages { messages, next_cursor }, work)
    }

    /// Returns the number of bytes in a frame that rows may take.
    pub(super) const fn room_for_rows(&self) -> usize {
        self.ctx.limits.frame_bytes_max.saturating_sub(PAGE_BYTES)
    }

    fn message_row(&self, row: &DeliveryRow, is_whole: bool) -> Box<RawValue> {
        let DeliveryRow { delivery, message, .. } = row;
        let shared = Shared::read(&message.shared);
        let whole = shared.as_ref().filter(|_| is_whole);
        // A renamed agent has its new name also in what was stored before.
        let from = match self.directory.new_name(message.sender) {
            Some(name) => name.as_str(),
            None => shared.as_ref().map_or("", |shared| &shared.from),
        };
        let to = self.directory.new_name(delivery.to).unwrap_or(&delivery.to_name);
        raw(&MessageRow {
            id: delivery.id.to_string().into(),
            send_id: (&*message.send_id).into(),
            from: from.into(),
            auth: message.proof,
            to: to.as_str().into(),
            to_everyone: message.to_everyone,
            topic: shared.as_ref().and_then(|shared| shared.topic.as_deref()).map(Into::into),
            seq: delivery.seq,
            taken: message.unix_ms,
            durability: self.ctx.limits.durability.as_str().into(),
            delivery: self.delivery_state(row),
            payload: whole.map(|shared| shared.payload),
            payload_meta: whole.and_then(|shared| shared.payload_meta),
            truncated: whole.is_none(),
        })
    }

    /// Whether a row of the store says that a delivery is open although it has ended since.
    pub(super) fn is_outdated(&self, row: &DeliveryRow) -> bool {
        row.ended.is_none() && self.mail.delivery(row.delivery.id).is_none()
    }

    /// Returns the state of a delivery. The router's state of an open delivery is newer than the
    /// store's row.
    fn delivery_state<'a>(&'a self, row: &'a DeliveryRow) -> DeliveryProgress<'a> {
        let open = self.mail.delivery(row.delivery.id).map(|(_, message)| message);
        if let Some(message) = open
            && let Some(reliable) = message.reliable()
        {
            return self.state_of_open(message, reliable);
        }
        let DeliveryRecord { attempts, failures, .. } = row.delivery;
        let reported = self.requests.reports().get(row.delivery.id).cloned();
        let (state, ended, died) = match &row.ended {
            None | Some((Ending::Erased, _)) => (DeliveryState::Over, None, None),
            Some((Ending::Acknowledged, at)) => (DeliveryState::Acknowledged, Some(*at), None),
            Some((Ending::Dead { code, why }, at)) => {
                (DeliveryState::Dead, Some(*at), Some((code, why)))
            }
        };
        DeliveryProgress {
            state: state.as_str().into(),
            attempts,
            failures,
            reported,
            ended,
            code: died.map(|(code, _)| code.as_str().into()),
            why: died.map(|(_, why)| (&**why).into()),
            ..DeliveryProgress::default()
        }
    }

    fn state_of_open(&self, message: &Message, reliable: &'r Reliable) -> DeliveryProgress<'r> {
        let membership = self.membership(&self.directory[message.to]);
        let (state, waits_for, until) = match reliable.state {
            QueueState::Persisting => (DeliveryState::Waiting, Some(WaitsFor::Store), None),
            QueueState::Waiting => {
                let in_flight_max = membership.map(Membership::in_flight_max);
                let obstacle = self.mail.obstacle(message, in_flight_max);
                (DeliveryState::Waiting, Some(obstacle), None)
            }
            QueueState::Delayed(until) => {
                (DeliveryState::Waiting, Some(WaitsFor::Rest), Some(until))
            }
            QueueState::InFlight { .. } => {
                let (state, waits_for) = reliable.progress(sends_reports(membership));
                (state, waits_for, None)
            }
        };
        let reported = reliable.reported.as_deref();
        let waiting = reported.filter(|reported| reported.is_waiting());
        DeliveryProgress {
            state: state.as_str().into(),
            waits_for: waits_for.map(|obstacle| obstacle.as_str().into()),
            until: until.map(|until| self.unix_ms_at(until)),
            attempts: message.attempts,
            failures: reliable.failures,
            expires: Some(self.unix_ms_at(message.expires)),
            why: waiting.and_then(|reported| reported.why.as_deref()).map(Into::into),
            reported: reported.cloned(),
            ..DeliveryProgress::default()
        }
    }

    const fn unix_ms_at(&self, moment: Moment) -> u64 {
        let now = self.ctx.now;
        let ahead = moment.since(now.monotonic);
        let behind = now.monotonic.since(moment);
        now.unix_ms.saturating_add(ahead).saturating_sub(behind)
    }

    fn membership(&self, agent: &Agent) -> Option<&'r Membership> {
        self.connections.membership(agent.client?)
    }

    /// Returns the answer to `agents`.
    pub(super) fn agents(&self, page: &Page) -> Agents<'r> {
        let bytes = self.ctx.limits.frame_bytes_max.saturating_sub(2 * HEAD_BYTES_MAX);
        let rows = rows_wanted(page.limit).min((bytes / ROW_BYTES).max(1));
        let after = page.cursor.as_deref().unwrap_or_default().to_ascii_lowercase();
        let mut following = self.directory.after(after.as_bytes());
        let shown: Vec<_> = following.by_ref().take(rows).collect();
        let last = shown.last().filter(|_| following.next().is_some());
        Agents {
            agents: shown.iter().map(|agent| self.agent_row(*agent)).collect(),
            next_cursor: last.map(|agent| self.directory[*agent].name.as_str().into()),
        }
    }

    fn agent_row(&self, key: AgentKey) -> AgentRow<'r> {
        let agent = &self.directory[key];
        let membership = self.membership(agent);
        let progress = self.mail.progress(key, sends_reports(membership));
        let (queued, queued_bytes) = self.mail.queued(key);
        let session = agent.session.as_deref();
        let doing = membership.and_then(|membership| membership.doing);
        let about = membership.map(|membership| &membership.about);
        AgentRow {
            name: agent.name.as_str().into(),
            host: agent.name.host().map(Into::into),
            here: membership.is_some(),
            reconnecting: self.is_reconnecting(agent),
            session: membership.map(|membership| (&*membership.auth.session).into()),
            program: about.and_then(|about| about.program.as_deref()).map(Into::into),
            directory: about.and_then(|about| about.directory.as_deref()).map(Into::into),
            since: agent.since_unix_ms,
            queued: queued as u64,
            queued_bytes: queued_bytes as u64,
            in_flight: progress.in_flight,
            waiting: progress.waiting,
            why: progress.why.and_then(|reported| reported.why.as_deref()).map(Into::into),
            why_since: progress.why.map(|reported| reported.at),
            subscriptions: session.map_or(0, |session| session.subscriptions.len() as u64),
            activity: doing.map(|doing| doing.activity.as_str().into()),
            activity_since: doing.map(|doing| doing.since),
            activity_source: doing.map(|doing| doing.source.as_str().into()),
            unseen: doing.is_some_and(|doing| doing.unseen),
        }
    }

    /// Whether an absent agent may still be reconnecting from the last daemon to this one.
    pub(super) fn is_reconnecting(&self, agent: &Agent) -> bool {
        let now = self.ctx.now.monotonic;
        let session = agent.session.as_deref();
        self.uptime_ms < RECONNECTING_MS
            && agent.is_expected
            && session.is_some_and(|session| session.is_good_at(now))
    }
}

/// Whether an agent's connection reports the progress of deliveries.
fn sends_reports(membership: Option<&Membership>) -> bool {
    membership.is_some_and(|membership| membership.capabilities.reports)
}
