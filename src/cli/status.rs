//! `status`: the state of the daemon and of the bridges, or of a message.

mod prometheus;

use super::{
    agents, bridges,
    context::context,
    failure::{DONE, FAILED, Failure},
    identity::{Identity, or_print},
    join::join,
    launch::program_ends_with_starter,
    mailbox,
    messages::{self, DeliveryWords, ago, ahead, each_row, route, short_id},
    print::{Colour, Out, counted},
    request::{agent_row, call, parse},
};
use argh::{ArgsInfo, FromArgs};
use client::{Client, ClientError, home::HomeOptions};
use machines::report::Known;
use platform::clock;
use protocol::{
    calendar::duration,
    relay::{self, AgentRow, MessageRequest, MessageRow, Page, RequestName},
    text::escaped,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// Show the state of the daemon and of the bridges to other machines, or of a message.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "status",
    help_triggers("--help"),
    example = "agent-relay status",
    example = "agent-relay status --json",
    example = "agent-relay status --prometheus > agent-relay.prom",
    example = "agent-relay status 3f2504e0-4f89-41d3-9a0c-0305e82c3301"
)]
pub(super) struct Status {
    /// print one JSON object, or for a message one a line for each recipient
    #[argh(switch)]
    json: bool,

    /// print the state of the daemon and of the bridges in Prometheus' text format, also if no
    /// daemon runs
    #[argh(switch)]
    prometheus: bool,

    /// the id of a message or of its SEND, or the eight characters that an agent is shown
    #[argh(positional, arg_name = "id")]
    id: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    running: bool,
    endpoint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a RawValue>,
    bridges: Vec<Known>,
}

/// The activity of a message's recipient.
#[derive(Serialize)]
struct Recipient {
    /// The activity in words that follow the agent's name.
    #[serde(skip)]
    words: String,
    activity: String,
    activity_since: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    activity_source: Option<String>,
}

impl Recipient {
    fn of(agent: &AgentRow<'_>) -> Option<Self> {
        let (words, activity_since) = agents::activity(agent)?;
        Some(Self {
            words,
            activity: agent.activity.as_deref()?.to_owned(),
            activity_since,
            activity_source: agent.activity_source.as_deref().map(str::to_owned),
        })
    }
}

#[derive(Serialize)]
struct RowWithRecipient<'a> {
    #[serde(flatten)]
    row: &'a MessageRow<'a>,
    agent: &'a Recipient,
}

impl Status {
    pub(super) fn run(self, options: &HomeOptions) -> Result<i32, Failure> {
        if self.prometheus && (self.json || self.id.is_some()) {
            return Err(Failure::usage(
                "--prometheus takes neither --json nor the id of a message",
            ));
        }
        let mut out = Out::new();
        if let Some(id) = &self.id {
            return self.message(options, &mut out, id);
        }
        let context = context(options).map_err(or_print)?;
        let bridges = bridges::known(&context.home);
        let identity = Identity::of_process(&context).map_err(or_print)?;
        match context.try_join(&|endpoint| identity.settings(endpoint)) {
            Err(ClientError::NoDaemon { .. }) if self.prometheus => {
                out.raw(&prometheus::text(None, &bridges))?;
                Ok(DONE)
            }
            Err(ClientError::NoDaemon { endpoint, .. }) if self.json => {
                let report = Report { running: false, endpoint: &endpoint, status: None, bridges };
                out.json("status", &report)?;
                Ok(FAILED)
            }
            Err(error) => Err(or_print(error.into())),
            Ok(client) => {
                let json = call(&client, RequestName::Status, None)?;
                if self.prometheus {
                    let status = parse(RequestName::Status, &json)?;
                    let process = process(&status)?;
                    out.raw(&prometheus::text(Some((&status, process.as_ref())), &bridges))?;
                } else if self.json {
                    let status = Some(parse(RequestName::Status, &json)?);
                    let endpoint = client.endpoint();
                    out.json("status", &Report { running: true, endpoint, status, bridges })?;
                } else {
                    show(&mut out, &client, &parse(RequestName::Status, &json)?)?;
                    show_bridges(&mut out, &bridges)?;
                }
                Ok(DONE)
            }
        }
    }

