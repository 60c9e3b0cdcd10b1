//! A program that the system starts by itself and watches over.
//!
//! One for each user, under one name: a systemd user unit on Linux, a launchd agent on macOS. Started at
//! logon; started again if it fails, not if it ends by itself. Whoever starts it by hand beside that is none
//! of the system's business, and none of this module's.

mod command;
#[cfg(target_os = "macos")]
#[path = "service/launchd.rs"]
mod imp;
#[cfg(all(unix, not(target_os = "macos")))]
#[path = "service/systemd.rs"]
mod imp;
#[cfg(any(target_os = "macos", test))]
mod plist;
#[cfg(any(all(unix, not(target_os = "macos")), test))]
mod unit;

use std::{ffi::OsString, fmt, io, path::PathBuf};

/// The one name under which the system knows it.
pub const NAME: &str = "agent-relay";

/// What is to be run: a program and its arguments, all of them UTF-8 and without line breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its absolute path.
    pub file: PathBuf,
    /// What comes after its name.
    pub arguments: Vec<OsString>,
}

/// What of the system's looks after the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A unit of the user's own systemd.
    Systemd,
    /// An agent of launchd's.
    Launchd,
}

impl Kind {
    /// One word for it, as programs read it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Launchd => "launchd",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Systemd => "systemd user unit",
            Self::Launchd => "launchd agent",
        })
    }
}

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// Of which kind it is.
    pub kind: Kind,
    /// The file that says so.
    pub definition: PathBuf,
    /// What it runs; `None` where somebody has written the definition anew, in a way of his own.
    pub program: Option<Program>,
    /// Whether it is started at logon.
    pub is_enabled: bool,
    /// What has become of it.
    pub state: State,
}

/// What the system says of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs, as this process.
    Running(u32),
    /// It was not started, or has ended by itself.
    Stopped,
    /// It failed, and is not started again; why, as far as the system says.
    Failed(String),
}

/// Has the system start the program at each logon from now on, and start it now. What was installed before
/// is replaced, and ends. Gives back the file that says so.
///
/// # Errors
/// `InvalidInput` where a path can't be written into a definition; `NotFound` where the system has nothing
/// of the kind; and what the system says.
pub fn install(program: &Program) -> io::Result<PathBuf> {
    check(program)?;
    imp::install(program)
}

/// Stops it, and takes all of it out of the system; false where there was nothing.
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

/// Stops it until it is started again, or until the next logon. Stopped already is success.
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

/// How it is made to run without a logon, where the system has a way, as a command.
#[must_use]
pub fn without_logon() -> Option<&'static str> {
    imp::WITHOUT_LOGON
}

/// A definition is text of lines.
fn check(program: &Program) -> io::Result<()> {
    let words = std::iter::once(program.file.as_os_str())
        .chain(program.arguments.iter().map(OsString::as_os_str));
    for word in words {
        if word.to_str().is_none_or(|word| word.contains(char::is_control)) {
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
            check(&program).unwrap();
            assert_eq!(unit::read(&unit::write(&program)).as_ref(), Some(&program));
            assert_eq!(plist::read(&plist::write(&program)).as_ref(), Some(&program));
        }
        assert_eq!(unit::read("[Service]\nExecStart=/bin/true\n"), None);
        assert_eq!(plist::read("<plist></plist>"), None);
    }

    #[test]
    fn what_no_definition_holds_is_refused() {
        for words in [&["/bin/a\nExecStart=/bin/b"][..], &["/bin/a", "b\u{7}"], &["a"]] {
            let error = check(&of(words)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{words:?}");
        }
    }
}
