//! Windows: the service, managed by the service manager.

use std::{
    io,
    path::{Path, PathBuf},
    ptr::{null, null_mut},
    thread,
    time::{Duration, Instant},
};

use windows_service::{
    Error,
    service::{
        Service, ServiceAccess, ServiceAction, ServiceActionType, ServiceErrorControl,
        ServiceExitCode, ServiceFailureActions, ServiceFailureResetPeriod, ServiceInfo,
        ServiceSidType, ServiceStartType, ServiceState, ServiceType,
    },
    service_manager::{ServiceManager, ServiceManagerAccess},
};
use windows_sys::Win32::{
    Foundation::{
        ERROR_ACCESS_DENIED, ERROR_INVALID_LEVEL, ERROR_SERVICE_ALREADY_RUNNING,
        ERROR_SERVICE_CANNOT_ACCEPT_CTRL, ERROR_SERVICE_DOES_NOT_EXIST,
        ERROR_SERVICE_MARKED_FOR_DELETE, ERROR_SERVICE_NOT_ACTIVE,
    },
    Security::DACL_SECURITY_INFORMATION,
    System::Services::{
        ChangeServiceConfig2W, ChangeServiceConfigW, SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO,
        SERVICE_NO_CHANGE, SERVICE_REQUIRED_PRIVILEGES_INFOW, SetServiceObjectSecurity,
    },
};

use super::{
    Cause, Installed, Kind, NAME, PENDING_MAX, Program, RESTART_MAX, RunState, Site, command_line,
    host, program, words,
};
use crate::{
    access::{self, Advice},
    naming, paths,
    peer::User,
    refusal,
    security::{Descriptor, checked, wide},
};

const DISPLAY_NAME: &str = "Agent Relay";
const DESCRIPTION: &str = "Lets AI coding agents on this machine talk to each other.";

/// The service's own account. It has no password, and only the rights that this module and the
/// access to its files give it.
const ACCOUNT_NAME: &str = r"NT SERVICE\agent-relay";

/// The only privilege of the service: to traverse directories without access to them. Identifying
/// clients needs no privilege.
const PRIVILEGE: &str = "SeChangeNotifyPrivilege";

/// The delays before a restart: after the first, the second and every later failure within a day.
const RESTARTS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), RESTART_MAX];
const DAY: Duration = Duration::from_secs(86_400);

/// The time that the system's shutdown waits for the service.
const PRESHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The most attempts to cancel the restart of a service that fails at each start.
const CANCELLATIONS_MAX: usize = 3;

/// The access to the service manager that an installation needs.
const INSTALL_ACCESS: ServiceManagerAccess =
    ServiceManagerAccess::CONNECT.union(ServiceManagerAccess::CREATE_SERVICE);

/// The remedy for missing rights.
const ELEVATED: &str = "run this in a terminal opened with `Run as administrator`";

pub(super) fn check_install(program: &Program) -> io::Result<()> {
    connect(INSTALL_ACCESS)?;
    access::check_irreplaceable(&program.file).map_err(|error| {
        let words = "a service runs only a program that no other user can replace: copy the executables into a \
                     directory in %ProgramFiles%, and install from there";
        refusal(error.kind(), format!("{error}; {words}"))
    })
}

pub(super) fn install(program: &Program, site: &Site) -> io::Result<()> {
    let managed = connect(INSTALL_ACCESS)?;
    make_home(site)?;
    match managed.open_service(NAME, ServiceAccess::ALL_ACCESS) {
        Ok(service) => replace(&service, program, site),
        Err(error) if code(&error) == Some(ERROR_SERVICE_DOES_NOT_EXIST) => {
            make(&managed, program, site)
        }
        Err(error) => Err(service_error("replace")(error)),
    }
}

/// Removes the service. The service itself goes last, so that after a failure of an earlier step
/// another call finishes the removal.
pub(super) fn uninstall() -> io::Result<()> {
    let access = ServiceAccess::STOP | ServiceAccess::DELETE | ServiceAccess::QUERY_STATUS;
    let service = open(access)?.ok_or_else(not_installed)?;
    stop_and_wait(&service)?;
    host::unregister_log()?;
    service.delete().map_err(service_error("remove"))
}

