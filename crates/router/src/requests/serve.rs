//! Serving of requests to `@relay`, each connection's in order.

use super::{
    access::Asker,
    queue::{Operation, PendingRequest, Queue, WAITING_BYTES_MAX, WAITING_MAX},
    request::{
        Request, check_is_one, check_one_sender, check_search, cursor, name, not_found, rows_wanted,
    },
    rows::{Rows, WHY_CHARS_MAX, raw},
};
use crate::{
    Router,
    connections::{Content, Doing, Membership},
    frame::Frame,
    interface::{ClientId, Output},
    journal::Continuation,
    mail::HEAD_BYTES_MAX,
    send_request::{Refusal, SendRequest},
    work::{self, ROW_WORK},
};
use protocol::{
    PROTOCOL,
    activity::{Activity, ActivitySource},
    code::NackCode,
    deliver::{Head, Proof, SenderText, append_shared},
    envelope::Kind,
    frame,
    name::RELAY,
    payload::{Ack, Empty, MessagePayload},
    record::{Filter, Query, QueryResult},
    relay::{
        ActivityRequest, HistoryRequest, MessageRequest, REPORTS, RESPONSE, RedeliverRequest,
        ReplyMeta, ReportRequest, Reported, RequestName, Status,
    },
};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use uuid::Uuid;

/// The session of `@relay`, as its DELIVERs state it.
const SESSION: &str = "s-relay";

/// The effect of a request: the `data` of its answer, or the operation that must end first.
enum Served {
    Answer(Box<RawValue>),
    Operation(Operation),
}

impl Router {
    /// Handles a SEND to `@relay`.
    pub(crate) fn request(&mut self, send: &SendRequest<'_>) {
        self.ctx.spend(work::of_reading(send.envelope.payload.len()));
        let envelope = send.envelope;
        let (bytes, request) = match envelope.decode_member::<MessagePayload<'_>>(envelope.payload)
        {
            Ok(spoken) => (spoken.data.map_or(0, |data| data.get().len()), Request::parse(&spoken)),
            Err(violation) => (0, Err((NackCode::Invalid, violation.message))),
        };
        let (client, send_id, requires_ack) =
            (send.client, (&*envelope.id).into(), send.requires_ack);
        let request = PendingRequest { client, send_id, requires_ack, bytes, request };
        match self.requests.enqueue(request) {
            Ok(Some(first)) => self.serve_in_order(first, VecDeque::new()),
            Ok(None) => {}
            Err(()) => {
                let why = format!(
                    "{WAITING_MAX} requests, or {WAITING_BYTES_MAX} bytes of them, wait already: send \
                     it after an answer"
                );
                self.refuse(send.client, &envelope.id, NackCode::Limit, why);
            }
        }
    }

    /// Serves a request and the requests behind it, until one has to wait for an operation.
    fn serve_in_order(&mut self, first: PendingRequest, mut waiting: VecDeque<PendingRequest>) {
        let mut next = Some(first);
        while let Some(first) = next {
            match self.serve(&first) {
                Ok(None) => {}
                Ok(Some(operation)) => {
                    return self
                        .begin_operation(operation, Queue { first, is_second: false, waiting });
                }
                Err((code, why)) => self.refuse(first.client, &first.send_id, code, why),
            }
            next = waiting.pop_front();
        }
    }

    fn begin_operation(&mut self, operation: Operation, queue: Queue) {
        let client = queue.first.client;
        // An earlier request may have closed the connection.
        if self.connections.membership(client).is_some() {
            match operation {
                Operation::Query(query) => {
                    self.ctx.emit(Output::Query(client, Box::new(query)));
                }
                Operation::Reload => self.ctx.emit(Output::Reload(client)),
                Operation::Persist(data) => self.wait(Continuation::Respond(client, data)),
            }
            self.requests.wait(queue);
        }
    }

    /// Handles the store's answer to a query. The client may have left.
    pub(crate) fn found(&mut self, client: ClientId, found: Result<QueryResult, String>) {
        let Some(queue) = self.requests.take_queue(client) else { return };
        let Queue { first, is_second, waiting } = queue;
        if let Ok(found) = &found
            && !is_second
            && found.rows.iter().any(|row| self.rows().is_outdated(row))
            && let Ok(Some(operation)) = self.serve(&first)
        {
            return self.begin_operation(operation, Queue { first, is_second: true, waiting });
        }
        if let Err((code, why)) = self.conclude(&first, found) {
            self.refuse(client, &first.send_id, code, why);
        }
        self.serve_waiting(waiting);
    }

