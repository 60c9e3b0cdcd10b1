//! Messages, answers and refusals between two hosts.

use crate::support::{
    host::{Host, connect},
    nats::{Nats, api},
    until,
};
use client::{Client, ClientError, Delivery, Event, Outgoing};
use std::time::Duration;

fn two(nats: &Nats) -> [Host; 2] {
    let mut hosts = [Host::new("Desk", &["Ann"]), Host::new("pi.1", &["Bob"])];
    connect(&mut hosts, &nats.urls(), &[]);
    hosts
}

fn delivery(client: &Client) -> Box<Delivery> {
    until("a delivery", || match client.events().try_recv() {
        Ok(Event::Delivered(delivery)) => Some(delivery),
        Ok(Event::Refused { nack, .. }) => panic!("{nack:?}"),
        _ => None,
    })
}

fn refusal(client: &Client) -> String {
    until("a refusal", || match client.events().try_recv() {
        Ok(Event::Refused { nack, .. }) => Some(nack.message),
        _ => None,
    })
}

/// The messages to an agent that wait, or are not acknowledged.
fn on_their_way(host: &Host, agent: &str) -> u64 {
    let lines = host.command(&["agents", "--json"]);
    let mut agents = lines.iter().filter_map(|line| serde_json::from_str(line).ok());
    let agent: serde_json::Value =
        agents.find(|it: &serde_json::Value| it["name"] == agent).unwrap();
    agent["queued"].as_u64().unwrap()
}

#[test]
fn message_and_answer_cross_and_leave_nothing_in_the_stream() {
    let nats = Nats::one();
    let [desk, pi] = two(&nats);
    let (ann, bob) = (desk.join("Ann"), pi.join("Bob"));
    ann.send(Outgoing::message("Bob@pi.1", "hello")).unwrap();
    let hello = delivery(&bob);
    assert_eq!((hello.from.as_str(), hello.body.as_str()), ("Ann@Desk", "hello"));
    bob.acknowledge(&hello.id);

    std::thread::scope(|scope| {
        scope.spawn(|| {
            let question = delivery(&bob);
            bob.answer(&question, true, None).unwrap();
        });
        let question = Outgoing::message("bob@PI.1", "yes?");
        let answer = ann.ask(question, Duration::from_secs(60)).unwrap();
        assert_eq!(answer.from, "Bob@pi.1");
        assert_eq!(answer.response, Some(true));
    });
    for host in ["desk", "pi~1"] {
        until("an empty stream", || {
            let info = api(&nats.urls(), &format!("$JS.API.STREAM.INFO.RELAY_{host}"))?;
            (info["state"]["messages"] == 0).then_some(())
        });
    }
}

#[test]
fn agent_that_is_not_exported_can_neither_send_nor_receive() {
    let nats = Nats::one();
    let [desk, pi] = two(&nats);
    let (eve, bob) = (desk.join("Eve"), pi.join("Bob"));
    eve.send(Outgoing::message("Bob@pi.1", "hello")).unwrap();
    assert!(refusal(&eve).contains("Eve is not exported"), "not refused by name");
    bob.send(Outgoing::message("Eve@Desk", "hello")).unwrap();
    assert!(refusal(&bob).contains("Eve@Desk"));
}

#[test]
fn message_larger_than_nats_carries_is_refused_with_the_limit() {
    let cases = [("max_payload: 64KB\n", 100_000, 65_536), ("", 1 << 20, 1 << 20)];
    for (config, bytes, limit) in cases {
        let nats = Nats::with(1, config, &[]);
        let desk = Host::with_config("desk", &["Ann"], "max_frame_bytes = 2097152\n");
        let mut hosts = [desk, Host::new("pi", &["Bob"])];
        connect(&mut hosts, &nats.urls(), &[]);
        let ann = hosts[0].join("Ann");
        ann.send(Outgoing::message("Bob@pi", "x".repeat(bytes))).unwrap();
        let why = refusal(&ann);
        assert!(why.contains(&format!("max_payload is {limit}")), "{why}");
    }
}

