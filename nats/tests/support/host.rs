//! A host: a home, an endpoint, a daemon and a bridge.

use super::{folder::Folder, process::Process, until};
use client::{Client, Settings};
use std::{
    env::consts::EXE_SUFFIX,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The program of the bridge: `AGENT_RELAY_NATS`, or the one that was built with this test.
pub(crate) fn bridge() -> PathBuf {
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_agent-relay-nats"));
    std::env::var_os("AGENT_RELAY_NATS").map_or_else(built, PathBuf::from)
}

/// The program of the daemon: `AGENT_RELAY`, or the one that the repository's own build has made in
/// the profile of this test.
pub(crate) fn relay() -> PathBuf {
    let built = || {
        let bridge = bridge();
        let profile = bridge.parent().and_then(Path::file_name).expect("a folder of the profile");
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
        target.join(profile).join(format!("agent-relay{EXE_SUFFIX}"))
    };
    let path = std::env::var_os("AGENT_RELAY").map_or_else(built, PathBuf::from);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --bin agent-relay` in the repository",
        path.display()
    );
    path
}

/// The programs of one version.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) relay: PathBuf,
    pub(crate) bridge: PathBuf,
}

impl Programs {
    /// Those that are tested.
    pub(crate) fn built() -> Self {
        Self { relay: relay(), bridge: bridge() }
    }

    /// Those of the version before: `AGENT_RELAY_BEFORE` and `AGENT_RELAY_NATS_BEFORE`.
    pub(crate) fn before() -> Option<Self> {
        let program = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        let relay = program("AGENT_RELAY_BEFORE")?;
        Some(Self { relay, bridge: program("AGENT_RELAY_NATS_BEFORE")? })
    }
}

/// A host. Its processes end when it is dropped.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) agents: Vec<String>,
    pub(crate) bridge: Option<Process>,
    programs: Programs,
    /// The lines of the bridges that were killed.
    earlier_lines: Vec<String>,
    daemon: Option<Process>,
    arguments: Vec<String>,
    variables: Vec<(String, OsString)>,
    folder: Folder,
}

impl Host {
    /// A host with a daemon that listens, and agents to be exported.
    pub(crate) fn new(name: &str, agents: &[&str]) -> Self {
        Self::with_config(name, agents, "")
    }

    /// As [`Self::new`], with a config.toml.
    pub(crate) fn with_config(name: &str, agents: &[&str], config: &str) -> Self {
        Self::with(name, agents, config, (&[], Programs::built()))
    }

    /// As [`Self::new`], with the programs of a version.
    pub(crate) fn of_version(name: &str, agents: &[&str], programs: &Programs) -> Self {
        Self::with(name, agents, "", (&[], programs.clone()))
    }

    /// As [`Self::new`], with further variables of its processes.
    pub(crate) fn with_variables(
        name: &str,
        agents: &[&str],
        variables: &[(&str, &OsStr)],
    ) -> Self {
        Self::with(name, agents, "", (variables, Programs::built()))
    }

    fn with(
        name: &str,
        agents: &[&str],
        config: &str,
        (variables, programs): (&[(&str, &OsStr)], Programs),
    ) -> Self {
        let variables = variables.iter().copied();
        let agents: Vec<_> = agents.iter().map(|&agent| agent.to_owned()).collect();
        let folder = Folder::new();
        platform::paths::make_private_dir(&folder.path().join("home")).unwrap();
        std::fs::write(folder.path().join("home/config.toml"), config).unwrap();
        let mut host = Self {
            name: name.to_owned(),
            agents,
            bridge: None,
            programs,
            earlier_lines: Vec::new(),
            daemon: None,
            arguments: Vec::new(),
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            folder,
        };
        host.start_daemon();
        host
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn endpoint(&self) -> String {
        self.folder.path().join("relay").to_str().unwrap().to_owned()
    }

    /// Writes a file that only the owner can read, and returns its path.
    pub(crate) fn private_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        platform::paths::write_private_file(&path, text.as_bytes()).unwrap();
        path
    }

    fn process(&self, program: impl AsRef<OsStr>, arguments: &[String]) -> Process {
        let (home, endpoint) = (self.home(), self.endpoint());
        let mut variables: Vec<_> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value.as_os_str())).collect();
        variables.push(("AGENT_RELAY_HOME", home.as_os_str()));
        variables.push(("AGENT_RELAY_ENDPOINT", OsStr::new(&endpoint)));
        Process::start(program, arguments, &variables)
    }

    /// Runs a command of `agent-relay` to its end, and returns its lines.
    pub(crate) fn command(&self, arguments: &[&str]) -> Vec<String> {
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self.process(&self.programs.relay, &arguments).output()
    }

    pub(crate) fn start_daemon(&mut self) {
        let arguments = ["up", "--foreground"].map(str::to_owned);
        self.daemon = Some(self.process(&self.programs.relay, &arguments));
        let endpoint = self.endpoint();
        until("a daemon that listens", || Client::join(Settings::guest(&endpoint)).ok());
    }

    /// Kills the daemon, as a crash would.
    pub(crate) fn kill_daemon(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    /// Ends the daemon, and starts one of another version.
    pub(crate) fn change_version(&mut self, programs: &Programs) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.signal("TERM");
        daemon.wait();
        self.programs = programs.clone();
        self.start_daemon();
    }

    /// Starts a link to another host, as ssh would, with further arguments of `bridge`.
    pub(crate) fn start_link(&mut self, other: &Self, more: &[&str]) {
        let mut arguments = vec!["bridge".to_owned(), other.name.clone()];
        let exports = |host: &Self| host.agents.clone().into_iter();
        let exports = |host: &Self| exports(host).flat_map(|agent| ["--export".to_owned(), agent]);
        arguments.extend(exports(self));
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        arguments.extend(["--".to_owned(), other.programs.relay.to_str().unwrap().to_owned()]);
        let home = other.home().to_str().unwrap().to_owned();
        arguments.extend(["--home".to_owned(), home, "--endpoint".to_owned(), other.endpoint()]);
        arguments.extend(["stdio", "--peer", &self.name].map(str::to_owned));
        arguments.extend(exports(other));
        self.bridge = Some(self.process(&self.programs.relay, &arguments));
    }

    /// Starts a bridge with further arguments, which are kept for later starts.
    pub(crate) fn start_bridge_with(&mut self, urls: &str, more: &[&str]) {
        let mut arguments: Vec<_> =
            ["--host", &self.name, "--server", urls].map(str::to_owned).into();
        for agent in &self.agents {
            arguments.extend(["--export", agent].map(str::to_owned));
        }
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        self.arguments = arguments;
        self.start_bridge();
    }

    /// Starts a bridge without arguments, with the settings in nats.toml.
    pub(crate) fn start_bridge_of_file(&mut self, settings: &str) {
        std::fs::write(self.home().join("nats.toml"), settings).unwrap();
        self.arguments = Vec::new();
        self.start_bridge();
    }

    pub(crate) fn start_bridge(&mut self) {
        self.bridge = Some(self.process(&self.programs.bridge, &self.arguments));
    }

    /// Kills the bridge, as a crash would.
    pub(crate) fn kill_bridge(&mut self) {
        self.end_bridge("killed", Process::kill);
    }

    /// Asks the bridge to end, as a person would.
    pub(crate) fn stop_bridge(&mut self) {
        self.end_bridge("stopped", |bridge| {
            bridge.signal("TERM");
            bridge.wait();
        });
    }

    fn end_bridge(&mut self, how: &str, end: impl FnOnce(&mut Process)) {
        let mut bridge = self.bridge.take().unwrap();
        end(&mut bridge);
        self.earlier_lines.extend(bridge.lines());
        self.earlier_lines.push(how.to_owned());
    }

    /// The last `count` lines of the bridge and those before it.
    pub(crate) fn last_bridge_lines(&self, count: usize) -> Vec<String> {
        let mut lines = self.earlier_lines.clone();
        lines.extend(self.bridge.iter().flat_map(Process::lines));
        lines.split_off(lines.len().saturating_sub(count))
    }

    pub(crate) fn bridge(&self) -> &Process {
        self.bridge.as_ref().unwrap()
    }

    pub(crate) fn daemon(&self) -> &Process {
        self.daemon.as_ref().unwrap()
    }

    /// Joins the daemon as an agent.
    pub(crate) fn join(&self, agent: &str) -> Client {
        let settings = Settings { local: true, ..Settings::agent(self.endpoint(), agent) };
        Client::join(settings).unwrap()
    }
}

/// Starts the hosts' bridges, and waits until each knows all others.
pub(crate) fn connect(hosts: &mut [Host], urls: &str, more: &[&str]) {
    for host in &mut *hosts {
        host.start_bridge_with(urls, more);
    }
    for host in &*hosts {
        for other in hosts.iter().filter(|other| other.name != host.name) {
            host.bridge().line(&format!("{} is here", other.name));
            for agent in &other.agents {
                let name = format!("{agent}@{}", other.name);
                until(&format!("{name} among the agents of {}", host.name), || {
                    host.command(&["agents"]).iter().any(|line| line.contains(&name)).then_some(())
                });
            }
        }
    }
}
