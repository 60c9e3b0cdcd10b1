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
    message::HEAD_BYTES,
    roster::Agent,
    send::Refusal,
};
use crate::protocol::{
    PROTOCOL,
    code::NackCode,
    deliver::{Delivery, Head, Proof, Sender, append_shared},
    envelope::Kind,
    frame,
    name::{NAME_BYTES_MAX, Name, RELAY},
    payload::{Ack, Empty, MessagePayload},
    relay::{
        AgentRow, Agents, HistoryRequest, MessageRequest, Page, REPORTS, RESPONSE,
        RedeliverRequest, ReplyMeta, ReportRequest, Reported, Status,
    },
    text::Quoted,
};
use crate::record::{Filter, Query, QueryResult};
use asked::Asked;
use desk::{Errand, Request};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use uuid::Uuid;

/// The daemon's own session, as DELIVERs of `@relay` name it.
const SESSION: &str = "s-relay";

/// How long after the start an agent of the last daemon counts as on its way.
const RECONNECTING_MS: u64 = 30_000;

/// Rows of a page that states no limit, and at most.
const ROWS: usize = 100;
const ROWS_MAX: usize = 1_000;

/// The longest reason that a recipient may give with a report.
const WHY_CHARS_MAX: usize = 200;

/// The longest row of a page of agents: a character of its reason is at most six bytes of JSON.
const ROW_BYTES: usize = 400 + 6 * WHY_CHARS_MAX;

/// What came of a request: its answer's `data`, or what has to be done before there is one.
enum Served {
    Answer(Box<RawValue>),
    Errand(Errand),
}

impl Router {
    /// Answers a request, unless something has to be done first.
    fn serve(&mut self, request: &Request) -> Result<Option<Errand>, Refusal> {
        let asked = request.asked.as_ref().map_err(Clone::clone)?;
        let asker = &self.asker(request.client)?.name;
        if let Some(rule) = self.policy.rule_against(asker.as_str(), RELAY, Some(asked.name())) {
            return Err((NackCode::Forbidden, rule.refusal(asker.as_str(), RELAY)));
        }
        self.may(request.client, asked)?;
        if let Asked::Stop(reason) = asked {
            self.respond(request, asked.name(), &raw(&Empty {}));
            self.log(request.client, &format!("asked the daemon to end: {reason}"));
            self.stop(reason);
            return Ok(None);
        }
        match self.answer_to(request, asked)? {
            Served::Errand(errand) => Ok(Some(errand)),
            Served::Answer(data) => {
                self.respond(request, asked.name(), &data);
                Ok(None)
            }
        }
    }

    fn answer_to(&mut self, request: &Request, asked: &Asked) -> Result<Served, Refusal> {
        self.check_room_to_answer(asked)?;
        let client = request.client;
        let query = |query| Served::Errand(Errand::Query(query));
        Ok(match asked {
            Asked::Status => Served::Answer(raw(&self.status())),
            Asked::Agents(page) => Served::Answer(raw(&self.agents(page))),
            Asked::Tap => {
                self.begin_tap(client, &request.send_id);
                Served::Answer(raw(&Empty {}))
            }
            Asked::Stop(_) => Served::Answer(raw(&Empty {})),
            Asked::Reload => Served::Errand(Errand::Reload),
            Asked::Message(MessageRequest { id, .. })
            | Asked::Redeliver(RedeliverRequest { id }) => query(Query::Id(id.clone())),
            Asked::Inbox(it) => {
                let of = self.whose(client, it.of.as_deref())?;
                Served::Answer(raw(&self.inbox(of.as_ref(), it.cursor.as_deref(), it.limit)?))
            }
            Asked::History(it) => query(self.history(client, it)?),
            Asked::DeadLetters(page) => query(Query::List(Filter {
                dead: true,
                ..self.filter(page.cursor.as_deref(), page.limit)?
            })),
            Asked::Report(it) => {
                self.report(client, it)?;
                Served::Answer(raw(&Empty {}))
            }
        })
    }

