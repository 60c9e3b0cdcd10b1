//! The commands as people and scripts run them: their output and their exit codes.

use crate::wrap::fullscreen;
use platform::{endpoint::Endpoint, paths, process::SYSTEM, shell::quoted};
use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use testkit::{
    programs::example_program,
    sandbox::Sandbox,
    terminal::Terminal,
    waiting::{output, until, wait},
};

pub(crate) const DONE: i32 = 0;
pub(crate) const FAILED: i32 = 1;
pub(crate) const USAGE: i32 = 2;
pub(crate) const NOT_DELIVERED: i32 = 3;
const TIMED_OUT: i32 = 4;

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a command and checks its exit code.
#[track_caller]
pub(crate) fn run(sandbox: &Sandbox, line: &[&str], code: i32) -> Output {
    let output = sandbox.run(line);
    assert_eq!(output.status.code(), Some(code), "{line:?}: {output:?}");
    output
}

/// Runs a command that reads `text` on standard input.
#[track_caller]
pub(crate) fn run_with(sandbox: &Sandbox, line: &[&str], text: &[u8], code: i32) -> Output {
    let mut command = sandbox.command(line);
    let path = sandbox.directory().join("input");
    fs::write(&path, text).unwrap();
    command.stdin(fs::File::open(path).unwrap());
    let output = output(command);
    assert_eq!(output.status.code(), Some(code), "{line:?}: {output:?}");
    output
}

/// Starts a daemon that knows these agents, which are away: messages to them wait.
pub(crate) fn known(names: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    for name in names {
        sandbox.join(name).leave();
    }
    until("all have left", || {
        !out(&run(&sandbox, &["agents", "--json"], DONE)).contains(r#""here":true"#)
    });
    sandbox
}

/// Stops the detached daemon of a sandbox when dropped.
pub(crate) struct Detached<'a>(pub(crate) &'a Sandbox);

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        let stopped = self.0.run(["down"]);
        assert!(stopped.status.success() || thread::panicking(), "{stopped:?}");
    }
}

