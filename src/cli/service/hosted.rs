//! What the service manager of Windows starts: the daemon, under an account of its own, for one owner.
//!
//! No command of anybody's: it is told by its place behind the first argument, and never tried.

use super::super::{
    AS_AGENT_RELAY, DONE, Failure,
    launch::own_program,
    log,
    place::{Asked, Place},
    up,
};
use platform::{
    paths,
    peer::User,
    service::{self, OWNER, Program, Running, Site},
};
use std::ffi::OsString;

/// A service's daemon, as its definition has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hosted {
    home: String,
    endpoint: String,
    owner: String,
}

/// What a service runs.
pub(super) fn program(site: &Site) -> Result<Program, Failure> {
    let (home, owner) = (site.home.clone().into_os_string(), site.owner.to_string());
    let mut arguments: Vec<OsString> = vec![AS_AGENT_RELAY.into(), "--home".into(), home];
    arguments.extend(["--endpoint", site.endpoint.as_text()].map(OsString::from));
    arguments.extend(["service", "run", OWNER, &owner].map(OsString::from));
    Ok(Program { file: own_program()?, arguments })
}

impl Hosted {
    /// Whether the words behind [`AS_AGENT_RELAY`] are those of [`program`].
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

    /// Runs it until the service manager stops it.
    pub(crate) fn run(self) -> Result<i32, Failure> {
        let serve = move |running: &Running| {
            let served = self
                .place()
                .and_then(|(place, owner)| up::run(place, owner, |_| running.is_ready()));
            served.map(drop).map_err(|failure| {
                let words = failure.words.unwrap_or_default();
                tracing::error!("{words}");
                words
            })
        };
        service::run(serve).map_err(Failure::because)?;
        Ok(DONE)
    }

    fn place(&self) -> Result<(Place, User), Failure> {
        let owner = User::parse(&self.owner).map_err(Failure::because)?;
        let asked = Asked { home: Some(self.home.clone()), endpoint: Some(self.endpoint.clone()) };
        let home = asked.home()?;
        paths::make_private_dir(&home).map_err(Failure::because)?;
        log::begin_in(&home, &owner)?;
        Ok((asked.place_of_daemon()?, owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::endpoint::Endpoint;
    use std::path::Path;

    #[test]
    fn what_is_installed_is_known_when_it_is_started() {
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
