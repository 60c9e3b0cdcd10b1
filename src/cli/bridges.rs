//! The bridges of a home, as `status`, `agents` and `doctor` show them.

use super::print::eprint_line;
use machines::report::{self, Kind, Known, Report, State};
use protocol::{calendar::duration, text::escaped};
use std::path::Path;

/// The most machines that are named in a line.
const HOSTS_MAX: usize = 8;

/// The remedy for a report that cannot be read.
pub(super) const UNREADABLE: &str =
    "remove that file, or start the bridge again, which writes another one";

/// Reads the reports of a home's bridges. Says why if that fails, since nothing else depends on
/// them.
pub(super) fn known(home: &Path) -> Vec<Known> {
    report::read(home).unwrap_or_else(|error| {
        let error = escaped(&error.to_string());
        eprint_line(format_args!("a bridge's report cannot be read: {error}; {UNREADABLE}"));
        Vec::new()
    })
}

/// The name of a bridge in words.
pub(super) fn name(report: &Report) -> String {
    let name = escaped(&report.name);
    match report.kind {
        Kind::Bridge => format!("bridge to {name}"),
        Kind::Stdio => format!("link from {name}"),
        Kind::Nats => format!("NATS bridge of {name}"),
    }
}

/// The state of a bridge at a moment, in words that follow its name, with its last error unless it
/// is linked.
pub(super) fn state(report: &Report, now: u64) -> String {
    let since = duration(now.saturating_sub(report.since));
    let words = match (report.state, &report.server) {
        (State::Linked, Some(server)) => format!("linked to {} for {since}", escaped(server)),
        (State::Linked, None) => format!("linked for {since}"),
        (State::Connecting, _) => format!("not linked since its start {since} ago"),
        (State::Lost, _) => format!("not linked for {since}"),
        (State::Ended, _) => format!("ended {since} ago"),
    };
    match &report.error {
        Some(error) if report.state != State::Linked => {
            format!("{words}: {}", escaped(&error.text))
        }
        _ => words,
    }
}

/// The machines that a NATS bridge knows, in words; empty if it knows none.
pub(super) fn hosts(report: &Report) -> String {
    if report.kind != Kind::Nats || report.hosts.is_empty() {
        return String::new();
    }
    let (shown, more) = report.hosts.split_at(report.hosts.len().min(HOSTS_MAX));
    let shown: Vec<_> = shown.iter().map(|remote| escaped(&remote.host)).collect();
    let more = match more.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: Kind, state: State) -> Report {
        Report { state, since: 1000, ..Report::new(kind, "pi", "1.2.3") }
    }

    #[test]
    fn state_has_its_age_and_the_error_of_a_failure() {
        let now = 301_000;
        let mut pi = report(Kind::Bridge, State::Linked);
        pi.failed("ssh ended with code\n255");
        assert_eq!((&*name(&pi), &*state(&pi, now)), ("bridge to pi", "linked for 5 min"));
        pi.state = State::Lost;
        assert_eq!(state(&pi, now), "not linked for 5 min: ssh ended with code\\u{a}255");
        pi.state = State::Ended;
        assert_eq!(state(&pi, now), "ended 5 min ago: ssh ended with code\\u{a}255");
        let laptop = report(Kind::Stdio, State::Connecting);
        assert_eq!(name(&laptop), "link from pi");
        assert_eq!(state(&laptop, now), "not linked since its start 5 min ago");
        let server = Some("n\u{1b}1".to_owned());
        let desk = Report { server, ..report(Kind::Nats, State::Linked) };
        let shown = (&*name(&desk), &*state(&desk, now));
        assert_eq!(shown, ("NATS bridge of pi", "linked to n\\u{1b}1 for 5 min"));
    }

    #[test]
    fn many_machines_are_counted() {
        let mut desk = report(Kind::Nats, State::Linked);
        assert_eq!(hosts(&desk), "");
        for number in 0..10 {
            desk.host_came(&format!("h{number}"), Vec::new());
        }
        assert_eq!(hosts(&desk), "h0, h1, h2, h3, h4, h5, h6, h7 and 2 more");
        assert_eq!(hosts(&report(Kind::Bridge, State::Linked)), "");
    }
}
