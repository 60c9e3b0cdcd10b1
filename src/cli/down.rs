//! `down`: stop the daemon.

use super::{
    DONE, Failure, TIMED_OUT,
    ask::ask,
    place::{Asked, Place},
    print::Out,
};
use crate::client::{ClientError, Settings};
use argh::{ArgsInfo, FromArgs};
use platform::{clock, lock::Lock};
use serde::Serialize;
use std::{path::Path, thread, time::Duration};

/// The lock that a daemon holds for life.
const LOCK: &str = "daemon.lock";

/// How long a daemon may take to go.
const STOP_MS: u64 = 15_000;

/// Between two looks at whether it is gone: nothing tells a stranger when a lock is free.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Stop the daemon. Clients are told; nothing running is success.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(subcommand, name = "down", help_triggers("--help"), example = "agent-relay down")]
pub(super) struct Down {
    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    home: &'a Path,
    stopped: bool,
}

impl Down {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        let place = asked.place()?;
        let stopped = stop(&place)?;
        let mut out = Out::new();
        if self.json {
            out.json("down", &Report { home: &place.home, stopped })?;
        } else {
            out.line(if stopped { "the daemon is down" } else { "no daemon was up" })?;
        }
        Ok(DONE)
    }
}

/// Asks the daemon to stop and waits until it is gone; false where there was none.
pub(super) fn stop(place: &Place) -> Result<bool, Failure> {
    let make = |endpoint: &str| Settings::guest(endpoint);
    let client = match place.try_join(&make) {
        Ok(client) => client,
        Err(ClientError::NoDaemon { endpoint, .. }) => {
            return if is_locked(place)? { Err(hidden(place, &endpoint)) } else { Ok(false) };
        }
        Err(error) => return Err(error.into()),
    };
    let endpoint = client.endpoint().to_owned();
    match ask(&client, "stop", None) {
        // It may be gone before its answer is out; whether it goes is seen below.
        Ok(_) | Err(Failure { code: TIMED_OUT, .. }) => {}
        Err(failure) => return Err(failure),
    }
    drop(client);
    let deadline = clock::monotonic_ms() + STOP_MS;
    while is_locked(place)? || is_there(place, &endpoint) {
        if clock::monotonic_ms() > deadline {
            let words = format!("the daemon at {endpoint} is still there {STOP_MS} ms later");
            return Err(Failure::new(TIMED_OUT, words));
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(true)
}

fn is_there(place: &Place, endpoint: &str) -> bool {
    let settings = Settings::guest(endpoint);
    debug_assert!(!place.sources.candidates().is_empty());
    !matches!(crate::client::Client::join(settings), Err(ClientError::NoDaemon { .. }))
}

fn is_locked(place: &Place) -> Result<bool, Failure> {
    Lock::is_held(&place.home.join(LOCK)).map_err(|error| Failure::failed(error.to_string()))
}

fn hidden(place: &Place, endpoint: &str) -> Failure {
    Failure::failed(format!(
        "a daemon runs for {} but not at {endpoint}: name its endpoint with --endpoint",
        place.home.display()
    ))
}
