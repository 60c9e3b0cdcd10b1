//! `ask`: ask an agent a question, and print its answer.

mod instead;

use super::{
    conversation::Conversation,
    failure::{DONE, Failure, NOT_DELIVERED, TIMED_OUT},
    frames::for_script,
    mailbox::{is_operator, join_operator, take},
    messages::{each_row, payload_text, short_id},
    notices::Notices,
    print::{Out, compact, eprint_line},
    read::with_content,
    request::{call_with, parse},
    send::{delivery_of, join_as, not_delivered, text_or_input},
    values::{agent_name, importance, label, milliseconds},
    wrapped::hops,
};
use argh::{ArgsInfo, FromArgs};
use client::{
    Answer, Client, ConnectionState, Event, Outgoing, SendId,
    home::{HomeOptions, agent_around},
};
use crossbeam_channel::RecvTimeoutError;
use instead::Instead;
use platform::clock;
use protocol::{
    calendar::time_limit,
    code::NackCode,
    name::{EVERYONE, OPERATOR, RELAY, group_of},
    payload::{ANSWER, MessagePayload, Nack, SendMeta, Sync},
    relay::{DEAD, HistoryRequest, MessageRequest, MessageRow, Messages, Page, RequestName},
    text::{escaped, escaped_text},
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{thread, time::Duration};

/// The time to wait for an answer, for a person and for a command in a wrapped agent: agent CLIs
/// end long commands.
const PERSON_MS: u64 = 600_000;
const AGENT_MS: u64 = Sync::TIMEOUT_MS;

/// The extra time, beyond the question's own, for the daemon to report the timeout.
const GRACE_MS: u64 = 5_000;

/// The pause between two queries for the answer to an earlier question.
const PAUSE: Duration = Duration::from_secs(1);

/// Ask an agent a question, wait for its answer, and print it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "ask",
    help_triggers("--help"),
    example = "agent-relay ask Bob \"Which port does the server use?\"",
    example = "agent-relay ask --as Ann --timeout 5m Bob - < question.txt",
    example = "agent-relay ask --resume 1a2b3c4d",
    note = "Prints your question's id on standard error as soon as it is accepted.",
    note = "Without an answer in time the exit code is 4; the question still reaches the agent. A later answer to you waits in your mailbox: `agent-relay inbox` or `ask --resume` shows it.",
    note = "`agent-relay help send` shows how to give a longer text."
)]
pub(super) struct Ask {
    /// the name to send as; default: @operator, or in a wrapped agent its name
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    from: Option<String>,

    /// the file with the name's key, if it has one; default: keys/NAME in the home
    #[argh(option, arg_name = "file")]
    key_file: Option<String>,

    /// the time to wait for the answer, at most 1h; default: 10m, or in a wrapped agent 30s
    #[argh(option, arg_name = "time", from_str_fn(milliseconds))]
    timeout: Option<u64>,

    /// a label of the conversation
    #[argh(option, arg_name = "label", from_str_fn(label))]
    thread: Option<String>,

    /// wait for the answer to an earlier question of yours, or print it if it has come
    #[argh(switch)]
    resume: bool,

    /// the importance, from 0 to 100; above 75 it is typed in before others that wait
    #[argh(option, arg_name = "number", from_str_fn(importance))]
    importance: Option<u8>,

    /// print one JSON object
    #[argh(switch)]
    json: bool,

    /// the agent's name; with --resume, the question's id
    #[argh(positional, arg_name = "agent")]
    to: String,

    /// the text; - or nothing reads standard input
    #[argh(positional, arg_name = "body")]
    body: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    from: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

impl Ask {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        let default = if agent_around().is_some() { AGENT_MS } else { PERSON_MS };
        let timeout = self.timeout.unwrap_or(default);
        if timeout > Sync::TIMEOUT_MS_MAX {
            return Err(Failure::usage("--timeout is at most 1h"));
        }
        if !self.resume {
            return self.ask(options, timeout);
        }
        let is_about_new = self.body.is_some() || self.thread.is_some();
        if is_about_new || self.from.is_some() || self.importance.is_some() {
            let hint = "give the question's id only";
            return Err(Failure::usage("--resume waits for an earlier question").hint(hint));
        }
        let client = join_operator(options, "ask --resume")?;
        self.resume(&client, &self.to, timeout)
    }

