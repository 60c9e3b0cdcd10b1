//! A `run` inside a `run`.

use super::{BODIES, Expected, PROGRAM, Program, Stage};
use serde_json::json;

const OUTER: Program = Program {
    needs: &["bash"],
    command: &["bash", "--norc", "--noprofile"],
    expected: Expected::Typed,
    ..PROGRAM
};

#[test]
fn inner_run_is_heard_once_and_the_outer_waits() {
    let Some(mut stage) = Stage::start(&OUTER) else { return };
    let mut bob = stage.sandbox.join("Bob");
    stage.press("{relay} run -n Inner -- {lines} 'say Bob hello'\r", "ready");
    let first = bob.expect("DELIVER");
    bob.acknowledge(&first);
    stage.send(&BODIES);
    stage.settle(Expected::Waiting);
    stage.press("exit 0\r", "$");
    stage.settle(Expected::Typed);
    stage.leave();
    let heard: Vec<_> = std::iter::once(first).chain(bob.drain()).collect();
    let heard: Vec<_> = heard.iter().map(|it| (&it["from"], &it["payload"]["body"])).collect();
    assert_eq!(heard, [(&json!("Inner"), &json!("hello"))]);
}

/// Bob hears what is printed before and after another wrapper, or another command of Agent Relay.
fn outer_is_heard_around(command: &str, shown: &str, inner: Option<&str>) {
    let Some(mut stage) = Stage::start(&OUTER) else { return };
    let mut bob = stage.sandbox.join("Bob");
    let mut hears =
        |stage: &mut Stage<'_>, keys: &str, shown: &str, expected: Option<(&str, &str)>| {
            stage.press(keys, shown);
            let Some(expected) = expected else { return };
            let delivered = bob.expect("DELIVER");
            bob.acknowledge(&delivered);
            let heard = (&delivered["from"], &delivered["payload"]["body"]);
            assert_eq!(heard, (&json!(expected.0), &json!(expected.1)));
        };
    let say = |text: &str| format!("echo '->relay:Bob <<<{text}>>>'; echo and on\r");
    hears(&mut stage, &say("before"), "$", Some(("Ann", "before")));
    hears(&mut stage, &format!("{command}\r"), shown, inner.map(|body| ("Inner", body)));
    hears(&mut stage, &say("after"), "$", Some(("Ann", "after")));
    stage.leave();
    assert!(bob.drain().is_empty(), "something came twice");
}

#[test]
fn outer_is_heard_before_and_after_an_inner_run() {
    let command = "{relay} run -n Inner -- {lines} 'say Bob inside' 'exit 0'; echo o''ver";
    outer_is_heard_around(command, "over", Some("inside"));
}

#[test]
fn outer_is_heard_before_and_after_another_command() {
    outer_is_heard_around("{relay} agents; echo o''ver", "over", None);
}