#[test]
fn daemon_goes_up_and_down() {
    let sandbox = Sandbox::empty();
    assert_eq!(out(&run(&sandbox, &["down"], DONE)), "no daemon was up\n");
    let failed = run(&sandbox, &["status"], FAILED);
    assert!(err(&failed).contains("start one with `agent-relay up`"), "{failed:?}");
    let failed = run(&sandbox, &["status", "--json"], FAILED);
    assert!(out(&failed).contains(r#""running":false"#), "{failed:?}");

    let detached = Detached(&sandbox);
    assert!(out(&run(&sandbox, &["up"], DONE)).starts_with("the daemon is up at "));
    assert!(out(&run(&sandbox, &["up"], DONE)).starts_with("the daemon was up already at "));
    let status: serde_json::Value =
        serde_json::from_str(&out(&run(&sandbox, &["status", "--json"], DONE))).unwrap();
    assert_eq!(status["schema"], "agent-relay.status/1");
    assert_eq!((&status["running"], &status["status"]["agents_here"]), (&true.into(), &0.into()));
    let replaced = run(&sandbox, &["up", "--replace", "--json"], DONE);
    assert!(out(&replaced).contains(r#""started":true"#), "{replaced:?}");
    assert!(out(&run(&sandbox, &["agents"], DONE)).contains("no agents yet"));
    sandbox.await_logged("listening at ", 2);
    drop(detached);
    assert_eq!(out(&run(&sandbox, &["down"], DONE)), "no daemon was up\n");
}

#[test]
fn concurrent_ups_start_one_daemon() {
    let sandbox = Sandbox::empty();
    let _detached = Detached(&sandbox);
    let printed: Vec<_> = thread::scope(|scope| {
        let ups: Vec<_> =
            (0..8).map(|_| scope.spawn(|| out(&run(&sandbox, &["up", "--json"], DONE)))).collect();
        ups.into_iter().map(|up| up.join().unwrap()).collect()
    });
    let started = printed.iter().filter(|line| line.contains(r#""started":true"#)).count();
    assert_eq!(started, 1, "{printed:?}");
}

#[test]
fn send_run_and_listen_start_a_missing_daemon() {
    // The wrapped command is this program, which every system has.
    let exe = std::path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let agent = ["run", "-n", "Ann", "--", exe.to_str().unwrap(), "--version"];
    for (line, code) in [(&["send", "Bob", "x"][..], NOT_DELIVERED), (&agent, DONE)] {
        let sandbox = Sandbox::empty();
        let _detached = Detached(&sandbox);
        run(&sandbox, line, code);
        run(&sandbox, &["status"], DONE);
    }
    let sandbox = Sandbox::empty();
    let _detached = Detached(&sandbox);
    let mut command = sandbox.command(["listen", "--as", "Bob", "--count", "1"]);
    let mut listening = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("Bob is here", || out(&sandbox.run(["agents", "--json"])).contains(r#""here":true"#));
    run(&sandbox, &["send", "Bob", "x"], DONE);
    assert_eq!(wait(&mut listening, "the listener").code(), Some(DONE));
}

#[test]
fn home_and_endpoint_each_have_one_daemon() {
    let sandbox = Sandbox::new();
    let program = |home: &str| {
        let mut command = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
        command.arg("--home").arg(sandbox.directory().join(home));
        command
    };
    let mut status = program("home");
    status.args(["status", "--json"]);
    let status = output(status);
    let printed = serde_json::to_string(sandbox.endpoint().as_text()).unwrap();
    assert!(out(&status).contains(&format!("\"endpoint\":{printed}")), "{status:?}");

    let elsewhere = Endpoint::inside(sandbox.directory(), "elsewhere").unwrap();
    for (home, endpoint) in [("home", &elsewhere), ("other", &sandbox.endpoint())] {
        let mut second = program(home);
        second.arg("--endpoint").arg(endpoint.as_text()).args(["up", "--foreground"]);
        let second = output(second);
        assert_eq!(second.status.code(), Some(FAILED), "{second:?}");
        assert!(err(&second).contains("is already running"), "{second:?}");
    }
    run(&sandbox, &["status"], DONE);
}

#[test]
fn removed_socket_is_made_again() {
    let sandbox = Sandbox::new();
    let mut ann = sandbox.join("Ann");
    fs::remove_file(sandbox.endpoint().as_text()).unwrap();
    assert_eq!(sandbox.run(["status"]).status.code(), Some(FAILED));
    until("the daemon listens again", || sandbox.run(["status"]).status.success());
    // Clients that were connected before are not affected.
    run(&sandbox, &["send", "--no-ack", "Ann", "still here"], DONE);
    assert_eq!(ann.expect("DELIVER")["payload"]["body"], "still here");
}

#[test]
fn file_at_the_endpoint_is_left_alone() {
    let sandbox = Sandbox::empty();
    let path = sandbox.endpoint().as_text().to_owned();
    fs::write(&path, "precious").unwrap();
    for line in [
        &["up"][..],
        &["down"],
        &["status"],
        &["tap"],
        &["send", "Bob", "x"],
        &["listen", "--as", "Bob"],
        &["run", "-n", "Ann", "--", "true"],
    ] {
        let failed = err(&run(&sandbox, line, FAILED));
        assert!(failed.contains(&path) && failed.contains("is not a socket"), "{line:?}: {failed}");
        assert_eq!(failed.lines().count(), 1, "{line:?}: {failed}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn doctor_reports_every_check_and_changes_nothing() {
    let sandbox = Sandbox::empty();
    let lines = |code| {
        let printed = out(&run(&sandbox, &["doctor", "--json"], code));
        let lines = printed.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<serde_json::Value>>()
    };
    let printed = lines(DONE);
    let ids: Vec<_> = printed.iter().map(|check| check["id"].as_str().unwrap()).collect();
    assert_eq!(
        ids,
        ["program", "home", "locks", "config", "policy", "endpoint", "daemon", "store", "terminal"]
    );
    for check in &printed {
        assert_eq!(check["schema"], "agent-relay.check/1");
        assert!(!check["detail"].as_str().unwrap().is_empty(), "{check}");
        assert_eq!(check["state"] == "ok", check.get("remedy").is_none(), "{check}");
    }
    assert_eq!(printed[6]["state"], "warn", "{printed:?}");
    assert_eq!(fs::read_dir(sandbox.directory()).unwrap().count(), 0, "nothing was made");

    let _detached = Detached(&sandbox);
    run(&sandbox, &["up"], DONE);
    assert_eq!(lines(DONE)[6]["state"], "ok");
}

/// The daemon that the command starts runs in its home.
#[test]
fn relative_endpoint_in_the_environment_is_one_place_for_both() {
    // Endpoints on Windows are not paths.
    if SYSTEM == "windows" {
        return;
    }
    let sandbox = Sandbox::empty();
    let _detached = Detached(&sandbox);
    let mut up = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
    up.env("AGENT_RELAY_ENDPOINT", "relay.sock").arg("--home").arg(sandbox.home()).arg("up");
    let up = output(up);
    assert_eq!(up.status.code(), Some(DONE), "{up:?}");
    run(&sandbox, &["status"], DONE);
}

/// Runs `doctor`. Returns the state of one check, and its detail with the remedy.
#[track_caller]
pub(crate) fn check(mut doctor: Command, id: &str, code: i32) -> (String, String) {
    doctor.args(["doctor", "--json"]);
    let printed = output(doctor);
    assert_eq!(printed.status.code(), Some(code), "{printed:?}");
    let printed = out(&printed);
    let mut checks =
        printed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let check = checks.find(|check| check["id"] == id).expect(id);
    let word = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
    (word("state"), format!("{} -- {}", word("detail"), word("remedy")))
}

#[test]
fn doctor_mends_the_file_of_a_service_that_is_gone() {
    let sandbox = Sandbox::empty();
    let file = sandbox.home().join("service.toml");
    paths::make_private_dir(&sandbox.home()).unwrap();
    let gone = "endpoint = \"/nobody\"\nhome = \"/nobody\"\naccount = \"0\"\n";
    let gone = gone.replace("\"/", if SYSTEM == "windows" { "\"C:/" } else { "\"/" });
    paths::write_private_file(&file, gone.as_bytes()).unwrap();
    let doctor = |option: &[&str], code| {
        let mut doctor = vec!["doctor", "--json"];
        doctor.extend(option);
        out(&run(&sandbox, &doctor, code))
    };
    assert!(doctor(&[], FAILED).contains("although"));
    assert!(file.exists());
    doctor(&["--mend"], DONE);
    assert!(!file.exists());
    assert!(!doctor(&[], DONE).contains("\"service\""));
}

#[test]
fn doctor_finds_a_home_that_cannot_be_made() {
    let sandbox = Sandbox::empty();
    let file = sandbox.directory().join("file");
    fs::write(&file, "").unwrap();
    let below = |home: &Path| {
        let mut command = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
        command.arg("--endpoint").arg(sandbox.endpoint().as_text()).arg("--home").arg(home);
        command
    };
    for home in [file.join("x"), file.join("x").join("y")] {
        let (state, words) = check(below(&home), "home", FAILED);
        assert_eq!(state, "fail");
        assert!(words.contains("file is not a directory -- choose another"), "{words}");
        let mut up = below(&home);
        up.arg("up");
        assert_eq!(output(up).status.code(), Some(FAILED));
    }
    // A daemon's lock on its endpoint is in the default home, even if the daemon has another home.
    let mut command = below(&sandbox.home());
    for name in ["HOME", "LOCALAPPDATA", "XDG_STATE_HOME"] {
        command.env(name, &file);
    }
    let (state, words) = check(command, "locks", FAILED);
    assert_eq!(state, "fail");
    assert!(words.contains("file is not a directory -- "), "{words}");
    assert_eq!(fs::read_dir(sandbox.directory()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn unusable_endpoint_is_reported_with_a_remedy() {
    let sandbox = Sandbox::empty();
    let nowhere = sandbox.directory().join("nowhere").join("s");
    let file = sandbox.directory().join("file");
    fs::write(&file, "").unwrap();
    let at = |endpoint: &Path| {
        let mut command = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
        command.arg("--endpoint").arg(endpoint).arg("--home").arg(sandbox.home());
        command
    };
    let (state, words) = check(at(&nowhere), "endpoint", FAILED);
    assert_eq!(state, "fail");
    assert!(words.contains("there is no directory"), "{words}");
    let (state, words) = check(at(&file), "endpoint", FAILED);
    assert_eq!(state, "fail");
    assert!(words.contains("is not a socket"), "{words}");
    let (state, words) = check(at(&file), "daemon", FAILED);
    assert_eq!(state, "fail");
    assert!(words.contains("move it away") && !words.contains("--replace"), "{words}");
    for line in [&["up"][..], &["send", "Bob", "x"]] {
        let mut command = at(&nowhere);
        command.args(line);
        let failed = err(&output(command));
        assert!(
            failed.contains("there is no directory")
                && failed.ends_with("choose another endpoint\n"),
            "{failed}"
        );
    }
}

#[test]
fn colours_are_for_terminals_without_no_color() {
    let sandbox = Sandbox::empty();
    let exe = std::path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    let exe = exe.to_str().unwrap();
    for (script, coloured) in [
        (format!("unset NO_COLOR; '{exe}' doctor"), true),
        (format!("export NO_COLOR=1; '{exe}' doctor"), false),
        (format!("unset NO_COLOR; '{exe}' doctor | cat"), false),
    ] {
        let terminal = Terminal::run(&sandbox, &["sh", "-c", &script]);
        terminal.wait_until("the last check", |screen| screen.contains(" terminal "));
        let bytes = String::from_utf8(terminal.bytes()).unwrap();
        assert_eq!(bytes.contains("\u{1b}["), coloured, "{script}: {bytes:?}");
        assert_eq!(terminal.finish(), DONE);
    }
}

#[test]
fn home_alone_names_its_own_daemon() {
    let sandbox = Sandbox::new();
    let other = sandbox.directory().join("other");
    paths::make_private_dir(&other).unwrap();
    // The daemon of another home may listen at the endpoint that this home's last daemon had.
    fs::write(other.join("endpoint"), sandbox.endpoint().as_text()).unwrap();
    let relay = |home: &Path, line: &[&str], code| {
        let mut relay = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
        relay.env("AGENT_RELAY_HOME", home).args(line);
        let ended = output(relay);
        assert_eq!(ended.status.code(), Some(code), "{line:?}: {ended:?}");
        ended
    };
    assert_eq!(out(&relay(&other, &["down"], DONE)), "no daemon was up\n");
    run(&sandbox, &["status"], DONE);
    for home in [other, sandbox.directory().join("third")] {
        let none = "; none has run in the home that AGENT_RELAY_HOME names: start one";
        assert!(err(&relay(&home, &["agents"], FAILED)).contains(none));
        relay(&home, &["send", "Bob", "for the agent of this home"], NOT_DELIVERED);
        let status = out(&relay(&home, &["status", "--json"], DONE));
        let own = serde_json::to_string(&home).unwrap();
        assert!(status.contains(&format!("\"home\":{own}")), "{status}");
        // Another home's daemon is used if its endpoint is named, with a notice.
        let endpoint = sandbox.endpoint();
        let used = relay(&home, &["--endpoint", endpoint.as_text(), "agents"], DONE);
        assert!(err(&used).contains("has another home, and you are a guest there"), "{used:?}");
        relay(&home, &["down"], DONE);
        let plain = "; start one with `agent-relay up`\n";
        assert!(err(&relay(&home, &["agents"], FAILED)).ends_with(plain));
    }
    let own = run(&sandbox, &["agents"], DONE);
    assert_eq!((err(&own), out(&own).contains("Bob")), (String::new(), false), "{own:?}");
}

#[test]
fn failed_start_of_a_daemon_is_explained() {
    let sandbox = Sandbox::empty();
    paths::make_private_dir(&sandbox.home()).unwrap();
    fs::write(sandbox.home().join("config.toml"), "\nheartbeat = 1\n").unwrap();
    for line in [["up"], ["status"]] {
        let failed = err(&run(&sandbox, &line, FAILED));
        assert!(failed.contains("config.toml:2: unknown key \"heartbeat\""), "{failed}");
    }
    let report = out(&run(&sandbox, &["doctor", "--json"], FAILED));
    assert!(report.contains(r#""id":"config","state":"fail""#), "{report}");
    fs::remove_file(sandbox.home().join("config.toml")).unwrap();
    fs::remove_dir_all(sandbox.home()).unwrap();
    fs::write(sandbox.home(), "not a directory").unwrap();
    let failed = err(&run(&sandbox, &["up"], FAILED));
    assert!(failed.contains("is not a directory"), "{failed}");
    let report = out(&run(&sandbox, &["doctor"], FAILED));
    assert!(report.contains("is not a directory -- choose another"), "{report}");
}

#[test]
fn refused_daemon_is_explained_by_its_own_words() {
    let sandbox = Sandbox::new();
    let log = sandbox.home().join("daemon.log");
    fs::write(&log, "").unwrap();
    let mut up = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
    let other = Endpoint::inside(sandbox.directory(), "other").unwrap();
    up.arg("--home").arg(sandbox.home()).args(["--endpoint", other.as_text(), "up"]);
    let is_over = AtomicBool::new(false);
    let refused = thread::scope(|scope| {
        // Lines as the running daemon writes them.
        scope.spawn(|| {
            until("the second daemon is refused", || {
                let mut log = fs::File::options().append(true).open(&log).unwrap();
                log.write_all(b"2026-11-30T10:51:24.123456Z 1  WARN a line of another\n").unwrap();
                is_over.load(Ordering::Relaxed)
            });
        });
        let refused = output(up);
        is_over.store(true, Ordering::Relaxed);
        refused
    });
    assert_eq!(refused.status.code(), Some(FAILED), "{refused:?}");
    let running = format!("is already running at {}: ", sandbox.endpoint());
    assert!(err(&refused).contains(&running), "{refused:?}");
    let mut down = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
    down.arg("--home").arg(sandbox.home()).args(["--endpoint", other.as_text(), "down"]);
    let named = format!("name its endpoint: --endpoint {}\n", quoted(sandbox.endpoint()));
    assert!(err(&output(down)).ends_with(&named));
    assert!(!err(&refused).contains("another\n"), "{refused:?}");
}

#[test]
fn removed_directory_is_named_by_commands_that_need_one() {
    if SYSTEM == "windows" {
        return; // A process's working directory cannot be removed.
    }
    let sandbox = Sandbox::new();
    let run_in_removed = |line: &[&str]| {
        let mut relay = sandbox.program(env!("CARGO_BIN_EXE_agent-relay"));
        relay.env("AGENT_RELAY_ENDPOINT", sandbox.endpoint().as_text());
        relay.env("AGENT_RELAY_HOME", sandbox.home()).args(line);
        let mut shell = sandbox.program("sh");
        shell.args(["-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"", "sh"]);
        shell.envs(relay.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.arg(relay.get_program()).args(relay.get_args());
        output(shell)
    };
    for line in [
        &["agents", "--here"][..],
        &["spawn", "Cid", "--", "sleep", "5"],
        &["run", "Cid", "--", "sleep", "5"],
        &["claude", "--version"],
        &["--home", "relative", "agents"],
        &["spawn", "Cid", "--cwd", "/", "--key-file", "relative", "--", "sleep", "5"],
    ] {
        let refused = run_in_removed(line);
        assert_ne!(refused.status.code(), Some(DONE), "{line:?}: {refused:?}");
        let said = "the current directory was removed; change to one that exists";
        assert!(err(&refused).contains(said), "{line:?}: {refused:?}");
    }
    let root = ["spawn", "Cid", "--cwd", "/", "--", "sh", "-c", "read x"];
    for line in [&["agents"][..], &["send", "@operator", "x"], &root, &["stop", "Cid"]] {
        let ended = run_in_removed(line);
        assert_eq!(ended.status.code(), Some(DONE), "{line:?}: {ended:?}");
    }
}

#[test]
fn broken_configuration_does_not_affect_a_running_daemon() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    fs::write(sandbox.home().join("config.toml"), "heartbeat = 1\n").unwrap();
    let printed = err(&run(&sandbox, &["send", "Bob", "hello"], DONE));
    assert!(
        printed.contains("config.toml:1: unknown key") && printed.lines().count() == 1,
        "{printed}"
    );
    assert_eq!(bob.expect("DELIVER")["payload"]["body"], "hello");
    run(&sandbox, &["up"], FAILED);
    run(&sandbox, &["down"], DONE);
    let printed = err(&run(&sandbox, &["send", "Bob", "hello"], FAILED));
    assert!(
        printed.contains("the daemon did not start") && printed.contains("unknown key"),
        "{printed}"
    );
}

#[test]
fn importance_reaches_the_recipient() {
    let sandbox = Sandbox::new();
    let mut bob = sandbox.join("Bob");
    run(&sandbox, &["send", "--importance", "100", "Bob", "now"], DONE);
    assert_eq!(bob.expect("DELIVER")["payload_meta"]["importance"], 100);
    let question = ["ask", "--importance", "76", "--timeout", "100ms", "Bob", "now?"];
    run(&sandbox, &question, TIMED_OUT);
    assert_eq!(bob.expect("DELIVER")["payload_meta"]["importance"], 76);
    run(&sandbox, &["send", "Bob", "whenever"], DONE);
    assert_eq!(bob.expect("DELIVER")["payload_meta"].get("importance"), None);
}

#[test]
fn doctor_checks_the_policy_and_the_store() {
    let mut sandbox = Sandbox::empty();
    paths::make_private_dir(&sandbox.home()).unwrap();
    let (policy, store) = (sandbox.home().join("policy.toml"), sandbox.home().join("relay.db"));
    let check = |id: &str, sandbox: &Sandbox, code| {
        let (state, words) = check(sandbox.command([""; 0]), id, code);
        (state, words.split(" -- ").next().unwrap_or_default().to_owned())
    };
    paths::write_private_file(&policy, b"[[rule]]\nallow = nope\n").unwrap();
    let (state, detail) = check("policy", &sandbox, FAILED);
    assert_eq!(state, "fail");
    assert!(
        detail.ends_with("policy.toml:2: a value is a number, true, false, or a text in quotes")
    );
    paths::write_private_file(&policy, b"[[rule]]\nallow = true\n").unwrap();
    assert_eq!(check("policy", &sandbox, DONE).0, "ok");

    let rubbish = "no database at all ".repeat(300);
    fs::write(&store, &rubbish).unwrap();
    let (state, detail) = check("store", &sandbox, FAILED);
    assert_eq!(state, "fail");
    assert!(detail.contains("relay.db: file is not a database"), "{detail}");
    assert_eq!(fs::read_to_string(&store).unwrap(), rubbish);

    sandbox.start();
    let (state, detail) = check("store", &sandbox, DONE);
    assert_eq!(state, "warn");
    assert!(detail.contains("was damaged"), "{detail}");
    sandbox.kill();
    let (state, detail) = check("store", &sandbox, DONE);
    assert_eq!(state, "warn");
    assert!(detail.starts_with("relay.db.damaged-"), "{detail}");
}

#[test]
fn body_arrives_byte_for_byte() {
    let sandbox = known(&["Bob"]);
    let body = "from a file\r  \u{e4}\u{1f600} \"quoted\" \\ end\n";
    let file = sandbox.directory().join("body.txt");
    fs::write(&file, body).unwrap();
    run(&sandbox, &["send", "Bob", "- a word"], DONE);
    run(&sandbox, &["send", "--as", "Ann", "bob", "help"], DONE);
    run(&sandbox, &["send", "Bob", "--file", file.to_str().unwrap()], DONE);
    run_with(&sandbox, &["send", "--as=Ann", "Bob", "-"], body.as_bytes(), DONE);
    let received = run(&sandbox, &["listen", "--as", "Bob", "--count", "4", "--json"], DONE);
    let received: Vec<serde_json::Value> =
        out(&received).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let bodies: Vec<_> =
        received.iter().map(|deliver| deliver["payload"]["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["- a word", "help", body, body]);
    assert_eq!(received[0]["schema"], "agent-relay.deliver/1");
    assert_eq!((&received[1]["from"], &received[3]["from"]), (&"Ann".into(), &"Ann".into()));
    let left = out(&run(&sandbox, &["agents", "--json"], DONE));
    assert!(left.lines().all(|line| line.contains(r#""queued":0"#)), "{left}");
}

#[test]
fn undelivered_message_has_its_own_exit_code() {
    let sandbox = known(&["Bob"]);
    let alone = err(&run(&sandbox, &["send", "Zoe", "x"], NOT_DELIVERED));
    assert!(alone.ends_with("; nobody is here now\n"), "{alone}");
    let _carol = sandbox.join("Carol");
    let unknown = err(&run(&sandbox, &["send", "Karol", "x"], NOT_DELIVERED));
    assert!(unknown.contains("no agent Karol was ever here"), "{unknown}");
    assert!(unknown.contains("did you mean \"Carol\"?"), "{unknown}");
    let away = err(&run(&sandbox, &["send", "--no-ack", "Bob", "x"], NOT_DELIVERED));
    assert!(away.contains("Bob is away"), "{away}");
    let waits = out(&run(&sandbox, &["send", "Bob", "x"], DONE));
    assert!(waits.contains(": Bob is away (kept for "), "{waits}");
    run(&sandbox, &["send", "--no-ack", "Carol", "x"], DONE);
    let large = vec![b'x'; 2_000_000];
    let large = err(&run_with(&sandbox, &["send", "Carol", "-"], &large, NOT_DELIVERED));
    assert!(large.contains("bytes"), "{large}");
    run_with(&sandbox, &["send", "Carol", "-"], b"\xff", FAILED);
}

#[test]
fn each_of_several_recipients_has_its_line_and_the_first_failure_its_code() {
    let sandbox = known(&["Bob"]);
    let mut carol = sandbox.join("Carol");
    let sent = run(&sandbox, &["send", "Carol,Zoe, bob,CAROL", "one"], NOT_DELIVERED);
    let lines = out(&sent);
    let lines: Vec<_> = lines.lines().collect();
    assert!(lines[0].ends_with(" for Carol") && lines[1].contains(": bob is away"), "{sent:?}");
    assert_eq!(lines.len(), 2, "{sent:?}");
    let failed = err(&sent);
    assert!(failed.contains("no agent Zoe was ever here"), "{failed}");
    assert_eq!(failed.lines().count(), 1, "{failed}");
    assert_eq!(carol.expect("DELIVER")["payload"]["body"], "one");

    let sent = run(&sandbox, &["send", "--json", "Zoe,Carol", "two"], NOT_DELIVERED);
    let objects: Vec<serde_json::Value> =
        out(&sent).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects[0]["schema"], "agent-relay.error/1");
    assert_eq!((&objects[1]["to"], &objects[1]["state"]), (&"Carol".into(), &"accepted".into()));
    assert_eq!(objects.len(), 2);
    // Carol has got nothing else in between: names count once.
    assert_eq!(carol.expect("DELIVER")["payload"]["body"], "two");
}

#[test]
fn send_waits_for_a_full_recipient_and_then_reports_it() {
    let sandbox = Sandbox::with_config("queue_max_messages = 2\n");
    sandbox.join("Bob").leave();
    run(&sandbox, &["send", "--as", "Ann", "Bob", "1"], DONE);
    let busy = run(&sandbox, &["send", "--as", "Ann", "--timeout", "300ms", "Bob", "2"], TIMED_OUT);
    assert!(err(&busy).contains("no room"), "{busy:?}");
}

#[test]
fn topic_reaches_its_subscribers() {
    let sandbox = Sandbox::new();
    let mut listener =
        sandbox.command(["listen", "--as", "Bob", "--topic", "build.*", "--count", "1"]);
    let listening = thread::spawn(move || {
        listener.stdin(Stdio::null());
        output(listener)
    });
    // No event shows that Bob has subscribed, so messages are sent until one has a recipient.
    let line = ["send", "--json", "--topic", "build.linux", "*", "it is green"];
    until("Bob hears it", || out(&sandbox.run(line)).contains(r#""recipients":1"#));
    let received = listening.join().unwrap();
    assert!(out(&received).ends_with(" on build.linux: it is green\n"), "{received:?}");
}

#[test]
fn listener_survives_a_crash_of_the_daemon() {
    let mut sandbox = known(&["Bob"]);
    let line = ["listen", "--as", "Bob", "--topic", "news", "--count", "1"];
    let mut command = sandbox.command(line);
    let mut listening = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let news = ["send", "--json", "--topic", "news", "*", "heard"];
    until("Bob has subscribed", || {
        out(&run(&sandbox, &["agents", "--json"], DONE)).contains(r#""subscriptions":1"#)
    });
    sandbox.kill();
    sandbox.start();
    // A recipient shows that Bob has reconnected and subscribed again.
    until("Bob hears it", || out(&run(&sandbox, &news, DONE)).contains(r#""recipients":1"#));
    assert_eq!(wait(&mut listening, "the listener").code(), Some(DONE));
}

#[test]
fn received_text_cannot_control_the_terminal() {
    let sandbox = known(&["Bob"]);
    let text = "a\x1b]0;title\x07b\u{202e}c\nAnn: forged";
    run_with(&sandbox, &["send", "--as", "Ann", "Bob", "-"], text.as_bytes(), DONE);
    let received = out(&run(&sandbox, &["listen", "--as", "Bob", "--count", "1"], DONE));
    let (_, received) = received.split_once(" Ann: ").unwrap();
    assert_eq!(received, "a\\u{1b}]0;title\\u{7}b\\u{202e}c\n    Ann: forged\n");
}

/// Otherwise a script would send the message again.
#[test]
fn message_counts_as_sent_if_its_id_cannot_be_printed() {
    // Only Linux has `/dev/full`, which refuses every write.
    if SYSTEM != "linux" {
        return;
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let sandbox = Sandbox::new();
    let bob = sandbox.join("Bob");
    let mut command = sandbox.command(["send", "Bob", "hello"]);
    command.stdout(full).stderr(Stdio::piped());
    let sent = command.spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(sent.status.code(), Some(DONE), "{sent:?}");
    assert!(err(&sent).contains("; the message is sent"), "{sent:?}");
    drop(bob);
}

#[test]
fn usage_errors_name_the_mistake_and_the_remedy() {
    let sandbox = Sandbox::empty();
    let long = "t".repeat(257);
    let empty = sandbox.directory().join("empty");
    fs::write(&empty, "\n").unwrap();
    let empty = empty.to_str().unwrap();
    for (line, words) in [
        (&["stauts"][..], "did you mean `agent-relay status`?"),
        (&["send", "Bob"], "no text; give one: send Bob \"hello\""),
        (&["send", "Bob", " \n"], "no text; give one: send Bob \"hello\""),
        (&["ask", "Bob", ""], "no text; give one: ask Bob \"hello\""),
        (&["send", "Bob", "-"], "no text; give one: send Bob \"hello\""),
        (&["send", "Bob", "--file", empty], "empty is empty"),
        (&["send", "Bob", "two", "words"], "quote the text: send Bob \"two words\""),
        (&["send"], "give the name of an agent, or *: send TO [BODY]"),
        (&["send", "Bob,", "y"], "\"Bob,\" lacks a name; name agents as in Ann,Bob"),
        (&["send", "Bob,*", "y"], "* is everyone already; leave the other names out"),
        (&["stop"], "give the name of an agent: stop AGENT [AGENT...]"),
        (&["listen", "--as", "Bob", "--count", "-1"], "--count \"-1\": give a whole number"),
        (&["send", "--as", "@x", "Bob", "y"], "a name is made of"),
        (&["listen", "--as", "Bob", "--count", "0"], "--count \"0\": give a whole number"),
        (&["send", "--importance", "101", "Bob", "y"], "a whole number from 0 to 100"),
        (&["ask", "--importance", "-1", "Bob", "y"], "a whole number from 0 to 100"),
        (&["send", "--thread", &long, "Bob", "y"], "a label of at most 256 bytes"),
        (&["send", "--ttl", "1w", "Bob", "y"], "a bare number is seconds"),
        (&["send", "--ttl", "0s", "Bob", "y"], "--ttl \"0s\": give more than 0"),
        (
            &["history", "--limit", "0"],
            "--limit \"0\": give a whole number of messages, 1 at least",
        ),
        (&["history", "--search", ""], "--search has no word in it"),
        (&["history", "--search", " -- "], "--search has no word in it"),
        (&["send", "--topic", "a.*", "*", "y"], "are for subscriptions"),
        (&["listen"], "agent-relay help listen"),
        (&["listen", "--as", "Bob", "--topic", "a..b"], "none of them empty"),
        (&["run", "-n", "root", "--", "x"], "reserved"),
        (&["run", "-n", "Ann"], "no command to run"),
        (&["policy", "relaod"], "did you mean `agent-relay policy reload`?"),
        (&["policy", "key", "root"], "name \"root\": this name is reserved"),
        (&["completions", "tcsh"], "bash, zsh, fish and powershell"),
    ] {
        let failed = err(&run(&sandbox, line, USAGE));
        assert!(failed.contains(words), "{line:?}: {failed}");
        assert_eq!(failed.lines().count(), 1, "{failed}");
    }
    assert!(!sandbox.home().exists(), "nothing was started");
}

#[test]
fn missing_command_shows_the_help() {
    let sandbox = Sandbox::empty();
    let asked = out(&run(&sandbox, &["--help"], DONE));
    assert_eq!(err(&run(&sandbox, &[], USAGE)), asked);
    assert!(asked.contains("\n  agent-relay claude\n"), "{asked}");
    let all = out(&run(&sandbox, &["help", "all"], DONE));
    assert!(all.contains("\nMessages:\n  send    "), "{all}");
}

#[test]
fn bench_forgets_its_agents() {
    let sandbox = Sandbox::new();
    let report = out(&run(&sandbox, &["bench", "--quick", "--json"], DONE));
    assert!(report.contains(r#""name":"fan-out, 256 bytes, 1 to 50""#), "{report}");
    run(&sandbox, &["bench", "--quick", "--ack"], DONE);
    assert_eq!(out(&run(&sandbox, &["agents", "--json"], DONE)), "");
}

#[test]
fn demo_leaves_no_lock() {
    let sandbox = Sandbox::empty();
    run(&sandbox, &["demo"], DONE);
    let mut left = Vec::new();
    let mut folders = vec![sandbox.directory().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => left.push(entry.path()),
            }
        }
    }
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn program_that_attacks_measures_and_leaves_nothing() {
    let sandbox = Sandbox::empty();
    let mut bench = sandbox.program(example_program("attacks"));
    bench.args(["--quick", "--json"]);
    let temporary = sandbox.directory().join("temporary");
    paths::make_private_dir(&temporary).unwrap();
    for name in ["TMPDIR", "TEMP", "TMP"] {
        bench.env(name, &temporary);
    }
    let bench = output(bench);
    assert!(bench.status.success(), "{bench:?}");
    let report: serde_json::Value = serde_json::from_str(&out(&bench)).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 36);
    for row in rows {
        assert!(row["idle"]["p99"].as_f64() > Some(0.0), "{row}");
        assert!(row["held"].is_boolean() && row["stop_ms"].is_u64(), "{row}");
        assert_eq!(row["refusal"], serde_json::Value::Null, "{row}");
        // The limit of the memory, and the memory that does not count.
        assert!(row["resident_mib"].as_u64().is_none_or(|mib| mib <= 512 + 64), "{row}");
    }
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn name_in_use_is_reported() {
    let sandbox = Sandbox::new();
    let _ann = sandbox.join("Ann");
    let program = fullscreen();
    for line in [&["listen", "--as", "ann"][..], &["run", "-n", "Ann", "--", &program]] {
        let refused = err(&run(&sandbox, line, FAILED));
        assert!(refused.contains("is connected already"), "{refused}");
    }
}

#[test]
fn closed_pipe_is_not_a_failure() {
    let sandbox = Sandbox::empty();
    for line in [&["help"][..], &["completions", "bash"], &["--version"]] {
        let mut command = sandbox.command(line);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(writer).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(command);
        assert_eq!(child.wait().unwrap().code(), Some(DONE), "{line:?}");
    }
}

#[test]
fn tap_shows_routed_messages() {
    let sandbox = known(&["Bob"]);
    let mut command = sandbox.command(["tap", "--json"]);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut tap = command.stdout(writer).spawn().unwrap();
    drop(command);
    let tapping = thread::spawn(move || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(reader), &mut line).unwrap();
        line
    });
    // No event shows that the tap is active, so messages are sent until one is shown.
    until("the tap shows it", || {
        run(&sandbox, &["send", "--as", "Ann", "Bob", "tapped"], DONE);
        tapping.is_finished()
    });
    tap.kill().unwrap();
    tap.wait().unwrap();
    let copy: serde_json::Value = serde_json::from_str(&tapping.join().unwrap()).unwrap();
    assert_eq!((&copy["from"], &copy["to"]), (&"Ann".into(), &"Bob".into()));
    assert_eq!(copy["payload"]["body"], "tapped");
}

#[test]
fn demo_succeeds_and_leaves_nothing() {
    let sandbox = Sandbox::empty();
    let demo = run(&sandbox, &["demo"], DONE);
    assert!(out(&demo).ends_with("4 of 4 messages arrived, word for word\n"), "{demo:?}");
    assert!(!sandbox.home().exists());
    let readme = include_str!("../../README.md").replace('\r', "");
    assert!(readme.contains(&out(&demo)), "README.md shows another conversation: {demo:?}");
}

/// The demo has a separate daemon, with a person's identity.
#[test]
fn demo_succeeds_inside_a_wrapped_agent_and_leaves_nothing() {
    let sandbox = Sandbox::empty();
    let temporary = sandbox.directory().join("t");
    fs::create_dir(&temporary).unwrap();
    let key = sandbox.directory().join("key");
    paths::write_private_file(&key, "0".repeat(64).as_bytes()).unwrap();
    let mut demo = sandbox.command(["demo"]);
    demo.env("AGENT_RELAY_AGENT", "Ann").env("AGENT_RELAY_KEY_FILE", &key);
    for name in ["TMPDIR", "TEMP", "TMP"] {
        demo.env(name, &temporary);
    }
    let demo = output(demo);
    assert_eq!(demo.status.code(), Some(DONE), "{demo:?}");
    assert!(out(&demo).ends_with("4 of 4 messages arrived, word for word\n"), "{demo:?}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "its daemon's directory is gone");
}

#[test]
fn wrapped_command_keeps_its_messages_and_exit_code() {
    let sandbox = known(&["Bob"]);
    let program = env!("CARGO_BIN_EXE_agent-relay-wrap");
    let recording = sandbox.directory().join("recording");
    fs::File::create(&recording)
        .unwrap()
        .write_all(b"->relay:Bob <<<\r\ntwo\r\nlines>>>\r\nmore\r\n")
        .unwrap();
    let mut extract = sandbox.program(program);
    extract.args(["extract", "--cols=80"]).arg(&recording);
    let extracted = output(extract);
    assert_eq!(out(&extracted), "{\"body\":\"two\\nlines\",\"to\":\"Bob\"}\n", "{extracted:?}");
    // The command is this program, which every system has.
    let exe = std::path::absolute(env!("CARGO_BIN_EXE_agent-relay")).unwrap();
    run(&sandbox, &["run", "-n", "Ann", "--", exe.to_str().unwrap(), "nonsense"], USAGE);
}

#[test]
fn gemini_extension_takes_only_a_free_directory() {
    let sandbox = Sandbox::empty();
    let (directory, other) =
        (sandbox.directory().join("a/extension"), sandbox.directory().join("b"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("mine"), "").unwrap();
    let write =
        |path: &Path, code| run(&sandbox, &["gemini-extension", path.to_str().unwrap()], code);
    if SYSTEM == "windows" {
        let said = err(&write(&directory, FAILED));
        assert!(said.contains("Gemini CLI's hooks were never tried on Windows"), "{said}");
        return;
    }
    // First a new directory, then one with the extension.
    for _ in 0..2 {
        let said = out(&write(&directory, DONE));
        let remedy = format!("gemini extensions link {}\n", directory.display());
        assert!(said.ends_with(&remedy), "{said}");
    }
    let hooks = fs::read_to_string(directory.join("hooks/hooks.json")).unwrap();
    assert!(hooks.contains("'hook' 'gemini' AfterTool"), "{hooks}");
    let said = err(&write(&other, FAILED));
    assert!(said.contains("/b holds something else; name an empty or a new directory"), "{said}");
    let file = other.join("mine");
    let said = err(&write(&file, FAILED));
    assert!(said.contains("/b/mine") && said.contains("directory"), "{said}");
}
