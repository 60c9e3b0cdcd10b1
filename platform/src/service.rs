//! A service: a program that the system starts by itself and supervises.
//!
//! A service belongs to one user and has a fixed name. On Linux, it is a systemd user unit; on
//! macOS, a launchd agent. On Windows, it is a Windows service, which an administrator installs and
//! which runs under its own account for one user (see [`Site`]), or a scheduled task of the user.
//!
//! The system starts the program at boot or at logon, and again if the program fails, but not if it
//! ends by itself. This module does not cover a program that a person starts.

mod command;
#[cfg(any(windows, test))]
mod command_line;
#[cfg(unix)]
mod definition;
#[cfg(unix)]
mod elsewhere;
#[cfg(windows)]
mod host;
#[cfg(target_os = "macos")]
#[path = "service/launchd.rs"]
mod imp;
#[cfg(target_os = "linux")]
#[path = "service/systemd.rs"]
mod imp;
#[cfg(windows)]
#[path = "service/windows.rs"]
mod imp;
#[cfg(any(target_os = "macos", test))]
mod launch_agent;
#[cfg(any(target_os = "macos", test))]
mod launchctl;
#[cfg(windows)]
mod schedule;
#[cfg(windows)]
mod scm;
#[cfg(any(windows, test))]
mod task;
#[cfg(any(target_os = "linux", test))]
mod unit;
#[cfg(any(windows, test))]
mod xml;

#[cfg(unix)]
use elsewhere as accounts;
#[cfg(windows)]
use imp as accounts;
use std::{ffi::OsString, fmt, io, path::PathBuf, time::Duration};

use crate::{endpoint::Endpoint, peer::User};

/// The service's name in the system.
pub const NAME: &str = "agent-relay";

/// The option that names the owner to a program installed for a [`Site`].
pub const OWNER: &str = "--owner";

/// The time that the system waits for a service's start or stop. After it, the system considers the
/// service hung.
pub const PENDING_MAX: Duration = Duration::from_secs(30);

/// The longest delay before the system restarts a failed service of a [`Site`].
pub const RESTART_MAX: Duration = Duration::from_secs(60);

/// A program and its arguments to run as a service, all of them UTF-8 and without line breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The absolute path.
    pub file: PathBuf,
    /// The arguments, without the program's name.
    pub arguments: Vec<OsString>,
}

/// The parameters of a service that runs under its own account for one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The user that the service serves.
    pub owner: User,
    /// The account that the service runs as.
    pub account: User,
    /// The directory of the service's files. The owner can read only those made for the owner.
    pub home: PathBuf,
    /// The endpoint that the daemon listens at.
    pub endpoint: Endpoint,
}

/// The system's component that supervises the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A unit of the user's systemd.
    Systemd,
    /// An agent of launchd.
    Launchd,
    /// A Windows service.
    Service,
    /// A task of Windows's Task Scheduler, started at the user's logon.
    Task,
}

impl Kind {
    /// The kind as one word for programs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Launchd => "launchd",
            Self::Service => "service",
            Self::Task => "task",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Systemd => "systemd user unit",
            Self::Launchd => "launchd agent",
            Self::Service => "Windows service",
            Self::Task => "scheduled task",
        })
    }
}

/// An installed service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The component of the system that supervises the service.
    pub kind: Kind,
    /// The location of the service's definition: a file, a registry key, or a task's path.
    pub definition: PathBuf,
    /// The program that the service runs; `None` if a person has changed the definition to a form
    /// that this module cannot read.
    pub program: Option<Program>,
    /// Whether the system starts the service by itself.
    pub is_enabled: bool,
    /// The state that the system reports.
    pub state: RunState,
}

impl Installed {
    /// The argument that follows `option` in the program's arguments.
    #[must_use]
    pub fn after(&self, option: &str) -> Option<&str> {
        let mut words = self.program.as_ref()?.arguments.iter();
        words.find(|word| *word == option)?;
        words.next()?.to_str()
    }

    /// The user that the service serves, if its arguments name one. Otherwise the service serves
    /// the user that it runs as.
    #[must_use]
    pub fn owner(&self) -> Option<User> {
        User::parse(self.after(OWNER)?).ok()
    }
}

/// The state of a service, as the system reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Running, with this process id.
    Running(u32),
    /// Starting or stopping at the moment.
    Changing,
    /// Not started, or ended by itself.
    Stopped,
    /// Failed, with the reason as far as the system gives one.
    Failed(String),
    /// Not reported by the system. Only the program itself can tell its state.
    Unknown,
}

