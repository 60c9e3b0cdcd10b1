//! A daemon that gets no more memory from the system.

use crate::fallible_client::FallibleClient;
use std::{collections::BTreeSet, fs};
use testkit::{sandbox::Sandbox, waiting::output};

/// The memory that the daemon still gets, in KiB.
const LEFT_KIB: u64 = 512;

/// Accepted messages with texts of this length need more than that.
const TEXT_BYTES: usize = 64 * 1024;
const MESSAGES: usize = 100;

/// Limits the daemon's memory to a little more than its present use.
fn limit_memory(sandbox: &Sandbox) {
    let pid = sandbox.daemon_pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    let kib: u64 = data.trim().trim_end_matches(" kB").parse().unwrap();
    let mut prlimit = sandbox.program("prlimit");
    let bytes = (kib + LEFT_KIB) * 1024;
    prlimit.args([format!("--pid={pid}"), format!("--data={bytes}:{bytes}")]);
    let limited = output(prlimit);
    assert!(limited.status.success(), "{limited:?}");
}

#[test]
fn accepted_messages_outlive_a_daemon_without_memory() {
    let mut sandbox = Sandbox::new();
    let mut ann = FallibleClient::connect(&sandbox.endpoint()).unwrap();
    ann.join("Ann", &mut None).unwrap();
    sandbox.join("Bob").leave();
    limit_memory(&sandbox);
    let mut accepted = BTreeSet::new();
    for number in 0..MESSAGES {
        let text = format!("{number} {}", "x".repeat(TEXT_BYTES));
        let sent = ann.send(&format!("m-{number}"), "Bob", &text);
        let Some(answer) = sent.and_then(|()| ann.receive()) else { break };
        match answer["type"].as_str() {
            Some("ACK") => assert!(accepted.insert(number.to_string())),
            _ => assert_eq!(answer["payload"]["code"], "STORE_FAILED", "{answer}"),
        }
    }
    assert!(accepted.len() < MESSAGES, "the memory sufficed");
    sandbox.kill();
    sandbox.start();
    let mut bob = sandbox.join("Bob");
    let mut delivered = BTreeSet::new();
    while !delivered.is_superset(&accepted) {
        let delivery = bob.expect("DELIVER");
        bob.acknowledge(&delivery);
        let body = delivery["payload"]["body"].as_str().unwrap();
        let number = body.split(' ').next().unwrap().to_owned();
        assert!(delivered.insert(number), "{} came twice", delivery["id"]);
    }
    assert_eq!(bob.drain().len(), 0);
}
