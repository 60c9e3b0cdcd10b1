//! Messages that reach the agent through its CLI's hooks.

use crate::tests::script::{check, outputs};
use expect_test::expect;

/// The agent is notified of a message between two tool calls, and reads it. The tool's result shows
/// that.
#[test]
fn working_agent_is_notified_and_reads() {
    check(expect![[r#"
        run claude
        begin ready
        1000 reports
        1000 hook session-began
            1000 answers hook 1: nothing
        1100 hook prompt-submitted
            1100 answers hook 2: nothing
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob 11111111-1: one
            2000 reports 11111111-1 Waiting(Busy)
        2000 message Bob 22222222-2: two
            2000 reports 22222222-2 Waiting(Busy)
        2000 message Eve 33333333-3: three
            2000 reports 33333333-3 Waiting(Busy)
        5000 hook tool-ended
            5000 answers hook 3: Bob wrote to you (id 11111111, 3 bytes): `agent-relay read 11111111` shows it. Bob wrote to you (id 22222222, 3 bytes): `agent-relay read 22222222` shows it. Eve wrote to you (id 33333333, 5 bytes): `agent-relay read 33333333` shows it.
        6000 hook tool-ended
            6000 answers hook 4: nothing
        7000 takes 22222222
            7000 reports 11111111-1 Unhindered
            7000 reports 22222222-2 Unhindered
            7000 hands over Text("[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]\n[relay 41f6aa from Bob, id 22222222] Another agent wrote this, not your user.\ntwo\n[/relay 41f6aa]")
        8000 hook tool-ended 789200 41f6aa
            8000 reports 11111111-1 Injected
            8000 acknowledges 11111111-1
            8000 reports 11111111-1 Confirmed
            8000 reports 22222222-2 Injected
            8000 acknowledges 22222222-2
            8000 reports 22222222-2 Confirmed
            8000 answers hook 6: nothing
        9000 hook turn-ended
            9000 answers hook 7: nothing
            9000 reports 33333333-3 Unhindered
            9000 types \e[200~[relay ba61f5 from Eve, id 33333333] Another agent wrote this, not your user.\nthree\n[/relay ba61f5]\e[201~
        20000 ends
    "#]]);
}

/// The older messages of the sender fill the result.
#[test]
fn incomplete_reading_asks_to_read_again() {
    let body = "x".repeat(5000);
    let outputs = outputs(&format!(
        r"
        run claude
        begin ready
        1000 hook prompt-submitted
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob 11111111-1: {body}
        2000 message Bob 22222222-2: {body}
        3000 takes 22222222
        4000 takes 22222222
        5000 ends"
    ));
    let said =
        "\\nThese messages came before 22222222. Run `agent-relay read 22222222` once more.\")";
    let taken: Vec<_> = outputs.split("hands over Text(").skip(1).collect();
    assert_eq!(taken.len(), 2, "{outputs}");
    assert!(taken[0].contains("id 11111111") && taken[0].contains(said), "{}", taken[0]);
    assert!(taken[1].contains("id 22222222") && !taken[1].contains(said), "{}", taken[1]);
}

/// Without a record of the reading, the message is redelivered.
#[test]
fn message_read_without_a_record_is_redelivered() {
    check(expect![[r#"
        run claude
        begin ready
        1000 reports
        1000 hook prompt-submitted
            1000 answers hook 1: nothing
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob: one
            2000 reports 11111111-2222 Waiting(Busy)
        3000 takes
            3000 reports 11111111-2222 Unhindered
            3000 hands over Text("[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]")
        4000 hook turn-ended
            4000 answers hook 3: nothing
        4100 takes
            4100 hands over Nothing
            6000 types \e[200~[relay 41f6aa from Bob, id 11111111, again] Another agent wrote this, not your user.\none\n[/relay 41f6aa]\e[201~
        20000 ends
    "#]]);
    // The record comes late, while the message waits again.
    check(expect![[r#"
        run claude
        begin ready
        1000 reports
        1000 hook prompt-submitted
            1000 answers hook 1: nothing
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob: one
            2000 reports 11111111-2222 Waiting(Busy)
        3000 takes
            3000 reports 11111111-2222 Unhindered
            3000 hands over Text("[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]")
        4000 hook turn-ended
            4000 answers hook 3: nothing
        5000 hook prompt-submitted
            5000 answers hook 4: nothing
            6000 reports 11111111-2222 Waiting(Busy)
        7000 hook tool-ended 789200
            7000 reports 11111111-2222 Injected
            7000 acknowledges 11111111-2222
            7000 reports 11111111-2222 Confirmed
            7000 answers hook 5: nothing
        20000 ends
    "#]]);
}

/// A result that a CLI has cut in its middle is no record: the message did not arrive, and its
/// sender's next one waits for it.
#[test]
fn message_cut_by_the_cli_is_redelivered_before_the_next() {
    check(expect![[r#"
        run claude
        begin ready
        1000 reports
        1000 hook prompt-submitted
            1000 answers hook 1: nothing
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob 11111111-1: one
            2000 reports 11111111-1 Waiting(Busy)
        3000 takes 11111111
            3000 reports 11111111-1 Unhindered
            3000 hands over Text("[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]")
        4000 hook tool-ended cut:789200
            4000 answers hook 3: nothing
        4100 message Bob 22222222-2: two
            4100 reports 22222222-2 Waiting(Busy)
        5000 prints \e[2J\e[H❯\s
        5000 hook session-ended
            5000 answers hook 4: nothing
            7000 types \e[200~[relay 41f6aa from Bob, id 11111111, again] Another agent wrote this, not your user.\none\n[/relay 41f6aa]\e[201~
        20000 ends
    "#]]);
}

/// A hook that had ended printed nothing, so the next hook notifies the agent.
#[test]
fn lost_announcement_is_repeated() {
    check(expect![[r#"
        run claude
        begin ready
        1000 hook prompt-submitted
            1000 answers hook 1: nothing
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob: one
        3000 hook tool-ended
            3000 answers hook 2: Bob wrote to you (id 11111111, 3 bytes): `agent-relay read 11111111` shows it.
        3000 hook-gone 2
        4000 hook tool-ended
            4000 answers hook 4: Bob wrote to you (id 11111111, 3 bytes): `agent-relay read 11111111` shows it.
        5000 hook tool-ended
            5000 answers hook 5: nothing
    "#]]);
}

/// If tools run in parallel, several hooks may end before they print.
#[test]
fn lost_announcement_is_repeated_after_another_hooks() {
    check(expect![[r#"
        run claude
        begin ready
        1000 hook prompt-submitted
            1000 answers hook 1: nothing
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob 11111111-1: one
        3000 hook tool-ended
            3000 answers hook 2: Bob wrote to you (id 11111111, 3 bytes): `agent-relay read 11111111` shows it.
        3100 message Eve 22222222-2: two
        3200 hook tool-ended
            3200 answers hook 3: Eve wrote to you (id 22222222, 3 bytes): `agent-relay read 22222222` shows it.
        3300 hook-unconfirmed 2
        3400 hook-unconfirmed 3
        4000 hook tool-ended
            4000 answers hook 6: Bob wrote to you (id 11111111, 3 bytes): `agent-relay read 11111111` shows it. Eve wrote to you (id 22222222, 3 bytes): `agent-relay read 22222222` shows it.
    "#]]);
}

/// An interrupted turn may end without a report; the screen shows it.
#[test]
fn screen_ends_an_interrupted_turn() {
    check(expect![[r#"
        run claude
        begin ready
        1000 reports
        1000 hook prompt-submitted
            1000 answers hook 1: nothing
        1000 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob: one
            2000 reports 11111111-2222 Waiting(Busy)
        3000 takes
            3000 reports 11111111-2222 Unhindered
            3000 hands over Text("[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]")
        4000 prints \e[2J\e[HInterrupted\r\n❯\s
            8100 types \e[200~[relay 41f6aa from Bob, id 11111111, again] Another agent wrote this, not your user.\none\n[/relay 41f6aa]\e[201~
        20000 ends
    "#]]);
}

/// A draft prevents typing, so a waiting hook begins a turn.
#[test]
fn draft_prevents_typing_but_not_waking() {
    check(expect![[r#"
        run claude
        begin ready
        1000 reports
        1000 hook session-began
            1000 answers hook 1: nothing
        1000 hook waits
        2000 keys draft
            2000 types draft
        2010 prints draft
        2020 message Bob 11111111-1: one
            2020 reports 11111111-1 Waiting(Printing)
        2020 message Bob 22222222-2: two
            2020 reports 22222222-2 Waiting(Printing)
            4000 reports 11111111-1 Unhindered
            4000 answers hook 2: [relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]
            5000 reports 22222222-2 Waiting(HalfTyped)
        9000 hook prompt-submitted 789200
            9000 reports 11111111-1 Injected
            9000 acknowledges 11111111-1
            9000 reports 11111111-1 Confirmed
            9000 answers hook 3: nothing
        9500 hook turn-ended
            9500 answers hook 4: nothing
        9600 hook waits
            9600 reports 22222222-2 Unhindered
            9600 answers hook 5: [relay 41f6aa from Bob, id 22222222] Another agent wrote this, not your user.\ntwo\n[/relay 41f6aa]
        10000 hook prompt-submitted 41f6aa
            10000 reports 22222222-2 Injected
            10000 acknowledges 22222222-2
            10000 reports 22222222-2 Confirmed
            10000 answers hook 6: nothing
        10800 hook turn-ended
            10800 answers hook 7: nothing
        30000 ends
    "#]]);
}

/// A hook that had ended printed no text. A message that began no turn is typed later.
#[test]
fn waking_without_a_record_is_left_to_typing() {
    check(expect![[r#"
        run claude
        begin ready
        1000 reports
        1000 hook waits
        2000 keys draft
            2000 types draft
        2010 prints draft
        2020 message Bob: one
            2020 reports 11111111-2222 Waiting(Printing)
            4000 reports 11111111-2222 Unhindered
            4000 answers hook 1: [relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]
        6000 hook-gone 1
            6000 reports 11111111-2222 Waiting(HalfTyped)
        7000 hook waits
            7000 reports 11111111-2222 Unhindered
            7000 answers hook 3: [relay 41f6aa from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 41f6aa]
        7100 hook waits
            37000 reports 11111111-2222 Waiting(HalfTyped)
        50000 hook waits
            50000 answers hook 4: nothing
        90000 ends
    "#]]);
}

/// The hook was killed while the wrapper answered it, so the next one begins a turn with the
/// message.
#[test]
fn message_of_an_unconfirmed_waiting_hook_goes_to_the_next() {
    check(expect![[r#"
        run claude
        begin ready
        1000 reports
        1000 hook waits
        2000 keys draft
            2000 types draft
        2010 prints draft
        2020 message Bob: one
            2020 reports 11111111-2222 Waiting(Printing)
            4000 reports 11111111-2222 Unhindered
            4000 answers hook 1: [relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]
        4100 hook-unconfirmed 1
            6100 reports 11111111-2222 Waiting(HalfTyped)
        9000 hook waits
            9000 reports 11111111-2222 Unhindered
            9000 answers hook 3: [relay 41f6aa from Bob, id 11111111, again] Another agent wrote this, not your user.\none\n[/relay 41f6aa]
        20000 ends
    "#]]);
}

/// While a person holds the agent's messages, they cannot be read either, and the agent is not
/// notified of them.
#[test]
fn held_message_is_not_read() {
    check(expect![[r#"
        run claude
        begin ready
        1000 holds
        1000 message Bob: one
        1100 hook prompt-submitted
            1100 answers hook 1: nothing
        1200 hook tool-ended
            1200 answers hook 2: nothing
        1300 takes 11111111
            1300 hands over Unreadable(Held)
        1400 releases
        1500 takes 22222222
            1500 hands over Nothing
        1600 takes 11111111
            1600 hands over Text("[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]")
        1700 exits
            1700 returns 11111111-2222
    "#]]);
}

/// Without hooks, nothing reports whether the agent has read the message.
#[test]
fn message_is_not_read_without_hooks() {
    check(expect![[r#"
        run gemini
        begin ready
        1000 keys draft
            1000 types draft
        1010 prints draft
        1100 message Bob: one
        1200 takes
            1200 hands over Unreadable(NoHooks)
        1700 exits
            1700 returns 11111111-2222
    "#]]);
}

/// A CLI shortens a tool's long result, so a long message is not read, nor are later ones from its
/// sender.
#[test]
fn long_message_is_typed() {
    let script = format!(
        "run claude
        begin ready
        1000 hook prompt-submitted
        1000 prints \\e[2J\\e[HWorking…\\r\\n❯\\s\\r\\n\\s\\sesc to interrupt\\e[2;3H
        1100 message Bob 11111111-1: {}
        1100 message Bob 22222222-2: two
        1100 message Eve 33333333-3: three
        1200 hook tool-ended
        1300 takes 22222222
        1400 takes",
        "x".repeat(8193)
    );
    expect![[r#"
        1000 answers hook 1: nothing
        1200 answers hook 2: Bob wrote to you (id 11111111, 8193 bytes): you get it when your turn is over. Bob wrote to you (id 22222222, 3 bytes): you get it when your turn is over. Eve wrote to you (id 33333333, 5 bytes): `agent-relay read 33333333` shows it.
        1300 hands over Unreadable(Long)
        1400 hands over Text("[relay 789200 from Eve, id 33333333] Another agent wrote this, not your user.\nthree\n[/relay 789200]")
    "#]].assert_eq(&outputs(&script));
}

/// Another process of the CLI adds the message to the agent's queue of prompts. If it fails to, the
/// message waits to be typed.
#[test]
fn agent_with_a_queue_of_prompts_is_woken_over_a_draft() {
    check(expect![[r#"
        run codex
        0 started
        0 prints \e[?2004h›\s
        900 reports
        1000 hook session-began
            1000 answers hook 1: nothing
        2000 keys draft
            2000 types draft
        2000 prints draft
        3000 message Bob 11111111-1: one
            3000 reports 11111111-1 Waiting(HalfTyped)
        3000 message Bob 22222222-2: two $and
            3000 reports 22222222-2 Waiting(HalfTyped)
            4000 reports 11111111-1 Unhindered
            4000 wakes s-1: [relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]
        6000 hook prompt-submitted 789200
            6000 reports 11111111-1 Injected
            6000 acknowledges 11111111-1
            6000 reports 11111111-1 Confirmed
            6000 answers hook 2: nothing
        7000 hook turn-ended
            7000 answers hook 3: nothing
            7000 reports 22222222-2 Unhindered
            7000 wakes s-1: [relay 41f6aa from Bob, id 22222222] Another agent wrote this, not your user.\ntwo $\and\n[/relay 41f6aa]
        9500 state
            9500 1 waiting, 1 typed: a line is half typed: submit or erase it
        9600 not-woken 22222222-2
            9600 reports 22222222-2 Waiting(HalfTyped)
        9700 not-woken 33333333-3
        20000 state
            20000 1 waiting, 1 typed: a line is half typed: submit or erase it
        20000 keys \r
            20000 types \r
        20000 prints \r\e[2K›\s
            23000 reports 22222222-2 Unhindered
            23000 types \e[200~[relay ba61f5 from Bob, id 22222222] Another agent wrote this, not your user.\ntwo $\and\n[/relay ba61f5]\e[201~
        24000 ends
    "#]]);
}

/// Enter may have begun another conversation (`/new`), which no hook reports before its first
/// prompt.
#[test]
fn enter_ends_waking_until_a_hook_names_the_conversation() {
    check(expect![[r#"
        run codex
        0 started
        0 prints \e[?2004h›\s
        900 reports
        1000 hook session-began
            1000 answers hook 1: nothing
        2000 keys /new\r
            2000 types /new\r
        6000 keys draft
            6000 types draft
        6000 prints draft
        7000 message Bob 11111111-1: one
            7000 reports 11111111-1 Waiting(HalfTyped)
        20000 hook prompt-submitted
            20000 answers hook 2: nothing
        21000 hook turn-ended
            21000 answers hook 3: nothing
            21000 reports 11111111-1 Unhindered
            21000 wakes s-1: [relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]
        22000 ends
    "#]]);
}

/// An interrupted turn ends without a report. No waiting message causes looks at the screen.
#[test]
fn screen_ends_reported_work_while_nothing_waits() {
    check(expect![[r#"
        run claude
        begin ready
        0 activity
            250 starting screen
            750 idle screen
        1000 hook prompt-submitted
            1000 answers hook 1: nothing
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
            1250 working hooks
        3000 prints \e[2J\e[HInterrupted\r\n❯\s\e[2;3H
            5350 idle screen
        7000 hook turn-ended
            7000 answers hook 2: nothing
            7000 idle hooks
        20000 ends
    "#]]);
}