    fn ask(&self, options: &HomeOptions, timeout: u64) -> Result<i32, Failure> {
        let to = self.to.as_str();
        let is_group = group_of(to).is_some();
        if is_group || [EVERYONE, RELAY].contains(&to) || to.eq_ignore_ascii_case(OPERATOR) {
            return Err(Failure::usage("a question goes to one agent").hint("give its name"));
        }
        let body = text_or_input(self.body.as_deref(), "ask", to)?;
        let client = join_as(self.from.as_deref(), self.key_file.as_deref(), options)?;
        let mut question = Outgoing::message(to, body);
        question.thread = self.thread.clone();
        question.meta.importance = self.importance;
        question.meta.hops = hops(to);
        let send_id = client.begin_ask(question, Duration::from_millis(timeout))?;
        let deadline = clock::monotonic_ms().saturating_add(timeout).saturating_add(GRACE_MS);
        let question = Question {
            client: &client,
            to,
            send_id,
            is_accepted: false,
            id: None,
            was_away: false,
            instead: Instead::default(),
            notices: Notices::default(),
        };
        self.wait(question, timeout, deadline)
    }

    fn wait(
        &self,
        mut question: Question<'_>,
        timeout: u64,
        deadline: u64,
    ) -> Result<i32, Failure> {
        let client = question.client;
        loop {
            let left = Duration::from_millis(deadline.saturating_sub(clock::monotonic_ms()));
            let mail = question.mail_id();
            let is_watched = question.is_accepted && !question.instead.is_told();
            let pause = if mail.is_some() || is_watched { left.min(PAUSE) } else { left };
            match client.events().recv_timeout(pause) {
                Ok(event) => {
                    if let Some(answer) = question.answer_in(event)? {
                        self.report(&answer)?;
                        return Ok(DONE);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::failed("the connection has ended"));
                }
                Err(RecvTimeoutError::Timeout) => {
                    match mail.as_deref().map(|id| self.look(client, id)) {
                        Some(Ok(Found::Answer)) => return Ok(DONE),
                        Some(Ok(Found::Failure(why))) => {
                            return Err(Failure::new(NOT_DELIVERED, why));
                        }
                        // The daemon may be away.
                        None | Some(Ok(Found::Question { .. }) | Err(_)) if pause < left => {}
                        _ => return Err(question.timed_out(timeout)),
                    }
                    if is_watched {
                        // It may be away, or not let this client look.
                        drop(question.instead.look(client, &question.send_id.0));
                    }
                }
            }
        }
    }

    /// Waits for the answer to an earlier question of the operator's.
    fn resume(&self, client: &Client, id: &str, timeout: u64) -> Result<i32, Failure> {
        let deadline = clock::monotonic_ms().saturating_add(timeout);
        let mut instead = Instead::default();
        let mut found = self.look(client, id)?;
        loop {
            let (id, to) = match found {
                Found::Answer => return Ok(DONE),
                Found::Failure(why) => return Err(Failure::new(NOT_DELIVERED, why)),
                Found::Question { id, to } => (id, to),
            };
            if clock::monotonic_ms() >= deadline {
                return Err(timed_out(client, Some(&id), no_answer(&to, timeout)));
            }
            thread::sleep(PAUSE);
            // The daemon may be away.
            if !instead.is_told() {
                drop(instead.look(client, &id));
            }
            found = self.look(client, &id).unwrap_or(Found::Question { id, to });
        }
    }

