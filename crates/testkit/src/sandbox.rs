//! A sandbox for each test: a home, an endpoint, a daemon, and a time limit for all waits.

use crate::{
    programs::program,
    raw::Raw,
    terminal::SHIM,
    waiting::{WATCHDOG, assert_success, output, until, wait},
};
use platform::{endpoint::Endpoint, lock::Lock, process::SYSTEM, transport::Stream};
use serde_json::Value;
use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, PipeWriter},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};

/// The most daemons of other processes that a test stops before its own starts.
const OTHERS_MAX: usize = 10;

/// Timeouts for silent clients, too long for any test to reach. A client of a test answers a PING
/// only while it reads, and on a busy machine it may not read for long. If the daemon waits for a
/// stalled client, it waits until the test fails.
const TIMEOUTS: [(&str, u32); 2] =
    [("heartbeat_ms", 3_600_000), ("handshake_timeout_ms", 3_600_000)];

/// Variables that programs get from the environment of the tests. All others are removed.
const KEPT_VARIABLES: [&str; 11] = [
    "PATH",
    "SystemRoot",
    "SystemDrive",
    "windir",
    "ComSpec",
    "PATHEXT",
    "TEMP",
    "TMP",
    "WINEPREFIX",
    "WINEDEBUG",
    SHIM,
];

/// A temporary directory with a home, removed when dropped, after its processes have been ended.
pub struct Sandbox {
    directory: PathBuf,
    daemon: Option<Daemon>,
    /// Prevents wrappers and listeners from starting the next daemon.
    start_lock: Option<Lock>,
}

