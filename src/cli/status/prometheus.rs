//! `status --prometheus`: the state of the daemon and of the bridges in Prometheus' text format.

use machines::report::{Known, Report, State};
use protocol::relay::{Process, Status};
use std::fmt::Write as _;

/// A value of the daemon: the metric's name, its meaning, and where the value is.
type OfDaemon = (&'static str, &'static str, fn(&Status<'_>) -> u64);

/// The gauges of the daemon.
const GAUGES: [OfDaemon; 8] = [
    ("connections", "Connections of every kind.", |it| it.connections),
    ("agents_connected", "Agents that are connected.", |it| it.agents_here),
    ("agents_known", "Names that are known, connected or away.", |it| it.agents_known),
    ("guests_connected", "Guests that are connected.", |it| it.guests),
    ("streams", "Streams whose last number is kept.", |it| it.streams),
    ("messages_waiting", "Messages that wait or are not acknowledged.", |it| it.messages),
    ("memory_bytes", "Bytes that count against the limit of memory.", |it| it.memory_bytes),
    ("memory_max_bytes", "The limit of memory.", |it| it.memory_bytes_max),
];

/// The counters of the daemon since its start.
const COUNTERS: [OfDaemon; 9] = [
    ("messages_accepted_total", "Messages that were accepted.", |it| it.counts.taken),
    ("messages_delivered_total", "Deliveries, redeliveries included.", |it| it.counts.delivered),
    ("messages_acknowledged_total", "Deliveries that were acknowledged.", |it| {
        it.counts.acknowledged
    }),
    ("messages_busy_total", "Messages that were answered with BUSY.", |it| it.counts.busy),
    ("messages_refused_total", "Messages that were refused.", |it| it.counts.refused),
    ("messages_expired_total", "Deliveries whose time to live ran out.", |it| it.counts.expired),
    ("messages_returned_total", "Deliveries that the recipient returned for good.", |it| {
        it.counts.given_back
    }),
    ("messages_abandoned_total", "Deliveries that failed ten times.", |it| it.counts.gave_up),
    ("messages_rate_limited_total", "Messages refused by a rate limit of the policy.", |it| {
        it.too_often.as_ref().map_or(0, |limited| limited.refused)
    }),
];

/// A value of a bridge: the metric's name, its meaning, and where the value is.
type OfBridge<T> = (&'static str, &'static str, fn(&T) -> u64);

/// The gauges of each bridge.
const BRIDGE_GAUGES: [OfBridge<Known>; 3] = [
    ("up", "Whether the bridge runs.", |it| it.running.into()),
    ("linked", "Whether the bridge is linked.", |it| (it.report.state == State::Linked).into()),
    ("hosts", "Machines that are linked.", |it| it.report.hosts.len() as u64),
];

/// The counters of each bridge since its start.
const BRIDGE_COUNTERS: [OfBridge<Report>; 5] = [
    ("links_total", "Links that the bridge has had.", |it| it.links),
    ("sent_total", "Messages that were carried to other machines.", |it| it.sent),
    ("sent_refused_total", "Of these, messages that were not carried or were refused.", |it| {
        it.sent_refused
    }),
    ("received_total", "Messages of other machines that the daemon has accepted.", |it| {
        it.received
    }),
    ("received_refused_total", "Messages of other machines that were refused here.", |it| {
        it.received_refused
    }),
];

/// Returns the metrics of the daemon, if it runs, and of the bridges.
pub(super) fn text(daemon: Option<(&Status<'_>, Option<&Process<'_>>)>, all: &[Known]) -> String {
    let mut text = Text(String::new());
    let is_up = u64::from(daemon.is_some());
    text.one("agent_relay_up", "gauge", "Whether the daemon answers.", is_up);
    if let Some((status, process)) = daemon {
        of_daemon(&mut text, status, process);
    }
    of_bridges(&mut text, all);
    text.0
}

fn of_daemon(text: &mut Text, status: &Status<'_>, process: Option<&Process<'_>>) {
    let versions = [("version", &*status.version), ("protocol", &*status.protocol)];
    text.family(
        "agent_relay_info",
        "gauge",
        "The daemon's version.",
        [(&versions[..], "1".into())],
    );
    let help = "The time since the daemon's start.";
    let uptime = [(&[][..], seconds(status.uptime_ms))];
    text.family("agent_relay_uptime_seconds", "gauge", help, uptime);
    if let Some(process) = process {
        let help = "Whether the store can store messages.";
        text.one("agent_relay_store_ok", "gauge", help, process.store_fails.is_none().into());
        let help = "Whether clients can connect.";
        text.one("agent_relay_endpoint_ok", "gauge", help, process.endpoint_fails.is_none().into());
    }
    for (kind, all) in [("gauge", &GAUGES[..]), ("counter", &COUNTERS[..])] {
        for (name, help, value) in all {
            text.one(&format!("agent_relay_{name}"), kind, help, value(status));
        }
    }
}

fn of_bridges(text: &mut Text, all: &[Known]) {
    let labels = |known: &Known| {
        [("kind", known.report.kind.as_str().to_owned()), ("name", known.report.name.clone())]
    };
    let all: Vec<_> = all.iter().map(|known| (labels(known), known)).collect();
    let mut bridges =
        |name: &str, kind: &str, help: &str, value: &dyn Fn(&Known) -> Option<String>| {
            let samples = all.iter().filter_map(|(labels, known)| {
                let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
                Some((labels, value(known)?))
            });
            let samples: Vec<_> = samples.collect();
            let samples = samples.iter().map(|(labels, value)| (&labels[..], value.clone()));
            text.family(&format!("agent_relay_bridge_{name}"), kind, help, samples);
        };
    for (name, help, value) in BRIDGE_GAUGES {
        bridges(name, "gauge", help, &|known| Some(value(known).to_string()));
    }
    let help = "When the bridge entered its state.";
    bridges("state_timestamp_seconds", "gauge", help, &|it| Some(seconds(it.report.since)));
    let help = "When the bridge had its last error.";
    bridges("error_timestamp_seconds", "gauge", help, &|it| {
        Some(seconds(it.report.error.as_ref()?.at))
    });
    for (name, help, value) in BRIDGE_COUNTERS {
        bridges(name, "counter", help, &|known| Some(value(&known.report).to_string()));
    }
    let agents = all.iter().flat_map(|([kind, name], known)| {
        known.report.hosts.iter().map(move |remote| {
            let labels = [(kind.0, &*kind.1), (name.0, &*name.1), ("host", &*remote.host)];
            (labels, remote.agents.len().to_string())
        })
    });
    let agents: Vec<_> = agents.collect();
    let agents = agents.iter().map(|(labels, count)| (&labels[..], count.clone()));
    text.family(
        "agent_relay_bridge_agents",
        "gauge",
        "Agents of a machine that are linked.",
        agents,
    );
}

/// Milliseconds as seconds.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Metrics in the text format.
struct Text(String);

impl Text {
    /// Adds a metric without labels.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help, [(&[][..], value.to_string())]);
    }

    /// Adds the samples of a metric, each with its labels and its value, unless there are none.
    fn family<'a>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (&'a [(&'a str, &'a str)], String)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            self.line(&format!("# HELP {name} {help}"));
            self.line(&format!("# TYPE {name} {kind}"));
        }
        for (labels, value) in samples {
            let labels: Vec<_> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", label(value))).collect();
            match labels.is_empty() {
                true => self.line(&format!("{name} {value}")),
                false => self.line(&format!("{name}{{{}}} {value}", labels.join(","))),
            }
        }
    }

    fn line(&mut self, line: &str) {
        writeln!(self.0, "{line}").expect("a text takes what is written");
    }
}

