//! `@relay`: the daemon as an agent that is asked, and shows what is routed.
//!
//! A request is read in `asked`. What the machine knows itself is answered at once; for the rest, the
//! store is asked, and `desk` sees to it that each connection is answered in order. How a delivery is told
//! of is `rows`' matter.

mod asked;
mod desk;
mod rows;
mod tap;

pub(super) use desk::Desks;

use super::{
    AgentKey, ClientId, Frame, Router,
    client::{Tap, What},
    message::{HEAD_BYTES, Message},
    send::Refusal,
};
use crate::protocol::{
    PROTOCOL,
    code::NackCode,
    deliver::{Delivery, Head, Proof, Sender, append_shared},
    envelope::Kind,
    frame,
    name::{NAME_BYTES_MAX, Name, RELAY},
    payload::{Ack, Empty, Spoken},
    record::{Filter, Found, Query},
    relay::{
        AgentRow, Agents, HistoryRequest, Page, REPORTS, RESPONSE, ReplyMeta, ReportRequest,
        Reported, Status,
    },
    text::Quoted,
};
use asked::Asked;
use desk::Request;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

/// The daemon's own session, as DELIVERs of `@relay` name it.
const SESSION: &str = "s-relay";

/// Rows of a page that states no limit, and at most.
const ROWS: usize = 100;
const ROWS_MAX: usize = 1_000;

/// The longest row of a page of agents.
const ROW_BYTES: usize = 320;

/// The longest reason that a recipient may give with a report.
const WHY_CHARS_MAX: usize = 200;

/// What came of a request: its answer's `data`, or what the store has to be asked for that.
enum Served {
    Answer(Box<RawValue>),
    Ask(Query),
}

impl Router {
    /// Answers a request, unless the store has to be asked first.
    fn serve(&mut self, request: &Request) -> Result<Option<Query>, Refusal> {
        let asked = request.asked.as_ref().map_err(Clone::clone)?;
        self.may(request.client, asked)?;
        if let Asked::Stop(reason) = asked {
            self.respond(request, asked.name(), &raw(&Empty {}));
            self.log(request.client, &format!("asked the daemon to end: {reason}"));
            self.stop(reason);
            return Ok(None);
        }
        match self.answer_to(request, asked)? {
            Served::Ask(query) => Ok(Some(query)),
            Served::Answer(data) => {
                self.respond(request, asked.name(), &data);
                Ok(None)
            }
        }
    }

    fn answer_to(&mut self, request: &Request, asked: &Asked) -> Result<Served, Refusal> {
        let client = request.client;
        Ok(match asked {
            Asked::Status => Served::Answer(raw(&self.status())),
            Asked::Agents(page) => Served::Answer(raw(&self.agents(page))),
            Asked::Tap => {
                self.begin_tap(client, &request.send_id);
                Served::Answer(raw(&Empty {}))
            }
            Asked::Stop(_) => Served::Answer(raw(&Empty {})),
            Asked::Message(it) => Served::Ask(Query::Id(it.id.clone())),
            Asked::Redeliver(it) => Served::Ask(Query::Id(it.id.clone())),
            Asked::Inbox(it) => {
                let of = self.whose(client, it.of.as_deref())?;
                Served::Answer(raw(&self.inbox(of.as_ref(), &it.page)?))
            }
            Asked::History(it) => Served::Ask(self.history(client, it)?),
            Asked::DeadLetters(page) => {
                Served::Ask(Query::List(Filter { dead: true, ..self.filter(page)? }))
            }
            Asked::Report(it) => {
                self.report(it)?;
                Served::Answer(raw(&Empty {}))
            }
        })
    }

    /// What the store found, as the answer to what was asked.
    fn conclude(&mut self, asked: &Asked, found: Found) -> Result<Box<RawValue>, Refusal> {
        match asked {
            Asked::Message(it) => self.message(it, found),
            Asked::Redeliver(it) if found.rows.is_empty() => Err(not_found(&it.id)),
            Asked::Redeliver(_) => Ok(raw(&self.redeliver(&found.rows)?)),
            _ => Ok(raw(&self.page(found.rows.iter(), found.more))),
        }
    }

    /// Who may ask for what is decided here, and whose mail is told in [`whose`](Self::whose). All who
    /// connect are the owner's processes, which may ask for everything; what a recipient reports is its own.
    fn may(&self, client: ClientId, asked: &Asked) -> Result<(), Refusal> {
        let Asked::Report(report) = asked else { return Ok(()) };
        let Some(key) = Uuid::try_parse(&report.id).ok().and_then(|id| self.deliveries.get(&id))
        else {
            return Err(not_found(&report.id));
        };
        if self.agent_of(client) == Some(self.messages[*key].to) {
            return Ok(());
        }
        Err((NackCode::Forbidden, "only its recipient reports about a delivery".to_owned()))
    }

