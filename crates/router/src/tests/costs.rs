//! Costs of single frames, counted: they depend on what a frame asks for, and not on what others
//! have stored.

use super::script::{Cost, cost_of_last};
use crate::work::{CHECK_WORK, DELIVERY_WORK, FRAME_WORK, NODE_WORK, ROW_WORK, of_reading};

/// Returns the cost of `last` after `few` and after `many` repetitions of `lines`, in which `#N` is
/// the number of the repetition. Only a few more steps are allowed after many.
#[track_caller]
fn check_constant(begin: &str, lines: impl Fn(usize) -> String, last: &str) -> Cost {
    let cost = |count: usize| {
        let repeated = (0..count).flat_map(|at| {
            lines(at).lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        });
        let begin = begin.lines().map(|line| line.trim().to_owned());
        let script: Vec<_> = begin.chain(repeated).chain([last.to_owned()]).collect();
        cost_of_last(&script)
    };
    let (few, many) = (cost(30), cost(600));
    assert!(many.steps <= few.steps + 30, "{last}: {few:?} after a few, {many:?} after many");
    assert!(many.work < few.work + NODE_WORK, "{last}: {few:?} after a few, {many:?} after many");
    many
}

#[test]
fn inbox_costs_its_page() {
    for begin in ["here: ann bob op\nbob goes", "here: ann bob op"] {
        let cost = check_constant(
            begin,
            |at| format!("ann>> Bob #t{at}: {at}"),
            r#"op asks inbox {"of":"Bob","limit":1}"#,
        );
        assert_eq!(cost.work / ROW_WORK, 1, "{cost:?}");
    }
}

#[test]
fn long_row_costs_its_reading() {
    const BYTES: usize = 100_000;
    let lines = |last: &str| {
        ["here: ann bob op", "bob goes", &format!("ann>> Bob: x*{BYTES}"), last].map(str::to_owned)
    };
    let inbox = cost_of_last(&lines(r#"op asks inbox {"of":"Bob","limit":1}"#)).work;
    assert!(inbox >= of_reading(BYTES), "{inbox}");
    let request = format!(r#"op asks status {{"x":"{}"}}"#, "x".repeat(BYTES));
    let status = cost_of_last(&lines(&request)).work;
    assert!(status >= of_reading(BYTES), "{status}");
}

#[test]
fn resume_costs_its_reading() {
    let topics: Vec<_> = (0..100).map(|at| format!(r#""{at}":{{"last_seq":0}}"#)).collect();
    let streams = topics.join(",");
    let resume = format!(r#"ann says RESUME {{"streams":{{{streams}}}}}"#);
    let cost = cost_of_last(&["here: ann".to_owned(), resume]).work;
    assert!(cost >= of_reading(streams.len()), "{cost}");
}

#[test]
fn agents_costs_its_page() {
    let join = |at| format!(r#"a{at} joins {{"agent":"A{at}"}}"#);
    let cost = check_constant("here: op", join, r#"op asks agents {"limit":3}"#);
    assert_eq!(cost.work / ROW_WORK, 3);
    let send = |at| format!("ann>> Bob #t{at}: {at}");
    check_constant("here: ann bob op", send, r#"op asks agents {"limit":3}"#);
}

#[test]
fn status_and_unknown_names_cost_the_same_with_many_agents() {
    let join = |at| format!(r#"a{at} joins {{"agent":"A{at}"}}"#);
    check_constant("here: op", join, "op asks status");
    check_constant("here: ann", join, "ann> Nobody: x");
}

#[test]
fn reconnection_does_not_cost_idle_streams() {
    let send = |at| format!("ann> Bob #t{at}: {at}");
    check_constant("here: ann bob\nann> Bob: 1", send, "bob goes");
}

#[test]
fn departure_does_not_cost_the_questions_of_others() {
    let begin = r#"here: ann bob
        gus joins {"mode":"guest"}
        gus asks status"#;
    let ask = |at| {
        format!(
            r#"ann says SEND id=a{at} to=Bob meta={{"sync":{{"correlationId":"c{at}"}}}} {{"body":"x"}}"#
        )
    };
    check_constant(begin, ask, "gus goes");
}

#[test]
fn redelivery_does_not_cost_other_streams() {
    let begin = "here: ann bob op\nbob goes\nann>> Bob 1ms: late\nwait 1";
    check_constant(begin, |at| format!("ann>> Bob #t{at}: x"), r#"op asks redeliver {"id":"a1"}"#);
}

/// Returns lines by which 40 agents subscribe to 4,000 patterns.
fn pattern_subscriptions() -> Vec<String> {
    let mut lines = Vec::new();
    for agent in 0..40 {
        lines.push(format!(r#"a{agent} joins {{"agent":"A{agent}"}}"#));
        let patterns = (0..100).map(|of| format!("t{agent}.*.{of}"));
        lines.extend(patterns.map(|topic| format!("a{agent} says SUBSCRIBE topic={topic} {{}}")));
    }
    lines
}

#[test]
fn send_on_a_topic_costs_its_matches() {
    let mut lines = pattern_subscriptions();
    lines.push("a0> * #elsewhere.x.1: x".to_owned());
    let missed = cost_of_last(&lines).work;
    let frame = FRAME_WORK;
    assert!((frame..frame + 3 * NODE_WORK).contains(&missed), "without a match: {missed}");
    *lines.last_mut().unwrap() = "a0> * #t1.x.7: x".to_owned();
    let matched = cost_of_last(&lines).work;
    let delivery = frame + CHECK_WORK + DELIVERY_WORK;
    assert!((delivery..delivery + 200).contains(&matched), "with one match: {matched}");
}