/// The site of a service for the user of this name, or for this user. `None` on systems where the
/// service runs as the user.
///
/// # Errors
/// `Unsupported` if this system has no services for other users; `NotFound` if the system knows no
/// user of this name.
pub fn site(user: Option<&str>) -> io::Result<Option<Site>> {
    accounts::site(user)
}

/// Checks that this system offers both a service with a [`site`] and, without a site, a start at
/// this user's logon.
///
/// # Errors
/// `Unsupported` where the system offers only one of the two.
pub fn check_logon() -> io::Result<()> {
    accounts::check_logon()
}

/// Checks that the program can be installed, as far as that is known without installing it.
///
/// # Errors
/// `InvalidInput` if a path cannot be written into a definition; `PermissionDenied` if only
/// administrators may install, or if others could change the program; and the system's errors.
pub fn check_install(program: &Program, site: Option<&Site>) -> io::Result<()> {
    check(program)?;
    imp::check_install(program, site)
}

/// A directory where `user` could replace the program of a [`Site`]'s service, and so act as the
/// service's account. `None` if there is no such directory, or if services have no account of their
/// own on this system.
///
/// # Errors
/// If the system does not report who may change a directory.
pub fn replaceable_by(user: &User, program: &Program) -> io::Result<Option<PathBuf>> {
    accounts::replaceable_by(user, program)
}

/// Installs the program at a site, or as this user, and starts it. An installed program is stopped
/// and replaced. If that fails, the earlier service is restored, or the error describes its state.
///
/// # Errors
/// As [`check_install`]; `NotFound` if the system lacks the component that supervises services; and
/// the system's errors.
pub fn install(program: &Program, site: Option<&Site>) -> io::Result<()> {
    check_install(program, site)?;
    imp::install(program, site)
}

/// Stops the service and removes it from the system, including what an incomplete removal has left.
/// Returns false if nothing was installed.
///
/// # Errors
/// The system's errors.
pub fn uninstall() -> io::Result<bool> {
    imp::uninstall()
}

/// Starts the installed service. Succeeds if it is running already.
///
/// # Errors
/// The system's errors.
pub fn start() -> io::Result<()> {
    imp::start()
}

/// Stops the service until it is started again, or until the next logon. Succeeds if the service is
/// stopped already. A failed service of a [`Site`] is started with [`Cause::Cancel`], since the
/// system would start it again later; if it cannot be started at all, neither can the system start
/// it. If the system does not report the service's state ([`RunState::Unknown`]), the process is
/// killed.
///
/// # Errors
/// The system's errors.
pub fn stop() -> io::Result<()> {
    imp::stop()
}

/// The installed service, if there is one.
///
/// # Errors
/// If the service's definition cannot be read, or the system does not report whether there is one.
pub fn installed() -> io::Result<Option<Installed>> {
    imp::installed()
}

/// The installed service, if it runs as this user and the system reports its state. Always `None`
/// on Windows: a Windows service has its own account, and a task's state is not reported.
///
/// # Errors
/// As [`installed`].
pub fn watched() -> io::Result<Option<Installed>> {
    accounts::watched()
}

/// The command that makes the service run without a logon. `None` if it does so already, or if the
/// system has no such command.
#[must_use]
pub fn without_logon() -> Option<&'static str> {
    imp::without_logon()
}

/// Runs `body` as the service that is installed at a site. A stop request of the system reaches
/// `body` as [`Signal::Stop`](crate::stop_signals::Signal::Stop). The result of `body` goes into
/// the system's log, as the reason for the service's end or as its failure. Returns when the
/// service has ended.
///
/// # Errors
/// `Unsupported` on systems without sites; and if the system did not start this process.
pub fn run(
    body: impl FnOnce(&Running) -> Result<&'static str, String> + Send + 'static,
) -> io::Result<()> {
    accounts::run(Box::new(body))
}

type Body = Box<dyn FnOnce(&Running) -> Result<&'static str, String> + Send>;

/// The cause of a service's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// [`start`] or [`install`].
    Command,
    /// [`stop`] of a failed service: the service is to end at once, and to end at once again when
    /// the system starts it because of the failure.
    Cancel,
    /// The system, or another program.
    Other,
}

/// A running service.
pub struct Running {
    cause: Cause,
    report_progress: Box<dyn Fn()>,
    report_ready: Box<dyn Fn()>,
}

impl Running {
    /// The cause of the service's start.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Reports the progress of a long start: the system waits for [`PENDING_MAX`] again.
    pub fn report_progress(&self) {
        (self.report_progress)();
    }

    /// Reports that the service is ready for use.
    pub fn report_ready(&self) {
        (self.report_ready)();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("cause", &self.cause).finish_non_exhaustive()
    }
}

