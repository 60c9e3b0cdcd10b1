//! Tests of presence.

use super::*;
use serde_json::{Value, json};

fn host(name: &str) -> Host {
    Host::parse(name).unwrap()
}

fn token(name: &str) -> Token {
    Token::of_host(&host(name))
}

fn beat(host: &str, exports: &[&str]) -> Value {
    json!({"version": 1, "host": host, "instance": "i", "age_ms": 5, "exports": exports})
}

struct World {
    now: Instant,
    presence: Presence,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self { now, presence: Presence::new(token("desk"), "own".to_owned(), now) }
    }

    fn beat(&mut self, host: &str, beat: &Value) -> Vec<Output> {
        self.bytes(host, &serde_json::to_vec(beat).unwrap())
    }

    fn bytes(&mut self, host: &str, bytes: &[u8]) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.presence.handle(self.now, Input::Beat(&token(host), bytes), &mut outputs);
        outputs
    }

    fn refusal(&mut self, host: &str, bytes: &[u8]) -> String {
        match self.bytes(host, bytes).pop() {
            Some(Output::Refused(_, why)) => why,
            other => panic!("{other:?}"),
        }
    }
}

fn present(name: &str, exports: &[&str]) -> Output {
    let exports = exports.iter().map(|name| Name::parse(name).unwrap()).collect();
    Output::Present(host(name), exports)
}

#[test]
fn host_is_reported_once_and_again_when_its_exports_change() {
    let mut world = World::new();
    let both = beat("Pi", &["Carl", "Bob"]);
    assert_eq!(world.beat("pi", &both), [present("Pi", &["Bob", "Carl"])]);
    assert_eq!(world.beat("pi", &both), []);
    world.now += CHANGE_MIN;
    assert_eq!(world.beat("pi", &beat("Pi", &["Bob"])), [present("Pi", &["Bob"])]);
    assert_eq!(world.presence.host(&token("pi")).unwrap().as_str(), "Pi");
}

#[test]
fn silent_host_is_absent() {
    let mut world = World::new();
    world.beat("pi", &beat("Pi", &[]));
    world.now += SILENCE_MAX - Duration::from_millis(1);
    let mut outputs = Vec::new();
    world.presence.handle(world.now, Input::Tick, &mut outputs);
    assert_eq!(outputs, []);
    world.now = world.presence.deadline().unwrap();
    world.presence.handle(world.now, Input::Tick, &mut outputs);
    assert_eq!(outputs, [Output::Absent(host("Pi"))]);
    assert_eq!(world.presence.deadline(), None);
}

#[test]
fn host_that_says_bye_is_absent_unless_a_newer_bridge_runs() {
    let mut world = World::new();
    let here = beat("pi", &[]);
    let mut bye = here.clone();
    bye["bye"] = json!(true);
    let mut other = bye.clone();
    other["instance"] = json!("older");
    world.beat("pi", &here);
    assert_eq!(world.beat("pi", &other), []);
    assert_eq!(world.beat("pi", &bye), [Output::Absent(host("pi"))]);
    assert_eq!(world.beat("pi", &bye), []);
}

#[test]
fn host_that_comes_and_goes_is_slowed() {
    let mut world = World::new();
    let here = beat("pi", &["Bob"]);
    let mut bye = here.clone();
    bye["bye"] = json!(true);
    assert_eq!(world.beat("pi", &here), [present("pi", &["Bob"])]);
    assert_eq!(world.beat("pi", &beat("pi", &["Carl"])), []);
    assert_eq!(world.beat("pi", &bye), [Output::Absent(host("pi"))]);
    assert_eq!(world.beat("pi", &here), []);
    world.now += CHANGE_MIN;
    assert_eq!(world.beat("pi", &here), [present("pi", &["Bob"])]);
}

#[test]
fn bridge_that_was_started_again_is_reported() {
    let mut world = World::new();
    let mut here = beat("pi", &[]);
    here["instance"] = json!("00000000000000ab");
    assert_eq!(world.beat("pi", &here), [present("pi", &[])]);
    assert!(world.presence.is_instance(&token("pi"), 0xab));
    here["instance"] = json!("00000000000000ac");
    assert_eq!(world.beat("pi", &here), []);
    world.now += CHANGE_MIN;
    assert_eq!(world.beat("pi", &here), [Output::Restarted(token("pi"))]);
    assert!(!world.presence.is_instance(&token("pi"), 0xab));
}

