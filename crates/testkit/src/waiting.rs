//! Waiting for processes and for conditions that no event reports, within one time limit.

use std::{
    fs,
    io::{self, Read},
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The timeout of a wait for one event, so that a test does not hang. No test measures speed by it:
/// even a busy machine needs a small part of it.
pub const WATCHDOG: Duration = Duration::from_secs(300);

/// Runs a command to its end, within [`WATCHDOG`].
#[track_caller]
pub fn output(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (out, err) = (thread::spawn(|| read_all(out)), thread::spawn(|| read_all(err)));
    let status = wait(&mut child, &format!("{command:?}"));
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

#[track_caller]
pub fn assert_success(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

fn read_all(mut from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Skips a test that this machine cannot run. Panics under `CI`, where all tests must run.
#[track_caller]
pub fn not_tried(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "CI tries every test: {why}");
    eprintln!("not tried: {why}");
}

/// Polls a condition that no event reports, within [`WATCHDOG`].
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let pace = Duration::from_millis(20);
    let end = Instant::now() + WATCHDOG;
    while !condition() {
        assert!(Instant::now() < end, "timed out before {what}");
        thread::sleep(pace);
    }
}

/// Returns a process's resident memory as `ps` reports it, or `None` without `ps`.
pub fn resident_bytes(pid: u64) -> Option<u64> {
    let output = match Command::new("ps").args(["-o", "rss=", "-p", &pid.to_string()]).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    let kib = str::from_utf8(&output.stdout).unwrap().trim();
    output.status.success().then(|| kib.parse::<u64>().expect("a number of KiB") << 10)
}

/// Returns the most memory that a process had resident, or `None` if the system does not report it.
pub fn peak_resident_bytes(pid: u64) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Waits for a process. Kills it and panics after [`WATCHDOG`].
#[track_caller]
pub fn wait(child: &mut Child, what: &str) -> ExitStatus {
    let end = Instant::now() + WATCHDOG;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().ok();
    child.wait().ok();
    panic!("{what} did not end within {WATCHDOG:?}");
}