    fn message(&self, options: &HomeOptions, out: &mut Out, id: &str) -> Result<i32, Failure> {
        let client = join(options)?;
        let request = |Page { cursor, limit }| MessageRequest {
            id: id.to_owned(),
            cursor,
            limit,
            offset: None,
        };
        each_row(&client, RequestName::Message, usize::MAX, request, |json, row| {
            let recipient = recipient(&client, row)?;
            match (self.json, &recipient) {
                (true, Some(agent)) => out.json(messages::SCHEMA, &RowWithRecipient { row, agent }),
                (true, None) => out.json_text(messages::SCHEMA, json),
                (false, _) => {
                    show_delivery(out, row)?;
                    show_recipient(out, row, recipient.as_ref())
                }
            }?;
            Ok(true)
        })?;
        Ok(DONE)
    }
}

/// Prints the delivery of a message, in several lines.
fn show_delivery(out: &mut Out, row: &MessageRow<'_>) -> Result<(), Failure> {
    let delivery = &row.delivery;
    let attempts = match (delivery.attempts, delivery.failures) {
        (0, 0) if delivery.ended.is_some() => "never".to_owned(),
        (0, 0) => "not yet".to_owned(),
        (attempts, 0) => format!("attempt {attempts}"),
        (attempts, failures) => format!("attempt {attempts}; {failures} failed"),
    };
    let mut lines = vec![
        ("id", format!("{} ({})", short_id(&row.id), escaped(&row.id))),
        ("accepted", accepted(row)),
        ("handed", attempts),
    ];
    if let Some(reported) = &delivery.reported {
        let why = reported.why.as_deref().map(|why| format!(": {}", escaped(why)));
        let (state, why) = (escaped(&reported.state), why.unwrap_or_default());
        lines.push(("reported", format!("{state}{why}, {}", ago(reported.at))));
    }
    lines.push(("now", now(row)));
    let heading = out.paint(Colour::Bold, route(row));
    out.line(heading)?;
    for (name, value) in lines {
        let name = out.paint(Colour::Faint, format!("{name:<9}"));
        out.line(format_args!("  {name} {value}"))?;
    }
    Ok(())
}

/// Returns the recipient of an open delivery, if its activity is known.
fn recipient(client: &Client, row: &MessageRow<'_>) -> Result<Option<Recipient>, Failure> {
    if row.delivery.ended.is_some() {
        return Ok(None);
    }
    agent_row(client, &row.to, |agent| Recipient::of(agent?))
}

/// Prints the activity of a delivery's recipient.
fn show_recipient(
    out: &mut Out,
    row: &MessageRow<'_>,
    recipient: Option<&Recipient>,
) -> Result<(), Failure> {
    let Some(Recipient { words, activity_since, .. }) = recipient else { return Ok(()) };
    let since = duration(clock::unix_ms().saturating_sub(*activity_since));
    let name = out.paint(Colour::Faint, format!("{:<9}", "agent"));
    out.line(format_args!("  {name} {} {words}, for {since}", escaped(&row.to)))
}

fn accepted(row: &MessageRow<'_>) -> String {
    if mailbox::is_being_stored(row) && row.delivery.attempts == 0 {
        return "not yet: it is being stored".to_owned();
    }
    let survives = match &*row.durability {
        "disk" => "it survives the loss of power",
        _ => "it survives the end of the daemon",
    };
    format!("{}; {survives}", ago(row.taken))
}

/// The present state of a message in words.
fn now(row: &MessageRow<'_>) -> String {
    let ended = row.delivery.ended.map(|at| format!(", {}", ago(at))).unwrap_or_default();
    let expires = row.delivery.expires.map(|at| format!("; it expires in {}", ahead(at)));
    format!("{}{ended}{}", DeliveryWords::of(row), expires.unwrap_or_default())
}

