//! The service on Windows, through the real service manager: a binary of its own, because a machine has only
//! one such service, and an administrator to install it. `ci/windows` runs it, under Wine or natively.

#![allow(clippy::disallowed_methods, reason = "what tests start and hold is bounded by the test")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "all of this is tests, which clippy sees only where `#[test]` stands"
)]

mod stage;

use platform::{
    endpoint::Endpoint,
    peer::User,
    service::{Kind, NAME, State},
    transport::Stream,
};
use serde_json::Value;
use stage::{Stage, account, sentence, until};
use std::{fs, io};

const IMAGE: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\agent-relay";
const SOURCE: &str = r"HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\agent-relay";

#[test]
fn it_is_installed_used_stopped_and_removed() {
    let stage = Stage::set();
    assert!(sentence(&stage.fails(["service", "status"])).contains("no service is installed"));

    let installed = stage.json_elsewhere(["service", "install", "--json"]);
    assert_eq!(installed["kind"], Kind::Service.word());
    assert_eq!(installed["owner"], User::me().unwrap().to_string());
    assert_eq!([&installed["enabled"], &installed["running"]], [true, true]);
    assert!(installed["since"].is_u64(), "it says so when clients can connect: {installed}");
    let endpoint = format!(r"\\.\pipe\agent-relay-{}", User::me().unwrap());
    let home = stage::path(&installed["home"]);
    assert!(home.ends_with(format!(r"agent-relay\{}", User::me().unwrap())), "{}", home.display());

    // What is where.
    let told = fs::read_to_string(stage.own_home().join("service.toml")).unwrap();
    for word in [&endpoint, &home.display().to_string(), account()] {
        assert!(told.contains(word), "{told}");
    }
    let program = format!("\"{}\" \"--as-agent-relay\" \"--home\"", stage.program().display());
    let image = stage.registry(IMAGE).unwrap();
    assert!(image.contains(&program), "{image}");
    assert!(stage.registry(SOURCE).unwrap().contains("EventCreate.exe"));

    // Commands find it, as its operator, and start none of their own.
    let status = stage.json(["status", "--json"]);
    assert_eq!(status["status"]["daemon"]["pid"], installed["pid"]);
    assert_eq!(status["endpoint"], *endpoint);
    let up = stage.json(["up", "--json"]);
    assert_eq!(up["endpoint"], *endpoint);
    assert_eq!(up["started"], false);
    stage.succeeds(["dead-letters"]);
    assert!(sentence(&stage.fails(["up", "--foreground"])).contains("a service's"));
    assert!(!stage.own_home().join("daemon.lock").exists());

    // Two processes talk through it.
    let ann = stage.listen("Ann");
    until("Ann is here", || stage.text(["agents"]).contains("Ann"));
    stage.succeeds(["send", "--as", "Bob", "Ann", "through the service"]);
    assert!(ann.heard().contains("through the service"));

    // Stopped and started in every way there is.
    assert_eq!(stage.json(["service", "stop", "--json"])["running"], false);
    assert!(sentence(&stage.fails(["status"])).contains("no daemon"));
    assert_eq!(stage.fails(["service", "status"]).status.code(), Some(1));
    // The program is replaced by an update.
    stage.replace_program();
    assert_eq!(stage.json(["up", "--json"])["started"], true);
    stage.succeeds(["down"]);
    until("it is down", || stage.state() == State::Stopped);
    stage.succeeds(["service", "start"]);
    let again = stage.json(["service", "status", "--json"]);
    assert_ne!(again["pid"], installed["pid"]);
    let key = fs::read(home.join("operator.key")).unwrap();
    let log = fs::read_to_string(home.join("daemon.log")).unwrap();
    assert_eq!(log.matches("listening at").count(), 3, "{log}");
    assert_eq!(log.matches("stopped").count(), 2, "{log}");

    // Installed over itself, it is the same one.
    stage.succeeds(["service", "install", "--user", &User::me().unwrap().to_string()]);
    assert_eq!(fs::read(home.join("operator.key")).unwrap(), key);

    let removed = stage.text(["service", "uninstall"]);
    assert!(removed.contains(&format!("{} is left", home.display())), "{removed}");
    assert!(home.join("relay.db").exists());
    assert!(!stage.own_home().join("service.toml").exists());
    assert_eq!([stage.registry(IMAGE), stage.registry(SOURCE)], [None, None]);
    assert!(stage.text(["service", "uninstall"]).contains("no service was installed"));
}

#[test]
fn what_others_could_replace_is_not_installed() {
    let stage = Stage::set();
    stage.let_everybody_change_the_program();
    let said = sentence(&stage.fails(["service", "install"]));
    assert!(said.contains("can be changed by others"), "{said}");
    assert!(said.contains("%ProgramFiles%"), "{said}");
    assert_eq!(stage.registry(IMAGE), None);
}

#[test]
fn what_a_link_leads_to_is_not_installed() {
    let stage = Stage::set();
    let said = sentence(&stage.run_through_a_link(&["service", "install"]));
    assert!(said.contains("is a link, which others may redirect"), "{said}");
    assert_eq!(stage.registry(IMAGE), None);
}

