//! Tests of the link's times and bounds, without a daemon. `tests/it/machines.rs` has the others.

use super::*;
use crate::{border::Outcome, local::Daemon, window};
use crossbeam_channel::Receiver;
use protocol::{
    frame::{Batch, Decoder},
    secret::Secret,
};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn agents() -> Agents {
    Agents {
        peer: Host::parse("pi").unwrap(),
        exports: vec![name("Ann")],
        has_patterns: false,
        imports: None,
        topics: Topics::default(),
        bridge: None,
    }
}

const fn at(ms: u64) -> Now {
    Now { monotonic: Moment(ms), unix_ms: 0 }
}

/// A side without a daemon, and what its writer gets.
fn begin(agents: &Agents) -> (Link<'_>, Receiver<Vec<u8>>, Local) {
    let (pipe, writer) = Pipe::new();
    let daemon = Daemon {
        endpoint: "nowhere".to_owned(),
        server: None,
        key: Secret::stated("key"),
        remote_ttl_ms: 600_000,
        when_absent: None,
    };
    let link = Link::begin(at(0), agents, pipe, 1_000, |_| {});
    (link, writer.batches, Local::new(daemon, [name("Ann")], Topics::default()))
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
        assert!(link.event(now, Event::Written(batch.bytes()), local).is_continue());
    }
    kinds
}

fn carry(id: &str, bytes: usize) -> Carry {
    let (host, to, frame) = (Host::parse("pi").unwrap(), name("Bob"), vec![b' '; bytes]);
    let (id, ttl_ms) = (id.to_owned(), 600_000);
    Carry { host, to, id, is_message: true, requires_ack: true, ttl_ms, frame }
}

#[test]
fn silent_link_is_lost_after_half_a_frame() {
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
fn messages_are_sent_only_while_their_recipients_window_has_room() {
    let agents = agents();
    let (mut link, batches, mut local) = begin(&agents);
    written(&mut link, at(0), &batches, &mut local);
    let (pi, bob, eve) = (Host::parse("pi").unwrap(), name("Bob"), name("Eve"));
    link.frame_bytes_max = Some(1 << 20);
    assert!(!link.has_room(&pi, &bob), "before the other side has joined");
    let welcome = br#"{"v":1,"type":"WELCOME","id":"x","ts":1,"payload":{}}"#;
    assert!(link.frame(at(0), welcome, &mut local).is_continue());
    for number in 0..window::MESSAGES {
        assert!(link.has_room(&pi, &bob), "{number}");
        link.carry(at(0), carry(&number.to_string(), 10)).unwrap();
        drain(&mut link, &batches, &mut local);
    }
    assert!(!link.has_room(&pi, &bob));
    assert!(link.has_room(&pi, &eve), "another agent has a window of its own");
    let accepted =
        br#"{"v":1,"type":"ACK","id":"x","ts":1,"payload":{"ack_id":"7","state":"accepted"}}"#;
    assert!(link.frame(at(0), accepted, &mut local).is_continue());
    assert!(link.has_room(&pi, &bob));
    let refused = br#"{"v":1,"type":"NACK","id":"x","ts":1,"from":"Bob","to":"Ann","payload":{"ack_id":"8","code":"LIMIT"}}"#;
    assert!(link.frame(at(0), refused, &mut local).is_continue());
    link.carry(at(0), carry("more", 10)).unwrap();
    assert!(link.has_room(&pi, &bob));
    link.frame_bytes_max = Some(window::BYTES);
    let why = link.carry(at(0), carry("too large", window::BYTES + 1)).unwrap_err();
    assert_eq!(why, "2097153 bytes are over max_frame_bytes of pi (2097152)");
    link.carry(at(0), carry("large", window::BYTES)).unwrap();
    drain(&mut link, &batches, &mut local);
    assert!(!link.has_room(&pi, &bob));
}

/// Lets the writer write everything.
fn drain(link: &mut Link<'_>, batches: &Receiver<Vec<u8>>, local: &mut Local) {
    while let Ok(batch) = batches.try_recv() {
        assert!(link.event(at(0), Event::Written(batch.len()), local).is_continue());
    }
}

#[test]
fn side_that_sends_more_than_the_window_is_refused() {
    let agents = agents();
    let (mut link, _batches, mut local) = begin(&agents);
    link.frame_bytes_max = Some(1_000);
    let send = br#"{"v":1,"type":"SEND","id":"x","ts":1,"from":"Bob","to":"Ann","payload":{}}"#;
    for _ in 0..window::MESSAGES {
        assert!(link.frame(at(0), send, &mut local).is_continue());
    }
    let end = link.frame(at(0), send, &mut local);
    assert!(
        matches!(&end, ControlFlow::Break(End::Refused(why)) if why.contains("sends more")),
        "{end:?}"
    );
    for ticket in 1..=2 {
        link.settled(at(0), &agents.peer, ticket, Outcome::Refused);
    }
    assert!(link.frame(at(0), send, &mut local).is_continue());
}

#[test]
fn side_that_does_not_read_the_answers_that_it_causes_is_refused() {
    let agents = agents();
    let (mut link, _batches, mut local) = begin(&agents);
    link.frame_bytes_max = Some(1_000);
    let ping = br#"{"v":1,"type":"PING","id":"x","ts":1,"payload":{}}"#;
    let mut pings = 0;
    let end = loop {
        pings += 1_000;
        assert!(pings < 1_000_000, "PONGs take no memory?");
        for _ in 0..1_000 {
            assert!(link.frame(at(0), ping, &mut local).is_continue());
        }
        if let ControlFlow::Break(end) = link.event(at(0), Event::Read(None), &mut local) {
            break end;
        }
    };
    assert!(matches!(&end, End::Refused(why) if why.contains("does not read")), "{end:?}");
}
