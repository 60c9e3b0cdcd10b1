//! `send`: send a message, to one agent or to each of several.

use super::{
    context::context,
    failure::{DONE, Failure, NOT_DELIVERED, TIMED_OUT, first_failure},
    groups,
    identity::{Identity, check_sender_name, joining_key, key_of, or_print},
    input,
    join::join_or_start,
    mailbox::remind,
    messages::{ahead, short_id},
    notices::Notices,
    print::{Out, counted, eprint_line},
    request::{call, data_of, nearest_agent, parse},
    values::{agent_name, importance, label, milliseconds},
    wrapped::{hops, wrote_to_person},
};
use argh::{ArgsInfo, FromArgs};
use client::{
    Client, Event, Meta, Outgoing, SendId, Settings,
    home::{HomeOptions, Keys},
};
use crossbeam_channel::RecvTimeoutError;
use platform::{
    clock,
    tty::{Standard, is_output_discarded, is_terminal},
};
use protocol::{
    calendar::time_limit,
    code::NackCode,
    name::{EVERYONE, Name, OPERATOR, RELAY},
    payload::{Capabilities, Group, Nack},
    relay::{DeliveryState, MessageRequest, MessageRow, Messages, RequestName},
    text::escaped,
    topic,
};
use serde::Serialize;
use serde_json::value::to_raw_value;
use std::time::Duration;

/// The longest body that is read, in bytes. The daemon's limit is usually far lower.
pub(super) const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Send a message to agents, to everyone (*), or to a topic's subscribers.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "send",
    help_triggers("--help"),
    example = "agent-relay send Bob \"The build is green.\"",
    example = "agent-relay send Ann,Bob \"The build is green.\"",
    example = "agent-relay send @reviewers \"Please look at the branch web.\"",
    example = "agent-relay send --topic build.linux \"*\" - < report.txt",
    note = "At least once by default: returns when the daemon has accepted the message, and to an agent of another machine (Bob@pi) when that has it or refuses it, at most 5 s later.",
    note = "Several agents get a message each, and each has its line of the result. PowerShell needs quotes: \"Ann,Bob\", \"@reviewers\".",
    note = "",
    note = "Standard input and files are UTF-8, or UTF-16 with a byte order mark. The mark and carriage returns before newlines are not sent. More than a plain line, by shell:",
    note = "  bash        agent-relay send Bob - <<'END'",
    note = "              then the text, and END on a line of its own (Git Bash rewrites",
    note = "              an argument that begins with a slash: use - or --file)",
    note = "  PowerShell  @'",
    note = "              the text on lines of its own",
    note = "              '@ | agent-relay send Bob -",
    note = "              (first, in Windows PowerShell 5.1:",
    note = "              $OutputEncoding = [Text.UTF8Encoding]::new())",
    note = "  cmd         echo one line> text.txt",
    note = "              echo another>> text.txt",
    note = "              agent-relay send Bob - < text.txt",
    note = "              (first chcp 65001, if the text is more than ASCII)"
)]
pub(super) struct Send {
    /// the name to send as; default: @operator, or in a wrapped agent its name
    #[argh(option, long = "as", arg_name = "name", from_str_fn(agent_name))]
    from: Option<String>,

    /// the file with the name's key, if it has one; default: keys/NAME in the home
    #[argh(option, arg_name = "file")]
    key_file: Option<String>,

    /// the topic to send on
    #[argh(option, arg_name = "topic")]
    topic: Option<String>,

    /// a label of the conversation
    #[argh(option, arg_name = "label", from_str_fn(label))]
    thread: Option<String>,

    /// the time to live, such as 60s or 5m; a bare number is seconds
    #[argh(option, arg_name = "time", from_str_fn(milliseconds))]
    ttl: Option<u64>,

    /// the importance, from 0 to 100; above 75 it is typed in before others that wait
    #[argh(option, arg_name = "number", from_str_fn(importance))]
    importance: Option<u8>,

    /// read the text from this file
    #[argh(option, arg_name = "file")]
    file: Option<String>,

    /// deliver at most once: the message is lost if it cannot be delivered now
    #[argh(switch)]
    no_ack: bool,

    /// the time to wait for the daemon to accept each message; default: 30s
    #[argh(option, arg_name = "time", from_str_fn(milliseconds), default = "30_000")]
    timeout: u64,

    /// print one JSON object a line for each agent
    #[argh(switch)]
    json: bool,

    /// the agent's name, @GROUP for each agent of a team's group, several with commas, or * for
    /// everyone
    #[argh(positional, arg_name = "to")]
    to: String,

    /// the text; - or nothing reads standard input
    #[argh(positional, arg_name = "body")]
    pub(super) body: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    /// The id of the delivery, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    send_id: &'a str,
    to: &'a str,
    state: &'a str,
    #[serde(flatten)]
    accepted: Accepted,
}