#[test]
fn messages_wait_at_their_sender_until_the_other_daemon_has_them() {
    let nats = Nats::one();
    let [mut desk, mut pi] = two(&nats);
    let ann = desk.join("Ann");
    pi.kill_bridge();
    for number in 0..5 {
        ann.send(Outgoing::message("Bob@pi.1", number.to_string())).unwrap();
    }
    until("messages in the stream", || {
        let info = api(&nats.urls(), "$JS.API.STREAM.INFO.RELAY_pi~1")?;
        (info["state"]["messages"] != 0).then_some(())
    });
    until("five messages at their sender", || (on_their_way(&desk, "Bob@pi.1") == 5).then_some(()));
    desk.kill_bridge();
    let bob = pi.join("Bob");
    pi.start_bridge();
    desk.start_bridge();
    for number in 0..5 {
        let next = delivery(&bob);
        assert_eq!((next.from.as_str(), next.body.as_str()), ("Ann@Desk", &*number.to_string()));
        bob.acknowledge(&next.id);
    }
    until("no message on its way", || (on_their_way(&desk, "Bob@pi.1") == 0).then_some(()));
}

#[test]
fn refusal_by_the_other_daemon_comes_as_a_refusal_of_the_message() {
    let nats = Nats::one();
    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob"])];
    connect(&mut hosts, &nats.urls(), &[]);
    let [desk, pi] = &hosts;
    let rule = "[[rule]]\nfrom = \"*@desk\"\nto = \"Bob\"\nallow = false\n";
    platform::paths::write_private_file(&pi.home().join("policy.toml"), rule.as_bytes()).unwrap();
    pi.command(&["policy", "reload"]);
    let (ann, bob) = (desk.join("Ann"), pi.join("Bob"));
    ann.send(Outgoing::message("Bob@pi", "hello")).unwrap();
    let why = refusal(&ann);
    assert!(why.contains("a rule there forbids messages from Ann to Bob"), "{why}");
    drop(bob);
}

#[test]
fn agent_that_does_not_read_delays_no_other() {
    let nats = Nats::one();
    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Slow", "Bob"])];
    connect(&mut hosts, &nats.urls(), &[]);
    let [desk, pi] = &hosts;
    let (ann, bob) = (desk.join("Ann"), pi.join("Bob"));
    let _slow = pi.join("Slow");
    for number in 0..2000 {
        ann.send(Outgoing::message("Slow@pi", number.to_string())).unwrap();
    }
    ann.send(Outgoing::message("Bob@pi", "hello")).unwrap();
    assert_eq!(delivery(&bob).body, "hello");
}

#[test]
fn stream_that_is_removed_is_created_again() {
    let nats = Nats::one();
    let [desk, pi] = two(&nats);
    let (ann, bob) = (desk.join("Ann"), pi.join("Bob"));
    api(&nats.urls(), "$JS.API.STREAM.DELETE.RELAY_pi~1").unwrap();
    ann.send(Outgoing::message("Bob@pi.1", "hello")).unwrap();
    assert_eq!(delivery(&bob).body, "hello");
    pi.bridge().line("NATS has lost this host's stream; creating it");
}

/// The size in MiB and the replicas of the stream of pi.
fn stream(nats: &Nats) -> Option<(i64, i64)> {
    let info = api(&nats.urls(), "$JS.API.STREAM.INFO.RELAY_pi")?;
    let config = &info["config"];
    Some((config["max_bytes"].as_i64()? >> 20, config["num_replicas"].as_i64()?))
}

#[test]
fn stream_that_is_removed_comes_back_with_its_size_and_replicas() {
    let nats = Nats::three();
    let more = ["--max-mib", "64", "--replicas", "3"];
    until("streams", || nats.try_set_up(&["desk", "pi"], &more).ok());
    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob"])];
    connect(&mut hosts, &nats.urls(), &[]);
    let [desk, pi] = &hosts;
    let (ann, bob) = (desk.join("Ann"), pi.join("Bob"));
    api(&nats.urls(), "$JS.API.STREAM.DELETE.RELAY_pi").unwrap();
    ann.send(Outgoing::message("Bob@pi", "hello")).unwrap();
    assert_eq!(delivery(&bob).body, "hello");
    assert_eq!(stream(&nats), Some((64, 3)));
}

