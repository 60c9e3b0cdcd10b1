//! `status`: what runs, and what waits.

use super::{
    DONE, FAILED, Failure,
    ask::{ask, read},
    place::Asked,
    print::{Colour, Out, duration, foreign_line},
};
use crate::{
    client::{Client, ClientError, Settings},
    protocol::relay,
};
use argh::{ArgsInfo, FromArgs};
use serde::Serialize;
use serde_json::value::RawValue;

/// Show whether the daemon runs, and what waits in it.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "status",
    help_triggers("--help"),
    example = "agent-relay status",
    example = "agent-relay status --json"
)]
pub(super) struct Status {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
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
        let place = asked.place()?;
        let mut out = Out::new();
        match place.try_join(&|endpoint| Settings::guest(endpoint)) {
            Err(ClientError::NoDaemon { endpoint, .. }) if self.json => {
                let report = Report { running: false, endpoint: &endpoint, status: None };
                out.json("status", &report)?;
                Ok(FAILED)
            }
            Err(error) => Err(error.into()),
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
}

fn show(out: &mut Out, client: &Client, status: &relay::Status<'_>) -> Result<(), Failure> {
    let counts = &status.counts;
    let process = status.daemon.map(|json| read::<relay::Process<'_>>("status", json.get()));
    let lines = [
        ("endpoint", client.endpoint().to_owned()),
        (
            "process",
            match process.transpose()? {
                Some(it) => {
                    let left = it.left.map(|left| {
                        format!("; it left {}, which is somebody else's now", foreign_line(&left))
                    });
                    let left = left.unwrap_or_default();
                    format!("{}, home {}{left}", it.pid, foreign_line(&it.home))
                }
                None => "unknown".to_owned(),
            },
        ),
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
    let up = out.paint(Colour::Green, "the daemon is up");
    out.line(up)?;
    for (name, value) in lines {
        let name = out.paint(Colour::Faint, format!("{name:<9}"));
        out.line(format_args!("  {name} {value}"))?;
    }
    Ok(())
}
