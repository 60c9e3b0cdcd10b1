//! The daemons of `bench --hostile`, and the extent of its attacks.

use super::route::Daemon;
use crate::{
    cli::{launch, log, program::own_program},
    config::policy as policy_file,
    daemon,
};
use client::home::{FILE, operator_key};
use platform::{endpoint::Endpoint, paths, transport::Stream};
use protocol::secret::Secret;
use std::{
    fmt::Write as _,
    io,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The longest wait until a daemon listens.
const START: Duration = Duration::from_secs(15);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The extent of an attack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// The number of attackers, and the number of this attacker.
    pub(super) attackers: usize,
    pub(super) attacker: usize,
    /// The divisor of the attack's preparation.
    divisor: u64,
    /// The pair's messages, and the longest time for them.
    pub(super) messages: usize,
    pub(super) time: Duration,
    /// The longest wait for a message of a pair, which is cut off then.
    pub(super) stalled: Duration,
}

impl Stage {
    pub(super) fn new(is_quick: bool, attackers: usize) -> Self {
        let (divisor, messages, time, stalled) = if is_quick {
            (100, 20, Duration::from_millis(300), Duration::from_secs(3))
        } else {
            (1, 2_000, Duration::from_secs(4), Duration::from_secs(20))
        };
        Self { attackers, attacker: 0, divisor, messages, time, stalled }
    }

    /// The stage of one attacker.
    pub(super) const fn of(self, attacker: usize) -> Self {
        Self { attacker, ..self }
    }

    /// A number of things to prepare.
    pub(super) const fn part(self, whole: u64) -> u64 {
        whole.div_ceil(self.divisor)
    }
}

/// A daemon of the measurement's own.
pub(super) struct Site {
    pub(super) daemon: Daemon,
    pub(super) operator_key: Secret,
}

impl Site {
    /// Starts the daemon, with this configuration and this number of rules.
    pub(super) fn start(
        directory: &Path,
        config: &str,
        rules: usize,
    ) -> io::Result<(Self, Process)> {
        let home = directory.join("home");
        paths::make_private_dir(&home)?;
        paths::write_private_file(&home.join(FILE), config.as_bytes())?;
        let mut policy = String::new();
        for number in 0..rules {
            let rule = "[[rule]]\nfrom = 'attacker-*'\nto = ";
            writeln!(policy, "{rule}'none-{number}-*'\nallow = false").expect("strings take text");
        }
        paths::write_private_file(&home.join(policy_file::FILE), policy.as_bytes())?;
        paths::open_private_file(&home.join(log::FILE))?;
        let endpoint = Endpoint::inside(directory, "relay")?;
        let program = own_program().map_err(|failure| io::Error::other(failure.into_message()))?;
        let process = Command::new(program)
            .args(launch::arguments_for(&home, Some(endpoint.as_text()), "--detached"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let process = Process { child: process, endpoint: endpoint.clone() };
        let deadline = Instant::now() + START;
        while let Err(error) = Stream::connect(&endpoint) {
            if Instant::now() > deadline {
                return Err(error);
            }
            thread::sleep(POLL_INTERVAL);
        }
        let operator_key = operator_key::read(&home)?;
        let daemon = Daemon { endpoint, server: None };
        Ok((Self { daemon, operator_key }, process))
    }
}

/// The process of a daemon, killed when dropped, which ends all connections to it.
pub(super) struct Process {
    child: Child,
    endpoint: Endpoint,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
        // If the lock cannot be removed, an empty file stays.
        drop(daemon::remove_endpoint_lock(&self.endpoint));
    }
}