#[test]
fn question_is_answered() {
    let mut world = World::new();
    let mut ask = beat("pi", &[]);
    ask["ask"] = json!(true);
    assert_eq!(world.beat("pi", &ask), [Output::Answer, present("pi", &[])]);
}

#[test]
fn later_of_two_bridges_of_a_host_ends() {
    let mut world = World::new();
    world.now += Duration::from_secs(10);
    let mut other = beat("desk", &[]);
    assert_eq!(world.beat("desk", &other), [Output::Answer]);
    other["age_ms"] = json!(20_000);
    assert_eq!(world.beat("desk", &other), [Output::Taken]);
    other["instance"] = json!("own");
    assert_eq!(world.beat("desk", &other), []);
}

#[test]
fn one_of_two_bridges_of_a_host_that_begin_together_ends() {
    let other = |instance: &str| {
        let mut world = World::new();
        world.now += Duration::from_secs(10);
        let mut other = beat("desk", &[]);
        (other["age_ms"], other["instance"]) = (json!(9_900), json!(instance));
        world.beat("desk", &other)
    };
    assert_eq!((other("older"), other("pwn")), (vec![Output::Answer], vec![Output::Taken]));
}

#[test]
fn beat_that_lies_or_is_malformed_is_refused_with_the_reason() {
    let mut world = World::new();
    let json = |value: Value| serde_json::to_vec(&value).unwrap();
    let mut newer = beat("pi", &[]);
    newer["version"] = json!(2);
    newer["instance"] = json!({});
    assert!(world.refusal("pi", &json(newer)).contains("version 2"));
    assert!(world.refusal("pi", &json(beat("desk", &[]))).contains("\"desk\""));
    assert!(world.refusal("pi", &json(beat("pi", &["a b"]))).contains("\"a b\""));
    assert!(world.refusal("pi", &json(beat("pi", &["@relay"]))).contains("\"@relay\""));
    assert!(world.refusal("pi", &json(beat("pi", &["Bob", "bob"]))).contains("twice"));
    assert!(world.refusal("pi", b"{").contains("unreadable"));
    assert!(world.refusal("pi", &vec![b' '; BEAT_BYTES_MAX + 1]).contains("bytes"));
    let many: Vec<_> = (0..=AGENTS_MAX).map(|index| format!("a{index}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert!(world.refusal("pi", &json(beat("pi", &many))).contains("more than 256"));
    assert_eq!(world.presence.deadline(), None);
}

#[test]
fn agents_after_those_that_an_earlier_version_takes_are_exported() {
    let mut world = World::new();
    let mut more = beat("pi", &["Bob"]);
    more["more"] = json!(["Al"]);
    more["takes_more"] = json!(true);
    assert_eq!(world.beat("pi", &more), [present("pi", &["Al", "Bob"])]);
    assert_eq!(world.presence.earlier().count(), 0);
    world.beat("lab", &beat("lab", &["Zoe"]));
    assert_eq!(world.presence.earlier().collect::<Vec<_>>(), [&host("lab")]);
}

#[test]
fn refusal_is_reported_once_and_a_present_host_stays_until_it_is_silent() {
    let mut world = World::new();
    world.beat("pi", &beat("pi", &[]));
    world.refusal("pi", b"{");
    assert_eq!(world.bytes("pi", b"{"), []);
    assert_eq!(world.presence.host(&token("pi")), Some(&host("pi")));
}

#[test]
fn number_of_hosts_is_bounded() {
    let mut world = World::new();
    for index in 0..HOSTS_MAX {
        let host = format!("h{index}");
        assert_eq!(world.beat(&host, &beat(&host, &[])).len(), 1);
    }
    assert!(matches!(&world.beat("pi", &beat("pi", &[]))[..], [Output::Refused(..)]));
    assert_eq!(world.beat("h0", &beat("h0", &[])), []);
}
