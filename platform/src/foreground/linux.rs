//! Linux: the foreground process group, as /proc shows it.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStringExt as _,
        fs::{FileTypeExt as _, MetadataExt as _},
    },
    path::{Path, PathBuf},
    thread,
};

use super::{
    ARGUMENTS_BYTES_MAX, Executable, FIRST_TRIES, FileId, PAUSE, PROCESSES_MAX, Process,
    memory::{CommandLine, Memory},
    too_many, unreadable,
};
use crate::{
    pty::{Pty, WeakPty},
    refusal,
};

/// The size of the buffer for a stat file: some fifty numbers and a name of at most 64 bytes.
const STAT_BYTES_MAX: usize = 2048;
/// The suffix of an executable's path after the file was removed.
const DELETED: &str = " (deleted)";

/// A program image in a process's memory; each exec makes another one. Without address
/// randomization, two images with command lines of equal length can be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    start: u64,
    file: Option<FileId>,
    stamp: Stamp,
}

/// The addresses of the code, the stack, and the command line's begin and end; 0 where they may not
/// be read. The heap's address is left out: an exec moves the heap after the command line is set.
type Stamp = [u64; 4];

/// The foreground group, and its leader's start time and image if the leader lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    group: u32,
    /// Needed because a program that the waiting leader started may change this.
    gathers_lines: Option<bool>,
    leader: Option<(u64, Stamp)>,
}

#[derive(Debug)]
pub(super) struct Observer {
    pty: WeakPty,
    /// The session that the command leads.
    session: u32,
    /// The stamp of this process: a child with the same stamp has not executed the command yet.
    own: Option<Stamp>,
    memory: Memory,
}

impl Observer {
    pub(super) fn new(pty: &Pty, _member_server: Option<Vec<OsString>>) -> Self {
        let session = pty.pid();
        let own = stat(std::process::id()).ok().map(|stat| stat.stamp);
        let mut observer = Self { pty: pty.downgrade(), session, own, memory: Memory::default() };
        for _ in 0..FIRST_TRIES {
            match observer.sight(session, session) {
                Sight::Changing => thread::sleep(PAUSE),
                // No look lists a process that has ended.
                Sight::Steady(_) | Sight::Gone => break,
            }
        }
        observer
    }

    pub(super) fn mark(&self) -> Option<Mark> {
        let group = self.group().ok()?;
        let gathers_lines = self.pty.upgrade().ok()?.gathers_lines();
        let leader = stat(group).ok().map(|stat| (stat.start, stat.stamp));
        Some(Mark { group, gathers_lines, leader })
    }

    fn group(&self) -> io::Result<u32> {
        let none = || refusal(io::ErrorKind::NotFound, "the terminal has no foreground group");
        self.pty.upgrade()?.foreground_group().ok_or_else(none)
    }

    /// Lists the foreground's processes; `None` if the foreground has changed meanwhile.
    pub(super) fn try_look(&mut self) -> io::Result<Option<Vec<Process>>> {
        let group = self.group()?;
        let (all, closed) = all_processes()?;
        let mut members: Vec<&Stat> = all.values().filter(|it| self.is_member(it, group)).collect();
        if members.len() > PROCESSES_MAX {
            return Err(too_many());
        }
        members.sort_by_key(|stat| stat.pid);
        let mut processes = Vec::with_capacity(members.len());
        for stat in members {
            match self.sight(stat.pid, group) {
                Sight::Steady(process) => processes.push(process),
                Sight::Gone => {}
                Sight::Changing => return Ok(None),
            }
        }
        let lives =
            |pid: u32, image: &Image| all.get(&pid).is_some_and(|it| it.start == image.start);
        self.memory.retain(&processes, lives);
        let closed = closed.into_iter().filter(|&pid| group_of(pid) == Some(group));
        processes.extend(closed.map(unreadable).take(PROCESSES_MAX));
        Ok((self.group()? == group).then_some(processes))
    }

    fn is_member(&self, stat: &Stat, group: u32) -> bool {
        stat.group == group && stat.session == self.session && !stat.has_ended()
    }

    /// Reads the facts of one process, valid only if its image is the same before and after.
    fn sight(&mut self, pid: u32, group: u32) -> Sight {
        let before = match stat(pid) {
            Ok(before) => before,
            Err(error) if is_gone(&error) => return Sight::Gone,
            Err(_) => return Sight::Changing,
        };
        if before.has_ended() {
            return Sight::Gone;
        }
        if !self.is_member(&before, group) {
            return Sight::Changing;
        }
        let executable = executable(pid);
        let file = executable.as_ref().map(|it| it.file);
        let image = Image { start: before.start, file, stamp: before.stamp };
        match file {
            Some(_) if before.is_in_exec() || self.own == Some(before.stamp) => {
                return Sight::Changing;
            }
            None if before.has_no_memory() => return Sight::Gone,
            _ => {}
        }
        let line = self.command_line(&before, &image);
        let reads_terminal = before.reads_terminal();
        let Ok(after) = stat(pid) else { return Sight::Changing };
        if (after.start, after.stamp) != (image.start, image.stamp) {
            return Sight::Changing;
        }
        self.memory.insert(pid, image, &line);
        Sight::Steady(Process {
            pid,
            parent: Some(after.parent).filter(|&parent| parent != 0),
            executable,
            arguments: line.arguments,
            directory: line.directory,
            is_stopped: after.state == b'T',
            reads_terminal,
        })
    }

