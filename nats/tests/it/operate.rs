//! An operator's view of a bridge, and its settings.

use crate::support::{host::Host, nats::Nats, until};
use client::{Client, Event, Outgoing, Settings};
use serde_json::{Value, json};

/// The report of a host's bridge; null if there is none.
fn report(host: &Host) -> Value {
    let status: Value = serde_json::from_str(&host.command(&["status", "--json"])[0]).unwrap();
    status["bridges"][0].clone()
}

/// Waits until the report of a host's bridge fulfils a condition.
fn await_report(host: &Host, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    until(what, || {
        last = report(host);
        is_so(&last).then(|| last.clone())
    })
}

#[test]
fn bridge_reports_its_server_and_the_machines_there() {
    let mut nats = Nats::one();
    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob"])];
    assert_eq!(report(&hosts[0]), Value::Null);
    crate::support::host::connect(&mut hosts, &nats.urls(), &[]);
    let [mut desk, mut pi] = hosts;
    let linked = await_report(&desk, "pi in the report", |report| {
        report["hosts"][0]["agents"] == json!(["Bob"])
    });
    let members = ["kind", "name", "state", "server", "links"].map(|member| &linked[member]);
    let expected = ["nats", "desk", "linked", "n0"].map(Value::from);
    assert_eq!((&members[..4], members[4]), (&expected.each_ref()[..], &json!(1)));
    let metrics = desk.command(&["status", "--prometheus"]).join("\n");
    let agents = "agent_relay_bridge_agents{kind=\"nats\",name=\"desk\",host=\"pi\"} 1";
    assert!(metrics.contains(agents), "{metrics}");
    let agents = desk.command(&["agents"]).join("\n");
    assert!(agents.contains("NATS bridge of desk: linked to n0 for "), "{agents}");
    nats.kill(0);
    let lost = await_report(&desk, "a lost link", |report| report["state"] == "lost");
    assert!(lost["error"]["text"].as_str().unwrap().contains("NATS"), "{lost}");
    nats.start(0);
    await_report(&desk, "the next link", |report| report["links"] == 2);
    pi.stop_bridge();
    await_report(&desk, "a report without pi", |report| report["hosts"] == json!([]));
    desk.stop_bridge();
    assert_eq!(report(&desk), Value::Null);
}

/// Joins as an agent that states its program and directory.
fn join_with_details(host: &Host, agent: &str, program: &str) -> Client {
    let settings = Settings::agent(host.endpoint(), agent);
    let (program, directory) = (Some(program.to_owned()), Some(format!("/src/{agent}")));
    Client::join(Settings { local: true, program, directory, ..settings }).unwrap()
}

#[test]
fn agents_of_other_hosts_have_their_programs_and_directories() {
    let nats = Nats::one();
    let mut hosts = [Host::new("desk", &["Ann"]), Host::new("pi", &["Bob"])];
    let _ann = join_with_details(&hosts[0], "Ann", "claude");
    let _bob = join_with_details(&hosts[1], "Bob", "codex");
    hosts[0].start_bridge_with(&nats.urls(), &["--no-details"]);
    hosts[1].start_bridge_with(&nats.urls(), &[]);
    let [desk, pi] = hosts;
    let agents = |host: &Host| host.command(&["agents", "--json"]).join("\n");
    until("the details of Bob", || {
        let all = agents(&desk);
        (all.contains(r#""program":"codex""#) && all.contains("/src/Bob")).then_some(())
    });
    // The other way, only the agents of pi have programs.
    until("Ann on pi", || agents(&pi).contains("Ann@desk").then_some(()));
    assert!(!agents(&pi).contains("claude"), "{}", agents(&pi));
}

#[test]
fn agents_that_match_a_pattern_are_exported_as_long_as_they_are_known() {
    let nats = Nats::one();
    let mut hosts = [Host::new("desk", &["web-*"]), Host::new("pi", &["Bob"])];
    let (web, _db) = (hosts[0].join("web-1"), hosts[0].join("db-1"));
    let bob = hosts[1].join("Bob");
    for host in &mut hosts {
        host.start_bridge_with(&nats.urls(), &[]);
    }
    let [desk, pi] = hosts;
    let knows = |name: &str| pi.command(&["agents", "--json"]).join("\n").contains(name);
    until("web-1 on pi", || knows("web-1@desk").then_some(()));
    let later = desk.join("web-2");
    until("web-2 on pi", || knows("web-2@desk").then_some(()));
    assert!(!knows("db-1"), "{:?}", pi.command(&["agents"]));
    bob.send(Outgoing::message("web-2@desk", "hello")).unwrap();
    until("a delivery", || {
        matches!(later.events().try_recv(), Ok(Event::Delivered(_))).then_some(())
    });
    web.close();
    until("a name that is forgotten", || {
        let said = desk.command(&["purge", "--forget", "web-1"]).join("");
        said.contains("is forgotten").then_some(())
    });
    // An agent that is away stays exported, and is no longer exported once it is forgotten.
    await_report(&pi, "the agents of desk", |report| {
        report["hosts"][0]["agents"] == json!(["web-2"])
    });
}

#[test]
fn settings_are_those_of_the_file() {
    let nats = Nats::one();
    let mut desk = Host::new("desk", &["Ann"]);
    // A file with credentials is found next to the settings.
    desk.private_file("home/desk.creds", "desk:secret\n");
    desk.start_bridge_of_file(&format!(
        "host = 'desk'\nexport = ['Ann']\nserver = ['{}']\ncreds = 'desk.creds'\n",
        nats.urls()
    ));
    let joined = desk.bridge().line("joined to NATS server n0");
    let (time, rest) = joined.split_once(' ').unwrap();
    assert_eq!((time.len(), time.ends_with('Z'), rest), (24, true, "joined to NATS server n0"));
    desk.stop_bridge();
    desk.start_bridge_of_file("host = 'desk'\n\nexports = ['Ann']\n");
    let said = desk.bridge().line("nats.toml:");
    let expected = "nats.toml:3: unknown key \"exports\" (did you mean \"export\"?)";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn credentials_that_were_rotated_count_without_a_restart() {
    const USERS: &str =
        "authorization { users: [{ user: desk, password: $RELAY_DESK_PASSWORD }] }\n";
    let mut nats = Nats::with(1, USERS, &[("RELAY_DESK_PASSWORD", "first")]);
    let mut desk = Host::new("desk", &["Ann"]);
    let creds = desk.private_file("creds", "desk:first\n");
    desk.start_bridge_with(&nats.urls(), &["--creds", creds.to_str().unwrap()]);
    let joined = |desk: &Host, times: usize| {
        until("a connection", || {
            let lines = desk.bridge().lines();
            let joined = lines.iter().filter(|line| line.contains("joined to NATS server"));
            (joined.count() == times).then_some(())
        });
    };
    joined(&desk, 1);
    nats.kill(0);
    // A file that cannot be used is reported, and read again.
    desk.private_file("creds", "nothing\n");
    nats.set_variable("RELAY_DESK_PASSWORD", "second");
    nats.start(0);
    desk.bridge().line("it holds neither a NATS JWT");
    desk.private_file("creds", "desk:second\n");
    joined(&desk, 2);
    let lines = desk.bridge().lines().join("\n");
    assert!(!lines.contains("first") && !lines.contains("second"), "{lines}");
}