    /// Handles the report that the policy file was read again. A valid policy is in force already.
    pub(crate) fn reloaded(&mut self, client: ClientId, result: Result<(), String>) {
        let Some(queue) = self.requests.take_queue(client) else { return };
        match result {
            Ok(()) => self.respond(&queue.first, RequestName::Reload, &raw(&Empty {})),
            Err(why) => self.refuse(client, &queue.first.send_id, NackCode::Invalid, why),
        }
        self.serve_waiting(queue.waiting);
    }

    /// Answers a request whose changes are persisted now. The client may have left.
    pub(crate) fn request_persisted(&mut self, client: ClientId, data: &RawValue) {
        let Some(queue) = self.requests.take_queue(client) else { return };
        if let Ok(request) = &queue.first.request {
            self.respond(&queue.first, request.name(), data);
        }
        if let Some(agent) = self.connections.agent_of(client) {
            self.at_cost_of(agent, |router| router.serve_waiting(queue.waiting));
        }
    }

    fn serve_waiting(&mut self, mut waiting: VecDeque<PendingRequest>) {
        if let Some(next) = waiting.pop_front() {
            self.serve_in_order(next, waiting);
        }
    }

    /// Answers a request with what the store found.
    fn conclude(
        &mut self,
        pending: &PendingRequest,
        found: Result<QueryResult, String>,
    ) -> Result<(), Refusal> {
        let request = pending.request.as_ref().map_err(Clone::clone)?;
        let found = found.map_err(|why| {
            (NackCode::StoreFailed, format!("the store could not answer the request: {why}"))
        })?;
        let read = found.rows.iter().map(|row| work::of_reading(row.message.shared.len()));
        self.ctx.spend(ROW_WORK * found.rows.len() as u64 + read.sum::<u64>());
        self.check_room_to_answer(request)?;
        let data = match request {
            Request::Message(message) => {
                let found = self.asker(pending.client).own(found)?;
                check_is_one(&message.id, &found.rows)?;
                self.rows().message(message, found)?
            }
            Request::Redeliver(of) if found.rows.is_empty() => return Err(not_found(&of.id)),
            Request::Redeliver(of) => {
                check_is_one(&of.id, &found.rows)?;
                check_one_sender(&of.id, &found.rows)?;
                raw(&self.redeliver(&found.rows)?)
            }
            _ => raw(&self.rows().page(found.rows.iter(), usize::MAX, found.more).0),
        };
        self.respond(pending, request.name(), &data);
        Ok(())
    }

    /// Answers a request, unless an operation must end first.
    fn serve(&mut self, pending: &PendingRequest) -> Result<Option<Operation>, Refusal> {
        let request = pending.request.as_ref().map_err(Clone::clone)?;
        let asker = self.asker(pending.client);
        let name = asker.agent()?.name.as_str();
        let topic = Some(request.name().as_str());
        if let Some(rule) = self.enforcement.rule_against(name, RELAY, topic) {
            return Err((NackCode::Forbidden, rule.refusal(name, RELAY)));
        }
        asker.check(request)?;
        if let Request::Stop(reason) = request {
            self.respond(pending, request.name(), &raw(&Empty {}));
            self.log(pending.client, &format!("asked the daemon to end: {reason}"));
            self.stop(reason);
            return Ok(None);
        }
        match self.answer_to(pending, request)? {
            Served::Operation(operation) => Ok(Some(operation)),
            Served::Answer(data) => {
                self.respond(pending, request.name(), &data);
                Ok(None)
            }
        }
    }