/// The daemon's answer to an accepted message.
#[derive(Clone, Copy, Default, Serialize)]
struct Accepted {
    #[serde(skip_serializing_if = "Option::is_none")]
    recipients: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    away: bool,
    /// Whether the recipient's machine is known to have the message, if the recipient is on another
    /// machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived: Option<bool>,
}

/// The longest wait for the outcome of a message to another machine, in milliseconds.
const ARRIVAL_MS: u64 = 5_000;

/// The pause between two queries of such a message's state.
const ARRIVAL_INTERVAL: Duration = Duration::from_millis(100);

impl Send {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if let Some(topic) = &self.topic {
            topic::check(topic).map_err(|error| Failure::usage(error.to_string()))?;
        }
        let recipients = self.recipients(options)?;
        let body = self.read_body()?;
        let client = join_as(self.from.as_deref(), self.key_file.as_deref(), options)?;
        let size = recipients.len();
        let id = (size > 1).then(SendId::random).transpose()?;
        let group = id.map(|id| Box::new(Group { id: id.0, name: self.to.clone(), size }));
        let each = |to| One { of: &self, client: &client, to, group: group.clone() };
        let sent = recipients.iter().map(|to| each(to).send(&body));
        let code = first_failure(self.json, sent);
        if code == DONE && !self.json {
            remind(&client);
        }
        Ok(code)
    }

    /// Returns the recipients, each once, with the agents of groups.
    fn recipients(&self, options: &HomeOptions) -> Result<Vec<String>, Failure> {
        let named = self.to.split(',').map(str::trim);
        if named.clone().any(str::is_empty) {
            let failure = Failure::usage(format!("\"{}\" lacks a name", escaped(&self.to)));
            return Err(failure.hint("name agents as in Ann,Bob"));
        }
        let recipients = groups::expanded(options, named, self.from.as_deref())?;
        match *recipients {
            [_, _, ..] if recipients.iter().any(|to| to == EVERYONE) => {
                Err(Failure::usage("* is everyone already").hint("leave the other names out"))
            }
            _ => Ok(recipients),
        }
    }

    fn read_body(&self) -> Result<String, Failure> {
        match (self.body.as_deref(), self.file.as_deref()) {
            (Some(_), Some(_)) => {
                Err(Failure::usage("the text is given twice").hint("leave out --file or the text"))
            }
            (body, None) => text_or_input(body, "send", &self.to),
            (None, Some(path)) => {
                let text = input::read_text(Some(path), BODY_BYTES_MAX)?;
                unless_blank(text, format!("{} is empty", escaped(path)))
            }
        }
    }
}

/// The message to one of the recipients.
struct One<'a> {
    of: &'a Send,
    client: &'a Client,
    to: &'a str,
    /// The message to all recipients, if there are several.
    group: Option<Box<Group>>,
}