    /// Looks for the answer to a question of the operator's, and prints it.
    fn look(&self, client: &Client, id: &str) -> Result<Found, Failure> {
        let request =
            MessageRequest { id: id.to_owned(), limit: Some(1), ..MessageRequest::default() };
        let json = call_with(client, RequestName::Message, &request)?;
        let found: Messages<MessageRow<'_>> = parse(RequestName::Message, &json)?;
        let question = found.messages.into_iter().next().filter(is_own_question);
        let Some(question) = question else {
            let message = format!("{} is not a question of yours", escaped(id));
            return Err(Failure::failed(message).hint("`agent-relay history` shows ids"));
        };
        if self.show_answer_to(client, &question)? {
            return Ok(Found::Answer);
        }
        let (state, why) = (&question.delivery.state, question.delivery.why.as_deref());
        Ok(match why.filter(|_| state == DEAD) {
            Some(why) => Found::Failure(escaped(why)),
            None => Found::Question { id: question.id.to_string(), to: escaped(&question.to) },
        })
    }

    /// Prints the answer to a question, and removes it from the mailbox. Returns false if there is
    /// no answer.
    fn show_answer_to(&self, client: &Client, question: &MessageRow<'_>) -> Result<bool, Failure> {
        let request = |Page { cursor, limit }| HistoryRequest {
            of: Some(OPERATOR.to_owned()),
            with: Some(question.to.to_string()),
            cursor,
            limit,
            ..HistoryRequest::default()
        };
        let mut is_shown = false;
        each_row(client, RequestName::History, usize::MAX, request, |_, row| {
            // The newest messages come first, and an answer is newer than its question.
            if row.taken < question.taken || row.id == question.id {
                return Ok(false);
            }
            if !row.from.eq_ignore_ascii_case(&question.to) {
                return Ok(true);
            }
            with_content(client, row.clone(), |row| {
                let reply_to = Conversation::of_row(row).reply_to;
                if reply_to.is_some_and(|id| is_beginning_of(&id, &question.id)) {
                    self.report(&answer_in(row))?;
                    is_shown = true;
                }
                Ok(())
            })?;
            if is_shown && row.delivery.ended.is_none() {
                take(client, vec![row.id.to_string()])?;
            }
            Ok(!is_shown)
        })?;
        Ok(is_shown)
    }

    fn report(&self, answer: &Answer) -> Result<(), Failure> {
        let mut out = Out::new();
        let Answer { from, response, data } = answer;
        if self.json {
            let report = Report { from, response: *response, data: data.as_deref() };
            return out.json("answer", &report);
        }
        out.line(for_script(answer_text(answer)))
    }
}

/// A sent question that awaits its answer.
struct Question<'a> {
    client: &'a Client,
    to: &'a str,
    send_id: SendId,
    is_accepted: bool,
    /// The id of its delivery, or its own, once it is accepted, if the operator asks: only the
    /// operator can resume a question.
    id: Option<String>,
    /// Whether the connection was lost since it was sent.
    was_away: bool,
    instead: Instead,
    notices: Notices,
}

impl Question<'_> {
    /// The id of the answer in the operator's mailbox: an answer becomes mail if the connection
    /// that asked was lost.
    fn mail_id(&self) -> Option<String> {
        self.id.clone().filter(|_| self.was_away)
    }

    /// Returns the answer that an event brings. A refusal is a failure.
    fn answer_in(&mut self, event: Event) -> Result<Option<Answer>, Failure> {
        match event {
            Event::Accepted { send_id, away, .. } if send_id == self.send_id => {
                self.is_accepted = true;
                if is_operator(self.client) {
                    self.print_id(away)?;
                }
            }
            Event::Answered { send_id, answer, .. } if send_id == self.send_id => {
                return Ok(Some(answer));
            }
            Event::Refused { send_id, nack } if send_id == self.send_id => {
                return Err(refused(self.client, self.to, self.id.as_deref(), &nack));
            }
            event => {
                self.was_away |= matches!(event, Event::State(ConnectionState::Backoff { .. }));
                self.notices.print(event)?;
            }
        }
        Ok(None)
    }

    fn print_id(&mut self, away: bool) -> Result<(), Failure> {
        let delivery = delivery_of(self.client, &self.send_id)?.map(|queued| queued.id);
        let id = delivery.unwrap_or_else(|| self.send_id.0.clone());
        let away = if away { ", who is away" } else { "" };
        eprint_line(format_args!("asked {}{away}: {}", escaped(self.to), short_id(&id)));
        self.id = Some(id);
        Ok(())
    }

    fn timed_out(&self, timeout: u64) -> Failure {
        timed_out(self.client, self.id.as_deref(), no_answer(&escaped(self.to), timeout))
    }
}