    fn answer_to(
        &mut self,
        pending: &PendingRequest,
        request: &Request,
    ) -> Result<Served, Refusal> {
        self.check_room_to_answer(request)?;
        let client = pending.client;
        let query = |query| Served::Operation(Operation::Query(query));
        Ok(match request {
            Request::Status => {
                self.ctx.spend(ROW_WORK);
                let is_operator = self.asker(client).is_operator;
                Served::Answer(raw(&self.status(is_operator)))
            }
            Request::Agents(page) => {
                let page = self.rows().agents(page);
                let (rows, answer) = (page.agents.len(), raw(&page));
                self.ctx.spend(ROW_WORK * rows as u64);
                Served::Answer(answer)
            }
            Request::Tap(tap) => {
                self.requests.begin_tap(client, &pending.send_id, tap.changes);
                Served::Answer(raw(tap))
            }
            Request::Stop(_) => Served::Answer(raw(&Empty {})),
            Request::Reload => Served::Operation(Operation::Reload),
            Request::Message(MessageRequest { id, .. }) => {
                let asker = self.asker(client);
                query(match asker.is_operator {
                    true => Query::Id(id.clone()),
                    false => Query::OwnId(id.clone(), asker.agent()?.number),
                })
            }
            Request::Redeliver(RedeliverRequest { id }) => query(Query::Id(id.clone())),
            Request::Inbox(inbox) => {
                let of = self.asker(client).mailbox(inbox.of.as_deref())?;
                let rows = self.rows();
                let (page, work) = rows.inbox(&of, inbox.cursor.as_deref(), inbox.limit)?;
                self.ctx.spend(work);
                Served::Answer(raw(&page))
            }
            Request::Take(take) => {
                self.ctx.spend(ROW_WORK * take.ids.len() as u64);
                let taken = self.take_mail(take)?;
                self.answer_persisted(taken.taken > 0, raw(&taken))
            }
            Request::History(history) => query(self.history(client, history)?),
            Request::DeadLetters(page) => query(Query::List(Filter {
                dead: true,
                ..self.filter(page.cursor.as_deref(), page.limit)?
            })),
            Request::Forget(of) => {
                self.forget_name(of)?;
                self.answer_persisted(true, raw(&Empty {}))
            }
            Request::Rename(of) => {
                self.rename(of)?;
                self.answer_persisted(true, raw(&Empty {}))
            }
            Request::Purge(of) => {
                let purged = self.purge(of)?;
                self.answer_persisted(purged.purged > 0, raw(&purged))
            }
            Request::Report(report) => {
                self.report(client, report)?;
                Served::Answer(raw(&Empty {}))
            }
            Request::Activity(activity) => {
                self.note_activity(client, activity)?;
                Served::Answer(raw(&Empty {}))
            }
        })
    }

    /// Answers a request; if it has changed something, once that is persisted.
    fn answer_persisted(&self, has_changed: bool, data: Box<RawValue>) -> Served {
        if has_changed && !self.ctx.journal.is_settled() {
            Served::Operation(Operation::Persist(data))
        } else {
            Served::Answer(data)
        }
    }

    /// Checks whether memory has room for an answer, which is charged until the client reads it. An
    /// answer with rows can be as long as a frame.
    fn check_room_to_answer(&mut self, request: &Request) -> Result<(), Refusal> {
        if request.has_rows() {
            self.mail.make_room(&mut self.ctx, 0);
            if !self.ctx.has_memory_for(0) {
                let why = "the daemon has no memory for the answer; ask again later";
                return Err((NackCode::Limit, why.to_owned()));
            }
        }
        Ok(())
    }

