//! The daemon as a service of a real systemd user instance, which each test starts for itself.
//!
//! `ci/service` runs these tests; plain `cargo test` does not. On a system that systemd did not
//! start, it first prepares a session for the instance.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};
use testkit::{
    managed::{self, ServiceHost},
    sandbox::Sandbox,
    waiting::{output, until, wait},
};

/// The path of systemd on Debian, where no `PATH` contains it.
const SYSTEMD: &str = "/lib/systemd/systemd";

/// A systemd user instance, ended on drop with everything that it started.
struct Systemd {
    sandbox: Sandbox,
    process: Child,
}

impl Systemd {
    fn start() -> Self {
        let sandbox = Sandbox::empty();
        platform::paths::make_private_dir(&runtime(&sandbox)).unwrap();
        let log = fs::File::create(sandbox.directory().join("systemd.log")).unwrap();
        let mut command = in_session(&sandbox, sandbox.program(SYSTEMD));
        command.args(["--user", "--log-target=console"]).stderr(log);
        let systemd = Self { process: command.spawn().unwrap(), sandbox };
        let socket = runtime(&systemd.sandbox).join("systemd/private");
        until("systemd listens", || socket.exists());
        systemd
    }

    /// Runs a command that must fail, and returns its standard error.
    #[track_caller]
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn unit(&self) -> PathBuf {
        self.sandbox.directory().join(".config/systemd/user/agent-relay.service")
    }

    fn systemctl(&self, arguments: &[&str]) -> Output {
        let mut command = in_session(&self.sandbox, self.sandbox.program("systemctl"));
        command.arg("--user").args(arguments);
        output(command)
    }
}

impl ServiceHost for Systemd {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn command(&self, arguments: &[&str]) -> Command {
        in_session(&self.sandbox, self.sandbox.command(arguments))
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        self.systemctl(&["exit"]);
        wait(&mut self.process, "systemd");
    }
}

fn runtime(sandbox: &Sandbox) -> PathBuf {
    sandbox.directory().join("run")
}

