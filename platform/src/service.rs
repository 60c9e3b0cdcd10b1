//! A program that the system starts by itself and watches over.
//!
//! For one user, under one name: a systemd user unit on Linux, a launchd agent on macOS; on Windows a service,
//! which an administrator installs and which runs under an account of its own for the one user whom it serves
//! (its [`Site`]), or a scheduled task of the user's own. Started with the system or at logon; started again
//! if it fails, not if it ends by itself. Whoever starts it by hand beside that is none of the system's
//! business, and none of this module's.

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
#[cfg(all(unix, not(target_os = "macos")))]
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
#[cfg(any(all(unix, not(target_os = "macos")), test))]
mod unit;
#[cfg(any(windows, test))]
mod xml;

#[cfg(unix)]
use elsewhere as accounts;
#[cfg(windows)]
use imp as accounts;
use std::{ffi::OsString, fmt, io, path::PathBuf};

use crate::{endpoint::Endpoint, peer::User};

/// The one name under which the system knows it.
pub const NAME: &str = "agent-relay";

/// The option after which a program that is installed for a [`Site`] says whom it serves.
pub const OWNER: &str = "--owner";

/// What is to be run: a program and its arguments, all of them UTF-8 and without line breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its absolute path.
    pub file: PathBuf,
    /// What comes after its name.
    pub arguments: Vec<OsString>,
}

/// Where a service that has an account of its own serves its one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Whom it serves.
    pub owner: User,
    /// As whom it runs.
    pub account: User,
    /// Where its files are, which are closed to the owner but for those that are made for him.
    pub home: PathBuf,
    /// Where it listens.
    pub endpoint: Endpoint,
}

/// What of the system's looks after the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A unit of the user's own systemd.
    Systemd,
    /// An agent of launchd's.
    Launchd,
    /// A service of Windows's.
    Service,
    /// A task of Windows's, at the user's logon.
    Task,
}

impl Kind {
    /// One word for it, as programs read it.
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

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Of which kind it is.
    pub kind: Kind,
    /// What says so: a file, a key of the registry, a task's path.
    pub definition: PathBuf,
    /// What it runs; `None` where somebody has written the definition anew, in a way of his own.
    pub program: Option<Program>,
    /// Whether it is started by itself.
    pub is_enabled: bool,
    /// What has become of it.
    pub state: State,
}

impl Installed {
    /// What the program is given after one of its options.
    #[must_use]
    pub fn after(&self, option: &str) -> Option<&str> {
        let mut words = self.program.as_ref()?.arguments.iter();
        words.find(|word| *word == option)?;
        words.next()?.to_str()
    }

    /// Whom it serves, where that is said: else the user whose it is.
    #[must_use]
    pub fn owner(&self) -> Option<User> {
        User::parse(self.after(OWNER)?).ok()
    }
}

/// What the system says of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs, as this process.
    Running(u32),
    /// It starts, or stops, at this moment.
    Changing,
    /// It was not started, or has ended by itself.
    Stopped,
    /// It failed; why, as far as the system says.
    Failed(String),
    /// The system doesn't say: only the program itself can.
    Unsaid,
}

/// Where a service for a user would be, by his name, or for this user. `None`: on this system it runs as the
/// user himself, and is where he is.
///
/// # Errors
/// `Unsupported` if this system has no services for other users; `NotFound` if it knows nobody of this name.
pub fn site(user: Option<&str>) -> io::Result<Option<Site>> {
    accounts::site(user)
}

/// Whether a service that [`site`] has a place for can be installed without one, to start at this user's
/// logon.
///
/// # Errors
/// `Unsupported` where that makes no difference.
pub fn check_logon() -> io::Result<()> {
    accounts::check_logon()
}

/// Whether that could be installed, as far as can be said before.
///
/// # Errors
/// `InvalidInput` where a path can't be written into a definition; `PermissionDenied` where that is for
/// administrators, or where others could change what runs; and what the system says, which may have none.
pub fn check_install(program: &Program, site: Option<&Site>) -> io::Result<()> {
    check(program)?;
    imp::check_install(program, site)
}

/// The directory in which this user could put something else in the place of what a [`Site`]'s service runs, and
/// so become its account; `None` where there is none, or no such account.
///
/// # Errors
/// If the system doesn't say who may change it.
pub fn replaceable_by(user: &User, program: &Program) -> io::Result<Option<PathBuf>> {
    accounts::replaceable_by(user, program)
}