    fn asker(&self, client: ClientId) -> Asker<'_> {
        let agent = self.connections.agent_of(client);
        let membership = self.connections.membership(client);
        Asker {
            client,
            agent: agent.and_then(|agent| self.directory.get(agent)),
            is_operator: membership.is_some_and(Membership::is_operator),
        }
    }

    pub(super) fn rows(&self) -> Rows<'_> {
        Rows {
            ctx: &self.ctx,
            connections: &self.connections,
            directory: &self.directory,
            mail: &self.mail,
            requests: &self.requests,
            uptime_ms: self.lifecycle.uptime_ms(self.ctx.now.monotonic),
        }
    }

    fn history(&self, client: ClientId, history: &HistoryRequest) -> Result<Query, Refusal> {
        history.search.as_deref().map_or(Ok(()), check_search)?;
        let asker = self.asker(client);
        let viewer = asker.agent.filter(|_| !asker.is_operator).map(|agent| agent.number);
        Ok(Query::List(Filter {
            of: asker.owner(history.of.as_deref())?.map(|of| self.named_agent(of)),
            viewer,
            with: history.with.as_deref().map(name).transpose()?.map(|of| self.named_agent(of)),
            topic: history.topic.clone(),
            search: history.search.clone(),
            dead: history.dead,
            ..self.filter(history.cursor.as_deref(), history.limit)?
        }))
    }

    /// Returns a filter for all deliveries after the cursor `after`, limited to a page.
    fn filter(&self, after: Option<&str>, limit: Option<usize>) -> Result<Filter, Refusal> {
        Ok(Filter {
            before: cursor(after)?,
            limit: rows_wanted(limit),
            bytes_max: self.rows().room_for_rows(),
            ..Filter::default()
        })
    }

    /// Handles a recipient's report on a delivery.
    fn report(&mut self, client: ClientId, report: &ReportRequest) -> Result<(), Refusal> {
        let id = Uuid::try_parse(&report.id).ok();
        let recipient = id.and_then(|id| {
            let open = self.mail.delivery(id).map(|(_, message)| message.to);
            open.or_else(|| self.requests.reports().recipient(id))
        });
        let (Some(id), Some(to)) = (id, recipient) else { return Err(not_found(&report.id)) };
        self.asker(client).check_report(self.directory.get(to))?;
        if !REPORTS.contains(&&*report.state) {
            let message = format!("the state of a report is one of {}", REPORTS.join(", "));
            return Err((NackCode::Invalid, message));
        }
        let why = report.why.as_ref();
        let why = why.map(|why| why.chars().take(WHY_CHARS_MAX).collect::<String>());
        let reported = Reported {
            state: report.state.as_str().into(),
            why: why.map(Into::into),
            at: self.ctx.now.unix_ms,
        };
        self.connections.note_reports(client);
        if self.mail.report(&mut self.ctx, id, &reported) {
            self.note_wait(id);
        } else {
            self.requests.add_report(id, reported);
        }
        Ok(())
    }

    /// Handles an agent's report of what it does.
    fn note_activity(
        &mut self,
        client: ClientId,
        request: &ActivityRequest,
    ) -> Result<(), Refusal> {
        self.asker(client).check_activity()?;
        let ActivityRequest { activity, source, for_ms, unseen } = request;
        let known = Activity::parse(activity).zip(ActivitySource::parse(source));
        let Some((activity, source)) = known else {
            let message = format!(
                "the activity is one of {}, its source {}",
                list(Activity::ALL),
                list(ActivitySource::ALL)
            );
            return Err((NackCode::Invalid, message));
        };
        let since = self.ctx.now.unix_ms.saturating_sub(*for_ms);
        let doing = Doing { activity, source, since, unseen: *unseen };
        let before = self.connections.note_activity(client, doing);
        if let Some(agent) = self.connections.agent_of(client)
            && before.is_none_or(|it| (it.activity, it.unseen) != (activity, *unseen))
        {
            self.notify_activity(agent, doing);
        }
        Ok(())
    }

    fn status(&self, is_operator: bool) -> Status<'_> {
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            protocol: PROTOCOL.into(),
            uptime_ms: self.lifecycle.uptime_ms(self.ctx.now.monotonic),
            connections: self.connections.len() as u64,
            agents_here: self.directory.here().len() as u64,
            agents_known: self.directory.agents() as u64,
            guests: self.directory.guests_here() as u64,
            streams: self.mail.streams() as u64,
            messages: self.mail.messages() as u64,
            mailbox: if is_operator { self.operator_mail() } else { 0 },
            memory_bytes: self.ctx.memory.held() as u64,
            memory_bytes_max: self.ctx.limits.memory_bytes_max as u64,
            counts: self.ctx.counts,
            too_often: self.enforcement.too_often().cloned(),
            daemon: self.requests.about_daemon(),
        }
    }

    /// Answers a request, even if the client's window is full.
    fn respond(&mut self, pending: &PendingRequest, name: RequestName, data: &RawValue) {
        let PendingRequest { client, send_id, .. } = pending;
        if pending.requires_ack {
            // A request is not persisted: this ACK comes with its answer.
            let ack_id = (&**send_id).into();
            let ack = Ack { ack_id, state: Some("accepted".into()), ..Ack::default() };
            self.connections.answer(&mut self.ctx, *client, Kind::Ack, &ack);
        }
        self.ctx.spend(work::of_json(data.get().len()));
        if let Some(frame) = self.relay_frame(*client, RESPONSE, name.as_str(), data, send_id) {
            self.connections.hand(&mut self.ctx, *client, frame, Content::Answer);
        }
    }

    /// Returns a DELIVER from `@relay`.
    pub(crate) fn relay_frame(
        &mut self,
        client: ClientId,
        kind: &str,
        body: &str,
        data: &RawValue,
        reply_to: &str,
    ) -> Option<Frame> {
        let id = self.ctx.new_id();
        let agent = self.connections.agent_of(client)?;
        let seq = self.requests.next_seq(agent);
        let spoken =
            MessagePayload { kind: kind.into(), body: body.into(), data: Some(data), thread: None };
        let (payload, meta) = (raw(&spoken), raw(&ReplyMeta { reply_to: Some(reply_to.into()) }));
        let mut bytes = Vec::with_capacity(HEAD_BYTES_MAX + payload.get().len() + meta.get().len());
        let mut text = Uuid::encode_buffer();
        let head = Head {
            id: id.hyphenated().encode_lower(&mut text),
            ts: self.ctx.now.unix_ms,
            to: &self.connections.membership(client)?.text,
            seq,
            attempt: 1,
            requires_ack: false,
            to_everyone: false,
            sender: &SenderText::new(SESSION, Proof::Operator),
        };
        head.append(&mut bytes, 0);
        append_shared(&mut bytes, RELAY, None, payload.get(), Some(meta.get()));
        frame::seal(&mut bytes, 0, 0);
        Some(Frame { head: bytes, shared: None })
    }
}

fn list(words: &[impl ToString]) -> String {
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
