//! Tests of the store: against its oracle, and with failing disks and damaged files.

mod corruption;
mod damage;
mod faults;
pub(super) mod folder;
mod history;
mod queries;
mod replaced;
mod versions;
mod world;

use super::{
    Job, Report,
    row::{self, Stored},
};
use folder::{DAY_MS, Folder, clock, end_group, run, write};
use proptest::prelude::*;
use protocol::{
    code::NackCode,
    payload::Durability,
    record::{
        AgentRecord, Change, DedupRecord, Ending, NoticeRecord, QuestionRecord, SessionRecord,
        StreamRecord,
    },
};
use world::World;

#[test]
fn new_store_is_empty_and_its_files_are_private() {
    let folder = Folder::new();
    let opened = folder.open();
    assert_eq!(opened.image, Default::default());
    assert!(opened.remarks.is_empty());
    platform::paths::check_private(&folder.path()).unwrap();
    let reports = run(opened.store, vec![write(World::default().some(40))]);
    assert_eq!(reports, [Report::Persisted(40)]);
    assert_eq!(folder.files(""), ["relay.db"], "the log is gone once the store is closed");
}

#[test]
fn clock_is_stored_without_changes() {
    let folder = Folder::new();
    let tell = |ms| Job::Write { changes: Vec::new(), clock: clock(ms) };
    let nothing = vec![Change::SessionEnded { agent: 1 }];
    // A query ends a group.
    let jobs =
        vec![write(nothing), end_group(), tell(1), end_group(), tell(40 * DAY_MS), end_group()];
    let persisted: Vec<_> =
        folder.run(jobs).into_iter().filter(|it| !matches!(it, Report::Answer(..))).collect();
    assert_eq!(persisted, [Report::Persisted(1)]);
    assert_eq!(folder.image().clock, clock(40 * DAY_MS));
}

#[test]
fn plain_ends_are_synced_with_the_next_other_change() {
    for (durability, never) in [(Durability::Disk, false), (Durability::Process, true)] {
        let folder = Folder::new();
        let settings = super::Settings { durability, ..folder.settings() };
        let mut store = folder::open_with(settings).unwrap().store.0;
        let mut world = World::default();
        let mut accepted = || Change::Accepted(Box::new(world.accepted(1, &[2], None, "hi")));
        let ended = |delivery, ending| Change::Ended { delivery, ending, unix_ms: 1 };
        let acknowledged = |delivery| ended(delivery, Ending::Acknowledged);
        let refused = Ending::Dead { code: NackCode::Refused, why: "no".into() };
        for (changes, syncs) in [
            (vec![accepted(), accepted(), accepted(), accepted()], true),
            (vec![acknowledged(1)], false),
            (vec![acknowledged(2), accepted()], true),
            (vec![acknowledged(3)], false),
            (vec![Change::Sync], true),
            (vec![ended(4, refused)], true),
            (vec![acknowledged(4)], false),
        ] {
            store.write_changes(changes.clone());
            assert_eq!(store.has_synced(), syncs && !never, "{durability:?}: {changes:?}");
        }
    }
}

#[test]
fn sqlite_is_free_of_the_wal_reset_bug() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[test]
fn store_that_another_program_has_open_is_not_opened() {
    let folder = Folder::new();
    folder.run(vec![write(World::default().some(40))]);
    let other = rusqlite::Connection::open(folder.path()).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE").unwrap();
    let error = folder::open_with(folder.settings()).unwrap_err().to_string();
    assert!(error.contains("relay.db") && error.contains("end the other program"), "{error}");
}

impl World {
    fn some(&mut self, count: u64) -> Vec<Change> {
        (0..count).map(|n| self.change((n * 9 % 14) as u8, n * n + n / 3)).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn persisted_changes_are_read_back(
        lives in prop::collection::vec(
            prop::collection::vec(
                prop::collection::vec((any::<u8>(), 0..1_u64 << 40), 1..12), 0..6), 1..4)
    ) {
        let folder = Folder::new();
        let mut world = World::default();
        for life in lives {
            let mut jobs = Vec::new();
            let mut changes = 0;
            for (at, group) in life.into_iter().enumerate() {
                let group: Vec<_> =
                    group.into_iter().map(|(kind, pick)| world.change(kind, pick)).collect();
                changes += group.len() as u64;
                world.oracle.clock = clock(at as u64);
                jobs.extend([Job::Write { changes: group, clock: clock(at as u64) }, end_group()]);
            }
            let reports = folder.run(jobs);
            let persisted = |report| if let Report::Persisted(count) = report { count } else { 0 };
            prop_assert_eq!(reports.into_iter().map(persisted).sum::<u64>(), changes);
            prop_assert_eq!(folder.image(), world.oracle.image());
        }
    }

    #[test]
    fn reading_any_row_never_panics(
        integers in prop::collection::vec(any::<i64>(), 4),
        text in ".{0,20}",
        blob in prop::collection::vec(any::<u8>(), 0..40),
        order in any::<u64>(),
    ) {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let value = |at: u64| match (order >> (2 * at)) & 3 {
            0 => rusqlite::types::Value::Integer(integers[at as usize % 4]),
            1 => text.clone().into(),
            2 => blob.clone().into(),
            _ => rusqlite::types::Value::Null,
        };
        let columns = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?";
        let mut statement = connection.prepare(&format!("SELECT {columns}")).unwrap();
        let mut rows = statement.query(rusqlite::params_from_iter((0..14).map(value))).unwrap();
        let row = rows.next().unwrap().unwrap();
        let _ = (row::read_message(row).is_ok(), row::read_delivery(row).is_ok());
        let _ = (row::read_ending(row).is_ok(), row::read_dead_letter(row).is_ok());
        let _ = (AgentRecord::read(row).is_ok(), SessionRecord::read(row).is_ok());
        let _ = (StreamRecord::read(row).is_ok(), DedupRecord::read(row).is_ok());
        let _ = (NoticeRecord::read(row).is_ok(), QuestionRecord::read(row).is_ok());
    }
}
