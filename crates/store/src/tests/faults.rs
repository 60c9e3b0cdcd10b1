//! Tests of disks that fail or are full, and of files that are removed or damaged.

use super::{
    super::{
        Report, Settings,
        error::StoreError,
        fault::{Fault, FaultPoint},
    },
    folder::{Folder, NOW, NOW_MS, RunningStore, clock, end_group, open_with, run_with, write},
    world::World,
};
use proptest::prelude::*;
use protocol::{
    code::NackCode,
    record::{Change, Ending, Image, NoticeRecord, StreamRecord},
};
use std::{fs, io};

fn broken() -> StoreError {
    StoreError::Io(io::Error::other("the disk is broken"))
}

fn corrupt() -> StoreError {
    StoreError::Damaged("a page is corrupt".to_owned())
}

const FAULTS: [Option<Fault>; 4] = [
    None,
    Some((FaultPoint::Open, broken)),
    Some((FaultPoint::Commit, broken)),
    Some((FaultPoint::Committed, broken)),
];

/// Whether a store that fails drops a change.
fn is_dropped(change: &Change) -> bool {
    matches!(change, Change::Accepted(_) | Change::Answer(_))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn refused_messages_are_not_stored_and_other_changes_are(
        groups in prop::collection::vec(
            (0..4_usize, prop::collection::vec((any::<u8>(), 0..1_u64 << 40), 1..10)), 1..14)
    ) {
        let folder = Folder::new();
        let mut world = World::default();
        let live = RunningStore::start(folder.open().store);
        for (fault, group) in groups {
            live.faults.set(FAULTS[fault]);
            let mut oracle = world.oracle.clone();
            let group: Vec<_> = group.into_iter().map(|(kind, pick)| world.change(kind, pick)).collect();
            match live.write(group.clone()).0 {
                Report::Persisted(count) => prop_assert_eq!(count, group.len() as u64),
                refused => {
                    prop_assert!(matches!(refused, Report::Refused { .. }), "{refused:?}");
                    group.iter().filter(|change| !is_dropped(change)).for_each(|it| oracle.apply(it));
                    world.oracle = oracle;
                }
            }
        }
        live.faults.set(None);
        live.end();
        folder.check_counts();
        let mut image = folder.image();
        // Numbers of refused messages may be skipped, and a file that was never written has no
        // time.
        world.oracle.last = image.last;
        image.clock = world.oracle.clock;
        prop_assert_eq!(image, world.oracle.image());
    }
}

#[test]
fn failing_disk_is_reported_once_and_retried_without_a_job() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    let message =
        |world: &mut World| Change::Accepted(Box::new(world.accepted(1, &[2], None, "hi")));
    live.faults.set(FAULTS[2]);
    let (refused, before) = live.write(vec![message(&mut world)]);
    let Report::Refused { count: 1, why } = refused else { panic!("{refused:?}") };
    assert!(why.contains("relay.db") && why.contains("the disk is broken"), "{why}");
    assert_eq!(before, [Report::Health(Err(why))]);
    let (refused, before) = live.write(vec![message(&mut world), message(&mut world)]);
    assert!(matches!(refused, Report::Refused { count: 2, .. }) && before.is_empty());
    live.faults.set(None);
    assert_eq!(live.next(), Report::Health(Ok(())), "without a new job");
    let (report, before) = live.write(vec![message(&mut world)]);
    assert_eq!((report, before), (Report::Persisted(1), vec![]));
    assert!(live.end().is_empty());
    assert_eq!(folder.image().messages.into_keys().collect::<Vec<_>>(), [4]);
}

#[test]
fn failing_disk_is_tried_again_at_least_every_five_seconds() {
    let folder = Folder::new();
    let mut store = folder.open().store;
    store.0.faults.set(FAULTS[1]);
    let waits: Vec<_> = (0..20).map(|_| store.0.fail_to_recover()).collect();
    assert_eq!(waits[..4], [50, 100, 200, 400]);
    assert_eq!(waits.iter().max(), Some(&5_000), "{waits:?}");
}

#[test]
fn damaged_file_is_begun_anew_and_the_old_one_kept() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    let accepted = Change::Accepted(Box::new(world.accepted(1, &[2], None, "hi")));
    live.write(vec![accepted]);
    live.faults.set(Some((FaultPoint::Commit, corrupt)));
    live.write(vec![Change::SessionEnded { agent: 1 }]);
    live.faults.set(None);
    let lost = live.next();
    let Report::Lost(lost) = lost else { panic!("{lost:?}") };
    assert!(lost.contains("a page is corrupt") && lost.contains("relay.db.damaged-2025"), "{lost}");
    assert_eq!(live.next(), Report::Health(Ok(())));
    let copy = Folder::new();
    for name in folder.files("relay.db.damaged-") {
        let suffix = if name.ends_with("-wal") { "relay.db-wal" } else { "relay.db" };
        fs::copy(folder.0.join(&name), copy.0.join(suffix)).unwrap();
    }
    assert_eq!(copy.image().messages.len(), 1, "the file set aside is complete");
    live.end();
    folder.image();
}

