//! The machine's rules, each as a transcript: what happened, and what came of it.

mod script;

use expect_test::expect;
use script::check;

#[test]
fn a_direct_message_reaches_its_recipient_and_needs_no_reply() {
    check(
        "ann joins
         bob joins
         ann> bob: hi
         bob> ann: hi yourself",
        expect![[r#"
            ann joins
                ann < WELCOME {"agent":"Ann","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":true}}
            bob joins
                bob < WELCOME {"agent":"Bob","capabilities":{"ack":true,"max_inflight":256,"resume":false,"supports_topics":true}}
            ann> bob: hi
                bob < DELIVER d1 Ann -> Bob seq 1 {"body":"hi"}
            bob> ann: hi yourself
                ann < DELIVER d2 Bob -> Ann seq 1 {"body":"hi yourself"}
        "#]],
    );
}