fn show(out: &mut Out, client: &Client, status: &relay::Status<'_>) -> Result<(), Failure> {
    let counts = &status.counts;
    let process = process(status)?;
    let fails = process.as_ref().and_then(|process| process.store_fails.as_deref()).map(escaped);
    let notes = process.as_ref().map(notes).unwrap_or_default();
    let lines = [
        ("endpoint", client.endpoint().to_owned()),
        ("process", process.map_or_else(|| "unknown".to_owned(), process_words)),
        (
            "version",
            format!("{} (protocol {})", escaped(&status.version), escaped(&status.protocol)),
        ),
        ("up for", duration(status.uptime_ms)),
        (
            "agents",
            format!(
                "{} here, {} known; connections: {}",
                status.agents_here, status.agents_known, status.connections
            ),
        ),
        ("waiting", counted(status.messages, "message")),
        ("store", fails.map_or_else(|| "works".to_owned(), |why| format!("fails: {why}"))),
        (
            "memory",
            format!("{} of {} KiB", status.memory_bytes / 1024, status.memory_bytes_max / 1024),
        ),
        (
            "so far",
            format!(
                "{} accepted, {} delivered, {} acknowledged",
                counts.taken, counts.delivered, counts.acknowledged
            ),
        ),
        (
            "problems",
            format!(
                "{} busy, {} refused, {} expired, {} returned, {} abandoned",
                counts.busy, counts.refused, counts.expired, counts.given_back, counts.gave_up
            ),
        ),
    ];
    let too_often = status.too_often.as_ref().map(|limited| {
        let (from, to) = (escaped(&limited.from), escaped(&limited.to));
        let at = ago(limited.at);
        format!("{} refused, the last from {from} to {to} {at}", limited.refused)
    });
    let mailbox = Some(status.mailbox).filter(|count| *count > 0);
    let mailbox = mailbox.map(|count| ("for you", counted(count, "message")));
    let lines = lines.into_iter().chain(too_often.map(|line| ("too often", line)));
    let lines = lines.chain(mailbox);
    let up = out.paint(Colour::Green, "the daemon is up");
    out.line(up)?;
    for (name, value) in lines {
        let name = out.paint(Colour::Faint, format!("{name:<9}"));
        out.line(format_args!("  {name} {value}"))?;
    }
    for remark in notes {
        let name = out.paint(Colour::Yellow, format!("{:<9}", "note"));
        out.line(format_args!("  {name} {}", escaped(&remark)))?;
    }
    Ok(())
}

/// Prints the state of each bridge.
fn show_bridges(out: &mut Out, all: &[Known]) -> Result<(), Failure> {
    let now = clock::unix_ms();
    for Known { report, .. } in all {
        let hosts = match &*bridges::hosts(report) {
            "" => String::new(),
            hosts => format!("; machines: {hosts}"),
        };
        let (name, state) = (bridges::name(report), bridges::state(report, now));
        let heading = out.paint(Colour::Faint, format!("{:<9}", "bridge"));
        out.line(format_args!("  {heading} {name}: {state}{hosts}"))?;
    }
    Ok(())
}

/// The description of the daemon's process, if the daemon gives one.
fn process<'a>(status: &relay::Status<'a>) -> Result<Option<relay::Process<'a>>, Failure> {
    status.daemon.map(|json| parse(RequestName::Status, json.get())).transpose()
}

/// Sentences about the daemon's process that its person should know.
fn notes(process: &relay::Process<'_>) -> Vec<String> {
    let fails = process.endpoint_fails.as_ref().map(|why| format!("nobody can connect: {why}"));
    let ends = process.ends_with_starter.then(|| program_ends_with_starter("the daemon"));
    process.remarks.iter().cloned().chain(fails).chain(ends).collect()
}

fn process_words(process: relay::Process<'_>) -> String {
    let left = process
        .left
        .map(|left| format!("; it left {}, which another process uses now", escaped(&left)));
    format!("{}, home {}{}", process.pid, escaped(&process.home), left.unwrap_or_default())
}
