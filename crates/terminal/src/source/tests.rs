//! Scripted tests of transcripts and a screen. They show which messages are sent.

use crate::tests::script::check;
use expect_test::expect;

#[test]
fn transcript_is_the_only_source() {
    check(expect![[r#"
        run agent with a transcript
        0 owned 0
        10 prints ->relay:Bob <<<what the screen shows>>>\r\n>\s
        500 transcript 0 prompt tell Bob
        600 transcript 0 reply Of course.\n\n->relay:Bob <<<\n- a **list**\n\n```\n->relay:Cid <<<no>>>\n```\n>>>\nDone.
            600 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "- a **list**\n\n```\n->relay:Cid <<<no>>>\n```", data: None, meta: None, reply_to: None }
        600 transcript 0 turn-over
        700 transcript 0 reply ->relay:Cid <<<open
            700 logs Not sent: the message that begins with `->relay:Cid <<<open` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
            700 types [relay 789200 from @relay] The relay wrote this, not your user.\nNot sent: the message that begins with `->relay:Cid <<<open` was never closed; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.\n[/relay 789200]
            850 types \r
        90000 ends
    "#]]);
}

#[test]
fn arrow_after_other_text_is_reported_once() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        0 owned 0
        600 transcript 0 reply So: ->relay:Bob <<<hi>>>\nand ->relay:Bob <<<hi>>>
            600 logs Not sent: the message that begins with `So: ->relay:Bob <<<hi>>>` has other text before the arrow; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.
            600 types [relay 789200 from @relay] The relay wrote this, not your user.\nNot sent: the message that begins with `So: ->relay:Bob <<<hi>>>` has other text before the arrow; write ->relay:NAME <<< at the start of a line, then the text, and end its last line with >>>.\n[/relay 789200]
        700 transcript 0 reply So: ->relay:Bob <<<hi>>>
            750 types \r
        9000 ends
    "#]]);
}

#[test]
fn reply_that_repeats_a_received_message_is_sent() {
    check(expect![[r#"
        run agent with a transcript
        0 prints \e[?2004h>\s
        0 owned 0
        5000 message Cid: LGTM
            5000 types \e[200~[relay 789200 from Cid, id 11111111] Another agent wrote this, not your user.\nLGTM\n[/relay 789200]\e[201~
            5150 types \r
            5150 acknowledges 11111111-2222
        6100 transcript 0 reply ->relay:Bob <<<LGTM>>>\n->relay:Cid <<<LGTM>>>\n->relay:Cid <<<LGTM>>>
            6100 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "LGTM", data: None, meta: None, reply_to: None }
            6100 sends 1: OutgoingMessage { to: "Cid", topic: None, thread: None, kind: "message", body: "LGTM", data: None, meta: None, reply_to: None }
            6100 sends 2: OutgoingMessage { to: "Cid", topic: None, thread: None, kind: "message", body: "LGTM", data: None, meta: None, reply_to: None }
        9000 ends
    "#]]);
}

#[test]
fn text_after_a_quoted_header_is_read() {
    check(expect![[r#"
        run agent with a transcript
        0 prints \e[?2004h>\s
        0 owned 0
        5000 message Cid: what is it?
            5000 types \e[200~[relay 789200 from Cid, id 11111111] Another agent wrote this, not your user.\nwhat is it?\n[/relay 789200]\e[201~
            5150 types \r
            5150 acknowledges 11111111-2222
        6000 transcript 0 prompt [relay 789200 from Cid, id 11111111] Another agent wrote this, not your user.\nwhat is it?\n[/relay 789200]
        6100 transcript 0 reply > [relay 789200 from Cid, id 11111111] Another agent\n\nI answer:\n\n->relay:Cid <<<it is this>>>
            6100 sends 0: OutgoingMessage { to: "Cid", topic: None, thread: None, kind: "message", body: "it is this", data: None, meta: None, reply_to: None }
        6200 transcript 0 reply [relay 789200 from Cid, id 11111111]\n->relay:Cid <<<an echo>>>\n[/relay 789200]
            6200 logs Not sent: the message that begins with `->relay:Cid <<<an echo>>>` is inside a frame that you quote; to send it, write it outside of the frame.
            6200 types \e[200~[relay 41f6aa from @relay] The relay wrote this, not your user.\nNot sent: the message that begins with `->relay:Cid <<<an echo>>>` is inside a frame that you quote; to send it, write it outside of the frame.\n[/relay 41f6aa]\e[201~
            6350 types \r
        9000 ends
    "#]]);
}

#[test]
fn transcript_with_a_frame_typed_here_is_own() {
    check(expect![[r#"
        run agent with a transcript
        0 prints \e[?2004h>\s
        10 transcript 0 prompt something else
        10 transcript 0 reply ->relay:Bob <<<not ours>>>
        5000 reports
        5000 message Ann: hello
            5000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]\e[201~
            5150 types \r
            5150 reports 11111111-2222 Injected
            5150 acknowledges 11111111-2222
        6000 transcript 1 prompt [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nhello\n[/relay 789200]
            6000 reports 11111111-2222 Confirmed
        6010 transcript 1 reply ->relay:Ann <<<hello yourself>>>
            6010 sends 0: OutgoingMessage { to: "Ann", topic: None, thread: None, kind: "message", body: "hello yourself", data: None, meta: None, reply_to: None }
        6020 transcript 0 reply ->relay:Bob <<<not ours either>>>
        9000 ends
    "#]]);
}

#[test]
fn transcript_whose_prompt_and_answer_are_on_the_screen_is_own() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys fix the tests\r
            20000 types fix the tests\r
        20010 prints \r\n│ fix the │\r\n│ tests   │\r\n
        20100 transcript 0 prompt fix the docs
        20100 transcript 0 reply ->relay:Bob <<<of another>>>
        20100 transcript 1 prompt fix the tests
        20100 transcript 1 reply ->relay:Bob <<<of **ours**>>>
        20110 prints ● ->relay:Bob <<<of
        20120 prints \sours>>>\r\n
            21650 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "of **ours**", data: None, meta: None, reply_to: None }
        60000 transcript 2 prompt fix the tests
        60000 transcript 2 reply ->relay:Bob <<<of **ours**>>>
        90000 ends
    "#]]);
    // The child was started with a prompt, without an Enter.
    check(expect![[r#"
        run agent with a transcript
        0 prints go on\r\n>\s
        100 transcript 0 prompt go
        100 transcript 0 reply ->relay:Bob <<<too short to tell>>>
        200 keys x
            200 types x
        300 transcript 1 prompt go on
        300 transcript 1 reply ->relay:Bob <<<ours>>>
        310 prints \r\n->relay:Bob <<<ours>>>\r\n\r\n
            1850 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "ours", data: None, meta: None, reply_to: None }
        29000 ends
    "#]]);
}

#[test]
fn same_prompt_at_the_same_time_is_decided_by_the_answer() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n
        20100 transcript 0 prompt who are you
        20100 transcript 1 prompt who are you
        20200 prints ->relay:Bob <<<Cid>>>\r\n\r\n
        20210 transcript 1 reply ->relay:Bob <<<Cid>>>
        20300 transcript 0 reply ->relay:Bob <<<Ann>>>
            21710 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "Cid", data: None, meta: None, reply_to: None }
        40000 keys and now\r
            40000 types and now\r
        40010 prints \r\nand now\r\n->relay:Bob <<<still>>>\r\n\r\n
        40100 transcript 0 prompt and now
        40100 transcript 0 reply ->relay:Bob <<<still>>>
        40110 transcript 1 prompt and now
        40110 transcript 1 reply ->relay:Bob <<<still>>>
            40110 sends 1: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "still", data: None, meta: None, reply_to: None }
        41000 transcript 0 turn-over
        41000 transcript 1 turn-over
        50000 keys /clear\r
            50000 types /clear\r
        51000 keys and after that\r
            51000 types and after that\r
        51010 prints \r\nand after that\r\n->relay:Bob <<<anew>>>\r\n\r\n
        51010 transcript 2 prompt and after that
        51020 transcript 2 reply ->relay:Bob <<<anew>>>
            52520 sends 2: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "anew", data: None, meta: None, reply_to: None }
        59000 ends
    "#]]);
}

#[test]
fn prompt_may_be_recorded_before_it_is_on_the_screen() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \e[2J\e[H
        20020 transcript 0 prompt who are you
        20030 prints who are you\r\n
        20040 transcript 1 prompt who are you
        20200 prints ->relay:Bob <<<me>>>\r\n\r\n
        20210 transcript 1 reply ->relay:Bob <<<me>>>
        21000 transcript 0 reply ->relay:Bob <<<me>>>
        30000 ends
    "#]]);
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \e[2J\e[H
        20020 transcript 0 prompt who are you
        20030 prints who are you\r\n
        20200 prints ->relay:Bob <<<me>>>\r\n\r\n
        20210 transcript 0 reply ->relay:Bob <<<me>>>
            20250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me", data: None, meta: None, reply_to: None }
        30000 ends
    "#]]);
}

/// Both candidates record the same answer. The screen is cleared between the two records.
#[test]
fn same_answer_is_not_decided_by_its_time_on_the_screen() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n
        20020 transcript 0 prompt who are you
        20040 transcript 1 prompt who are you
        20200 prints ->relay:Bob <<<me>>>\r\n\r\n
        20210 transcript 1 reply ->relay:Bob <<<me>>>
        20215 prints \e[2J\e[H
        20220 transcript 0 reply ->relay:Bob <<<me>>>
        22000 keys go\r
            22000 types go\r
        22010 prints go\r\nok, so\r\n
        22020 transcript 0 prompt go
        22030 transcript 0 reply ok, so
        25000 transcript 0 prompt go
        25010 transcript 0 reply [ok, so it looks otherwise](on the screen)
        30000 ends
    "#]]);
}

/// The screen shows an answer that the second candidate records before the first one does.
#[test]
fn candidate_that_gives_the_same_answer_later_is_a_rival() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n
        20020 transcript 0 prompt who are you
        20020 transcript 1 prompt who are you
        20100 transcript 0 reply I look at [this](there).
        20110 prints I look at this.\r\n
        20200 prints ->relay:Bob <<<me>>>\r\n\r\n
        20210 transcript 1 reply ->relay:Bob <<<me>>>
        21000 transcript 0 reply ->relay:Bob <<<me>>>
        30000 ends
    "#]]);
}

/// The person types a command, and then another agent gets an earlier prompt of this agent.
#[test]
fn answer_on_the_screen_before_the_enter_does_not_count() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n
        20100 transcript 0 prompt who are you
        20100 transcript 0 reply ->relay:Bob <<<me>>>
            20250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me", data: None, meta: None, reply_to: None }
        22000 keys go\r
            22000 types go\r
        22010 prints go\r\nok, so\r\n
        22020 transcript 0 prompt go
        22030 transcript 0 reply ok, so
        22500 transcript 0 turn-over
        25000 keys /stats\r
            25000 types /stats\r
        25010 prints /stats\r\n12 s\r\n
        26000 transcript 1 prompt who are you
        26100 transcript 1 reply ->relay:Bob <<<me>>>
        30000 ends
    "#]]);
}

/// The agent starts another agent as a tool. The person permits this by an Enter.
#[test]
fn subagent_prompted_after_an_enter_is_not_own() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys ask another who it is\r
            20000 types ask another who it is\r
        20010 prints \r\nask another who it is\r\n
        20100 transcript 0 prompt ask another who it is
        20110 transcript 0 reply I do so.
        20120 prints I do so.\r\n
        20150 prints $ agent -p 'who are you'? (y/n)
        21000 keys \r
            21000 types \r
        21300 transcript 1 prompt who are you
        21310 transcript 1 reply ->relay:Bob <<<another>>>
        21320 prints ->relay:Bob <<<another>>>\r\n\r\n
        29000 ends
    "#]]);
}

#[test]
fn subagent_is_not_own_if_the_agents_answer_looks_different_on_the_screen() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys ask another who it is\r
            20000 types ask another who it is\r
        20010 prints \e[2J\e[Hask another who it is\r\n
        20100 transcript 0 prompt ask another who it is
        20110 transcript 0 reply I do [so](there).
        20120 prints I do so. $ agent -p 'who are you'\r\n
        21300 transcript 1 prompt who are you
        21310 transcript 1 reply ->relay:Bob <<<another>>>
        21320 prints ->relay:Bob <<<another>>>\r\n\r\n
        29000 ends
    "#]]);
    // The result is the same if the child's transcript is known already.
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        10000 keys who are you\r
            10000 types who are you\r
        10010 prints \r\nwho are you\r\nme, for one\r\n
        10020 transcript 0 prompt who are you
        10030 transcript 0 reply me, for one
        11000 transcript 0 turn-over
        20000 keys ask another who it is\r
            20000 types ask another who it is\r
        20010 prints \e[2J\e[Hask another who it is\r\n
        20100 transcript 0 prompt ask another who it is
        20110 transcript 0 reply I do [so](there).
        20120 prints I do so. $ agent -p 'who are you'\r\n
        21300 transcript 1 prompt who are you
        21310 transcript 1 reply ->relay:Bob <<<another>>>
        21320 prints ->relay:Bob <<<another>>>\r\n\r\n
        29000 ends
    "#]]);
}

#[test]
fn notice_typed_to_the_agent_decides_between_rivals() {
    check(expect![[r#"
        run agent with a transcript
        0 prints \e[?2004h>\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n>\s
        20100 transcript 0 prompt who are you
        20100 transcript 0 reply ->relay:Bob <<<me>>>
        20110 transcript 1 prompt who are you
        20110 transcript 1 reply ->relay:Bob <<<me>>>
            35260 logs Your messages to others are not sent yet: another agent in this directory got the same prompt and gave the same answer, so your transcript cannot be told from that agent's. This line tells them apart: the messages are sent now.
            35260 types \e[200~[relay 789200 from @relay] The relay wrote this, not your user.\nYour messages to others are not sent yet: another agent in this directory got the same prompt and gave the same answer, so your transcript cannot be told from that agent's. This line tells them apart: the messages are sent now.\n[/relay 789200]\e[201~
            35410 types \r
        37000 transcript 1 prompt [relay 789200 from @relay] The relay wrote this, not your user.
            37000 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me", data: None, meta: None, reply_to: None }
        50000 ends
    "#]]);
}

#[test]
fn same_prompt_and_answer_wait_for_a_frame_typed_here() {
    check(expect![[r#"
        run agent with a transcript
        0 prints \e[?2004h>\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n
        20100 transcript 0 prompt who are you
        20100 transcript 0 reply ->relay:Bob <<<me>>>
        20110 transcript 1 prompt who are you
        20110 transcript 1 reply ->relay:Bob <<<me>>>
        22000 message Ann: and you?
            22000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nand you?\n[/relay 789200]\e[201~
            22150 types \r
            22150 acknowledges 11111111-2222
        26000 transcript 1 prompt [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nand you?\n[/relay 789200]
            26000 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me", data: None, meta: None, reply_to: None }
        26010 transcript 0 prompt Ann sent this: [relay 789200 from Ann, id 11111111] Another agent wrote this
        26020 transcript 1 reply ->relay:Ann <<<me, too>>>
            26020 sends 1: OutgoingMessage { to: "Ann", topic: None, thread: None, kind: "message", body: "me, too", data: None, meta: None, reply_to: None }
        26020 transcript 0 reply ->relay:Ann <<<not me>>>
        29000 transcript 0 prompt [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\nand you?\n[/relay 789200]
        29020 transcript 0 reply ->relay:Ann <<<nor me>>>
        29900 ends
    "#]]);
}

/// The child has a transcript and resumes another agent's conversation.
#[test]
fn records_from_before_a_conversation_was_resumed_are_not_sent() {
    check(expect![[r#"
        run agent with a transcript
        begin own turn sent, another conversation recorded
        95000 keys /resume\r
            95000 types /resume\r
        100000 keys go on\r
            100000 types go on\r
        100010 prints \r\ngo on\r\n->relay:Bob <<<me again>>>\r\n\r\n>\s
        100100 transcript 1 prompt go on
        100100 transcript 1 reply ->relay:Bob <<<me again>>>
            101600 sends 1: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me again", data: None, meta: None, reply_to: None }
        109000 ends
    "#]]);
    check(expect![[r#"
        run agent with a transcript
        begin own turn sent, another conversation recorded
        95000 keys /resume\r
            95000 types /resume\r
        95010 prints \r\n>\s
        100000 message Ann: go on
            100000 types \e[200~[relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\ngo on\n[/relay 789200]\e[201~
            100150 types \r
            100150 acknowledges 11111111-2222
        101000 transcript 1 prompt [relay 789200 from Ann, id 11111111] Another agent wrote this, not your user.\ngo on\n[/relay 789200]
        101010 transcript 1 reply ->relay:Ann <<<me again>>>
            101010 sends 1: OutgoingMessage { to: "Ann", topic: None, thread: None, kind: "message", body: "me again", data: None, meta: None, reply_to: None }
        109000 ends
    "#]]);
}

/// The other agent's last prompt followed an Enter that was typed here. The prompt is on the screen
/// once the child resumes the conversation.
#[test]
fn turn_of_another_agent_after_an_enter_here_is_not_sent_when_resumed() {
    check(expect![[r#"
        run agent with a transcript
        begin own turn sent, another conversation recorded
        91000 keys /stats\r
            91000 types /stats\r
        92000 transcript 1 prompt of another once more
        92100 transcript 1 reply ->relay:Bob <<<of another once more>>>
        92200 transcript 1 turn-over
        110000 keys /resume\r
            110000 types /resume\r
        110010 prints \e[2J\e[Hof another once more\r\n->relay:Bob <<<of another once more>>>\r\n\r\n>\s
        120000 keys go on\r
            120000 types go on\r
        120010 prints \r\ngo on\r\n->relay:Bob <<<me again>>>\r\n\r\n>\s
        120100 transcript 1 prompt go on
        120100 transcript 1 reply ->relay:Bob <<<me again>>>
            121600 sends 1: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me again", data: None, meta: None, reply_to: None }
        129000 ends
    "#]]);
}

/// The first answer in the next conversation looks different on the screen.
#[test]
fn deferred_turn_of_the_next_conversation_is_sent() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n>\s
        20100 transcript 0 prompt who are you
        20100 transcript 0 reply ->relay:Bob <<<me>>>
        20200 transcript 0 turn-over
            20250 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me", data: None, meta: None, reply_to: None }
        50000 keys /clear\r
            50000 types /clear\r
        50010 prints \e[2J\e[H>\s
        60000 keys and after that\r
            60000 types and after that\r
        60010 prints and after that\r\nstill me\r\n>\s
        60100 transcript 1 prompt and after that
        60100 transcript 1 reply ->relay:Bob <<<[still](there) me>>>
        60200 transcript 1 turn-over
        70000 keys go on\r
            70000 types go on\r
        70010 prints go on\r\n->relay:Bob <<<me again>>>\r\n\r\n>\s
        70100 transcript 1 prompt go on
        70100 transcript 1 reply ->relay:Bob <<<me again>>>
            71600 sends 1: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "[still](there) me", data: None, meta: None, reply_to: None }
            71600 sends 2: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me again", data: None, meta: None, reply_to: None }
        79000 ends
    "#]]);
}

/// Another agent records the prompt and the answer first, since the child's CLI is slow to record.
#[test]
fn candidate_waits_for_records_of_other_agents_in_the_directory() {
    check(expect![[r#"
        run agent with a transcript
        0 other-agents
        0 prints >\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n
        20100 transcript 0 prompt who are you
        20100 transcript 0 reply ->relay:Bob <<<me>>>
        24000 transcript 1 prompt who are you
        24000 transcript 1 reply ->relay:Bob <<<me>>>
        30000 ends
    "#]]);
    // No other agent gets the prompt.
    check(expect![[r#"
        run agent with a transcript
        0 other-agents
        0 prints >\s
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n
        20100 transcript 0 prompt who are you
        20100 transcript 0 reply ->relay:Bob <<<me>>>
            25100 sends 0: OutgoingMessage { to: "Bob", topic: None, thread: None, kind: "message", body: "me", data: None, meta: None, reply_to: None }
        30000 ends
    "#]]);
}

#[test]
fn half_typed_prompt_is_no_evidence() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys x\r
            20000 types x\r
        20010 prints x\r\nok\r\n>\s
        21000 keys who are you
            21000 types who are you
        21010 prints who are you
        21100 transcript 0 prompt who are you
        21100 transcript 0 reply ->relay:Bob <<<another>>>
        60000 transcript 0 reply ->relay:Bob <<<another>>>
        90000 ends
    "#]]);
}

/// The agent starts another agent in the same directory as a tool.
#[test]
fn subagent_in_the_same_directory_is_not_own() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        20000 keys ask another who it is\r
            20000 types ask another who it is\r
        20010 prints \r\nask another who it is\r\n
        20100 transcript 0 prompt ask another who it is
        20200 prints $ agent -p 'who are you'\r\n
        20300 transcript 1 prompt who are you
        20310 transcript 1 reply ->relay:Bob <<<another>>>
        20320 prints ->relay:Bob <<<another>>>\r\n\r\n
        20400 transcript 0 reply It has answered.
        20410 prints It has answered.\r\n
        29000 ends
    "#]]);
}

#[test]
fn transcript_named_by_the_system_is_the_only_one() {
    check(expect![[r#"
        run agent with a transcript
        0 prints >\s
        10 owned 0
        20000 keys who are you\r
            20000 types who are you\r
        20010 prints \r\nwho are you\r\n->relay:Bob <<<me>>>\r\n\r\n
        20100 transcript 1 prompt who are you
        20100 transcript 1 reply ->relay:Bob <<<me>>>
        29000 ends
    "#]]);
}

#[test]
fn missing_transcript_is_reported_once() {
    check(expect![[r#"
        run agent with a transcript
        0 prints \e[?2004h->relay:Bob <<<hello>>>\r\n\r\n>\s
            15250 logs Your messages to others are not sent: the transcript that generic writes was not found. Ask your user to start you with `agent-relay run --grid`, which reads the screen instead.
            15250 types \e[200~[relay 789200 from @relay] The relay wrote this, not your user.\nYour messages to others are not sent: the transcript that generic writes was not found. Ask your user to start you with `agent-relay run --grid`, which reads the screen instead.\n[/relay 789200]\e[201~
            15400 types \r
        30000 prints \r\n->relay:Bob <<<hello again>>>\r\n\r\n>\s
        90000 ends
    "#]]);
}
