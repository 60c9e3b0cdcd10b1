//! This machine's side of a link to another machine, for the commands bridge and stdio.

use super::{
    context::context,
    failure::Failure,
    identity::{Identity, looking},
    join::join_or_start,
    print::eprint_line,
    program::VERSION,
    restart::Starter,
};
use client::home::HomeOptions;
use crossbeam_channel::{Receiver, bounded};
use machines::{
    border::AGENTS_MAX,
    exports::Exports,
    link::{Agents, End, Event, FRAME_EXTRA_BYTES, Link, Pipe},
    local::{Daemon, Local, check_is_no_agent, now},
    report::{Kind, Report, Reporting},
    selector::Selector,
    topics::{PATTERNS_MAX, Topics},
};
use platform::{
    clock,
    stop_signals::{self, Listening, Signal},
};
use protocol::{
    calendar::utc,
    name::{Host, first_repeated},
    secret::Secret,
    text::escaped,
};
use std::io::{Read, Write};

/// The capacity of a link's channel of events. A full one makes the pipe's threads wait.
const EVENTS_MAX: usize = 64;

/// This machine's side.
pub(super) struct Side {
    pub(super) agents: Agents,
    exports: Vec<Selector>,
    identity: Identity,
    daemon: Daemon,
    frame_bytes_max: u64,
    kind: Kind,
    reporting: Reporting,
    tells_details: bool,
    /// A message comes through this channel when this process is asked to stop.
    pub(super) stopped: Receiver<()>,
    _listening: Listening,
    _starter: Starter,
}

/// A link that has ended.
pub(super) struct Ended {
    /// Whether both sides had introduced themselves.
    pub(super) was_open: bool,
    /// The reason; `None` if this process was asked to stop.
    pub(super) end: Option<End>,
}

/// Writes a line of a bridge's log, with the time.
pub(super) fn log(line: &str) {
    eprint_line(format_args!("{} {}", utc(clock::unix_ms()), escaped(line)));
}

/// The log of a program. The bridge on the other machine shows the lines of stdio with their time.
fn log_of(kind: Kind) -> fn(&str) {
    match kind {
        Kind::Stdio => |line| eprint_line(escaped(line)),
        Kind::Bridge | Kind::Nats => log,
    }
}

impl Side {
    /// Finds the daemon, or starts one.
    pub(super) fn begin(
        options: &HomeOptions,
        peer: Host,
        (exports, imports): (Vec<Selector>, Vec<Selector>),
        topics: Topics,
        bridge: Option<Secret>,
        tells_details: bool,
    ) -> Result<Self, Failure> {
        check_is_no_agent()?;
        for (agents, option) in [(&exports, "--export"), (&imports, "--import")] {
            if agents.len() > AGENTS_MAX {
                return Err(Failure::usage(format!(
                    "{option} is given {} times, and one machine exports at most {AGENTS_MAX} agents",
                    agents.len()
                ))
                .hint("name several agents by a pattern, such as 'web-*'"));
            }
            if let Some(twice) = first_repeated(agents) {
                return Err(Failure::usage(format!("{option} {twice} is given twice")));
            }
        }
        if topics.patterns.len() > PATTERNS_MAX {
            return Err(Failure::usage(format!(
                "--topic is given {} times, and {PATTERNS_MAX} patterns are the most",
                topics.patterns.len()
            ))
            .hint("name several topics by a pattern, such as 'build.>'"));
        }
        if exports.is_empty() {
            return Err(Failure::usage(format!("no agent is exported to {peer}"))
                .hint("add --export AGENT for each agent of this machine that may talk to it"));
        }
        let mut context = context(options)?;
        let identity = Identity::of_person(&context);
        let looking = looking(&context);
        let client = join_or_start(&mut context, &looking)?;
        let (endpoint, welcome) = (client.endpoint().to_owned(), client.welcome().clone());
        let starter = Starter::begin(&context, &format!("the link to {peer}"))?;
        let daemon = Daemon {
            server: context.server(&endpoint),
            key: identity.operator_key(&endpoint)?,
            remote_ttl_ms: context.config.remote_ttl_ms,
            when_absent: Some(starter.when_absent(&endpoint)),
            endpoint,
        };
        let kind = if bridge.is_some() { Kind::Bridge } else { Kind::Stdio };
        let report = Report::new(kind, peer.as_str(), VERSION);
        let reporting =
            Reporting::begin(&context.home, report, log_of(kind)).map_err(Failure::because)?;
        let (stop, stopped) = bounded(1);
        let listening = stop_signals::listen(move |signal| {
            if signal != Signal::Resize {
                // A full channel already holds a signal, which is enough.
                let _ = stop.try_send(());
            }
        });
        Ok(Self {
            agents: Agents {
                peer,
                exports: Vec::new(),
                has_patterns: exports.iter().any(Selector::is_pattern),
                imports: Some(imports).filter(|all| !all.is_empty()),
                topics,
                bridge,
            },
            exports,
            identity,
            daemon,
            frame_bytes_max: welcome.server.max_frame_bytes,
            kind,
            reporting,
            tells_details,
            stopped,
            _listening: listening.map_err(Failure::because)?,
            _starter: starter,
        })
    }

    /// Reports the loss of the link and its reason.
    pub(super) fn lost(&self, why: &str) {
        let why = why.to_owned();
        self.reporting.reporter().update(move |report| report.lost(&why));
    }

    /// Ends the report, which stays with the reason of a failure.
    pub(super) fn end(self, failure: Option<&Failure>) {
        self.reporting.end(failure.and_then(Failure::line));
    }

    /// Speaks with the other side through a pipe, until the link ends.
    pub(super) fn link(
        &self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> Result<Ended, Failure> {
        let (sender, events) = bounded(EVENTS_MAX);
        // The daemon may have made another key since.
        let key = self.identity.operator_key(&self.daemon.endpoint)?;
        let daemon = Daemon { key, ..self.daemon.clone() };
        let log = log_of(self.kind);
        let mut exports = Exports::new(daemon.clone(), self.exports.clone(), self.tells_details);
        if self.agents.has_patterns {
            exports.ask();
        }
        exports.exported().excess().iter().for_each(|line| log(line));
        let exported = exports.exported().agents.clone();
        let changes = sender.clone();
        let following =
            exports.follow(move |exported| changes.send(Event::Exported(exported.into())).is_ok());
        let _following = following.map_err(Failure::because)?;
        let agents = Agents { exports: exported.clone(), ..self.agents.clone() };
        let longest = usize::try_from(self.frame_bytes_max).unwrap_or(usize::MAX);
        let pipe = Pipe::start(input, output, longest.saturating_add(FRAME_EXTRA_BYTES), sender)
            .map_err(Failure::because)?;
        let mut link = Link::begin(now(), &agents, pipe, self.frame_bytes_max, log);
        link.report_to(self.reporting.reporter());
        let mut local = Local::new(daemon, exported, agents.topics.clone());
        let end = local.run(&mut link, &events, &self.stopped);
        let was_open = link.is_open();
        match &end {
            None => link.leave(now(), "it was stopped", false, events),
            Some(End::Refused(why)) => link.leave(now(), why, true, events),
            Some(End::Lost(_)) => {}
        }
        Ok(Ended { was_open, end })
    }
}
