//! Scripted tests of other programs that read from the agent's terminal.

use crate::{
    IncomingMessage, Input, Output, TerminalSide,
    obstacle::Obstacle,
    tests::script::{check, settings},
};
use expect_test::expect;
use protocol::Moment;

#[test]
fn other_program_gets_no_text() {
    check(expect![[r#"
        run bash
        0 prints \e[?2004h$\s
        1000 keys vim\r
            1000 types vim\r
        1100 prints vim\r\n\e[?2004l\e[?1049h\e[?2004hfile
        1200 message Ann: hello
        60000 state
            60000 1 waiting, 0 typed: a full-screen program reads keys as commands: leave it
        61000 prints \e[?1049l\e[?2004h$\s
            61150 types \e[200~: <<'relay-789200'\n[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\nrelay-789200\e[201~
            61180 types \r
            61180 acknowledges 11111111-2222
        70000 ends
    "#]]);
    check(expect![[r#"
        run agent
        0 prints >\s
        1000 foreground vim
        1001 message Ann: hello
        60000 state
            60000 1 waiting, 0 typed: vim is in the terminal's foreground: end it
        60500 foreground self
            60500 types [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]
            60650 types \r
            60650 acknowledges 11111111-2222
        70000 ends
    "#]]);
}

#[test]
fn text_is_not_submitted_while_another_program_reads() {
    check(expect![[r#"
        run claude
        begin message typed
        1010 prints \e[2K\r❯\s[relay 789200 from Bob]\r\n\s\shello\r\n\s\s[/relay 789200]
        1020 foreground shell
            1070 reports 11111111-2222 Waiting(Shell)
        3000 keys ls\r
            3000 types ls\r
        9000 state
            9000 1 waiting, 0 typed: bash would run the text: leave bash
        20000 exits
            20000 returns 11111111-2222
    "#]]);
    // The program that got the text reads again.
    check(expect![[r#"
        run claude
        begin message typed
        1010 prints \e[2K\r❯\s[relay 789200 from Bob]\r\n\s\shello\r\n\s\s[/relay 789200]
        1020 foreground suspended
            1070 reports 11111111-2222 Waiting(Suspended)
        5000 foreground self
            5060 types \r
        5200 prints \e[2J\e[H❯\s
            5240 reports 11111111-2222 Injected
            5240 acknowledges 11111111-2222
        9000 ends
    "#]]);
}

#[test]
fn enter_is_not_pressed_again_for_another_program() {
    check(expect![[r#"
        run claude
        begin message typed
        1010 prints \e[2K\r❯\s[relay 789200 from Bob]\r\n\s\shello\r\n\s\s[/relay 789200]
            1070 types \r
        1200 foreground shell
            1220 reports 11111111-2222 Waiting(Shell)
        9000 state
            9000 1 waiting, 0 typed: bash would run the text: leave bash
    "#]]);
}

#[test]
fn unknown_reader_gets_no_text() {
    let mut side = TerminalSide::new(&settings("claude"));
    let mut out = Vec::new();
    side.injector.assume_started();
    side.handle(Moment(0), Input::Printed("\x1b[?2004h❯ ".as_bytes()), &mut out);
    let message = IncomingMessage {
        id: "1".to_owned(),
        from: "Bob".to_owned(),
        ..IncomingMessage::default()
    };
    side.handle(Moment(1000), Input::Delivered(message), &mut out);
    for at in [1000, 5000, 60_000] {
        side.handle(Moment(at), Input::Tick, &mut out);
        assert_eq!(out.pop(), Some(Output::Identify), "nobody knows yet who reads");
        let reader = crate::keyboard::Reader::Barred(Obstacle::Unidentified, None);
        side.handle(Moment(at), Input::Reads { reader, gathers_lines: false }, &mut out);
    }
    assert!(!out.iter().any(|output| matches!(output, Output::Write(_))), "{out:?}");
    assert_eq!(side.state().why, Some(Obstacle::Unidentified));
}

#[test]
fn output_of_a_nested_wrapper_is_not_sent() {
    check(expect![[r#"
        run agent
        0 prints ->relay:Bob <<<before>>>\r\n$\srun\r\n
            250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "before", data: None, meta: None, reply_to: None }
        400 inner begins
        410 foreground relay
        500 prints ->relay:Bob <<<inside>>>\r\nsome text\r\n
        1000 prints ->relay:Bob <<<at the end>>>\r\n
        1010 inner ends
        1015 foreground self
        1020 prints ->relay:Bob <<<after>>>\r\n$\s
            1270 sends 1: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "after", data: None, meta: None, reply_to: None }
        9000 ends
    "#]]);
}

#[test]
fn output_after_a_killed_inner_run_is_sent_once_the_foreground_has_shown_its_end() {
    check(expect![[r#"
        run agent
        0 inner begins
        10 foreground relay
        2000 foreground self
        2001 prints ->relay:Bob <<<inside>>>\r\nsome text\r\n
        4000 prints ->relay:Bob <<<after>>>\r\n$\s
            4250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "after", data: None, meta: None, reply_to: None }
        9000 ends
    "#]]);
}

#[test]
fn output_of_an_inner_run_without_marks_is_not_sent_once_the_foreground_has_shown_its_start() {
    check(expect![[r#"
        run agent
        0 foreground relay
        2000 prints ->relay:Bob <<<inside>>>\r\nsome text\r\n
        3000 foreground self
        3001 prints ->relay:Bob <<<after>>>\r\n$\s
            3251 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "after", data: None, meta: None, reply_to: None }
        9000 ends
    "#]]);
}
