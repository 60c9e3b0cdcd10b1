//! macOS: the state of processes, from libproc.

use std::{
    ffi::{OsString, c_char, c_int, c_void},
    io,
    mem::{MaybeUninit, zeroed},
    os::unix::{ffi::OsStringExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    ptr::null_mut,
};

use super::{ARGUMENTS_BYTES_MAX, Executable, FileId, PROCESSES_MAX};

// Constants of <sys/proc_info.h> that the crate libc lacks.
const PROC_PGRP_ONLY: u32 = 2;
const PROC_PIDFDVNODEPATHINFO: c_int = 2;
/// From <sys/proc_info_private.h>: the only call that notices an exec of the same file.
const PROC_PIDUNIQIDENTIFIERINFO: c_int = 17;
/// From <sys/fcntl.h>: the file is open for reading.
const FREAD: u32 = 1;
/// The device numbers of a process without a controlling terminal: 0 or NODEV.
const NO_TERMINAL: [u32; 2] = [0, u32::MAX];
/// The most open files of a process that are examined.
const FILES_MAX: usize = 4096;
/// The most bytes of a process's command line and environment.
const PROCARGS_BYTES_MAX: usize = 1024 * 1024;

/// `proc_uniqidentifierinfo`, which the crate libc lacks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UniqueIdentifier {
    uuid: [u8; 16],
    unique: u64,
    parent: u64,
    version: i32,
    parent_version: i32,
    reserved: [u64; 2],
}

/// `vnode_fdinfowithpath` with its `proc_fileinfo`, which the crate libc lacks.
#[repr(C)]
struct OpenFile {
    flags: u32,
    status: u32,
    offset: i64,
    kind: i32,
    guard: u32,
    vnode: libc::vnode_info_path,
}

/// A program image in a process's memory: the executable's UUID, a unique number of the process,
/// and the number of its execs. Zeros where the system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    uuid: [u8; 16],
    unique: u64,
    version: i32,
}

/// The start time, in seconds and microseconds.
pub(super) type Start = u64;

/// Always true: a member of the group may be another user's process, for example below sudo, and
/// unreadable.
pub(super) const MEMBERS_MAY_BE_UNREADABLE: bool = true;
/// Always false: a fork has a stamp of its own.
pub(super) const FORK_SHARES_STAMP: bool = false;

/// The executable and the arguments of this process. A child has the same until it executes its
/// command.
#[derive(Debug)]
pub(super) struct Spawner {
    executable: Option<Executable>,
    arguments: Option<Vec<OsString>>,
}

impl Spawner {
    pub(super) fn this_process() -> Self {
        let pid = std::process::id();
        Self { executable: executable(pid), arguments: arguments(pid) }
    }

    /// Whether a process has not executed its command yet.
    pub(super) fn is_before_exec(
        &self,
        _state: &ProcessState,
        executable: Option<&Executable>,
        arguments: Option<&Vec<OsString>>,
    ) -> bool {
        (executable, arguments) == (self.executable.as_ref(), self.arguments.as_ref())
    }
}

/// The state of a process at one moment.
pub(super) struct ProcessState {
    basics: libc::proc_bsdinfo,
    stamp: Stamp,
}

impl ProcessState {
    pub(super) fn read(pid: u32) -> io::Result<Self> {
        let basics = basics(pid).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { basics, stamp: stamp(pid) })
    }

    pub(super) fn start(&self) -> Start {
        self.basics.pbi_start_tvsec * 1_000_000 + self.basics.pbi_start_tvusec
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The parent's process id; 0 if there is none.
    pub(super) fn parent(&self) -> u32 {
        self.basics.pbi_ppid
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.basics.pbi_status == libc::SSTOP
    }

    pub(super) fn is_member(&self, group: u32, _session: u32) -> bool {
        self.basics.pbi_pgid == group
    }

    pub(super) fn has_ended(&self) -> bool {
        self.basics.pbi_status == libc::SZOMB
    }

    /// Always false: libproc does not show a process that has released its memory.
    pub(super) fn has_no_memory(&self) -> bool {
        false
    }

    /// Whether the terminal is standard input, or open for reading besides the standard streams.
    /// Standard output and error do not count: every child inherits them.
    pub(super) fn reads_terminal(&self) -> Option<bool> {
        let (pid, terminal) = (self.basics.pbi_pid, self.basics.e_tdev);
        let files = files(pid).filter(|_| !NO_TERMINAL.contains(&terminal))?;
        let reads = |file: &libc::proc_fdinfo| {
            !matches!(file.proc_fd, 1 | 2) && is_read_terminal(pid, file.proc_fd, terminal)
        };
        let reads = files.iter().any(reads);
        (reads || files.len() < FILES_MAX).then_some(reads)
    }
}

