//! Scripted tests of how a received message reaches the terminal: when it is typed, submitted and
//! acknowledged.

use crate::{
    IncomingMessage, Input, Output, Settings, TerminalSide,
    tests::script::{check, outputs, settings},
};
use expect_test::expect;
use protocol::Moment;

#[test]
fn message_is_typed_submitted_and_then_acknowledged() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        5000 message Ann: Your turn\nto play
            5000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nYour turn\nto play\n[/relay 789200]\e[201~
            5150 types \r
            5150 acknowledges 11111111-2222
        9000 ends
    "#]]);
}

#[test]
fn prompt_in_the_transcript_needs_no_enter() {
    check(expect![[r#"
        run agent with a transcript
        0 prints \e[?2004h>\s
        0 owned 1
        0 reports
        5000 message Ann: Your turn\nto play
            5000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nYour turn\nto play\n[/relay 789200]\e[201~
        5050 transcript 1 prompt [relay 789200 from Ann, id 11111111]
        5100 transcript 1 prompt [relay 789200 from Ann, id 11111111]\nYour turn\nto play\n[/relay 789200]
            5100 reports 11111111-2222 Injected
            5100 acknowledges 11111111-2222
            5100 reports 11111111-2222 Confirmed
        9000 ends
    "#]]);
}

#[test]
fn shell_gets_a_here_document_at_its_prompt() {
    check(expect![[r#"
        run bash
        0 prints \e[?2004h$\s
        10 message Ann: hello
            150 types \e[200~: <<'relay-789200'\n[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\nrelay-789200\e[201~
            180 types \r
            180 acknowledges 11111111-2222
        2000 ends
    "#]]);
}

#[test]
fn brief_is_typed_once_before_anything_else() {
    check(expect![[r#"
        run agent with a brief
        0 prints Do you trust this folder?\r\n ❯ 1. Yes\r\n   2. No\r\n
        100 message Ann: hello
        5000 prints \e[2J\e[H\e[?2004h>\s
        5100 state
            5100 1 waiting, 0 typed: the program asks a question that Enter would answer: answer it
        5200 connected
            5300 types \e[200~[relay 789200 from @relay] The relay wrote this, not your user.\nPrint:\n```\n->\relay:Bob <<<\nhello>>\>\n```\n(Write these marks without the backslash inside them: it keeps this text from being read as a message of yours.)\n[/relay 789200]\e[201~
            5450 types \r
            5750 types \e[200~[relay 41f6aa from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 41f6aa]\e[201~
            5900 types \r
            5900 acknowledges 11111111-2222
        9000 connected
        20000 ends
    "#]]);
    check(expect![[r#"
        run agent with a brief
        0 prints >\s
            300 types [relay 789200 from @relay] The relay wrote this, not your user.\nPrint:\n```\n->\relay:Bob <<<\nhello>>\>\n```\n(Write these marks without the backslash inside them: it keeps this text from being read as a message of yours.)\n[/relay 789200]
            450 types \r
        9000 ends
    "#]]);
}

#[test]
fn shell_gets_no_brief() {
    check(expect![[r#"
        run bash with a brief
        0 prints \e[?2004h$\s
        9000 ends
    "#]]);
}

#[test]
fn held_messages_wait_but_a_begun_one_is_submitted() {
    check(expect![[r#"
        run agent
        0 reports
        0 prints \e[?2004h>\s
        5000 message Ann: one
            5000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
        5010 holds
        5020 message Ann 22222222: two
        5020 holds
            5150 types \r
            5150 reports 11111111-2222 Injected
            5150 acknowledges 11111111-2222
            5150 reports 22222222 Waiting(Held)
        90000 state
            90000 1 waiting, 1 typed: its messages are on hold: `agent-relay release Ann`
        90000 releases
            90000 reports 22222222 Unhindered
            90000 types \e[200~[relay 41f6aa from Ann, id 22222222] Another agent wrote this, not your user.\ntwo\n[/relay 41f6aa]\e[201~
            90150 types \r
            90150 reports 22222222 Injected
            90150 acknowledges 22222222
        95000 state
            95000 0 waiting, 2 typed: nothing in the way
        95000 holds
        95000 state
            95000 0 waiting, 2 typed: nothing in the way
        96000 message Ann 33333333: three
            96000 reports 33333333 Waiting(Held)
        96000 exits
            96000 returns 33333333
    "#]]);
}

#[test]
fn changing_screen_delays_a_message() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        100 message Ann: hello
        200 prints Thinking.
        400 prints .
        600 prints .
        650 state
            650 1 waiting, 0 typed: the agent is printing
            900 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1050 types \r
            1050 acknowledges 11111111-2222
        2000 ends
    "#]]);
}

#[test]
fn silent_program_counts_as_started_after_a_while() {
    check(expect![[r#"
        run cat
        0 message Ann: hello
        10 state
            10 1 waiting, 0 typed: the program has not shown its prompt yet
            2000 types [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]
            2150 types \r
            2150 acknowledges 11111111-2222
        3000 ends
    "#]]);
}

#[test]
fn messages_are_typed_one_after_another_in_order() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 message Ann a-1: one
            1000 types \e[200~[relay 789200 from Ann, id a-1] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
        1001 message Bob b-1: two
        1002 message Ann a-2: three
        1010 prints echo
            1160 types \r
            1160 acknowledges a-1
            1460 types \e[200~[relay 41f6aa from Bob, id b-1] Another agent wrote this, not your user.\ntwo\n[/relay 41f6aa]\e[201~
            1610 types \r
            1610 acknowledges b-1
        1700 prints \r\nanswer\r\n>\s
            2000 types \e[200~[relay ba61f5 from Ann, id a-2] Another agent wrote this, not your user.\nthree\n[/relay ba61f5]\e[201~
            2150 types \r
            2150 acknowledges a-2
        9000 ends
    "#]]);
}

#[test]
fn enter_waits_for_the_echo_for_a_limited_time() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 message Ann: hello
            1000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1100 prints .
        1200 prints .
        1300 prints .
            1450 types \r
            1450 acknowledges 11111111-2222
        3000 ends
    "#]]);
    let spinner: String = (1..30).map(|i| format!("{} prints .\n", 1000 + i * 100)).collect();
    let script = format!(
        r"
        run agent
        0 prints \e[?2004h>\s
        1000 message Ann: hello
        {spinner}"
    );
    expect![[r#"
        1000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        3000 types \r
        3000 acknowledges 11111111-2222
    "#]].assert_eq(&outputs(&script));
}

#[test]
fn message_is_acknowledged_only_after_the_terminal_took_it() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        500 stalls
        1000 message Ann: hello
            1000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1001 message Bob: you
        60000 keys x
        60001 state
            60001 1 waiting, 0 typed: the program is not reading its input
        70000 drains
            70150 types \r
            70150 acknowledges 11111111-2222
            70150 types x
        80000 ends
    "#]]);
}

#[test]
fn paste_is_safe_without_its_marks() {
    check(expect![[r#"
        run agent without paste marks
        0 prints \e[?2004h>\s
        1000 message Ann a-1: /exit\n!ls
            1000 types \e[200~[relay 789200 from Ann, id a-1] Another agent wrote this, not your user.\n\/exit\n\!ls\n[/relay 789200]\e[201~
            1150 types \r
            1150 acknowledges a-1
        80000 ends
    "#]]);
}

#[test]
fn untyped_messages_are_returned_when_the_child_ends() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 message Ann a-1: one
            1000 types \e[200~[relay 789200 from Ann, id a-1] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
        1001 message Ann a-2: two
        1100 exits
            1100 returns a-1
            1100 returns a-2
        1200 message Ann a-3: three
            1200 returns a-3
        9000 state
            9000 0 waiting, 0 typed: nothing in the way
    "#]]);
}

#[test]
fn full_queue_wants_no_more_messages_but_accepts_them() {
    let settings = settings("fish");
    for (count, bytes) in [(1000, 10), (32, 512 << 10)] {
        let (mut side, mut out) = (TerminalSide::new(&settings), Vec::new());
        for n in 0..=count {
            assert_eq!(side.wants_messages(), n < count, "{n} of {count}");
            let message = IncomingMessage {
                id: n.to_string(),
                body: "x".repeat(bytes),
                ..IncomingMessage::default()
            };
            side.handle(Moment(n), Input::Delivered(message), &mut out);
        }
        assert_eq!((out.len(), side.state().waiting), (0, count as usize + 1));
    }
}

#[test]
fn answers_stop_while_the_child_does_not_read() {
    let mut side = TerminalSide::new(&Settings { attached: false, ..settings("cat") });
    let mut answered = |input| {
        let mut out = Vec::new();
        side.handle(Moment(0), input, &mut out);
        let bytes = |output: &Output| match output {
            Output::Write(bytes) => bytes.len(),
            other => panic!("{other:?}"),
        };
        out.iter().map(bytes).sum::<usize>()
    };
    let asks = || Input::Printed(b"\x1b[6n");
    let unread = (0..100_000).map(|_| answered(asks())).sum();
    assert!((1000..100_000).contains(&unread), "{unread} bytes wait");
    assert_eq!(answered(asks()), 0);
    assert!(answered(Input::Written(unread)) > 0, "it reads: what waits is answered");
    assert_eq!(answered(asks()), 6);
}

#[test]
fn redelivered_message_is_typed_once() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 message Ann a-1: one
            1000 types \e[200~[relay 789200 from Ann, id a-1] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
        1001 message Ann a-1 s-1 2: one
        1002 message Ann a-2: two
        1003 message Ann a-2 s-1 2: two
            1150 types \r
            1150 acknowledges a-1
            1450 types \e[200~[relay 41f6aa from Ann, id a-2] Another agent wrote this, not your user.\ntwo\n[/relay 41f6aa]\e[201~
            1600 types \r
            1600 acknowledges a-2
        5000 message Ann a-1 s-1 3: one
            5000 acknowledges a-1
        9000 state
            9000 0 waiting, 2 typed: nothing in the way
    "#]]);
}

#[test]
fn frame_mentions_redelivery_and_a_changed_session() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 message Ann a-1 s-1: usual
            1000 types \e[200~[relay 789200 from Ann, id a-1] Another agent wrote this, not your user.\nusual\n[/relay 789200]\e[201~
            1150 types \r
            1150 acknowledges a-1
        2000 message Ann a-2 s-1 2: it comes again
            2000 types \e[200~[relay 41f6aa from Ann, id a-2, again] Another agent wrote this, not your user.\nit comes again\n[/relay 41f6aa]\e[201~
            2150 types \r
            2150 acknowledges a-2
        3000 message ann a-3 s-9: the name was taken anew
            3000 types \e[200~[relay ba61f5 from ann, id a-3, auth claim] Another agent wrote this, not your user.\nthe name was taken anew\n[/relay ba61f5]\e[201~
            3150 types \r
            3150 acknowledges a-3
        4000 message Ann a-4 s-9: which is usual now
            4000 types \e[200~[relay 7079b3 from Ann, id a-4] Another agent wrote this, not your user.\nwhich is usual now\n[/relay 7079b3]\e[201~
            4150 types \r
            4150 acknowledges a-4
        9000 ends
    "#]]);
}

#[test]
fn unfinished_message_of_the_agent_delays_typing() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h->relay:Cid <<<\r\nfirst line\r\n
        1000 message Bob: hello
        9000 state
            9000 1 waiting, 0 typed: the agent is at work
        9500 prints last line>>>\r\nDone.\r\n
            9750 sends 0: OutgoingMessage { to: "Cid", topic: None, thread: None, kind: "message", body: "first line\nlast line", data: None, meta: None, reply_to: None }
            9800 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            9950 types \r
            9950 acknowledges 11111111-2222
        20000 ends
    "#]]);
}
