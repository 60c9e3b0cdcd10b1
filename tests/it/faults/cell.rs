//! The cells of the table of faults: which call fails, how, and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

/// The system calls that fail, each with its errors. [`KILL`] kills the daemon at the call.
const SYSTEM_CALLS: [(&str, &[&str]); 13] = [
    ("openat", &["EIO", "ENOSPC", "EMFILE", KILL]),
    ("pwrite64", &["EIO", "ENOSPC", KILL]),
    ("write", &["EIO", "ENOSPC", KILL]),
    ("writev", &["EIO", "ENOSPC", KILL]),
    ("fsync", &["EIO", "ENOSPC", KILL]),
    ("fdatasync", &["EIO", "ENOSPC", KILL]),
    ("ftruncate", &["EIO", KILL]),
    ("rename", &["EIO", "ENOSPC", KILL]),
    ("unlink", &["EIO", KILL]),
    ("sendto", &["EIO", KILL]),
    ("sendmsg", &["EIO", KILL]),
    ("accept4", &["EMFILE", KILL]),
    ("clone3", &["EAGAIN", KILL]),
];

const KILL: &str = "KILL";

/// The files with separate counts of calls: the store's and the daemon's standard error.
const FILES: [&str; 4] = ["home/relay.db", "home/relay.db-wal", "home/relay.db-journal", STDERR];

/// The file for the daemon's standard error.
pub(super) const STDERR: &str = "stderr";

/// The state that a daemon finds at its start, and how the daemon is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setup {
    /// The store does not exist, and the daemon is stopped.
    Fresh,
    /// The store of a killed daemon is there, and the daemon is killed as well.
    Used,
}

/// The duration of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FailureSpan {
    Once,
    /// The call and all later ones fail.
    Permanent,
}

/// A failure of the n-th call of each thread, on one file or on any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) setup: Setup,
    call: &'static str,
    file: Option<&'static str>,
    number: usize,
    error: &'static str,
    span: FailureSpan,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setup, call, file, number, error, span } = self;
        let file = file.unwrap_or("anything");
        write!(f, "{setup:?} {call} of {file}, number {number}: {error} {span:?}")
    }
}

impl Cell {
    /// The arguments that make `strace` fail the call.
    pub(super) fn arguments(&self, sandbox: &Path) -> Vec<String> {
        let Self { call, error, .. } = self;
        let number = match self.span {
            FailureSpan::Once => self.number.to_string(),
            FailureSpan::Permanent => format!("{}+", self.number),
        };
        let what = if self.is_kill() { "signal" } else { "error" };
        let mut arguments = vec!["-e".to_owned(), format!("trace={call}")];
        arguments.extend(["-e".to_owned(), format!("inject={call}:{what}={error}:when={number}")]);
        if let Some(file) = self.file {
            arguments.extend(["-P".to_owned(), sandbox.join(file).display().to_string()]);
        }
        arguments
    }

    pub(super) fn is_kill(&self) -> bool {
        self.error == KILL
    }

    pub(super) fn is_sync_of_log(&self) -> bool {
        matches!(self.call, "fsync" | "fdatasync") && self.file == Some("home/relay.db-wal")
    }

    /// Reports whether the failed call may be the one that prints why the daemon ended.
    pub(super) fn hides_stderr(&self) -> bool {
        self.call.starts_with("write")
    }
}

/// The names of all system calls, as an argument of `strace`.
pub(super) fn calls() -> String {
    SYSTEM_CALLS.map(|(call, _)| call).join(",")
}

/// The cells for all calls in the log of a run without faults.
pub(super) fn cells(setup: Setup, log: &str, sandbox: &Path) -> BTreeSet<Cell> {
    let mut counts = BTreeMap::<_, usize>::new();
    // Foreign calls are those of the loader and of libraries. A number that is foreign in one
    // thread is skipped in all threads.
    let (mut found, mut foreign) = (BTreeSet::new(), BTreeSet::new());
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
        let Some((call, _)) = SYSTEM_CALLS.iter().find(|(call, _)| *call == name) else { continue };
        let mut next = |file| {
            let count = counts.entry((thread.to_owned(), *call, file)).or_default();
            *count += 1;
            *count
        };
        let any = (*call, None, next(None));
        let is_foreign = match *call {
            "openat" => !arguments.contains(&format!("\"{}", sandbox.display())),
            // Sends a byte that wakes a thread of the same process.
            "sendto" => arguments.contains(", 1, MSG_DONTWAIT, "),
            _ => false,
        };
        if is_foreign {
            foreign.insert(any);
            continue;
        }
        found.insert(any);
        if let Some(file) = FILES.into_iter().find(|file| names(arguments, &sandbox.join(file))) {
            found.insert((*call, Some(file), next(Some(file))));
        }
    }
    found
        .difference(&foreign)
        .flat_map(|(call, file, number)| cells_of_call(setup, call, *file, *number))
        .collect()
}

/// Reports whether a call's arguments name the file.
fn names(arguments: &str, file: &Path) -> bool {
    let file = file.display();
    [format!("<{file}>"), format!("\"{file}\"")].iter().any(|name| arguments.contains(name))
}

fn cells_of_call(
    setup: Setup,
    call: &'static str,
    file: Option<&'static str>,
    number: usize,
) -> impl Iterator<Item = Cell> {
    let errors =
        SYSTEM_CALLS.iter().find(|(other, _)| *other == call).map_or(&[][..], |(_, errors)| errors);
    errors.iter().flat_map(move |error| {
        // A disk may fail permanently. Other calls fail once: otherwise there would be no daemon
        // to test.
        let is_disk = file.is_some() && *error != KILL;
        let spans = if is_disk {
            &[FailureSpan::Once, FailureSpan::Permanent][..]
        } else {
            &[FailureSpan::Once]
        };
        spans.iter().map(move |span| Cell { setup, call, file, number, error, span: *span })
    })
}

#[test]
fn strace_log_is_parsed() {
    let log = "\
7  openat(AT_FDCWD</x>, \"/lib/libc.so\", O_RDONLY) = 3\n\
7  openat(AT_FDCWD</x>, \"/t/home/relay.db\", O_RDWR) = 3</t/home/relay.db>\n\
8  pwrite64(6</t/home/relay.db-wal>, \"\\0\"..., 24, 4152 <unfinished ...>\n\
8  <... pwrite64 resumed>) = 24\n\
7  +++ exited with 0 +++\n";
    let cells: Vec<_> =
        cells(Setup::Fresh, log, Path::new("/t")).iter().map(ToString::to_string).collect();
    assert_eq!(
        cells.iter().filter(|cell| cell.contains("EIO Permanent")).collect::<Vec<_>>(),
        [
            "Fresh openat of home/relay.db, number 1: EIO Permanent",
            "Fresh pwrite64 of home/relay.db-wal, number 1: EIO Permanent",
        ]
    );
    assert!(cells.iter().any(|cell| cell == "Fresh openat of anything, number 2: EMFILE Once"));
    assert!(!cells.iter().any(|cell| cell.starts_with("Fresh openat of anything, number 1")));
}
