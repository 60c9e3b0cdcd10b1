//! `@relay`: the daemon as an agent that is asked, and shows what is routed.

use super::{
    AgentKey, ClientId, Frame, Router,
    client::{Tap, What},
    message::HEAD_BYTES,
    send::{Said, Taken},
};
use crate::protocol::{
    PROTOCOL,
    code::NackCode,
    deliver::{Delivery, Head, Proof, Sender, append_shared},
    envelope::Kind,
    frame,
    name::{EVERYONE, RELAY},
    payload::{Ack, Empty, Spoken},
    relay::{AgentRow, Agents, Page, REQUEST, RESPONSE, ReplyMeta, Status, TAP, TapCopy},
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

/// The daemon's own session, as DELIVERs of `@relay` name it.
const SESSION: &str = "s-relay";

/// Rows of a page that states no limit, and at most.
const ROWS: usize = 100;
const ROWS_MAX: usize = 1_000;

/// The longest row of a page.
const ROW_BYTES: usize = 320;

/// Requests that are known and not served yet.
const LATER: [&str; 7] =
    ["message", "inbox", "history", "dead-letters", "redeliver", "reload", "report"];

impl Router {
    /// A SEND to `@relay`.
    pub(super) fn request(&mut self, said: &Said<'_>) {
        let envelope = said.envelope;
        let answered = match envelope.typed::<Spoken<'_>>(envelope.payload) {
            Ok(spoken) if spoken.kind == REQUEST => self.serve(said, &spoken),
            Ok(_) => Err(format!("{RELAY} answers SENDs of kind {REQUEST:?}")),
            Err(violation) => Err(violation.message),
        };
        if let Err(why) = answered {
            self.refuse(said.client, &envelope.id, NackCode::Invalid, why);
        }
    }

    fn serve(&mut self, said: &Said<'_>, spoken: &Spoken<'_>) -> Result<(), String> {
        match &*spoken.body {
            "status" => {
                let status = raw(&self.status());
                self.respond(said, "status", &status);
            }
            "agents" => {
                let page = match spoken.data {
                    None => Page::default(),
                    Some(data) => serde_json::from_str(data.get())
                        .map_err(|why| format!("the data of \"agents\": {why}"))?,
                };
                let agents = raw(&self.agents(&page));
                self.respond(said, "agents", &agents);
            }
            "tap" => {
                if !self.taps.contains(&said.client) {
                    self.taps.push(said.client);
                }
                if let Some(seat) = self.seat_mut(said.client) {
                    seat.tap = Some(Tap { asked: (&*said.envelope.id).into(), lost: 0 });
                }
                self.respond(said, "tap", &raw(&Empty {}));
            }
            "stop" => {
                self.respond(said, "stop", &raw(&Empty {}));
                self.log(said.client, "asked the daemon to stop");
                self.stop("stop");
            }
            later if LATER.contains(&later) => {
                return Err(format!("this daemon doesn't serve {later:?} yet"));
            }
            other => {
                return Err(format!(
                    "{other:.40?} is no request; ask for status, agents, tap or stop"
                ));
            }
        }
        Ok(())
    }

    fn status(&self) -> Status<'_> {
        let here = self.roster.here().len();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            protocol: PROTOCOL.into(),
            uptime_ms: self.now.monotonic.since(self.started.unwrap_or_default()),
            connections: self.clients.len() as u64,
            agents_here: here as u64,
            agents_known: (self.roster.len() - (self.members - here)) as u64,
            guests: (self.members - here) as u64,
            streams: self.streams.len() as u64,
            messages: self.messages.len() as u64,
            memory_bytes: self.memory.total() as u64,
            memory_bytes_max: self.limits.memory_bytes_max as u64,
            counts: self.counts,
            daemon: self.about_daemon.as_deref(),
        }
    }

    fn agents(&self, page: &Page) -> Agents<'_> {
        let fit = (self.limits.frame_bytes_max.saturating_sub(2 * HEAD_BYTES) / ROW_BYTES).max(1);
        let rows = page.limit.unwrap_or(ROWS).clamp(1, ROWS_MAX).min(fit);
        let after = page.cursor.as_deref().unwrap_or_default().to_ascii_lowercase();
        let names = self.roster.by_name();
        let first = names.partition_point(|(folded, _)| *folded <= after.as_bytes());
        let shown = &names[first..(first + rows).min(names.len())];
        let more = first + shown.len() < names.len();
        let last = shown.last().filter(|_| more);
        Agents {
            agents: shown.iter().map(|(_, agent)| self.row(*agent)).collect(),
            next_cursor: last.map(|(_, agent)| self.roster[*agent].name.as_str().into()),
        }
    }

    fn row(&self, agent: AgentKey) -> AgentRow<'_> {
        let agent = &self.roster[agent];
        let seat = agent.client.and_then(|client| self.seat_of(client));
        let session = agent.session.as_deref();
        AgentRow {
            name: agent.name.as_str().into(),
            here: seat.is_some(),
            session: seat.map(|seat| (&*seat.speaker.session).into()),
            since: agent.since_unix_ms,
            queued: agent.outbox.total().messages as u64,
            queued_bytes: agent.outbox.total().bytes as u64,
            in_flight: agent.outbox.in_flight,
            subscriptions: session.map_or(0, |session| session.subscriptions.len() as u64),
        }
    }

    /// Answers a request. A response is an answer: it goes out however full the queue is.
    fn respond(&mut self, said: &Said<'_>, body: &str, data: &RawValue) {
        if said.requires_ack {
            // It is answered at once and not kept.
            let ack_id = (&*said.envelope.id).into();
            let ack = Ack { ack_id, state: Some("accepted".into()), ..Ack::default() };
            self.answer(said.client, Kind::Ack, &ack);
        }
        let frame = self.relay_frame(said.client, RESPONSE, body, data, &said.envelope.id);
        if let Some(frame) = frame {
            self.hand(said.client, frame, What::Answer);
        }
    }

    /// A DELIVER from `@relay`.
    fn relay_frame(
        &mut self,
        client: ClientId,
        kind: &str,
        body: &str,
        data: &RawValue,
        reply_to: &str,
    ) -> Option<Frame> {
        let id = self.new_id();
        let agent = self.agent_of(client)?;
        let agent = self.roster.get_mut(agent)?;
        agent.relay_seq += 1;
        let (seq, to) = (self.relay_seq_base + agent.relay_seq, agent.name.clone());
        let spoken =
            Spoken { kind: kind.into(), body: body.into(), data: Some(data), thread: None };
        let delivery = Delivery {
            seq,
            session_id: (&*self.seat_of(client)?.speaker.session).into(),
            original_to: None,
            attempt: 1,
            requires_ack: false,
            sender: Some(Sender { session: SESSION.into(), auth: Proof::Operator }),
        };
        let (payload, meta) = (raw(&spoken), raw(&ReplyMeta { reply_to: Some(reply_to.into()) }));
        let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.get().len() + meta.get().len());
        let mut text = Uuid::encode_buffer();
        let id = id.hyphenated().encode_lower(&mut text);
        Head { id, ts: self.now.unix_ms, to: to.as_str(), delivery }.append(&mut bytes, 0);
        append_shared(&mut bytes, RELAY, None, payload.get(), Some(meta.get()));
        frame::seal(&mut bytes, 0, 0);
        Some(Frame { head: bytes, shared: None })
    }

    /// Shows a SEND that was taken to everyone who taps. Who is too slow loses it, and will be told.
    pub(super) fn copy_to_taps(&mut self, said: &Said<'_>, recipients: u64, one: Option<Taken>) {
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

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("wire types are JSON")
}
