//! Tests of files that are removed or replaced while the store has them open.
//!
//! Windows refuses to remove or rename an open file, so a test ends early if that fails.

use super::{
    super::{
        Report, Settings,
        error::StoreError,
        fault::{Fault, FaultPoint},
    },
    folder::{Claimed, Folder, NOW_MS, RunningStore, open_with},
    queries::{all, rows_of},
    world::World,
};
use protocol::record::{Change, Ending};
use std::{fs, io, path::Path, sync::Arc};

/// A change to the files of an open store, with the suffixes of the files that it replaces.
type Tampering = (fn(&Folder) -> io::Result<()>, &'static [&'static str]);

const TAMPERING: [Tampering; 6] = [
    (|folder| fs::remove_file(folder.0.join("relay.db-wal")), &[]),
    (|folder| fs::remove_file(folder.path()), &[]),
    (|folder| remove_all(folder, "relay.db"), &[]),
    (|folder| replace(folder, "relay.db"), &[""]),
    (|folder| replace(folder, "relay.db-wal"), &["-wal"]),
    (
        |folder| replace(folder, "relay.db").and_then(|()| replace(folder, "relay.db-wal")),
        &["", "-wal"],
    ),
];

fn remove_all(folder: &Folder, prefix: &str) -> io::Result<()> {
    folder.files(prefix).iter().try_for_each(|name| fs::remove_file(folder.0.join(name)))
}

/// Moves a copy of a file over the file.
fn replace(folder: &Folder, name: &str) -> io::Result<()> {
    let copy = folder.0.join("copy");
    fs::copy(folder.0.join(name), &copy)?;
    fs::rename(copy, folder.0.join(name))
}

/// The changes of some messages: open, acknowledged, and a dead letter.
fn messages(world: &mut World, count: u64) -> Vec<Change> {
    let mut changes = Vec::new();
    for n in 0..count {
        let accepted = world.accepted(1, &[2], None, "hi");
        let delivery = accepted.deliveries[0].number;
        changes.push(Change::Accepted(Box::new(accepted)));
        if n % 2 == 0 {
            let ending = Ending::Acknowledged;
            changes.push(Change::Ended { delivery, ending, unix_ms: NOW_MS });
        }
    }
    changes.iter().for_each(|change| world.oracle.apply(change));
    changes
}

/// Copies what a killed daemon would leave.
fn killed(folder: &Folder) -> Folder {
    let copy = Folder::new();
    folder.copy_to(&copy);
    copy
}

#[test]
fn removed_or_replaced_files_are_saved_before_the_next_acceptance() {
    for (tamper, found) in TAMPERING {
        let folder = Folder::new();
        let mut world = World::default();
        let live = RunningStore::start(folder.open().store);
        live.write(messages(&mut world, 30));
        assert_eq!(rows_of(&live, all()).len(), 30, "the connection for queries is open");
        if tamper(&folder).is_err() {
            return;
        }
        let changes = messages(&mut world, 10);
        let count = changes.len() as u64;
        let (report, before) = live.write(changes);
        // A look in an idle moment may have come first.
        assert_eq!(report, Report::Persisted(count));
        let [Report::Saved(saved)] = &before[..] else { panic!("{before:?}") };
        assert!(saved.contains("relay.db were removed or replaced"), "{saved}");
        assert_eq!(saved.contains("relay.db.replaced-2025"), !found.is_empty(), "{saved}");
        let aside: Vec<String> =
            folder.files("relay.db.replaced").iter().map(|it| suffix(it).to_owned()).collect();
        assert_eq!(aside, found, "{saved}");
        let mut image = killed(&folder).image();
        image.clock = world.oracle.clock;
        assert_eq!(image, world.oracle.image());
        assert_eq!(rows_of(&live, all()).len(), 40, "queries read the new file");
        assert!(live.end().is_empty());
        folder.check_counts();
    }
}

/// The suffix of a file that was set aside, such as `-wal`.
fn suffix(name: &str) -> &str {
    name.split_once('Z').unwrap().1
}

#[test]
fn query_notices_a_replaced_file() {
    for (tamper, _) in TAMPERING {
        let folder = Folder::new();
        let mut world = World::default();
        let live = RunningStore::start(folder.open().store);
        live.write(messages(&mut world, 30));
        if tamper(&folder).is_err() {
            return;
        }
        live.ask(1, all());
        assert!(matches!(live.next(), Report::Saved(_)));
        let Report::Answer(1, Ok(found)) = live.next() else { panic!("no answer") };
        assert_eq!(found.rows.len(), 30);
        assert!(live.end().is_empty());
    }
}

#[test]
fn replaced_file_is_noticed_without_a_job() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    live.write(messages(&mut world, 30));
    if replace(&folder, "relay.db").is_err() {
        return;
    }
    assert!(matches!(live.next(), Report::Saved(_)));
    assert_eq!(killed(&folder).image().deliveries, world.oracle.image().deliveries);
    live.end();
}

#[test]
fn replaced_file_is_noticed_at_the_end() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    live.write(messages(&mut world, 30));
    if fs::remove_file(folder.0.join("relay.db-wal")).is_err() {
        return;
    }
    assert!(matches!(&live.end()[..], [Report::Saved(_)]));
    assert_eq!(folder.image().deliveries, world.oracle.image().deliveries);
}