/// Removes what is left of a service that was deleted by other means. Returns false if there was
/// nothing left.
pub(super) fn remove_rest() -> io::Result<bool> {
    host::unregister_log().map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => refusal(error.kind(), format!("{error}: {ELEVATED}")),
        _ => error,
    })
}

pub(super) fn start() -> io::Result<()> {
    let access = ServiceAccess::START | ServiceAccess::QUERY_STATUS;
    let service = open(access)?.ok_or_else(not_installed)?;
    start_because(&service, Cause::Command)?.map_err(service_error("start"))
}

pub(super) fn stop() -> io::Result<()> {
    let access = ServiceAccess::START | ServiceAccess::STOP | ServiceAccess::QUERY_STATUS;
    let service = open(access)?.ok_or_else(not_installed)?;
    stop_and_wait(&service)?;
    for _ in 0..CANCELLATIONS_MAX {
        if !matches!(state(&service)?, RunState::Failed(_)) {
            return Ok(());
        }
        match start_because(&service, Cause::Cancel)? {
            Err(error) if code(&error) == Some(ERROR_ACCESS_DENIED) => {
                return Err(service_error("prevent the restart of")(error));
            }
            // It is disabled, or may not log on, for example: the system's restart would fail, too.
            Err(_) => return Ok(()),
            Ok(()) => {}
        }
        // The system may have restarted it just before that, and then it may have failed again.
        stop_and_wait(&service)?;
    }
    match state(&service)? {
        RunState::Failed(why) => Err(refusal(
            io::ErrorKind::Other,
            format!(
                "the system will start the failed service again ({why}), since it does not run \
                 long enough to cancel that: correct the cause, or disable the service"
            ),
        )),
        _ => Ok(()),
    }
}

/// Starts the service. Succeeds if it is running or starting already; a service that is stopping is
/// waited for.
fn start_because(service: &Service, cause: Cause) -> io::Result<Result<(), Error>> {
    let arguments: Vec<&str> = host::argument(cause).into_iter().collect();
    loop {
        match service.start(&arguments) {
            Err(error) if code(&error) == Some(ERROR_SERVICE_ALREADY_RUNNING) => {
                let status = service.query_status().map_err(service_error("ask about"))?;
                match status.current_state {
                    ServiceState::StopPending => stop_and_wait(service)?,
                    // It has stopped since.
                    ServiceState::Stopped => {}
                    _ => return Ok(Ok(())),
                }
            }
            started => return Ok(started),
        }
    }
}

pub(super) fn installed() -> io::Result<Option<Installed>> {
    let Some(service) = open(ServiceAccess::QUERY_CONFIG | ServiceAccess::QUERY_STATUS)? else {
        return Ok(None);
    };
    let config = service.query_config().map_err(service_error("ask about"))?;
    let line = config.executable_path.to_string_lossy().into_owned();
    Ok(Some(Installed {
        kind: Kind::Service,
        definition: PathBuf::from(format!(r"HKLM\SYSTEM\CurrentControlSet\Services\{NAME}")),
        program: program(command_line::split(&line)),
        is_enabled: config.start_type == ServiceStartType::AutoStart,
        state: state(&service)?,
    }))
}

pub(super) fn replaceable_by(user: &User, program: &Program) -> io::Result<Option<PathBuf>> {
    access::replaceable_by(user, &program.file)
}

fn make(managed: &ServiceManager, program: &Program, site: &Site) -> io::Result<()> {
    let made = managed.create_service(&info(program), ServiceAccess::ALL_ACCESS);
    let service = made.map_err(service_error("install"))?;
    configure_and_start(&service, program, site).inspect_err(|_| {
        // A service that is not configured completely is removed. The first error is reported.
        let _ = service.delete();
        let _ = host::unregister_log();
    })
}