pub(super) fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// A structure of the system with information about a process. `what` is its kind.
///
/// # Safety
/// Any bytes have to be a valid `T`.
unsafe fn info<T>(pid: u32, what: c_int) -> Option<T> {
    let (mut value, bytes) = (MaybeUninit::<T>::uninit(), size_of::<T>() as c_int);
    // SAFETY: the pointer and the length are those of one value.
    let filled = unsafe {
        libc::proc_pidinfo(pid as c_int, what, 0, value.as_mut_ptr().cast::<c_void>(), bytes)
    };
    // SAFETY: all of its bytes were filled in, and any are valid.
    (filled == bytes).then(|| unsafe { value.assume_init() })
}

fn basics(pid: u32) -> Option<libc::proc_bsdinfo> {
    // SAFETY: it has only numbers.
    unsafe { info(pid, libc::PROC_PIDTBSDINFO) }
}

fn stamp(pid: u32) -> Stamp {
    // SAFETY: it has only numbers.
    let unique: Option<UniqueIdentifier> = unsafe { info(pid, PROC_PIDUNIQIDENTIFIERINFO) };
    let stamp =
        |id: UniqueIdentifier| Stamp { uuid: id.uuid, unique: id.unique, version: id.version };
    unique.map(stamp).unwrap_or_default()
}

pub(super) fn directory(pid: u32) -> Option<PathBuf> {
    // SAFETY: it has only numbers.
    let paths: libc::proc_vnodepathinfo = unsafe { info(pid, libc::PROC_PIDVNODEPATHINFO)? };
    path_of(&paths.pvi_cdir)
}

fn path_of(vnode: &libc::vnode_info_path) -> Option<PathBuf> {
    let bytes = vnode.vip_path.as_flattened().iter().map(|&byte: &c_char| byte as u8);
    let path: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    (!path.is_empty()).then(|| OsString::from_vec(path).into())
}

/// The processes of a group, sorted, at most one more than [`PROCESSES_MAX`]. The second list, of
/// unreadable processes, is always empty: they are in the first list.
pub(super) fn members(group: u32, _session: u32) -> io::Result<(Vec<u32>, Vec<u32>)> {
    let mut pids = vec![0_u32; PROCESSES_MAX + 1];
    let bytes = size_of_val(&pids[..]) as c_int;
    let into = pids.as_mut_ptr().cast();
    // SAFETY: the pointer and the length are those of one array.
    let filled = unsafe { libc::proc_listpids(PROC_PGRP_ONLY, group, into, bytes) };
    if filled <= 0 {
        return Err(io::Error::last_os_error());
    }
    pids.truncate(filled as usize / size_of::<u32>());
    pids.retain(|&pid| pid != 0);
    pids.sort_unstable();
    Ok((pids, Vec::new()))
}

/// The open files of a process, at most [`FILES_MAX`].
fn files(pid: u32) -> Option<Vec<libc::proc_fdinfo>> {
    let mut files = vec![libc::proc_fdinfo { proc_fd: 0, proc_fdtype: 0 }; FILES_MAX];
    let bytes = size_of_val(&files[..]) as c_int;
    // SAFETY: the pointer and the length are those of one array.
    let filled = unsafe {
        let into = files.as_mut_ptr().cast();
        libc::proc_pidinfo(pid as c_int, libc::PROC_PIDLISTFDS, 0, into, bytes)
    };
    // Zero means an error, or a process without files.
    files.truncate(usize::try_from(filled).ok()? / size_of::<libc::proc_fdinfo>());
    (!files.is_empty()).then_some(files)
}

