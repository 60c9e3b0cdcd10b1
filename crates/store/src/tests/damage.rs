//! Tests of files that are damaged, foreign or of another version when a store opens them.

use super::{
    super::{
        self as store, Report, Store, file,
        schema::{self, Prepared, STEPS, Schema, Step},
    },
    folder::{Folder, NOW, NOW_MS, RunningStore, answers, clock, query, run, write},
    world::World,
};
use protocol::{
    code::NackCode,
    record::{Change, Ending, Filter, NoticeRecord, Query},
};
use std::fs;

/// The names and contents of all files in a folder.
fn files(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let all = folder.files("").into_iter();
    all.map(|name| (name.clone(), fs::read(folder.0.join(&name)).unwrap())).collect()
}

#[track_caller]
fn assert_set_aside(folder: &Folder, why: &str) {
    let before = files(folder);
    let error = store::examine(&folder.path()).unwrap_err().to_string();
    assert!(error.contains("the next start sets it aside"), "{error}");
    assert!(files(folder) == before, "examining changes nothing");
    let bytes = fs::read(folder.path()).unwrap();
    let opened = folder.open();
    assert_eq!(opened.image, Default::default());
    let [remark] = &opened.remarks[..] else { panic!("{:?}", opened.remarks) };
    assert!(
        remark.contains(why) && remark.contains("relay.db.damaged-20251120T090000Z"),
        "{remark}"
    );
    assert_eq!(fs::read(folder.0.join("relay.db.damaged-20251120T090000Z")).unwrap(), bytes);
    drop(opened);
    assert!(folder.open().remarks.is_empty(), "the new file is good");
}

/// A folder with a store of 200 messages.
fn folder_with_messages() -> Folder {
    let folder = Folder::new();
    let mut world = World::default();
    let accepted =
        (0..200).map(|_| Change::Accepted(Box::new(world.accepted(1, &[2], None, "here I am"))));
    folder.run(vec![write(accepted.collect())]);
    folder
}

#[test]
fn file_that_is_not_our_database_is_set_aside() {
    let folder = Folder::new();
    fs::write(folder.path(), "no database at all, but longer than its header would be".repeat(90))
        .unwrap();
    assert_set_aside(&folder, "not a database");

    let folder = Folder::new();
    let other = rusqlite::Connection::open(folder.path()).unwrap();
    other.execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    other.close().unwrap();
    assert_set_aside(&folder, "other program");

    let folder = folder_with_messages();
    let ours = rusqlite::Connection::open(folder.path()).unwrap();
    ours.execute_batch("DROP TABLE stream").unwrap();
    ours.close().unwrap();
    assert_set_aside(&folder, "`stream` is missing");

    let folder = folder_with_messages();
    let ours = rusqlite::Connection::open(folder.path()).unwrap();
    ours.execute_batch("ALTER TABLE agent DROP COLUMN forget_at").unwrap();
    ours.close().unwrap();
    assert_set_aside(&folder, "no such column");

    let folder = folder_with_messages();
    let ours = rusqlite::Connection::open(folder.path()).unwrap();
    ours.execute_batch("UPDATE delivery SET name = 'no name' WHERE number = 7").unwrap();
    ours.close().unwrap();
    assert_set_aside(&folder, "an invalid name");
}

#[test]
fn examining_a_sound_file_changes_nothing() {
    let folder = folder_with_messages();
    let before = files(&folder);
    assert_eq!(before.len(), 1, "the closed store left no log");
    store::examine(&folder.path()).unwrap();
    assert!(files(&folder) == before, "the file does not change");

    // The state after a crash: all but the beginning is in the log.
    let crashed = Folder::new();
    let opened = folder.open();
    let mut world = World::default();
    let more = Change::Accepted(Box::new(world.accepted(1, &[2], None, "and I")));
    super::folder::run_with(opened.store, vec![write(vec![more])], |_| folder.copy_to(&crashed));
    let before = files(&crashed);
    assert!(before.iter().any(|(name, log)| name.ends_with("-wal") && !log.is_empty()), "a log");
    store::examine(&crashed.path()).unwrap();
    assert!(files(&crashed) == before, "the log does not change");
    assert!(crashed.image().messages.len() >= 200, "the log's messages are read");

    let newer = rusqlite::Connection::open(folder.path()).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    newer.close().unwrap();
    let error = store::examine(&folder.path()).unwrap_err().to_string();
    assert!(error.contains("schema 99, this one knows 5"), "{error}");
}

#[test]
fn corrupt_pages_are_detected() {
    let folder = folder_with_messages();
    let mut bytes = fs::read(folder.path()).unwrap();
    // The first page has the schema.
    bytes[4096..].fill(0x5a);
    fs::write(folder.path(), bytes).unwrap();
    assert_set_aside(&folder, "malformed");
}

