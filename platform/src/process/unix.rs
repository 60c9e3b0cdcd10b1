//! Unix: a detached process has a session of its own.

use std::{
    fs::File,
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{self, Command, ExitStatus, Stdio},
};

pub(super) fn may_run_in(_: &Path) -> bool {
    true
}

/// The suffixes that a program's file name may have after the command's name.
pub(super) const PROGRAM_ENDINGS: [&str; 1] = [""];

#[derive(Debug)]
pub(super) struct Child(process::Child);

impl Child {
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn exited(&mut self) -> io::Result<Option<i32>> {
        Ok(self.0.try_wait()?.map(exit_code))
    }

    #[expect(clippy::unused_self, reason = "on Windows it depends on the process")]
    pub(super) const fn ends_with_others(&self) -> bool {
        false
    }
}

pub(super) fn spawn(command: &mut Command, output: File) -> io::Result<Child> {
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let leave = || {
        // SAFETY: setsid touches no memory, and may be called between fork and exec.
        if unsafe { libc::setsid() } == -1 {
            return Err(io::Error::last_os_error());
        }
        keep_only_streams();
        Ok(())
    };
    // SAFETY: the closure only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(leave) };
    command.spawn().map(Child)
}

/// The descriptors after the standard streams.
const FIRST_OTHER: libc::c_int = 3;
/// The end of the descriptors that are checked one by one.
const LOOKED_AT_MAX: libc::c_int = 1 << 16;

/// Makes the next exec close all descriptors but the standard streams, also those inherited from
/// this process's parent: otherwise a shell's lock file, for example, would stay locked.
fn keep_only_streams() {
    #[cfg(target_os = "linux")]
    {
        let (first, last) = (FIRST_OTHER as libc::c_uint, libc::c_uint::MAX);
        let flag = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
        // SAFETY: no pointers. Fails on a Linux before 5.11.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, flag) } == 0 {
            return;
        }
    }
    // SAFETY: no pointers.
    let limit = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    // A negative number means that there is no limit.
    let limit = libc::c_int::try_from(limit).ok().filter(|limit| *limit > 0);
    let limit = limit.map_or(LOOKED_AT_MAX, |limit| limit.min(LOOKED_AT_MAX));
    for descriptor in FIRST_OTHER..limit {
        // SAFETY: no pointers. Fails for a descriptor that is not open.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// The arenas of the GNU allocator, which otherwise makes eight for each processor.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 2;

/// The size above which the GNU allocator maps an allocation separately, so that freeing it returns
/// its pages to the system. By default, freeing a large allocation raises this size.
#[cfg(target_env = "gnu")]
const OWN_PAGES_BYTES: libc::c_int = 256 << 10;

#[cfg(target_env = "gnu")]
pub(crate) fn keep_little_memory() {
    for (option, value) in [(libc::M_ARENA_MAX, ARENAS), (libc::M_MMAP_THRESHOLD, OWN_PAGES_BYTES)]
    {
        // SAFETY: no pointers. A refusal changes nothing.
        let _ = unsafe { libc::mallopt(option, value) };
    }
}

#[cfg(not(target_env = "gnu"))]
pub(crate) const fn keep_little_memory() {}

#[cfg(target_env = "gnu")]
pub(crate) fn return_free_memory() {
    // SAFETY: no pointers. The result says only whether anything was returned.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub(crate) const fn return_free_memory() {}

pub(crate) fn allow_open_files(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills in the structure that it is given.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == -1 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < wanted {
        let before = limit.rlim_cur;
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: the call reads the structure that it is given.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == -1 {
            return Ok(before);
        }
    }
    Ok(limit.rlim_cur)
}

pub(super) const fn ends_with_others() -> io::Result<bool> {
    Ok(false)
}

pub(crate) fn end_before_others() -> io::Result<()> {
    Ok(())
}

/// The exit code by the convention of shells: 128 + n if signal n ended the process.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// The children that any thread of a process has started, without children that have left its
/// session, as daemons do.
#[cfg(target_os = "linux")]
pub(super) fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let lists: Vec<String> = lists.flatten().collect();
    let all = lists.iter().flat_map(|list| list.split_whitespace()).flat_map(str::parse);
    let session = session_of(pid);
    all.filter(|&child| session_of(child) == session).collect()
}

/// The session of a process; `None` if the process has ended.
pub(crate) fn session_of(pid: u32) -> Option<u32> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0)?;
    // SAFETY: no pointers.
    u32::try_from(unsafe { libc::getsid(pid) }).ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn children(pid: u32) -> Vec<u32> {
    let session = session_of(pid);
    let mut children = listed(PROC_PPID_ONLY, pid);
    children.retain(|&child| session_of(child) == session);
    children
}

/// The processes of a session.
pub(crate) fn session_members(session: u32) -> Vec<u32> {
    let mut pids = all_pids();
    pids.retain(|pid| session_of(*pid) == Some(session));
    pids
}