#[test]
fn resent_messages_are_stored_although_the_disk_fails_again() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    for fault in [FAULTS[2], FAULTS[3]] {
        let (refused, resent) =
            (world.accepted(1, &[2], None, "refused"), world.accepted(1, &[2, 3], None, "hi"));
        let ended = resent.deliveries[0].number;
        live.faults.set(fault);
        let group =
            vec![Change::AcceptedAgain(Box::new(resent)), Change::Accepted(Box::new(refused))];
        assert!(matches!(live.write(group).0, Report::Refused { count: 2, .. }));
        let ended =
            Change::Ended { delivery: ended, ending: Ending::Acknowledged, unix_ms: NOW_MS };
        assert!(matches!(live.write(vec![ended]).0, Report::Refused { count: 1, .. }));
        live.faults.set(None);
        while live.next() != Report::Health(Ok(())) {}
    }
    live.end();
    folder.check_counts();
    let image = folder.image();
    assert_eq!(image.messages.into_keys().collect::<Vec<_>>(), [2, 4]);
    assert_eq!(image.deliveries.into_keys().collect::<Vec<_>>(), [3, 6]);
    assert_eq!(image.dedup.into_keys().collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn agent_that_is_known_by_a_pending_message_only_is_forgotten() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    let resent = Change::AcceptedAgain(Box::new(world.accepted(4, &[1], None, "hi")));
    live.faults.set(FAULTS[2]);
    live.write(vec![resent]);
    live.write(vec![Change::AgentForgotten(4)]);
    live.faults.set(None);
    while live.next() != Report::Health(Ok(())) {}
    live.end();
    let image = folder.image();
    assert_eq!((image.messages.len(), image.dedup.len()), (1, 0));
}

/// Settings of a store of 128 pages. Each message of these tests takes about one page.
fn small(folder: &Folder) -> Settings {
    Settings { bytes_max: 128 * 4096, ..folder.settings() }
}

