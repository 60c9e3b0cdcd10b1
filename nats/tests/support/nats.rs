//! Real NATS servers on loopback ports: one, or a cluster of three.

use super::{LOOK, folder::Folder, host::bridge, process::Process, until};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The time limit for started servers to become healthy.
const BEGINNING: Duration = Duration::from_secs(30);

/// The time limit for healthy servers of a cluster to know each other.
const MEETING: Duration = Duration::from_secs(5);

/// The number of clusters that are started until one is complete.
const STARTS: usize = 3;

/// One server of a cluster.
#[derive(Debug)]
struct Node {
    process: Option<Process>,
    config: PathBuf,
    client: u16,
    monitor: u16,
}

/// The ports of a server, the servers that it connects to, and its directory.
struct Place {
    client: u16,
    route: u16,
    routes: String,
    store: PathBuf,
}

/// Servers of one cluster, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Nats {
    nodes: Vec<Node>,
    variables: Vec<(&'static str, &'static str)>,
    _folder: Folder,
}

/// The first of the tried ports, and their number. They are below the system's ephemeral ports,
/// since a connection could otherwise take the port of a server that is being restarted.
const PORTS: (u16, u16) = (20_000, 12_000);

/// `count` ports of the loopback without a listener.
fn ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let (first, range) = PORTS;
    // Test processes that run at the same time begin at different ports.
    let begin = std::process::id().wrapping_mul(97) % u32::from(range);
    let mut ports = Vec::new();
    while ports.len() < count {
        let next = begin + u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = first + (next % u32::from(range)) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            ports.push(port);
        }
    }
    ports
}

impl Nats {
    /// One server.
    pub(crate) fn one() -> Self {
        Self::with(1, "", &[])
    }

    /// A cluster of three.
    pub(crate) fn three() -> Self {
        Self::with(3, "", &[])
    }

    /// This many servers, with further lines in their configuration and further variables.
    pub(crate) fn with(
        count: usize,
        more: &str,
        variables: &[(&'static str, &'static str)],
    ) -> Self {
        Self::with_each(&vec![more; count], variables)
    }

    /// A server for each of the further lines in their configurations.
    pub(crate) fn with_each(more: &[&str], variables: &[(&'static str, &'static str)]) -> Self {
        let text = |index: usize, place: &Place| {
            let Place { client, route, routes, store, .. } = place;
            let mut text =
                format!("listen: 127.0.0.1:{client}\njetstream {{ store_dir: {store:?} }}\n");
            if more.len() > 1 {
                let cluster = format!("name: c, listen: 127.0.0.1:{route}, routes: [{routes}]");
                writeln!(text, "cluster {{ {cluster} }}").unwrap();
            }
            text + more[index]
        };
        Self::cluster(more.len(), &text, variables)
    }

