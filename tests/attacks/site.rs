//! The daemons, and the extent of an attack.

use agent_relay::{cli::bench::route::Daemon, config::policy};
use client::home::{FILE, operator_key};
use platform::paths;
use protocol::secret::Secret;
use std::{
    fmt::Write as _,
    io,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};
use testkit::{programs::program, sandbox::Sandbox};

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
        let (divisor, messages, time) = if is_quick {
            (100, 5, Duration::from_millis(100))
        } else {
            (1, 2_000, Duration::from_secs(4))
        };
        let stalled = Duration::from_secs(20);
        Self { attackers, attacker: 0, divisor, messages, time, stalled }
    }

    /// The stage of one attacker.
    pub(super) const fn of(self, attacker: usize) -> Self {
        Self { attacker, ..self }
    }

    /// The id of a message of this attacker, which no other attacker uses.
    pub(super) fn id(self, id: &str) -> String {
        format!("{}-{id}", self.attacker)
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
    home: PathBuf,
}

impl Site {
    /// Starts the daemon of a sandbox, with this configuration and this number of rules.
    pub(super) fn start(config: &str, rules: usize) -> io::Result<(Self, Sandbox)> {
        let mut sandbox = Sandbox::empty();
        let home = sandbox.home();
        paths::make_private_dir(&home)?;
        paths::write_private_file(&home.join(FILE), config.as_bytes())?;
        let mut rules_file = String::new();
        // The measured pair gets no broadcasts, which would count as its own messages.
        let nobody = (1..rules).map(|number| format!("none-{number}-*"));
        for to in nobody.chain((rules > 0).then(|| "innocent-*".to_owned())) {
            let rule = "[[rule]]\nfrom = 'attacker-*'\nto = ";
            writeln!(rules_file, "{rule}'{to}'\nallow = false").unwrap();
        }
        paths::write_private_file(&home.join(policy::FILE), rules_file.as_bytes())?;
        sandbox.start();
        let daemon = Daemon { endpoint: sandbox.endpoint(), server: None };
        Ok((Self { daemon, operator_key: operator_key::read(&home)?, home }, sandbox))
    }

    /// A daemon with the same home, which listens elsewhere.
    pub(super) fn second_daemon(&self, number: usize) -> Command {
        let mut command = Command::new(program("agent-relay"));
        command.env_clear().stdin(Stdio::null());
        let elsewhere = format!("{}-{number}", self.daemon.endpoint.as_text());
        command.args(["--endpoint", &elsewhere, "--home"]).arg(&self.home);
        command.args(["up", "--foreground"]);
        command
    }
}
