//! Windows: this process as a service started by the service manager, and the system's event log.

use std::{
    ffi::OsString,
    io,
    os::windows::ffi::OsStringExt as _,
    ptr::{null, null_mut},
    slice,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU32, Ordering},
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

use super::{Body, Cause, NAME, PENDING_MAX, Running};
use crate::{
    locked, naming, refusal, registry,
    security::wide,
    stop_signals::{self, Signal},
};

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
/// The last state that was reported.
static REPORTED: Mutex<Option<ServiceState>> = Mutex::new(None);
/// The step of a start or stop that was reported last.
static STEP: AtomicU32 = AtomicU32::new(1);

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

extern "system" fn main(count: u32, words: *mut *mut u16) {
    // SAFETY: the system passes this number of texts, each of which ends with a zero.
    let cause = unsafe { arguments_of(count, words) }.get(1).and_then(cause_named);
    let Some(body) = locked(&BODY).take() else { return };
    match service_control_handler::register(NAME, control) {
        Ok(status) => drop(STATUS.set(status)),
        Err(error) => return Event::Failed.log(&sentence(error)),
    }
    report(ServiceState::StartPending, 0);
    let report_ready = Box::new(|| {
        report(ServiceState::Running, 0);
        Event::Started.log("Agent Relay is up.");
    });
    let report_progress = Box::new(report_progress);
    let cause = cause.unwrap_or(Cause::Other);
    let running = Running { cause, report_progress, report_ready };
    let code = match body(&running) {
        Ok(why) => {
            Event::Stopped.log(why);
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
            if report(ServiceState::StopPending, 0) {
                stop_signals::notify(Signal::Stop);
            }
            ServiceControlHandlerResult::NoError
        }
        _ => ServiceControlHandlerResult::NotImplemented,
    }
}

/// The arguments that [`main`] gets from the system: the service's name and those of the command
/// that started it.
///
/// # Safety
/// `words` points to `count` pointers to texts that end with a zero.
unsafe fn arguments_of(count: u32, words: *mut *mut u16) -> Vec<OsString> {
    if words.is_null() {
        return Vec::new();
    }
    // SAFETY: see above.
    let words = unsafe { slice::from_raw_parts(words, count as usize) };
    let text = |word: &*mut u16| {
        // SAFETY: see above.
        let length = (0..).take_while(|at| unsafe { *word.add(*at) } != 0).count();
        // SAFETY: see above.
        OsString::from_wide(unsafe { slice::from_raw_parts(*word, length) })
    };
    words.iter().map(text).collect()
}

/// The argument that states the cause of a command's start of the service.
pub(super) const fn argument(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Command => Some("command"),
        Cause::Cancel => Some("cancel"),
        Cause::Other => None,
    }
}

fn cause_named(said: &OsString) -> Option<Cause> {
    [Cause::Command, Cause::Cancel]
        .into_iter()
        .find(|cause| argument(*cause).is_some_and(|argument| said == argument))
}

/// The order of the states. A process reports each of them at most once.
fn rank(state: ServiceState) -> u8 {
    match state {
        ServiceState::StartPending => 1,
        ServiceState::Running => 2,
        ServiceState::StopPending => 3,
        ServiceState::Stopped => 4,
        _ => 0,
    }
}

/// Reports that the service still starts, unless it no longer does.
fn report_progress() {
    let reported = locked(&REPORTED);
    if *reported == Some(ServiceState::StartPending) {
        STEP.fetch_add(1, Ordering::Relaxed);
        notify(ServiceState::StartPending, 0);
    }
}

/// Reports a state, unless the same or a later one was reported: the system's thread reports that
/// the service stops, perhaps when it has stopped already. Returns whether the state is new.
fn report(state: ServiceState, code: u32) -> bool {
    let mut reported = locked(&REPORTED);
    let is_new = reported.is_none_or(|before| rank(before) < rank(state));
    if is_new {
        *reported = Some(state);
        notify(state, code);
    }
    is_new
}

/// Notifies the system of a state. Stop requests are accepted only in the state `Running`, since
/// before that nothing would act on them.
fn notify(state: ServiceState, code: u32) {
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
        checkpoint: if is_pending { STEP.load(Ordering::Relaxed) } else { 0 },
        wait_hint: if is_pending { PENDING_MAX } else { Duration::ZERO },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_state_is_reported_after_a_later_one() {
        use ServiceState::{Running, StartPending, StopPending, Stopped};
        let reports = [StartPending, Running, StopPending, Running, StopPending, Stopped];
        let new = reports.map(|state| report(state, 0));
        assert_eq!(new, [true, true, true, false, false, true]);
        assert!(!report(StopPending, 0), "the service has stopped");
    }

    #[test]
    fn causes_are_named_by_words() {
        for cause in [Cause::Command, Cause::Cancel] {
            assert_eq!(cause_named(&argument(cause).unwrap().into()), Some(cause));
        }
        assert_eq!(cause_named(&"anything".into()), None);
    }

    #[test]
    fn arguments_of_a_start_are_read() {
        let mut texts = [wide("agent-relay"), wide("cancel")];
        let mut words: Vec<_> = texts.iter_mut().map(|text| text.as_mut_ptr()).collect();
        // SAFETY: there are two texts, which end with a zero.
        let read = unsafe { arguments_of(2, words.as_mut_ptr()) };
        assert_eq!(read, ["agent-relay", "cancel"]);
        // SAFETY: there is no text.
        assert!(unsafe { arguments_of(0, null_mut()) }.is_empty());
    }
}