    /// The three servers of server.conf, with hosts.conf.
    pub(crate) fn of_server_conf(variables: &[(&'static str, &'static str)]) -> Self {
        let text = |_, place: &Place| {
            let Place { client, route, routes, store, .. } = place;
            let mut text = include_str!("../../server.conf").to_owned();
            for (own, here) in [
                ("0.0.0.0:4222", format!("127.0.0.1:{client}")),
                ("/var/lib/nats", format!("{store:?}")),
                ("0.0.0.0:6222", format!("127.0.0.1:{route}")),
                (r#""nats://nats-1:6222", "nats://nats-2:6222", "nats://nats-3:6222""#, {
                    routes.clone()
                }),
                ("include ./hosts.conf", include_str!("../../hosts.conf").to_owned()),
            ] {
                assert_eq!(text.matches(own).count(), 1, "{own} is in server.conf");
                text = text.replace(own, &here);
            }
            text
        };
        Self::cluster(3, &text, variables)
    }

    fn cluster(
        count: usize,
        text: &dyn Fn(usize, &Place) -> String,
        variables: &[(&'static str, &'static str)],
    ) -> Self {
        // Servers that start at the same time may form a cluster that permanently lacks one of
        // them, or a leader.
        let mut clusters = (0..STARTS).map(|_| Self::start_all(count, text, variables));
        clusters.find(Self::is_complete).expect("a healthy cluster with all servers")
    }

    fn start_all(
        count: usize,
        text: &dyn Fn(usize, &Place) -> String,
        variables: &[(&'static str, &'static str)],
    ) -> Self {
        let folder = Folder::new();
        let (clients, monitors, ports) = (ports(count), ports(count), ports(count));
        let routes: Vec<_> = ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let mut nodes = Vec::new();
        for index in 0..count {
            let (client, monitor) = (clients[index], monitors[index]);
            let store = folder.path().join(format!("js-{index}"));
            let place = Place { client, route: ports[index], routes: routes.join(", "), store };
            let own = format!("http: 127.0.0.1:{monitor}\nserver_name: n{index}\n");
            let config = folder.path().join(format!("n{index}.conf"));
            fs::write(&config, own + &text(index, &place)).unwrap();
            nodes.push(Node { process: None, config, client, monitor });
        }
        let mut nats = Self { nodes, variables: variables.to_vec(), _folder: folder };
        for index in 0..count {
            nats.start(index);
        }
        nats
    }

    /// Whether each server is soon healthy, and then soon knows all of the cluster.
    fn is_complete(&self) -> bool {
        let size = format!("\"cluster_size\": {}", self.count());
        let knows =
            |node: &Node| get(node.monitor, "/jsz").is_some_and(|body| body.contains(&size));
        becomes_true(BEGINNING, || (0..self.count()).all(|index| self.is_healthy(index)))
            && (self.count() == 1 || becomes_true(MEETING, || self.nodes.iter().all(knows)))
    }

    /// The servers' URLs, with commas between them.
    pub(crate) fn urls(&self) -> String {
        let urls = self.nodes.iter().map(|node| format!("nats://127.0.0.1:{}", node.client));
        urls.collect::<Vec<_>>().join(",")
    }

    /// Runs `setup` for these hosts, with further arguments. The error has its lines: servers that
    /// have just met place no replicas yet.
    pub(crate) fn try_set_up(&self, hosts: &[&str], more: &[&str]) -> Result<(), Vec<String>> {
        let urls = self.urls();
        let hosts = hosts.iter().flat_map(|host| ["--host", host]);
        let arguments = ["setup", "--server", &urls].into_iter().chain(hosts);
        let mut setup = Process::start(bridge(), arguments.chain(more.iter().copied()), &[]);
        if setup.wait().success() { Ok(()) } else { Err(setup.lines()) }
    }

    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn start(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let config = node.config.as_os_str();
        let variables: Vec<_> =
            self.variables.iter().map(|(name, value)| (*name, OsStr::new(value))).collect();
        node.process = Some(Process::start("nats-server", ["-c".as_ref(), config], &variables));
    }

    /// Sets a variable for the servers that are started later.
    pub(crate) fn set_variable(&mut self, name: &'static str, value: &'static str) {
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value));
    }

    /// Kills a server, as a crash would.
    pub(crate) fn kill(&mut self, index: usize) {
        self.nodes[index].process.take().unwrap().kill();
    }

    /// Sends a signal to a server.
    pub(crate) fn signal(&self, index: usize, signal: &str) {
        self.nodes[index].process.as_ref().unwrap().signal(signal);
    }

    /// Waits until a server and its replicas are up to date.
    pub(crate) fn wait_until_healthy(&self, index: usize) {
        let node = &self.nodes[index];
        until("a healthy NATS server", || self.is_healthy(index).then_some(()));
        assert!(node.process.is_some());
    }

    pub(crate) fn is_healthy(&self, index: usize) -> bool {
        get(self.nodes[index].monitor, "/healthz").is_some_and(|body| body.contains("\"ok\""))
    }

    /// The index of the server that leads what `subject` asks about, a stream or a consumer. `None`
    /// if there is one server only, or no leader.
    pub(crate) fn leader(&self, subject: &str) -> Option<usize> {
        let info = api(&self.urls(), subject)?;
        info["cluster"]["leader"].as_str()?.strip_prefix('n')?.parse().ok()
    }
}

/// Whether a condition holds within this time.
fn becomes_true(time: Duration, condition: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !condition() {
        if begun.elapsed() > time {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

/// The body that a server's monitor answers.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// The answer of JetStream to a request, from a separate client. `None` if there is none.
pub(crate) fn api(urls: &str, subject: &str) -> Option<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let urls: Vec<_> = urls.split(',').map(str::to_owned).collect();
    runtime.block_on(async {
        let client = async_nats::connect(urls).await.ok()?;
        let answer = client.request(subject.to_owned(), "".into()).await.ok()?;
        serde_json::from_slice(&answer.payload).ok()
    })
}
