//! Disks that fail, fill up, forget and go away.

use super::{
    super::{
        Report, Settings, Store,
        fault::{Fault, Place},
        trouble::Trouble,
    },
    place::{Folder, Live, NOW_MS, clock, cut, keep, run_with},
    world::World,
};
use crate::record::{Change, Ending, Image, NoticeRecord};
use proptest::prelude::*;
use std::{fs, io};

fn broken() -> Trouble {
    Trouble::Io(io::Error::other("the disk is broken"))
}

fn rotten() -> Trouble {
    Trouble::Damaged("a page is rotten".to_owned())
}

const FAULTS: [Option<Fault>; 4] = [
    None,
    Some((Place::Open, broken)),
    Some((Place::Commit, broken)),
    Some((Place::Committed, broken)),
];

fn is_taken(change: &Change) -> bool {
    matches!(change, Change::Accepted(_))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_is_refused_is_not_kept_and_all_else_is(
        groups in prop::collection::vec(
            (0..4_usize, prop::collection::vec((any::<u8>(), 0..1_u64 << 40), 1..10)), 1..14)
    ) {
        let folder = Folder::new();
        let mut world = World::default();
        let live = Live::start(folder.open().store);
        for (fault, group) in groups {
            live.faults.set(FAULTS[fault]);
            let mut oracle = world.oracle.clone();
            let group: Vec<_> = group.into_iter().map(|(kind, pick)| world.change(kind, pick)).collect();
            match live.keep(group.clone()).0 {
                Report::Kept(count) => prop_assert_eq!(count, group.len() as u64),
                refused => {
                    prop_assert!(matches!(refused, Report::NotKept { .. }), "{refused:?}");
                    group.iter().filter(|change| !is_taken(change)).for_each(|it| oracle.apply(it));
                    world.oracle = oracle;
                }
            }
        }
        live.faults.set(None);
        live.end();
        folder.check_counts();
        let mut image = folder.image();
        // LastNumbers of what was refused may be skipped, and a file that never worked has no time.
        world.oracle.last = image.last;
        image.clock = world.oracle.clock;
        prop_assert_eq!(image, world.oracle.image());
    }
}

#[test]
fn a_broken_disk_is_told_once_and_works_again_by_itself() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = Live::start(folder.open().store);
    let message = |world: &mut World| Change::Accepted(Box::new(world.taken(1, &[2], None, "hi")));
    live.faults.set(FAULTS[2]);
    let (refused, before) = live.keep(vec![message(&mut world)]);
    let Report::NotKept { count: 1, why } = refused else { panic!("{refused:?}") };
    assert!(why.contains("relay.db") && why.contains("the disk is broken"), "{why}");
    assert_eq!(before, [Report::Health(Err(why))]);
    let (refused, before) = live.keep(vec![message(&mut world), message(&mut world)]);
    assert!(matches!(refused, Report::NotKept { count: 2, .. }) && before.is_empty());
    live.faults.set(None);
    assert_eq!(live.next(), Report::Health(Ok(())), "without a new job");
    let (kept, before) = live.keep(vec![message(&mut world)]);
    assert_eq!((kept, before), (Report::Kept(1), vec![]));
    assert!(live.end().is_empty());
    assert_eq!(folder.image().messages.into_keys().collect::<Vec<_>>(), [4]);
}

#[test]
fn a_file_that_rots_or_goes_away_is_begun_anew_and_nothing_of_it_is_deleted() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = Live::start(folder.open().store);
    let taken = Change::Accepted(Box::new(world.taken(1, &[2], None, "hi")));
    live.keep(vec![taken.clone()]);
    live.faults.set(Some((Place::Commit, rotten)));
    live.keep(vec![Change::SessionEnded { agent: 1 }]);
    live.faults.set(None);
    let lost = live.next();
    let Report::Lost(lost) = lost else { panic!("{lost:?}") };
    assert!(lost.contains("a page is rotten") && lost.contains("relay.db.damaged-2025"), "{lost}");
    assert_eq!(live.next(), Report::Health(Ok(())));
    let copy = Folder::new();
    for name in folder.files("relay.db.damaged-") {
        let suffix = if name.ends_with("-wal") { "relay.db-wal" } else { "relay.db" };
        fs::copy(folder.0.join(&name), copy.0.join(suffix)).unwrap();
    }
    assert_eq!(copy.image().messages.len(), 1, "what was set aside is whole");
    // Where an open file can't be removed, there is nothing to see.
    if fs::remove_file(folder.path()).is_ok() {
        assert!(matches!(live.keep(vec![taken.clone()]).0, Report::NotKept { .. }));
        let (kept, before) = live.keep(vec![taken]);
        assert_eq!(kept, Report::Kept(1));
        assert!(matches!(&before[..], [Report::Lost(_), Report::Health(Ok(()))]), "{before:?}");
    }
    live.end();
    folder.image();
}

