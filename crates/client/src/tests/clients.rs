//! Tests of many clients in one thread, with a scripted daemon.

use super::{Daemon, WATCHDOG};
use crate::{
    ClientKey, Clients, Event, Outgoing, Settings, link::Connection, message::ConnectionState,
};
use crossbeam_channel::{Receiver, bounded};
use protocol::{
    channel::{CREDIT_BYTES, Control, OWN},
    envelope::{Envelope, Kind},
    secret::Secret,
};
use std::{
    io,
    thread::{self, JoinHandle},
    time::Instant,
};

/// A daemon that speaks in channels, or over one connection for each client.
struct Scripted {
    daemons: Receiver<Daemon>,
    daemon: Option<Daemon>,
    sending: u32,
    arriving: u32,
}

impl Scripted {
    fn new(daemons: Receiver<Daemon>) -> Self {
        Self { daemons, daemon: None, sending: OWN, arriving: OWN }
    }

    /// Accepts a connection, which replaces the earlier one.
    fn accept(&mut self) -> Daemon {
        (self.sending, self.arriving) = (OWN, OWN);
        self.daemons.recv_timeout(WATCHDOG).expect("a connection is opened")
    }

    /// Accepts an operator's connection, and admits it.
    fn accept_operator(&mut self, channels_max: Option<u64>) -> Daemon {
        let mut daemon = self.accept();
        let (.., hello) = daemon.receive(Kind::Hello);
        assert_eq!(hello["mode"], "operator");
        daemon.welcome(channels_max);
        daemon
    }

    /// Receives frames up to the next envelope of a type. Returns its channel and its payload.
    #[track_caller]
    fn receive(&mut self, kind: Kind) -> (u32, serde_json::Value) {
        loop {
            let content = self.daemon.as_mut().unwrap().content();
            match Control::parse(&content) {
                Some(Control::Select(number)) => self.arriving = number,
                Some(Control::Credit(..) | Control::End(_)) => {}
                None => {
                    let envelope = Envelope::read(&content).unwrap();
                    if envelope.kind == kind {
                        return (self.arriving, serde_json::from_str(envelope.payload).unwrap());
                    }
                }
            }
        }
    }

    fn control(&mut self, control: Control) {
        let mut bytes = Vec::new();
        control.append(&mut bytes);
        self.daemon.as_ref().unwrap().say_bytes(bytes);
        if let Control::Select(number) = control {
            self.sending = number;
        }
    }

    /// Admits a client that says HELLO in this channel.
    #[track_caller]
    fn admit(&mut self, channel: u32, agent: &str) {
        let (of, hello) = self.receive(Kind::Hello);
        assert_eq!((of, &hello["agent"]), (channel, &agent.into()));
        self.control(Control::Select(channel));
        self.daemon.as_ref().unwrap().welcome(None);
    }
}

impl Daemon {
    fn content(&mut self) -> Vec<u8> {
        while self.unread.is_empty() {
            let batch = self.connection.incoming.recv_timeout(WATCHDOG).expect("a frame comes");
            self.unread = batch.frames().map(<[u8]>::to_vec).collect();
        }
        self.unread.remove(0)
    }
}

/// Clients, and the daemons at the other ends of their connections.
fn clients() -> (Clients, Receiver<Daemon>) {
    let (sender, daemons) = bounded(16);
    let connect = move || {
        let (ours, theirs) = Connection::memory();
        let daemon = Daemon { connection: theirs, unread: Vec::new() };
        sender.send(daemon).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(ours)
    };
    let operator = Settings::operator("memory", Secret::stated("k"));
    let operator = Settings { local: true, ..operator };
    (Clients::over(operator, Box::new(connect)), daemons)
}

fn settings(name: &str) -> Settings {
    Settings { local: true, ..Settings::agent("memory", name) }
}

/// Works until an event comes that `is_wanted`.
fn work_until(clients: &mut Clients, is_wanted: impl Fn(ClientKey, &Event) -> bool) {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < WATCHDOG, "the event does not come");
        clients.work();
        while let Some((key, event)) = clients.next_event() {
            if is_wanted(key, &event) {
                return;
            }
        }
        thread::yield_now();
    }
}

const fn is_ready(event: &Event) -> bool {
    matches!(event, Event::State(ConnectionState::Ready(_)))
}