#[test]
fn message_that_changed_on_the_disk_becomes_a_dead_letter() {
    let folder = folder_with_messages();
    let ours = rusqlite::Connection::open(folder.path()).unwrap();
    let change = "UPDATE message SET
        shared = CAST(replace(CAST(shared AS TEXT), 'here', 'Here') AS BLOB) WHERE number = 7";
    ours.execute_batch(change).unwrap();
    ours.close().unwrap();
    let opened = folder.open();
    assert_eq!((opened.image.messages.len(), opened.image.deliveries.len()), (199, 199));
    assert_eq!(opened.image.dead_letters.len(), 1);
    assert_eq!(opened.remarks, ["1 deliveries with damaged messages are dead letters now"]);
    let dead = Filter { dead: true, limit: 9, bytes_max: 9_999, ..Filter::default() };
    let answers = answers(run(opened.store, vec![query(1, Query::List(dead))]));
    let [row] = &answers[0].rows[..] else { panic!("{answers:?}") };
    assert!(
        !String::from_utf8_lossy(&row.message.shared).contains("Here"),
        "the damaged text is not shown"
    );
    let Some((Ending::Dead { code: NackCode::StoreFailed, why }, NOW_MS)) = &row.ended else {
        panic!("{row:?}")
    };
    assert!(why.contains("damaged"), "{why}");
}

#[test]
fn damage_that_a_query_meets_is_reported_once() {
    let folder = folder_with_messages();
    let ended = |delivery| {
        let ending = Ending::Acknowledged;
        Change::Ended { delivery, ending, unix_ms: NOW_MS }
    };
    folder.run(vec![write((1..=50).map(ended).collect())]);
    folder.open().store.0.sweep_all(NOW);
    let ours = rusqlite::Connection::open(folder.path()).unwrap();
    let change = "UPDATE history SET seq = 9 WHERE number IN (7, 8);
        UPDATE message SET shared = x'00' WHERE number = 9;
        UPDATE history SET name = 'no name' WHERE number = 20";
    ours.execute_batch(change).unwrap();
    ours.close().unwrap();
    let opened = folder.open();
    assert!(opened.remarks.is_empty(), "a start does not read the history");
    let live = RunningStore::start(opened.store);
    let mut met = Vec::new();
    for before in [8, 8, 10, 21, 21] {
        let before = Some(before);
        live.ask(
            1,
            Query::List(Filter { before, limit: 9, bytes_max: 9_999, ..Filter::default() }),
        );
        loop {
            match live.next() {
                Report::Damaged(why) => met.push(why),
                Report::Answer(..) => break,
                other => panic!("{other:?}"),
            }
        }
    }
    live.end();
    let store = folder.path().display().to_string();
    let what = ["delivery 7", "delivery 9 and 1 more", "it contains an invalid name"];
    let expected = what
        .map(|what| format!("a query found damage in the store {store}: {what}; check the disk"));
    assert_eq!(met, expected);
}

#[test]
fn delivery_that_names_anothers_message_becomes_a_dead_letter() {
    for change in ["message = 8", "stream = 101", "recipient = 1", "name = 'Ann'", "seq = 9"] {
        let folder = folder_with_messages();
        let ours = rusqlite::Connection::open(folder.path()).unwrap();
        ours.execute_batch(&format!("UPDATE delivery SET {change} WHERE number = 7")).unwrap();
        ours.close().unwrap();
        let opened = folder.open();
        assert!(!opened.image.deliveries.contains_key(&7), "{change}");
        assert_eq!(opened.image.deliveries.len(), 199, "{change}");
        assert_eq!(opened.image.dead_letters.len(), 1, "{change}");
        assert_eq!(opened.remarks, ["1 deliveries with damaged messages are dead letters now"]);
        let dead = Filter { dead: true, limit: 9, bytes_max: 9_999, ..Filter::default() };
        let mut store = opened.store;
        store.0.sweep_all(NOW);
        let answers = answers(run(store, vec![query(1, Query::List(dead))]));
        let [row] = &answers[0].rows[..] else { panic!("{answers:?}") };
        assert_eq!(row.message.sender, 0, "{change}: the text of another is not shown");
        let image = folder.image();
        assert_eq!(image.messages.len(), 199, "{change}: the message without a delivery is gone");
        assert!(folder.open().remarks.is_empty(), "reported once");
    }
}

