//! The daemon as a Windows service, under an account of its own, for one owner.
//!
//! The service manager starts the program with arguments that follow `--as-agent-relay`, which are
//! compared as a whole. Users never type them.

use crate::cli::{
    context::{Context, GlobalOptions},
    failure::{DONE, Failure},
    log,
    program::{AS_AGENT_RELAY, own_program},
    serve,
};
use platform::{
    paths,
    peer::User,
    service::{self, OWNER, Program, Running, Site},
};
use std::ffi::OsString;

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
            let served = self.context().and_then(|(context, owner)| {
                serve::run(context, owner, |_| running.report_ready())
            });
            served.map(drop).map_err(|failure| {
                let message = failure.into_message();
                tracing::error!("{message}");
                message
            })
        };
        service::run(serve).map_err(Failure::because)?;
        Ok(DONE)
    }

    fn context(&self) -> Result<(Context, User), Failure> {
        let owner = User::parse(&self.owner).map_err(Failure::because)?;
        let options =
            GlobalOptions { home: Some(self.home.clone()), endpoint: Some(self.endpoint.clone()) };
        let home = options.home()?;
        paths::make_private_dir(&home).map_err(Failure::because)?;
        log::begin_in(&home, &owner)?;
        Ok((options.context_of_daemon()?, owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::endpoint::Endpoint;
    use std::path::Path;

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
}
