//! `status`: what runs, and what waits; or how far one message is.

use super::{
    DONE, FAILED, Failure, argv,
    ask::{ask, join, read},
    identity::{Identity, or_print},
    messages::{self, Standing, ago, ahead, each_row, id_in_full, people},
    place::Asked,
    print::{Colour, Out, duration, foreign_line},
};
use crate::{
    client::{Client, ClientError},
    protocol::relay::{self, MessageRequest, MessageRow, Page},
};
use argh::{ArgsInfo, FromArgs};
use serde::Serialize;
use serde_json::value::RawValue;

/// Show whether the daemon runs, and what waits in it; or how far one message is.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "status",
    help_triggers("--help"),
    example = "agent-relay status",
    example = "agent-relay status --json",
    example = "agent-relay status 3f2504e0-4f89-41d3-9a0c-0305e82c3301"
)]
pub(super) struct Status {
    /// print JSON: one object, or one a line for each recipient of a message
    #[argh(switch)]
    json: bool,

    /// a message's id, or the eight characters of it that an agent is shown, or that of its SEND
    #[argh(positional, arg_name = "id", from_str_fn(argv::text))]
    id: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    running: bool,
    endpoint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a RawValue>,
}

impl Status {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let mut out = Out::new();
        if let Some(id) = &self.id {
            return self.message(asked, &mut out, id);
        }
        let place = asked.place().map_err(or_print)?;
        let identity = Identity::of_process(&place).map_err(or_print)?;
        match place.try_join(&|endpoint| identity.settings(endpoint)) {
            Err(ClientError::NoDaemon { endpoint, .. }) if self.json => {
                let report = Report { running: false, endpoint: &endpoint, status: None };
                out.json("status", &report)?;
                Ok(FAILED)
            }
            Err(error) => Err(or_print(error.into())),
            Ok(client) => {
                let json = ask(&client, "status", None)?;
                if self.json {
                    let status = Some(read("status", &json)?);
                    let report = Report { running: true, endpoint: client.endpoint(), status };
                    out.json("status", &report)?;
                } else {
                    show(&mut out, &client, &read("status", &json)?)?;
                }
                Ok(DONE)
            }
        }
    }

    fn message(&self, asked: &Asked, out: &mut Out, id: &str) -> Result<i32, Failure> {
        let client = join(asked)?;
        let id = id_in_full(&client, id)?;
        let request =
            |Page { cursor, limit }| MessageRequest { id: id.clone(), cursor, limit, offset: None };
        each_row(&client, "message", usize::MAX, request, |json, row| {
            if self.json { out.json_text(messages::SCHEMA, json) } else { show_way(out, row) }
        })?;
        Ok(DONE)
    }
}

/// One message's way.
fn show_way(out: &mut Out, row: &MessageRow<'_>) -> Result<(), Failure> {
    let way = &row.way;
    let attempts = match (way.attempts, way.failures) {
        (0, 0) if way.ended.is_some() => "never".to_owned(),
        (0, 0) => "not yet".to_owned(),
        (attempts, 0) => format!("attempt {attempts}"),
        (attempts, failures) => format!("attempt {attempts}; {failures} failed"),
    };
    let mut lines = vec![
        ("id", format!("{}, of SEND {}", foreign_line(&row.id), foreign_line(&row.send_id))),
        ("accepted", accepted(row)),
        ("handed", attempts),
    ];
    if let Some(reported) = &way.reported {
        let why = reported.why.as_deref().map(|why| format!(": {}", foreign_line(why)));
        let (state, why) = (foreign_line(&reported.state), why.unwrap_or_default());
        lines.push(("reported", format!("{state}{why}, {}", ago(reported.at))));
    }
    lines.push(("now", now(row)));
    let heading = out.paint(Colour::Bold, people(row));
    out.line(heading)?;
    for (name, value) in lines {
        let name = out.paint(Colour::Faint, format!("{name:<9}"));
        out.line(format_args!("  {name} {value}"))?;
    }
    Ok(())
}

fn accepted(row: &MessageRow<'_>) -> String {
    if row.way.waits_for.as_deref() == Some("store") && row.way.attempts == 0 {
        return "not yet: it is being stored".to_owned();
    }
    let survives = match &*row.durability {
        "disk" => "it survives the loss of power",
        _ => "it survives the end of the daemon",
    };
    format!("{}; {survives}", ago(row.taken))
}

/// The state it is in, in words.
fn now(row: &MessageRow<'_>) -> String {
    let ended = row.way.ended.map(|at| format!(", {}", ago(at))).unwrap_or_default();
    let expires = row.way.expires.map(|at| format!("; it expires in {}", ahead(at)));
    format!("{}{ended}{}", Standing::of(row), expires.unwrap_or_default())
}

fn show(out: &mut Out, client: &Client, status: &relay::Status<'_>) -> Result<(), Failure> {
    let counts = &status.counts;
    let process = status.daemon.map(|json| read::<relay::Process<'_>>("status", json.get()));
    let process = process.transpose()?;
    let fails = process.as_ref().and_then(|it| it.store_fails.as_deref()).map(foreign_line);
    let remarks: Vec<_> = process.iter().flat_map(|it| &it.remarks).cloned().collect();
    let lines = [
        ("endpoint", client.endpoint().to_owned()),
        ("process", process.map_or_else(|| "unknown".to_owned(), process_words)),
        (
            "version",
            format!(
                "{} (protocol {})",
                foreign_line(&status.version),
                foreign_line(&status.protocol)
            ),
        ),
        ("up for", duration(status.uptime_ms)),
        (
            "agents",
            format!(
                "{} here, {} known; connections: {}",
                status.agents_here, status.agents_known, status.connections
            ),
        ),
        ("waiting", format!("{} messages", status.messages)),
        ("store", fails.map_or_else(|| "works".to_owned(), |why| format!("fails: {why}"))),
        (
            "memory",
            format!("{} of {} KiB", status.memory_bytes / 1024, status.memory_bytes_max / 1024),
        ),
        (
            "so far",
            format!(
                "{} taken, {} delivered, {} acknowledged",
                counts.taken, counts.delivered, counts.acknowledged
            ),
        ),
        (
            "trouble",
            format!(
                "{} busy, {} refused, {} expired, {} given back, {} given up",
                counts.busy, counts.refused, counts.expired, counts.given_back, counts.gave_up
            ),
        ),
    ];
    let too_often = status.too_often.as_ref().map(|it| {
        let (from, to) = (foreign_line(&it.from), foreign_line(&it.to));
        format!("{} refused, the last from {from} to {to} {}", it.refused, ago(it.at))
    });
    let lines = lines.into_iter().chain(too_often.map(|words| ("too often", words)));
    let up = out.paint(Colour::Green, "the daemon is up");
    out.line(up)?;
    for (name, value) in lines {
        let name = out.paint(Colour::Faint, format!("{name:<9}"));
        out.line(format_args!("  {name} {value}"))?;
    }
    for remark in remarks {
        let name = out.paint(Colour::Yellow, format!("{:<9}", "note"));
        out.line(format_args!("  {name} {}", foreign_line(&remark)))?;
    }
    Ok(())
}

fn process_words(it: relay::Process<'_>) -> String {
    let left = it
        .left
        .map(|left| format!("; it left {}, which is somebody else's now", foreign_line(&left)));
    format!("{}, home {}{}", it.pid, foreign_line(&it.home), left.unwrap_or_default())
}
