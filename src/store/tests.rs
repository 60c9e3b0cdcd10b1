//! The store against its oracle, and against everything that goes wrong.

mod damage;
mod faults;
mod history;
mod place;
mod world;

use super::{Job, Report, row};
use crate::record::Change;
use place::{DAY_MS, Folder, clock, cut, keep, run};
use proptest::prelude::*;
use world::World;

#[test]
fn a_new_store_is_empty_and_its_files_are_private() {
    let folder = Folder::new();
    let opened = folder.open();
    assert_eq!(opened.image, Default::default());
    assert!(opened.remarks.is_empty());
    platform::paths::check_private(&folder.path()).unwrap();
    let reports = run(opened.store, vec![keep(World::default().some(40))]);
    assert_eq!(reports, [Report::Kept(40)]);
    assert_eq!(folder.files(""), ["relay.db"], "the log is gone once the store is closed");
}

#[test]
fn the_clock_goes_on_though_nothing_changes() {
    let folder = Folder::new();
    let tell = |ms| Job::Keep { changes: Vec::new(), clock: clock(ms) };
    let nothing = vec![Change::SessionEnded { agent: 1 }];
    // A query ends a group.
    let jobs = vec![keep(nothing), cut(), tell(1), cut(), tell(40 * DAY_MS), cut()];
    let kept: Vec<_> =
        folder.run(jobs).into_iter().filter(|it| !matches!(it, Report::Found(..))).collect();
    assert_eq!(kept, [Report::Kept(1)]);
    assert_eq!(folder.image().clock, clock(40 * DAY_MS));
}

#[test]
fn the_library_is_free_of_the_bug_that_could_reset_a_log() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[test]
fn a_store_is_open_in_one_process_only() {
    let folder = Folder::new();
    let _first = folder.open();
    let error = super::Store::open(folder.settings(), 0).unwrap_err().to_string();
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
    fn what_was_kept_is_read_back(
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
                jobs.extend([Job::Keep { changes: group, clock: clock(at as u64) }, cut()]);
            }
            let reports = folder.run(jobs);
            let kept = |report| if let Report::Kept(count) = report { count } else { 0 };
            prop_assert_eq!(reports.into_iter().map(kept).sum::<u64>(), changes);
            prop_assert_eq!(folder.image(), world.oracle.image());
        }
    }

    #[test]
    fn reading_a_row_never_panics(
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
        let _ = (row::message(row).is_ok(), row::delivery(row).is_ok(), row::double(row).is_ok());
        let _ = (row::agent(row).is_ok(), row::session(row).is_ok(), row::stream(row).is_ok());
        let _ = (row::answer(row).is_ok(), row::question(row).is_ok());
    }
}
