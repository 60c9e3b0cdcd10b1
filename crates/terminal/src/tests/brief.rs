//! The brief of an agent, if its CLI has hooks.

use crate::tests::script::check;
use expect_test::expect;

/// Each conversation gets the brief once, and again after losing it. Nothing is typed.
#[test]
fn each_conversation_gets_the_brief_from_its_hook() {
    check(expect![[r#"
        run claude with a hooked brief
        0 prints \e[?2004h❯\s
        100 session /a
            100 answers hook 1: the brief
        30000 session /b forgets
            30000 answers hook 2: the brief
        40000 session /b forgets
            40000 answers hook 3: the brief
        50000 session /a
            50000 answers hook 4: nothing
        60000 session /c
            60000 answers hook 5: the brief
        70000 session /c
            70000 answers hook 6: nothing
        80000 message Bob: hello
            80000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        90000 ends
    "#]]);
}

/// The CLI has dropped its hooks. A late report gets no second brief.
#[test]
fn brief_is_typed_if_no_hook_reports_at_the_start() {
    check(expect![[r#"
        run claude with a hooked brief
        0 prints \e[?2004h❯\s
        100 message Bob: hello
            2000 types \e[200~[relay 789200 from \@relay] The relay wrote this, not your user.\nthe brief, and do nothing yet\n[/relay 789200]\e[201~
        9000 session /a
            9000 answers hook 1: nothing
        10000 session /b forgets
            10000 answers hook 2: the brief
        20000 ends
    "#]]);
}

#[test]
fn brief_is_typed_if_its_hook_had_ended() {
    check(expect![[r#"
        run claude with a hooked brief
        0 prints \e[?2004h❯\s
        100 session /a
            100 answers hook 1: the brief
        100 hook-gone 1
            2000 types \e[200~[relay 789200 from \@relay] The relay wrote this, not your user.\nthe brief, and do nothing yet\n[/relay 789200]\e[201~
        9000 session /a
            9000 answers hook 3: nothing
        20000 ends
    "#]]);
}

/// The hook ended while the wrapper answered it. The agent may get the brief twice.
#[test]
fn brief_is_typed_if_its_hook_confirms_nothing() {
    check(expect![[r#"
        run claude with a hooked brief
        0 prints \e[?2004h❯\s
        100 session /a
            100 answers hook 1: the brief
        30000 session /a forgets
            30000 answers hook 2: the brief
        30000 hook-unconfirmed 1
        30000 hook-unconfirmed 2
            30000 types \e[200~[relay 789200 from \@relay] The relay wrote this, not your user.\nthe brief, and do nothing yet\n[/relay 789200]\e[201~
        40000 ends
    "#]]);
}

/// Another conversation has begun before the first one's hook has ended.
#[test]
fn brief_of_an_earlier_hook_is_taken_back() {
    check(expect![[r#"
        run claude with a hooked brief
        0 prints \e[?2004h❯\s
        100 session /a
            100 answers hook 1: the brief
        200 session /b
            200 answers hook 2: the brief
        300 hook-unconfirmed 1
            2000 types \e[200~[relay 789200 from \@relay] The relay wrote this, not your user.\nthe brief, and do nothing yet\n[/relay 789200]\e[201~
        9000 session /b
            9000 answers hook 4: nothing
        20000 ends
    "#]]);
}

/// GitHub Copilot CLI reports the beginning of a compaction, but not its end.
#[test]
fn compacted_conversation_gets_the_brief_with_the_next_prompt() {
    check(expect![[r#"
        run copilot with a hooked brief
        0 prints \e[?2004h❯\s
        10000 session /a
            10000 answers hook 1: the brief
        10000 hook prompt-submitted
            10000 answers hook 2: nothing
        20000 hook session-compacts
            20000 answers hook 3: nothing
        20000 hook turn-ended
            20000 answers hook 4: nothing
        30000 hook prompt-submitted
            30000 answers hook 5: the brief
        30000 hook turn-ended
            30000 answers hook 6: nothing
        40000 hook prompt-submitted
            40000 answers hook 7: nothing
        50000 session /a
            50000 answers hook 8: nothing
        60000 ends
    "#]]);
}

/// Codex reports its first conversation with the first prompt, so nothing is typed before.
#[test]
fn brief_comes_with_the_first_prompt() {
    check(expect![[r#"
        run codex with a hooked brief
        0 prints \e[?2004h›\s
        9000 message Bob: hello
            9000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        9010 prints \e[2K\r›\s[relay 789200 from Bob]\r\n\s\shello\r\n\s\s[/relay 789200]
            9090 types \r
        9400 session /a
            9400 answers hook 1: the brief
        9400 hook prompt-submitted 789200
            9400 acknowledges 11111111-2222
            9400 answers hook 2: nothing
        9500 prints \e[2J\e[H• esc to interrupt)\r\n›\s
        10000 hook turn-ended
            10000 answers hook 3: nothing
        10000 prints \e[2J\e[Hdone\r\n›\s
        60000 ends
    "#]]);
}

/// No hook reports the first turn, whoever has begun it.
#[test]
fn brief_is_typed_after_the_first_turn_without_hooks() {
    check(expect![[r#"
        run codex with a hooked brief
        0 prints \e[?2004h›\s
        9000 message Bob: hello
            9000 types \e[200~[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
        9010 prints \e[2K\r›\s[relay 789200 from Bob]\r\n\s\shello\r\n\s\s[/relay 789200]
            9090 types \r
        9300 prints \e[2J\e[H• esc to interrupt)\r\n›\s
            9330 acknowledges 11111111-2222
        10000 prints \e[2J\e[Hdone\r\n›\s
            12350 types \e[200~[relay 41f6aa from @relay] The relay wrote this, not your user.\nthe brief, and do nothing yet\n[/relay 41f6aa]\e[201~
        13000 ends
    "#]]);
    check(expect![[r#"
        run codex with a hooked brief
        0 prints \e[?2004h›\s
        9000 keys work\r
            9000 types work\r
        9500 prints \e[2J\e[H• esc to interrupt)\r\n›\s
        9900 prints \e[1;1H◦
        10000 prints \e[2J\e[Hdone\r\n›\s
            12000 types \e[200~[relay 789200 from @relay] The relay wrote this, not your user.\nthe brief, and do nothing yet\n[/relay 789200]\e[201~
        13000 ends
    "#]]);
}