#[test]
fn full_store_refuses_messages_and_stores_endings() {
    let folder = Folder::new();
    let mut world = World::default();
    let body = "x".repeat(3_000);
    let mut live = RunningStore::start(open_with(small(&folder)).unwrap().store);
    let mut accepted = 0;
    let why = loop {
        let message = world.accepted(1, &[2], None, &body);
        match live.write(vec![Change::Accepted(Box::new(message))]) {
            (Report::Persisted(1), _) => accepted += 1,
            (Report::Refused { count: 1, why }, before) => {
                assert_eq!(before, [Report::Health(Err(why.clone()))]);
                break why;
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(accepted > 30 && why.contains("store_max_bytes"), "{accepted} {why}");
    let refused = Change::Accepted(Box::new(world.accepted(1, &[2], None, &body)));
    let ended =
        |delivery| Change::Ended { delivery, ending: Ending::Acknowledged, unix_ms: NOW_MS };
    let (report, _) = live.write(vec![refused.clone(), ended(1), ended(2)]);
    assert!(matches!(report, Report::Refused { count: 3, .. }));
    live.end();
    let mut full = open_with(small(&folder)).unwrap().store;
    full.0.sweep_all(NOW);
    drop(full);
    assert_eq!(folder.image().messages.len(), accepted - 2, "the endings are stored");
    live = RunningStore::start(open_with(small(&folder)).unwrap().store);
    assert_eq!(live.write(vec![refused]).0, Report::Persisted(1), "ended deliveries make room");
    live.end();
    assert!(folder.path().metadata().unwrap().len() <= 128 * 4096);
}

#[test]
fn store_above_a_lowered_limit_takes_messages_again_once_its_own_have_ended() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    let body = "x".repeat(3_000);
    let message =
        |world: &mut World| Change::Accepted(Box::new(world.accepted(1, &[2], None, &body)));
    let changes = (0..200).map(|_| message(&mut world)).collect();
    assert_eq!(live.write(changes).0, Report::Persisted(200));
    live.end();
    let live = RunningStore::start(open_with(small(&folder)).unwrap().store);
    assert!(matches!(live.write(vec![message(&mut world)]).0, Report::Refused { .. }));
    let ended =
        |delivery| Change::Ended { delivery, ending: Ending::Acknowledged, unix_ms: NOW_MS };
    live.write((1..=200).map(ended).collect());
    assert_eq!(live.write(vec![message(&mut world)]).0, Report::Persisted(1));
    live.end();
}

#[test]
fn messages_accepted_before_are_stored_in_a_full_store() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(open_with(small(&folder)).unwrap().store);
    let body = "x".repeat(3_000);
    let message = |world: &mut World| Box::new(world.accepted(1, &[2], None, &body));
    while live.write(vec![Change::Accepted(message(&mut world))]).0 == Report::Persisted(1) {}
    let (resent, new) = (message(&mut world), message(&mut world));
    let (accepted, refused) = (resent.message.number, new.message.number);
    let report = live.write(vec![Change::AcceptedAgain(resent), Change::Accepted(new)]).0;
    assert!(matches!(report, Report::Refused { count: 2, .. }));
    live.end();
    let image = open_with(small(&folder)).unwrap().image;
    assert!(image.messages.contains_key(&accepted) && !image.messages.contains_key(&refused));
}

#[test]
fn history_is_deleted_to_make_room_for_messages() {
    let folder = Folder::new();
    let mut world = World::default();
    let body = "x".repeat(3_000);
    let live = RunningStore::start(open_with(small(&folder)).unwrap().store);
    for delivery in 1..500 {
        let accepted = Change::Accepted(Box::new(world.accepted(1, &[2], None, &body)));
        let ended = Change::Ended { delivery, ending: Ending::Acknowledged, unix_ms: NOW_MS };
        assert_eq!(live.write(vec![accepted, ended]), (Report::Persisted(2), vec![]));
    }
    assert!(live.end().is_empty());
    assert!(folder.path().metadata().unwrap().len() <= 128 * 4096);
}

#[test]
fn mail_of_one_sender_does_not_displace_the_only_dead_letter_of_another() {
    // The store may have time to move what has ended to the history, or not.
    for has_time in [false, true] {
        let folder = Folder::new();
        let mut world = World::default();
        let dead = |delivery| {
            let ending = Ending::Dead { code: NackCode::Expired, why: "its time is over".into() };
            Change::Ended { delivery, ending, unix_ms: NOW_MS }
        };
        let letter = Change::Accepted(Box::new(world.accepted(1, &[2], None, "my only letter")));
        folder.run(vec![write(vec![letter, dead(1)])]);
        folder.open().store.0.sweep_all(NOW);
        let settings = Settings { bytes_max: 4 << 20, ..folder.settings() };
        let mut store = open_with(settings).unwrap().store;
        let body = "x".repeat(1_500);
        for group in 0..40 {
            let sent = |world: &mut World| world.accepted(3, &[2], None, &body);
            let accepted = (0..100).map(|_| Change::Accepted(Box::new(sent(&mut world))));
            let changes = accepted.chain((0..100).map(|n| dead(2 + group * 100 + n)));
            store.0.write_changes(changes.collect());
            if has_time {
                store.0.sweep_steps(NOW, 1_000);
            }
        }
        drop(store);
        let letters = folder.image().dead_letters;
        assert!(letters.contains_key(&1), "of {} letters", letters.len());
        assert!(letters.len() < 4_001);
    }
}

#[test]
fn truncated_log_contains_whole_groups() {
    let (folder, copy) = (Folder::new(), Folder::new());
    let mut world = World::default();
    let (mut jobs, mut images) = (Vec::new(), vec![Image::default()]);
    for group in 0..12 {
        let changes = (0..9).map(|n| world.change((n * 5 + group) as u8, n * n * group)).collect();
        world.oracle.clock = clock(0);
        images.push(world.oracle.image());
        jobs.extend([write(changes), end_group()]);
    }
    let mut persisted = 0;
    run_with(folder.open().store, jobs, |report| {
        if !matches!(report, Report::Persisted(_)) {
            return;
        }
        persisted += 1;
        let log = folder.0.join("relay.db-wal").metadata().unwrap().len();
        for lost in [0, 1, 24, 2_000, 5_000, 20_000] {
            folder.copy_to(&copy);
            let file = fs::File::options().write(true).open(copy.0.join("relay.db-wal")).unwrap();
            file.set_len(log.saturating_sub(lost)).unwrap();
            drop(file);
            let image = copy.image();
            let found = images[..=persisted].iter().rposition(|known| *known == image);
            assert!(found.is_some(), "{lost} bytes short after group {persisted}");
            assert!(lost > 0 || found == Some(persisted), "persisted groups are complete");
        }
    });
    assert_eq!(persisted, 12);
}

#[test]
fn notices_use_the_reserve_of_a_full_store() {
    let folder = Folder::new();
    let mut world = World::default();
    let body = "x".repeat(3_000);
    let live = RunningStore::start(open_with(small(&folder)).unwrap().store);
    let message =
        |world: &mut World| Change::Accepted(Box::new(world.accepted(1, &[2], None, &body)));
    while live.write(vec![message(&mut world)]).0 == Report::Persisted(1) {}
    let notice = |number| {
        let frame = vec![b'x'; 3_000].into();
        Change::Notice(Box::new(NoticeRecord { number, agent: 1, frame }))
    };
    for number in 1..200 {
        assert_eq!(live.write(vec![notice(number)]), (Report::Persisted(1), vec![]));
    }
    // Other changes are still stored.
    let ended = Change::Ended { delivery: 1, ending: Ending::Acknowledged, unix_ms: NOW_MS };
    let (report, before) = live.write(vec![message(&mut world), notice(200), ended]);
    assert!(matches!(report, Report::Refused { count: 3, .. }) && before.is_empty());
    assert!(live.end().is_empty());
    let image = open_with(small(&folder)).unwrap().image;
    assert!((1..40).contains(&image.notices.len()), "{} are stored", image.notices.len());
    assert!(!image.deliveries.contains_key(&1));
    assert!(folder.path().metadata().unwrap().len() <= 128 * 4096);
}

#[test]
fn answers_to_questions_never_fill_the_store() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(open_with(small(&folder)).unwrap().store);
    let body = "x".repeat(3_000);
    for _ in 0..200 {
        assert_eq!(live.write(vec![world.answer(1, 2, &body)]), (Report::Persisted(1), vec![]));
    }
    let message =
        |world: &mut World| Change::Accepted(Box::new(world.accepted(1, &[2], None, &body)));
    assert_eq!(live.write(vec![message(&mut world)]).0, Report::Persisted(1), "answers make room");
    while live.write(vec![message(&mut world)]).0 == Report::Persisted(1) {}
    let (report, _) = live.write(vec![world.answer(1, 2, &body)]);
    assert_eq!(report, Report::Persisted(1), "an answer without room is dropped");
    live.end();
    let kept = open_with(small(&folder)).unwrap();
    assert!(kept.image.messages.len() > 10, "messages are kept");
    assert!(folder.path().metadata().unwrap().len() <= 128 * 4096);
}

