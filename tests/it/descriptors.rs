//! A daemon that has no descriptors left.

use crate::{commands::Detached, hostile::Pair, outage::wait_until_here};
use serde_json::json;
use std::{ffi::OsString, fs, path::PathBuf};
use testkit::{
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::{output, until},
};

/// The flag of a descriptor that a new program does not get, on Linux.
const CLOSED_ON_EXEC: u32 = 0o2_000_000;

/// The descriptors that the system allows the daemon.
const DESCRIPTORS: usize = 40;

#[test]
fn newcomers_wait_while_no_descriptor_is_left() {
    let sandbox = Sandbox::empty();
    let _daemon = Detached(&sandbox);
    let up = sandbox.command(["up"]);
    let mut limited = sandbox.program("sh");
    limited.args(["-c", &format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\"")]);
    limited.arg(up.get_program()).args(up.get_args());
    let up = output(limited);
    assert!(up.status.success(), "{up:?}");
    let mut pair = Pair::join(&sandbox);
    pair.talk(1);
    let mut newcomers: Vec<_> = (0..DESCRIPTORS)
        .map(|number| {
            let mut newcomer = sandbox.connect();
            newcomer.send_json(&json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0,
                "payload": {"agent": format!("Newcomer{number}")}}));
            newcomer
        })
        .collect();
    let pauses = || -> Vec<String> {
        let log = fs::read_to_string(sandbox.home().join("daemon.log")).unwrap();
        let failed = log.lines().filter(|line| line.contains("cannot accept a connection: "));
        failed.map(|line| line.rsplit_once(" again in ").unwrap().1.to_owned()).collect()
    };
    until("the acceptor pauses for a second", || pauses().iter().any(|pause| pause == "1s"));
    let growing = ["10ms", "20ms", "40ms", "80ms", "160ms", "320ms", "640ms", "1s"];
    let all = pauses();
    let longest = all.iter().position(|pause| pause == "1s").unwrap();
    // The pauses begin again after each accepted newcomer.
    assert!(longest < growing.len() * DESCRIPTORS, "the acceptor spins: {all:?}");
    assert_eq!(all[..=longest][longest + 1 - growing.len()..], growing, "{all:?}");
    pair.talk(20);
    // The system's queue is in order: the first ones were accepted.
    let waiting = newcomers.split_off(DESCRIPTORS / 2);
    newcomers.iter().for_each(testkit::raw::Raw::hang_up);
    for mut newcomer in waiting {
        newcomer.expect("WELCOME");
    }
    pair.talk(20);
}

/// An inherited descriptor would keep a file open, and a lock locked, in another process.
#[test]
fn daemon_inherits_no_descriptors_and_its_own_and_a_wrappers_are_closed_on_exec() {
    let sandbox = Sandbox::empty();
    let _daemon = Detached(&sandbox);
    let up = sandbox.command(["up"]);
    let mut shell = sandbox.program("sh");
    shell.args(["-c", "exec 9>lock; \"$0\" \"$@\""]).arg(up.get_program()).args(up.get_args());
    let up = output(shell);
    assert!(up.status.success(), "{up:?}");
    let daemon = sandbox.answering_daemon().unwrap();
    let holds_lock = |(_, file): &(bool, PathBuf)| file.ends_with("lock");
    assert!(!descriptors(daemon).iter().any(holds_lock), "the shell's lock stays open");
    let terminal = Terminal::wrap(&sandbox, "Ann", &["cat"]);
    wait_until_here(&sandbox, "Ann");
    for pid in [daemon, terminal.pty.pid().into()] {
        let open = descriptors(pid);
        assert!(open.len() > 3, "{open:?}");
        let inheritable: Vec<_> =
            open.iter().filter(|(is_inheritable, _)| *is_inheritable).collect();
        assert!(inheritable.is_empty(), "{inheritable:?}");
    }
}

/// Returns the descriptors of a process after its standard streams: whether its programs inherit
/// each of them, and its file.
fn descriptors(pid: u64) -> Vec<(bool, PathBuf)> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let all = fs::read_dir(process.join("fd")).unwrap().map(|entry| entry.unwrap().file_name());
    let others = all.filter(|number| !["0", "1", "2"].iter().any(|stream| number == stream));
    let describe = |number: OsString| {
        let file = fs::read_link(process.join("fd").join(&number)).ok()?;
        let about = fs::read_to_string(process.join("fdinfo").join(&number)).ok()?;
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
        Some((flags & CLOSED_ON_EXEC == 0, file))
    };
    // A descriptor may be closed meanwhile.
    others.filter_map(describe).collect()
}