    /// What the store found, as the answer to what was asked.
    fn conclude(
        &mut self,
        client: ClientId,
        asked: &Asked,
        found: QueryResult,
    ) -> Result<Box<RawValue>, Refusal> {
        self.check_room_to_answer(asked)?;
        match asked {
            Asked::Message(it) => self.message(it, self.own(client, found)?),
            Asked::Redeliver(it) if found.rows.is_empty() => Err(not_found(&it.id)),
            Asked::Redeliver(_) => Ok(raw(&self.redeliver(&found.rows)?)),
            _ => Ok(raw(&self.page(found.rows.iter(), found.more))),
        }
    }

    /// An answer counts as long as it isn't read, and one that has rows can be as long as a frame.
    fn check_room_to_answer(&mut self, asked: &Asked) -> Result<(), Refusal> {
        if asked.has_rows() {
            self.make_room(0);
            if self.memory_held() > self.limits.memory_bytes_max {
                let why = "the daemon has no memory for the answer; ask again later";
                return Err((NackCode::Limit, why.to_owned()));
            }
        }
        Ok(())
    }

    /// Who may ask for what. Whose mail it may be is decided in [`whose`](Self::whose) and
    /// [`own`](Self::own).
    fn may(&self, client: ClientId, asked: &Asked) -> Result<(), Refusal> {
        match asked {
            Asked::Status
            | Asked::Agents(_)
            | Asked::Message(_)
            | Asked::Inbox(_)
            | Asked::History(_) => Ok(()),
            Asked::Report(report) => self.may_report(client, report),
            _ if self.is_operator(client) => Ok(()),
            _ => {
                let message = format!(
                    "{:?} is for operators, who join with what is in the home's operator.key",
                    asked.name()
                );
                Err((NackCode::Forbidden, message))
            }
        }
    }

    fn may_report(&self, client: ClientId, report: &ReportRequest) -> Result<(), Refusal> {
        let recipient = |id| {
            let open = self.deliveries.get(&id).map(|key| self.messages[*key].to);
            open.or_else(|| self.reports.recipient(id))
        };
        let Some(to) = Uuid::try_parse(&report.id).ok().and_then(recipient) else {
            return Err(not_found(&report.id));
        };
        let to = self.roster.get(to);
        if to.is_some_and(|agent| agent.client == Some(client)) {
            return Ok(());
        }
        Err((NackCode::Forbidden, "only its recipient reports about a delivery".to_owned()))
    }

    fn is_operator(&self, client: ClientId) -> bool {
        self.seat_of(client).is_some_and(|seat| seat.speaker.proof == Proof::Operator)
    }

    /// In whose name somebody asks who is no operator.
    fn asker(&self, client: ClientId) -> Result<&Agent, Refusal> {
        let agent = self.agent_of(client).and_then(|agent| self.roster.get(agent));
        agent.ok_or_else(|| (NackCode::AgentOffline, "its agent's name was forgotten".to_owned()))
    }

    /// Whose mail is asked for. Without a name an operator means everybody's, and anybody else his own.
    fn whose(&self, client: ClientId, of: Option<&str>) -> Result<Option<Name>, Refusal> {
        if self.is_operator(client) {
            return of.map(name).transpose();
        }
        let own = &self.asker(client)?.name;
        match of.filter(|of| !own.is(of)) {
            None => Ok(Some(own.clone())),
            Some(other) => {
                let message = format!("you are {own}: {}'s mail is for operators", Quoted(other));
                Err((NackCode::Forbidden, message))
            }
        }
    }

    /// What was found, as far as it is the asker's own.
    fn own(&self, client: ClientId, mut found: QueryResult) -> Result<QueryResult, Refusal> {
        if self.is_operator(client) || found.rows.is_empty() {
            return Ok(found);
        }
        let own = self.asker(client)?;
        found.rows.retain(|row| [row.message.sender, row.delivery.to].contains(&own.number));
        if found.rows.is_empty() {
            let message = format!("you are {}: others' mail is for operators", own.name);
            return Err((NackCode::Forbidden, message));
        }
        Ok(found)
    }

