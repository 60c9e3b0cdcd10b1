//! Unexpected files at the daemon's paths, and files removed while it runs.

use super::attack::Pair;
use platform::{
    endpoint::Endpoint,
    lock::Lock,
    paths::{check_private, make_private_dir},
    transport::{Listener, Stream},
};
use serde_json::json;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::{
    sandbox::{Daemon, Sandbox},
    waiting::{output, until},
};

/// Checks that `up` fails with these words and leaves the path as it was.
#[track_caller]
fn expect_left_alone(sandbox: &Sandbox, words: &str) {
    let path = socket(sandbox);
    let state =
        || fs::symlink_metadata(&path).map(|there| (there.file_type(), there.len())).unwrap();
    let before = state();
    for line in [&["up", "--foreground"][..], &["up"]] {
        let refused = sandbox.run(line);
        let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{printed}");
        assert!(
            printed.contains(words) && printed.contains(sandbox.endpoint().as_text()),
            "{printed}"
        );
    }
    let missing = sandbox.run(["status"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert_eq!(state(), before);
}

fn socket(sandbox: &Sandbox) -> PathBuf {
    PathBuf::from(sandbox.endpoint().as_text())
}

#[track_caller]
fn run(program: &str, arguments: &[&Path]) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?}");
}

const NO_SOCKET: &str = "is not a socket; move it away or choose another endpoint";

#[test]
fn directory_at_the_socket_path_is_left_alone() {
    let sandbox = Sandbox::empty();
    fs::create_dir(socket(&sandbox)).unwrap();
    expect_left_alone(&sandbox, NO_SOCKET);
}

#[test]
fn file_at_the_socket_path_is_left_alone() {
    let sandbox = Sandbox::empty();
    fs::write(socket(&sandbox), "somebody's notes").unwrap();
    expect_left_alone(&sandbox, NO_SOCKET);
    assert_eq!(fs::read_to_string(socket(&sandbox)).unwrap(), "somebody's notes");
}

/// A daemon that opened the FIFO would block forever, since the FIFO has no writer.
#[test]
fn fifo_at_the_socket_path_is_left_alone() {
    let sandbox = Sandbox::empty();
    run("mkfifo", &[&socket(&sandbox)]);
    expect_left_alone(&sandbox, NO_SOCKET);
}

/// The link leads in turn to nothing, to a file, and to a socket with a listener.
#[test]
fn link_at_the_socket_path_is_not_followed() {
    let sandbox = Sandbox::empty();
    let target = sandbox.directory().join("target");
    run("ln", &["-s".as_ref(), &target, &socket(&sandbox)]);
    expect_left_alone(&sandbox, NO_SOCKET);
    assert!(!target.exists());
    fs::write(&target, "somebody's notes").unwrap();
    expect_left_alone(&sandbox, NO_SOCKET);
    assert_eq!(fs::read_to_string(&target).unwrap(), "somebody's notes");
    fs::remove_file(&target).unwrap();
    let endpoint = Endpoint::parse(target.as_os_str()).unwrap();
    let _listener = Listener::bind(&endpoint).unwrap();
    let refused = sandbox.run(["up", "--foreground"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    Stream::connect(&endpoint).unwrap();
}

/// A socket without a listener that belongs to another user. Only root can make one.
#[test]
fn socket_of_another_user_is_left_alone() {
    let mut sandbox = Sandbox::new();
    sandbox.kill();
    let chown = Command::new("chown").arg("65534").arg(socket(&sandbox)).output().unwrap();
    if !chown.status.success() {
        assert!(env::var_os("CI").is_none(), "CI tries every test, as root: {chown:?}");
        return;
    }
    expect_left_alone(&sandbox, "belongs to the user with id 65534");
}

/// Until the home is made again, messages cannot be stored; everything else works.
#[test]
fn removed_home_is_made_again_and_locked() {
    let mut sandbox = Sandbox::new();
    let (mut ann, mut bob) = (sandbox.join("Ann"), sandbox.join("Bob"));
    ann.send("Bob", "before", json!({"requires_ack": true}));
    ann.expect("ACK");
    let before = bob.expect("DELIVER");
    // In one step: the daemon would make files in a home that is being emptied.
    let removed = sandbox.directory().join("removed");
    fs::rename(sandbox.home(), &removed).unwrap();
    fs::remove_dir_all(removed).unwrap();
    ann.send("Bob", "at most once", json!({}));
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "at most once");
    until("the store keeps messages again", || {
        ann.send("Bob", "at least once", json!({"requires_ack": true}));
        let answer = ann.receive().unwrap();
        assert!(answer["type"] == "ACK" || answer["payload"]["code"] == "STORE_FAILED", "{answer}");
        answer["type"] == "ACK"
    });
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "at least once");
    until("the home is locked again", || {
        Lock::is_held(&sandbox.home().join("daemon.lock")).unwrap()
    });
    let elsewhere = sandbox.directory().join("elsewhere");
    let mut second = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
    second.arg("--endpoint").arg(elsewhere).arg("--home").arg(sandbox.home());
    second.args(["up", "--foreground"]);
    let second = output(second);
    let printed = String::from_utf8_lossy(&second.stderr);
    assert!(
        printed.contains("a daemon with the home") && second.status.code() == Some(1),
        "{printed}"
    );

    // Messages accepted before are in the new store, too.
    sandbox.kill();
    sandbox.start();
    let redelivered = sandbox.join("Bob").expect("DELIVER");
    assert_eq!((&redelivered["id"], &redelivered["payload"]), (&before["id"], &before["payload"]));
    assert!(sandbox.run(["down"]).status.success());
    assert!(sandbox.await_daemon_end().success());
}

