//! The locks that make a daemon the only one in its home and at its endpoint.
//!
//! Only these locks decide whether a daemon runs; pings and process ids do not.

use super::{error::DaemonError, settings::Settings, stopped};
use client::home::{ENDPOINT_FILE, LOCK_FILE, default_endpoints};
use parking_lot::Mutex;
use platform::{endpoint::Endpoint, lock::Lock, paths, peer::User, transport::Listener};
use std::{
    fs, io, mem,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use store::Claim as _;

/// The directory of the endpoints' locks in a home.
const LOCKS: &str = "locks";

/// The lock of a daemon's home, which the daemon takes again if its file is removed.
#[derive(Debug)]
pub(super) struct HomeLock {
    home: PathBuf,
    lock: Mutex<Lock>,
    /// Set when the home was removed and is taken again, until its other files are written again.
    is_incomplete: AtomicBool,
}

impl HomeLock {
    fn take(home: &Path) -> Result<Self, DaemonError> {
        let lock =
            Lock::take(&home.join(LOCK_FILE))?.ok_or_else(|| DaemonError::home_in_use(home))?;
        let (lock, is_incomplete) = (Mutex::new(lock), AtomicBool::new(false));
        Ok(Self { home: home.to_owned(), lock, is_incomplete })
    }

    /// The home.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Whether the home was removed, and its files other than the store's are not written again.
    pub(super) fn is_incomplete(&self) -> bool {
        self.is_incomplete.load(Ordering::Relaxed)
    }

    /// Notes that the home's files are written again.
    pub(super) fn complete(&self) {
        self.is_incomplete.store(false, Ordering::Relaxed);
    }
}

impl store::Claim for HomeLock {
    /// Makes and locks the home again if it was removed, so that no second daemon can lock it.
    fn is_held(&self) -> io::Result<bool> {
        let mut lock = self.lock.lock();
        if lock.is_current()? {
            return Ok(true);
        }
        // Set before the lock's file is there, by which others tell that the home is.
        self.is_incomplete.store(true, Ordering::Relaxed);
        paths::make_private_dir(&self.home)?;
        let Some(again) = Lock::take(&self.home.join(LOCK_FILE))? else { return Ok(false) };
        *lock = again;
        Ok(true)
    }
}

/// The locks of a running daemon.
#[derive(Debug)]
pub(super) struct InstanceLock {
    /// The endpoint at which the daemon listens.
    pub(super) endpoint: Endpoint,
    /// The endpoint at which the daemon listened before another user took it.
    pub(super) left: Option<Endpoint>,
    pub(super) home: PathBuf,
    /// The directory of the endpoints' locks, which daemons with different homes share.
    locks: PathBuf,
    pub(super) home_lock: Arc<HomeLock>,
    endpoint_lock: Lock,
}

impl InstanceLock {
    /// Takes the home's lock and the endpoint's.
    pub(super) fn acquire(settings: &Settings) -> Result<Self, DaemonError> {
        let home = &settings.home;
        let is_own = settings.owner == User::me()?;
        // The account of a service has no home other than this one, so the locks are here.
        let locks = if is_own { locks_directory()? } else { home.join(LOCKS) };
        paths::make_private_dir(home)?;
        let home_lock = Arc::new(HomeLock::take(home)?);
        let endpoint = settings.endpoint.clone();
        let endpoint = endpoint.map_or_else(|| first_own(default_endpoints(home), home), Ok)?;
        let endpoint_lock = lock_endpoint(&locks, &endpoint)?;
        let home = home.to_owned();
        Ok(Self { endpoint, left: None, home, locks, home_lock, endpoint_lock })
    }

    /// Writes the endpoint into the file where commands look for it.
    pub(super) fn write_endpoint_file(&self) -> io::Result<()> {
        paths::write_private_file(
            &self.home.join(ENDPOINT_FILE),
            self.endpoint.as_text().as_bytes(),
        )
    }

    /// Makes and locks the home again if it was removed, so that no second daemon can lock it.
    /// Returns whether its files have to be written again.
    pub(super) fn restore_home(&self) -> Result<bool, DaemonError> {
        if !self.home_lock.is_held()? {
            return Err(DaemonError::home_in_use(&self.home));
        }
        Ok(self.home_lock.is_incomplete())
    }

    /// Marks the home as one where the daemon was stopped on purpose, unless another daemon has it.
    /// The mark is set before the home's lock is released, since a starter that finds the home free
    /// looks for the mark.
    pub(super) fn mark_as_stopped(&self) {
        let marked = match self.home_lock.is_held() {
            Ok(true) => stopped::MARK.set(&self.home),
            held => held.map(drop),
        };
        if let Err(error) = marked {
            tracing::error!("a wrapper may restart the daemon that was stopped: {error}");
        }
    }

    /// Moves the daemon from an endpoint that another user took to the endpoint with this user's
    /// name, or if that is taken as well, to a private one.
    pub(super) fn move_to_own_endpoint(&mut self) -> Result<(), DaemonError> {
        let own = first_own([Endpoint::per_user()?], &self.home)?;
        if own == self.endpoint {
            let taken =
                format!("{own} is another user's as well; remove it, or start with --endpoint");
            return Err(io::Error::other(taken).into());
        }
        self.endpoint_lock = lock_endpoint(&self.locks, &own)?;
        self.left = Some(mem::replace(&mut self.endpoint, own));
        Ok(())
    }
}

/// The first default endpoint of a home that no other user has, or else a private one.
fn first_own(defaults: impl IntoIterator<Item = Endpoint>, home: &Path) -> io::Result<Endpoint> {
    // If that cannot be found out, listening reports why.
    let is_own = |endpoint: &Endpoint| !Listener::is_foreign(endpoint).unwrap_or(false);
    if let Some(own) = defaults.into_iter().find(is_own) {
        return Ok(own);
    }
    // If there is no such file, no daemon has had a private endpoint.
    let last = fs::read_to_string(home.join(ENDPOINT_FILE)).ok();
    let kept = Endpoint::private(home, last.as_deref().map(str::trim))?;
    if is_own(&kept) { Ok(kept) } else { Endpoint::private(home, None) }
}

/// The directory of the endpoints' locks. This directory is in the default home, even for daemons
/// with another home.
pub(crate) fn locks_directory() -> io::Result<PathBuf> {
    let home = paths::home()?;
    paths::check_not_anothers(&home)?;
    Ok(home.join(LOCKS))
}

/// Removes the lock of an endpoint that no daemon will use again, if there is one and no daemon
/// holds it.
pub(crate) fn remove_endpoint_lock(endpoint: &Endpoint) -> io::Result<()> {
    let path = lock_of(&locks_directory()?, endpoint);
    if !path.exists() {
        return Ok(());
    }
    Lock::take(&path)?.map_or(Ok(()), Lock::remove)
}

/// The path of an endpoint's lock.
fn lock_of(locks: &Path, endpoint: &Endpoint) -> PathBuf {
    locks.join(format!("{:016x}", fingerprint(endpoint.as_text())))
}

fn lock_endpoint(locks: &Path, endpoint: &Endpoint) -> Result<Lock, DaemonError> {
    paths::make_private_dir(locks)?;
    Lock::take(&lock_of(locks, endpoint))?
        .ok_or_else(|| DaemonError::EndpointInUse(endpoint.clone()))
}

/// FNV-1a, which must not change: daemons of all versions have to agree on a lock's name.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
