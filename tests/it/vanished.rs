//! Clients that end their connection in an unusual way, or that reconnect all the time. They leave
//! their messages in the queue, and nothing else.

use crate::{churn::Usage, crash};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Stdio},
    sync::atomic::AtomicBool,
    thread,
};
use testkit::{
    sandbox::Sandbox,
    waiting::{until, wait},
};

/// The number of messages that a client may leave unacknowledged.
const IN_FLIGHT: usize = 256;

/// A script that joins, reads nothing more, and after a line ends its connection in a way: it
/// closes one direction, closes everything with unread frames, or is killed.
const CLIENT: &str = "
import os, signal, socket, sys
way, endpoint, said = sys.argv[1:]
client = socket.socket(socket.AF_UNIX)
client.connect(endpoint)
client.sendall(len(said).to_bytes(4, 'big') + said.encode())
length = int.from_bytes(client.recv(4, socket.MSG_WAITALL), 'big')
client.recv(length, socket.MSG_WAITALL)
print('joined', flush=True)
sys.stdin.readline()
if way == 'closed-for-writing':
    client.shutdown(socket.SHUT_WR)
elif way == 'closed-for-reading':
    client.shutdown(socket.SHUT_RD)
elif way == 'reset':
    client.close()
elif way == 'killed':
    os.kill(os.getpid(), signal.SIGKILL)
print('done', flush=True)
sys.stdin.readline()
";

struct Client {
    process: Child,
    printed: BufReader<std::process::ChildStdout>,
}

impl Client {
    fn join(sandbox: &Sandbox, way: &str) -> Self {
        let hello = json!({"v": 1, "type": "HELLO", "id": "h", "ts": 0, "payload": {"agent": way}});
        let mut command = sandbox.program("python3");
        command.args(["-c", CLIENT, way, sandbox.endpoint().as_text(), &hello.to_string()]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 starts");
        let printed = BufReader::new(process.stdout.take().unwrap());
        let mut client = Self { process, printed };
        assert_eq!(client.line(), "joined\n");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.printed.read_line(&mut line).unwrap();
        line
    }

    /// Ends the connection, and waits until that has happened.
    fn end_connection(&mut self, way: &str) {
        writeln!(self.process.stdin.as_mut().unwrap()).unwrap();
        if way == "killed" {
            assert!(!wait(&mut self.process, "the client").success());
        } else {
            assert_eq!(self.line(), "done\n");
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Whether a daemon has as few threads and descriptors as it had before.
fn is_back(now: &Usage, before: &Usage) -> bool {
    now.threads <= before.threads && now.descriptors <= before.descriptors
}

#[test]
fn messages_in_flight_return_to_the_queue_however_the_connection_ends() {
    check_return(&["closed-for-writing", "reset", "killed"]);
}

#[test]
fn messages_in_flight_to_a_client_closed_for_reading_return_to_the_queue() {
    check_return(&["closed-for-reading"]);
}

/// Checks that a client that ends its connection in these ways leaves all its messages in the
/// queue, and no thread and no descriptor in the daemon.
fn check_return(ways: &[&str]) {
    let sandbox = Sandbox::new();
    let (mut ann, mut asking) = (sandbox.join("Ann"), sandbox.join("Asking"));
    let before = Usage::of(sandbox.daemon_pid());
    for way in ways.iter().copied() {
        let mut client = Client::join(&sandbox, way);
        for number in 0..IN_FLIGHT {
            ann.send(way, &number.to_string(), json!({"requires_ack": true}));
            ann.expect("ACK");
        }
        let mut row = || asking.agents().into_iter().find(|agent| agent["name"] == way).unwrap();
        until("all are in flight", || row()["in_flight"] == IN_FLIGHT);
        client.end_connection(way);
        if way == "closed-for-reading" {
            // Only a write tells the daemon.
            ann.send(way, "unread", json!({}));
        }
        until("the client is away", || row()["here"] == false);
        let left = row();
        assert_eq!((&left["in_flight"], &left["queued"]), (&json!(0), &json!(IN_FLIGHT)), "{way}");
        until("no thread and no descriptor is left", || {
            is_back(&Usage::of(sandbox.daemon_pid()), &before)
        });
        let mut back = sandbox.join(way);
        for number in 0..IN_FLIGHT {
            let deliver = back.expect("DELIVER");
            let (body, attempt) = (&deliver["payload"]["body"], &deliver["delivery"]["attempt"]);
            assert_eq!((body, attempt), (&json!(number.to_string()), &json!(2)), "{way}");
            back.acknowledge(&deliver);
        }
        assert_eq!(back.drain(), Vec::<Value>::new(), "{way}");
        back.leave();
        ann.drain();
    }
}

#[test]
fn clients_that_reconnect_all_the_time_leave_nothing() {
    const CLIENTS: usize = 40;
    /// Connections of a client in each of two rounds.
    const TIMES: usize = 60;
    /// The bytes that the daemon's memory may grow after the first round: some 3 KiB for each
    /// connection of the second round.
    const GROWTH: u64 = 8 << 20;
    let sandbox = Sandbox::new();
    let (endpoint, is_over) = (sandbox.endpoint(), AtomicBool::new(false));
    let pid = sandbox.daemon_pid();
    let idle = Usage::of(pid);
    let reconnect = || {
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (endpoint, is_over) = (&endpoint, &is_over);
                scope.spawn(move || {
                    let name = format!("client-{number}");
                    for _ in 0..TIMES {
                        crash::join(endpoint, &name, &mut None, is_over).expect("the daemon is up");
                    }
                });
            }
        });
        until("no thread and no descriptor is left", || is_back(&Usage::of(pid), &idle));
        Usage::of(pid).bytes
    };
    // The first round warms up the allocator: its arenas grow for a while.
    let first = reconnect();
    let last = reconnect();
    eprintln!("{first:?} bytes, then {last:?}");
    assert!(last <= first.map(|bytes| bytes + GROWTH), "{first:?} bytes, then {last:?}");
}
