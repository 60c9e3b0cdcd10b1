//! Tests of files that are damaged or foreign when a store opens them.

use super::{
    super::{self as store, Report},
    folder::{Folder, NOW, NOW_MS, RunningStore, answers, query, run, write},
    world::{ID_KEY, World},
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
pub(super) fn folder_with_messages() -> Folder {
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
    ours.execute_batch("DROP INDEX delivery_sender").unwrap();
    ours.close().unwrap();
    assert_set_aside(&folder, "`delivery_sender` is missing");

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
    assert!(error.contains("schema 99, this one knows 7"), "{error}");
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
    let change = "UPDATE delivery SET seq = 9 WHERE number IN (7, 8);
        UPDATE message SET shared = x'00' WHERE number = 9;
        UPDATE delivery SET name = 'no name' WHERE number = 20";
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
        let ours = rusqlite::Connection::open(folder.path()).unwrap();
        let held = "SELECT count(*) FROM holder, delivery
            WHERE holder.name = lower(sender_name) AND holder.bytes = delivery.bytes
                AND ending <> 0 AND ended = ?";
        let held: u32 = ours.query_row(held, [NOW.0 as i64], |row| row.get(0)).unwrap();
        assert_eq!(held, 1, "{change}: it is charged, and ended at the start");
    }
}

#[test]
fn damaged_deliveries_are_found_by_the_ids_that_they_have() {
    let other_id = ID_KEY.id(7, [1; 16]).to_string();
    let change_id =
        format!("UPDATE delivery SET id = x'{}' WHERE number = 7", other_id.replace('-', ""));
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
        let id = folder.image().deliveries[&7].id.to_string();
        let ours = rusqlite::Connection::open(folder.path()).unwrap();
        ours.execute_batch(change).unwrap();
        ours.close().unwrap();
        assert_eq!(folder.open().remarks.len(), 1, "{change}");
        let ids = [&id, &other_id, "m-7", "m-x", "m-8"];
        let jobs = (1..).zip(ids).map(|(number, id)| query(number, Query::Id(id.into())));
        let answers = answers(run(folder.open().store, jobs.collect()));
        let numbers: Vec<_> =
            answers.iter().map(|found| found.rows.first().map(|row| row.delivery.number)).collect();
        assert_eq!(numbers, [&found_as[..], &[Some(8)]].concat(), "{change}");
    }
}

#[test]
fn damaged_index_of_open_deliveries_is_written_again() {
    let folder = folder_with_messages();
    let before = folder.image();
    let ours = rusqlite::Connection::open(folder.path()).unwrap();
    // A row that the index does not have, and one that it has although it is over.
    let (page, last): (u32, u32) = ours
        .query_row(
            "SELECT rootpage, (SELECT max(number) FROM delivery) FROM sqlite_schema
             WHERE name = 'delivery_open'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    ours.close().unwrap();
    let mut bytes = fs::read(folder.path()).unwrap();
    let leaf = &mut bytes[(page as usize - 1) * 4096..][..4096];
    assert_eq!((leaf[0], leaf[4]), (0x0a, last as u8), "a leaf with a cell for each delivery");
    leaf[4] -= 3;
    fs::write(folder.path(), bytes).unwrap();
    let opened = folder.open();
    assert_eq!(opened.image.deliveries, before.deliveries);
    let expected = "the index of open deliveries was damaged: 200 are there, 200 were";
    assert_eq!(opened.remarks, [expected]);
    drop(opened);
    assert!(folder.open().remarks.is_empty(), "reported once");
    folder.check_counts();
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
