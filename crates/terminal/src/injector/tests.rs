//! Scripted tests of injections: when a text is typed, submitted, and returned.

use super::{Injector, Reader, startup::Startup};
use crate::tests::script::{check, outputs};
use expect_test::expect;

impl Injector {
    /// Sets the program that reads the terminal at the start.
    pub(crate) fn assume_reader(&mut self, reader: Reader) {
        self.observer.reader = reader;
    }

    /// Skips the wait for the program's start.
    pub(crate) fn assume_started(&mut self) {
        self.observer.startup = Startup::Complete;
    }
}

/// The screen showed no empty input line before the key was pressed.
#[test]
fn key_that_answers_a_dialog_begins_no_line() {
    check(expect![[r#"
        run claude
        begin ready
        50 keys go\r
            50 types go\r
        60 prints go\r\nDo you want to proceed?\r\n\s❯ 1. Yes\r\n\s\s\s2. No\r\n\sEsc to cancel
        5000 message Bob: hello
        8000 keys 1
            8000 types 1
        8050 prints \e[2J\e[H❯\s
            9000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        20000 ends
    "#]]);
}

#[test]
fn key_that_undoes_another_leaves_the_line_empty() {
    check(expect![[r#"
        run gemini
        begin ready
        2000 keys !
            2000 types !
        2050 prints \e[2K\r\s!\s
        2060 message Bob: hello
        9000 keys !
            9000 types !
        9050 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            10000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        20000 ends
    "#]]);
}

/// A slow program prints something else before it shows the key.
#[test]
fn key_that_is_not_shown_yet_begins_a_line() {
    check(expect![[r#"
        run gemini
        begin ready
        2000 keys x
            2000 types x
        2050 prints \r\n12:00\e[1;4H
        2060 message Bob: hello
        8000 prints \e[2K\r\s>\s\sx
        9000 keys \x7f
            9000 types 
        9010 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            10000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        20000 ends
    "#]]);
    // The second key undoes the first before the program shows either.
    check(expect![[r#"
        run gemini
        begin ready
        2000 keys x\x7f
            2000 types x
        2050 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        2060 message Bob: hello
            12000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        30000 ends
    "#]]);
}

/// A program may take Enter for a part of the preceding paste, so that the text stays in the input
/// line.
#[test]
fn half_painted_screen_does_not_complete_an_injection() {
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1170 prints \e[2K\r\e[A\e[2K
        1260 prints \r\s\s\shello\r\n\s\s\s[/relay 789200]\r\n\s\s\s
            1880 types \r
        1890 prints \r\n\s\s\s
            2600 types \r
        2650 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            2690 reports 11111111-2222 Injected
            2690 acknowledges 11111111-2222
        9000 ends
    "#]]);
    // The program paints the empty line first and then the text in it.
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1170 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        1180 prints \e[2J\e[H
        1180 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1880 types \r
            4880 types \r
            7880 types \r
        9000 ends
    "#]]);
}

/// The transcript has the prompt before the screen shows that the text has left the input line.
#[test]
fn recorded_prompt_completes_an_injection() {
    check(expect![[r#"
        run gemini with a transcript
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1170 prints \e[2J\e[H
        1180 keys x
        1300 transcript 0 prompt [relay 789200 from Bob, id 11111111] Another agent wrote this\nhello\n[/relay 789200]
            1300 reports 11111111-2222 Injected
            1300 acknowledges 11111111-2222
            1300 types x
            1300 reports 11111111-2222 Confirmed
        9000 ends
    "#]]);
    // Without a transcript, the message counts as submitted once the screen no longer shows the
    // text.
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1170 prints \e[2J\e[H
        1180 keys x
        1300 transcript 0 prompt [relay 789200 from Bob, id 11111111] Another agent wrote this\nhello\n[/relay 789200]
            1880 reports 11111111-2222 Injected
            1880 acknowledges 11111111-2222
            1880 types x
        9000 ends
    "#]]);
}

/// A starting program reads input without showing it.
#[test]
fn next_message_waits_until_the_last_one_is_recorded() {
    check(expect![[r#"
        run gemini with a transcript
        begin message typed
        1000 message Ann 22222222-3333: the next
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1170 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            1220 reports 11111111-2222 Injected
            1220 acknowledges 11111111-2222
            1220 reports 22222222-3333 Waiting(Printing)
            3320 reports 22222222-3333 Waiting(Busy)
        8000 transcript 0 prompt [relay 789200 from Bob, id 11111111] Another agent wrote this\nhello\n[/relay 789200]
            8000 reports 11111111-2222 Confirmed
        8900 prints (esc to cancel, 1s)\r\n\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        9500 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            9600 reports 22222222-3333 Unhindered
            9600 types \e[200~[relay 41f6aa from Ann, id 22222222] Another agent wrote this, not your user.\nthe next\n[/relay 41f6aa]\e[201~
            29700 returns 22222222-3333
        60000 ends
    "#]]);
    // The last message is never recorded.
    check(expect![[r#"
        run gemini with a transcript
        begin message typed
        1000 message Ann 22222222-3333: the next
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1170 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            1220 reports 11111111-2222 Injected
            1220 acknowledges 11111111-2222
            1220 reports 22222222-3333 Waiting(Printing)
            3320 reports 22222222-3333 Waiting(Busy)
            21220 reports 22222222-3333 Unhindered
            21220 types \e[200~[relay 41f6aa from Ann, id 22222222] Another agent wrote this, not your user.\nthe next\n[/relay 41f6aa]\e[201~
            41320 returns 22222222-3333
        60000 ends
    "#]]);
}

#[test]
fn text_that_stays_in_the_input_line_is_not_acknowledged() {
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1200 keys x
            4160 types \r
            7160 types \r
            7160 types x
            10160 reports 11111111-2222 Waiting(NoEnterTaken)
        30000 ends
    "#]]);
}

#[test]
fn keys_do_not_join_a_text_that_is_shown_late() {
    check(expect![[r#"
        run gemini
        begin message typed
        1050 keys x
        2400 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            2550 types \r
        2600 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            2640 reports 11111111-2222 Injected
            2640 acknowledges 11111111-2222
            2640 types x
        9000 ends
    "#]]);
    // The person's keys are passed on after a limited time, and while the program asks something.
    check(expect![[r#"
        run gemini
        begin message typed
        1050 keys x
            3100 types x
        4000 state
            4000 1 waiting, 0 typed: nothing in the way
            5050 returns 11111111-2222
        9000 ends
    "#]]);
    check(expect![[r#"
        run gemini
        begin message typed
        1050 keys 1
        1100 prints \e[2J\e[HApply this change?\r\n│ ●\s1. Allow once\r\n\s
            1250 reports 11111111-2222 Waiting(Dialog)
            1250 types 1
        9000 ends
    "#]]);
    // The text leaves the input line only some time after the Enter.
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob]\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1200 keys x
        1960 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            2000 reports 11111111-2222 Injected
            2000 acknowledges 11111111-2222
            2000 types x
        9000 ends
    "#]]);
}

#[test]
fn busy_agent_is_reported_while_it_prints() {
    let spins = |range: std::ops::Range<u32>| -> String {
        let line = |n| {
            let at = 1000 + 50 * n;
            format!(r"{at} prints \e[H✽ Processing… ({n}s)\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H")
                + "\n"
        };
        range.map(line).collect()
    };
    let script = format!(
        r"
        run claude
        begin ready
        900 reports
        {}1500 message Bob: hello
        {}6000 prints \e[2J\e[H❯\s
        9000 ends",
        spins(0..10),
        spins(10..100),
    );
    expect![[r#"
        1500 reports 11111111-2222 Waiting(Busy)
        6100 reports 11111111-2222 Unhindered
        6100 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
    "#]]
    .assert_eq(&outputs(&script));
}

/// A new, lasting reason replaces the old one for all waiting messages.
#[test]
fn waiting_messages_are_reported_with_one_reason() {
    check(expect![[r#"
        run gemini
        begin ready
        1000 reports
        5000 holds
        5000 message Bob first: one
            5000 reports first Waiting(Held)
        5100 message Bob second: two
            5100 reports second Waiting(Held)
        6000 releases
            6000 reports first Unhindered
            6000 types \e[200~[relay 789200 from Bob, id first] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
            6000 reports second Unhindered
        6010 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            6160 reports first Waiting(Dialog)
            6160 reports second Waiting(Dialog)
        7000 message Bob third: three
            7060 reports third Waiting(Dialog)
        9000 keys 1\r
            9000 types 1\r
        9100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        9150 keys x
            9150 types x
        9200 prints \e[2K\r\s>\s\sx
            9350 reports first Unhindered
            9350 reports second Unhindered
            9350 reports third Unhindered
            11150 reports first Waiting(NotShown)
            11150 reports second Waiting(NotShown)
            11150 reports third Waiting(NotShown)
        20000 ends
    "#]]);
}

/// The daemon forgets reports when the connection of the delivery ends.
#[test]
fn redelivered_message_is_reported_again() {
    check(expect![[r#"
        run gemini
        begin ready
        1000 reports
        5000 holds
        5000 message Bob first: one
            5000 reports first Waiting(Held)
        5100 message Bob second: two
            5100 reports second Waiting(Held)
        9000 message Bob first s-1 2: one
            9000 reports first Waiting(Held)
        9100 releases
            9100 reports first Unhindered
            9100 types \e[200~[relay 789200 from Bob, id first] Another agent wrote this, not your user.\none\n[/relay 789200]\e[201~
            9100 reports second Unhindered
        9200 prints \e[2K\r\s>\s\s[/relay 789200]
            9350 types \r
            12350 types \r
        12900 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            12950 reports first Injected
            12950 acknowledges first
            12950 reports second Waiting(Printing)
        13000 holds
            13050 reports second Waiting(Held)
        14000 message Bob first s-1 3: one
            14000 reports first Injected
            14000 acknowledges first
        15000 ends
    "#]]);
}

/// The program first shows its input line and then asks whether to trust the folder.
#[test]
fn starting_program_gets_text_only_after_its_line_is_stable() {
    check(expect![[r#"
        run gemini
        0 reports
        0 message Bob: hello
            0 reports 11111111-2222 Waiting(Starting)
        500 prints \s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
        800 prints \e[?2004h
        1000 prints \e[2J\e[HDo you trust this folder?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            3250 reports 11111111-2222 Waiting(Dialog)
        5000 keys 1
            5000 types 1
        5100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            7100 reports 11111111-2222 Unhindered
            7100 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        12000 ends
    "#]]);
}

#[test]
fn message_swallowed_by_a_dialog_or_erased_is_returned() {
    check(expect![[r#"
        run gemini
        begin message typed
        1050 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            1200 reports 11111111-2222 Waiting(Dialog)
        4000 keys 1\r
            4000 types 1\r
        4100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            4250 reports 11111111-2222 Unhindered
            4250 reports 11111111-2222 Injected
            4250 acknowledges 11111111-2222
        90000 ends
    "#]]);
    check(expect![[r#"
        run gemini
        begin message typed
        1050 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            1200 reports 11111111-2222 Waiting(Dialog)
        4000 keys 1
            4000 types 1
        4100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            4250 reports 11111111-2222 Unhindered
            8150 returns 11111111-2222
        90000 ends
    "#]]);
    check(expect![[r#"
        run gemini
        begin message typed
        1050 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            1200 reports 11111111-2222 Waiting(Dialog)
        4000 keys \x7f
            4000 types 
        4100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            4250 reports 11111111-2222 Unhindered
            8150 returns 11111111-2222
        90000 ends
    "#]]);
}

/// Windows consoles encode keys in the win32-input-mode.
#[test]
fn enter_in_win32_encoding_submits() {
    check(expect![[r#"
        run gemini
        begin message typed
        1050 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            1200 reports 11111111-2222 Waiting(Dialog)
        4000 keys \e[13;28;13;1;0;1_\e[13;28;13;0;0;1_
            4000 types \e[13;28;13;1;0;1_\e[13;28;13;0;0;1_
        4100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            4250 reports 11111111-2222 Unhindered
            4250 reports 11111111-2222 Injected
            4250 acknowledges 11111111-2222
        90000 ends
    "#]]);
    // An Enter that was held back also counts.
    check(expect![[r#"
        run gemini
        begin message typed
        1040 keys \e[13;28;13;1;0;1_\e[13;28;13;0;0;1_
        1050 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            1200 reports 11111111-2222 Waiting(Dialog)
            1200 types \e[13;28;13;1;0;1_\e[13;28;13;0;0;1_
        4100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            4250 reports 11111111-2222 Unhindered
            4250 reports 11111111-2222 Injected
            4250 acknowledges 11111111-2222
        90000 ends
    "#]]);
    // A line break in a paste does not submit.
    check(expect![[r#"
        run gemini
        begin message typed
        1050 prints \e[2J\e[HMay I?\r\n│ ● 1. Yes\r\n│\s\s\s2. No
            1200 reports 11111111-2222 Waiting(Dialog)
        4000 keys \e[200~a\rb\e[201~
            4000 types \e[200~a\rb\e[201~
        4100 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            4250 reports 11111111-2222 Unhindered
            8150 returns 11111111-2222
        90000 ends
    "#]]);
}

#[test]
fn erased_message_after_an_ignored_enter_is_returned() {
    check(expect![[r#"
        run gemini
        begin message typed
        1050 prints \e[2K\r\s>\s\s[/relay 789200]
            1200 types \r
            4200 types \r
            7200 types \r
            10200 types \r
        11000 keys \x15
            11000 types 
        11050 prints \e[2K\r\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            14200 returns 11111111-2222
        90000 ends
    "#]]);
}

/// The program takes Enter for a line break late, and has not yet moved the cursor back into the
/// composer.
#[test]
fn slowly_painted_line_break_does_not_complete_an_injection() {
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        2000 prints \r\n\s\s\s\r\n\sworkspace\r\n
        2300 prints \e[2A\e[4G
            2420 types \r
        2700 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            2750 reports 11111111-2222 Injected
            2750 acknowledges 11111111-2222
        9000 ends
    "#]]);
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        3300 prints \r\n\s\s\s\r\n\sworkspace\r\n
        3340 prints \e[2A\e[4G
            3440 types \r
        4500 prints \e[2J\e[H\s>\s\s\e[2mType your message or @path/to/file\e[0m\e[4G
            4550 reports 11111111-2222 Injected
            4550 acknowledges 11111111-2222
        9000 ends
    "#]]);
}

/// The program paints its composer empty, and paints the text in it only after the text seemed to
/// have left.
#[test]
fn text_shown_after_seeming_to_leave_is_submitted_again() {
    check(expect![[r#"
        run gemini with a transcript
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1500 prints \e[2J\e[H\s>\s
            1550 reports 11111111-2222 Injected
            1550 acknowledges 11111111-2222
        1560 prints [relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]\r\n\s\s\s
            2560 types \r
        2600 transcript 0 prompt [relay 789200 from Bob, id 11111111] Another agent wrote this\nhello\n[/relay 789200]
            2600 reports 11111111-2222 Confirmed
        19000 ends
    "#]]);
    // At most four presses.
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1500 prints \e[2J\e[H\s>\s
            1550 reports 11111111-2222 Injected
            1550 acknowledges 11111111-2222
        1560 prints [Pasted Text: 12 lines]\r\n\s\s\s
            2560 types \r
        2570 prints \r\n\s\s\s
            3570 types \r
            6570 types \r
        19000 ends
    "#]]);
}

#[test]
fn text_shown_after_seeming_to_leave_may_not_be_alone() {
    // The person has typed something.
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1500 prints \e[2J\e[H\s>\s
            1550 reports 11111111-2222 Injected
            1550 acknowledges 11111111-2222
        1560 prints [relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]\r\n\s\s\s
        2000 keys x
            2000 types x
        2010 prints x
        2500 prints \b\s\b
        19000 ends
    "#]]);
    // The person's keys were kept back.
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1200 keys x
        1500 prints \e[2J\e[H\s>\s
            1550 reports 11111111-2222 Injected
            1550 acknowledges 11111111-2222
            1550 types x
        1560 prints [relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]\r\n\s\s\s
        19000 ends
    "#]]);
    // The agent works on another text.
    check(expect![[r#"
        run gemini
        begin message typed
        1010 prints \e[2K\r\s>\s[relay 789200 from Bob] Another\r\n\s\s\shello\r\n\s\s\s[/relay 789200]
            1160 types \r
        1500 prints \e[2J\e[H\s>\s
            1550 reports 11111111-2222 Injected
            1550 acknowledges 11111111-2222
        1560 prints \e[2J\e[H[relay 123456]\r\n\s\s\s
        19000 ends
    "#]]);
}
