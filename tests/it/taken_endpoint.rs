//! A daemon whose configured or default endpoint belongs to another user. It listens instead at a
//! path in /tmp with its user's id.
//!
//! Each test runs under the id of a user that the system does not know, so that no other daemon
//! uses this user's path. Only root can become such a user.

use crate::{
    commands::{err, out},
    roles::open_to_others,
};
use platform::{
    endpoint::Endpoint,
    lock::Lock,
    transport::{EndpointState, Listener},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};
use testkit::{
    sandbox::{Daemon, Sandbox},
    waiting::{not_tried, output, until},
};

/// A user with a home and a daemon.
struct User<'a> {
    id: u32,
    sandbox: &'a Sandbox,
    /// The user's working directory, with the program in it.
    directory: &'a Path,
    daemon: Option<Daemon>,
}

impl<'a> User<'a> {
    /// A user with an id that differs among tests and among test processes.
    fn new(number: u32, sandbox: &'a Sandbox, directory: &'a Path) -> Self {
        let id = 10_000 + std::process::id() % 10_000 * 5 + number;
        Self { id, sandbox, directory, daemon: None }
    }

    /// Reports whether this process can become the user.
    fn is_possible(&self) -> bool {
        let mut id = self.program("id");
        id.arg("-u");
        id.output().is_ok_and(|printed| printed.stdout == format!("{}\n", self.id).as_bytes())
    }

    fn program(&self, program: &str) -> Command {
        let mut command = self.sandbox.program("setpriv");
        command.arg(format!("--reuid={}", self.id)).arg(format!("--regid={}", self.id));
        command.args(["--clear-groups", program]).current_dir(self.directory);
        for name in ["HOME", "XDG_STATE_HOME"] {
            command.env(name, self.home());
        }
        command
    }

    fn relay(&self, line: &[&str]) -> Command {
        let mut command = self.program("./agent-relay");
        command.arg("--home").arg(self.home().join("agent-relay")).args(line);
        command
    }

    fn home(&self) -> PathBuf {
        self.directory.join(self.id.to_string())
    }

    fn start(&mut self, line: &[&str]) {
        self.daemon = Some(Daemon::start(self.relay(line)));
    }

    /// The endpoint with the user's id in it.
    fn own_endpoint(&self) -> String {
        format!("/tmp/agent-relay-{}.sock", self.id)
    }

    /// The output of `status --json` without `--endpoint`.
    fn status(&self) -> Value {
        let printed = output(self.relay(&["status", "--json"]));
        serde_json::from_slice(&printed.stdout).unwrap_or_default()
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        // `down` returns once the daemon and its socket are gone.
        if self.daemon.is_some() {
            let stopped = output(self.relay(&["down"]));
            assert!(stopped.status.success() || thread::panicking(), "{stopped:?}");
        }
    }
}

/// A lock on the machine-wide default endpoint, shared with tests of other checkouts.
struct DefaultEndpointLock {
    _lock: Lock,
    path: PathBuf,
}

impl DefaultEndpointLock {
    fn take() -> Self {
        let path = std::env::temp_dir().join("agent-relay-test.lock");
        let mut taken = None;
        until("no other test uses the default endpoint", || {
            let lock = Lock::take(&path).unwrap();
            taken = lock.filter(|lock| lock.is_current().unwrap());
            taken.is_some()
        });
        Self { _lock: taken.unwrap(), path }
    }
}

impl Drop for DefaultEndpointLock {
    fn drop(&mut self) {
        fs::remove_file(&self.path).unwrap();
    }
}