impl One<'_> {
    fn send(&self, body: &str) -> Result<(), Failure> {
        let deadline = clock::monotonic_ms().saturating_add(self.of.timeout);
        let send_id = self.client.send(self.message(body))?;
        let has_one_delivery = !self.of.no_ack && !self.is_to_everyone();
        // The answer comes shortly after the ACK, and only a report needs it.
        let delivery = match has_one_delivery && !is_output_discarded() {
            true => delivery_of(self.client, &send_id)?,
            false => None,
        };
        let mut sent = if self.of.no_ack {
            self.wait_until_handled(&send_id, deadline)?
        } else {
            self.wait_until_accepted(&send_id, deadline)?
        };
        let crosses = has_one_delivery && Name::parse_remote(self.to).is_ok();
        if crosses && !sent.away {
            sent.arrived = Some(self.wait_until_arrived(&send_id)?);
        }
        if sent.recipients == Some(0) {
            let why = match &self.of.topic {
                None => "no agent is connected to receive it".to_owned(),
                Some(topic) => format!("no connected agent subscribes to {}", escaped(topic)),
            };
            return Err(Failure::new(NOT_DELIVERED, why));
        }
        if self.to.eq_ignore_ascii_case(OPERATOR) {
            wrote_to_person();
        }
        // The message is sent. After a failure, scripts would send it again.
        if let Err(failure) = self.report(&send_id, sent, delivery)
            && let Some(line) = failure.line()
        {
            eprint_line(format_args!("{line}; the message is sent"));
        }
        Ok(())
    }

    fn message(&self, body: &str) -> Outgoing {
        let meta = Meta {
            requires_ack: !self.of.no_ack,
            ttl_ms: self.of.ttl,
            importance: self.of.importance,
            group: self.group.clone(),
            hops: hops(self.to),
            ..Meta::default()
        };
        Outgoing {
            to: Some(self.to.to_owned()),
            topic: self.of.topic.clone(),
            thread: self.of.thread.clone(),
            body: body.to_owned(),
            meta,
            ..Outgoing::default()
        }
    }

    /// Waits until the daemon has accepted the message.
    fn wait_until_accepted(&self, send_id: &SendId, deadline: u64) -> Result<Accepted, Failure> {
        let (mut missed, mut notices) = (None, Notices::default());
        loop {
            match self.next(deadline)? {
                Event::Accepted { send_id: id, recipients, away } if id == *send_id => {
                    return missed.map_or(Ok(Accepted { recipients, away, arrived: None }), Err);
                }
                Event::Refused { send_id: id, nack } if id == *send_id => {
                    let is_partial = nack.to.is_some() && self.is_to_everyone();
                    let failure = not_delivered(self.client, self.to, &nack);
                    if !is_partial {
                        return Err(failure);
                    }
                    // Other recipients may still receive the message. Each failure is reported.
                    missed = Some(report_earlier(missed, failure));
                }
                event => notices.print(event)?,
            }
        }
    }

    /// Waits for a few seconds until the recipient's machine has the message or has refused it.
    /// Returns whether it is known to have it.
    fn wait_until_arrived(&self, send_id: &SendId) -> Result<bool, Failure> {
        let until = clock::monotonic_ms().saturating_add(ARRIVAL_MS);
        let mut notices = Notices::default();
        loop {
            let delivery = delivery_of(self.client, send_id)?;
            if delivery.is_some_and(|delivery| delivery.is_acknowledged) {
                return Ok(true);
            }
            match self.client.events().recv_timeout(ARRIVAL_INTERVAL) {
                Ok(Event::Refused { send_id: id, nack }) if id == *send_id => {
                    return Err(not_delivered(self.client, self.to, &nack));
                }
                Ok(event) => notices.print(event)?,
                Err(RecvTimeoutError::Timeout) if clock::monotonic_ms() < until => {}
                Err(_) => return Ok(false),
            }
        }
    }

    /// Waits until the daemon has handled an at-most-once message. Only a refusal is answered, so
    /// this sends a later request: a refusal arrives before the answer to that request.
    fn wait_until_handled(&self, send_id: &SendId, deadline: u64) -> Result<Accepted, Failure> {
        let mut notices = Notices::default();
        loop {
            call(self.client, RequestName::Status, None)?;
            let mut retry_ms = None;
            for event in self.client.events().try_iter() {
                match event {
                    Event::Refused { send_id: id, nack } if id == *send_id => {
                        return Err(not_delivered(self.client, self.to, &nack));
                    }
                    Event::Busy { send_id: id, wait_ms } if id == *send_id => {
                        retry_ms = Some(wait_ms);
                    }
                    event => notices.print(event)?,
                }
            }
            let Some(wait_ms) = retry_ms else { return Ok(Accepted::default()) };
            if clock::monotonic_ms().saturating_add(wait_ms) > deadline {
                return Err(self.timed_out());
            }
            // After this pause, the client library has retransmitted the message.
            std::thread::sleep(Duration::from_millis(wait_ms + 1));
        }
    }

    fn next(&self, deadline: u64) -> Result<Event, Failure> {
        let left = Duration::from_millis(deadline.saturating_sub(clock::monotonic_ms()));
        self.client.events().recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => self.timed_out(),
            RecvTimeoutError::Disconnected => Failure::failed("the connection has ended"),
        })
    }

    fn timed_out(&self) -> Failure {
        let to = escaped(self.to);
        Failure::new(
            TIMED_OUT,
            format!(
                "the message was not accepted within {}: {to} has no room, or the daemon is slow",
                time_limit(self.of.timeout)
            ),
        )
    }

    fn is_to_everyone(&self) -> bool {
        self.to == EVERYONE
    }

    fn report(
        &self,
        send_id: &SendId,
        accepted: Accepted,
        delivery: Option<Queued>,
    ) -> Result<(), Failure> {
        let state = if self.of.no_ack { "taken" } else { "accepted" };
        let mut out = Out::new();
        let id = delivery.as_ref().map(|delivery| &*delivery.id);
        if self.of.json {
            let (send_id, to) = (&*send_id.0, self.to);
            return out.json("sent", &Report { id, send_id, to, state, accepted });
        }
        let id = short_id(id.unwrap_or(&send_id.0));
        let to = escaped(self.to);
        match accepted.recipients {
            None if accepted.away => {
                let expires = delivery.and_then(|delivery| delivery.expires).map(ahead);
                let kept = expires.map(|time| format!(" (kept for {time})")).unwrap_or_default();
                out.line(format_args!("queued {id}: {to} is away{kept}"))
            }
            None if accepted.arrived == Some(false) => out.line(format_args!(
                "accepted {id} here; {to} has not got it yet: `agent-relay status {id}` shows more"
            )),
            None if self.group.is_some() => out.line(format_args!("{state} {id} for {to}")),
            None => out.line(format_args!("{state} {id}")),
            Some(count) => {
                out.line(format_args!("{state} {id} for {}", counted(count, "recipient")))
            }
        }
    }
}