    /// Whose mail is asked for: without a name an agent's own, and everybody's for who has none.
    fn whose(&self, client: ClientId, of: Option<&str>) -> Result<Option<Name>, Refusal> {
        if let Some(of) = of {
            return name(of).map(Some);
        }
        let asker = self.agent_of(client).and_then(|agent| self.roster.get(agent));
        Ok(asker.filter(|agent| !agent.is_guest()).map(|agent| agent.name.clone()))
    }

    fn history(&self, client: ClientId, asked: &HistoryRequest) -> Result<Query, Refusal> {
        Ok(Query::List(Filter {
            of: self.whose(client, asked.of.as_deref())?,
            with: asked.with.as_deref().map(name).transpose()?,
            topic: asked.topic.clone(),
            search: asked.search.clone(),
            ..self.filter(&asked.page)?
        }))
    }

    /// Any deliveries, as many as a page holds.
    fn filter(&self, page: &Page) -> Result<Filter, Refusal> {
        Ok(Filter {
            before: cursor(page)?,
            limit: rows_wanted(page),
            bytes_max: self.room_for_rows(),
            ..Filter::default()
        })
    }

    fn report(&mut self, asked: &ReportRequest) -> Result<(), Refusal> {
        if !REPORTS.contains(&&*asked.state) {
            let message = format!("the state of a report is one of {}", REPORTS.join(", "));
            return Err((NackCode::Invalid, message));
        }
        let why = asked.why.as_ref().map(|why| why.chars().take(WHY_CHARS_MAX).collect::<String>());
        let reported = Reported {
            state: asked.state.as_str().into(),
            why: why.map(Into::into),
            at: self.now.unix_ms,
        };
        let key = Uuid::try_parse(&asked.id).ok().and_then(|id| self.deliveries.get(&id));
        let message = key.and_then(|key| self.messages.get_mut(*key));
        let Some(kept) = message.and_then(Message::kept_mut) else {
            return Err(not_found(&asked.id));
        };
        kept.reported = Some(Box::new(reported));
        Ok(())
    }

    fn begin_tap(&mut self, client: ClientId, send_id: &str) {
        if !self.taps.contains(&client) {
            self.taps.push(client);
        }
        if let Some(seat) = self.seat_mut(client) {
            seat.tap = Some(Tap { asked: send_id.into(), lost: 0 });
        }
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
            memory_bytes: self.memory_held() as u64,
            memory_bytes_max: self.limits.memory_bytes_max as u64,
            counts: self.counts,
            daemon: self.about_daemon.as_deref(),
        }
    }

    fn agents(&self, page: &Page) -> Agents<'_> {
        let fit = (self.limits.frame_bytes_max.saturating_sub(2 * HEAD_BYTES) / ROW_BYTES).max(1);
        let rows = rows_wanted(page).min(fit);
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
    fn respond(&mut self, request: &Request, body: &str, data: &RawValue) {
        if request.requires_ack {
            // It is answered at once and not kept.
            let ack_id = (&*request.send_id).into();
            let ack = Ack { ack_id, state: Some("accepted".into()), ..Ack::default() };
            self.answer(request.client, Kind::Ack, &ack);
        }
        let frame = self.relay_frame(request.client, RESPONSE, body, data, &request.send_id);
        if let Some(frame) = frame {
            self.hand(request.client, frame, What::Answer);
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
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("wire types are JSON")
}

/// Whom a request means.
fn name(text: &str) -> Result<Name, Refusal> {
    if text.starts_with('@') && text.len() <= NAME_BYTES_MAX {
        return Ok(Name::made_by_daemon(text));
    }
    Name::parse(text)
        .map_err(|why| (NackCode::Invalid, format!("{} is nobody's name: {why}", Quoted(text))))
}

fn rows_wanted(page: &Page) -> usize {
    page.limit.unwrap_or(ROWS).clamp(1, ROWS_MAX)
}

/// The number of the delivery that a page of messages ended with.
fn cursor(page: &Page) -> Result<Option<u64>, Refusal> {
    let Some(text) = &page.cursor else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        (NackCode::Invalid, "a cursor is the `next_cursor` of the page before it".to_owned())
    })
}

fn not_found(id: &str) -> Refusal {
    (NackCode::NotFound, format!("no message with the id {} is known, or not any more", Quoted(id)))
}
