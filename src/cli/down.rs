//! `down`: stop the daemon.

use super::{
    DONE, Failure, TIMED_OUT,
    ask::{about, ask, read},
    identity::Identity,
    place::{Asked, Place},
    print::{Out, foreign_line},
    restart,
};
use crate::{
    client::{Client, ClientError, Event, Settings, State},
    protocol::relay,
};
use argh::{ArgsInfo, FromArgs};
use platform::clock;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::{path::Path, thread, time::Duration};

/// What clients are told of a daemon that makes room for another.
const UPGRADE: &str = "upgrade";

/// How long a daemon may take to go.
const STOP_MS: u64 = 15_000;

/// Between two looks at whether it is gone: nothing tells a stranger when a lock is free.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Stop the daemon, until your next command that wants one. Clients are told; nothing running is
/// success.
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
        let identity = Identity::of_process(&place)?;
        let is_person = matches!(identity, Identity::Person(_));
        let _start_lock = if is_person { restart::hold_off(&place.home)? } else { None };
        let stopped = stop(&place, &identity)?.is_some();
        // The daemon has done so itself, but for one that is older, and one that was not there.
        if is_person {
            restart::mark_stopped(&place.home)?;
        }
        let mut out = Out::new();
        if self.json {
            out.json("down", &Report { home: &place.home, stopped })?;
        } else {
            out.line(if stopped { "the daemon is down" } else { "no daemon was up" })?;
        }
        Ok(DONE)
    }
}

/// A daemon that is gone.
pub(super) struct Stopped {
    /// Where it was.
    pub(super) endpoint: String,
    pub(super) version: String,
}

/// Asks the daemon to stop, as this one, and waits until it is gone. `None` where there was none.
pub(super) fn stop(place: &Place, identity: &Identity) -> Result<Option<Stopped>, Failure> {
    ask_to_go(place, identity, None)
}

/// The same to a daemon that another one follows, which its clients are told.
pub(super) fn make_room(place: &Place) -> Result<Option<Stopped>, Failure> {
    // One that doesn't know the reason stops all the same.
    let why = relay::Stop { reason: Some(UPGRADE.into()) };
    let why = to_raw_value(&why).expect("it is a text");
    ask_to_go(place, &Identity::of_process(place)?, Some(&why))
}

fn ask_to_go(
    place: &Place,
    identity: &Identity,
    why: Option<&RawValue>,
) -> Result<Option<Stopped>, Failure> {
    let client = match place.try_join(&|endpoint| identity.settings(endpoint)) {
        Ok(client) => client,
        Err(ClientError::NoDaemon { endpoint, .. }) => {
            return if place.is_locked()? { Err(hidden(place, &endpoint)) } else { Ok(None) };
        }
        Err(error) => return Err(error.into()),
    };
    check_home(place, &client)?;
    let asked = clock::monotonic_ms();
    let left = || (asked + STOP_MS).saturating_sub(clock::monotonic_ms());
    match ask(&client, "stop", why) {
        // It may be gone before its answer is out; whether it goes is seen below.
        Ok(_) | Err(Failure { code: TIMED_OUT, .. }) => {}
        Err(failure) => return Err(failure),
    }
    while let Ok(event) = client.events().recv_timeout(Duration::from_millis(left())) {
        if matches!(event, Event::State(State::Backoff { .. }) | Event::Ended(_)) {
            break;
        }
    }
    let version = client.welcome().server.version.clone();
    let endpoint = client.endpoint().to_owned();
    drop(client);
    while !is_gone(place, &endpoint, asked)? {
        if left() == 0 {
            let words = format!("the daemon at {endpoint} is still there {STOP_MS} ms later");
            return Err(Failure::new(TIMED_OUT, words));
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(Some(Stopped { endpoint, version }))
}

/// A daemon that was found only because it is where daemons usually are has to be this home's.
fn check_home(place: &Place, client: &Client) -> Result<(), Failure> {
    if place.sources.requested().is_some() {
        return Ok(());
    }
    let Some(about) = about(client)? else { return Ok(()) };
    let (theirs, ours) = (Path::new(&*about.home), &place.home);
    if place.sources.service.as_ref().is_some_and(|service| service.home == theirs) {
        return Ok(());
    }
    let is_same = match (theirs.canonicalize(), ours.canonicalize()) {
        (Ok(theirs), Ok(ours)) => theirs == ours,
        _ => theirs == ours,
    };
    if is_same {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "the daemon at {} has the home {}, not {}: name its endpoint with --endpoint to stop it",
        client.endpoint(),
        foreign_line(&about.home),
        ours.display()
    )))
}

/// Nothing is there, or something that was started since.
fn is_gone(place: &Place, endpoint: &str, asked: u64) -> Result<bool, Failure> {
    match Client::join(place.trusting(Settings::guest(endpoint))) {
        Err(ClientError::NoDaemon { .. }) => Ok(!place.is_locked()?),
        // One that is about to go may say so.
        Err(_) => Ok(false),
        Ok(client) => {
            let Ok(json) = ask(&client, "status", None) else { return Ok(false) };
            let age = read::<relay::Status<'_>>("status", &json)?.uptime_ms;
            Ok(age < clock::monotonic_ms().saturating_sub(asked))
        }
    }
}

fn hidden(place: &Place, endpoint: &str) -> Failure {
    Failure::failed(format!(
        "a daemon runs for {} but not at {endpoint}: name its endpoint with --endpoint",
        place.home.display()
    ))
}
