//! The permissions of a host in hosts.conf, against a real server.

use crate::support::{WATCHDOG, host::Host, nats::Nats, until};
use agent_relay_nats::{js, subject::Token};
use async_nats::{Client, ConnectOptions, Request};
use client::{Event, Outgoing};
use futures_util::StreamExt;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const VARIABLES: [(&str, &str); 4] = [
    ("RELAY_ADMIN_PASSWORD", "admin-secret"),
    ("RELAY_DESK_PASSWORD", "desk-secret"),
    ("RELAY_PI_PASSWORD", "pi-secret"),
    ("RELAY_LAB_PASSWORD", "lab-secret"),
];

fn nats() -> Nats {
    Nats::with(1, include_str!("../../hosts.conf"), &VARIABLES)
}

fn set_up(nats: &Nats, host: &Host) {
    let creds = host.private_file("admin", "admin:admin-secret\n");
    crate::set_up(nats, &["desk", "pi", "lab"], &["--creds", creds.to_str().unwrap()]);
}

/// Two hosts that have joined with credentials of their own.
fn two(nats: &Nats) -> [Host; 2] {
    let hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob"])];
    set_up(nats, &hosts[0]);
    joined(nats, hosts)
}

/// Joins two hosts with credentials of their own.
fn joined(nats: &Nats, mut hosts: [Host; 2]) -> [Host; 2] {
    for host in &mut hosts {
        let creds = format!("{0}:{0}-secret\n", host.name);
        let creds = host.private_file("creds", &creds);
        host.start_bridge_with(&nats.urls(), &["--creds", creds.to_str().unwrap()]);
    }
    for (host, other) in [(0, "pi"), (1, "desk")] {
        hosts[host].bridge().line(&format!("{other} is here"));
    }
    hosts
}

/// A client that has a host's credentials, and uses them as it likes.
struct Intruder {
    client: Client,
    violations: Arc<Mutex<Vec<String>>>,
}

