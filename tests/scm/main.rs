//! The service on Windows, through the real service manager.
//!
//! These tests are a binary of their own, because a machine has only one such service and an
//! administrator must install it. `ci/windows` runs them, under Wine or natively.

#![allow(clippy::disallowed_methods, reason = "a test bounds what it starts and holds")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "clippy recognizes only functions with `#[test]` as tests"
)]

mod stage;

use platform::{
    endpoint::Endpoint,
    peer::User,
    service::{Kind, NAME, RunState},
    transport::Stream,
};
use serde_json::Value;
use stage::{Stage, account, stderr};
use std::{fs, io};
use testkit::{
    sandbox::{await_logged, daemon_in},
    waiting::until,
};

const IMAGE: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\agent-relay";
const SOURCE: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\agent-relay";

#[test]
fn service_is_installed_used_stopped_and_removed() {
    let stage = Stage::set_up();
    assert!(stderr(&stage.fails(["service", "status"])).contains("no service is installed"));

    let installed = stage.json_with_other_daemon(["service", "install", "--json"]);
    assert_eq!(installed["kind"], Kind::Service.word());
    assert_eq!(installed["owner"], User::me().unwrap().to_string());
    assert_eq!([&installed["enabled"], &installed["running"]], [true, true]);
    assert!(
        installed["since"].is_u64(),
        "the installation ends when clients can connect: {installed}"
    );
    let status = stage.json(["status", "--json"]);
    let endpoint = status["endpoint"].as_str().unwrap().to_owned();
    let name = format!(r"\\.\pipe\agent-relay-{}-", User::me().unwrap());
    assert!(endpoint.starts_with(&name) && endpoint.len() == name.len() + 32, "{endpoint}");
    let home = stage::path(&installed["home"]);
    assert!(home.ends_with(format!(r"agent-relay\{}", User::me().unwrap())), "{}", home.display());

    // The installation writes the pointer in the owner's home, the command line, and the source of
    // events.
    let pointer = fs::read_to_string(stage.own_home().join("service.toml")).unwrap();
    for word in [&endpoint, &home.display().to_string(), account()] {
        assert!(pointer.contains(word), "{pointer}");
    }
    let program = format!("\"{}\" \"--as-agent-relay\" \"--home\"", stage.program().display());
    let image = stage.registry(IMAGE).unwrap();
    assert!(image.contains(&program), "{image}");
    assert!(stage.registry(SOURCE).unwrap().contains("EventCreate.exe"));

    // Commands find the service, as its operator, and start no daemon of their own.
    assert_eq!(status["status"]["daemon"]["pid"], installed["pid"]);
    let up = stage.json(["up", "--json"]);
    assert_eq!(up["endpoint"], *endpoint);
    assert_eq!(up["started"], false);
    stage.succeeds(["history", "--dead"]);
    assert!(stderr(&stage.fails(["up", "--foreground"])).contains("the daemon is a service (at "));
    assert!(!stage.own_home().join("daemon.lock").exists());

    // Two processes exchange a message through the service.
    let ann = stage.listen("Ann");
    until("Ann is connected", || stage.text(["agents"]).contains("Ann"));
    stage.succeeds(["send", "--as", "Bob", "Ann", "through the service"]);
    assert!(ann.wait_for_output().contains("through the service"));

    // The service is stopped and started in every way that commands offer.
    assert_eq!(stage.json(["service", "stop", "--json"])["running"], false);
    assert!(stderr(&stage.fails(["status"])).contains("no daemon"));
    assert_eq!(stage.fails(["service", "status"]).status.code(), Some(1));
    // The program is replaced by an update.
    stage.replace_program();
    assert_eq!(stage.json(["up", "--json"])["started"], true);
    stage.succeeds(["down"]);
    until("the service is stopped", || stage.state() == RunState::Stopped);
    stage.succeeds(["service", "start"]);
    let restarted = stage.json(["service", "status", "--json"]);
    assert_ne!(restarted["pid"], installed["pid"]);
    let key = fs::read(home.join("operator.key")).unwrap();
    let log = await_logged(&home, "listening at", 3);
    assert_eq!(log.matches("listening at").count(), 3, "{log}");
    assert_eq!(log.matches("stopped").count(), 2, "{log}");

    // Installing again keeps the operator key.
    stage.succeeds(["service", "install", "--user", &User::me().unwrap().to_string()]);
    assert_eq!(fs::read(home.join("operator.key")).unwrap(), key);

    let removed = stage.text(["service", "uninstall"]);
    assert!(removed.contains(&format!("its home {} stays", home.display())), "{removed}");
    assert!(home.join("relay.db").exists());
    assert!(!stage.own_home().join("service.toml").exists());
    assert_eq!([stage.registry(IMAGE), stage.registry(SOURCE)], [None, None]);
    assert!(stage.text(["service", "uninstall"]).contains("no service was installed"));
}

