//! Where the system starts the daemon at logon, but doesn't see how it ends: a process beside it that has it started
//! again when it fails. A daemon that was told to stop ends this, too.
//!
//! It never waits before it starts the next one, so that whoever stops the daemon never finds none that comes back
//! later.

use super::super::{
    DONE, Failure,
    launch::{self, make_home, own_program},
    log,
    place::Asked,
};
use crate::client::Settings;
use platform::{clock, peer::User, process};
use std::process::{Command, Stdio};

/// After so many failures in a row there is no next one: it would fail, too.
const FAILURES_MAX: u32 = 5;

/// What ran for so long has not failed in a row.
const STEADY_MS: u64 = 60_000;

/// Runs the daemon, as [`launch::arguments`] have it, until it is told to stop or fails for good.
pub(crate) fn supervise(asked: &Asked) -> Result<i32, Failure> {
    let (program, home) = (own_program()?, asked.home()?);
    make_home(&home)?;
    log::begin_in(&home, &User::me().map_err(Failure::because)?)?;
    process::end_before_others().map_err(Failure::because)?;
    let arguments = launch::words(&home, asked.endpoint.as_deref(), "--service");
    let mut failures = Failures(0);
    loop {
        let begun = clock::monotonic_ms();
        let ended = Command::new(&program).args(&arguments).stdin(Stdio::null()).status();
        let how = match ended {
            Ok(status) if status.success() => return Ok(DONE),
            Ok(status) => format!("the daemon ended with a failure ({status})"),
            Err(error) => format!("{} is not started: {error}", program.display()),
        };
        // No other can run beside one that somebody else has started.
        if is_up(asked) {
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

fn is_up(asked: &Asked) -> bool {
    asked.place().is_ok_and(|place| place.try_join(&|endpoint| Settings::guest(endpoint)).is_ok())
}

/// How many there were in a row.
struct Failures(u32);

impl Failures {
    /// Whether there is a next start after one that ran for so long.
    fn allow_another(&mut self, ran_ms: u64) -> bool {
        self.0 = if ran_ms < STEADY_MS { self.0 + 1 } else { 1 };
        self.0 < FAILURES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_and_again_is_let_be_and_what_fails_now_and_then_is_not() {
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
