//! Unix: a detached process has a session of its own.

use std::{
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Child, Command, ExitStatus},
};

pub(super) fn may_run_in(_: &Path) -> bool {
    true
}

/// The suffixes that a program's file name may have beside the command's name.
pub(super) const PROGRAM_ENDINGS: [&str; 1] = [""];

pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let leave_session = || {
        // SAFETY: setsid touches no memory, and may be called between fork and exec.
        if unsafe { libc::setsid() } == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure only makes that one call, and allocates nothing.
    unsafe { command.pre_exec(leave_session) };
    command.spawn()
}

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

pub(crate) fn end_before_others() -> io::Result<()> {
    Ok(())
}

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

/// The session of a process: the fourth word after the program's name. The name may contain any
/// character, so its end is the last parenthesis.
#[cfg(target_os = "linux")]
fn session_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn children(_: u32) -> Vec<u32> {
    Vec::new()
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