/// A delivery that the daemon has accepted.
pub(super) struct Queued {
    pub(super) id: String,
    /// The moment when it expires.
    expires: Option<u64>,
    is_acknowledged: bool,
}

/// The longest wait for a delivery's id.
const LOOK: Duration = Duration::from_secs(1);

/// Asks for the delivery of a message by the id that people see. `None` if the message is not
/// accepted, if the sender may not ask, or if the daemon does not answer now.
pub(super) fn delivery_of(client: &Client, send_id: &SendId) -> Result<Option<Queued>, Failure> {
    let request = MessageRequest { id: send_id.0.clone(), limit: Some(1), ..Default::default() };
    let request = to_raw_value(&request).expect("a request is JSON");
    let Ok(answer) = client.request_within(LOOK, RequestName::Message, Some(&request)) else {
        return Ok(None);
    };
    let json = data_of(&answer).unwrap_or("{}");
    let found: Messages<MessageRow<'_>> = parse(RequestName::Message, json)?;
    let row = found.messages.into_iter().next();
    Ok(row.map(|row| Queued {
        id: row.id.into_owned(),
        expires: row.delivery.expires,
        is_acknowledged: row.delivery.state == DeliveryState::Acknowledged.as_str(),
    }))
}

/// Returns a text, unless it is blank. That is a mistake, such as a variable that is not set.
fn unless_blank(text: String, hint: String) -> Result<String, Failure> {
    if text.trim().is_empty() { Err(Failure::usage("no text").hint(hint)) } else { Ok(text) }
}

/// Returns a text, or standard input for `-`. Without a text, standard input is read unless it is
/// a terminal.
pub(super) fn text_or_input(
    text: Option<&str>,
    command: &str,
    to: &str,
) -> Result<String, Failure> {
    let text = match text {
        Some(text) if text != "-" => text.to_owned(),
        None if is_terminal(Standard::Input) => String::new(),
        _ => input::read_text(None, BODY_BYTES_MAX)?,
    };
    unless_blank(text, format!("give one: {command} {} \"hello\"", escaped(to)))
}

/// Joins in order to send: as the named agent, with its key if it has one, or with the identity of
/// this process.
pub(super) fn join_as(
    from: Option<&str>,
    key_file: Option<&str>,
    options: &HomeOptions,
) -> Result<Client, Failure> {
    join_named(from, key_file, options).map_err(or_print)
}

fn join_named(
    from: Option<&str>,
    key_file: Option<&str>,
    options: &HomeOptions,
) -> Result<Client, Failure> {
    let mut context = context(options)?;
    from.map_or(Ok(()), check_sender_name)?;
    let identity = Identity::of_process(&context)?;
    if from.is_none() {
        identity.check_is_person()?;
    }
    let (Identity::Person(_), Some(name)) = (&identity, from) else {
        return join_or_start(&mut context, &|endpoint| identity.settings(endpoint));
    };
    let key = key_of(&context.home, name, key_file)?;
    // This command only sends: messages to the agent must not be delivered to it.
    let capabilities = Capabilities { max_inflight: 0, ..Capabilities::default() };
    let keys = Keys::of(&context);
    join_or_start(&mut context, &|endpoint| Settings {
        capabilities,
        key: joining_key(key.as_ref(), &keys, endpoint),
        ..Settings::agent(endpoint, name)
    })
}

/// The failure of a message that the daemon or the recipient has refused.
pub(super) fn not_delivered(client: &Client, to: &str, nack: &Nack) -> Failure {
    let failure = Failure::new(NOT_DELIVERED, escaped(&nack.message)).refused(&nack.code);
    let is_unknown = nack.code == NackCode::UnknownAgent.as_str() && to != RELAY;
    match is_unknown.then(|| nearest_agent(to, client)).flatten() {
        Some(name) => failure.hint(format!("did you mean \"{}\"?", escaped(&name))),
        None => failure,
    }
}

/// Prints an earlier failure, and returns the later one.
fn report_earlier(earlier: Option<Failure>, failure: Failure) -> Failure {
    if let Some(line) = earlier.and_then(|failure| failure.line()) {
        eprint_line(line);
    }
    failure
}
