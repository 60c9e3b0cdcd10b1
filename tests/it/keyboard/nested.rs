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
    let heard: Vec<_> = std::iter::once(first).chain(bob.fence()).collect();
    let heard: Vec<_> = heard.iter().map(|it| (&it["from"], &it["payload"]["body"])).collect();
    assert_eq!(heard, [(&json!("Inner"), &json!("hello"))]);
}