impl Intruder {
    async fn new(nats: &Nats, user: &str) -> Self {
        let violations = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&violations);
        let urls: Vec<_> = nats.urls().split(',').map(str::to_owned).collect();
        let client =
            ConnectOptions::with_user_and_password(user.to_owned(), format!("{user}-secret"))
                .custom_inbox_prefix(format!("_INBOX_{user}"))
                .event_callback(move |event| {
                    seen.lock().unwrap().push(event.to_string());
                    std::future::ready(())
                })
                .connect(urls)
                .await
                .unwrap();
        Self { client, violations }
    }

    /// Waits until the server refuses a publish.
    async fn publish_in_vain(&self, subject: &str) {
        self.client.publish(subject.to_owned(), "{}".into()).await.unwrap();
        let violation = format!("Permissions Violation for Publish to \"{subject}\"");
        self.until_violation(&violation).await;
    }

    /// Waits until the server refuses a subscription.
    async fn subscribe_in_vain(&self, subject: &str) {
        let _subscriber = self.client.subscribe(subject.to_owned()).await.unwrap();
        let violation = format!("Permissions Violation for Subscription to \"{subject}\"");
        self.until_violation(&violation).await;
    }

    async fn until_violation(&self, part: &str) {
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        let seen = async {
            while !self.violations.lock().unwrap().iter().any(|event| event.contains(part)) {
                ticks.tick().await;
            }
        };
        tokio::time::timeout(WATCHDOG, seen).await.unwrap_or_else(|_| panic!("no {part}"));
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn token(name: &str) -> Token {
    Token::received(name).unwrap()
}

fn body(host: &Host, agent: &str, send: impl FnOnce()) -> String {
    let client = host.join(agent);
    send();
    until("a delivery", || match client.events().try_recv() {
        Ok(Event::Delivered(delivery)) => Some(delivery.body),
        _ => None,
    })
}

#[test]
fn hosts_with_their_own_permissions_exchange_messages() {
    let nats = nats();
    let [desk, pi] = two(&nats);
    let ann = desk.join("Ann");
    let body = body(&pi, "Bob", || drop(ann.send(Outgoing::message("Bob@pi", "hello")).unwrap()));
    assert_eq!(body, "hello");
    for host in [&desk, &pi] {
        let lines = host.bridge().lines().join("\n");
        assert!(!lines.contains("Violation") && !lines.contains("secret"), "{lines}");
    }
}

#[test]
fn host_can_neither_send_as_another_nor_read_its_messages_nor_change_the_stream() {
    let nats = nats();
    let desk = Host::new("desk", &[]);
    set_up(&nats, &desk);
    block_on(async {
        let intruder = Intruder::new(&nats, "desk").await;
        for subject in [
            "relay.pi.lab.bob".to_owned(),
            "relay.pi.desk.bob.more".to_owned(),
            "relay-here.pi".to_owned(),
            "relay-done.pi.lab".to_owned(),
            js::next_subject(&token("pi")),
            js::consumer_info_subject(&token("pi")),
            js::create_consumer_subject(&token("pi")),
            js::create_consumer_subject(&token("desk")),
            js::create_stream_subject(&token("desk")),
            js::create_stream_subject(&token("pi")),
            js::stream_info_subject(&token("pi")),
            js::purge_subject(&token("pi")),
            "$JS.API.CONSUMER.DURABLE.CREATE.RELAY_pi.x".to_owned(),
            "$JS.API.CONSUMER.CREATE.RELAY_pi".to_owned(),
            "$JS.API.CONSUMER.DELETE.RELAY_pi.pi".to_owned(),
            "$JS.API.STREAM.DELETE.RELAY_pi".to_owned(),
            "$JS.API.STREAM.UPDATE.RELAY_pi".to_owned(),
            "$JS.API.STREAM.MSG.GET.RELAY_pi".to_owned(),
            "$JS.API.STREAM.MSG.DELETE.RELAY_pi".to_owned(),
            "$JS.API.DIRECT.GET.RELAY_pi".to_owned(),
            "$JS.ACK.RELAY_pi.pi.1.1.1.1.0".to_owned(),
            "_INBOX_pi.x".to_owned(),
        ] {
            intruder.publish_in_vain(&subject).await;
        }
        for subject in ["relay.>", "relay.pi.>", "relay-done.pi.*", "_INBOX_pi.>", ">", "$JS.>"] {
            intruder.subscribe_in_vain(subject).await;
        }
    });
}

/// A request's answer goes wherever the request says, with the server's permissions.
#[test]
fn host_cannot_make_the_server_send_for_another() {
    let nats = nats();
    let [desk, pi] = two(&nats);
    desk.bridge.as_ref().unwrap().signal("STOP");
    block_on(async {
        let intruder = Intruder::new(&nats, "desk").await;
        let next = js::next_subject(&token("desk"));
        let info = js::consumer_info_subject(&token("desk"));
        for reply in ["relay.pi.lab.bob", "relay-here.lab", "$JS.API.STREAM.DELETE.RELAY_pi"] {
            let own = Request::new().payload("".into());
            intruder.client.send_request("relay.desk.desk.x", own).await.unwrap();
            for (subject, request) in [(&next, r#"{"batch":1}"#), (&info, "")] {
                let (subject, reply) = (subject.clone(), reply.to_owned());
                let publish = intruder.client.publish_with_reply(subject, reply, request.into());
                publish.await.unwrap();
            }
            intruder.client.flush().await.unwrap();
        }
        let ack = ("$JS.ACK.RELAY_pi.pi.1.1.1.1.0".to_owned(), next.clone());
        intruder.client.publish_with_reply(ack.1, ack.0, "".into()).await.unwrap();
        intruder.until_violation("Publish with Reply").await;
    });
    // The server's message reaches the bridge, which does not take it for a bridge's.
    let deputy = "a host may have made the NATS server send it";
    for line in [
        "a message in the name of lab is dropped: no bridge has sent it",
        "received an invalid beat",
        "an answer of JetStream came as a beat of lab",
    ] {
        let line = pi.bridge().line(line);
        assert!(line.contains(deputy), "{line}");
    }
    assert!(!pi.bridge().lines().iter().any(|line| line.starts_with("lab is here")));
    desk.bridge.as_ref().unwrap().signal("CONT");
    let bob = desk.join("Ann");
    let body = body(&pi, "Bob", || drop(bob.send(Outgoing::message("Bob@pi", "still")).unwrap()));
    assert_eq!(body, "still");
}

#[test]
fn host_without_permission_to_create_its_consumer_reports_the_remedy() {
    let nats = nats();
    let mut desk = Host::new("desk", &["Ann"]);
    let creds = desk.private_file("creds", "desk:desk-secret");
    desk.start_bridge_with(&nats.urls(), &["--creds", creds.to_str().unwrap()]);
    desk.bridge().line("run `agent-relay-nats setup --host desk` with an administrator's");
    assert_eq!(desk.bridge.as_mut().unwrap().wait().code(), Some(1));
}

#[test]
fn host_with_a_wrong_password_is_refused() {
    let nats = nats();
    let mut desk = Host::new("desk", &["Ann"]);
    let creds = desk.private_file("creds", "desk:wrong");
    desk.start_bridge_with(&nats.urls(), &["--creds", creds.to_str().unwrap()]);
    let line = desk.bridge().line("check the file of --creds");
    assert!(!line.contains("wrong:") && !line.contains("desk:wrong"), "{line}");
    assert_eq!(desk.bridge.as_mut().unwrap().wait().code(), Some(1));
}

#[test]
fn three_servers_of_server_conf_hold_replicated_streams() {
    let nats = Nats::of_server_conf(&VARIABLES);
    let desk = Host::new("desk", &[]);
    let creds = desk.private_file("admin", "admin:admin-secret\n");
    let more = ["--replicas", "3", "--creds", creds.to_str().unwrap()];
    crate::set_up(&nats, &["desk", "pi", "lab"], &more);
    block_on(async {
        let admin = Intruder::new(&nats, "admin").await.client;
        let subject = js::stream_info_subject(&token("pi"));
        let answer = admin.request(subject, "".into()).await.unwrap();
        let info: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
        assert_eq!(info["config"]["num_replicas"], 3, "{info}");
        assert_eq!(info["cluster"]["name"], "relay", "{info}");
    });
    let [_desk, _pi] = joined(&nats, [desk, Host::new("pi", &["Bob"])]);
}

#[test]
fn beats_of_another_host_are_not_in_a_stream() {
    let nats = nats();
    let [_desk, pi] = two(&nats);
    block_on(async {
        let intruder = Intruder::new(&nats, "lab").await;
        let mut beats = intruder.client.subscribe("relay-here.*").await.unwrap();
        // Only the later beats come.
        let beat = beats.next().await.unwrap();
        assert!(beat.reply.is_none());
    });
    drop(pi);
}
