//! Encryption, and clocks that differ.

use crate::support::{
    folder::Folder,
    host::{Host, connect},
    nats::Nats,
    until,
};
use agent_relay::client::{Event, Outgoing};
use std::{ffi::OsStr, path::Path, process::Command};

/// The library by which a process sees another time. `ci/machines` installs it.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

fn exchange(from: &Host, to: &Host) {
    let (sender, recipient) = (&from.agents[0], &to.agents[0]);
    let (ann, bob) = (from.join(sender), to.join(recipient));
    ann.send(Outgoing::message(format!("{recipient}@{}", to.name), "hello")).unwrap();
    let body = until("a delivery", || match bob.events().try_recv() {
        Ok(Event::Delivered(delivery)) => {
            bob.acknowledge(&delivery.id);
            Some(delivery.body)
        }
        _ => None,
    });
    assert_eq!(body, "hello");
}

#[test]
fn hosts_with_clocks_a_day_apart_exchange_messages() {
    if !Path::new(FAKETIME).exists() {
        assert!(std::env::var_os("CI").is_none(), "{FAKETIME} is missing");
        println!("skipped: {FAKETIME} is missing");
        return;
    }
    let nats = Nats::one();
    let variables = [
        ("LD_PRELOAD", OsStr::new(FAKETIME)),
        ("FAKETIME", OsStr::new("+1d")),
        ("FAKETIME_DONT_FAKE_MONOTONIC", OsStr::new("1")),
    ];
    let mut hosts = [Host::new("desk", &["Ann"]), Host::with_variables("pi", &["Bob"], &variables)];
    connect(&mut hosts, &nats.urls(), &[]);
    exchange(&hosts[0], &hosts[1]);
    exchange(&hosts[1], &hosts[0]);
}

/// Runs openssl in a folder.
fn openssl(folder: &Folder, arguments: &str) {
    let mut command = Command::new("openssl");
    let output = command.current_dir(folder.path()).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn server_without_a_trusted_certificate_is_not_joined() {
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name);
    openssl(
        &folder,
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
    );
    openssl(&folder, "req -newkey rsa:2048 -nodes -subj /CN=nats -keyout key.pem -out request");
    std::fs::write(path("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost").unwrap();
    openssl(
        &folder,
        "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names \
         -out cert.pem",
    );
    let tls =
        format!("tls {{ cert_file: {:?}, key_file: {:?} }}\n", path("cert.pem"), path("key.pem"));
    let nats = Nats::with(1, &tls, &[]);
    let urls = nats.urls().replace("nats://", "tls://");

    let mut stranger = Host::new("stranger", &["Eve"]);
    stranger.start_bridge_with(&urls, &[]);
    let line = stranger.bridge().line("127.0.0.1");
    assert!(line.contains("certificate") || line.contains("TLS"), "{line}");

    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob"])];
    let ca = path("ca.pem");
    connect(&mut hosts, &urls, &["--tls-ca", ca.to_str().unwrap()]);
    exchange(&hosts[0], &hosts[1]);
}