#[test]
fn ids_of_damaged_deliveries_leave_their_index() {
    const OTHER_ID: &str = "00000000-0000-0000-0000-000000000009";
    let change_id =
        format!("UPDATE delivery SET id = x'{}' WHERE number = 7", &OTHER_ID.replace('-', ""));
    let other_message = "UPDATE delivery SET message = 8 WHERE number = 7";
    let no_message = "DELETE FROM message WHERE number = 7";
    let other_send = "UPDATE message SET send_id = 'm-x' WHERE number = 7";
    for (change, found_as) in [
        (&*change_id, [None, Some(7), None, None]),
        (other_message, [Some(7), None, None, None]),
        (no_message, [Some(7), None, None, None]),
        (other_send, [Some(7), None, None, Some(7)]),
    ] {
        let folder = folder_with_messages();
        folder.open().store.0.sweep_all(NOW);
        let id = folder.image().deliveries[&7].id.to_string();
        let ours = rusqlite::Connection::open(folder.path()).unwrap();
        ours.execute_batch(change).unwrap();
        ours.close().unwrap();
        drop(folder.open());
        let ours = rusqlite::Connection::open(folder.path()).unwrap();
        let rows = "SELECT count(*) FROM lookup WHERE delivery = 7";
        let rows: u32 = ours.query_row(rows, [], |row| row.get(0)).unwrap();
        ours.close().unwrap();
        assert_eq!(rows as usize, found_as.iter().flatten().count(), "{change}");
        for stage in ["dead", "in the history"] {
            let ids = [&id, OTHER_ID, "m-7", "m-x", "m-8"];
            let jobs = (1..).zip(ids).map(|(number, id)| query(number, Query::Id(id.into())));
            let answers = answers(run(folder.open().store, jobs.collect()));
            let numbers: Vec<_> = answers
                .iter()
                .map(|found| found.rows.first().map(|row| row.delivery.number))
                .collect();
            assert_eq!(numbers, [&found_as[..], &[Some(8)]].concat(), "{stage}: {change}");
            folder.open().store.0.sweep_all(NOW);
        }
    }
}

#[test]
fn damaged_notices_are_deleted_and_others_kept() {
    let folder = folder_with_messages();
    let notice = |number| {
        let frame = b"....{\"v\":1}".as_slice().into();
        Change::Notice(Box::new(NoticeRecord { number, agent: 1, frame }))
    };
    folder.run(vec![write((1..=4).map(notice).collect())]);
    let ours = rusqlite::Connection::open(folder.path()).unwrap();
    ours.execute_batch(
        "UPDATE answer SET frame = x'00' WHERE number = 2; UPDATE answer SET agent = 2 WHERE number = 3;
         UPDATE answer SET number = -1 WHERE number = 4",
    )
    .unwrap();
    ours.close().unwrap();
    let opened = folder.open();
    assert_eq!(opened.image.notices.into_keys().collect::<Vec<_>>(), [1]);
    assert_eq!(opened.image.messages.len(), 200);
    assert_eq!(opened.remarks, ["3 damaged notices to senders that were away are deleted"]);
    drop(opened.store);
    assert!(folder.open().remarks.is_empty(), "reported once");
}

/// Statements that turn a file of one version into one of the version before.
const BACK_TO_4: &str = include_str!("../../data/back_to_4.sql");
const BACK_TO_3: &str = include_str!("../../data/back_to_3.sql");
const BACK_TO_2: &str = include_str!("../../data/back_to_2.sql");
const BACK_TO_1: &str = include_str!("../../data/back_to_1.sql");

#[test]
fn file_of_version_2_is_migrated_with_its_history() {
    let folder = folder_with_messages();
    let ended = |delivery| {
        let ending = Ending::Acknowledged;
        Change::Ended { delivery, ending, unix_ms: NOW_MS - 5_000 }
    };
    folder.run(vec![write((1..=50).map(ended).collect())]);
    folder.open().store.0.sweep_all(NOW);
    let before = folder.image();
    let old = rusqlite::Connection::open(folder.path()).unwrap();
    let columns = "number, checksum, moved, holder, bytes";
    let rows = |database: &rusqlite::Connection| -> Vec<(i64, u32, i64, String, i64)> {
        let sql = format!("SELECT {columns} FROM history ORDER BY number");
        let mut statement = database.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        });
        rows.unwrap().map(Result::unwrap).collect()
    };
    let mut expected = rows(&old);
    assert_eq!(expected.len(), 50);
    expected.iter_mut().for_each(|row| row.2 = NOW.0 as i64 - 5_000);
    for back in [BACK_TO_4, BACK_TO_3, BACK_TO_2] {
        old.execute_batch(back).unwrap();
    }
    old.close().unwrap();
    let opened = folder.open();
    assert_eq!(opened.image, before);
    drop(opened);
    assert_eq!(rows(&rusqlite::Connection::open(folder.path()).unwrap()), expected);
}