/// Whether a definition cannot hold the character. A definition consists of lines or is XML, and
/// Windows expands `%` in it.
fn is_unwritable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{fffe}' | '\u{ffff}')
        || cfg!(windows) && character == '%'
}

/// Checks that the program's file and arguments can be written into a definition and read back.
fn check(program: &Program) -> io::Result<()> {
    let words = std::iter::once(program.file.as_os_str())
        .chain(program.arguments.iter().map(OsString::as_os_str));
    for word in words {
        if word.to_str().is_none_or(|word| word.contains(is_unwritable)) {
            return Err(crate::refusal(
                io::ErrorKind::InvalidInput,
                format!(
                    "{} cannot be part of a service definition: avoid line breaks and other special characters",
                    word.display()
                ),
            ));
        }
    }
    if program.file.is_absolute() {
        return Ok(());
    }
    Err(crate::refusal(
        io::ErrorKind::InvalidInput,
        format!("{} is not an absolute path: a service needs one", program.file.display()),
    ))
}

/// The program's file and arguments as text. [`check`] has verified that they are UTF-8.
fn words(program: &Program) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    std::iter::once(program.file.to_string_lossy())
        .chain(program.arguments.iter().map(|argument| argument.to_string_lossy()))
}

/// The program that consists of these words.
fn program(words: Vec<String>) -> Option<Program> {
    let mut words = words.into_iter();
    let file = PathBuf::from(words.next()?);
    Some(Program { file, arguments: words.map(OsString::from).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Program {
        program(words.iter().map(|&word| word.to_owned()).collect()).unwrap()
    }

    #[test]
    fn definition_reads_back_its_program() {
        for words in [
            &["/usr/bin/agent-relay", "up", "--foreground"][..],
            &["/home/J Doe/50 % off/$HOME/agent-relay", "--home", "/a \"b\" 'c' \\ d", "", "<&>"],
            &["/opt/日本/agent-relay", "-x=${Y}", ";", "#", "%h", "]]>", "&amp;"],
        ] {
            let program = of(words);
            assert_eq!(unit::read(&unit::write(&program)).as_ref(), Some(&program));
            assert_eq!(launch_agent::read(&launch_agent::write(&program)).as_ref(), Some(&program));
            assert_eq!(task::read(&task::write(&program, "S-1-5-21-1")).as_ref(), Some(&program));
        }
        assert_eq!(unit::read("[Service]\nExecStart=/bin/true\n"), None);
        assert_eq!(launch_agent::read("<plist></plist>"), None);
        assert_eq!(task::read("<Task></Task>"), None);
    }

    #[test]
    fn task_rewritten_by_the_scheduler_is_read() {
        let task = "<Task><Triggers><LogonTrigger><UserId>S-1</UserId></LogonTrigger></Triggers>\r\n\
                    <Settings><Hidden>true</Hidden></Settings><Actions Context=\"Author\"><Exec>\r\n\
                    <Command>\"C:\\a &amp; b.exe\"</Command>\r\n<Arguments>up -x \"y z\"</Arguments>\
                    </Exec></Actions></Task>";
        assert_eq!(task::read(task), Some(of(&["C:\\a & b.exe", "up", "-x", "y z"])));
        assert!(task::is_enabled(task));
        let off = task.replace("<Hidden>true</Hidden>", "<Enabled>false</Enabled>");
        assert!(!task::is_enabled(&off));
        assert!(task::is_enabled(&task::write(&of(&["/a"]), "S-1-5-21-1")));
    }

    #[test]
    fn installed_program_names_its_owner() {
        let me = User::me().unwrap().to_string();
        let installed = |words: &[&str]| Installed {
            kind: Kind::Service,
            definition: PathBuf::new(),
            program: Some(of(words)),
            is_enabled: true,
            state: RunState::Stopped,
        };
        assert_eq!(installed(&["/a", "run", OWNER, &me]).owner(), Some(User::me().unwrap()));
        for words in [&["/a", "run"][..], &["/a", OWNER], &["/a", OWNER, "nobody at all"]] {
            assert_eq!(installed(words).owner(), None, "{words:?}");
        }
    }

    #[test]
    fn unwritable_words_are_refused() {
        let file = std::env::current_exe().unwrap();
        check(&Program { file, arguments: vec!["--home".into(), "日本 \"x\"".into()] }).unwrap();
        for words in [
            &["/bin/a\nExecStart=/bin/b"][..],
            &["/bin/a", "b\u{7}"],
            &["/bin/a", "\u{ffff}"],
            &["a"],
        ] {
            let error = check(&of(words)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{words:?}");
        }
    }
}