/// Replaces an installed service; restores it if the new one cannot be installed.
fn replace(service: &Service, program: &Program, site: &Site) -> io::Result<()> {
    let before = service.query_config().map_err(service_error("ask about"))?;
    let ran = !is_down(service)?;
    stop_and_wait(service)?;
    let changed = service.change_config(&info(program)).map_err(service_error("change"));
    changed.and_then(|()| configure_and_start(service, program, site)).map_err(|error| {
        let line = before.executable_path.to_string_lossy();
        let put_back = set_start(service, before.start_type, &line);
        let started = if ran && put_back.is_ok() {
            start_because(service, Cause::Command)
                .and_then(|started| started.map_err(service_error("start")))
        } else {
            Ok(())
        };
        replacement_error(&error, &line, put_back, started)
    })
}

/// Configures the service completely, and starts it.
fn configure_and_start(service: &Service, program: &Program, site: &Site) -> io::Result<()> {
    configure(service, program, site)?;
    host::register_log()?;
    start_because(service, Cause::Command)?.map_err(|error| start_error(error, program))
}

fn replacement_error(
    error: &io::Error,
    before: &str,
    put_back: io::Result<()>,
    started: io::Result<()>,
) -> io::Error {
    let state = match (put_back, started) {
        (Ok(()), Ok(())) => format!("the service is unchanged, and runs {before}"),
        (Ok(()), Err(why)) => {
            format!("the service is unchanged, with {before}, but is stopped ({why})")
        }
        (Err(why), _) => format!(
            "the service that ran {before} is only half replaced ({why}): correct this, and install again"
        ),
    };
    refusal(error.kind(), format!("{error}; {state}"))
}

fn state(service: &Service) -> io::Result<RunState> {
    let status = service.query_status().map_err(service_error("ask about"))?;
    Ok(match (status.current_state, status.process_id) {
        (ServiceState::Running, Some(pid)) => RunState::Running(pid),
        (ServiceState::Stopped, _) => match status.exit_code {
            ServiceExitCode::Win32(0 | ERROR_SERVICE_NEVER_STARTED) => RunState::Stopped,
            ServiceExitCode::Win32(code) => RunState::Failed(format!("error {code}")),
            ServiceExitCode::ServiceSpecific(code) => RunState::Failed(format!("exit code {code}")),
        },
        _ => RunState::Changing,
    })
}

/// The exit code of a service that has not been started since the system booted.
const ERROR_SERVICE_NEVER_STARTED: u32 = 1077;

fn info(program: &Program) -> ServiceInfo {
    ServiceInfo {
        name: NAME.into(),
        display_name: DISPLAY_NAME.into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path: program.file.clone(),
        launch_arguments: program.arguments.clone(),
        dependencies: Vec::new(),
        account_name: Some(ACCOUNT_NAME.into()),
        account_password: None,
    }
}

fn configure(service: &Service, program: &Program, site: &Site) -> io::Result<()> {
    set_start(service, ServiceStartType::AutoStart, &command_line::join(words(program)))?;
    let refused = || service_error("configure");
    service.set_description(DESCRIPTION).map_err(refused())?;
    service
        .update_failure_actions(ServiceFailureActions {
            reset_period: ServiceFailureResetPeriod::After(DAY),
            reboot_msg: None,
            command: None,
            actions: Some(RESTARTS.map(restart_after).to_vec()),
        })
        .map_err(refused())?;
    for set in [
        service.set_failure_actions_on_non_crash_failures(true),
        service.set_delayed_auto_start(true),
        service.set_config_service_sid_info(ServiceSidType::Unrestricted),
        service.set_preshutdown_timeout(PRESHUTDOWN_TIMEOUT),
        require_privilege(service).map_err(Error::Winapi),
    ] {
        match set {
            // Every Windows knows these settings. The error comes from Wine, which lacks some.
            Err(error) if code(&error) == Some(ERROR_INVALID_LEVEL) => {}
            set => set.map_err(refused())?,
        }
    }
    allow_owner(service, &site.owner)
}

fn restart_after(delay: Duration) -> ServiceAction {
    ServiceAction { action_type: ServiceActionType::Restart, delay }
}

/// Sets the start type and the command line. All words of `line` are in quotes.
fn set_start(service: &Service, when: ServiceStartType, line: &str) -> io::Result<()> {
    let line = wide(line);
    // SAFETY: the handle is open while the service lives; the text ends with a zero, and null means
    // no change.
    checked(unsafe {
        ChangeServiceConfigW(
            service.raw_handle(),
            SERVICE_NO_CHANGE,
            when.to_raw(),
            SERVICE_NO_CHANGE,
            line.as_ptr(),
            null(),
            null_mut(),
            null(),
            null(),
            null(),
            null(),
        )
    })
    .map_err(naming("write the service's command line"))
}

