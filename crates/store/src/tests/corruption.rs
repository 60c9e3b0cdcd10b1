//! Tests of a small database and its log in which bits flip, which are cut, or which do not belong
//! together.

use super::{
    super::{Opened, Report},
    folder::{Folder, NOW, end_group, open_with, query, run, run_with, write},
    queries::all,
    world::World,
};
use protocol::record::{Change, Image};
use std::fs;

const PAGE: usize = 4096;

/// The length of a log's header, and of the header of each page in it.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// A database with records of every kind, whose log was copied into it.
fn small() -> (Folder, World) {
    let (folder, mut world) = (Folder::new(), World::default());
    let changes = (0..400).map(|n| world.change((n % 15) as u8, n * n)).collect();
    folder.run(vec![write(changes)]);
    let mut opened = folder.open();
    // Some of the ended deliveries come into the history.
    opened.store.0.sweep_all(NOW);
    run(opened.store, vec![end_group()]);
    (folder, world)
}

/// A folder with a copy of some files, one of which has other bytes.
fn with(folder: &Folder, file: &str, bytes: &[u8]) -> Folder {
    let copy = Folder::new();
    folder.copy_to(&copy);
    fs::write(copy.0.join(file), bytes).unwrap();
    copy
}

/// Checks that a store has no message, delivery or notice but those that were written, and that it
/// has remarks if some of them are missing. Returns whether it has remarks.
#[track_caller]
fn check_content(opened: Opened, intact: &Image, world: &World, what: &str) -> bool {
    let Opened { store, image, remarks, .. } = opened;
    let rows = &world.oracle.rows;
    for (number, message) in &image.messages {
        let written = rows.values().find(|row| row.message.number == *number);
        assert!(Some(message) == written.map(|row| &row.message), "{what}: message {number}");
    }
    for (number, delivery) in &image.deliveries {
        let mut written = rows[number].delivery.clone();
        written.expires = delivery.expires;
        (written.attempts, written.failures) = (delivery.attempts, delivery.failures);
        assert_eq!(*delivery, written, "{what}");
        assert!(image.messages.contains_key(&delivery.message), "{what}");
    }
    for (number, notice) in &image.notices {
        assert!(intact.notices.get(number) == Some(notice), "{what}: notice {number}");
    }
    let is_complete = image.deliveries.keys().eq(intact.deliveries.keys())
        && image.messages.keys().eq(intact.messages.keys())
        && image.notices.keys().eq(intact.notices.keys());
    assert!(is_complete || !remarks.is_empty(), "{what}: mail is missing, and no remark says so");
    for report in run(store, vec![query(1, all())]) {
        let Report::Answer(_, Ok(found)) = report else { continue };
        for row in found.rows {
            // A damaged message has no sender, and an empty body.
            let written = rows.get(&row.delivery.number).map(|row| &row.message);
            assert!(row.message.sender == 0 || Some(&row.message) == written, "{what}: {row:?}");
        }
    }
    !remarks.is_empty()
}

#[test]
fn flipped_bit_in_any_page_delivers_no_wrong_body() {
    const FLIPS: usize = 8;
    let (folder, world) = small();
    let bytes = fs::read(folder.path()).unwrap();
    assert_eq!(folder.files(""), ["relay.db"]);
    let intact = Folder::new();
    folder.copy_to(&intact);
    let intact = intact.image();
    assert!(intact.messages.len() > 20 && intact.notices.len() > 20);
    let mut damaged = 0;
    for page in 0..bytes.len() / PAGE {
        for n in 0..FLIPS {
            let at = page * PAGE + n * (PAGE / FLIPS) + (page * 37 + n * 101) % (PAGE / FLIPS);
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (n % 8);
            let copy = with(&folder, "relay.db", &flipped);
            let what = format!("a bit at {at}");
            damaged += usize::from(check_content(copy.open(), &intact, &world, &what));
        }
    }
    eprintln!("{damaged} of {} were noticed", bytes.len() / PAGE * FLIPS);
    assert!(damaged > bytes.len() / PAGE, "{damaged}");
}

#[test]
fn flipped_bit_in_any_page_of_the_log_keeps_whole_groups() {
    let (folder, mut world) = small();
    let crashed = Folder::new();
    let mut images = vec![world.oracle.image()];
    let mut jobs = Vec::new();
    for group in 0..4 {
        let changes = (0..20).map(|n| world.change((n * 5 + group) as u8, n * n * group)).collect();
        jobs.extend([write(changes), end_group()]);
        images.push(world.oracle.image());
    }
    // After the last group the store is idle, and may empty the log before it answers the query.
    run_with(folder.open().store, jobs, |report| {
        if matches!(report, Report::Persisted(_)) {
            folder.copy_to(&crashed);
        }
    });
    let log = fs::read(crashed.0.join("relay.db-wal")).unwrap();
    let frames = (log.len() - LOG_HEADER) / (FRAME_HEADER + PAGE);
    assert!(frames > 20, "{frames} pages in the log");
    let same_time = |mut image: Image, known: &Image| {
        image.clock = known.clock;
        image == *known
    };
    let whole = crashed.image();
    assert!(same_time(whole, &images[4]), "all groups are in the log");
    let frame = |number: usize| LOG_HEADER + number * (FRAME_HEADER + PAGE);
    let places = (0..frames).flat_map(|number| {
        [frame(number) + number % FRAME_HEADER, frame(number) + FRAME_HEADER + number * 97 % PAGE]
    });
    for at in (0..LOG_HEADER).step_by(5).chain(places) {
        let mut flipped = log.clone();
        flipped[at] ^= 1 << (at % 8);
        let image = with(&crashed, "relay.db-wal", &flipped).image();
        assert!(images.iter().any(|known| same_time(image.clone(), known)), "a bit at {at}");
    }
}