/// Has the system start the program by itself from now on, and start it now: at a site, or as this user. What
/// was installed before is replaced, and ends; a service is as before where that fails, or the error says how it
/// is.
///
/// # Errors
/// As [`check_install`]'s; `NotFound` where the system has nothing of the kind; and what the system says.
pub fn install(program: &Program, site: Option<&Site>) -> io::Result<()> {
    check_install(program, site)?;
    imp::install(program, site)
}

/// Stops it, and takes all of it out of the system, also what is left where that was begun before; false where
/// there was nothing.
///
/// # Errors
/// What the system says.
pub fn uninstall() -> io::Result<bool> {
    imp::uninstall()
}

/// Starts what is installed; running already is success.
///
/// # Errors
/// What the system says.
pub fn start() -> io::Result<()> {
    imp::start()
}

/// Stops it until it is started again, or until the next logon. Stopped already is success. Where the system
/// doesn't say how it is ([`State::Unsaid`]) it is ended without being asked.
///
/// # Errors
/// What the system says.
pub fn stop() -> io::Result<()> {
    imp::stop()
}

/// What is installed, if anything is.
///
/// # Errors
/// If its definition can't be read, or the system doesn't say.
pub fn installed() -> io::Result<Option<Installed>> {
    imp::installed()
}

/// What is installed, if it runs as this user and the system says how it stands: never so on Windows, where a
/// service has an account of its own, and nothing is said of a task.
///
/// # Errors
/// As [`installed`]'s.
pub fn watched() -> io::Result<Option<Installed>> {
    accounts::watched()
}

/// How it is made to run without a logon, where the system has a way and it isn't so already, as a command.
#[must_use]
pub fn without_logon() -> Option<&'static str> {
    imp::without_logon()
}

/// Runs as what the system has installed at a site: `body` is the program. The system's wish to stop reaches
/// it as [`Signal::Stop`](crate::stop::Signal::Stop), and what it fails with, as a sentence, goes into the
/// system's log. Returns when it has ended.
///
/// # Errors
/// `Unsupported` where no service runs so; and if it was not the system that started this process.
pub fn run(body: impl FnOnce(&Running) -> Result<(), String> + Send + 'static) -> io::Result<()> {
    accounts::run(Box::new(body))
}

type Body = Box<dyn FnOnce(&Running) -> Result<(), String> + Send>;

/// A service that runs.
pub struct Running(Box<dyn Fn()>);

impl Running {
    /// Says that it can be used now.
    pub fn is_ready(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Running").finish_non_exhaustive()
    }
}

/// What has no place in a definition, which is lines or XML; and Windows puts variables into it.
fn is_odd(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{fffe}' | '\u{ffff}')
        || cfg!(windows) && character == '%'
}

/// Whether its words can be written down, and found again.
fn check(program: &Program) -> io::Result<()> {
    let words = std::iter::once(program.file.as_os_str())
        .chain(program.arguments.iter().map(OsString::as_os_str));
    for word in words {
        if word.to_str().is_none_or(|word| word.contains(is_odd)) {
            return Err(crate::refusal(
                io::ErrorKind::InvalidInput,
                format!(
                    "{} can't be part of a service: name it without odd characters",
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
        format!("{} is not an absolute path, which a service needs", program.file.display()),
    ))
}

/// The words of a program, of which [`check`] has said that they are text.
fn words(program: &Program) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    std::iter::once(program.file.to_string_lossy())
        .chain(program.arguments.iter().map(|argument| argument.to_string_lossy()))
}

/// The program of these words.
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
    fn a_definition_says_again_what_it_was_made_of() {
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
    fn a_task_that_the_scheduler_wrote_down_again_is_understood() {
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
    fn an_installed_program_says_whom_it_serves() {
        let me = User::me().unwrap().to_string();
        let installed = |words: &[&str]| Installed {
            kind: Kind::Service,
            definition: PathBuf::new(),
            program: Some(of(words)),
            is_enabled: true,
            state: State::Stopped,
        };
        assert_eq!(installed(&["/a", "run", OWNER, &me]).owner(), Some(User::me().unwrap()));
        for words in [&["/a", "run"][..], &["/a", OWNER], &["/a", OWNER, "nobody at all"]] {
            assert_eq!(installed(words).owner(), None, "{words:?}");
        }
    }

    #[test]
    fn what_no_definition_holds_is_refused() {
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