/// Restricts the service to one privilege. Without this, it would have the default privileges of
/// services.
fn require_privilege(service: &Service) -> io::Result<()> {
    let mut list: Vec<u16> = wide(PRIVILEGE);
    list.push(0);
    let info = SERVICE_REQUIRED_PRIVILEGES_INFOW { pmszRequiredPrivileges: list.as_mut_ptr() };
    // SAFETY: the handle is open while the service lives; the list ends with two zeros and outlives
    // the call.
    checked(unsafe {
        ChangeServiceConfig2W(
            service.raw_handle(),
            SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO,
            (&raw const info).cast(),
        )
    })
}

fn allow_owner(service: &Service, owner: &User) -> io::Result<()> {
    let descriptor = access_of(owner)?;
    // SAFETY: the handle is open while the service lives, and the descriptor is valid.
    checked(unsafe {
        SetServiceObjectSecurity(
            service.raw_handle(),
            DACL_SECURITY_INFORMATION,
            descriptor.as_ptr().cast_mut(),
        )
    })
    .map_err(naming("let the owner start and stop the service"))
}

/// The access to the service. The system, administrators and interactive users have the usual
/// rights, and the owner may query, start and stop it. Users logged on over a network may query it,
/// because commands about a task also ask whether there is a service.
fn access_of(owner: &User) -> io::Result<Descriptor> {
    Descriptor::of(&format!(
        "D:(A;;CCLCSWRPWPDTLOCRRC;;;SY)(A;;CCDCLCSWRPWPDTLOCRSDRCWDWO;;;BA)(A;;CCLCSWLOCRRC;;;IU)\
         (A;;CCLCSWLOCRRC;;;SU)(A;;CCLCRC;;;AU)(A;;CCLCSWRPWPLOCRRC;;;{owner})"
    ))
}

/// Makes the home and the directory of all homes, which is protected: otherwise everybody could
/// make a home in it.
fn make_home(site: &Site) -> io::Result<()> {
    const HOME_ACCESS: &str = "O:BAD:P(A;OICI;GA;;;SY)(A;OICI;GA;;;BA)";
    let account = &site.account;
    if let Some(homes) = site.home.parent() {
        make_dir(homes, HOME_ACCESS)?;
        access::check_unmovable(homes, Advice::Recreate)?;
    }
    make_dir(&site.home, &format!("{HOME_ACCESS}(A;OICI;GA;;;{account})"))?;
    paths::check_private_among(&site.home, std::slice::from_ref(account))
}

fn make_dir(path: &Path, access: &str) -> io::Result<()> {
    match access::make_dir_with(path, &Descriptor::of(access)?) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(naming(format!("make {}", path.display()))),
    }
}

fn connect(access: ServiceManagerAccess) -> io::Result<ServiceManager> {
    ServiceManager::local_computer(None::<&str>, access).map_err(service_error("install"))
}

fn open(access: ServiceAccess) -> io::Result<Option<Service>> {
    match connect(ServiceManagerAccess::CONNECT)?.open_service(NAME, access) {
        Ok(service) => Ok(Some(service)),
        Err(error) if code(&error) == Some(ERROR_SERVICE_DOES_NOT_EXIST) => Ok(None),
        Err(error) => Err(service_error("open")(error)),
    }
}

