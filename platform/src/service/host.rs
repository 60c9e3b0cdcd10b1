//! Windows: this process as a service started by the service manager, and the system's event log.

use std::{
    ffi::OsString,
    io,
    ptr::{null, null_mut},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use windows_service::{
    Error,
    service::{
        ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus,
        ServiceType,
    },
    service_control_handler::{self, ServiceControlHandlerResult, ServiceStatusHandle},
    service_dispatcher,
};
use windows_sys::Win32::System::EventLog::{
    DeregisterEventSource, EVENTLOG_ERROR_TYPE, EVENTLOG_INFORMATION_TYPE, RegisterEventSourceW,
    ReportEventW,
};

use super::{Body, NAME, Running};
use crate::{
    locked, naming, refusal, registry,
    security::wide,
    stop_signals::{self, Signal},
};

/// The time that the system waits for a start or a stop. After it, the system considers the service
/// hung.
const PENDING_TIMEOUT: Duration = Duration::from_secs(30);

/// The exit code of a failed service.
const FAILED: u32 = 1;

/// The registry key of this source of the system's log.
const SOURCE: &str = r"SYSTEM\CurrentControlSet\Services\EventLog\Application\agent-relay";

/// A file of messages that every Windows has. Its messages 1 to 1000 consist of the event's text.
const MESSAGES: &str = r"%SystemRoot%\System32\EventCreate.exe";

/// The types of events: information, warnings and errors.
const EVENT_TYPES: u32 = 7;

/// The service's body. Static, since the system calls a function without parameters to run it.
static BODY: Mutex<Option<Body>> = Mutex::new(None);
static STATUS: OnceLock<ServiceStatusHandle> = OnceLock::new();
static IS_STOPPING: AtomicBool = AtomicBool::new(false);

pub(super) fn run(body: Body) -> io::Result<()> {
    stop_signals::leave_console();
    *locked(&BODY) = Some(body);
    service_dispatcher::start(NAME, main).map_err(|error| {
        refusal(
            io::ErrorKind::Unsupported,
            format!(
                "only the service manager starts this ({}): `agent-relay service start` asks it to",
                sentence(error)
            ),
        )
    })
}

/// Registers the service as a source of the system's log.
pub(super) fn register_log() -> io::Result<()> {
    registry::set_text(SOURCE, "EventMessageFile", MESSAGES)
        .and_then(|()| registry::set_number(SOURCE, "TypesSupported", EVENT_TYPES))
        .map_err(naming("register with the event log"))
}

/// Removes the registration; returns false if there was none.
pub(super) fn unregister_log() -> io::Result<bool> {
    registry::remove(SOURCE).map_err(naming("take the service out of the event log"))
}

extern "system" fn main(_: u32, _: *mut *mut u16) {
    let Some(body) = locked(&BODY).take() else { return };
    match service_control_handler::register(NAME, control) {
        Ok(status) => drop(STATUS.set(status)),
        Err(error) => return Event::Failed.log(&sentence(error)),
    }
    report(ServiceState::StartPending, 0);
    let running = Running(Box::new(|| {
        report(ServiceState::Running, 0);
        Event::Started.log("Agent Relay is up.");
    }));
    let code = match body(&running) {
        Ok(()) => {
            Event::Stopped.log("Agent Relay is down.");
            0
        }
        Err(why) => {
            Event::Failed.log(&format!("Agent Relay failed: {why}"));
            FAILED
        }
    };
    report(ServiceState::Stopped, code);
}

fn control(control: ServiceControl) -> ServiceControlHandlerResult {
    match control {
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        ServiceControl::Stop | ServiceControl::Shutdown | ServiceControl::Preshutdown => {
            if !IS_STOPPING.swap(true, Ordering::SeqCst) {
                report(ServiceState::StopPending, 0);
                stop_signals::notify(Signal::Stop);
            }
            ServiceControlHandlerResult::NoError
        }
        _ => ServiceControlHandlerResult::NotImplemented,
    }
}

/// Reports a state. Stop requests are accepted only in the state `Running`, since before that
/// nothing would act on them.
fn report(state: ServiceState, code: u32) {
    let is_running = state == ServiceState::Running;
    let controls_accepted = if is_running {
        ServiceControlAccept::STOP
            | ServiceControlAccept::SHUTDOWN
            | ServiceControlAccept::PRESHUTDOWN
    } else {
        ServiceControlAccept::empty()
    };
    let is_pending = matches!(state, ServiceState::StartPending | ServiceState::StopPending);
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted,
        exit_code: match code {
            0 => ServiceExitCode::Win32(0),
            code => ServiceExitCode::ServiceSpecific(code),
        },
        checkpoint: u32::from(is_pending),
        wait_hint: if is_pending { PENDING_TIMEOUT } else { Duration::ZERO },
        process_id: None,
    };
    if let Some(handle) = STATUS.get()
        && let Err(error) = handle.set_service_status(status)
    {
        Event::Failed
            .log(&format!("The service manager could not be notified: {}", sentence(error)));
    }
}

/// The events of the system's log, with their ids.
#[derive(Clone, Copy)]
enum Event {
    Started = 1,
    Stopped = 2,
    Failed = 3,
}

impl Event {
    /// Writes the event with a text. Errors are ignored: the log in the home has the same text.
    fn log(self, words: &str) {
        let kind = match self {
            Self::Started | Self::Stopped => EVENTLOG_INFORMATION_TYPE,
            Self::Failed => EVENTLOG_ERROR_TYPE,
        };
        let (name, words) = (wide(NAME), wide(OsString::from(words.replace('\0', " "))));
        // SAFETY: the name ends with a zero; null means this machine.
        let source = unsafe { RegisterEventSourceW(null(), name.as_ptr()) };
        if source.is_null() {
            return;
        }
        let texts = [words.as_ptr()];
        // SAFETY: the source is open; one text, which ends with a zero, no user, and no bytes.
        unsafe {
            ReportEventW(source, kind, 0, self as u32, null_mut(), 1, 0, texts.as_ptr(), null());
            DeregisterEventSource(source);
        }
    }
}

/// Returns the text of an error of the library, or of the system's error inside it, which the
/// library's text omits.
fn sentence(error: Error) -> String {
    match error {
        Error::Winapi(error) => error.to_string(),
        error => error.to_string(),
    }
}
