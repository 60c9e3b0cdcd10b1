//! The claim: locks that make this daemon the only one, and the endpoint it may bind.
//!
//! Liveness of a daemon is a lock held for life, never a ping or a process id.

use super::{DaemonError, Settings};
use crate::config::{ENDPOINT_FILE, LOCK_FILE};
use platform::{endpoint::Endpoint, lock::Lock, paths, peer::User};
use std::{
    io, mem,
    path::{Path, PathBuf},
};

/// The directory of the endpoints' locks in a home.
const LOCKS: &str = "locks";

/// The locks of a running daemon.
#[derive(Debug)]
pub(super) struct Claim {
    /// Where it listens.
    pub(super) endpoint: Endpoint,
    /// Where it listened before somebody else took that place.
    pub(super) left: Option<Endpoint>,
    pub(super) home: PathBuf,
    /// Where the endpoints' locks are: daemons with different homes meet in the default one.
    locks: PathBuf,
    home_lock: Lock,
    endpoint_lock: Lock,
}

impl Claim {
    /// Takes the home's lock and the endpoint's.
    pub(super) fn stake(settings: &Settings) -> Result<Self, DaemonError> {
        let home = &settings.home;
        let is_own = settings.owner == User::me()?;
        // Nobody logs on as a service, so that it has no home but this.
        let locks = if is_own { locks_directory()? } else { home.join(LOCKS) };
        paths::make_private_dir(home)?;
        let home_lock = Lock::take(&home.join(LOCK_FILE))?
            .ok_or_else(|| DaemonError::HomeInUse(home.to_owned()))?;
        let endpoint = settings.endpoint.clone().map_or_else(default_endpoint, Ok)?;
        let endpoint_lock = lock_endpoint(&locks, &endpoint)?;
        let home = home.to_owned();
        Ok(Self { endpoint, left: None, home, locks, home_lock, endpoint_lock })
    }

    /// Writes the endpoint where this home's commands look for it.
    pub(super) fn announce(&self) -> io::Result<()> {
        paths::write_private_file(
            &self.home.join(ENDPOINT_FILE),
            self.endpoint.as_text().as_bytes(),
        )
    }

    /// Locks the home anew where somebody removed it, so that no second daemon takes it for free.
    /// Gives back whether that was needed.
    pub(super) fn hold_home(&mut self) -> Result<bool, DaemonError> {
        if self.home_lock.is_current()? {
            return Ok(false);
        }
        paths::make_private_dir(&self.home)?;
        self.home_lock = Lock::take(&self.home.join(LOCK_FILE))?
            .ok_or_else(|| DaemonError::HomeInUse(self.home.clone()))?;
        self.announce()?;
        Ok(true)
    }

    /// Leaves an endpoint that somebody else took for the one with this user's name in it.
    pub(super) fn move_to_own(&mut self) -> Result<(), DaemonError> {
        let own = Endpoint::per_user()?;
        if own == self.endpoint {
            let taken = format!("{own} was taken as well; remove it, or start with --endpoint");
            return Err(io::Error::other(taken).into());
        }
        self.endpoint_lock = lock_endpoint(&self.locks, &own)?;
        self.left = Some(mem::replace(&mut self.endpoint, own));
        Ok(())
    }
}

/// The default endpoint, or, where another user has that one, the one with this user's name in it.
fn default_endpoint() -> io::Result<Endpoint> {
    let shared = Endpoint::shared();
    if shared.is_foreign()? { Endpoint::per_user() } else { Ok(shared) }
}

/// Where daemons with different homes meet: it lies in the default home, whatever a daemon's own is.
pub fn locks_directory() -> io::Result<PathBuf> {
    Ok(paths::home()?.join(LOCKS))
}

fn lock_endpoint(locks: &Path, endpoint: &Endpoint) -> Result<Lock, DaemonError> {
    paths::make_private_dir(locks)?;
    let name = format!("{:016x}", fingerprint(endpoint.as_text()));
    Lock::take(&locks.join(name))?.ok_or_else(|| DaemonError::EndpointInUse(endpoint.clone()))
}

/// FNV-1a: the same in every version, so that an old daemon and a new one meet at the same lock.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