#[test]
fn acceptance_waits_until_the_content_is_saved() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    live.write(messages(&mut world, 30));
    let full: Fault = (FaultPoint::Save, || StoreError::Io(io::ErrorKind::StorageFull.into()));
    live.faults.set(Some(full));
    if fs::remove_file(folder.0.join("relay.db-wal")).is_err() {
        return;
    }
    let mut refused = world.clone();
    let changes = messages(&mut refused, 1);
    let (report, before) = live.write(changes.clone());
    assert!(matches!(report, Report::Refused { count: 2, .. }), "{report:?}");
    assert!(matches!(&before[..], [Report::Health(Err(_))]), "{before:?}");
    let ended = Change::Ended { delivery: 2, ending: Ending::Acknowledged, unix_ms: NOW_MS };
    world.oracle.apply(&ended);
    assert!(matches!(live.write(vec![ended]).0, Report::Refused { count: 1, .. }));
    live.faults.set(None);
    assert!(matches!(live.next(), Report::Saved(_)));
    assert_eq!(live.next(), Report::Health(Ok(())));
    let mut image = killed(&folder).image();
    world.oracle.last = image.last;
    image.clock = world.oracle.clock;
    assert_eq!(image, world.oracle.image(), "the refused message is undone");
    assert!(live.end().is_empty());
    folder.check_counts();
}

#[test]
fn file_replaced_while_the_disk_fails_is_begun_anew() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    live.write(messages(&mut world, 30));
    live.faults.set(Some((FaultPoint::Commit, || io::Error::other("broken").into())));
    assert!(matches!(live.write(messages(&mut world, 1)).0, Report::Refused { .. }));
    if replace(&folder, "relay.db").is_err() {
        return;
    }
    live.faults.set(None);
    let lost = live.next();
    let Report::Lost(lost) = lost else { panic!("{lost:?}") };
    assert!(lost.contains("replaced") && lost.contains("relay.db.replaced-2025"), "{lost}");
    live.end();
}

#[test]
fn saved_file_without_its_name_is_adopted_at_the_start() {
    let folder = Folder::new();
    let mut world = World::default();
    let store = folder.open().store;
    let live = RunningStore::start(store);
    live.write(messages(&mut world, 30));
    live.end();
    fs::rename(folder.path(), folder.0.join("relay.db.saved")).unwrap();
    fs::write(folder.path(), "another file").unwrap();
    fs::write(folder.0.join("relay.db-wal"), "another log").unwrap();
    let opened = folder.open();
    assert_eq!(opened.image.deliveries, world.oracle.image().deliveries);
    let [remark] = &opened.remarks[..] else { panic!("{:?}", opened.remarks) };
    assert!(remark.contains("relay.db.replaced-20251120T090000Z"), "{remark}");
    let aside = fs::read(folder.0.join("relay.db.replaced-20251120T090000Z")).unwrap();
    assert_eq!(aside, b"another file");
    assert!(!Path::new(&folder.0.join("relay.db.saved")).exists());
}

/// Another process has the directory, and has begun a store of its own there.
#[test]
fn content_is_kept_elsewhere_at_the_end_at_once() {
    let folder = Folder::new();
    let mut world = World::default();
    let claim = Arc::new(Claimed(false));
    let opened = open_with(Settings { claim, ..folder.settings() }).unwrap();
    let live = RunningStore::start(opened.store);
    live.write(messages(&mut world, 3));
    if remove_all(&folder, "relay.db").is_err() {
        return;
    }
    let reports = live.end();
    let ousted = reports.iter().find_map(|report| match report {
        Report::Ousted(ousted) => Some(ousted),
        _ => None,
    });
    let kept = Path::new(ousted.expect("its content is elsewhere").rsplit(' ').next().unwrap());
    assert!(kept.exists(), "{reports:?}");
    fs::remove_dir_all(kept.parent().unwrap()).unwrap();
}

#[test]
fn content_is_kept_elsewhere_if_another_process_has_the_directory() {
    let folder = Folder::new();
    let mut world = World::default();
    let claim = Arc::new(Claimed(false));
    let opened = open_with(Settings { claim, ..folder.settings() }).unwrap();
    let live = RunningStore::start(opened.store);
    live.write(messages(&mut world, 30));
    if remove_all(&folder, "relay.db").is_err() {
        return;
    }
    fs::write(folder.path(), "of the other process").unwrap();
    // Another process may only try to get the directory.
    let Report::Health(Err(why)) = live.next() else { panic!("it is not looked for") };
    assert!(why.contains("another process has its directory"), "{why}");
    let Report::Ousted(ousted) = live.next() else { panic!("it stays") };
    let (report, before) = live.write(messages(&mut world.clone(), 1));
    assert!(matches!(report, Report::Refused { .. }), "{report:?}");
    assert_eq!(before, []);
    assert_eq!(live.end(), []);
    assert_eq!(fs::read_to_string(folder.path()).unwrap(), "of the other process");
    assert_eq!(folder.files("relay.db"), ["relay.db"]);
    let kept = Path::new(ousted.rsplit(' ').next().unwrap());
    assert_eq!(kept.file_name(), folder.path().file_name(), "{ousted}");
    let image = open_with(Settings { path: kept.to_owned(), ..folder.settings() });
    assert_eq!(image.unwrap().image.deliveries, world.oracle.image().deliveries);
    fs::remove_dir_all(kept.parent().unwrap()).unwrap();
}