/// Whether a file is open for reading and is this terminal, by its device or as /dev/tty.
fn is_read_terminal(pid: u32, number: c_int, terminal: u32) -> bool {
    // SAFETY: all-zero is a valid value of the type.
    let mut file: OpenFile = unsafe { zeroed() };
    let bytes = size_of_val(&file) as c_int;
    // SAFETY: the pointer and the length are those of one value. Fails for other descriptors.
    let filled = unsafe {
        let into = (&raw mut file).cast();
        libc::proc_pidfdinfo(pid as c_int, number, PROC_PIDFDVNODEPATHINFO, into, bytes)
    };
    let stat = &file.vnode.vip_vi.vi_stat;
    let is_device = stat.vst_mode & libc::S_IFMT == libc::S_IFCHR;
    let is_own = || path_of(&file.vnode).is_some_and(|path| path == Path::new("/dev/tty"));
    filled == bytes
        && file.flags & FREAD != 0
        && is_device
        && (stat.vst_rdev == terminal || is_own())
}

pub(super) fn file_id(path: &Path) -> io::Result<FileId> {
    let file = path.metadata()?;
    Ok(FileId { volume: file.dev(), file: file.ino().into() })
}

/// The executable; `None` also if its file was removed, since the system then tells no path.
pub(super) fn executable(pid: u32) -> Option<Executable> {
    let mut path = vec![0_u8; libc::PROC_PIDPATHINFO_MAXSIZE as usize];
    // SAFETY: the pointer and the length are those of one array.
    let length =
        unsafe { libc::proc_pidpath(pid as c_int, path.as_mut_ptr().cast(), path.len() as u32) };
    path.truncate(usize::try_from(length).ok().filter(|&length| length > 0)?);
    let path = PathBuf::from(OsString::from_vec(path));
    Some(Executable { file: file_id(&path).ok()?, path })
}

pub(super) fn arguments(pid: u32) -> Option<Vec<OsString>> {
    let mut name = [libc::CTL_KERN, libc::KERN_PROCARGS2, pid as c_int];
    let mut bytes = vec![0_u8; PROCARGS_BYTES_MAX];
    let mut length = bytes.len();
    // SAFETY: the pointers and the lengths are those of two arrays.
    let result = unsafe {
        let (name, into) = (name.as_mut_ptr(), bytes.as_mut_ptr().cast());
        libc::sysctl(name, 3, into, &mut length, null_mut(), 0)
    };
    if result != 0 {
        return None;
    }
    bytes.truncate(length);
    parse_arguments(&bytes)
}

/// Parses the argument count, the program's path with padding zeros, and the arguments.
fn parse_arguments(bytes: &[u8]) -> Option<Vec<OsString>> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let count = usize::try_from(i32::from_ne_bytes(*count)).ok()?;
    let path = rest.iter().position(|&byte| byte == 0)?;
    let padding = rest[path..].iter().position(|&byte| byte != 0)?;
    let rest = &rest[path + padding..];
    let mut taken = 0;
    let arguments = rest.split(|&byte| byte == 0).take(count).take_while(|argument| {
        taken += argument.len() + 1;
        taken <= ARGUMENTS_BYTES_MAX
    });
    let arguments: Vec<_> =
        arguments.map(|argument| OsString::from_vec(argument.to_vec())).collect();
    (!arguments.is_empty()).then_some(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_end_where_their_number_says() {
        let bytes = |count: i32, rest: &str| [&count.to_ne_bytes()[..], rest.as_bytes()].concat();
        let parse = |count, rest| parse_arguments(&bytes(count, rest));
        let arguments = |texts: &[&str]| Some(texts.iter().map(OsString::from).collect());
        assert_eq!(parse(2, "/bin/a\0\0\0\0a\0\0PATH=x\0"), arguments(&["a", ""]));
        assert_eq!(parse(1, "/bin/a\0a\0b"), arguments(&["a"]));
        assert_eq!(parse(0, "/bin/a\0a\0"), None);
        assert_eq!(parse_arguments(&[1, 0]), None);
    }
}