    fn command_line(&self, stat: &Stat, image: &Image) -> CommandLine {
        if let Some(line) = self.memory.get(stat.pid, image) {
            return line.clone();
        }
        let arguments = arguments(stat.pid);
        if let Some(line) = self.inherited(stat, image, arguments.as_ref()) {
            return line;
        }
        CommandLine { arguments, directory: fs::read_link(proc(stat.pid, "cwd")).ok() }
    }

    /// The parent's command line, if the process is a fork of the parent: arguments that the parent
    /// has erased are erased in the fork as well. Without address randomization, equal stamps can
    /// be chance, so the current arguments are compared too.
    fn inherited(
        &self,
        stat: &Stat,
        image: &Image,
        now: Option<&Vec<OsString>>,
    ) -> Option<CommandLine> {
        let parent = self::stat(stat.parent).ok()?;
        let of_parent = Image { start: parent.start, ..image.clone() };
        let line = self.memory.get(parent.pid, &of_parent)?;
        let is_fork = parent.stamp == image.stamp && now == arguments(parent.pid).as_ref();
        is_fork.then(|| line.clone())
    }
}

/// The result of reading one process.
enum Sight {
    Steady(Process),
    Gone,
    Changing,
}

/// The used fields of /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
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

impl Stat {
    /// Parses a stat file. The name may contain any character, so it ends at the last parenthesis.
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

    /// Whether the terminal is standard input, or open for reading beside the standard streams.
    /// Standard output and error do not count: every child inherits them.
    fn reads_terminal(&self) -> Option<bool> {
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
    /// examined: a file on an unreachable server would block.
    fn is_terminal(&self, link: &Path) -> bool {
        let is_device = fs::read_link(link).is_ok_and(|it| it.to_string_lossy().contains("/dev/"));
        let is = |file: Metadata| {
            let device = file.rdev();
            let is_named = encoded(device) == self.terminal;
            file.file_type().is_char_device() && (is_named || device == libc::makedev(5, 0))
        };
        is_device && link.metadata().is_ok_and(is)
    }

    /// Whether the process is within an exec, when an address is 0 for a moment.
    fn is_in_exec(&self) -> bool {
        self.stamp.contains(&0)
    }

    /// Whether the process has released its memory, as it does shortly before its end. An address
    /// that may not be read is 1 instead.
    fn has_no_memory(&self) -> bool {
        self.stamp[0] == 0 && self.threads <= 1
    }

    /// Whether the whole process has ended. If only the first thread has, its state looks the same.
    fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }
}

fn proc(pid: u32, what: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{what}"))
}

fn stat(pid: u32) -> io::Result<Stat> {
    let mut text = [0; STAT_BYTES_MAX];
    // One read is enough: the system writes the file in one piece.
    let read = File::open(proc(pid, "stat"))?.read(&mut text)?;
    let unknown = || refusal(io::ErrorKind::InvalidData, "/proc/PID/stat is not as documented");
    Stat::parse(pid, &text[..read]).ok_or_else(unknown)
}

/// All readable processes, and the ids of those that this process may not inspect.
fn all_processes() -> io::Result<(HashMap<u32, Stat>, Vec<u32>)> {
    let (mut all, mut closed) = (HashMap::new(), Vec::new());
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        match stat(pid) {
            Ok(stat) => drop(all.insert(pid, stat)),
            Err(error) if is_gone(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => closed.push(pid),
            Err(error) => return Err(error),
        }
    }
    Ok((all, closed))
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// The process group by the system call, which also works where the mount option hidepid=1 hides
/// /proc.
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

fn executable(pid: u32) -> Option<Executable> {
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
fn arguments(pid: u32) -> Option<Vec<OsString>> {
    let mut bytes = Vec::new();
    let file = File::open(proc(pid, "cmdline")).ok()?;
    file.take(ARGUMENTS_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    // The last argument may be cut at the limit; a complete one ends with a zero.
    let whole = match bytes.iter().rposition(|&byte| byte == 0) {
        Some(end) => &bytes[..end],
        None => &bytes[..],
    };
    let arguments = whole.split(|&byte| byte == 0).map(|it| OsString::from_vec(it.to_vec()));
    (!bytes.is_empty()).then(|| arguments.collect())
}

/// Whether the file is open for reading, by the mode of the link itself.
fn is_read(link: &Path) -> bool {
    link.symlink_metadata().is_ok_and(|link| link.mode() & 0o400 != 0)
}

/// A device number in the encoding of /proc/PID/stat.
fn encoded(device: u64) -> u64 {
    let (major, minor) = (u64::from(libc::major(device)), u64::from(libc::minor(device)));
    (minor & 0xff) | major << 8 | (minor & !0xff) << 12
}

pub(super) fn serve_console_members() -> io::Result<()> {
    Err(super::no_member_server())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_parentheses_and_spaces_in_the_name_is_parsed() {
        let numbers: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let text = format!("7 (a) R 1 (b\n) T {}\n", numbers.join(" "));
        let stat = Stat::parse(7, text.as_bytes()).unwrap();
        let expected = Stat {
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
        assert_eq!(Stat::parse(7, b"7 (a) T 1 2"), None);
        assert_eq!(Stat::parse(7, b""), None);
    }

    #[test]
    fn leader_thread_that_ended_is_not_the_end_of_its_process() {
        let of = |state: char, threads: u32| {
            let numbers: Vec<String> =
                (4..=52).map(|at| if at == 20 { threads } else { at }.to_string()).collect();
            Stat::parse(7, format!("7 (a) {state} {}", numbers.join(" ")).as_bytes()).unwrap()
        };
        assert!(of('Z', 1).has_ended() && of('X', 0).has_ended());
        assert!(!of('Z', 2).has_ended() && !of('S', 1).has_ended());
    }
}
