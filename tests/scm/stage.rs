//! Where the tests play: both executables in a directory of their own that only administrators write, and a
//! user's own home. Cleared at the end, with whatever is installed.

use platform::{
    peer::User,
    service::{self, State},
};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Nothing takes longer; the service manager itself gives up after half a minute.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A machine has one such service.
static ONE: Mutex<()> = Mutex::new(());

pub(crate) struct Stage {
    programs: PathBuf,
    /// Stands in for `%LOCALAPPDATA%`.
    local: PathBuf,
    _one: MutexGuard<'static, ()>,
}

impl Stage {
    pub(crate) fn set() -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(
            service::installed().unwrap().is_none(),
            "somebody's own service is installed here"
        );
        let id = format!("agent relay {}", std::process::id());
        let programs = PathBuf::from(std::env::var_os("ProgramFiles").unwrap()).join(&id);
        let local = std::env::temp_dir().join(&id);
        fs::create_dir_all(&programs).unwrap();
        platform::paths::make_private_dir(&local).unwrap();
        let built = [env!("CARGO_BIN_EXE_agent-relay"), env!("CARGO_BIN_EXE_agent-relayw")];
        for (from, name) in built.iter().zip(["agent-relay.exe", "agent-relayw.exe"]) {
            fs::copy(from, programs.join(name)).unwrap();
        }
        Self { programs, local, _one: one }
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.programs.join("agent-relay.exe")
    }

    pub(crate) fn own_home(&self) -> PathBuf {
        self.local.join("agent-relay")
    }

    /// How the system says that it is.
    pub(crate) fn state(&self) -> State {
        service::installed().unwrap().expect("it is installed").state
    }

    #[track_caller]
    pub(crate) fn succeeds<const N: usize>(&self, arguments: [&str; N]) -> Output {
        let output = self.run(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", self.told(&output));
        output
    }

    #[track_caller]
    pub(crate) fn fails<const N: usize>(&self, arguments: [&str; N]) -> Output {
        let output = self.run(&arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", self.told(&output));
        output
    }

    #[track_caller]
    pub(crate) fn text<const N: usize>(&self, arguments: [&str; N]) -> String {
        String::from_utf8(self.succeeds(arguments).stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn json<const N: usize>(&self, arguments: [&str; N]) -> Value {
        serde_json::from_str(&self.text(arguments)).unwrap()
    }

    /// The same in a terminal that leads commands to another daemon.
    #[track_caller]
    pub(crate) fn json_elsewhere<const N: usize>(&self, arguments: [&str; N]) -> Value {
        let mut command = self.command(&arguments);
        command.env("AGENT_RELAY_HOME", self.local.join("other"));
        command.env("AGENT_RELAY_ENDPOINT", r"\\.\pipe\agent-relay-nowhere");
        let output = watched(command);
        assert!(output.status.success(), "{arguments:?}: {}", self.told(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// An agent that hears one message.
    pub(crate) fn listen(&self, name: &str) -> Listening {
        let mut command = self.command(&["listen", "--as", name, "--count", "1"]);
        Listening(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// What is under a key of the registry, if there is one.
    pub(crate) fn registry(&self, key: &str) -> Option<String> {
        let output = Command::new("reg.exe").args(["query", key, "/s"]).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What one of the system's own programs says, which has to succeed.
    #[track_caller]
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {text}");
        text
    }

    /// As an update does, once nothing runs the old one.
    pub(crate) fn replace_program(&self) {
        until("nothing runs it", || fs::remove_file(self.program()).is_ok());
        fs::copy(env!("CARGO_BIN_EXE_agent-relay"), self.program()).unwrap();
    }

    pub(crate) fn let_everybody_change_the_program(&self) {
        let program = self.program().display().to_string();
        self.tool("icacls.exe", &[&program, "/grant", "*S-1-1-0:(M)"]);
    }

    pub(crate) fn let_the_owner_change_the_programs(&self) {
        let programs = self.programs.display().to_string();
        let grant = format!("*{}:(OI)(CI)(M)", User::me().unwrap());
        self.tool("icacls.exe", &[&programs, "/grant", &grant]);
    }

    /// What a task runs, as the user himself has it.
    pub(crate) fn supervise(&self) -> Child {
        let mut command = self.command_of("agent-relayw.exe", &["--as-agent-relay", "--home"]);
        command.arg(self.own_home()).args(["up", "--foreground", "--supervised"]);
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    /// How it went with the same program in another place.
    pub(crate) fn run_elsewhere(&self, arguments: &[&str]) -> Output {
        let other = self.programs.join("other");
        fs::create_dir_all(&other).unwrap();
        fs::copy(self.program(), other.join("agent-relay.exe")).unwrap();
        watched(self.command_of(r"other\agent-relay.exe", arguments))
    }

    /// The same, where a junction leads there.
    pub(crate) fn run_through_a_link(&self, arguments: &[&str]) -> Output {
        let [there, link] = ["there", "link"].map(|name| self.programs.join(name));
        fs::create_dir_all(&there).unwrap();
        fs::copy(self.program(), there.join("agent-relay.exe")).unwrap();
        let [there, link] = [there, link].map(|path| path.display().to_string());
        self.tool("cmd.exe", &["/c", "mklink", "/J", &link, &there]);
        watched(self.command_of(r"link\agent-relay.exe", arguments))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        watched(self.command(arguments))
    }

    fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        self.command_of("agent-relay.exe", arguments)
    }

    fn command_of(&self, program: &str, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.args(arguments).stdin(Stdio::null()).env("LOCALAPPDATA", &self.local);
        for name in ["AGENT_RELAY_HOME", "AGENT_RELAY_ENDPOINT", "AGENT_RELAY_AGENT"] {
            command.env_remove(name);
        }
        command
    }

    /// What a command said, and the service's log.
    fn told(&self, output: &Output) -> String {
        let log = service::installed().ok().flatten().and_then(|installed| {
            let home = installed.after("--home")?.to_owned();
            fs::read_to_string(Path::new(&home).join("daemon.log")).ok()
        });
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        format!("{out}{}\n--- log\n{}", sentence(output), log.unwrap_or_default())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Perhaps one on its own.
        self.run(&["down"]);
        let removed = self.run(&["service", "uninstall"]);
        let site = service::site(None).unwrap().expect("this system has them");
        let left = [fs::remove_dir_all(&self.local), fs::remove_dir_all(&self.programs)];
        let _ = fs::remove_dir_all(&site.home);
        if !removed.status.success() || left.iter().any(Result::is_err) {
            eprintln!("something stays: {} {left:?}", sentence(&removed));
        }
    }
}

/// Runs a command to its end, under the watchdog.
#[track_caller]
fn watched(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ending = thread::spawn(move || child.wait_with_output().unwrap());
    let end = Instant::now() + WATCHDOG;
    while !ending.is_finished() {
        assert!(Instant::now() < end, "{command:?} does not end");
        thread::sleep(Duration::from_millis(10));
    }
    ending.join().unwrap()
}

/// A process that hears.
pub(crate) struct Listening(Child);

impl Listening {
    #[track_caller]
    pub(crate) fn heard(mut self) -> String {
        until("it has heard", || self.0.try_wait().unwrap().is_some());
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What a command said where errors go.
pub(crate) fn sentence(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn path(value: &Value) -> PathBuf {
    PathBuf::from(value.as_str().unwrap())
}

/// The SID of `NT SERVICE\agent-relay`.
pub(crate) fn account() -> &'static str {
    "S-1-5-80-722816291-908252167-3255456494-1261689126-2257521638"
}

/// For what tells nobody that it has come: looks again and again, under the watchdog.
#[track_caller]
pub(crate) fn until(what: &str, mut come: impl FnMut() -> bool) {
    let end = Instant::now() + WATCHDOG;
    while !come() {
        assert!(Instant::now() < end, "it does not come that {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
