//! This machine's side of a link to another machine, for the commands bridge and stdio.

use super::{
    context::context,
    failure::Failure,
    identity::{Identity, looking},
    join::join_or_start,
    print::eprint_line,
    restart::Starter,
};
use client::home::HomeOptions;
use crossbeam_channel::{Receiver, bounded};
use machines::{
    border::AGENTS_MAX,
    link::{Agents, End, FRAME_EXTRA_BYTES, Link, Pipe},
    local::{Daemon, Local, check_is_no_agent, now},
};
use platform::stop_signals::{self, Listening, Signal};
use protocol::{
    name::{Host, Name, first_repeated},
    secret::Secret,
    text::escaped,
};
use std::io::{Read, Write};

/// The capacity of a link's channel of events. A full one makes the pipe's threads wait.
const EVENTS_MAX: usize = 64;

/// This machine's side.
pub(super) struct Side {
    pub(super) agents: Agents,
    identity: Identity,
    daemon: Daemon,
    frame_bytes_max: u64,
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

impl Side {
    /// Finds the daemon, or starts one.
    pub(super) fn begin(
        options: &HomeOptions,
        peer: Host,
        exports: Vec<Name>,
        imports: Vec<Name>,
        bridge: Option<Secret>,
    ) -> Result<Self, Failure> {
        check_is_no_agent()?;
        for (names, option) in [(&exports, "--export"), (&imports, "--import")] {
            if names.len() > AGENTS_MAX {
                return Err(Failure::usage(format!(
                    "{option} is given more than {AGENTS_MAX} times"
                )));
            }
            if let Some(twice) = first_repeated(names) {
                return Err(Failure::usage(format!("{option} {twice} is given twice")));
            }
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
                exports,
                imports: Some(imports).filter(|all| !all.is_empty()),
                bridge,
            },
            identity,
            daemon,
            frame_bytes_max: welcome.server.max_frame_bytes,
            stopped,
            _listening: listening.map_err(Failure::because)?,
            _starter: starter,
        })
    }

    /// Speaks with the other side through a pipe, until the link ends.
    pub(super) fn link(
        &self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> Result<Ended, Failure> {
        let (sender, events) = bounded(EVENTS_MAX);
        let longest = usize::try_from(self.frame_bytes_max).unwrap_or(usize::MAX);
        let pipe = Pipe::start(input, output, longest.saturating_add(FRAME_EXTRA_BYTES), sender)
            .map_err(Failure::because)?;
        let log = |line: &str| eprint_line(escaped(line));
        let mut link = Link::begin(now(), &self.agents, pipe, self.frame_bytes_max, log);
        // The daemon may have made another key since.
        let key = self.identity.operator_key(&self.daemon.endpoint)?;
        let daemon = Daemon { key, ..self.daemon.clone() };
        let mut local = Local::new(daemon, self.agents.exports.iter().cloned());
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