    fn history(&self, client: ClientId, asked: &HistoryRequest) -> Result<Query, Refusal> {
        Ok(Query::List(Filter {
            of: self.whose(client, asked.of.as_deref())?,
            with: asked.with.as_deref().map(name).transpose()?,
            topic: asked.topic.clone(),
            search: asked.search.clone(),
            ..self.filter(asked.cursor.as_deref(), asked.limit)?
        }))
    }

    /// Any deliveries, as many as a page holds.
    fn filter(&self, after: Option<&str>, limit: Option<usize>) -> Result<Filter, Refusal> {
        Ok(Filter {
            before: cursor(after)?,
            limit: rows_wanted(limit),
            bytes_max: self.room_for_rows(),
            ..Filter::default()
        })
    }

    fn report(&mut self, client: ClientId, asked: &ReportRequest) -> Result<(), Refusal> {
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
        if let Some(seat) = self.seat_mut(client) {
            seat.capabilities.reports = true;
        }
        let id = Uuid::try_parse(&asked.id).ok();
        let is_known = id.is_some_and(|id| self.take_report(id, reported));
        if is_known { Ok(()) } else { Err(not_found(&asked.id)) }
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
        let (known, guests) = self.roster.count();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            protocol: PROTOCOL.into(),
            uptime_ms: self.now.monotonic.since(self.started.unwrap_or_default()),
            connections: self.clients.len() as u64,
            agents_here: self.roster.here().len() as u64,
            agents_known: known as u64,
            guests: guests as u64,
            streams: self.streams.len() as u64,
            messages: self.messages.len() as u64,
            memory_bytes: self.memory_held() as u64,
            memory_bytes_max: self.limits.memory_bytes_max as u64,
            counts: self.counts,
            too_often: self.too_often.clone(),
            daemon: self.about_daemon.as_deref(),
        }
    }

    fn agents(&self, page: &Page) -> Agents<'_> {
        let fit = (self.limits.frame_bytes_max.saturating_sub(2 * HEAD_BYTES) / ROW_BYTES).max(1);
        let rows = rows_wanted(page.limit).min(fit);
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
        let progress = self.progress(agent);
        let agent = &self.roster[agent];
        let seat = agent.client.and_then(|client| self.seat_of(client));
        let session = agent.session.as_deref();
        AgentRow {
            name: agent.name.as_str().into(),
            here: seat.is_some(),
            reconnecting: self.is_reconnecting(agent),
            session: seat.map(|seat| (&*seat.speaker.session).into()),
            since: agent.since_unix_ms,
            queued: agent.outbox.total().messages as u64,
            queued_bytes: agent.outbox.total().bytes as u64,
            in_flight: progress.in_flight,
            waiting: progress.waiting,
            why: progress.why.and_then(|reported| reported.why.as_deref()).map(Into::into),
            why_since: progress.why.map(|reported| reported.at),
            subscriptions: session.map_or(0, |session| session.subscriptions.len() as u64),
        }
    }

    /// Whether an agent that is away may still be on its way from the last daemon to this one.
    fn is_reconnecting(&self, agent: &Agent) -> bool {
        let now = self.now.monotonic;
        let is_young = now.since(self.started.unwrap_or_default()) < RECONNECTING_MS;
        let session = agent.session.as_deref();
        is_young && agent.is_expected && session.is_some_and(|session| session.is_good_at(now))
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
            MessagePayload { kind: kind.into(), body: body.into(), data: Some(data), thread: None };
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

fn rows_wanted(limit: Option<usize>) -> usize {
    limit.unwrap_or(ROWS).clamp(1, ROWS_MAX)
}

/// The number of the delivery that a page of messages ended with.
fn cursor(text: Option<&str>) -> Result<Option<u64>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        (NackCode::Invalid, "a cursor is the `next_cursor` of the page before it".to_owned())
    })
}

fn not_found(id: &str) -> Refusal {
    (
        NackCode::NotFound,
        format!("{} is not a message's id, or that message is no longer kept", Quoted(id)),
    )
}