#[test]
fn setup_changes_only_named_settings_of_a_stream() {
    let nats = Nats::three();
    for (more, set_up) in [
        (&["--replicas", "3"][..], (256, 3)),
        (&["--max-mib", "64"], (64, 3)),
        (&["--replicas", "1"], (64, 1)),
        (&[], (64, 1)),
    ] {
        until("a stream", || nats.try_set_up(&["pi"], more).ok());
        assert_eq!(stream(&nats), Some(set_up), "{more:?}");
    }
}

#[test]
fn bridge_says_bye_and_ends_at_once() {
    let nats = Nats::one();
    let [desk, mut pi] = two(&nats);
    let bridge = pi.bridge.as_mut().unwrap();
    bridge.signal("TERM");
    assert!(bridge.wait().success());
    desk.bridge().line("pi.1 is gone");
    let ann = desk.join("Ann");
    let sent = ann.ask(Outgoing::message("Bob@pi.1", "there?"), Duration::from_millis(300));
    assert!(matches!(sent, Err(ClientError::Refused(_))), "{sent:?}");
}

#[test]
fn messages_on_topics_and_to_everyone_cross_between_hosts_that_take_them() {
    let nats = Nats::one();
    let mut hosts =
        ["desk", "pi", "lab"].map(|name| Host::new(name, &[&format!("agent-of-{name}")]));
    for (host, more) in hosts.iter_mut().zip([
        &["--topic", "build.>", "--broadcasts"][..],
        &["--topic", "build.ok", "--topic", "build.begin"],
        &[],
    ]) {
        host.start_bridge_with(&nats.urls(), more);
    }
    let [desk, pi, lab] = &hosts;
    let clients = hosts.each_ref().map(|host| host.join(&host.agents[0]));
    let other = pi.join("other");
    for client in clients.iter().chain([&other]) {
        client.subscribe("build.>").unwrap();
    }
    let [on_desk, on_pi, on_lab] = &clients;
    for (host, name) in [(desk, "all@pi"), (pi, "all@desk"), (desk, "agent-of-lab@lab")] {
        until(name, || {
            host.command(&["agents"]).iter().any(|line| line.contains(name)).then_some(())
        });
    }
    let publish = |topic: Option<&str>, body: &str| {
        let topic = topic.map(str::to_owned);
        on_desk.send(Outgoing { topic, ..Outgoing::message("*", body) }).unwrap();
    };
    // The bridge may subscribe a moment later.
    until("a message on a topic", || {
        publish(Some("build.begin"), "begin");
        match other.events().recv_timeout(Duration::from_secs(1)) {
            Ok(Event::Delivered(delivery)) => {
                assert_eq!(delivery.from, "agent-of-desk@desk");
                Some(())
            }
            _ => None,
        }
    });
    // Each host takes only what its own settings name, and none passes it on.
    publish(Some("build.no"), "not taken");
    publish(None, "to everyone");
    publish(Some("build.ok"), "taken");
    for client in [on_pi, &other] {
        loop {
            let next = delivery(client);
            client.acknowledge(&next.id);
            assert_eq!(next.from, "agent-of-desk@desk");
            match &*next.body {
                "begin" => {}
                last => {
                    assert_eq!(last, "taken");
                    break;
                }
            }
        }
    }
    on_pi.send(Outgoing::message("agent-of-lab@lab", "only to one")).unwrap();
    let only = delivery(on_lab);
    assert_eq!((&*only.from, &*only.body), ("agent-of-pi@pi", "only to one"));
    assert!(!lab.command(&["agents"]).iter().any(|line| line.contains("all@")));
    until("no message on its way", || (on_their_way(desk, "all@pi") == 0).then_some(()));
}