#[test]
fn daemon_with_a_taken_path_moves_to_the_endpoint_of_its_user() {
    let sandbox = Sandbox::empty();
    let directory = open_to_others(&sandbox);
    let mut user = User::new(0, &sandbox, &directory);
    if !user.is_possible() {
        return not_tried("only root, with setpriv, can become another user");
    }
    let configured = Endpoint::inside(&directory, "relay").unwrap();
    user.start(&["--endpoint", configured.as_text(), "up", "--foreground"]);
    assert_eq!(user.status()["endpoint"], configured.as_text());
    fs::remove_file(configured.as_text()).unwrap();
    let taken = Listener::bind(&configured).unwrap();
    until("the daemon has moved", || user.status()["endpoint"] == user.own_endpoint());
    let status = user.status();
    let process = &status["status"]["daemon"];
    assert_eq!(
        (&process["endpoint"], &process["left"]),
        (&user.own_endpoint().into(), &configured.as_text().into())
    );
    let printed = out(&output(user.relay(&["status"])));
    assert!(printed.contains(configured.as_text()), "the old path is not printed: {printed}");
    assert_eq!(taken.endpoint_state().unwrap(), EndpointState::Mine);
}

/// Nobody else can put sockets there, but anybody can make the directory first.
#[test]
fn directory_of_short_paths_is_refused_if_another_user_made_it() {
    let sandbox = Sandbox::empty();
    let directory = open_to_others(&sandbox);
    let user = User::new(3, &sandbox, &directory);
    if !user.is_possible() {
        return not_tried("only root, with setpriv, can become another user");
    }
    let short = PathBuf::from(format!("/tmp/agent-relay-{}", user.id));
    fs::create_dir(&short).unwrap();
    let mut chown = sandbox.program("chown");
    chown.arg("65534").arg(&short);
    assert!(output(chown).status.success());
    let mut up = user.program("./agent-relay");
    up.arg("--home").arg(user.home().join("long".repeat(25))).arg("up");
    let refused = err(&output(up));
    fs::remove_dir(&short).unwrap();
    let why = format!("{} belongs to the user with id 65534; choose another", short.display());
    assert!(refused.contains(&format!("{why}, or a home with a shorter path")), "{refused}");
}

#[test]
fn daemon_uses_the_endpoint_of_its_user_if_the_default_is_taken() {
    let sandbox = Sandbox::empty();
    let directory = open_to_others(&sandbox);
    let _lock = DefaultEndpointLock::take();
    let (mut other, mut user) =
        (User::new(1, &sandbox, &directory), User::new(2, &sandbox, &directory));
    if !user.is_possible() {
        return not_tried("only root, with setpriv, can become another user");
    }
    if !fs::exists(Endpoint::shared().as_text()).unwrap() {
        other.start(&["up", "--foreground"]);
        assert_eq!(other.status()["endpoint"], Endpoint::shared().as_text());
    }
    user.start(&["up", "--foreground"]);
    let status = user.status();
    assert_eq!(status["endpoint"], user.own_endpoint());
    assert_eq!(status["status"]["daemon"].get("left"), None, "the daemon never moved");
    // Commands find the user's own endpoint even if the home does not name an endpoint.
    fs::remove_file(user.home().join("agent-relay").join("endpoint")).unwrap();
    assert_eq!(user.status()["endpoint"], user.own_endpoint());
}

#[test]
fn daemon_uses_a_private_endpoint_if_others_have_all_usual_ones() {
    let sandbox = Sandbox::empty();
    let directory = open_to_others(&sandbox);
    let _lock = DefaultEndpointLock::take();
    let mut user = User::new(4, &sandbox, &directory);
    if !user.is_possible() {
        return not_tried("only root, with setpriv, can become another user");
    }
    let _shared = (!fs::exists(Endpoint::shared().as_text()).unwrap())
        .then(|| Listener::bind(&Endpoint::shared()).unwrap());
    let _taken = Listener::bind(&Endpoint::parse(user.own_endpoint().as_ref()).unwrap()).unwrap();
    let found = out(&output(user.relay(&["doctor"])));
    assert!(found.contains("ok   endpoint") && found.contains("a private one"), "{found}");
    user.start(&["up", "--foreground"]);
    let private = user.home().join("agent-relay").join("relay.sock");
    assert_eq!(user.status()["endpoint"], private.to_str().unwrap());
}
