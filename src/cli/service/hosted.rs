//! The daemon as a Windows service, under a separate account, for one owner.
//!
//! The service manager starts the program with arguments that follow `--as-agent-relay`, which are
//! compared exactly. Users never type them.

use crate::{
    cli::{
        failure::{DONE, Failure},
        log,
        program::{AS_AGENT_RELAY, own_program},
        serve,
    },
    daemon::mark::RESTART_CANCELLED,
};
use client::home::{Context, HomeOptions};
use platform::{
    paths,
    peer::User,
    service::{self, Cause, OWNER, Program, RESTART_MAX, Running, Site},
};
use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// The longest delay of a restart by the system.
const LATE_MAX: Duration = Duration::from_secs(10);

/// The system log's texts about the service's end.
const DOWN: &str = "Agent Relay is down.";
const CANCELLED: &str = "Agent Relay does not run: a command has stopped it after a failure, and \
                         this was its restart.";

/// The arguments of a service's daemon.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hosted {
    home: String,
    endpoint: String,
    owner: String,
}

/// The program of a service, with its arguments.
pub(super) fn program(site: &Site) -> Result<Program, Failure> {
    let (home, owner) = (site.home.clone().into_os_string(), site.owner.to_string());
    let mut arguments: Vec<OsString> = vec![AS_AGENT_RELAY.into(), "--home".into(), home];
    arguments.extend(["--endpoint", site.endpoint.as_text()].map(OsString::from));
    arguments.extend(["service", "run", OWNER, &owner].map(OsString::from));
    Ok(Program { file: own_program()?, arguments })
}

impl Hosted {
    /// Parses the arguments after [`AS_AGENT_RELAY`], if they are those of [`program`].
    pub(crate) fn of(words: &[OsString]) -> Option<Self> {
        let words: Vec<_> = words.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
        match words[..] {
            ["--home", home, "--endpoint", endpoint, "service", "run", OWNER, owner] => {
                Some(Self {
                    home: home.to_owned(),
                    endpoint: endpoint.to_owned(),
                    owner: owner.to_owned(),
                })
            }
            _ => None,
        }
    }

    /// Runs the daemon until the service manager stops it.
    pub(crate) fn run(self) -> Result<i32, Failure> {
        let serve = move |running: &Running| {
            let (home, owner) = self.home().map_err(Failure::into_message)?;
            let _logging = log::begin_in(&home, &owner).map_err(Failure::into_message)?;
            if take_cancellation(&home, running.cause()).map_err(|error| error.to_string())? {
                tracing::info!("{CANCELLED}");
                return Ok(CANCELLED);
            }
            let served = self.context().and_then(|context| {
                let mut progressed = || running.report_progress();
                serve::run(context, owner, false, &mut progressed, |_| running.report_ready())
            });
            served.map(|_| DOWN).map_err(|failure| {
                let message = failure.into_message();
                tracing::error!("{message}");
                message
            })
        };
        service::run(serve).map_err(Failure::because)?;
        Ok(DONE)
    }

    fn options(&self) -> HomeOptions {
        HomeOptions { home: Some(self.home.clone()), endpoint: Some(self.endpoint.clone()) }
    }

    /// Makes the home. Returns it with its owner.
    fn home(&self) -> Result<(PathBuf, User), Failure> {
        let owner = User::parse(&self.owner).map_err(Failure::because)?;
        let home = self.options().home()?;
        paths::make_private_dir(&home).map_err(Failure::because)?;
        Ok((home, owner))
    }

    fn context(&self) -> Result<Context, Failure> {
        Ok(self.options().context_of_daemon()?)
    }
}

/// Handles the marks of a cancelled restart. Returns whether the service has to end at once, since
/// this start is a cancellation by `service stop`, or the cancelled restart after a failure.
fn take_cancellation(home: &Path, cause: Cause) -> io::Result<bool> {
    match cause {
        Cause::Cancel => RESTART_CANCELLED.set(home).map(|()| true),
        Cause::Command => RESTART_CANCELLED.clear(home).map(|_| false),
        Cause::Other => {
            let age = RESTART_CANCELLED.age(home)?;
            RESTART_CANCELLED.clear(home)?;
            Ok(age.is_some_and(|age| age <= RESTART_MAX + LATE_MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::endpoint::Endpoint;
    use std::{
        env,
        fs::{self, File},
        process,
        time::SystemTime,
    };

    #[test]
    fn installed_arguments_are_recognized_at_the_start() {
        let owner = User::me().unwrap();
        let site = Site {
            account: owner.clone(),
            home: "/a b".into(),
            endpoint: Endpoint::inside(Path::new("/tmp"), "x").unwrap(),
            owner: owner.clone(),
        };
        let words = program(&site).unwrap().arguments;
        assert_eq!(words[0], AS_AGENT_RELAY);
        let known = Hosted::of(&words[1..]).unwrap();
        assert_eq!((known.home.as_str(), &known.owner), ("/a b", &owner.to_string()));
        for n in 1..words.len() {
            assert_eq!(Hosted::of(&words[1..n]), None);
        }
        assert_eq!(Hosted::of(&words), None);
    }

    #[test]
    fn cancelled_restart_ends_at_once() {
        let home = env::temp_dir().join(format!("ar-cancelled-{}", process::id()));
        paths::make_private_dir(&home).unwrap();
        let is_cancelled = |cause| take_cancellation(&home, cause).unwrap();
        assert!(!is_cancelled(Cause::Other), "nothing was cancelled");
        assert!(is_cancelled(Cause::Cancel));
        assert!(is_cancelled(Cause::Other));
        assert!(!is_cancelled(Cause::Other), "there is one restart");
        assert!(is_cancelled(Cause::Cancel));
        assert!(!is_cancelled(Cause::Command));
        assert!(!is_cancelled(Cause::Other), "a command has started it since");
        assert!(is_cancelled(Cause::Cancel));
        let long_ago = SystemTime::now() - RESTART_MAX - LATE_MAX - Duration::from_secs(1);
        let mark = File::options().write(true).open(home.join("restart.cancelled")).unwrap();
        mark.set_modified(long_ago).unwrap();
        drop(mark);
        assert!(!is_cancelled(Cause::Other), "the restart would have come before");
        fs::remove_dir_all(&home).unwrap();
    }
}