#[test]
fn program_replaceable_by_others_is_not_installed() {
    let stage = Stage::set_up();
    stage.make_program_writable_by_everyone();
    let error = stderr(&stage.fails(["service", "install"]));
    assert!(error.contains("can be changed by others"), "{error}");
    assert!(error.contains("%ProgramFiles%"), "{error}");
    assert_eq!(stage.registry(IMAGE), None);
}

#[test]
fn program_behind_a_link_is_not_installed() {
    let stage = Stage::set_up();
    let error = stderr(&stage.run_through_link(&["service", "install"]));
    assert!(error.contains("is a link, which others may redirect"), "{error}");
    assert_eq!(stage.registry(IMAGE), None);
}

#[test]
fn owner_who_can_replace_the_program_is_warned() {
    let stage = Stage::set_up();
    stage.make_programs_writable_by_the_owner();
    let programs = stage.program().parent().unwrap().display().to_string();
    let installed = stage.succeeds(["service", "install", "--json"]);
    let report: Value = serde_json::from_slice(&installed.stdout).unwrap();
    assert_eq!(report["replaceable_in"], programs);
    for warning in [stderr(&installed), stderr(&stage.succeeds(["service", "status"]))] {
        assert!(
            warning.contains(&format!("{programs} can be changed by the service's owner")),
            "{warning}"
        );
        assert!(warning.contains("%ProgramFiles%"), "{warning}");
    }
}

#[test]
fn owner_that_is_not_a_known_user_is_refused() {
    let stage = Stage::set_up();
    // Everyone, the administrators, and an unknown account.
    for sid in ["S-1-1-0", "S-1-5-32-544", "S-1-5-21-1-2-3-4"] {
        let error = stderr(&stage.fails(["service", "install", "--user", sid]));
        assert!(error.contains(sid) && error.contains("is not a user"), "{error}");
    }
    assert_eq!(stage.registry(IMAGE), None);
}

#[test]
fn uninstall_completes_a_partial_removal() {
    let stage = Stage::set_up();
    let home = stage::path(&stage.json(["service", "install", "--json"])["home"]);
    stage.succeeds(["service", "stop"]);
    stage.tool("sc.exe", &["delete", NAME]);
    assert!(stage.registry(SOURCE).is_some());
    let removed = stage.text(["service", "uninstall"]);
    assert!(removed.contains(&format!("its home {} stays", home.display())), "{removed}");
    assert_eq!([stage.registry(IMAGE), stage.registry(SOURCE)], [None, None]);
    assert!(!stage.own_home().join("service.toml").exists());
    assert!(stage.text(["service", "uninstall"]).contains("no service was installed"));
}

#[test]
fn service_can_be_stopped_while_it_starts() {
    let stage = Stage::set_up();
    stage.succeeds(["service", "install"]);
    for _ in 0..3 {
        stage.succeeds(["service", "stop"]);
        assert_eq!(stage.state(), RunState::Stopped);
        // `sc.exe start` returns before clients can connect.
        stage.tool("sc.exe", &["start", NAME]);
    }
}

#[test]
fn failed_installation_keeps_the_previous_one() {
    let stage = Stage::set_up();
    stage.succeeds(["service", "install"]);
    stage.tool("sc.exe", &["config", NAME, "depend=", "agent-relay-nothing"]);
    let error = stderr(&stage.run_copy(&["service", "install"]));
    let before = format!("\"{}\"", stage.program().display());
    assert!(error.contains(&format!("the service is unchanged, with {before}")), "{error}");
    assert!(stage.registry(IMAGE).unwrap().contains(&before));
    stage.tool("sc.exe", &["config", NAME, "depend=", "/"]);
    stage.succeeds(["service", "start"]);
}