#[test]
fn what_is_said_again_to_a_new_file_is_kept_though_the_disk_fails_once_more() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = Live::start(folder.open().store);
    for fault in [FAULTS[2], FAULTS[3]] {
        let (one, again) =
            (world.taken(1, &[2], None, "refused"), world.taken(1, &[2, 3], None, "hi"));
        let over = again.deliveries[0].number;
        live.faults.set(fault);
        let group = vec![Change::AcceptedAgain(Box::new(again)), Change::Accepted(Box::new(one))];
        assert!(matches!(live.keep(group).0, Report::NotKept { count: 2, .. }));
        let ended = Change::Ended { delivery: over, ending: Ending::Acknowledged, unix_ms: NOW_MS };
        assert!(matches!(live.keep(vec![ended]).0, Report::NotKept { count: 1, .. }));
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

/// A store of so few pages, and messages of about one.
fn small(folder: &Folder) -> Settings {
    Settings { bytes_max: 128 * 4096, ..folder.settings() }
}

#[test]
fn a_full_store_refuses_messages_but_keeps_that_others_ended() {
    let folder = Folder::new();
    let mut world = World::default();
    let body = "x".repeat(3_000);
    let mut live = Live::start(Store::open(small(&folder), NOW_MS).unwrap().store);
    let mut taken = 0;
    let why = loop {
        let message = world.taken(1, &[2], None, &body);
        match live.keep(vec![Change::Accepted(Box::new(message))]) {
            (Report::Kept(1), _) => taken += 1,
            (Report::NotKept { count: 1, why }, before) => {
                assert_eq!(before, [Report::Health(Err(why.clone()))]);
                break why;
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(taken > 30 && why.contains("store_max_bytes"), "{taken} {why}");
    let refused = Change::Accepted(Box::new(world.taken(1, &[2], None, &body)));
    let ended =
        |delivery| Change::Ended { delivery, ending: Ending::Acknowledged, unix_ms: NOW_MS };
    let (report, _) = live.keep(vec![refused.clone(), ended(1), ended(2)]);
    assert!(matches!(report, Report::NotKept { count: 3, .. }));
    live.end();
    let mut full = Store::open(small(&folder), NOW_MS).unwrap().store;
    full.0.sweep_all(NOW_MS);
    drop(full);
    assert_eq!(folder.image().messages.len(), taken - 2, "what ended is kept");
    live = Live::start(Store::open(small(&folder), NOW_MS).unwrap().store);
    assert_eq!(live.keep(vec![refused]).0, Report::Kept(1), "for what ended makes room");
    live.end();
    assert!(folder.path().metadata().unwrap().len() <= 128 * 4096);
}

#[test]
fn what_was_accepted_is_kept_in_a_store_that_refuses_messages() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = Live::start(Store::open(small(&folder), NOW_MS).unwrap().store);
    let body = "x".repeat(3_000);
    let taken = |world: &mut World| Box::new(world.taken(1, &[2], None, &body));
    while live.keep(vec![Change::Accepted(taken(&mut world))]).0 == Report::Kept(1) {}
    let (again, new) = (taken(&mut world), taken(&mut world));
    let (accepted, refused) = (again.message.number, new.message.number);
    let report = live.keep(vec![Change::AcceptedAgain(again), Change::Accepted(new)]).0;
    assert!(matches!(report, Report::NotKept { count: 2, .. }));
    live.end();
    let image = Store::open(small(&folder), NOW_MS).unwrap().image;
    assert!(image.messages.contains_key(&accepted) && !image.messages.contains_key(&refused));
}

#[test]
fn the_history_makes_room_for_messages() {
    let folder = Folder::new();
    let mut world = World::default();
    let body = "x".repeat(3_000);
    let live = Live::start(Store::open(small(&folder), NOW_MS).unwrap().store);
    for delivery in 1..500 {
        let taken = Change::Accepted(Box::new(world.taken(1, &[2], None, &body)));
        let ended = Change::Ended { delivery, ending: Ending::Acknowledged, unix_ms: NOW_MS };
        assert_eq!(live.keep(vec![taken, ended]), (Report::Kept(2), vec![]));
    }
    assert!(live.end().is_empty());
    assert!(folder.path().metadata().unwrap().len() <= 128 * 4096);
}

/// Images after each group, and what a daemon finds that is killed in the middle.
#[test]
fn killed_at_any_byte_the_store_has_whole_groups() {
    let (folder, copy) = (Folder::new(), Folder::new());
    let mut world = World::default();
    let (mut jobs, mut images) = (Vec::new(), vec![Image::default()]);
    for group in 0..12 {
        let changes = (0..9).map(|n| world.change((n * 5 + group) as u8, n * n * group)).collect();
        world.oracle.clock = clock(0);
        images.push(world.oracle.image());
        jobs.extend([keep(changes), cut()]);
    }
    let mut kept = 0;
    run_with(folder.open().store, jobs, |report| {
        if !matches!(report, Report::Kept(_)) {
            return;
        }
        kept += 1;
        let log = folder.0.join("relay.db-wal").metadata().unwrap().len();
        for lost in [0, 1, 24, 2_000, 5_000, 20_000] {
            folder.copy_to(&copy);
            let file = fs::File::options().write(true).open(copy.0.join("relay.db-wal")).unwrap();
            file.set_len(log.saturating_sub(lost)).unwrap();
            drop(file);
            let image = copy.image();
            let found = images[..=kept].iter().rposition(|known| *known == image);
            assert!(found.is_some(), "{lost} bytes short after group {kept}");
            assert!(lost > 0 || found == Some(kept), "what was told to be kept is there");
        }
    });
    assert_eq!(kept, 12);
}

#[test]
fn answers_are_kept_in_a_store_that_is_full_of_messages_as_far_as_they_find_room() {
    let folder = Folder::new();
    let mut world = World::default();
    let body = "x".repeat(3_000);
    let live = Live::start(Store::open(small(&folder), NOW_MS).unwrap().store);
    let message = |world: &mut World| Change::Accepted(Box::new(world.taken(1, &[2], None, &body)));
    while live.keep(vec![message(&mut world)]).0 == Report::Kept(1) {}
    let answer = |number| {
        let frame = vec![b'x'; 3_000].into();
        Change::Notice(Box::new(NoticeRecord { number, agent: 1, frame }))
    };
    for number in 1..200 {
        assert_eq!(live.keep(vec![answer(number)]), (Report::Kept(1), vec![]));
    }
    // All else goes on.
    let ended = Change::Ended { delivery: 1, ending: Ending::Acknowledged, unix_ms: NOW_MS };
    let (report, before) = live.keep(vec![message(&mut world), answer(200), ended]);
    assert!(matches!(report, Report::NotKept { count: 3, .. }) && before.is_empty());
    assert!(live.end().is_empty());
    let image = Store::open(small(&folder), NOW_MS).unwrap().image;
    assert!((1..40).contains(&image.notices.len()), "{} are kept", image.notices.len());
    assert!(!image.deliveries.contains_key(&1));
    assert!(folder.path().metadata().unwrap().len() <= 128 * 4096);
}

#[test]
fn answers_that_a_broken_disk_owes_are_there_when_it_works_again() {
    let folder = Folder::new();
    let answer = |number| {
        let frame = vec![number as u8; 9].into();
        Change::Notice(Box::new(NoticeRecord { number, agent: 1, frame }))
    };
    let live = Live::start(folder.open().store);
    live.keep(vec![answer(1)]);
    for (first, fault) in [(20, FAULTS[2]), (30, FAULTS[3])] {
        live.faults.set(fault);
        live.keep(vec![answer(first), answer(first + 1)]);
        live.keep(vec![Change::NoticeEnded(first)]);
        live.faults.set(None);
        while live.next() != Report::Health(Ok(())) {}
    }
    live.end();
    assert_eq!(folder.image().notices.into_keys().collect::<Vec<_>>(), [1, 21, 31]);
}
