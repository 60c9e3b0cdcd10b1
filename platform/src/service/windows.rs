//! Windows: a service for one user, or a task of this user.

use std::{io, path::PathBuf, ptr::null_mut, slice};

use windows_sys::Win32::{
    System::Com::CoTaskMemFree,
    UI::Shell::{FOLDERID_ProgramData, SHGetKnownFolderPath},
};

use super::{Installed, Kind, NAME, Program, RunState, Site, schedule, scm};
use crate::{
    endpoint::{self, Endpoint},
    naming,
    peer::User,
    refusal, security,
    transport::Listener,
};

pub(super) use super::{host::run, scm::replaceable_by};

pub(super) fn without_logon() -> Option<&'static str> {
    None
}

pub(super) fn watched() -> io::Result<Option<Installed>> {
    Ok(None)
}

/// The SID of `NT SERVICE\agent-relay`, which is computed from the service's name.
pub(super) const ACCOUNT: &str = "S-1-5-80-722816291-908252167-3255456494-1261689126-2257521638";

pub(super) fn site(user: Option<&str>) -> io::Result<Option<Site>> {
    let owner = match user {
        None => User::me()?,
        Some(name) => match User::parse(name) {
            Ok(user) => {
                security::check_user(name)?;
                user
            }
            Err(_) => security::sid_of(name)
                .map(User::of_sid)
                .map_err(naming(format!("look for the user {name}")))?,
        },
    };
    let home = program_data()?.join(NAME).join(owner.to_string());
    let endpoint = endpoint_for(&owner)?;
    Ok(Some(Site { owner, account: User::of_sid(ACCOUNT.to_owned()), home, endpoint }))
}

/// The endpoint of the owner's installed service, unless it is stopped and another user listens
/// there; or else a new private one.
fn endpoint_for(owner: &User) -> io::Result<Endpoint> {
    let before = scm::installed()?.filter(|before| before.owner().as_ref() == Some(owner));
    let kept = before.and_then(|before| {
        let endpoint = Endpoint::parse(before.after("--endpoint")?.as_ref()).ok()?;
        let runs = matches!(before.state, RunState::Running(_));
        (runs || !Listener::is_foreign(&endpoint).unwrap_or(true)).then_some(endpoint)
    });
    kept.map_or_else(|| Endpoint::parse(&endpoint::private_of(owner)?), Ok)
}

pub(super) fn check_logon() -> io::Result<()> {
    Ok(())
}

pub(super) fn check_install(program: &Program, site: Option<&Site>) -> io::Result<()> {
    let before = scm::installed()?;
    let in_the_way = |words: &str| Err(refusal(io::ErrorKind::AlreadyExists, words));
    match (site, before) {
        (Some(site), Some(before)) if before.owner().is_some_and(|owner| owner != site.owner) => {
            in_the_way("a service for another user is installed; remove it first")
        }
        (Some(_), _) => scm::check_install(program),
        (None, Some(before)) if is_mine(&before) => {
            in_the_way("the service is installed and would compete with the task; remove it first")
        }
        (None, _) => schedule::check_install(program),
    }
}

pub(super) fn install(program: &Program, site: Option<&Site>) -> io::Result<()> {
    let Some(site) = site else { return schedule::install(program) };
    scm::install(program, site)?;
    // The service replaces the same user's task.
    if site.owner == User::me()? { schedule::uninstall().map(drop) } else { Ok(()) }
}

pub(super) fn uninstall() -> io::Result<bool> {
    match kind()? {
        None => scm::remove_rest(),
        Some(Kind::Task) => schedule::uninstall(),
        Some(_) => scm::uninstall().map(|()| true),
    }
}

pub(super) fn start() -> io::Result<()> {
    match kind()? {
        Some(Kind::Task) => schedule::start(),
        _ => scm::start(),
    }
}

pub(super) fn stop() -> io::Result<()> {
    match kind()? {
        Some(Kind::Task) => schedule::stop(),
        _ => scm::stop(),
    }
}

/// The service of this user, or else this user's task, or else another user's service.
pub(super) fn installed() -> io::Result<Option<Installed>> {
    match scm::installed()? {
        Some(service) if is_mine(&service) => Ok(Some(service)),
        foreign => Ok(schedule::installed()?.or(foreign)),
    }
}

fn kind() -> io::Result<Option<Kind>> {
    Ok(installed()?.map(|installed| installed.kind))
}

fn is_mine(service: &Installed) -> bool {
    service.owner().is_none_or(|owner| User::me().is_ok_and(|me| me == owner))
}

/// The path of `%ProgramData%`, from the system: the environment variable could be set to another
/// path.
fn program_data() -> io::Result<PathBuf> {
    let mut path = null_mut();
    // SAFETY: the pointer is to a pointer of ours; null stands for this process's own user.
    let result = unsafe { SHGetKnownFolderPath(&FOLDERID_ProgramData, 0, null_mut(), &mut path) };
    let text = if result == 0 {
        // SAFETY: the call has succeeded, so that the text ends with a zero.
        let units = unsafe {
            slice::from_raw_parts(path, (0..).take_while(|n| *path.add(*n) != 0).count())
        };
        Ok(String::from_utf16_lossy(units))
    } else {
        Err(refusal(
            io::ErrorKind::NotFound,
            format!(
                "the system does not name the directory of its programs' data (error {result:#x})"
            ),
        ))
    };
    // SAFETY: the system requires this way of freeing the path, also after a failure. Nothing
    // refers to the path any more.
    unsafe { CoTaskMemFree(path.cast()) };
    text.map(PathBuf::from)
}