#[test]
fn file_of_version_3_is_migrated_and_its_ids_are_listed() {
    let folder = folder_with_messages();
    folder.open().store.0.sweep_all(NOW);
    let before = folder.image();
    let file = || rusqlite::Connection::open(folder.path()).unwrap();
    let listed = || -> u32 {
        file().query_row("SELECT count(*) FROM lookup", [], |row| row.get(0)).unwrap()
    };
    let expected = listed();
    assert!(expected >= 200, "{expected}");
    file().execute_batch(BACK_TO_4).unwrap();
    file().execute_batch(BACK_TO_3).unwrap();
    let mut opened = folder.open();
    assert_eq!(opened.image, before);
    assert!(opened.remarks[0].contains("relay.db.before-v3"), "{:?}", opened.remarks);
    opened.store.0.sweep_all(NOW);
    drop(opened);
    assert_eq!(listed(), expected);
}

#[test]
fn file_of_version_1_is_migrated_with_its_content() {
    let folder = Folder::new();
    let mut world = World::default();
    // The kinds of change that version 1 had.
    let kinds = [0, 1, 3, 4, 5, 7, 8, 9, 10, 13];
    let changes = (0..300).map(|n| world.change(kinds[n as usize % 10], n * n)).collect();
    world.oracle.clock = clock(0);
    folder.run(vec![write(changes)]);
    let old = rusqlite::Connection::open(folder.path()).unwrap();
    for back in [BACK_TO_4, BACK_TO_3, BACK_TO_2, BACK_TO_1] {
        old.execute_batch(back).unwrap();
    }
    old.close().unwrap();

    // No version before 5 had these.
    world.oracle.agents.values_mut().for_each(|agent| agent.guest_key = None);
    world.oracle.sessions.values_mut().for_each(|session| session.former = None);
    let opened = folder.open();
    assert_eq!(opened.image, world.oracle.image());
    let copy = folder.0.join("relay.db.before-v1");
    let remark = format!(
        "{} was of an older version; it is copied to {} and migrated",
        folder.path().display(),
        copy.display()
    );
    assert_eq!(opened.remarks, [remark]);
    platform::paths::check_private(&copy).unwrap();
    let frame = b"a frame".as_slice().into();
    let notice = NoticeRecord { number: 1, agent: 1, frame };
    run(opened.store, vec![write(vec![Change::Notice(Box::new(notice.clone()))])]);
    let again = folder.open();
    assert!(again.remarks.is_empty(), "{:?}", again.remarks);
    assert_eq!(again.image.notices[&1], notice);
    assert_eq!(folder.files("relay.db.before"), ["relay.db.before-v1"]);
}

const NOTE: &str =
    "CREATE TABLE note (text TEXT NOT NULL) STRICT; INSERT INTO note VALUES ('moved')";

/// A version after the current one.
const NEXT: Schema = Schema {
    version: 6,
    create: "",
    tables: &["agent", "note"],
    steps: &[STEPS[0], STEPS[1], STEPS[2], STEPS[3], Step::sql(NOTE)],
};

#[test]
fn older_file_is_copied_and_migrated_and_newer_one_refused() {
    let folder = folder_with_messages();
    let before = folder.image();
    let mut connection = file::connect(&folder.settings()).unwrap();
    let prepared = schema::prepare(&mut connection, &folder.path(), &NEXT).unwrap();
    let copy = folder.0.join("relay.db.before-v5");
    assert_eq!(prepared, Prepared::Migrated(copy.display().to_string()));
    platform::paths::check_private(&copy).unwrap();
    let text: String = connection.query_row("SELECT text FROM note", [], |row| row.get(0)).unwrap();
    assert_eq!(text, "moved");
    let again = schema::prepare(&mut connection, &folder.path(), &NEXT).unwrap();
    assert_eq!(again, Prepared::Current);
    file::close(connection).unwrap();

    let error = Store::open(folder.settings(), NOW_MS).unwrap_err().to_string();
    assert!(error.contains("schema 6, this one knows 5"), "{error}");
    assert!(folder.files("relay.db.damaged").is_empty(), "the newer file is not set aside");

    fs::rename(&copy, folder.path()).unwrap();
    assert_eq!(folder.image(), before, "the copy is complete");
}

#[test]
fn failed_migration_changes_nothing() {
    let folder = folder_with_messages();
    let before = folder.image();
    const BROKEN: Step = Step::sql("CREATE TABLE note (text TEXT); nonsense");
    let broken = Schema { steps: &[STEPS[0], STEPS[1], STEPS[2], STEPS[3], BROKEN], ..NEXT };
    let mut connection = file::connect(&folder.settings()).unwrap();
    schema::prepare(&mut connection, &folder.path(), &broken).unwrap_err();
    file::close(connection).unwrap();
    assert_eq!(folder.image(), before);
}