/// All processes; none if the system does not list them.
#[cfg(target_os = "linux")]
fn all_pids() -> Vec<u32> {
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(not(target_os = "linux"))]
fn all_pids() -> Vec<u32> {
    listed(PROC_ALL_PIDS, 0)
}

/// Kinds of process lists. libc does not define these constants.
#[cfg(not(target_os = "linux"))]
const PROC_ALL_PIDS: u32 = 1;
#[cfg(not(target_os = "linux"))]
const PROC_PPID_ONLY: u32 = 6;

/// A list of processes: of all processes, or of the children of one.
#[cfg(not(target_os = "linux"))]
fn listed(kind: u32, of: u32) -> Vec<u32> {
    // SAFETY: without a buffer, the call returns the bytes that it would fill in.
    let bytes = unsafe { libc::proc_listpids(kind, of, std::ptr::null_mut(), 0) };
    // Some may start meanwhile.
    let mut pids = vec![0_u32; usize::try_from(bytes).unwrap_or(0) / size_of::<u32>() + 64];
    let bytes = size_of_val(&*pids) as libc::c_int;
    // SAFETY: the pointer is to a buffer of that length.
    let filled = unsafe { libc::proc_listpids(kind, of, pids.as_mut_ptr().cast(), bytes) };
    pids.truncate(usize::try_from(filled).unwrap_or(0) / size_of::<u32>());
    pids.retain(|&pid| pid != 0);
    pids
}

#[cfg(target_os = "linux")]
pub(super) fn is_alone(pid: u32, family: &[u32]) -> bool {
    let of = |pid: u32, what: &str| std::fs::read_link(format!("/proc/{pid}/{what}")).ok();
    let (Some(program), Some(directory)) = (of(pid, "exe"), of(pid, "cwd")) else { return false };
    let Ok(all) = std::fs::read_dir("/proc") else { return false };
    let pids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others = pids.filter(|other| !family.contains(other));
    !others.any(|other| {
        of(other, "cwd").as_ref() == Some(&directory) && of(other, "exe").as_ref() == Some(&program)
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_alone(_: u32, _: &[u32]) -> bool {
    false
}

#[cfg(target_os = "linux")]
pub(super) fn written_files(pid: u32) -> Option<Vec<std::path::PathBuf>> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let is_written = |number: &std::ffi::OsStr| {
        let info = format!("/proc/{pid}/fdinfo/{}", number.display());
        let info = std::fs::read_to_string(info).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
    };
    let written = files.filter(|file| is_written(&file.file_name()));
    Some(written.flat_map(|file| std::fs::read_link(file.path())).collect())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn written_files(_: u32) -> Option<Vec<std::path::PathBuf>> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::process::{family, is_alone, written_files};
    use std::{
        process::{Command, Stdio},
        thread,
        time::{Duration, Instant},
    };

    #[test]
    fn same_program_in_same_directory_is_not_alone() {
        let path = std::env::temp_dir().join(format!("platform-alone-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let cat = || {
            let mut cat = Command::new("cat");
            cat.current_dir(&path).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
        };
        let mut first = cat();
        assert!(is_alone(first.id()));
        let mut second = cat();
        assert!(!is_alone(first.id()));
        for cat in [&mut first, &mut second] {
            drop(cat.stdin.take());
            cat.wait().unwrap();
        }
        std::fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn read_only_file_is_not_listed_as_written() {
        let path = std::env::temp_dir().join(format!("platform-written-{}", std::process::id()));
        let read = std::fs::write(&path, "x").and_then(|()| std::fs::File::open(&path)).unwrap();
        let is_written = || written_files(std::process::id()).unwrap().contains(&path);
        assert!(!is_written());
        let written = std::fs::File::options().append(true).open(&path).unwrap();
        assert!(is_written());
        drop((read, written));
        std::fs::remove_file(&path).unwrap();
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn pages_between_allocations_in_use_are_returned() {
        const CHUNK: usize = 8 << 10;
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let mut chunks: Vec<_> = (0..16 << 10).map(|byte| vec![byte as u8; CHUNK]).collect();
        let mut number = 0;
        chunks.retain(|_| {
            number += 1;
            number % 16 == 0
        });
        let before = resident();
        super::return_free_memory();
        assert!(resident() + (64 << 20) < before, "{before} bytes before, {}", resident());
        assert!(chunks.iter().all(|chunk| chunk.len() == CHUNK));
    }

    #[test]
    fn process_outside_the_session_is_not_family() {
        // The readers end with their input.
        let script = "exec 3<&0; cat <&3 & setsid cat <&3 & wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let all = |pid: u32| {
            let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            list.unwrap_or_default().split_whitespace().count()
        };
        let end = Instant::now() + Duration::from_secs(30);
        while (all(shell.id()), family(shell.id()).len()) != (2, 2) {
            assert!(Instant::now() < end, "{:?}", family(shell.id()));
            thread::sleep(Duration::from_millis(5));
        }
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
