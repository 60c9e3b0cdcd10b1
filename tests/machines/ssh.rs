//! Machines that are joined by `bridge` and `stdio` over ssh, with an sshd of the test.

use crate::{Pair, await_presence};
use platform::process;
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
};
use testkit::{
    programs::Running,
    sandbox::Sandbox,
    waiting::{output, until},
};

const SSHD: &str = "/usr/sbin/sshd";

/// An sshd on a port of this machine, which lets this user in with a key of its own.
struct Sshd {
    directory: PathBuf,
    port: u16,
    _process: Running,
}

impl Sshd {
    fn start(sandbox: &Sandbox) -> Self {
        let directory = sandbox.directory().join("ssh");
        platform::paths::make_private_dir(&directory).unwrap();
        for key in ["host", "user"] {
            let mut keygen = sandbox.program("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(directory.join(key));
            assert!(output(keygen).status.success());
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut sshd = sandbox.program(SSHD);
        sshd.args(["-D", "-f", "/dev/null", "-E"]).arg(directory.join("log"));
        for (key, value) in [
            ("Port", port.to_string()),
            ("ListenAddress", "127.0.0.1".to_owned()),
            ("HostKey", directory.join("host").display().to_string()),
            ("AuthorizedKeysFile", directory.join("user.pub").display().to_string()),
            ("PidFile", "none".to_owned()),
            ("StrictModes", "no".to_owned()),
            ("UsePAM", "no".to_owned()),
            ("PermitRootLogin", "yes".to_owned()),
        ] {
            sshd.args(["-o", &format!("{key}={value}")]);
        }
        let process = Running::start(sshd);
        let sshd = Self { directory, port, _process: process };
        until("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        sshd
    }

    /// The words of `ssh` that run `agent-relay stdio` on the pi.
    fn ssh(&self, pi: &Sandbox) -> Vec<String> {
        let key = self.directory.join("user").display().to_string();
        let hosts = format!("UserKnownHostsFile={}", self.directory.join("known").display());
        let options = ["StrictHostKeyChecking=accept-new", "IdentitiesOnly=yes", "BatchMode=yes"];
        let user = String::from_utf8(output(pi.program("whoami")).stdout).unwrap();
        let (program, home) = (env!("CARGO_BIN_EXE_agent-relay"), pi.home().display().to_string());
        let endpoint = pi.endpoint().as_text().to_owned();
        let remote = format!(
            "{program} --home {home} --endpoint {endpoint} stdio --peer laptop --export Bob"
        );
        let mut words =
            vec!["ssh".to_owned(), "-F".to_owned(), "none".to_owned(), "-i".to_owned(), key];
        for option in options.into_iter().map(str::to_owned).chain([hosts]) {
            words.extend(["-o".to_owned(), option]);
        }
        words.extend([
            "-p".to_owned(),
            self.port.to_string(),
            "-l".to_owned(),
            user.trim().to_owned(),
        ]);
        words.extend(["127.0.0.1".to_owned(), remote]);
        words
    }
}

fn bridge(laptop: &Sandbox, ssh: &[String]) -> Command {
    let mut bridge = laptop.command(["bridge", "pi", "--export", "Ann", "--"]);
    bridge.args(ssh).stderr(Stdio::inherit());
    bridge
}

/// The ssh that a bridge runs.
fn ssh_of(bridge: &Running) -> u64 {
    process::family(bridge.0.id())[1].into()
}

#[test]
fn wrapped_agents_talk_through_ssh_though_it_is_killed() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let sshd = Sshd::start(&laptop);
    let bridge = Running::start(bridge(&laptop, &sshd.ssh(&pi)));
    await_presence(&laptop, "Bob@pi", true);
    let mut pair = Pair::wrap(&laptop, &pi);
    pair.begin("one");
    pair.await_end("one");
    // This one is on its way, or waits, while there is no ssh.
    pair.begin("two");
    laptop.signal("KILL", ssh_of(&bridge));
    pair.await_end("two");
    pair.check_frames();
}

#[test]
fn link_that_stalls_is_given_up_and_made_again() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let sshd = Sshd::start(&laptop);
    let bridge = Running::start(bridge(&laptop, &sshd.ssh(&pi)));
    await_presence(&laptop, "Bob@pi", true);
    let (mut ann, mut bob) = (laptop.join("Ann"), pi.join("Bob"));
    let stalled = ssh_of(&bridge);
    laptop.signal("STOP", stalled);
    let body = "x".repeat(900_000);
    ann.send("Bob@pi", &body, serde_json::json!({"requires_ack": true}));
    ann.expect("ACK");
    let deliver = bob.expect("DELIVER");
    assert!(deliver["payload"]["body"] == *body, "another body");
    bob.acknowledge(&deliver);
    assert_ne!(ssh_of(&bridge), stalled);
}

#[test]
fn bridge_that_ssh_does_not_let_in_says_so() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let sshd = Sshd::start(&laptop);
    fs::write(sshd.directory.join("user.pub"), "").unwrap();
    let failed = output(bridge(&laptop, &sshd.ssh(&pi)));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("pi: ") && said.contains("Permission denied"), "{said}");
    assert!(said.contains("cannot link to pi: ssh ended with code 255"), "{said}");
}

#[test]
fn program_that_is_missing_on_the_other_machine_is_named() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let sshd = Sshd::start(&laptop);
    let mut ssh = sshd.ssh(&pi);
    *ssh.last_mut().unwrap() =
        "agent-relay-that-is-missing stdio --peer laptop --export Bob".to_owned();
    let failed = output(bridge(&laptop, &ssh));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(said.contains("a command is not found, probably agent-relay on the other"), "{said}");
    *ssh.last_mut().unwrap() = "echo Welcome to this machine; sleep 100".to_owned();
    let failed = output(bridge(&laptop, &ssh));
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(
        said.contains("does not speak as a bridge, but says \"Welcome to this machine"),
        "{said}"
    );
}
