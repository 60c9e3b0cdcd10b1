//! Scripted tests of the agent's messages, and of notices to it about them.

use crate::{
    Input,
    tests::{
        foreign_words::{Cli, LOOKS},
        script::{check, outputs},
    },
};
use expect_test::expect;

#[test]
fn printed_message_is_sent() {
    check(expect![[r#"
        run agent
        0 prints >\s
        1000 prints \r\n->relay:Bob [thread:t1] <<<\r\nYour turn\r\nto play>>>\r\nDone.\r\n>\s
        1010 prints x
            1250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: Some("t1"), kind: "message", body: "Your turn\nto play", data: None, meta: None, reply_to: None }
        3000 accepted 0
        9000 ends
    "#]]);
}

/// A shell shows the output of all that it runs, such as a file or another program's log.
#[test]
fn output_of_a_shell_is_not_sent() {
    check(expect![[r#"
        run bash
        0 prints \e[?2004h$\s
        1000 prints cat notes\r\n->relay:Bob <<<\r\nhello>>>\r\n$\s
        9000 ends
    "#]]);
    // The same holds after an agent CLI has run in it.
    check(expect![[r#"
        run sh
        0 prints $\s
        100 foreground claude
        500 foreground shell
        1000 prints cat notes\r\n->relay:Bob <<<\r\nhello>>>\r\n$\s
        9000 ends
    "#]]);
}

/// An agent can answer before it is known to have received the message.
#[test]
fn reply_to_a_message_that_is_being_typed_carries_its_id() {
    check(expect![[r#"
        run agent
        0 prints >\s
        1000 message Ann abcdef01-2345: what?
            1000 types [relay 789200 from Ann, id abcdef01] Another agent wrote this, not your user.\nwhat?\n[/relay 789200]
        1100 stalls
            1150 types \r
        1200 prints \r\n->relay:Ann [reply:abcdef01] <<<\r\nthat>>>\r\n>\s
            1450 sends 0: OutgoingMessage { to: "Ann", topic: None, thread: None, kind: "message", body: "that", data: None, meta: None, reply_to: Some("abcdef01-2345") }
        3000 drains
            3000 acknowledges abcdef01-2345
        9000 ends
    "#]]);
}

#[test]
fn reply_carries_the_whole_delivery_id() {
    check(expect![[r#"
        run agent
        0 prints >\s
        1000 message Ann abcdef01-2345: what?
            1000 types [relay 789200 from Ann, id abcdef01] Another agent wrote this, not your user.\nwhat?\n[/relay 789200]
            1150 types \r
            1150 acknowledges abcdef01-2345
        3000 prints \r\n->relay:Ann [reply:abcdef01] <<<\r\nthat>>>\r\n->relay:Ann [reply:ffffffff] <<<\r\nthis>>>\r\n>\s
            3250 sends 0: OutgoingMessage { to: "Ann", topic: None, thread: None, kind: "message", body: "that", data: None, meta: None, reply_to: Some("abcdef01-2345") }
            3250 sends 1: OutgoingMessage { to: "Ann", topic: None, thread: None, kind: "message", body: "this", data: None, meta: None, reply_to: None }
            3300 types [relay 41f6aa from @relay] The relay wrote this, not your user.\n[reply:ffffffff] matches no message that you received; yours was sent without it.\n[/relay 41f6aa]
            3450 types \r
        9000 ends
    "#]]);
}

#[test]
fn notice_of_a_message_to_a_command_line_is_one_line() {
    check(expect![[r#"
        run agent
        0 prints >\s
        1000 prints \r\n->relay:@guest-00112233 [reply:ffffffff] <<<\r\n8080>>>\r\n>\s
            1250 sends 0: OutgoingMessage { to: "@guest-00112233", topic: None, thread: None, kind: "message", body: "8080", data: None, meta: None, reply_to: None }
        2000 undelivered 0 UNSENT that is a guest's command line, which hears no messages
            2000 logs the agent's message to @guest-00112233 was not delivered: that is a guest's command line, which hears no messages
            2000 types [relay 789200 from @relay] The relay wrote this, not your user.\nYour message to @guest-00112233 ("8080") was not delivered: that is a guest's command line, which hears no messages. Say it in your answer to your user: only a question that waits is answered there, with its `[reply:ID]`.\n[/relay 789200]
            2150 types \r
        9000 ends
    "#]]);
}

/// No turn is begun for this notice.
#[test]
fn agent_is_notified_of_an_absent_recipient_with_the_next_message() {
    check(expect![[r#"
        run claude
        begin ready
        3000 prints \r\n->relay:Bob <<<\r\nhello>>>\r\n❯\s
            3250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "hello", data: None, meta: None, reply_to: None }
        3500 accepted 0 away
        9000 message Ann: what?
            9000 types \e[200~[relay 789200 from \@relay] The relay wrote this, not your user.\nBob is away; your message waits until Bob is back.\n[/relay 789200]\n[relay 41f6aa from Ann, id 11111111] Another agent wrote this, not your user.\nwhat?\n[/relay 41f6aa]\e[201~
        20000 ends
    "#]]);
    // A hook delivers it earlier.
    check(expect![[r#"
        run claude
        begin ready
        3000 prints \r\n->relay:Bob <<<\r\nhello>>>\r\n❯\s
            3250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "hello", data: None, meta: None, reply_to: None }
        3400 hook prompt-submitted
            3400 answers hook 1: nothing
        3500 accepted 0 away
        4000 hook tool-ended
            4000 answers hook 2: Bob is away; your message waits until Bob is back.
        5000 hook-unconfirmed 2
        6000 hook tool-ended
            6000 answers hook 4: Bob is away; your message waits until Bob is back.
        7000 hook tool-ended
            7000 answers hook 5: nothing
        20000 ends
    "#]]);
}

/// Each notice leads the agent to send one more message that fails.
#[test]
fn notices_do_not_cause_endless_turns() {
    const MINUTE: u64 = 60_000;
    let mut cli = Cli::new(&LOOKS[0]);
    cli.fails = true;
    cli.fail();
    cli.wait(300 * MINUTE);
    let begun = |cli: &Cli, from: usize| -> Vec<u64> {
        cli.prompts[from..].iter().map(|(at, _)| at.0 / MINUTE).collect()
    };
    assert_eq!(begun(&cli, 0), [0, 0, 0, 1, 11, 71, 131, 191, 251]);
    // A prompt of the person allows three more.
    let before = cli.prompts.len();
    cli.input(Input::Keys(b"\r"));
    cli.wait(30 * MINUTE);
    assert_eq!(begun(&cli, before + 1), [300, 300, 300, 301, 311]);
    // All waiting notices go with a message, once.
    cli.fails = false;
    let before = cli.prompts.len();
    cli.fail();
    cli.deliver("1", "hello");
    cli.wait(2 * MINUTE);
    let [(_, prompt)] = &cli.prompts[before..] else { panic!("{:?}", cli.prompts) };
    assert_eq!(prompt.matches("[relay ").count(), 2, "{prompt}");
    assert!(prompt.contains(" from \\@relay]") && prompt.contains("Bob"), "{prompt}");
    cli.wait(100 * MINUTE);
    assert_eq!(cli.prompts.len(), before + 1);
}

#[test]
fn notices_are_typed_once_a_turn() {
    check(expect![[r#"
        run claude
        0 prints \e[?2004h❯\s
        0 started
        1000 prints \r\n->relay:Bobb <<<\r\nhello>>>\r\n❯\s
            1250 sends 0: OutgoingMessage { to: "Bobb", topic: None, thread: None, kind: "message", body: "hello", data: None, meta: None, reply_to: None }
        1700 undelivered 0 UNKNOWN_AGENT nobody of that name was ever here; Ann and Bob are.
            1700 logs the agent's message to Bobb was not delivered: nobody of that name was ever here; Ann and Bob are
            1700 types \e[200~[relay 789200 from \@relay] The relay wrote this, not your user.\nYour message to Bobb ("hello") was not delivered: nobody of that name was ever here; Ann and Bob are. Check the name and send it again.\n[/relay 789200]\e[201~
        1750 prints \r\e[2K❯\s[relay 789200 from\r\n\s\s[/relay 789200]
            1810 types \r
        1900 prints \r\n●\sok\r\n\r\n❯\s
        9000 prints \r\n->relay:Bob <<<\r\nnever closed\r\n❯\s
            9350 logs Not sent: the message that begins with `->relay:Bob <<<` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
            9350 types \e[200~[relay 41f6aa from \@relay] The relay wrote this, not your user.\nNot sent: the message that begins with `->\relay:Bob <<<` was never closed; write ->\relay:NAME <<< at the start of a line, then the text, and end its last line with >>\>.\n(Write these marks without the backslash inside them: it keeps this text from being read as a message of yours.)\n[/relay 41f6aa]\e[201~
        20000 ends
    "#]]);
    check(expect![[r#"
        run agent
        0 prints >\s
        1000 prints \r\n->relay:Bobb <<<\r\nhello>>>\r\nDone.\r\n>\s
            1250 sends 0: OutgoingMessage { to: "Bobb", topic: None, thread: None, kind: "message", body: "hello", data: None, meta: None, reply_to: None }
        2000 undelivered 0 UNKNOWN_AGENT nobody of that name\nwas ever here.
            2000 logs the agent's message to Bobb was not delivered: nobody of that name was ever here
            2000 types [relay 789200 from @relay] The relay wrote this, not your user.\nYour message to Bobb ("hello") was not delivered: nobody of that name was ever here. Check the name and send it again.\n[/relay 789200]
            2150 types \r
        3000 undelivered 0 LIMIT one
            3000 logs the agent's message to Bobb was not delivered: one
        3001 undelivered 0 LIMIT two
            3001 logs the agent's message to Bobb was not delivered: two
        3002 undelivered 0 LIMIT three
            3002 logs the agent's message to Bobb was not delivered: three
        3003 undelivered 0 LIMIT four
            3003 logs the agent's message to Bobb was not delivered: four
        3004 undelivered 0 LIMIT five
            3004 logs the agent's message to Bobb was not delivered: five
            62150 types [relay 41f6aa from @relay] The relay wrote this, not your user.\nYour message to Bobb ("hello") was not delivered: one. Wait a while, then send it again. Your message to Bobb ("hello") was not delivered: two. Wait a while, then send it again. Your message to Bobb ("hello") was not delivered: three. Wait a while, then send it again. Your message to Bobb ("hello") was not delivered: four. Wait a while, then send it again. Your message to Bobb ("hello") was not delivered: five. Wait a while, then send it again.\n[/relay 41f6aa]
            62300 types \r
        70000 ends
    "#]]);
}

#[test]
fn late_failure_is_typed_like_a_message() {
    // A half-typed line delays the notice. The same failure, reported again on another connection,
    // adds no notice.
    check(expect![[r#"
        run agent
        0 connected
        0 prints \e[?2004h>\s
        1000 prints \r\n->relay:Bob <<<\r\nYour turn\r\nto play>>>\r\nDone.\r\n>\s
            1250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "Your turn\nto play", data: None, meta: None, reply_to: None }
        2000 accepted 0
        3000 keys h
            3000 types h
        3001 prints h
        40000 undelivered 0 EXPIRED its time to live ran out
            40000 logs the agent's message to Bob was not delivered: its time to live ran out
        41000 connected
        41001 undelivered 0 EXPIRED its time to live ran out
        50000 keys \x7f
            50000 types 
        50001 prints \x08\s\x08
            51000 types \e[200~[relay 789200 from @relay] The relay wrote this, not your user.\nYour message to Bob ("Your turn to play") of 38 s ago was not delivered: its time to live ran out. `agent-relay agents` shows whether Bob is here; send it again if it still matters, or ask your user: `agent-relay history --dead` lists it, `agent-relay redeliver s-1` sends it again.\n[/relay 789200]\e[201~
            51150 types \r
        120000 ends
    "#]]);
    // A dialog delays the notice, too.
    check(expect![[r#"
        run agent
        0 prints \e[?2004h>\s
        1000 prints \r\n->relay:Bob <<<\r\nhello>>>\r\nDone.\r\n>\s
            1250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "hello", data: None, meta: None, reply_to: None }
        2000 accepted 0
        3000 prints \e[?25lTrust this folder?\r\n\r\n❯ 1. No, exit\r\n  2. Yes\r\n
        4000 undelivered 0 SYNC_TIMEOUT Bob did not answer within 800 ms.
            4000 logs the agent's message to Bob has no answer: Bob did not answer within 800 ms
        61000 keys \e[B\r
            61000 types \e[B\r
        61001 prints \e[2J\e[H\e[?25h>\s
            62000 types \e[200~[relay 789200 from @relay] The relay wrote this, not your user.\nYour message to Bob ("hello") has no answer: Bob did not answer within 800 ms. The message itself may still be delivered: ask again, or go on without the answer.\n[/relay 789200]\e[201~
            62150 types \r
        70000 ends
    "#]]);
}

#[test]
fn silent_program_gets_notices() {
    check(expect![[r#"
        run cat
        0 prints ->relay:Bob <<<\r\none>>>\r\n->relay:Bob <<<\r\ntwo>>>\r\nDone.\r\n
            250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "one", data: None, meta: None, reply_to: None }
            250 sends 1: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "two", data: None, meta: None, reply_to: None }
        70000 undelivered 0 GAVE_UP 10 attempts to deliver it failed
            70000 logs the agent's message to Bob was not delivered: 10 attempts to deliver it failed
            70000 types [relay 789200 from @relay] The relay wrote this, not your user.\nYour message to Bob ("one") of 69 s ago was not delivered: 10 attempts to deliver it failed. Send it again in another form if it still matters, or ask your user: `agent-relay history --dead` lists it, `agent-relay redeliver s-1` sends it again.\n[/relay 789200]
            70150 types \r
        150000 undelivered 1 REFUSED Bob refused it: no
            150000 logs the agent's message to Bob was not delivered: Bob refused it: "no"
            150000 types [relay 41f6aa from @relay] The relay wrote this, not your user.\nYour message to Bob ("two") of 2 min ago was not delivered: Bob refused it: "no". Correct it and send it again, or ask your user: `agent-relay history --dead` lists it, `agent-relay redeliver s-1` sends it again.\n[/relay 41f6aa]
            150150 types \r
        300000 ends
    "#]]);
}

#[test]
fn hundred_failures_cause_two_prompts() {
    let failures: String = (0..100)
        .map(|n| format!("{} undelivered 0 REFUSED Bob refused it: {n}\n", 2000 + n / 50))
        .collect();
    let outputs = outputs(&format!(
        r"
        run bash
        0 prints \e[?2004h$\s
        1000 prints say\r\n->relay:* <<<\r\nhello>>>\r\n$\s
        {failures}
        9000 ends"
    ));
    let prompts: Vec<_> = outputs.lines().filter(|line| line.contains("from @relay")).collect();
    assert_eq!(prompts.len(), 2, "{outputs}");
    assert!(prompts[0].contains("Bob refused it: \"0\"."), "{outputs}");
    let (listed, _) = prompts[1].split_once(" (83 more ").expect("a count of the others");
    assert_eq!(listed.matches("was not delivered").count(), 16);
}

#[test]
fn agent_is_notified_of_a_permanent_rejection() {
    check(expect![[r#"
        run agent
        0 prints >\s
        1000 rejected-permanently Ann is here already (NAME_IN_USE)
            1000 types [relay 789200 from @relay] The relay wrote this, not your user.\nThe relay rejected you: Ann is here already (NAME_IN_USE). Your messages are not delivered.\n[/relay 789200]
            1150 types \r
        9000 ends
    "#]]);
}

#[test]
fn agent_is_notified_once_of_repeated_rejections() {
    check(expect![[r#"
        run bash
        0 prints \e[?2004h$\s
        1000 rejected Ann is here already (NAME_IN_USE)
            1000 types \e[200~: <<'relay-789200'\n[relay 789200 from @relay] The relay wrote this, not your user.\nYou are not connected to the relay: Ann is here already (NAME_IN_USE). It is asked again every 30 s; what you say to others waits until then.\n[/relay 789200]\nrelay-789200\e[201~
            1030 types \r
        2000 prints \e[?2004h$\s
        31000 rejected Ann is here already (NAME_IN_USE)
        61000 connected
        91000 rejected Ann is here already (NAME_IN_USE)
            91000 types \e[200~: <<'relay-41f6aa'\n[relay 41f6aa from @relay] The relay wrote this, not your user.\nYou are not connected to the relay: Ann is here already (NAME_IN_USE). It is asked again every 30 s; what you say to others waits until then.\n[/relay 41f6aa]\nrelay-41f6aa\e[201~
            91030 types \r
        99000 ends
    "#]]);
}

#[test]
fn echo_of_a_typed_message_is_not_sent() {
    check(expect![[r#"
        run cat
        0 message Ann: say\n->relay:Bob <<<\nhello>>>\nand go on
            2000 types [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nsay\n->\relay:Bob <<<\nhello>>\>\nand go on\n[/relay 789200]
        2001 prints [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\r\nsay\r\n->\relay:Bob <<<\r\nhello>>\>\r\nand go on\r\n[/relay 789200]\r\n
            2151 types \r
            2151 acknowledges 11111111-2222
        70000 ends
    "#]]);
}

/// Each agent of the group is named in a separate notice.
#[test]
fn message_to_a_group_is_sent_to_each_of_its_agents() {
    check(expect![[r#"
        run agent
        0 prints >\s
        1000 prints \r\n->relay:@team [thread:t1] <<<\r\nLook\r\nhere>>>\r\n->relay:@nobody <<<\r\nlost>>>\r\n->relay:Dan <<<\r\nlater>>>\r\n>\s
            1250 expands @team
            1250 sends 1: OutgoingMessage { to: "Bob", topic: None, thread: Some("t1"), kind: "message", body: "Look\nhere", data: None, meta: None, reply_to: None }
            1250 sends 2: OutgoingMessage { to: "Cid", topic: None, thread: Some("t1"), kind: "message", body: "Look\nhere", data: None, meta: None, reply_to: None }
            1250 expands @nobody
            1250 logs Your message to @nobody was not sent: there is no group @nobody.
            1250 sends 0: OutgoingMessage { to: "Dan", topic: None, thread: None, kind: "message", body: "later", data: None, meta: None, reply_to: None }
            1300 types [relay 789200 from @relay] The relay wrote this, not your user.\nYour message to @nobody was not sent: there is no group @nobody.\n[/relay 789200]
            1450 types \r
        5000 accepted 1 away
        6000 undelivered 0 REFUSED: no thanks
            6000 logs the agent's message to Dan was not delivered: no thanks
        9000 ends
    "#]]);
}