/// The value of a label, escaped as the format requires it.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use machines::report::Kind;
    use testkit::exposition;

    const STATUS: &str = r#"{"version":"0.1.0\n\"\\","protocol":"1.1","uptime_ms":86400250,
        "connections":3,"agents_here":2,"agents_known":5,"guests":1,"streams":4,"messages":7,
        "memory_bytes":5,"memory_bytes_max":6,"counts":{"taken":9,"gave_up":1},
        "too_often":{"refused":12,"from":"Ann","to":"Bob","at":1}}"#;

    fn bridges() -> Vec<Known> {
        let mut desk = Report::new(Kind::Nats, "desk", "1");
        desk.linked(Some("n1".to_owned()));
        desk.host_came("lab", vec!["Ann".to_owned(), "Bob".to_owned()]);
        desk.host_came("pi", Vec::new());
        desk.sent = 4;
        let mut pi = Report::new(Kind::Bridge, "pi", "1");
        pi.lost("the end");
        let of = |running, report| Known { running, report };
        vec![of(false, pi), of(true, desk)]
    }

    #[test]
    fn text_is_readable_by_prometheus() {
        let status: Status<'_> = serde_json::from_str(STATUS).unwrap();
        let process: Process<'_> =
            serde_json::from_str(r#"{"pid":7,"endpoint":"/e","home":"/h","store_fails":"full"}"#)
                .unwrap();
        let text = text(Some((&status, Some(&process))), &bridges());
        let samples = exposition::read(&text).unwrap();
        let value =
            |series: &str| samples.get(series).unwrap_or_else(|| panic!("{series}: {text}"));
        for (series, expected) in [
            ("agent_relay_up", 1.0),
            (r#"agent_relay_info{version="0.1.0\n\"\\",protocol="1.1"}"#, 1.0),
            ("agent_relay_uptime_seconds", 86400.25),
            ("agent_relay_store_ok", 0.0),
            ("agent_relay_endpoint_ok", 1.0),
            ("agent_relay_messages_accepted_total", 9.0),
            ("agent_relay_messages_rate_limited_total", 12.0),
            (r#"agent_relay_bridge_up{kind="bridge",name="pi"}"#, 0.0),
            (r#"agent_relay_bridge_linked{kind="nats",name="desk"}"#, 1.0),
            (r#"agent_relay_bridge_hosts{kind="nats",name="desk"}"#, 2.0),
            (r#"agent_relay_bridge_sent_total{kind="nats",name="desk"}"#, 4.0),
            (r#"agent_relay_bridge_agents{kind="nats",name="desk",host="lab"}"#, 2.0),
            (r#"agent_relay_bridge_agents{kind="nats",name="desk",host="pi"}"#, 0.0),
        ] {
            assert!((value(series) - expected).abs() < f64::EPSILON, "{series}: {text}");
        }
        let errors = samples.keys().filter(|it| it.starts_with("agent_relay_bridge_error"));
        assert_eq!(errors.count(), 1, "only of the bridge that had one: {text}");
    }

    #[test]
    fn daemon_that_does_not_run_is_a_value() {
        assert!(text(None, &[]).ends_with("\nagent_relay_up 0\n"));
        assert_eq!(exposition::read(&text(None, &[])).unwrap().len(), 1);
    }
}