impl Sandbox {
    /// A sandbox without a daemon.
    pub fn empty() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Process ids are reused: a killed run may have left a directory with a name of this run.
        let directory = loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("ar-{}-{number}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            if !directory.exists() {
                break directory;
            }
        };
        platform::paths::make_private_dir(&directory).unwrap();
        Self { directory, daemon: None, start_lock: None }
    }

    /// A sandbox with a daemon that clients can connect to.
    pub fn new() -> Self {
        Self::with_config("")
    }

    /// A sandbox with a daemon that has this `config.toml`, and `TIMEOUTS` where it sets none.
    pub fn with_config(config: &str) -> Self {
        let mut sandbox = Self::configured(config);
        sandbox.start();
        sandbox
    }

    /// A sandbox without a daemon. The next one has this `config.toml`, and `TIMEOUTS` where it
    /// sets none.
    pub fn configured(config: &str) -> Self {
        let sandbox = Self::empty();
        platform::paths::make_private_dir(&sandbox.home()).unwrap();
        let timeouts = TIMEOUTS.iter().filter(|(key, _)| !config.contains(key));
        let lines: String = timeouts.map(|(key, ms)| format!("{key} = {ms}\n")).collect();
        std::fs::write(sandbox.home().join("config.toml"), lines + config).unwrap();
        sandbox
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::inside(&self.directory, "relay").unwrap()
    }

    /// Starts the daemon in the foreground and waits until it listens.
    pub fn start(&mut self) {
        assert!(self.daemon.is_none(), "one daemon at a time");
        self.daemon = Some(Daemon::start(self.command(["up", "--foreground"])));
        self.start_lock = None;
    }

    /// Like [`Self::start`], but first stops a daemon that a person's command has started
    /// meanwhile. Such commands start one even if the start lock is held.
    pub fn start_in_place_of_others(&mut self) {
        for _ in 0..OTHERS_MAX {
            match Daemon::try_start(self.command(["up", "--foreground"])) {
                Ok(daemon) => {
                    self.daemon = Some(daemon);
                    self.start_lock = None;
                    return;
                }
                Err(log) => assert!(log.contains("is already running"), "{log}"),
            }
            self.stop_others();
        }
        panic!("others start daemons again and again");
    }

    /// Kills the daemon, as a crash would. After that, only the test and people's commands start
    /// the next one.
    pub fn kill(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            // Without a home, there is no lock to take.
            self.start_lock = Lock::take(&self.home().join("start.lock")).ok().flatten();
            drop(daemon);
        }
    }

    /// Allows other processes to start the next daemon.
    pub fn let_others_start(&mut self) {
        self.start_lock = None;
    }

    /// Ends the agents that still run, such as spawned ones, since they would start a daemon in the
    /// removed home.
    fn stop_agents(&self) {
        let run_directory = self.home().join("run");
        let is_running = |name: &String| {
            let endpoint = Endpoint::of_agent(&run_directory, name);
            endpoint.is_ok_and(|endpoint| Stream::connect(&endpoint).is_ok())
        };
        // Each wrapper has a file with its key. Without the directory, there was no wrapper.
        let files = std::fs::read_dir(&run_directory).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let names = names.filter_map(|file| file.strip_suffix(".key").map(str::to_owned));
        let mut running: Vec<_> = names.filter(is_running).collect();
        if running.is_empty() {
            return;
        }
        let stopped = self.run(["stop"].into_iter().chain(running.iter().map(String::as_str)));
        running.retain(is_running);
        if !running.is_empty() {
            eprintln!("agents are left: {running:?}: {stopped:?}");
        }
    }

    /// Stops a daemon that another process has started.
    fn stop_others(&mut self) {
        let home = self.home();
        std::fs::write(home.join("daemon.stopped"), "").ok();
        self.start_lock = None;
        let is_held = |lock: &str| Lock::is_held(&home.join(lock)).unwrap_or(false);
        if is_held("start.lock") || is_held("daemon.lock") {
            let stopped = self.run(["down"]);
            if !stopped.status.success() {
                eprintln!("a daemon is left: {stopped:?}");
            }
        }
    }

    /// Waits for the daemon to end by itself.
    pub fn await_daemon_end(&mut self) -> ExitStatus {
        self.daemon.take().expect("a daemon was started").await_end()
    }

    /// The process id of the daemon.
    pub fn daemon_pid(&self) -> u64 {
        self.daemon.as_ref().expect("a daemon was started").process.id().into()
    }

    /// The process id of the daemon that answers here, whoever started it.
    pub fn answering_daemon(&self) -> Option<u64> {
        daemon_in(&self.run(["status", "--json"]))
    }

    /// Waits until the daemon's log has this text `times` times; see [`await_logged`].
    #[track_caller]
    pub fn await_logged(&self, text: &str, times: usize) -> String {
        await_logged(&self.home(), text, times)
    }

    /// Reports whether the daemon is up.
    pub fn is_up(&mut self) -> bool {
        let daemon = self.daemon.as_mut().expect("a daemon was started");
        daemon.process.try_wait().unwrap().is_none()
    }

    /// A connection that has sent nothing. On a busy machine, others may be served first for
    /// longer than the system waits.
    pub fn connect(&self) -> Raw {
        let end = Instant::now() + WATCHDOG;
        loop {
            match Stream::connect(&self.endpoint()) {
                Err(busy) if busy.kind() == io::ErrorKind::TimedOut && Instant::now() < end => {}
                connected => return Raw::over(connected.unwrap()),
            }
        }
    }

    /// A connection that has joined as an agent. On a busy machine, the daemon may see later that
    /// the connection before has ended.
    #[track_caller]
    pub fn join(&self, name: &str) -> Raw {
        let end = Instant::now() + WATCHDOG;
        loop {
            let mut raw = self.connect();
            let answer = raw.try_hello(name);
            if answer["payload"]["code"] != "NAME_IN_USE" || Instant::now() > end {
                assert_eq!(answer["type"], "WELCOME", "{answer}");
                return raw;
            }
        }
    }

    /// A connection that has joined as an operator.
    pub fn operator(&self) -> Raw {
        let key = std::fs::read_to_string(self.home().join("operator.key")).unwrap();
        let mut raw = self.connect();
        raw.send_json(&serde_json::json!({
            "v": 1, "type": "HELLO", "id": "h", "ts": 0,
            "payload": {"mode": "operator", "auth": {"key": key.trim_end()}},
        }));
        raw.expect("WELCOME");
        raw
    }

    /// `agent-relay` with arguments, in this sandbox's environment and at its endpoint.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.program(program("agent-relay"));
        command.arg("--endpoint").arg(self.endpoint().as_text());
        command.arg("--home").arg(self.home()).args(arguments);
        command
    }

    /// A program in this sandbox's environment.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).current_dir(&self.directory);
        for name in KEPT_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for name in ["HOME", "USERPROFILE", "LOCALAPPDATA", "XDG_STATE_HOME"] {
            command.env(name, &self.directory);
        }
        command
    }

    /// Runs `agent-relay` to its end.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        output(self.command(arguments))
    }

    /// Runs `agent-relay send`, which succeeds once the daemon accepts the message.
    #[track_caller]
    pub fn send(&self, from: &str, to: &str, body: &str) {
        assert_success(&self.run(["send", "--as", from, to, body]));
    }

    /// Sends a process a signal, such as "TERM". Not on Windows.
    #[track_caller]
    pub fn signal(&self, signal: &str, pid: u64) {
        let mut kill = self.program("kill");
        kill.args(["-s", signal, &pid.to_string()]);
        assert_success(&output(kill));
    }

    /// Kills a process without a chance to clean up, as a crash would.
    #[track_caller]
    pub fn kill_process(&self, pid: u64) {
        if SYSTEM == "windows" {
            let mut kill = self.program("taskkill");
            kill.args(["/F", "/PID", &pid.to_string()]);
            assert_success(&output(kill));
        } else {
            self.signal("KILL", pid);
        }
    }

    /// Waits until all of these agents are connected.
    #[track_caller]
    pub fn wait_for_agents(&self, names: &[&str]) {
        self.wait_until(&format!("{names:?} are here"), |agents| {
            let here =
                |name: &&str| agents.iter().any(|a| a["name"] == **name && a["here"] == true);
            names.iter().all(here)
        });
    }

    /// Polls `agent-relay agents`, since no event reports the state of another agent.
    #[track_caller]
    pub fn wait_until(&self, what: &str, condition: impl Fn(&[Value]) -> bool) {
        until(what, || {
            let output = self.run(["agents", "--json"]);
            assert_success(&output);
            let lines = str::from_utf8(&output.stdout).unwrap().lines();
            let agents: Vec<_> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
            condition(&agents)
        });
    }
}

