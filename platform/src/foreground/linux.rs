//! Linux: the state of processes, from /proc.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStringExt as _,
        fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use super::{ARGUMENTS_BYTES_MAX, Executable, FileId};
use crate::refusal;

/// The size of the buffer for a stat file: some fifty numbers and a name of at most 64 bytes.
const STAT_BYTES_MAX: usize = 2048;
/// The suffix that the kernel appends to an executable's path after the file was removed.
const DELETED: &str = " (deleted)";

/// The addresses of the code, the stack, and the command line's begin and end, which tell program
/// images apart. The heap's address is left out, since an exec moves the heap after it has set the
/// command line.
pub(super) type Stamp = [u64; 4];

/// The start time, in the kernel's ticks.
pub(super) type Start = u64;

/// Always false, since [`members`] lists unreadable processes apart.
pub(super) const MEMBERS_MAY_BE_UNREADABLE: bool = false;
/// Always true: a fork has the addresses of its parent.
pub(super) const FORK_SHARES_STAMP: bool = true;

/// The image of this process. A child has the same image until it executes its command.
#[derive(Debug)]
pub(super) struct Spawner(Option<Stamp>);

impl Spawner {
    pub(super) fn this_process() -> Self {
        Self(ProcessState::read(std::process::id()).ok().map(|state| state.stamp))
    }

    /// Whether a process with a readable executable has not completed its exec.
    pub(super) fn is_before_exec(
        &self,
        state: &ProcessState,
        executable: Option<&Executable>,
        _arguments: Option<&Vec<OsString>>,
    ) -> bool {
        executable.is_some() && (state.is_in_exec() || self.0 == Some(state.stamp))
    }
}

/// The used fields of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessState {
    pid: u32,
    state: u8,
    parent: u32,
    group: u32,
    session: u32,
    /// The controlling terminal's device; 0 for none.
    terminal: u64,
    threads: u64,
    start: u64,
    stamp: Stamp,
}

impl ProcessState {
    pub(super) fn read(pid: u32) -> io::Result<Self> {
        let mut text = [0; STAT_BYTES_MAX];
        // A single read is enough, since the kernel provides the whole file at once.
        let read = File::open(proc(pid, "stat"))?.read(&mut text)?;
        let unknown = || refusal(io::ErrorKind::InvalidData, "/proc/PID/stat is not as documented");
        Self::parse(pid, &text[..read]).ok_or_else(unknown)
    }

