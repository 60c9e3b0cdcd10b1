//! An `agent-relay run` inside another one.

use super::{BODIES, Expected, PROGRAM, Program, Stage};
use serde_json::json;

const OUTER: Program = Program {
    needs: &["bash"],
    command: &["bash", "--norc", "--noprofile"],
    expected: Expected::Typed,
    ..PROGRAM
};

#[test]
fn inner_run_sends_once_while_messages_to_the_outer_wait() {
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
    let received: Vec<_> = std::iter::once(first).chain(bob.drain()).collect();
    let received: Vec<_> =
        received.iter().map(|delivery| (&delivery["from"], &delivery["payload"]["body"])).collect();
    assert_eq!(received, [(&json!("Inner"), &json!("hello"))]);
}

/// Checks that messages sent before and after `command` arrive once and in order.
fn check_outer_sends_around(command: &str, shown: &str, inner: Option<&str>) {
    let Some(mut stage) = Stage::start(&OUTER) else { return };
    let mut bob = stage.sandbox.join("Bob");
    let mut press_and_receive =
        |stage: &mut Stage<'_>, keys: &str, shown: &str, expected: Option<(&str, &str)>| {
            stage.press(keys, shown);
            let Some(expected) = expected else { return };
            let delivered = bob.expect("DELIVER");
            bob.acknowledge(&delivered);
            let received = (&delivered["from"], &delivered["payload"]["body"]);
            assert_eq!(received, (&json!(expected.0), &json!(expected.1)));
        };
    let say = |text: &str| format!("{{relay}} send Bob {text}\r");
    press_and_receive(&mut stage, &say("before"), "$", Some(("Ann", "before")));
    press_and_receive(
        &mut stage,
        &format!("{command}\r"),
        shown,
        inner.map(|body| ("Inner", body)),
    );
    press_and_receive(&mut stage, &say("after"), "$", Some(("Ann", "after")));
    stage.leave();
    assert!(bob.drain().is_empty(), "a message arrived twice");
}

#[test]
fn outer_run_sends_before_and_after_an_inner_run() {
    let command = "{relay} run -n Inner -- {lines} 'say Bob inside' 'exit 0'; echo o''ver";
    check_outer_sends_around(command, "over", Some("inside"));
}

#[test]
fn outer_run_sends_before_and_after_another_command() {
    check_outer_sends_around("{relay} agents; echo o''ver", "over", None);
}