/// Returns the daemon's process id from the output of `status --json`, if the daemon has answered.
pub fn daemon_in(status: &Output) -> Option<u64> {
    let status: Value = serde_json::from_slice(&status.stdout).ok()?;
    status["status"]["daemon"]["pid"].as_u64()
}

/// Waits until the daemon's log in a home has this text `times` times. A daemon writes its log in
/// the background, so it may answer before its lines are there. Returns the log.
#[track_caller]
pub fn await_logged(home: &Path, text: &str, times: usize) -> String {
    let mut log = String::new();
    until(&format!("{text:?} is logged {times} times"), || {
        log = std::fs::read_to_string(home.join("daemon.log")).unwrap_or_default();
        log.matches(text).count() >= times
    });
    log
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.stop_agents();
        self.kill();
        self.stop_others();
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            eprintln!("{} stays: {error}", self.directory.display());
        }
    }
}

/// A daemon's process, and a thread that collects its standard error.
pub struct Daemon {
    process: Child,
    log: Option<thread::JoinHandle<String>>,
}

impl Daemon {
    /// Starts a daemon with this pipe as its standard error, and waits until it listens.
    pub fn start_into(sandbox: &Sandbox, mut command: Command, pipe: PipeWriter) -> Self {
        let process = command.stdout(Stdio::null()).stderr(pipe).spawn().unwrap();
        let daemon = Self { process, log: None };
        until("the daemon listens", || Stream::connect(&sandbox.endpoint()).is_ok());
        daemon
    }

    /// Waits until the process has ended by itself.
    pub fn await_end(mut self) -> ExitStatus {
        wait(&mut self.process, "the daemon")
    }

    /// Starts a daemon in the foreground, and waits until it listens.
    pub fn start(command: Command) -> Self {
        Self::try_start(command).unwrap_or_else(|log| panic!("the daemon does not listen:\n{log}"))
    }

    /// As [`Daemon::start`]. If the daemon ends before it listens, returns its log.
    pub fn try_start(mut command: Command) -> Result<Self, String> {
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let err = process.stderr.take().unwrap();
        let (ready, is_ready) = mpsc::channel();
        let log = thread::spawn(move || {
            let mut log = String::new();
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                if line.contains("listening at") {
                    ready.send(()).ok();
                }
                log.push_str(&line);
                log.push('\n');
            }
            log
        });
        let mut daemon = Self { process, log: Some(log) };
        if is_ready.recv_timeout(WATCHDOG).is_err() {
            daemon.process.kill().ok();
            return Err(daemon.log.take().unwrap().join().unwrap());
        }
        Ok(daemon)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        if let Some(log) = self.log.take()
            && let Ok(log) = log.join()
            && thread::panicking()
        {
            eprintln!("--- the log of the daemon\n{log}---");
        }
    }
}