#[test]
fn what_begins_and_ends_while_the_disk_fails_leaves_nothing_to_write() {
    let stream = |number| {
        let (topic, reserved) = (None, 1_024);
        Change::Stream(Box::new(StreamRecord { number, from: 1, to: 2, topic, reserved }))
    };
    let folder = Folder::new();
    let mut store = folder.open().store;
    store.0.write_changes(vec![stream(1), stream(2)]);
    for (fault, first) in [(FaultPoint::Commit, 3), (FaultPoint::Committed, 103)] {
        store.0.faults.set(Some((fault, broken)));
        store.0.write_changes(vec![stream(first)]);
        for number in first + 1..first + 90 {
            store.0.write_changes(vec![stream(number)]);
            store.0.write_changes(vec![Change::StreamEnded(number)]);
        }
        store.0.write_changes(vec![Change::StreamEnded(first), Change::StreamEnded(2)]);
        assert_eq!(store.0.pending_streams(), 1, "the end of stream 2");
        store.0.faults.set(None);
        store.0.write_changes(vec![stream(first + 95)]);
        store.0.write_changes(vec![Change::StreamEnded(first + 95)]);
    }
    drop(store);
    assert_eq!(folder.image().streams.keys().collect::<Vec<_>>(), [&1]);
}

#[test]
fn pending_notices_are_written_once_the_disk_works_again() {
    let folder = Folder::new();
    let notice = |number| {
        let frame = vec![number as u8; 9].into();
        Change::Notice(Box::new(NoticeRecord { number, agent: 1, frame }))
    };
    let live = RunningStore::start(folder.open().store);
    live.write(vec![notice(1)]);
    for (first, fault) in [(20, FAULTS[2]), (30, FAULTS[3])] {
        live.faults.set(fault);
        live.write(vec![notice(first), notice(first + 1)]);
        live.write(vec![Change::NoticeEnded(first)]);
        live.faults.set(None);
        while live.next() != Report::Health(Ok(())) {}
    }
    live.end();
    assert_eq!(folder.image().notices.into_keys().collect::<Vec<_>>(), [1, 21, 31]);
}