/// Stops the service and waits until it has stopped. Succeeds if it is stopped already. A starting
/// service cannot be stopped before it has started. The wait is as long as the service says that
/// its step may take.
fn stop_and_wait(service: &Service) -> io::Result<()> {
    let (mut step, mut since) = (None, Instant::now());
    while !is_down(service)? {
        let status = service.query_status().map_err(service_error("ask about"))?;
        if status.current_state == ServiceState::Running {
            request_stop(service)?;
        }
        let now = Some((status.current_state, status.checkpoint));
        if step != now {
            (step, since) = (now, Instant::now());
        }
        let wait = status.wait_hint.max(PENDING_MAX);
        if since.elapsed() > wait {
            let seconds = wait.as_secs();
            let words = format!("the service has been starting or stopping for {seconds} s");
            return Err(refusal(io::ErrorKind::TimedOut, words));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn is_down(service: &Service) -> io::Result<bool> {
    Ok(matches!(state(service)?, RunState::Stopped | RunState::Failed(_)))
}

fn request_stop(service: &Service) -> io::Result<()> {
    match service.stop() {
        // The service has stopped or begun to stop since the query.
        Err(error)
            if matches!(
                code(&error),
                Some(ERROR_SERVICE_NOT_ACTIVE | ERROR_SERVICE_CANNOT_ACCEPT_CTRL)
            ) =>
        {
            Ok(())
        }
        stopped => stopped.map(drop).map_err(service_error("stop")),
    }
}

fn code(error: &Error) -> Option<u32> {
    match error {
        Error::Winapi(error) => error.raw_os_error().map(i32::cast_unsigned),
        _ => None,
    }
}

fn not_installed() -> io::Error {
    refusal(io::ErrorKind::NotFound, "no service is installed")
}

/// Adds the likely cause to an access error of a start: the service's account may not run its
/// program.
fn start_error(error: Error, program: &Program) -> io::Error {
    if code(&error) != Some(ERROR_ACCESS_DENIED) {
        return service_error("start")(error);
    }
    refusal(
        io::ErrorKind::PermissionDenied,
        format!(
            "the account {ACCOUNT_NAME} may not run {}: copy the executables into a directory in \
             %ProgramFiles%, and install from there",
            program.file.display()
        ),
    )
}

/// The system's error as a sentence.
fn service_error(what: &str) -> impl FnOnce(Error) -> io::Error + use<> {
    let what = format!("{what} the service {NAME}");
    move |error| match (code(&error), error) {
        (Some(ERROR_ACCESS_DENIED), _) => refusal(
            io::ErrorKind::PermissionDenied,
            format!("{what}: only an administrator may do that: {ELEVATED}"),
        ),
        (Some(ERROR_SERVICE_MARKED_FOR_DELETE), _) => refusal(
            io::ErrorKind::ResourceBusy,
            format!(
                "{what}: the old one exists until the last window that shows it is closed; close \
                 services.msc and the Task Manager, and try again"
            ),
        ),
        (_, Error::Winapi(error)) => naming(what)(error),
        (_, error) => refusal(io::ErrorKind::Other, format!("{what}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::{
        Storage::FileSystem::READ_CONTROL,
        System::Services::{SERVICE_QUERY_CONFIG, SERVICE_QUERY_STATUS},
    };

    /// A user who is logged on over SSH, for example, is not interactive.
    #[test]
    fn network_logons_may_query_the_service() {
        let owner = User::of_sid("S-1-5-21-1-2-3-1001".to_owned());
        let allowed = access_of(&owner).unwrap().allowed();
        let authenticated = allowed.iter().find(|access| access.sid == "S-1-5-11");
        let rights = authenticated.map(|access| access.rights);
        assert_eq!(rights, Some(SERVICE_QUERY_CONFIG | SERVICE_QUERY_STATUS | READ_CONTROL));
    }

    #[test]
    fn failed_replacement_error_names_the_current_state() {
        let error = refusal(io::ErrorKind::PermissionDenied, "it may not run");
        let lost = || Err(refusal(io::ErrorKind::Other, "the disk is full"));
        let back = replacement_error(&error, r#""C:\old.exe" "up""#, Ok(()), Ok(()));
        assert_eq!(back.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(
            back.to_string(),
            r#"it may not run; the service is unchanged, and runs "C:\old.exe" "up""#
        );
        let said = replacement_error(&error, "old.exe", Ok(()), lost()).to_string();
        assert!(said.ends_with("with old.exe, but is stopped (the disk is full)"), "{said}");
        let said = replacement_error(&error, "old.exe", lost(), Ok(())).to_string();
        for word in ["it may not run", "old.exe", "the disk is full", "install again"] {
            assert!(said.contains(word), "{said}");
        }
    }
}
