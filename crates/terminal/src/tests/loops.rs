//! Messages between two agents that only answer each other.

use crate::{
    IncomingMessage, Input, Output, Progress, TerminalSide,
    obstacle::Obstacle,
    tests::script::{check, settings},
};
use expect_test::expect;
use protocol::Moment;

/// Relay commands are no work, and a waiting message can be neither announced nor read.
#[test]
fn messages_beyond_the_budget_wait_for_work() {
    check(expect![[r#"
        run claude with a wake budget of 2
        begin ready
        1000 reports
        1000 hook prompt-submitted 000000
            1000 answers hook 1: nothing
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob 11111111-1 s-1 1 hops:1: one
            2000 reports 11111111-1 Waiting(Busy)
        2000 message Bob 22222222-2 s-1 1 hops:2: two
            2000 reports 22222222-2 Waiting(Busy)
        2000 message Bob 33333333-3 s-1 1 hops:3: three
            2000 reports 33333333-3 Waiting(Looping)
        2000 message Eve 44444444-4 s-1 1 hops:1: four
            2000 reports 44444444-4 Waiting(Busy)
        2000 message Bob 33333333-3 s-1 2 hops:3: three
            2000 reports 33333333-3 Waiting(Looping)
        3000 hook tool-ended relays
            3000 answers hook 2: Bob wrote to you (id 11111111, 3 bytes): `agent-relay read 11111111` shows it. Bob wrote to you (id 22222222, 3 bytes): `agent-relay read 22222222` shows it. Eve wrote to you (id 44444444, 4 bytes): `agent-relay read 44444444` shows it.
        4000 takes 33333333
            4000 hands over Unreadable(Looping)
        4000 takes 11111111
            4000 reports 11111111-1 Unhindered
            4000 hands over Text("[relay 789200 from Bob, id 11111111] Another agent wrote this, not your user.\none\n[/relay 789200]")
        5000 hook tool-ended relays 789200
            5000 reports 11111111-1 Injected
            5000 acknowledges 11111111-1
            5000 reports 11111111-1 Confirmed
            5000 answers hook 5: nothing
        5000 takes 22222222
            5000 reports 22222222-2 Unhindered
            5000 hands over Text("[relay 41f6aa from Bob, id 22222222] Another agent wrote this, not your user.\ntwo\n[/relay 41f6aa]")
        5100 hook tool-ended relays 41f6aa
            5100 reports 22222222-2 Injected
            5100 acknowledges 22222222-2
            5100 reports 22222222-2 Confirmed
            5100 answers hook 7: nothing
        5200 state
            5200 2 waiting, 2 typed: the agent is at work
        6000 hook tool-ended
            6000 reports 33333333-3 Unhindered
            6000 answers hook 8: Bob wrote to you (id 33333333, 5 bytes): `agent-relay read 33333333` shows it.
            6000 reports 33333333-3 Waiting(Busy)
        7000 ends
    "#]]);
}

/// Without hooks, work is not seen, so five times as many messages go on.
#[test]
fn persons_enter_lets_messages_go_on_without_hooks() {
    check(expect![[r#"
        run claude with a wake budget of 1
        begin ready
        1000 foreground vi
        1000 reports
        1000 message Bob 1-1: one
            1000 reports 1-1 Waiting(OtherProgram)
        1000 message Bob 2-2: two
            1000 reports 2-2 Waiting(OtherProgram)
        1000 message Bob 3-3: three
            1000 reports 3-3 Waiting(OtherProgram)
        1000 message Bob 4-4: four
            1000 reports 4-4 Waiting(OtherProgram)
        1000 message Bob 5-5: five
            1000 reports 5-5 Waiting(OtherProgram)
        1000 message Bob 6-6: six
            1000 reports 6-6 Waiting(Looping)
        1000 message Bob 7-7: seven
            1000 reports 7-7 Waiting(Looping)
        2000 keys x
            2000 types x
        3000 keys \r
            3000 types \r
            3000 reports 6-6 Unhindered
            3000 reports 7-7 Unhindered
            3000 reports 6-6 Waiting(OtherProgram)
            3000 reports 7-7 Waiting(OtherProgram)
        4000 ends
    "#]]);
}

/// A sender that has worked says so. The operator's messages are not counted.
#[test]
fn senders_work_lets_messages_go_on() {
    check(expect![[r#"
        run claude with a wake budget of 1
        begin ready
        1000 reports
        1000 hook prompt-submitted 000000
            1000 answers hook 1: nothing
        1100 prints \e[2J\e[HWorking…\r\n❯\s\r\n\s\sesc to interrupt\e[2;3H
        2000 message Bob 11111111-1 s-1 1 hops:1: one
            2000 reports 11111111-1 Waiting(Busy)
        2000 message @operator 22222222-2: two
            2000 reports 22222222-2 Waiting(Busy)
        2000 message @operator 33333333-3: three
            2000 reports 33333333-3 Waiting(Busy)
        2000 message Bob 44444444-4 s-1 1 hops:2: four
            2000 reports 44444444-4 Waiting(Looping)
        3000 message Bob 55555555-5 s-1 1 hops:1/1: five
            3000 reports 44444444-4 Unhindered
            3000 reports 55555555-5 Waiting(Looping)
            3000 reports 44444444-4 Waiting(Busy)
        3000 hook tool-ended relays
            3000 answers hook 2: Bob wrote to you (id 11111111, 3 bytes): `agent-relay read 11111111` shows it. @operator wrote to you (id 22222222, 3 bytes): `agent-relay read 22222222` shows it. @operator wrote to you (id 33333333, 5 bytes): `agent-relay read 33333333` shows it. Bob wrote to you (id 44444444, 4 bytes): `agent-relay read 44444444` shows it.
    "#]]);
}

/// One agent's waiting messages fill at most half of the bytes in flight; the daemon keeps the
/// rest.
#[test]
fn messages_of_a_loop_leave_room_for_others() {
    let (mut side, mut out) = (TerminalSide::new(&settings("claude")), Vec::new());
    let mut deliver = |from: &str, number: u32, out: &mut Vec<Output>| {
        let (id, from) = (format!("{number:08}"), from.to_owned());
        let message = IncomingMessage {
            id,
            from,
            attempt: 1 + number % 20,
            requires_ack: true,
            ..IncomingMessage::default()
        };
        side.handle(Moment(0), Input::Delivered(message), out);
    };
    (0..400).for_each(|number| deliver("Bob", number, &mut out));
    let looping = Progress::Waiting(Obstacle::Looping);
    let waiting =
        out.iter().filter(|output| matches!(output, Output::Report(_, why) if *why == looping));
    assert_eq!(waiting.count(), 128);
    let returned = out.iter().filter_map(|output| match output {
        Output::Return(_, after_ms) => Some(*after_ms),
        _ => None,
    });
    let returned: Vec<_> = returned.collect();
    assert_eq!(returned.len(), 400 - 128 - 100);
    assert_eq!(returned.iter().min(), Some(&60_000));
    assert_eq!(returned.iter().max(), Some(&(60_000 << 9)));
    out.clear();
    deliver("Carl", 1000, &mut out);
    assert_eq!(out, []);
    assert_eq!(side.state().waiting, 128 + 100 + 1);
}
