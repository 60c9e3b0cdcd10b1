//! Machines that are joined by `agent-relay-nats`, with a nats-server of the test.

use crate::{Pair, await_presence};
use std::{
    env,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
};
use testkit::{programs::Running, sandbox::Sandbox, waiting::until};

/// A nats-server on a port of this machine, whose files outlive its process.
struct Nats<'a> {
    sandbox: &'a Sandbox,
    port: u16,
    process: Option<Running>,
}

impl<'a> Nats<'a> {
    fn start(sandbox: &'a Sandbox) -> Self {
        let mut nats = Self { sandbox, port: free_port(), process: None };
        nats.restart();
        nats
    }

    /// Kills the server, and starts it again with its files.
    fn restart(&mut self) {
        drop(self.process.take());
        let mut server = self.sandbox.program("nats-server");
        server.args(["-js", "-a", "127.0.0.1", "-p", &self.port.to_string(), "-sd"]);
        server.arg(self.sandbox.directory().join("nats"));
        server.arg("-l").arg(self.sandbox.directory().join("nats.log"));
        self.process = Some(Running::start(server));
        let port = self.port;
        until("nats-server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    /// The bridge of a machine to this server.
    fn join(&self, machine: &Sandbox, host: &str, agent: &str) -> Running {
        let mut bridge: Command = machine.program(program());
        bridge.args(["--host", host, "--export", agent, "--server"]);
        bridge.arg(format!("nats://127.0.0.1:{}", self.port));
        bridge.arg("--endpoint").arg(machine.endpoint().as_text());
        bridge.arg("--home").arg(machine.home());
        Running::start(bridge)
    }
}

/// A port that the system gives to no other connection, also not while the server is away.
fn free_port() -> u16 {
    let mut ports = 20_000..32_000;
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// The bridge's program, which `ci/machines` has built.
fn program() -> PathBuf {
    let named = env::var_os("AGENT_RELAY_NATS").map(PathBuf::from);
    let built =
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("nats/target/debug/agent-relay-nats");
    named.unwrap_or_else(built)
}

#[test]
fn wrapped_agents_talk_through_nats_though_all_parts_are_killed() {
    let (laptop, pi) = (Sandbox::new(), Sandbox::new());
    let mut nats = Nats::start(&laptop);
    let here = nats.join(&laptop, "laptop", "Ann");
    let there = nats.join(&pi, "pi", "Bob");
    await_presence(&laptop, "Bob@pi", true);
    await_presence(&pi, "Ann@laptop", true);
    let mut pair = Pair::wrap(&laptop, &pi);
    pair.begin("one");
    pair.await_end("one");
    pair.begin("two");
    nats.restart();
    pair.await_end("two");
    pair.begin("three");
    drop((here, there));
    let _here = nats.join(&laptop, "laptop", "Ann");
    let _there = nats.join(&pi, "pi", "Bob");
    pair.await_end("three");
    pair.check_frames();
}
