//! Tests of files that are damaged, foreign or of another version when a store opens them.

use super::{
    super::{
        self as store, Store, file,
        schema::{self, Prepared, Schema},
        write::Writer,
    },
    folder::{Folder, NOW_MS, answers, clock, run, write},
    world::World,
};
use crate::protocol::code::NackCode;
use crate::record::{Change, Ending, Filter, LastNumbers, NoticeRecord, Query};
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
    assert!(error.contains("schema 99, this one knows 2"), "{error}");
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
    let answers = answers(run(opened.store, vec![super::Job::Query(1, Query::List(dead))]));
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

/// The schema before version 2.
const VERSION_1: Schema = Schema {
    version: 1,
    create: schema::CREATE,
    tables: &["agent", "delivery", "message"],
    steps: &[],
};

#[test]
fn file_of_version_1_is_migrated_with_its_content() {
    let folder = Folder::new();
    let mut connection = file::connect(&folder.settings()).unwrap();
    schema::prepare(&mut connection, &folder.path(), &VERSION_1).unwrap();
    let mut world = World::default();
    let mut writer = Writer::new(&connection, LastNumbers::default()).unwrap();
    for n in 0..300 {
        // The kinds of change that version 1 had.
        writer
            .apply(&world.change([0, 1, 3, 4, 5, 7, 8, 9, 10, 13][n as usize % 10], n * n))
            .unwrap();
    }
    world.oracle.clock = clock(7);
    writer.finish(clock(7)).unwrap();
    file::close(connection).unwrap();

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

/// A version after the current one.
const NEXT: Schema = Schema {
    version: 3,
    create: "",
    tables: &["agent", "note"],
    steps: &[
        schema::NOTICES,
        "CREATE TABLE note (text TEXT NOT NULL) STRICT; INSERT INTO note VALUES ('moved')",
    ],
};

#[test]
fn older_file_is_copied_and_migrated_and_newer_one_refused() {
    let folder = folder_with_messages();
    let before = folder.image();
    let mut connection = file::connect(&folder.settings()).unwrap();
    let prepared = schema::prepare(&mut connection, &folder.path(), &NEXT).unwrap();
    let copy = folder.0.join("relay.db.before-v2");
    assert_eq!(prepared, Prepared::Migrated(copy.display().to_string()));
    platform::paths::check_private(&copy).unwrap();
    let text: String = connection.query_row("SELECT text FROM note", [], |row| row.get(0)).unwrap();
    assert_eq!(text, "moved");
    let again = schema::prepare(&mut connection, &folder.path(), &NEXT).unwrap();
    assert_eq!(again, Prepared::Current);
    file::close(connection).unwrap();

    let error = Store::open(folder.settings(), NOW_MS).unwrap_err().to_string();
    assert!(error.contains("schema 3, this one knows 2"), "{error}");
    assert!(folder.files("relay.db.damaged").is_empty(), "the newer file is not set aside");

    fs::rename(&copy, folder.path()).unwrap();
    assert_eq!(folder.image(), before, "the copy is complete");
}

#[test]
fn failed_migration_changes_nothing() {
    let folder = folder_with_messages();
    let before = folder.image();
    let broken = Schema { steps: &["", "CREATE TABLE note (text TEXT); nonsense"], ..NEXT };
    let mut connection = file::connect(&folder.settings()).unwrap();
    schema::prepare(&mut connection, &folder.path(), &broken).unwrap_err();
    file::close(connection).unwrap();
    assert_eq!(folder.image(), before);
}
