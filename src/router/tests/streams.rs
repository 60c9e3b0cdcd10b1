//! Streams and subscriptions in great numbers.

use super::script::run;
use crate::router::{Limits, slots};

/// How often keys are compared while the last of these lines is acted on.
fn steps(limits: &Limits, lines: &[String]) -> u64 {
    let all = |lines: &[String]| {
        let before = slots::compared();
        run(limits.clone(), &lines.join("\n"));
        slots::compared() - before
    };
    all(lines) - all(&lines[..lines.len() - 1])
}

#[test]
fn the_end_of_a_name_takes_no_more_steps_for_each_of_its_streams_where_there_are_many() {
    const MANY: u64 = 2_000;
    let limits = Limits { mailbox_days: 0, ..Limits::default() };
    for end in ["gus goes", "bob goes\nwait 1"] {
        let mut lines = vec!["here: bob".to_owned(), r#"gus joins {"mode":"guest"}"#.to_owned()];
        lines.extend((0..MANY).map(|number| format!("gus> Bob #job.{number}: x")));
        lines.push(end.to_owned());
        let steps = steps(&limits, &lines);
        assert!(steps < 100 * MANY, "{end:?} takes {steps}");
    }
}

#[test]
fn the_end_of_a_session_takes_no_more_steps_where_others_have_subscribed() {
    const MANY: u64 = 100;
    let mut lines = Vec::new();
    for agent in 0..40 {
        lines.push(format!(r#"a{agent} joins {{"agent":"A{agent}"}}"#));
        lines.extend((0..MANY).map(|of| format!("a{agent} says SUBSCRIBE topic=*.{of} {{}}")));
    }
    lines.push(r#"a39 says BYE {"reason":"done"}"#.to_owned());
    let steps = steps(&Limits::default(), &lines);
    assert!(steps < 10 * MANY, "it takes {steps}");
}
