//! Which call fails, how, and when: the cells of the table that is gone through.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

/// Calls that are made to fail, and how. A call of a killed daemon never happens.
const CALLS: [(&str, &[&str]); 13] = [
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

/// The store's, and what the daemon says. Each fails by itself: the n-th write to one of them is another
/// than the n-th write.
const FILES: [&str; 4] = ["home/relay.db", "home/relay.db-wal", "home/relay.db-journal", SAID];

/// Where errors go.
pub(super) const SAID: &str = "said";

/// What a daemon finds, and how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scene {
    /// Nothing is there, and the daemon is stopped.
    Fresh,
    /// A killed daemon's store is there, and the daemon is killed as well.
    Used,
}

/// How long a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Span {
    Once,
    /// From then on.
    Ever,
}

/// A fault: of this call, on this file or on anything, the n-th of each thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) scene: Scene,
    call: &'static str,
    file: Option<&'static str>,
    number: usize,
    error: &'static str,
    span: Span,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scene, call, file, number, error, span } = self;
        let file = file.unwrap_or("anything");
        write!(f, "{scene:?} {call} of {file}, number {number}: {error} {span:?}")
    }
}

impl Cell {
    /// What `strace` is told.
    pub(super) fn arguments(&self, sandbox: &Path) -> Vec<String> {
        let Self { call, error, .. } = self;
        let number = match self.span {
            Span::Once => self.number.to_string(),
            Span::Ever => format!("{}+", self.number),
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

    /// Whether a daemon that ends can't say why.
    pub(super) fn is_mute(&self) -> bool {
        self.call.starts_with("write")
    }
}

/// All calls, for `strace`.
pub(super) fn calls() -> String {
    CALLS.map(|(call, _)| call).join(",")
}

/// A cell for each call in a log of all calls.
pub(super) fn cells(scene: Scene, log: &str, sandbox: &Path) -> BTreeSet<Cell> {
    let mut counts = BTreeMap::<_, usize>::new();
    // What the loader and the libraries do, or in the same place another thread.
    let (mut found, mut foreign) = (BTreeSet::new(), BTreeSet::new());
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(char::is_whitespace) else { continue };
        let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
        let Some((call, _)) = CALLS.iter().find(|(call, _)| *call == name) else { continue };
        let mut next = |file| {
            let count = counts.entry((thread.to_owned(), *call, file)).or_default();
            *count += 1;
            *count
        };
        let any = (*call, None, next(None));
        let is_foreign = match *call {
            "openat" => !arguments.contains(&format!("\"{}", sandbox.display())),
            // A byte that wakes a thread of the process itself.
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
        .flat_map(|(call, file, number)| ways(scene, call, *file, *number))
        .collect()
}

/// Whether a call's arguments are about this file.
fn names(arguments: &str, file: &Path) -> bool {
    let file = file.display();
    [format!("<{file}>"), format!("\"{file}\"")].iter().any(|name| arguments.contains(name))
}

fn ways(
    scene: Scene,
    call: &'static str,
    file: Option<&'static str>,
    number: usize,
) -> impl Iterator<Item = Cell> {
    let errors =
        CALLS.iter().find(|(other, _)| *other == call).map_or(&[][..], |(_, errors)| errors);
    errors.iter().flat_map(move |error| {
        // A disk may fail for good. Whom nobody hears, or whose threads don't start, has no daemon.
        let is_disk = file.is_some() && *error != KILL;
        let spans = if is_disk { &[Span::Once, Span::Ever][..] } else { &[Span::Once] };
        spans.iter().map(move |span| Cell { scene, call, file, number, error, span: *span })
    })
}

#[test]
fn a_log_is_read() {
    let log = "\
7  openat(AT_FDCWD</x>, \"/lib/libc.so\", O_RDONLY) = 3\n\
7  openat(AT_FDCWD</x>, \"/t/home/relay.db\", O_RDWR) = 3</t/home/relay.db>\n\
8  pwrite64(6</t/home/relay.db-wal>, \"\\0\"..., 24, 4152 <unfinished ...>\n\
8  <... pwrite64 resumed>) = 24\n\
7  +++ exited with 0 +++\n";
    let cells: Vec<_> =
        cells(Scene::Fresh, log, Path::new("/t")).iter().map(ToString::to_string).collect();
    assert_eq!(
        cells.iter().filter(|cell| cell.contains("EIO Ever")).collect::<Vec<_>>(),
        [
            "Fresh openat of home/relay.db, number 1: EIO Ever",
            "Fresh pwrite64 of home/relay.db-wal, number 1: EIO Ever",
        ]
    );
    assert!(cells.iter().any(|cell| cell == "Fresh openat of anything, number 2: EMFILE Once"));
    assert!(!cells.iter().any(|cell| cell.starts_with("Fresh openat of anything, number 1")));
}
