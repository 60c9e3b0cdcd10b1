//! Scripted tests of typing while a person types, too: half-typed lines, escape sequences, dialogs.

use crate::tests::script::{check, outputs};
use expect_test::expect;

#[test]
fn half_typed_line_delays_a_message() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        3000 keys h
            3000 types h
        3001 prints h
        3050 message Ann: hello
        3100 keys i
            3100 types i
        3101 prints i
        5000 state
            5000 1 waiting, 0 typed: a line is half typed: submit or erase it
        6000 keys \r
            6000 types \r
        6001 prints \r\n>\s
        6500 state
            6500 1 waiting, 0 typed: the agent is printing
            7000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            7150 types \r
            7150 acknowledges 11111111-2222
        9000 ends
    "#]]);
}

#[test]
fn erased_line_delays_nothing() {
    check(expect![[r#"
        run bash
        0 prints \e[?2004h$\s
        3000 keys h
            3000 types h
        3001 prints h
        3050 message Ann: hello
        5000 state
            5000 1 waiting, 0 typed: no empty input line is recognised: see `agent-relay attach Ann`
        6000 keys \x7f
            6000 types 
        6001 prints \x08\s\x08
            7000 types \e[200~: <<'relay-789200'\n[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\nrelay-789200\e[201~
            7030 types \r
            7030 acknowledges 11111111-2222
        9000 ends
    "#]]);
}

#[test]
fn keys_wait_while_a_message_is_typed_but_answers_pass() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 message Ann: hello
            1000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1050 keys x
        1060 keys \e[5;5R
        1070 keys \r
            1150 types \r
            1150 acknowledges 11111111-2222
            1150 types x\e[5;5R\r
        3000 ends
    "#]]);
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 message Ann: hello
            1000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1050 keys \e[5;5R
            1050 types \e[5;5R
            1150 types \r
            1150 acknowledges 11111111-2222
        3000 ends
    "#]]);
}

#[test]
fn line_editor_in_command_mode_gets_no_text() {
    check(expect![[r#"
        run bash
        0 prints \e[?2004h$\s
        1000 keys \e
            1000 types \e
        1100 message Ann: it's\ntouch pwned
        9000 state
            9000 1 waiting, 0 typed: a line is half typed: submit or erase it
        9100 keys k
            9100 types k
        9200 state
            9200 1 waiting, 0 typed: a line is half typed: submit or erase it
        19000 state
            19000 1 waiting, 0 typed: a line is half typed: submit or erase it
        19100 keys \e
            19100 types \e
        19200 keys \r
            19200 types \r
        19201 prints \e[?2004h\r\n$\s
            20200 types \e[200~: <<'relay-789200'\n[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nit's\ntouch pwned\n[/relay 789200]\nrelay-789200\e[201~
            20230 types \r
            20230 acknowledges 11111111-2222
        29000 state
            29000 0 waiting, 1 typed: nothing in the way
    "#]]);
    // Keys for a full-screen program do not reach the shell's line editor. An agent CLI recognises
    // a paste even after an Escape.
    check(expect![[r#"
        run bash
        0 prints \e[?2004h$\s
        900 prints \e[?1049h
        1000 keys \eZ
            1000 types \eZ
        1100 keys Z
            1100 types Z
        1200 prints \e[?1049l
        1300 message Ann: hello
            2100 types \e[200~: <<'relay-789200'\n[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\nrelay-789200\e[201~
            2130 types \r
            2130 acknowledges 11111111-2222
        9000 state
            9000 0 waiting, 1 typed: nothing in the way
    "#]]);
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 keys \e
            1000 types \e
        1100 message Ann: hello
            2000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            2150 types \r
            2150 acknowledges 11111111-2222
        9000 state
            9000 0 waiting, 1 typed: nothing in the way
    "#]]);
}

/// The person presses Escape and then types a P. To a terminal, the two begin a string.
#[test]
fn escape_sequence_of_the_person_delays_a_message() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 keys \e
            1000 types \e
        2000 keys Please
            2000 types Please
        2001 prints Please
        2100 message Ann: hello
        9000 state
            9000 1 waiting, 0 typed: a line is half typed: submit or erase it
        10000 keys \sstop\r
            10000 types  stop\r
        10001 prints \sstop\r\n>\s
            11000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            11150 types \r
            11150 acknowledges 11111111-2222
        19000 state
            19000 0 waiting, 1 typed: nothing in the way
    "#]]);
}

#[test]
fn line_begun_after_an_escape_delays_a_message() {
    check(expect![[r#"
        run bash
        0 foreground self
        0 prints \e[?2004h$\s
        900 prints \e[?1049h
        1000 keys \e
            1000 types \e
        2000 keys Paste
            2000 types Paste
        3000 keys :q\r
            3000 types :q\r
        3001 prints \e[?1049l
        4000 keys rm -rf x\s
            4000 types rm -rf x 
        4001 prints rm -rf x\s
        4100 message Ann: hello
        9000 state
            9000 1 waiting, 0 typed: no empty input line is recognised: see `agent-relay attach Ann`
    "#]]);
    // Alt with `_` inserts the last word of the previous line in the shell's line editor.
    check(expect![[r#"
        run bash
        0 foreground self
        0 prints \e[?2004h$\s
        1000 keys \e_
            1000 types \e_
        1001 prints file
        1100 message Ann: hello
        9000 state
            9000 1 waiting, 0 typed: a line is half typed: submit or erase it
        10000 keys \r
            10000 types \r
        10001 prints \e[?2004h\r\n$\s
            11000 types \e[200~: <<'relay-789200'\n[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\nrelay-789200\e[201~
            11030 types \r
            11030 acknowledges 11111111-2222
        19000 state
            19000 0 waiting, 1 typed: nothing in the way
    "#]]);
}

#[test]
fn keys_after_an_escape_wait_while_a_message_is_typed() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        500 keys \e
            500 types \e
        1000 message Ann: hello
            1500 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1550 keys Please
        1560 keys \e_
            1650 types \r
            1650 acknowledges 11111111-2222
            1650 types Please\e_
        3000 ends
    "#]]);
}

/// Windows consoles encode keys in the win32-input-mode. The child was started so long ago that the
/// start does not count as an Enter.
#[test]
fn reply_after_an_enter_in_win32_encoding_is_sent() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        40000 keys who are you\e[13;28;13;1;0;1_
            40000 types who are you\e[13;28;13;1;0;1_
        40010 prints \r\nwho are you\r\n
        40020 transcript 0 prompt who are you
        40200 prints ->relay:Bob <<<me>>>\r\n\r\n
        40210 transcript 0 reply ->relay:Bob <<<me>>>
            40250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me", data: None, meta: None, reply_to: None }
        50000 ends
    "#]]);
}

/// The second row of the line looks like an empty input line.
#[test]
fn line_feed_does_not_submit_in_a_multiline_editor() {
    for key in [r"\n", r"\e[106;5u", r"\e[27;2;13~", r"\e[74;36;10;1;8;1_"] {
        let outputs = outputs(&format!(
            r"
            run opencode
            0 started
            0 prints \e[?2004h\s\s┃\s\s
            1000 keys fix this:
            1001 prints fix this:
            2000 keys {key}
            2001 prints \r\n\s\s┃\s\s
            2100 message Ann: hello
            30000 state
            31000 keys the tests\r
            31001 prints \e[2J\e[H\s\s┃\s\s
            39000 state"
        ));
        assert!(outputs.contains("30000 1 waiting, 0 typed: a line is half typed"), "{outputs}");
        // The Enter may have begun a turn, but no screen shows one here.
        assert!(outputs.contains("\n34000 types \\e[200~[relay 789200 from Ann"), "{outputs}");
    }
}

/// The three cases are a single-row editor, the terminal's line mode, and an editor that submits on
/// a line feed.
#[test]
fn line_feed_submits_a_single_line() {
    for (command, modes, prompt) in
        [("bash", r"\e[?2004h", r"$\s"), ("agent", "", r">\s"), ("aider", r"\e[?2004h", r">\s")]
    {
        let outputs = outputs(&format!(
            r"
            run {command}
            0 started
            0 prints {modes}{prompt}
            1000 keys one\n
            1001 prints one\r\n{prompt}
            2100 message Ann: hello
            9000 state"
        ));
        assert!(outputs.contains("[relay 789200 from Ann"), "{command}: {outputs}");
    }
}

#[test]
fn key_that_ended_a_program_begins_no_line() {
    check(expect![[r#"
        run bash
        0 prints \e[?2004h$\s
        5000 keys less x\r
            5000 types less x\r
        5001 prints less x\r\n\e[?1049hfirst line\r\n:
        6000 message Ann: hello
        7000 state
            7000 1 waiting, 0 typed: a full-screen program reads keys as commands: leave it
        8000 keys q
            8000 types q
        8001 prints \e[?1049l$\s
            9000 types \e[200~: <<'relay-789200'\n[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\nrelay-789200\e[201~
            9030 types \r
            9030 acknowledges 11111111-2222
        9900 ends
    "#]]);
}

#[test]
fn enter_does_not_answer_a_dialog() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h\e[?25lTrust this folder?\r\n\r\n❯ 1. No, exit\r\n  2. Yes\r\n
        1000 message Ann: hello
        60000 state
            60000 1 waiting, 0 typed: the program asks a question that Enter would answer: answer it
        61000 keys \e[B\r
            61000 types \e[B\r
        61001 prints \e[2J\e[H\e[?25h>\s
            62000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            62150 types \r
            62150 acknowledges 11111111-2222
        70000 ends
    "#]]);
}

#[test]
fn person_answers_a_dialog_that_interrupts_an_injection() {
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 message Ann: hello
            1000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1050 keys x
        1100 prints \r\nRun it?\r\n❯ 1. Yes\r\n  2. No\r\n
            1250 types x
        3000 keys 2
            3000 types 2
        3001 prints \e[2J\e[H>\s
            3151 types \r
            3151 acknowledges 11111111-2222
        9000 ends
    "#]]);
}

#[test]
fn shell_gets_no_text_at_a_continuation_prompt() {
    check(expect![[r#"
        run bash
        0 prints \e[?2004h$\s
        2000 keys echo 'abc\r
            2000 types echo 'abc\r
        2010 prints echo 'abc\r\n∙\s
        2020 message Bob: touch marker
        9000 state
            9000 1 waiting, 0 typed: no empty input line is recognised: see `agent-relay attach Ann`
        10000 keys '\r
            10000 types '\r
        10010 prints '\r\nabc\r\n$\s
            11000 types \e[200~: <<'relay-789200'\n[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\ntouch marker\n[/relay 789200]\nrelay-789200\e[201~
            11030 types \r
            11030 acknowledges 11111111-2222
        20000 ends
    "#]]);
    // A command that the shell started has ended, and the person has pressed no key since then.
    check(expect![[r#"
        run bash
        0 keys cd x\r
            0 types cd x\r
        10 prints \e[?2004h/x $\s
        20 message Bob: hello
        5000 state
            5000 1 waiting, 0 typed: no empty input line is recognised: see `agent-relay attach Ann`
        5010 keys make\r
            5010 types make\r
        5020 foreground make
        6000 prints done\r\n
        7000 foreground self
        7010 prints /x $\s
            7160 types \e[200~: <<'relay-789200'\n[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\nrelay-789200\e[201~
            7190 types \r
            7190 acknowledges 11111111-2222
        20000 ends
    "#]]);
}

/// A clock moves while the program handles the key. Pressing the digit again would answer the next
/// dialog, which nobody has seen.
#[test]
fn answered_dialog_is_not_shown_again() {
    check(expect![[r#"
        run claude
        begin ready
        50 prints \e[2J\e[Hls\r\nDo you want to proceed?\r\n❯ 1. Yes\r\n\s\s2. No\r\n\r\n\r\n\r\n12:00
        2000 dialog
            2000 asks ls\nDo you want to proceed?: Yes, No
        2010 keys 1
            2010 types 1
        2020 dialog
            2020 asks nothing
        2500 prints \r12:01
        2510 dialog
            2510 asks nothing
        2600 prints \e[2J\e[H
        2610 prints ls\r\nDo you want to proceed?\r\n❯ 1. Yes\r\n\s\s2. No\r\n\r\n\r\n\r\n12:01
        2620 dialog
            2620 asks nothing
        3000 prints \e[H\e[2Krm\e[7B\r12:02
        3010 dialog
            3010 asks rm\nDo you want to proceed?: Yes, No
        3020 keys 1
            3020 types 1
        3500 prints \e[2J\e[H❯\s
        3510 dialog
            3510 asks nothing
        6000 prints \e[2J\e[Hrm\r\nDo you want to proceed?\r\n❯ 1. Yes\r\n\s\s2. No\r\n\r\n\r\n\r\n12:05
        6010 dialog
            6010 asks rm\nDo you want to proceed?: Yes, No
        6020 keys 1
            6020 types 1
        7000 prints \r12:06
        16000 dialog
            16000 asks nothing
        16100 dialog
            16100 asks rm\nDo you want to proceed?: Yes, No
    "#]]);
}
