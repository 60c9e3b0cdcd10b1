//! A process that runs the daemon and restarts it after a failure, for a system that starts
//! programs at logon but does not notice how they end. The process ends when the daemon is stopped
//! on purpose.
//!
//! Restarts follow without a pause, so a command that stops the daemon always finds one.

use crate::cli::{
    failure::{DONE, Failure},
    launch::{self, make_home},
    log,
    program::own_program,
};
use client::{Settings, home::HomeOptions};
use platform::{clock, peer::User, process};
use std::process::{Command, Stdio};

/// The number of failures in a row that ends the restarts.
const FAILURES_MAX: u32 = 5;

/// A run of this length ends a row of failures.
const STEADY_MS: u64 = 60_000;

/// Runs the daemon with [`launch::arguments_for`], until it is stopped or fails too often.
pub(crate) fn supervise(options: &HomeOptions) -> Result<i32, Failure> {
    let (program, home) = (own_program()?, options.home()?);
    make_home(&home)?;
    let _logging = log::begin_in(&home, &User::me().map_err(Failure::because)?)?;
    process::end_before_others().map_err(Failure::because)?;
    let arguments = launch::arguments_for(&home, options.endpoint.as_deref(), "--service");
    let mut failures = Failures(0);
    loop {
        let begun = clock::monotonic_ms();
        let ended = Command::new(&program).args(&arguments).stdin(Stdio::null()).status();
        let how = match ended {
            Ok(status) if status.success() => return Ok(DONE),
            Ok(status) => format!("the daemon ended with a failure ({status})"),
            Err(error) => format!("{} was not started: {error}", program.display()),
        };
        // Another process has started a daemon, and a second daemon could not run at the same time.
        if is_up(options) {
            tracing::info!("{how}, and another one is up: there is nothing to watch over");
            return Ok(DONE);
        }
        if !failures.allow_another(clock::monotonic_ms().saturating_sub(begun)) {
            tracing::error!("{how}, {FAILURES_MAX} times in a row: it is not started again");
            return Err(Failure::failed(how));
        }
        tracing::warn!("{how}: it is started again");
    }
}

fn is_up(options: &HomeOptions) -> bool {
    options
        .context()
        .is_ok_and(|context| context.try_join(&|endpoint| Settings::guest(endpoint)).is_ok())
}

/// A count of failures in a row.
struct Failures(u32);

impl Failures {
    /// Counts a failure after a run of this length. Returns whether to start again.
    fn allow_another(&mut self, ran_ms: u64) -> bool {
        self.0 = if ran_ms < STEADY_MS { self.0 + 1 } else { 1 };
        self.0 < FAILURES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_in_a_row_end_the_restarts() {
        let mut failures = Failures(0);
        for _ in 1..FAILURES_MAX {
            assert!(failures.allow_another(0));
        }
        assert!(!failures.allow_another(STEADY_MS - 1));
        let mut failures = Failures(0);
        for _ in 0..1000 {
            assert!(failures.allow_another(STEADY_MS));
        }
        for _ in 2..FAILURES_MAX {
            assert!(failures.allow_another(0));
        }
        assert!(!failures.allow_another(0));
    }
}