#[test]
fn an_owner_who_could_replace_its_program_is_told_so() {
    let stage = Stage::set();
    stage.let_the_owner_change_the_programs();
    let programs = stage.program().parent().unwrap().display().to_string();
    let installed = stage.succeeds(["service", "install", "--json"]);
    let report: Value = serde_json::from_slice(&installed.stdout).unwrap();
    assert_eq!(report["replaceable_in"], programs);
    for said in [sentence(&installed), sentence(&stage.succeeds(["service", "status"]))] {
        assert!(
            said.contains(&format!("{programs} can be changed by the service's owner")),
            "{said}"
        );
        assert!(said.contains("%ProgramFiles%"), "{said}");
    }
}

#[test]
fn it_is_for_a_user_and_nobody_else() {
    let stage = Stage::set();
    // Everybody, and the administrators.
    for sid in ["S-1-1-0", "S-1-5-32-544", "S-1-5-21-1-2-3-4"] {
        let said = sentence(&stage.fails(["service", "install", "--user", sid]));
        assert!(said.contains(sid) && said.contains("is not a user"), "{said}");
    }
    assert_eq!(stage.registry(IMAGE), None);
}

#[test]
fn what_others_have_half_removed_is_removed_to_the_end() {
    let stage = Stage::set();
    let home = stage::path(&stage.json(["service", "install", "--json"])["home"]);
    stage.succeeds(["service", "stop"]);
    stage.tool("sc.exe", &["delete", NAME]);
    assert!(stage.registry(SOURCE).is_some());
    let removed = stage.text(["service", "uninstall"]);
    assert!(removed.contains(&format!("{} is left", home.display())), "{removed}");
    assert_eq!([stage.registry(IMAGE), stage.registry(SOURCE)], [None, None]);
    assert!(!stage.own_home().join("service.toml").exists());
    assert!(stage.text(["service", "uninstall"]).contains("no service was installed"));
}

#[test]
fn it_is_stopped_also_while_it_starts() {
    let stage = Stage::set();
    stage.succeeds(["service", "install"]);
    for _ in 0..3 {
        stage.succeeds(["service", "stop"]);
        assert_eq!(stage.state(), State::Stopped);
        // Comes back before clients can connect.
        stage.tool("sc.exe", &["start", NAME]);
    }
}

#[test]
fn an_installation_that_fails_leaves_the_one_before() {
    let stage = Stage::set();
    stage.succeeds(["service", "install"]);
    stage.tool("sc.exe", &["config", NAME, "depend=", "agent-relay-nothing"]);
    let said = sentence(&stage.run_elsewhere(&["service", "install"]));
    let before = format!("\"{}\"", stage.program().display());
    assert!(said.contains(&format!("the service is unchanged, with {before}")), "{said}");
    assert!(stage.registry(IMAGE).unwrap().contains(&before));
    stage.tool("sc.exe", &["config", NAME, "depend=", "/"]);
    stage.succeeds(["service", "start"]);
}

#[test]
fn what_keeps_it_from_starting_is_said() {
    let stage = Stage::set();
    let installed = stage.json(["service", "install", "--json"]);
    let home = stage::path(&installed["home"]);
    stage.succeeds(["service", "stop"]);
    fs::write(home.join("config.toml"), "nonsense = 1\n").unwrap();
    let said = sentence(&stage.fails(["service", "start"]));
    assert!(said.contains("the service failed ("), "{said}");
    assert!(said.contains("unknown key \"nonsense\""), "{said}");
    fs::remove_file(home.join("config.toml")).unwrap();
}