#[test]
fn failed_start_reports_the_cause() {
    let stage = Stage::set_up();
    let installed = stage.json(["service", "install", "--json"]);
    let home = stage::path(&installed["home"]);
    stage.succeeds(["service", "stop"]);
    fs::write(home.join("config.toml"), "nonsense = 1\n").unwrap();
    let error = stderr(&stage.fails(["service", "start"]));
    assert!(error.contains("the service failed ("), "{error}");
    assert!(error.contains("unknown key \"nonsense\""), "{error}");
    fs::remove_file(home.join("config.toml")).unwrap();
}

/// As the installer of an update stops it, which must not find the old program running again.
#[test]
fn service_stopped_in_order_is_not_started_by_agents() {
    let stage = Stage::set_up();
    stage.succeeds(["service", "install"]);
    let listener = stage.listen("Bob");
    until("Bob is connected", || stage.text(["agents"]).contains("Bob"));
    stage.tool("sc.exe", &["stop", NAME]);
    until("the service is stopped", || stage.state() == RunState::Stopped);
    let refused = stage.run_in_agent(&["up"]);
    assert!(stderr(&refused).contains("the daemon was stopped on purpose"), "{refused:?}");
    assert_eq!(stage.state(), RunState::Stopped);
    stage.succeeds(["up"]);
    stage.succeeds(["send", "--as", "Cyd", "Bob", "it is up again"]);
    assert!(listener.wait_for_output().contains("it is up again"));
}

/// The system's restart is played by `sc.exe start`, unless it has come already.
#[test]
fn stop_of_a_failed_service_prevents_its_restart() {
    let stage = Stage::set_up();
    let installed = stage.json(["service", "install", "--json"]);
    let config = stage::path(&installed["home"]).join("config.toml");
    stage.succeeds(["service", "stop"]);
    fs::write(&config, "nonsense = 1\n").unwrap();
    stage.fails(["service", "start"]);
    assert!(matches!(stage.state(), RunState::Failed(_)));
    stage.succeeds(["service", "stop"]);
    assert_eq!(stage.state(), RunState::Stopped);
    fs::remove_file(&config).unwrap();
    let mark = stage::path(&installed["home"]).join("restart.cancelled");
    if mark.exists() {
        stage.tool("sc.exe", &["start", NAME]);
    }
    until("the restart has ended", || !mark.exists() && stage.state() == RunState::Stopped);
    stage.succeeds(["service", "start"]);
    assert!(matches!(stage.state(), RunState::Running(_)));
}