fn in_session(sandbox: &Sandbox, mut command: Command) -> Command {
    command.env("XDG_RUNTIME_DIR", runtime(sandbox));
    command
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut found = Vec::new();
    for entry in entries {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn service_is_installed_used_stopped_and_removed() {
    let systemd = Systemd::start();
    let status = systemd.fails(&["service", "status"]);
    assert!(status.contains("no service is installed"), "{status}");
    let installed = systemd.succeeds(&["service", "install"]);
    assert!(installed.starts_with("systemd user unit, started at each logon"), "{installed}");

    managed::check_installation(&systemd, "systemd", &systemd.unit());
    managed::check_use_stop_and_start(&systemd);
    managed::check_removal(&systemd, &systemd.unit());
    let left = files(&systemd.sandbox.directory().join(".config"));
    assert!(left.is_empty(), "{left:?}");
    let unit = systemd.systemctl(&["cat", "agent-relay"]);
    assert!(!unit.status.success(), "{unit:?}");
}

#[test]
fn killed_service_restarts_and_stopped_service_stays_down() {
    let systemd = Systemd::start();
    managed::check_restart_after_kill_but_not_after_stop(&systemd);
    let shown = systemd.systemctl(&["show", "agent-relay", "--property=ActiveState", "--value"]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout).trim(), "inactive");
}

#[test]
fn running_daemon_gives_way_to_the_service() {
    let mut systemd = Systemd::start();
    systemd.succeeds(&["up"]);
    let mut ann = systemd.sandbox.join("Ann");
    systemd.succeeds(&["service", "install"]);
    assert_eq!(ann.expect("BYE")["payload"]["reason"], "upgrade");
    assert!(systemd.pid().is_some());

    systemd.succeeds(&["service", "stop"]);
    systemd.sandbox.start();
    let status = systemd.run(&["service", "status"]);
    let stderr = String::from_utf8_lossy(&status.stderr);
    assert!(stderr.contains("the service did not start"), "{stderr}");
    systemd.succeeds(&["service", "start"]);
    assert!(systemd.pid().is_some());
}

#[test]
fn commands_that_need_a_daemon_start_the_service() {
    let systemd = Systemd::start();
    systemd.succeeds(&["service", "install"]);
    let before = systemd.pid().unwrap();
    let replaced: Value =
        serde_json::from_str(&systemd.succeeds(&["up", "--replace", "--json"])).unwrap();
    assert_eq!(replaced["started"], true);
    let after = systemd.pid().unwrap();
    assert_ne!(after, before);
    assert_eq!(systemd.sandbox.answering_daemon(), Some(after));

    systemd.succeeds(&["service", "stop"]);
    systemd.succeeds(&["send", "--as", "Ann", "Ann", "hello"]);
    assert_eq!(systemd.sandbox.answering_daemon(), systemd.pid());

    // `up --replace` leaves a service that runs another program alone.
    let unit = fs::read_to_string(systemd.unit()).unwrap();
    fs::write(systemd.unit(), unit.replace(env!("CARGO_BIN_EXE_agent-relay"), SYSTEMD)).unwrap();
    let refused = systemd.fails(&["up", "--replace"]);
    assert!(refused.contains("`agent-relay service install` changes that to"), "{refused}");
    assert_eq!(systemd.sandbox.answering_daemon(), systemd.pid());
    fs::write(systemd.unit(), unit).unwrap();
}

#[test]
fn missing_program_is_named_without_an_old_line_of_the_log() {
    let systemd = Systemd::start();
    systemd.succeeds(&["service", "install"]);
    systemd.succeeds(&["service", "stop"]);
    let unit = fs::read_to_string(systemd.unit()).unwrap();
    fs::write(systemd.unit(), unit.replace(env!("CARGO_BIN_EXE_agent-relay"), "/nowhere/at/all"))
        .unwrap();
    systemd.systemctl(&["daemon-reload"]);
    let failed = systemd.fails(&["service", "start"]);
    assert!(!failed.contains("its last line") && !failed.contains("own systemd"), "{failed}");
    let shown = String::from_utf8(systemd.run(&["service", "status"]).stdout).unwrap();
    assert!(shown.contains("/nowhere/at/all (missing"), "{shown}");
}

#[test]
fn failed_start_reports_the_cause() {
    let systemd = Systemd::start();
    let home = systemd.sandbox.home();
    platform::paths::make_private_dir(&home).unwrap();
    fs::write(home.join("policy.toml"), "nonsense").unwrap();
    let stderr = systemd.fails(&["service", "install"]);
    assert!(stderr.contains("policy.toml"), "{stderr}");
    assert!(stderr.contains("daemon.log"), "{stderr}");
    fs::remove_file(home.join("policy.toml")).unwrap();
    systemd.succeeds(&["service", "start"]);
}

#[test]
fn unit_file_passes_systemd_analyze() {
    let systemd = Systemd::start();
    systemd.succeeds(&["service", "install"]);
    let mut verify = systemd.sandbox.program("systemd-analyze");
    verify.args(["verify", "--user"]).arg(systemd.unit());
    let output = output(in_session(&systemd.sandbox, verify));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    platform::paths::check_only_owner_writes(&systemd.unit()).unwrap();
}

#[test]
fn unit_of_a_bridge_links_again_after_a_kill_and_not_with_wrong_settings() {
    let systemd = Systemd::start();
    systemd.succeeds(&["service", "install"]);
    let (laptop, pi, relay) = (&systemd.sandbox, Sandbox::new(), env!("CARGO_BIN_EXE_agent-relay"));
    let at = |sandbox: &Sandbox| {
        let (home, endpoint) = (sandbox.home(), sandbox.endpoint());
        let words = [relay, "--home", home.to_str().unwrap(), "--endpoint", endpoint.as_text()];
        words.map(str::to_owned).to_vec()
    };
    let mut command = at(&pi);
    command.extend(["stdio", "--peer", "laptop", "--export", "Bob"].map(str::to_owned));
    let settings = format!("[pi]\ncommand = {command:?}\nexport = ['Ann']\n");
    fs::write(laptop.home().join("bridges.toml"), settings).unwrap();
    let unit = include_str!("../../package/agent-relay-bridge@.service");
    let own = unit.replace("/usr/bin/agent-relay bridge", &(at(laptop).join(" ") + " bridge"));
    let own = own.replace("RestartSec=10", "RestartSec=1");
    fs::write(systemd.unit().with_file_name("agent-relay-bridge@.service"), own).unwrap();
    let control = |arguments: &[&str]| {
        let done = systemd.systemctl(arguments);
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    control(&["daemon-reload"]);
    let bridges = || {
        let status: Value = serde_json::from_str(&systemd.succeeds(&["status", "--json"])).unwrap();
        status["bridges"].clone()
    };
    control(&["start", "agent-relay-bridge@pi"]);
    let linked = |before: u64| {
        let mut pid = 0;
        until("a bridge that is linked", || {
            let bridge = bridges()[0].clone();
            pid = bridge["pid"].as_u64().unwrap_or_default();
            bridge["state"] == "linked" && pid != before
        });
        pid
    };
    let first = linked(0);
    laptop.kill_process(first);
    linked(first);
    control(&["stop", "agent-relay-bridge@pi"]);
    assert_eq!(bridges(), serde_json::json!([]));
    control(&["start", "agent-relay-bridge@lab"]);
    let state = || {
        let properties = "--property=ActiveState,ExecMainStatus,NRestarts";
        control(&["show", "agent-relay-bridge@lab", properties])
    };
    until("a unit that has failed", || state().contains("ActiveState=failed"));
    assert!(state().contains("NRestarts=0") && state().contains("ExecMainStatus=2"), "{}", state());
}

#[test]
fn install_without_systemd_changes_nothing() {
    let mut sandbox = Sandbox::empty();
    let check_refused = |sandbox: &Sandbox| {
        let output = output(in_session(sandbox, sandbox.command(["service", "install"])));
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("`agent-relay up` starts the daemon"), "{stderr}");
    };
    check_refused(&sandbox);
    assert!(files(sandbox.directory()).is_empty() && !sandbox.home().exists());
    sandbox.start();
    check_refused(&sandbox);
    sandbox.join("Ann").leave();
}

#[test]
fn supervisor_restarts_a_killed_daemon_and_gives_up_after_five_failures() {
    let sandbox = Sandbox::empty();
    let mut command = sandbox.command(["up", "--foreground", "--supervised"]);
    let mut supervisor = command.stderr(Stdio::null()).spawn().unwrap();
    until("the daemon is up", || sandbox.answering_daemon().is_some());
    let before = sandbox.answering_daemon().unwrap();
    sandbox.kill_process(before);
    until("the daemon is restarted", || {
        sandbox.answering_daemon().is_some_and(|pid| pid != before)
    });
    // A second supervisor ends at once: the daemon runs already.
    let mut command = sandbox.command(["up", "--foreground", "--supervised"]);
    let mut other = command.stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(wait(&mut other, "the other supervisor").code(), Some(0));
    assert!(sandbox.run(["down"]).status.success());
    assert_eq!(wait(&mut supervisor, "the supervisor").code(), Some(0));
    assert_eq!(sandbox.answering_daemon(), None);
    let log = || fs::read_to_string(sandbox.home().join("daemon.log")).unwrap();
    assert_eq!(log().matches("it is started again").count(), 1, "{}", log());

    fs::write(sandbox.home().join("config.toml"), "nonsense = 1\n").unwrap();
    let mut command = sandbox.command(["up", "--foreground", "--supervised"]);
    let mut supervisor = command.stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(wait(&mut supervisor, "the supervisor").code(), Some(1));
    assert_eq!(log().matches("unknown key").count(), 5, "{}", log());
    assert!(log().contains("5 times in a row"), "{}", log());
}