/// Another daemon, played by the test, took the home when it was removed.
#[test]
fn home_that_another_daemon_has_is_left_alone() {
    let mut sandbox = Sandbox::new();
    drop(sandbox.join("Bob"));
    let mut ann = sandbox.join("Ann");
    ann.send("Bob", "before", json!({"requires_ack": true}));
    ann.expect("ACK");
    let (home, other) = (sandbox.home(), sandbox.directory().join("other"));
    make_private_dir(&other).unwrap();
    let _lock = Lock::take(&other.join("daemon.lock")).unwrap().unwrap();
    fs::rename(&home, sandbox.directory().join("removed")).unwrap();
    fs::rename(&other, &home).unwrap();

    assert_eq!(ann.expect("BYE")["payload"]["reason"], "home-taken");
    assert_eq!(sandbox.await_daemon_end().code(), Some(1));
    let files: Vec<_> = fs::read_dir(&home).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(files, ["daemon.lock"], "it wrote in a home that it does not have");
    let is_kept = |path: &PathBuf| path.display().to_string().contains(".kept-");
    let mut kept = fs::read_dir(sandbox.directory()).unwrap().map(|it| it.unwrap().path());
    let kept = kept.find(is_kept).expect("a directory with the messages");
    // The next daemon with that directory as its home has the messages.
    fs::remove_dir_all(&home).unwrap();
    fs::rename(kept, &home).unwrap();
    sandbox.start();
    assert_eq!(sandbox.join("Bob").expect("DELIVER")["payload"]["body"], "before");
}

#[test]
fn removed_socket_is_made_again_and_connections_stay() {
    let mut sandbox = Sandbox::new();
    let mut pair = Pair::join(&sandbox);
    fs::remove_file(socket(&sandbox)).unwrap();
    pair.talk(20);
    let second = sandbox.run(["up", "--foreground"]);
    assert_eq!(second.status.code(), Some(1), "the endpoint is still locked: {second:?}");
    until("the daemon listens again", || Stream::connect(&sandbox.endpoint()).is_ok());
    sandbox.join("Newcomer");
    pair.talk(20);
    assert!(sandbox.is_up());
}

#[test]
fn removed_directory_of_the_socket_is_made_again() {
    let sandbox = Sandbox::empty();
    let directory = sandbox.directory().join("a/b");
    make_private_dir(&directory).unwrap();
    let endpoint = Endpoint::inside(&directory, "relay").unwrap();
    let relay = |line: &[&str]| {
        let mut command = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
        command.arg("--home").arg(sandbox.home()).args(["--endpoint", endpoint.as_text()]);
        command.args(line);
        command
    };
    let _daemon = Daemon::start(relay(&["up", "--foreground"]));
    fs::remove_dir_all(directory.parent().unwrap()).unwrap();
    until("the daemon listens again", || Stream::connect(&endpoint).is_ok());
    check_private(&directory).unwrap();
    assert!(output(relay(&["status"])).status.success());
}

/// The daemon uses no other path: its user has put the file there, and can move it away.
#[test]
fn file_in_place_of_the_socket_is_waited_out() {
    let sandbox = Sandbox::new();
    let mut pair = Pair::join(&sandbox);
    let mut operator = sandbox.operator();
    fs::remove_file(socket(&sandbox)).unwrap();
    fs::write(socket(&sandbox), "somebody's notes").unwrap();
    let mut daemon = || operator.ask("status", &json!({}))["daemon"].clone();
    until("status names the file", || {
        daemon()["endpoint_fails"].as_str().is_some_and(|why| why.contains(NO_SOCKET))
    });
    assert_eq!(daemon()["endpoint"], sandbox.endpoint().as_text());
    pair.talk(20);
    for command in ["status", "doctor"] {
        let told = sandbox.run([command]);
        let told = [told.stdout, told.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains(sandbox.endpoint().as_text()) && told.contains(NO_SOCKET), "{told}");
    }
    assert_eq!(fs::read_to_string(socket(&sandbox)).unwrap(), "somebody's notes");
    fs::remove_file(socket(&sandbox)).unwrap();
    until("the daemon listens again", || Stream::connect(&sandbox.endpoint()).is_ok());
    until("status says so", || daemon()["endpoint_fails"].is_null());
    pair.talk(20);
}

/// Everything but the home is removed, as by a cleaner of `/tmp`, each time that the daemon has
/// made its socket again.
#[test]
fn emptied_temporary_directory_disturbs_no_client() {
    let mut sandbox = Sandbox::new();
    let mut pair = Pair::join(&sandbox);
    for round in 0..2 {
        until("the daemon listens", || socket(&sandbox).exists());
        for entry in fs::read_dir(sandbox.directory()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() || path == socket(&sandbox) {
                fs::remove_file(path).unwrap();
            }
        }
        pair.talk(20);
        until("a newcomer is welcomed", || Stream::connect(&sandbox.endpoint()).is_ok());
        sandbox.join(&format!("Newcomer{round}")).leave();
        pair.talk(20);
    }
    assert!(sandbox.is_up());
}

/// A killed daemon leaves its lock file and its socket.
#[test]
fn stale_lock_and_stale_socket_do_not_prevent_a_start() {
    let mut sandbox = Sandbox::new();
    sandbox.kill();
    assert!(socket(&sandbox).exists(), "a daemon that is killed removes nothing");
    let lock = sandbox.home().join("daemon.lock");
    assert!(lock.exists());
    fs::write(&lock, format!("{}\n", std::process::id())).unwrap();
    sandbox.start();
    Pair::join(&sandbox).talk(5);
    assert!(sandbox.is_up());
}
