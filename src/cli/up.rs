//! `up`: start the daemon.

use super::{
    DONE, Failure, VERSION,
    ask::{about, guest},
    down::{self, Stopped},
    identity::agent_around,
    launch::{make_home, start_as_asked},
    log,
    place::{Asked, Place},
    print::{Out, foreign_line, say},
    restart,
    service::{self, supervise},
};
use crate::{
    client::{Client, ClientError, Settings},
    daemon,
};
use argh::{ArgsInfo, FromArgs};
use platform::{endpoint::Endpoint, lock::Lock, peer::User};
use serde::Serialize;
use std::fmt::Display;

/// Start the daemon. Returns once clients can connect; already up is success.
#[derive(Debug, FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "up",
    help_triggers("--help"),
    example = "agent-relay up",
    example = "agent-relay up --foreground"
)]
pub(super) struct Up {
    /// stay here, in this terminal, until Ctrl-C
    #[argh(switch)]
    foreground: bool,

    /// write the log into the home directory, as a daemon on its own does
    #[argh(switch, hidden_help)]
    detached: bool,

    /// the same, started by the system: there may be no home yet, and nobody reads what it says elsewhere
    #[argh(switch, hidden_help)]
    service: bool,

    /// the same, by what doesn't see how it ends: this process stays beside it
    #[argh(switch, hidden_help)]
    supervised: bool,

    /// stop the daemon that runs, and start this version's in its place; clients come back by themselves
    #[argh(switch)]
    replace: bool,

    /// print one JSON object
    #[argh(switch)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    /// The version that was stopped for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<&'a str>,
    endpoint: &'a str,
    home: Option<&'a str>,
    version: &'a str,
    started: bool,
}

impl Up {
    pub(super) fn run(self, asked: &Asked) -> Result<i32, Failure> {
        if self.service {
            return serve(asked);
        }
        if self.supervised {
            return supervise(asked);
        }
        let mut place = asked.place_of_daemon()?;
        let is_to_restart = self.replace && !self.foreground;
        let service = if is_to_restart { service::of(&place) } else { None };
        service.as_ref().map_or(Ok(()), service::check_program)?;
        let start_lock = self.start_lock(&place)?;
        let old = if self.replace { down::make_room(&place)? } else { None };
        // The system's has an endpoint of its own.
        if let (Some(old), None) = (&old, &service) {
            // Where its clients come back to.
            place.sources.option = Some(old.endpoint.clone());
        }
        if self.foreground {
            if let Some(old) = &old {
                say(format_args!("version {} was stopped", foreign_line(&old.version)));
            }
            log::begin(self.detached.then(|| place.home.join(log::FILE)).as_deref())?;
            return foreground(place, start_lock);
        }
        let started = match place.try_join(&|endpoint| Settings::guest(endpoint)) {
            Ok(_) => Ok(false),
            Err(ClientError::NoDaemon { .. }) => start_as_asked(&mut place),
            Err(error) => Err(error.into()),
        };
        let started = started.map_err(|failure| without(old.as_ref(), failure))?;
        self.report(&guest(&place)?, started, old.as_ref())
    }

    /// No wrapper starts a daemon before the new one has the old one's place.
    fn start_lock(&self, place: &Place) -> Result<Option<Lock>, Failure> {
        if agent_around().is_none() {
            return if self.replace { restart::hold_off(&place.home) } else { Ok(None) };
        }
        // What an agent's own command starts comes by here, too: it was judged before.
        if self.foreground && !self.detached {
            restart::check_not_stopped(&place.home)?;
        }
        Ok(None)
    }

    fn report(
        &self,
        client: &Client,
        started: bool,
        old: Option<&Stopped>,
    ) -> Result<i32, Failure> {
        let (endpoint, version) = (client.endpoint(), client.welcome().server.version.as_str());
        if self.replace && version != VERSION {
            return Err(Failure::failed(format!(
                "a daemon of version {} was started by somebody else meanwhile: run `agent-relay up \
                 --replace` again",
                foreign_line(version)
            )));
        }
        let home = about(client)?.map(|about| about.home);
        let replaced = old.map(|old| old.version.as_str());
        let mut out = Out::new();
        if self.json {
            out.json(
                "up",
                &Report { replaced, endpoint, home: home.as_deref(), version, started },
            )?;
        } else {
            if let Some(replaced) = replaced {
                out.line(format_args!("version {} was stopped", foreign_line(replaced)))?;
            }
            let words = if started { "the daemon is up" } else { "the daemon was up already" };
            let home = home.map(|home| format!(", home {}", foreign_line(&home)));
            let (version, home) = (foreign_line(version), home.unwrap_or_default());
            out.line(format_args!("{words} at {endpoint} (version {version}{home})"))?;
        }
        Ok(DONE)
    }
}

/// Says beside why there is no new daemon that the old one is gone.
fn without(old: Option<&Stopped>, failure: Failure) -> Failure {
    let Some(old) = old else { return failure };
    let (version, why) = (foreign_line(&old.version), failure.words.unwrap_or_default());
    Failure::new(failure.code, format!("version {version} was stopped, and no daemon is up: {why}"))
}

/// The daemon as a service: all that it says is in its log.
fn serve(asked: &Asked) -> Result<i32, Failure> {
    let home = asked.home()?;
    make_home(&home)?;
    log::begin_in(&home, &User::me().map_err(Failure::because)?)?;
    asked.place_of_daemon().and_then(|place| foreground(place, None)).inspect_err(|failure| {
        if let Some(words) = &failure.words {
            tracing::error!("{words}");
        }
    })
}

/// Runs the daemon here; until clients can connect, `start_lock` is held.
fn foreground(place: Place, start_lock: Option<Lock>) -> Result<i32, Failure> {
    if let Some(service) = place.sources.service_used() {
        return Err(Failure::failed(format!(
            "the daemon is a service's (at {}), and `agent-relay service start` starts it: one beside it \
             needs another --endpoint and --home",
            foreign_line(&service.endpoint)
        )));
    }
    run(place, User::me().map_err(Failure::because)?, |_| drop(start_lock))
}

/// Runs the daemon of a place, for its owner.
pub(super) fn run(
    place: Place,
    owner: User,
    ready: impl FnOnce(&Endpoint),
) -> Result<i32, Failure> {
    let failed = |error: &dyn Display| Failure::failed(foreign_line(&error.to_string()));
    let endpoint = place.sources.requested().map(|text| Endpoint::parse(text.as_ref())).transpose();
    let settings = daemon::Settings {
        owner,
        endpoint: endpoint.map_err(|error| failed(&error))?,
        limits: place.config.limits(),
        history_days: place.config.history_days,
        store_bytes_max: place.config.store_max_bytes,
        home: place.home,
    };
    daemon::run(settings, ready).map_err(|error| failed(&error))?;
    Ok(DONE)
}
