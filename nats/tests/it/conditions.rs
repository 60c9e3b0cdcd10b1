//! Encryption, and clocks that differ.

use crate::support::{
    WATCHDOG,
    folder::Folder,
    host::{Host, connect},
    nats::Nats,
    until,
};
use client::{Event, Outgoing};
use std::{
    ffi::OsStr,
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::PathBuf,
    process::Command,
};

/// The library that shifts a process' clock. `ci/machines` installs it into a folder that
/// is named after the machine's architecture.
fn faketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.filter_map(Result::ok);
    let mut paths = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    paths.find(|path| path.exists())
}

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
    let Some(faketime) = faketime() else {
        assert!(std::env::var_os("CI").is_none(), "libfaketime is missing");
        println!("skipped: libfaketime is missing");
        return;
    };
    let nats = Nats::one();
    let variables = [
        ("LD_PRELOAD", faketime.as_os_str()),
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

/// Makes a certificate for 127.0.0.1, and the authority `ca.pem`. Returns the lines of a
/// server's configuration for it.
fn tls(folder: &Folder) -> String {
    openssl(
        folder,
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem",
    );
    openssl(folder, "req -newkey rsa:2048 -nodes -subj /CN=nats -keyout key.pem -out request");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost").unwrap();
    openssl(
        folder,
        "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names \
         -out cert.pem",
    );
    format!("tls {{ cert_file: {:?}, key_file: {:?} }}\n", path("cert.pem"), path("key.pem"))
}

#[test]
fn server_without_a_trusted_certificate_is_not_joined() {
    let folder = Folder::new();
    let nats = Nats::with(1, &tls(&folder), &[]);
    let urls = nats.urls().replace("nats://", "tls://");

    let mut stranger = Host::new("stranger", &["Eve"]);
    stranger.start_bridge_with(&urls, &[]);
    stranger.bridge().line("name the authority of the server's certificate with --tls-ca FILE");
    assert_eq!(stranger.bridge.as_mut().unwrap().wait().code(), Some(1));

    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob"])];
    let ca = folder.path().join("ca.pem");
    connect(&mut hosts, &urls, &["--tls-ca", ca.to_str().unwrap()]);
    exchange(&hosts[0], &hosts[1]);
}

/// A server with TLS announces the other servers of its cluster, without saying how to reach them.
#[test]
fn announced_server_is_spoken_to_only_over_tls() {
    let folder = Folder::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let other_port = other.local_addr().unwrap().port();
    let announces = format!("client_advertise: \"127.0.0.1:{other_port}\"\n");
    let mut nats = Nats::with_each(&[&tls(&folder), &announces], &[]);
    let url = nats.urls().split(',').next().unwrap().replace("nats://", "tls://");

    // `--tls-ca` would already require TLS of all servers, so the system's authorities are
    // replaced.
    let ca = folder.path().join("ca.pem");
    let mut host = Host::with_variables("desk", &["Ann"], &[("SSL_CERT_FILE", ca.as_os_str())]);
    host.start_bridge_with(&url, &[]);
    host.bridge().line("joined to tls://");
    nats.kill(0);

    other.set_nonblocking(true).unwrap();
    let (mut stream, _) = until("a connection to the announced server", || other.accept().ok());
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    let info = r#"{"server_id":"N","server_name":"n1","version":"2.10.0","go":"","host":"127.0.0.1",
        "port":4222,"proto":1,"headers":true,"max_payload":1048576}"#;
    write!(stream, "INFO {}\r\n", info.replace('\n', "")).unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    // The type of the record that begins TLS. In clear, the first byte would be that of CONNECT.
    assert_eq!(first, [0x16], "{:?}", char::from(first[0]));
}