/// Runs a script of the daemon's while `run` uses the clients.
fn with_daemon(script: fn(Scripted), run: impl FnOnce(Clients)) {
    let (clients, daemons) = clients();
    let daemon: JoinHandle<()> = thread::spawn(move || script(Scripted::new(daemons)));
    run(clients);
    daemon.join().unwrap();
}

#[test]
fn clients_share_the_connection_of_a_daemon_with_channels() {
    let script = |mut daemon: Scripted| {
        daemon.daemon = Some(daemon.accept_operator(Some(100)));
        daemon.admit(1, "Ann");
        daemon.admit(2, "Bob");
        // Only Ann's channel ends, and she opens another one.
        daemon.control(Control::End(1));
        daemon.admit(3, "Ann");
        // The connection is lost, and opened again with a channel for each client.
        daemon.daemon = None;
        daemon.daemon = Some(daemon.accept_operator(Some(100)));
        let hellos = [daemon.receive(Kind::Hello), daemon.receive(Kind::Hello)];
        let mut agents = hellos.map(|(channel, hello)| {
            daemon.control(Control::Select(channel));
            daemon.daemon.as_ref().unwrap().welcome(None);
            hello["agent"].as_str().unwrap().to_owned()
        });
        agents.sort();
        assert_eq!(agents, ["Ann", "Bob"]);
        while daemon.daemon.as_ref().unwrap().connection.incoming.recv().is_ok() {}
    };
    with_daemon(script, |mut clients| {
        let ann = clients.join(settings("Ann")).unwrap();
        let bob = clients.join(settings("Bob")).unwrap();
        work_until(&mut clients, |key, event| key == ann && is_ready(event));
        work_until(&mut clients, |key, event| key == bob && is_ready(event));
    });
}

#[test]
fn daemon_without_channels_gets_a_connection_for_each_client() {
    let script = |mut daemon: Scripted| {
        drop(daemon.accept_operator(None));
        let mut connections = ["Ann", "Bob"].map(|agent| {
            let mut connection = daemon.accept();
            let (.., hello) = connection.receive(Kind::Hello);
            assert_eq!(hello["agent"], agent);
            connection.welcome(None);
            connection
        });
        connections[1].receive(Kind::Send);
        // The daemon makes room for one with channels.
        drop(connections);
        daemon.daemon = Some(daemon.accept_operator(Some(100)));
        let (channel, _) = daemon.receive(Kind::Hello);
        assert_eq!(channel, 1);
    };
    with_daemon(script, |mut clients| {
        clients.join(settings("Ann")).unwrap();
        let bob = clients.join(settings("Bob")).unwrap();
        clients.send(bob, Outgoing::message("Ann", "hello")).unwrap();
        work_until(&mut clients, |_, event| {
            matches!(event, Event::State(ConnectionState::Backoff { .. }))
        });
        work_until(&mut clients, |_, event| {
            matches!(event, Event::State(ConnectionState::Handshaking))
        });
        clients.work();
    });
}

#[test]
fn channel_without_credit_holds_up_no_other() {
    let script = |mut daemon: Scripted| {
        daemon.daemon = Some(daemon.accept_operator(Some(100)));
        daemon.admit(1, "Ann");
        daemon.admit(2, "Bob");
        let mut sent = [0, 0, 0];
        while sent[2] == 0 {
            let (channel, _) = daemon.receive(Kind::Send);
            sent[channel as usize] += 1;
        }
        // One long message uses the credit up, and another one waits.
        assert_eq!(sent, [0, 1, 1]);
        daemon.control(Control::Credit(1, 2 * CREDIT_BYTES as u32));
        assert_eq!(daemon.receive(Kind::Send).0, 1);
    };
    with_daemon(script, |mut clients| {
        let ann = clients.join(settings("Ann")).unwrap();
        let bob = clients.join(settings("Bob")).unwrap();
        let long = "x".repeat(CREDIT_BYTES);
        for _ in 0..2 {
            clients.send(ann, Outgoing::message("Eve", long.as_str())).unwrap();
        }
        clients.send(bob, Outgoing::message("Eve", "short")).unwrap();
        // The daemon ends when it has got the rest.
        work_until(&mut clients, |_, event| {
            matches!(event, Event::State(ConnectionState::Backoff { .. }))
        });
    });
}

#[test]
fn join_fails_at_once_while_no_daemon_listens() {
    let (mut clients, daemons) = clients();
    drop(daemons);
    let error = clients.join(settings("Ann")).unwrap_err();
    assert!(matches!(error, crate::ClientError::NoDaemon { .. }), "{error}");
    assert!(!clients.has_events());
}