#[test]
fn owner_reloads_the_policy_that_an_administrator_writes() {
    let stage = Stage::set_up();
    let installed = stage.json(["service", "install", "--json"]);
    let policy = stage::path(&installed["home"]).join("policy.toml");
    let key = stage.json(["policy", "key", "Ann", "--json"]);
    assert_eq!(stage::path(&key["file"]), policy);
    let ann = stage.listen("Ann");
    until("Ann is connected", || stage.text(["agents"]).contains("Ann"));
    fs::write(&policy, "[[rule]]\nfrom = 'Bob'\nto = 'Ann'\nallow = false\n").unwrap();
    stage.succeeds(["policy", "reload"]);
    let refused = stage.fails(["send", "--as", "Bob", "Ann", "not this"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    stage.succeeds(["send", "--as", "Cid", "Ann", "this"]);
    assert!(ann.wait_for_output().contains("this"));
}

#[test]
fn store_of_an_earlier_daemon_stays_until_copied() {
    let stage = Stage::set_up();
    stage.succeeds(["up"]);
    let ann = stage.listen("Ann");
    until("Ann is connected", || stage.text(["agents"]).contains("Ann"));
    stage.succeeds(["send", "--as", "Bob", "Ann", "one"]);
    assert!(ann.wait_for_output().contains("one"));
    stage.succeeds(["send", "--as", "Bob", "Ann", "from before"]);

    let store = stage.own_home().join("relay.db");
    let installed = stderr(&stage.succeeds(["service", "install"]));
    assert!(installed.contains("is stopped"), "{installed}");
    assert!(installed.contains(&format!("{} stays", store.display())), "{installed}");
    assert!(!stage.text(["history", "--with", "Ann"]).contains("from before"));

    let home = stage::path(&stage.json(["service", "status", "--json"])["home"]);
    stage.succeeds(["service", "stop"]);
    fs::copy(store, home.join("relay.db")).unwrap();
    stage.succeeds(["service", "start"]);
    assert!(stage.listen("Ann").wait_for_output().contains("from before"));
}

#[test]
fn service_runs_under_its_own_account_and_serves_its_owner() {
    let stage = Stage::set_up();
    stage.succeeds(["service", "install"]);
    let endpoint = stage.json(["status", "--json"])["endpoint"].clone();
    let endpoint = Endpoint::parse(endpoint.as_str().unwrap().as_ref()).unwrap();
    let error = Stream::connect(&endpoint).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains(account()), "{error}");
    let account = User::parse(account()).unwrap();
    let stream = Stream::connect_among(&endpoint, std::slice::from_ref(&account)).unwrap();
    assert_eq!(stream.peer().unwrap(), account);
    let config = stage.tool("sc.exe", &["qc", NAME]);
    assert!(config.contains(r"NT SERVICE\agent-relay"), "{config}");
    // Authenticated users who are not at the machine may query the service.
    let access = stage.tool("sc.exe", &["sdshow", NAME]);
    assert!(access.contains("(A;;CCLCRC;;;AU)"), "{access}");
    // The owner may read the key and the log, and no other file.
    let home = stage::path(&stage.json(["service", "status", "--json"])["home"]);
    for (name, is_readable) in [("operator.key", true), ("daemon.log", true), ("relay.db", false)] {
        let access = stage.tool("icacls.exe", &[&home.join(name).display().to_string()]);
        assert_eq!(access.contains(":(R)"), is_readable, "{access}");
    }
}

#[test]
fn service_restarts_after_a_crash() {
    let stage = Stage::set_up();
    let before = stage.json(["service", "install", "--json"])["pid"].as_u64().unwrap();
    stage.tool("taskkill.exe", &["/F", "/PID", &before.to_string()]);
    until(
        "the service runs again",
        || matches!(stage.state(), RunState::Running(pid) if u64::from(pid) != before),
    );
    let after = stage.json(["service", "status", "--json"]);
    assert_eq!(after["running"], true);
}

/// The process id of the daemon that answers, if one does.
fn answering_daemon(stage: &Stage) -> Option<u64> {
    daemon_in(&stage.run(&["status", "--json"]))
}

#[test]
fn supervisor_of_a_task_restarts_a_crashed_daemon() {
    let stage = Stage::set_up();
    let mut supervisor = stage.supervise();
    until("the daemon is up", || answering_daemon(&stage).is_some());
    let before = answering_daemon(&stage).unwrap();
    stage.tool("taskkill.exe", &["/F", "/PID", &before.to_string()]);
    until("the daemon runs again", || answering_daemon(&stage).is_some_and(|pid| pid != before));
    stage.succeeds(["down"]);
    until("the supervisor has ended", || supervisor.try_wait().unwrap().is_some());
}

#[test]
fn supervisor_of_a_task_ends_when_its_daemon_is_stopped_or_keeps_failing() {
    let stage = Stage::set_up();
    let mut supervisor = stage.supervise();
    until("the daemon is up", || answering_daemon(&stage).is_some());
    stage.succeeds(["down"]);
    until("the supervisor has ended", || supervisor.try_wait().unwrap().is_some());
    assert_eq!(supervisor.wait().unwrap().code(), Some(0));
    assert_eq!(answering_daemon(&stage), None);

    fs::write(stage.own_home().join("config.toml"), "nonsense = 1\n").unwrap();
    let mut supervisor = stage.supervise();
    until("the supervisor has given up", || supervisor.try_wait().unwrap().is_some());
    assert_eq!(supervisor.wait().unwrap().code(), Some(1));
    let log = fs::read_to_string(stage.own_home().join("daemon.log")).unwrap();
    assert_eq!(log.matches("unknown key").count(), 5, "{log}");
    assert!(log.contains("5 times in a row"), "{log}");
}

#[test]
fn logon_task_is_installed_used_stopped_and_removed() {
    let stage = Stage::set_up();
    let installed = stage.json(["service", "install", "--logon", "--json"]);
    assert_eq!(installed["kind"], Kind::Task.word());
    assert_eq!([&installed["enabled"], &installed["running"]], [true, true]);
    assert!(stage::path(&installed["program"]).ends_with("agent-relayw.exe"), "{installed}");
    stage.succeeds(["status"]);
    assert_eq!(stage.json(["service", "stop", "--json"])["running"], false);
    assert_eq!(stage.json(["service", "start", "--json"])["running"], true);
    stage.succeeds(["service", "uninstall"]);
    assert!(stderr(&stage.fails(["service", "status"])).contains("no service is installed"));
    assert!(stderr(&stage.fails(["status"])).contains("no daemon"));
}
