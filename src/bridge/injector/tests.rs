//! Transcript tests of injections: when a text is typed, submitted, and returned.

use crate::bridge::script::{play, play_transcribed};
use expect_test::{Expect, expect};

#[track_caller]
fn check(command: &str, script: &str, expected: Expect) {
    expected.assert_eq(&play(command, script));
}

/// No empty line was seen before the key.
#[test]
fn key_that_answers_a_dialog_begins_no_line() {
    check(
        "claude",
        r"
        0 settles
        0 prints \e[?2004h❯\s
        50 keys go\r
        60 prints go\r\nDo you want to proceed?\r\n\s❯ 1. Yes\r\n\s\s\s2. No\r\n\sEsc to cancel
        5000 message Bob: hello
        8000 keys 1
        8050 prints \e[2J\e[H❯\s
        20000 ends
        ",
        expect![[r#"
            50 types go\r
            8000 types 1
            9000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        "#]],
    );
}

#[test]
fn key_that_undoes_another_leaves_the_line_empty() {
    check(
        "gemini",
        r"
        0 settles
        0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        2000 keys !
        2050 prints \e[2K\r\s!\s
        2060 message Bob: hello
        9000 keys !
        9050 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        20000 ends
        ",
        expect![[r#"
            2000 types !
            9000 types !
            10000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        "#]],
    );
}

/// A slow program shows something else before the key.
#[test]
fn key_that_is_not_shown_yet_begins_a_line() {
    check(
        "gemini",
        r"
        0 settles
        0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        2000 keys x
        2050 prints \r\n12:00\e[1;4H
        2060 message Bob: hello
        8000 prints \e[2K\r\s>\s\sx
        9000 keys \x7f
        9010 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        20000 ends
        ",
        expect![[r#"
            2000 types x
            9000 types 
            10000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        "#]],
    );
    // Both keys take effect at once, and nothing is shown of them.
    check(
        "gemini",
        r"
        0 settles
        0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        2000 keys x\x7f
        2050 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        2060 message Bob: hello
        30000 ends
        ",
        expect![[r#"
            2000 types x
            12000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        "#]],
    );
}

const GEMINI: &str = r"
    0 settles
    0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
    900 reports
    1000 message Bob: hello
";
const GEMINI_PASTED: &str =
    r"prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]";
const GEMINI_EMPTY: &str =
    r"prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G";

/// A program may take the Enter for a part of the paste before it.
#[test]
fn half_painted_screen_does_not_complete_an_injection() {
    check(
        "gemini",
        &format!(
            r"{GEMINI}
            1010 {GEMINI_PASTED}
            1170 prints \e[2K\r\e[A\e[2K
            1260 prints \r\s\s\shello\r\n\s\s\s[/relay 789200]\r\n\s\s\s
            1890 prints \r\n\s\s\s
            2650 {GEMINI_EMPTY}
            9000 ends"
        ),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1160 types \r
            1880 types \r
            2600 types \r
            2690 reports 11111111-2222 Injected
            2690 acknowledges 11111111-2222
        "#]],
    );
    // The line is painted before its text.
    check(
        "gemini",
        &format!(
            r"{GEMINI}
            1010 {GEMINI_PASTED}
            1170 {GEMINI_EMPTY}
            1180 prints \e[2J\e[H
            1180 {GEMINI_PASTED}
            9000 ends"
        ),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1160 types \r
            1880 types \r
            4880 types \r
            7880 types \r
        "#]],
    );
}

/// The transcript has the prompt before the screen shows it.
#[test]
fn recorded_prompt_completes_an_injection() {
    let script = format!(
        r"{GEMINI}
        1010 {GEMINI_PASTED}
        1170 prints \e[2J\e[H
        1180 keys x
        1300 records 0 prompt [relay 789200 from Bob, id 11111111] Another agent wrote this\nhello\n[/relay 789200]
        9000 ends"
    );
    expect![[r#"
        1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1160 types \r
        1300 reports 11111111-2222 Injected
        1300 acknowledges 11111111-2222
        1300 types x
        1300 reports 11111111-2222 Confirmed
    "#]].assert_eq(&play_transcribed("gemini", &script));
    // Without a record, the text is missed on the screen.
    expect![[r#"
        1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1160 types \r
        1880 reports 11111111-2222 Injected
        1880 acknowledges 11111111-2222
        1880 types x
    "#]].assert_eq(&play("gemini", &script));
}

/// A starting program keeps its input, and shows nothing of it.
#[test]
fn next_message_waits_until_the_last_one_is_recorded() {
    let script = |written: &str| {
        format!(
            r"{GEMINI}
            1000 message Ann 22222222-3333: the next
            1010 {GEMINI_PASTED}
            1170 {GEMINI_EMPTY}
            {written}
            60000 ends"
        )
    };
    let prompt = r"records 0 prompt [relay 789200 from Bob, id 11111111] Another agent wrote this\nhello\n[/relay 789200]";
    let work =
        r"prints (esc to cancel, 1s)\r\n\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G";
    let written = format!("8000 {prompt}\n8900 {work}\n9500 {GEMINI_EMPTY}");
    expect![[r#"
        1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1160 types \r
        1220 reports 11111111-2222 Injected
        1220 acknowledges 11111111-2222
        1220 reports 22222222-3333 Waiting(Printing)
        3320 reports 22222222-3333 Waiting(Busy)
        8000 reports 11111111-2222 Confirmed
        9600 reports 22222222-3333 Unhindered
        9600 types \e[200~[relay 41f6aa from Ann, id 22222222] Another agent wrote this, not your user.\nthe next\n[/relay 41f6aa]\e[201~
        29700 returns 22222222-3333
    "#]].assert_eq(&play_transcribed("gemini", &script(&written)));
    // The last one is never recorded.
    expect![[r#"
        1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        1160 types \r
        1220 reports 11111111-2222 Injected
        1220 acknowledges 11111111-2222
        1220 reports 22222222-3333 Waiting(Printing)
        3320 reports 22222222-3333 Waiting(Busy)
        21220 reports 22222222-3333 Unhindered
        21220 types \e[200~[relay 41f6aa from Ann, id 22222222] Another agent wrote this, not your user.\nthe next\n[/relay 41f6aa]\e[201~
        41320 returns 22222222-3333
    "#]].assert_eq(&play_transcribed("gemini", &script("")));
}

#[test]
fn text_that_stays_in_the_input_line_is_not_acknowledged() {
    check(
        "gemini",
        &format!("{GEMINI}\n1010 {GEMINI_PASTED}\n1200 keys x\n30000 ends"),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1160 types \r
            4160 types \r
            7160 types \r
            7160 types x
            10160 types \r
            13160 reports 11111111-2222 Waiting(NoEnterTaken)
        "#]],
    );
}

#[test]
fn keys_do_not_join_a_text_that_is_shown_late() {
    check(
        "gemini",
        &format!(
            r"{GEMINI}
            1050 keys x
            2400 {GEMINI_PASTED}
            2600 {GEMINI_EMPTY}
            9000 ends"
        ),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            2550 types \r
            2640 reports 11111111-2222 Injected
            2640 acknowledges 11111111-2222
            2640 types x
        "#]],
    );
    // Keys pass after a limited time, and while the program asks something.
    check(
        "gemini",
        &format!("{GEMINI}\n1050 keys x\n4000 why\n9000 ends"),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            3100 types x
            4000 1 waiting, 0 typed: nothing in the way
            5050 returns 11111111-2222
        "#]],
    );
    check(
        "gemini",
        &format!(
            r"{GEMINI}
            1050 keys 1
            1100 prints \e[2J\e[HApply this change?\r\n│ ●\s1. Allow once\r\n\s
            9000 ends"
        ),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1250 reports 11111111-2222 Waiting(Dialog)
            1250 types 1
        "#]],
    );
    // The text is not submitted at once.
    check(
        "gemini",
        &format!(
            r"{GEMINI}
            1010 {GEMINI_PASTED}
            1200 keys x
            1960 {GEMINI_EMPTY}
            9000 ends"
        ),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1160 types \r
            1970 reports 11111111-2222 Injected
            1970 acknowledges 11111111-2222
            1970 types x
        "#]],
    );
}

#[test]
fn busy_agent_is_reported_while_it_prints() {
    let spins = (0..100).map(|n| {
        let spinner =
            format!("\\e[H✽ Processing… ({n}s)\\r\\n❯\\s\\r\\n\\s\\sesc to interrupt\\e[2;3H");
        format!("{} prints {spinner}\n", 1000 + 50 * n)
    });
    let script = format!(
        "0 settles\n0 prints \\e[?2004h❯\\s\n900 reports\n{}6000 prints \\e[2J\\e[H❯\\s\n9000 ends",
        spins
            .enumerate()
            .map(|(n, line)| match n {
                10 => format!("1500 message Bob: hello\n{line}"),
                _ => line,
            })
            .collect::<String>()
    );
    check(
        "claude",
        &script,
        expect![[r#"
            1500 reports 11111111-2222 Waiting(Busy)
            6100 reports 11111111-2222 Unhindered
            6100 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        "#]],
    );
}

/// A lasting new reason replaces the old one, for all waiting messages.
#[test]
fn waiting_messages_are_reported_with_one_reason() {
    check(
        "gemini",
        r"
        0 settles
        0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        1000 reports
        5000 holds
        5000 message Bob first: one
        5100 message Bob second: two
        6000 releases
        6010 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
        7000 message Bob third: three
        9000 keys 1\r
        9100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        9150 keys x
        9200 prints \e[2K\r\s>\s\sx
        20000 ends
        ",
        expect![[r#"
            5000 reports first Waiting(Held)
            5100 reports second Waiting(Held)
            6000 reports first Unhindered
            6000 types \e[200~[relay 789200 from Bob, id first] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
            6000 reports second Unhindered
            6160 reports first Waiting(Dialog)
            6160 reports second Waiting(Dialog)
            7060 reports third Waiting(Dialog)
            9000 types 1\r
            9150 types x
            9350 reports first Unhindered
            9350 reports second Unhindered
            9350 reports third Unhindered
        "#]],
    );
}

/// The daemon forgets reports with the connection on which it delivered.
#[test]
fn redelivered_message_is_reported_again() {
    check(
        "gemini",
        r"
        0 settles
        0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        1000 reports
        5000 holds
        5000 message Bob first: one
        5100 message Bob second: two
        9000 message Bob first s-1 2: one
        9100 releases
        9200 prints \e[2K\r\s>\s\s[/relay 789200]
        12900 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        13000 holds
        14000 message Bob first s-1 3: one
        15000 ends
        ",
        expect![[r#"
            5000 reports first Waiting(Held)
            5100 reports second Waiting(Held)
            9000 reports first Waiting(Held)
            9100 reports first Unhindered
            9100 types \e[200~[relay 789200 from Bob, id first] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
            9100 reports second Unhindered
            9350 types \r
            12350 types \r
            12950 reports first Injected
            12950 acknowledges first
            12950 reports second Waiting(Printing)
            13050 reports second Waiting(Held)
            14000 reports first Injected
            14000 acknowledges first
        "#]],
    );
}

/// The program shows its input line, and then asks whether to trust the folder.
#[test]
fn starting_program_gets_text_only_after_its_line_has_stayed() {
    check(
        "gemini",
        r"
        0 reports
        0 message Bob: hello
        500 prints \s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        800 prints \e[?2004h
        1000 prints \e[2J\e[HDo you trust this folder?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
        5000 keys 1
        5100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        12000 ends
        ",
        expect![[r#"
            0 reports 11111111-2222 Waiting(Starting)
            3250 reports 11111111-2222 Waiting(Dialog)
            5000 types 1
            7100 reports 11111111-2222 Unhindered
            7100 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        "#]],
    );
}

#[test]
fn message_swallowed_by_a_dialog_or_erased_is_returned() {
    for keys in ["1\\r", "1", "\\x7f"] {
        let script = format!(
            r"
            0 settles
            0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            900 reports
            1000 message Bob: hello
            1050 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            4000 keys {keys}
            4100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            90000 ends
            "
        );
        let expected = match keys {
            "1\\r" => expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1200 reports 11111111-2222 Waiting(Dialog)
                4000 types 1\r
                4250 reports 11111111-2222 Unhindered
                4250 reports 11111111-2222 Injected
                4250 acknowledges 11111111-2222
            "#]],
            "1" => expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1200 reports 11111111-2222 Waiting(Dialog)
                4000 types 1
                4250 reports 11111111-2222 Unhindered
                8150 returns 11111111-2222
            "#]],
            _ => expect![[r#"
                1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
                1200 reports 11111111-2222 Waiting(Dialog)
                4000 types 
                4250 reports 11111111-2222 Unhindered
                8150 returns 11111111-2222
            "#]],
        };
        check("gemini", &script, expected);
    }
}

/// Windows consoles encode keys this way.
#[test]
fn enter_in_win32_encoding_submits() {
    const ENTER: &str = r"\e[13;28;13;1;0;1_\e[13;28;13;0;0;1_";
    let empty = GEMINI_EMPTY;
    let dialog = r"prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No";
    check(
        "gemini",
        &format!("{GEMINI}\n1050 {dialog}\n4000 keys {ENTER}\n4100 {empty}\n90000 ends"),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1200 reports 11111111-2222 Waiting(Dialog)
            4000 types \e[13;28;13;1;0;1_\e[13;28;13;0;0;1_
            4250 reports 11111111-2222 Unhindered
            4250 reports 11111111-2222 Injected
            4250 acknowledges 11111111-2222
        "#]],
    );
    // A kept-back Enter counts, too.
    check(
        "gemini",
        &format!("{GEMINI}\n1040 keys {ENTER}\n1050 {dialog}\n4100 {empty}\n90000 ends"),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1200 reports 11111111-2222 Waiting(Dialog)
            1200 types \e[13;28;13;1;0;1_\e[13;28;13;0;0;1_
            4250 reports 11111111-2222 Unhindered
            4250 reports 11111111-2222 Injected
            4250 acknowledges 11111111-2222
        "#]],
    );
    // A line break in a paste does not submit.
    check(
        "gemini",
        &format!(
            r"{GEMINI}
            1050 {dialog}
            4000 keys \e[200~a\rb\e[201~
            4100 {empty}
            90000 ends"
        ),
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1200 reports 11111111-2222 Waiting(Dialog)
            4000 types \e[200~a\rb\e[201~
            4250 reports 11111111-2222 Unhindered
            8150 returns 11111111-2222
        "#]],
    );
}

#[test]
fn message_that_ignores_enter_and_is_erased_is_returned() {
    check(
        "gemini",
        r"
        0 settles
        0 prints \e[?2004h\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        900 reports
        1000 message Bob: hello
        1050 prints \e[2K\r\s>\s\s[/relay 789200]
        11000 keys \x15
        11050 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        90000 ends
        ",
        expect![[r#"
            1000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            1200 types \r
            4200 types \r
            7200 types \r
            10200 types \r
            11000 types 
            14200 returns 11111111-2222
        "#]],
    );
}