#[test]
fn cut_database_is_set_aside() {
    let (folder, _) = small();
    let bytes = fs::read(folder.path()).unwrap();
    let half = bytes.len() / 2;
    for length in [1, 15, 99, 100, PAGE - 1, PAGE, PAGE + 1, half, half + 1, bytes.len() - PAGE] {
        let copy = with(&folder, "relay.db", &bytes[..length]);
        let opened = copy.open();
        assert!(opened.image == Image::default(), "{length} bytes");
        let [remark] = &opened.remarks[..] else { panic!("{length}: {:?}", opened.remarks) };
        assert!(remark.contains("relay.db.damaged-"), "{length}: {remark}");
        let aside = copy.files("relay.db.damaged-");
        assert!(fs::read(copy.0.join(&aside[0])).unwrap() == bytes[..length], "{length} bytes");
    }
}

#[test]
fn empty_database_is_reported() {
    let folder = Folder::new();
    fs::write(folder.path(), "").unwrap();
    let opened = folder.open();
    assert!(opened.image == Image::default());
    assert_eq!(
        opened.remarks,
        [format!(
            "{} was empty, perhaps because the first start was cut short; a new one is begun",
            folder.path().display()
        )]
    );
    drop(opened);
    assert!(folder.open().remarks.is_empty(), "reported once");
}

/// A folder with the files of a killed store, whose last messages are only in the log.
fn killed(folder: &Folder, world: &mut World) -> Folder {
    let killed = Folder::new();
    let mut more = Vec::new();
    for _ in 0..30 {
        more.push(Change::Accepted(Box::new(world.accepted(1, &[2], None, "last"))));
        world.oracle.apply(&more[more.len() - 1]);
    }
    run_with(folder.open().store, vec![write(more)], |_| folder.copy_to(&killed));
    killed
}

#[test]
fn log_without_its_database_is_set_aside() {
    let (folder, mut world) = small();
    let killed = killed(&folder, &mut world);
    let log = fs::read(killed.0.join("relay.db-wal")).unwrap();
    assert!(log.len() > PAGE);
    for has_database in [true, false] {
        let left = with(&killed, "relay.db", b"");
        if !has_database {
            fs::remove_file(left.path()).unwrap();
        }
        let opened = left.open();
        assert!(opened.image == Image::default());
        let [remark] = &opened.remarks[..] else { panic!("{:?}", opened.remarks) };
        assert!(remark.contains("it is empty, and its log is not"), "{remark}");
        let aside = left.files("relay.db.damaged-");
        let kept = aside.iter().find(|name| name.ends_with("-wal")).expect("the log is kept");
        assert_eq!(fs::read(left.0.join(kept)).unwrap(), log);
    }
}

/// SQLite applies a log of another database, or of a later state of the same one.
#[test]
fn log_of_another_database_delivers_no_wrong_body() {
    let (folder, ours) = small();
    let (mut other, mut theirs) = (Folder::new(), World::default());
    let (mut later, mut our_later) = (Folder::new(), ours.clone());
    folder.copy_to(&later);
    for round in 0..8 {
        for (base, world) in [(&mut other, &mut theirs), (&mut later, &mut our_later)] {
            let mut last = world.clone();
            let killed = killed(base, &mut last);
            let log = fs::read(killed.0.join("relay.db-wal")).unwrap();
            let image = with(&folder, "relay.db-wal", &log).image();
            for delivery in image.deliveries.values() {
                let is_written = |world: &World| {
                    let row = world.oracle.rows.get(&delivery.number);
                    row.is_some_and(|row| {
                        row.delivery.stream == delivery.stream
                            && row.message == image.messages[&delivery.message]
                    })
                };
                assert!(is_written(&ours) || is_written(&last), "{round}: {delivery:?}");
            }
            let next = Folder::new();
            base.copy_to(&next);
            let some = (0..30).map(|n| world.change(n, u64::from(n) * (round + 1))).collect();
            next.run(vec![write(some)]);
            *base = next;
        }
    }
}

#[test]
fn directory_in_place_of_the_database_is_refused_in_one_line() {
    let folder = Folder::new();
    fs::create_dir(folder.path()).unwrap();
    let error = open_with(folder.settings()).unwrap_err().to_string();
    assert!(error.starts_with("cannot open the store ") && error.contains("relay.db"), "{error}");
    assert_eq!(error.lines().count(), 1);
    assert_eq!(folder.files(""), ["relay.db"]);
}