    pub(super) fn start(&self) -> Start {
        self.start
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The parent's process id; 0 if there is none.
    pub(super) fn parent(&self) -> u32 {
        self.parent
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state == b'T'
    }

    pub(super) fn is_member(&self, group: u32, session: u32) -> bool {
        self.group == group && self.session == session && !self.has_ended()
    }

    /// Parses a stat file. The program's name in it may contain any character, so the name ends at
    /// the last parenthesis.
    fn parse(pid: u32, text: &[u8]) -> Option<Self> {
        let end = text.iter().rposition(|&byte| byte == b')')?;
        let text = std::str::from_utf8(text.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        // Fields are counted from 1 in proc(5), and the state is the third.
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |at: usize| field(at)?.parse::<u64>().ok();
        let id =
            |at: usize| field(at)?.parse::<i64>().ok().map(|id| u32::try_from(id).unwrap_or(0));
        Some(Self {
            pid,
            state: *field(3)?.as_bytes().first()?,
            parent: id(4)?,
            group: id(5)?,
            session: id(6)?,
            terminal: id(7)?.into(),
            threads: number(20)?,
            start: number(22)?,
            stamp: [number(26)?, number(28)?, number(48)?, number(49)?],
        })
    }

    /// Whether the terminal is standard input, or open for reading besides the standard streams.
    /// Standard output and error do not count: every child inherits them.
    pub(super) fn reads_terminal(&self) -> Option<bool> {
        if self.terminal == 0 {
            return None;
        }
        for entry in fs::read_dir(proc(self.pid, "fd")).ok()? {
            let link = entry.ok()?.path();
            let number: u32 = link.file_name()?.to_str()?.parse().ok()?;
            if !matches!(number, 1 | 2) && self.is_terminal(&link) && is_read(&link) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Whether a file is the process's terminal, by its own name or as /dev/tty. Only devices are
    /// examined, since examining a file on an unreachable server would block.
    fn is_terminal(&self, link: &Path) -> bool {
        let is_device =
            fs::read_link(link).is_ok_and(|target| target.to_string_lossy().contains("/dev/"));
        let is = |file: Metadata| {
            let device = file.rdev();
            let is_named = encoded(device) == self.terminal;
            file.file_type().is_char_device() && (is_named || device == libc::makedev(5, 0))
        };
        is_device && link.metadata().is_ok_and(is)
    }

    /// Whether the process is within an exec, during which an address is 0 for a moment.
    fn is_in_exec(&self) -> bool {
        self.stamp.contains(&0)
    }

    /// Whether the process has released its memory, as it does shortly before its end. The kernel
    /// shows 1, not 0, for an address that this process may not read.
    pub(super) fn has_no_memory(&self) -> bool {
        self.stamp[0] == 0 && self.threads <= 1
    }

    /// Whether the whole process has ended. The state alone does not tell: it is the same if only
    /// the first thread has ended.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }
}

fn proc(pid: u32, what: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{what}"))
}

/// The processes of the group in this session, sorted, and the ids of those in the group that this
/// process may not inspect.
pub(super) fn members(group: u32, session: u32) -> io::Result<(Vec<u32>, Vec<u32>)> {
    let (mut members, mut closed) = (Vec::new(), Vec::new());
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        match ProcessState::read(pid) {
            Ok(state) if state.is_member(group, session) => members.push(pid),
            Ok(_) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => closed.push(pid),
            Err(error) => return Err(error),
        }
    }
    closed.retain(|&pid| group_of(pid) == Some(group));
    members.sort_unstable();
    Ok((members, closed))
}

pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// The process group, from a system call, which also works if the mount option hidepid=1 hides the
/// process's files in /proc.
fn group_of(pid: u32) -> Option<u32> {
    // SAFETY: no pointers.
    u32::try_from(unsafe { libc::getpgid(pid as libc::pid_t) }).ok()
}

pub(super) fn file_id(path: &Path) -> io::Result<FileId> {
    path.metadata().map(|file| id(&file))
}

fn id(file: &Metadata) -> FileId {
    FileId { volume: file.dev(), file: file.ino().into() }
}

pub(super) fn executable(pid: u32) -> Option<Executable> {
    let link = proc(pid, "exe");
    let path = fs::read_link(&link).ok()?;
    let file = id(&link.metadata().ok()?);
    Some(Executable { path: without_deleted(path, file), file })
}

/// The path without the suffix that marks a removed file, unless the file really has that name.
fn without_deleted(path: PathBuf, file: FileId) -> PathBuf {
    let stripped = path.to_str().and_then(|path| path.strip_suffix(DELETED));
    match stripped {
        Some(stripped) if file_id(&path).ok() != Some(file) => PathBuf::from(stripped),
        _ => path,
    }
}

/// The command line; `None` where unreadable or empty, as it is for a moment within an exec.
pub(super) fn arguments(pid: u32) -> Option<Vec<OsString>> {
    let mut bytes = Vec::new();
    let file = File::open(proc(pid, "cmdline")).ok()?;
    file.take(ARGUMENTS_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    // The last argument may be cut at the limit; a complete one ends with a zero.
    let whole = match bytes.iter().rposition(|&byte| byte == 0) {
        Some(end) => &bytes[..end],
        None => &bytes[..],
    };
    let arguments =
        whole.split(|&byte| byte == 0).map(|argument| OsString::from_vec(argument.to_vec()));
    (!bytes.is_empty()).then(|| arguments.collect())
}

/// Whether the file is open for reading, by the mode of the link itself.
fn is_read(link: &Path) -> bool {
    link.symlink_metadata().is_ok_and(|link| link.mode() & 0o400 != 0)
}

pub(super) fn directory(pid: u32) -> Option<PathBuf> {
    fs::read_link(proc(pid, "cwd")).ok()
}

/// A device number in the encoding of /proc/PID/stat.
fn encoded(device: u64) -> u64 {
    let (major, minor) = (u64::from(libc::major(device)), u64::from(libc::minor(device)));
    (minor & 0xff) | major << 8 | (minor & !0xff) << 12
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_parentheses_and_spaces_in_the_name_is_parsed() {
        let numbers: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let text = format!("7 (a) R 1 (b\n) T {}\n", numbers.join(" "));
        let stat = ProcessState::parse(7, text.as_bytes()).unwrap();
        let expected = ProcessState {
            pid: 7,
            state: b'T',
            parent: 4,
            group: 5,
            session: 6,
            terminal: 7,
            threads: 20,
            start: 22,
            stamp: [26, 28, 48, 49],
        };
        assert_eq!(stat, expected);
        assert_eq!(ProcessState::parse(7, b"7 (a) T 1 2"), None);
        assert_eq!(ProcessState::parse(7, b""), None);
    }

    #[test]
    fn leader_thread_that_ended_is_not_the_end_of_its_process() {
        let of = |state: char, threads: u32| {
            let numbers: Vec<String> =
                (4..=52).map(|at| if at == 20 { threads } else { at }.to_string()).collect();
            ProcessState::parse(7, format!("7 (a) {state} {}", numbers.join(" ")).as_bytes())
                .unwrap()
        };
        assert!(of('Z', 1).has_ended() && of('X', 0).has_ended());
        assert!(!of('Z', 2).has_ended() && !of('S', 1).has_ended());
    }
}