/// The result of a query for the answer to a question.
enum Found {
    /// The answer, which was printed.
    Answer,
    /// The reason why the question was not delivered.
    Failure(String),
    /// The question, which has no answer yet: its whole id, and the agent that was asked.
    Question { id: String, to: String },
}

fn no_answer(to: &str, timeout: u64) -> String {
    format!("{to} did not answer within {}", time_limit(timeout))
}

/// The failure of a question that was refused by the daemon or the recipient, or that timed out.
fn refused(client: &Client, to: &str, id: Option<&str>, nack: &Nack) -> Failure {
    if nack.code == NackCode::SyncTimeout.as_str() {
        return timed_out(client, id, escaped(&nack.message));
    }
    not_delivered(client, to, nack)
}

/// The failure of a question without an answer in time.
fn timed_out(client: &Client, id: Option<&str>, why: String) -> Failure {
    let failure = Failure::new(TIMED_OUT, why);
    match id.filter(|_| is_operator(client)) {
        Some(id) => {
            let id = short_id(id);
            failure.hint(format!("a later answer is kept: `agent-relay ask --resume {id}`"))
        }
        None => failure,
    }
}

/// Whether a message is a question that the operator asked.
fn is_own_question(row: &MessageRow<'_>) -> bool {
    let meta = row.payload_meta.and_then(|meta| serde_json::from_str(meta.get()).ok());
    let asks = meta.is_some_and(|meta: SendMeta| meta.sync.is_some());
    row.from == OPERATOR && (asks || row.truncated)
}

/// The fewest characters of an id that name it in a reply.
const ID_CHARS_MIN: usize = 8;

fn is_beginning_of(beginning: &str, id: &str) -> bool {
    beginning.len() >= ID_CHARS_MIN && id.starts_with(beginning)
}

/// The answer that a message contains.
fn answer_in(row: &MessageRow<'_>) -> Answer {
    let payload = row.payload.and_then(|payload| serde_json::from_str(payload.get()).ok());
    let payload: MessagePayload<'_> = payload.unwrap_or_default();
    let text = row.payload.map(payload_text).unwrap_or_default();
    let body = || serde_json::value::to_raw_value(&serde_json::json!({ "body": text })).ok();
    let is_no = payload.data.is_some_and(|data| !payload.body.is_empty() && data.get() == NO);
    let data = match payload.data {
        Some(data) if payload.body.is_empty() => Some(data.to_owned()),
        _ => body(),
    };
    let response = (payload.kind == ANSWER).then_some(!is_no);
    Answer { from: row.from.to_string(), response, data }
}

/// The data of an answer that means no although its text does not say so.
const NO: &str = r#"{"response":false}"#;

/// The text of an answer, escaped.
pub(super) fn answer_text(answer: &Answer) -> String {
    match (answer.body(), &answer.data, answer.response) {
        (Some(body), ..) => escaped_text(&body),
        (None, Some(data), _) => escaped_text(&compact(data)),
        (None, None, Some(true)) => "yes".to_owned(),
        (None, None, Some(false)) => "no".to_owned(),
        (None, None, None) => "(no text)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_shown_as_escaped_text() {
        let shown = |response, data: Option<&str>| {
            let data = data.map(|data| RawValue::from_string(data.to_owned()).unwrap());
            answer_text(&Answer { from: "Bob".to_owned(), response, data })
        };
        assert_eq!(shown(Some(true), Some(r#"{"body":"a\u001b[2J\nb","n":1}"#)), "a\\u{1b}[2J\nb");
        assert_eq!(shown(None, Some("{\"port\":\n80}")), "{\"port\": 80}");
        assert_eq!(shown(Some(true), None), "yes");
        assert_eq!(shown(Some(false), None), "no");
    }
}
