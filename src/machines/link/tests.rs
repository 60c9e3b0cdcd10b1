//! Tests of the link's times and bounds, without a daemon. `tests/it/machines.rs` has the others.

use super::*;
use crate::{
    machines::{border::Outcome, local::Daemon},
    protocol::{
        frame::{Batch, Decoder},
        secret::Secret,
    },
};
use crossbeam_channel::Receiver;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn agents() -> Agents {
    Agents { peer: Host::parse("pi").unwrap(), exports: vec![name("Ann")], imports: None }
}

const fn at(ms: u64) -> Now {
    Now { monotonic: Moment(ms), unix_ms: 0 }
}

/// A side without a daemon, and what its writer gets.
fn begin(agents: &Agents) -> (Link<'_>, Receiver<Vec<u8>>, Local) {
    let (pipe, written) = Pipe::new();
    let daemon = Daemon {
        endpoint: "nowhere".to_owned(),
        server: None,
        key: Secret::stated("key"),
        when_absent: None,
    };
    let link = Link::begin(at(0), agents, pipe, 1_000, |_| {});
    (link, written, Local::new(daemon, [name("Ann")]))
}

/// The types of the frames that the writer gets, which then has written them.
fn written(
    link: &mut Link<'_>,
    now: Now,
    batches: &Receiver<Vec<u8>>,
    local: &mut Local,
) -> Vec<Kind> {
    let mut kinds = Vec::new();
    while let Ok(batch) = batches.try_recv() {
        let batch = Batch::of(batch);
        kinds.extend(batch.frames().map(|json| Envelope::read(json).unwrap().kind));
        assert!(link.event(now, Event::Written, local).is_continue());
    }
    kinds
}

fn carry(id: &str, bytes: usize) -> Carry {
    let (host, to, frame) = (Host::parse("pi").unwrap(), name("Bob"), vec![b' '; bytes]);
    Carry { host, to, id: id.to_owned(), is_message: true, requires_ack: true, frame }
}

#[test]
fn silent_link_is_lost_although_half_a_frame_came() {
    let agents = agents();
    let (mut link, batches, mut local) = begin(&agents);
    assert_eq!(written(&mut link, at(0), &batches, &mut local), [Kind::Hello]);
    assert_eq!(link.deadline(), Some(Moment(GREETING_MS)));
    link.frame_bytes_max = Some(1_000);
    let mut decoder = Decoder::new(1_000);
    decoder.space()[..5].copy_from_slice(b"\0\0\0\x10{");
    decoder.filled(5);
    let half = Event::Read(decoder.batch().unwrap());
    assert!(link.event(at(1_000), half, &mut local).is_continue());
    for ms in [5_000, 10_000, 15_000] {
        assert_eq!(link.deadline(), Some(Moment(ms)));
        assert!(link.tick(at(ms), &mut local).is_continue());
        assert_eq!(written(&mut link, at(ms), &batches, &mut local), [Kind::Ping]);
    }
    assert_eq!(link.deadline(), Some(Moment(1_000 + SILENT_MS)));
    let end = link.tick(at(1_000 + SILENT_MS), &mut local);
    assert!(matches!(end, ControlFlow::Break(End::Lost(_))), "{end:?}");
}

#[test]
fn link_is_lost_if_the_other_side_reads_nothing() {
    let agents = agents();
    let (mut link, _batches, mut local) = begin(&agents);
    link.frame_bytes_max = Some(1_000);
    for ms in (1_000..SILENT_MS).step_by(1_000) {
        assert!(link.event(at(ms), Event::Read(None), &mut local).is_continue());
        assert!(link.tick(at(ms), &mut local).is_continue());
    }
    assert!(link.event(at(SILENT_MS), Event::Read(None), &mut local).is_continue());
    let end = link.tick(at(SILENT_MS), &mut local);
    assert!(matches!(end, ControlFlow::Break(End::Lost(_))), "{end:?}");
}

#[test]
fn deliveries_are_taken_only_while_the_window_has_room() {
    let agents = agents();
    let (mut link, batches, mut local) = begin(&agents);
    written(&mut link, at(0), &batches, &mut local);
    assert!(link.is_congested(), "before the other side's HELLO");
    link.frame_bytes_max = Some(1 << 20);
    assert!(!link.is_congested());
    for number in 0..WINDOW_MESSAGES {
        assert!(!link.is_congested(), "{number}");
        link.carry(at(0), carry(&number.to_string(), 10)).unwrap();
        batches.try_recv().unwrap();
        assert!(link.event(at(0), Event::Written, &mut local).is_continue());
    }
    assert!(link.is_congested());
    let accepted =
        br#"{"v":1,"type":"ACK","id":"x","ts":1,"payload":{"ack_id":"7","state":"accepted"}}"#;
    assert!(link.frame(at(0), accepted, &mut local).is_continue());
    assert!(!link.is_congested());
    let refused = br#"{"v":1,"type":"NACK","id":"x","ts":1,"from":"Bob","to":"Ann","payload":{"ack_id":"8","code":"LIMIT"}}"#;
    assert!(link.frame(at(0), refused, &mut local).is_continue());
    link.carry(at(0), carry("more", 10)).unwrap();
    assert!(!link.is_congested());
    link.carry(at(0), carry("large", WINDOW_BYTES)).unwrap_err();
    link.frame_bytes_max = Some(WINDOW_BYTES);
    let why = link.carry(at(0), carry("too large", WINDOW_BYTES + 1)).unwrap_err();
    assert_eq!(why, "16777217 bytes are over max_frame_bytes of pi (16777216)");
    link.carry(at(0), carry("large", WINDOW_BYTES)).unwrap();
    assert!(link.is_congested());
}

#[test]
fn side_that_sends_more_than_the_window_is_refused() {
    let agents = agents();
    let (mut link, _batches, mut local) = begin(&agents);
    link.frame_bytes_max = Some(1_000);
    let send = br#"{"v":1,"type":"SEND","id":"x","ts":1,"from":"Bob","to":"Ann","payload":{}}"#;
    for _ in 0..2 * WINDOW_MESSAGES {
        assert!(link.frame(at(0), send, &mut local).is_continue());
    }
    let end = link.frame(at(0), send, &mut local);
    assert!(
        matches!(&end, ControlFlow::Break(End::Refused(why)) if why.contains("sends more")),
        "{end:?}"
    );
    for ticket in 1..=100 {
        link.settled(at(0), &agents.peer, ticket, Outcome::Refused);
    }
    assert!(link.frame(at(0), send, &mut local).is_continue());
}
