//! A copy of both executables that only administrators can write, and a home for the user.
//!
//! At the end of a test the copies and the home are removed, and an installed service is
//! uninstalled.

use platform::{
    peer::User,
    service::{self, RunState},
};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};
use testkit::waiting::{output, until};

/// A lock held by the test that has the service installed: a machine has only one such service.
static INSTALLATION: Mutex<()> = Mutex::new(());

/// Programs and a home for one test. Dropping it removes both and uninstalls the service.
pub(crate) struct Stage {
    programs: PathBuf,
    /// The directory that stands in for `%LOCALAPPDATA%`.
    local: PathBuf,
    _lock: MutexGuard<'static, ()>,
}

impl Stage {
    pub(crate) fn set_up() -> Self {
        let lock = INSTALLATION.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(
            service::installed().unwrap().is_none(),
            "a service is already installed on this machine"
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
        Self { programs, local, _lock: lock }
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.programs.join("agent-relay.exe")
    }

    /// The user's own home, used by a daemon that is not the service.
    pub(crate) fn own_home(&self) -> PathBuf {
        self.local.join("agent-relay")
    }

    /// The state of the service, as the service manager reports it.
    pub(crate) fn state(&self) -> RunState {
        service::installed().unwrap().expect("a service is installed").state
    }

    #[track_caller]
    pub(crate) fn succeeds<const N: usize>(&self, arguments: [&str; N]) -> Output {
        let output = self.run(&arguments);
        assert!(output.status.success(), "{arguments:?}: {}", self.describe(&output));
        output
    }

    #[track_caller]
    pub(crate) fn fails<const N: usize>(&self, arguments: [&str; N]) -> Output {
        let output = self.run(&arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", self.describe(&output));
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

    /// Runs a command whose environment names another daemon, and parses its output.
    #[track_caller]
    pub(crate) fn json_with_other_daemon<const N: usize>(&self, arguments: [&str; N]) -> Value {
        let mut command = self.command(&arguments);
        command.env("AGENT_RELAY_HOME", self.local.join("other"));
        command.env("AGENT_RELAY_ENDPOINT", r"\\.\pipe\agent-relay-nowhere");
        let output = output(command);
        assert!(output.status.success(), "{arguments:?}: {}", self.describe(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a command as the wrapped agent Ann does.
    pub(crate) fn run_in_agent(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        command.env("AGENT_RELAY_AGENT", "Ann");
        output(command)
    }

    /// Starts an agent that receives one message.
    pub(crate) fn listen(&self, name: &str) -> Listener {
        let mut command = self.command(&["listen", "--as", name, "--count", "1"]);
        Listener(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The contents of a registry key, if there is one.
    pub(crate) fn registry(&self, key: &str) -> Option<String> {
        let output = Command::new("reg.exe").args(["query", key, "/s"]).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a program of the system, which must succeed, and returns its output.
    #[track_caller]
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {text}");
        text
    }

    /// Replaces the program as an update does, once no process runs it.
    pub(crate) fn replace_program(&self) {
        until("no process runs the program", || fs::remove_file(self.program()).is_ok());
        fs::copy(env!("CARGO_BIN_EXE_agent-relay"), self.program()).unwrap();
    }

    pub(crate) fn make_program_writable_by_everyone(&self) {
        let program = self.program().display().to_string();
        self.tool("icacls.exe", &[&program, "/grant", "*S-1-1-0:(M)"]);
    }

    pub(crate) fn make_programs_writable_by_the_owner(&self) {
        let programs = self.programs.display().to_string();
        let grant = format!("*{}:(OI)(CI)(M)", User::me().unwrap());
        self.tool("icacls.exe", &[&programs, "/grant", &grant]);
    }

    /// Starts the supervisor that a logon task runs, in the owner's home.
    pub(crate) fn supervise(&self) -> Child {
        let mut command = self.command_of("agent-relayw.exe", &["--as-agent-relay", "--home"]);
        command.arg(self.own_home()).args(["up", "--foreground", "--supervised"]);
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs a command with a copy of the program in another directory.
    pub(crate) fn run_copy(&self, arguments: &[&str]) -> Output {
        let other = self.programs.join("other");
        fs::create_dir_all(&other).unwrap();
        fs::copy(self.program(), other.join("agent-relay.exe")).unwrap();
        output(self.command_of(r"other\agent-relay.exe", arguments))
    }

    /// Runs a command with a copy of the program behind a junction.
    pub(crate) fn run_through_link(&self, arguments: &[&str]) -> Output {
        let [target, link] = ["target", "link"].map(|name| self.programs.join(name));
        fs::create_dir_all(&target).unwrap();
        fs::copy(self.program(), target.join("agent-relay.exe")).unwrap();
        let [target, link] = [target, link].map(|path| path.display().to_string());
        self.tool("cmd.exe", &["/c", "mklink", "/J", &link, &target]);
        output(self.command_of(r"link\agent-relay.exe", arguments))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        output(self.command(arguments))
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

    /// The output of a command and the service's log, for a failure message.
    fn describe(&self, output: &Output) -> String {
        let log = service::installed().ok().flatten().and_then(|installed| {
            let home = installed.after("--home")?.to_owned();
            fs::read_to_string(Path::new(&home).join("daemon.log")).ok()
        });
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        format!("{out}{}\n--- log\n{}", stderr(output), log.unwrap_or_default())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The test may have started a daemon without a service.
        self.run(&["down"]);
        let removed = self.run(&["service", "uninstall"]);
        let site = service::site(None).unwrap().expect("this system has services");
        let left = [fs::remove_dir_all(&self.local), fs::remove_dir_all(&self.programs)];
        let _ = fs::remove_dir_all(&site.home);
        if !removed.status.success() || left.iter().any(Result::is_err) {
            eprintln!("not everything is removed: {} {left:?}", stderr(&removed));
        }
    }
}

/// A `listen` command that ends after one message. Killed on drop.
pub(crate) struct Listener(Child);

impl Listener {
    #[track_caller]
    pub(crate) fn wait_for_output(mut self) -> String {
        until("the listener has received a message", || self.0.try_wait().unwrap().is_some());
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn path(value: &Value) -> PathBuf {
    PathBuf::from(value.as_str().unwrap())
}

/// The SID of `NT SERVICE\agent-relay`.
pub(crate) fn account() -> &'static str {
    "S-1-5-80-722816291-908252167-3255456494-1261689126-2257521638"
}