#[test]
fn its_policy_is_an_administrators_and_its_owner_has_it_read_again() {
    let stage = Stage::set();
    let installed = stage.json(["service", "install", "--json"]);
    let policy = stage::path(&installed["home"]).join("policy.toml");
    let key = stage.json(["policy", "key", "Ann", "--json"]);
    assert_eq!(stage::path(&key["file"]), policy);
    let ann = stage.listen("Ann");
    until("Ann is here", || stage.text(["agents"]).contains("Ann"));
    fs::write(&policy, "[[rule]]\nfrom = 'Bob'\nto = 'Ann'\nallow = false\n").unwrap();
    stage.succeeds(["policy", "reload"]);
    let refused = stage.fails(["send", "--as", "Bob", "Ann", "not this"]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    stage.succeeds(["send", "--as", "Cid", "Ann", "this"]);
    assert!(ann.heard().contains("this"));
}

#[test]
fn what_a_daemon_kept_before_it_stays_until_it_is_copied() {
    let stage = Stage::set();
    stage.succeeds(["up"]);
    let ann = stage.listen("Ann");
    until("Ann is here", || stage.text(["agents"]).contains("Ann"));
    stage.succeeds(["send", "--as", "Bob", "Ann", "one"]);
    assert!(ann.heard().contains("one"));
    stage.succeeds(["send", "--as", "Bob", "Ann", "from before"]);

    let kept = stage.own_home().join("relay.db");
    let installed = sentence(&stage.succeeds(["service", "install"]));
    assert!(installed.contains("is stopped"), "{installed}");
    assert!(installed.contains(&format!("{} stays", kept.display())), "{installed}");
    assert!(!stage.text(["history", "--with", "Ann"]).contains("from before"));

    let home = stage::path(&stage.json(["service", "status", "--json"])["home"]);
    stage.succeeds(["service", "stop"]);
    fs::copy(kept, home.join("relay.db")).unwrap();
    stage.succeeds(["service", "start"]);
    assert!(stage.listen("Ann").heard().contains("from before"));
}

#[test]
fn it_runs_under_its_own_account_and_serves_its_owner() {
    let stage = Stage::set();
    stage.succeeds(["service", "install"]);
    let endpoint = Endpoint::per_user().unwrap();
    let error = Stream::connect(&endpoint).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains(account()), "{error}");
    let account = User::parse(account()).unwrap();
    let peer =
        Stream::connect_among(&endpoint, std::slice::from_ref(&account)).unwrap().peer().unwrap();
    assert_eq!(peer.user, account);
    let config = stage.tool("sc.exe", &["qc", NAME]);
    assert!(config.contains(r"NT SERVICE\agent-relay"), "{config}");
    // Others than who is at the machine may look at it.
    let access = stage.tool("sc.exe", &["sdshow", NAME]);
    assert!(access.contains("(A;;CCLCRC;;;AU)"), "{access}");
    // Its owner reads two of its files, and no more.
    let home = stage::path(&stage.json(["service", "status", "--json"])["home"]);
    for (name, is_read) in [("operator.key", true), ("daemon.log", true), ("relay.db", false)] {
        let access = stage.tool("icacls.exe", &[&home.join(name).display().to_string()]);
        assert_eq!(access.contains(":(R)"), is_read, "{access}");
    }
}

#[test]
fn it_is_started_again_after_a_crash() {
    let stage = Stage::set();
    let before = stage.json(["service", "install", "--json"])["pid"].as_u64().unwrap();
    stage.tool("taskkill.exe", &["/F", "/PID", &before.to_string()]);
    until(
        "it is back",
        || matches!(stage.state(), State::Running(pid) if u64::from(pid) != before),
    );
    let after = stage.json(["service", "status", "--json"]);
    assert_eq!(after["running"], true);
}

/// The process of the daemon that answers.
fn daemon(stage: &Stage) -> Option<u64> {
    let status: Value = serde_json::from_slice(&stage.run(&["status", "--json"]).stdout).ok()?;
    status["status"]["daemon"]["pid"].as_u64()
}

#[test]
fn what_a_task_runs_has_a_crashed_daemon_back() {
    let stage = Stage::set();
    let mut supervisor = stage.supervise();
    until("it is up", || daemon(&stage).is_some());
    let before = daemon(&stage).unwrap();
    stage.tool("taskkill.exe", &["/F", "/PID", &before.to_string()]);
    until("it is back", || daemon(&stage).is_some_and(|pid| pid != before));
    stage.succeeds(["down"]);
    until("its supervisor has ended", || supervisor.try_wait().unwrap().is_some());
}

#[test]
fn what_a_task_runs_ends_with_a_daemon_that_is_stopped_or_always_fails() {
    let stage = Stage::set();
    let mut supervisor = stage.supervise();
    until("it is up", || daemon(&stage).is_some());
    stage.succeeds(["down"]);
    until("its supervisor has ended", || supervisor.try_wait().unwrap().is_some());
    assert_eq!(supervisor.wait().unwrap().code(), Some(0));
    assert_eq!(daemon(&stage), None);

    fs::write(stage.own_home().join("config.toml"), "nonsense = 1\n").unwrap();
    let mut supervisor = stage.supervise();
    until("it has given up", || supervisor.try_wait().unwrap().is_some());
    assert_eq!(supervisor.wait().unwrap().code(), Some(1));
    let log = fs::read_to_string(stage.own_home().join("daemon.log")).unwrap();
    assert_eq!(log.matches("unknown key").count(), 5, "{log}");
    assert!(log.contains("5 times in a row"), "{log}");
}

#[test]
fn a_task_at_logon_is_installed_used_stopped_and_removed() {
    let stage = Stage::set();
    let installed = stage.json(["service", "install", "--logon", "--json"]);
    assert_eq!(installed["kind"], Kind::Task.word());
    assert_eq!([&installed["enabled"], &installed["running"]], [true, true]);
    assert!(stage::path(&installed["program"]).ends_with("agent-relayw.exe"), "{installed}");
    stage.succeeds(["status"]);
    assert_eq!(stage.json(["service", "stop", "--json"])["running"], false);
    assert_eq!(stage.json(["service", "start", "--json"])["running"], true);
    stage.succeeds(["service", "uninstall"]);
    assert!(sentence(&stage.fails(["service", "status"])).contains("no service is installed"));
    assert!(sentence(&stage.fails(["status"])).contains("no daemon"));
}
