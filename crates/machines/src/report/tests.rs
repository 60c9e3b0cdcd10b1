//! Tests of a report's transitions.

use super::*;

fn report(kind: Kind) -> Report {
    Report::new(kind, "pi", "1.2.3")
}

#[test]
fn each_link_counts_once() {
    let mut pi = report(Kind::Bridge);
    pi.lost("ssh ended with code 255");
    assert_eq!((pi.state, pi.links), (State::Connecting, 0));
    assert_eq!(pi.error.as_ref().unwrap().text, "ssh ended with code 255");
    pi.linked(None);
    pi.linked(None);
    pi.host_came("pi", vec!["Bob".to_owned()]);
    assert_eq!((pi.state, pi.links), (State::Linked, 1));
    pi.lost("nothing came");
    assert_eq!((pi.state, &*pi.hosts), (State::Lost, &[][..]));
    pi.linked(None);
    assert_eq!(pi.links, 2);
}

#[test]
fn hosts_of_nats_stay_until_they_are_silent() {
    let mut desk = report(Kind::Nats);
    desk.linked(Some("nats-1".to_owned()));
    desk.host_came("lab", vec!["Ann".to_owned()]);
    let since = desk.hosts[0].since;
    desk.lost("lost the connection");
    assert_eq!((desk.hosts.len(), desk.server.as_ref()), (1, None));
    desk.host_came("lab", Vec::new());
    assert_eq!((desk.hosts.len(), desk.hosts[0].since), (1, since));
    assert!(desk.is_about("LAB") && !desk.is_about("pi"));
    desk.host_left("lab");
    assert_eq!(desk.hosts, []);
    assert!(report(Kind::Bridge).is_about("Pi"));
}

#[test]
fn long_error_is_cut() {
    let mut pi = report(Kind::Stdio);
    pi.failed(&"é".repeat(1000));
    assert_eq!(pi.error.unwrap().text.chars().count(), ERROR_MAX);
}
