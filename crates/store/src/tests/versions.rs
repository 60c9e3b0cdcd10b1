//! Tests of files of other versions: older ones are taken over or migrated, newer ones refused.

use super::{
    super::{
        Progress, Store,
        error::StoreError,
        fault::FaultPoint,
        file, row,
        schema::{self, FIRST, Prepared, Schema},
    },
    damage::folder_with_messages,
    folder::{
        Folder, NOW_MS, RunningStore, answers, clock, end_group, open_with, query, run, write,
    },
    queries::rows_of,
    world::{World, name},
};
use protocol::{
    code::NackCode,
    record::{AcceptedSend, AgentRecord, Change, Ending, NoticeRecord, Query},
};
use rusqlite::{Connection, Row};
use std::fs;

/// Statements that turn a file of one version into one of the version before.
const BACK: [&str; 5] = [
    include_str!("../../data/back_to_1.sql"),
    include_str!("../../data/back_to_2.sql"),
    include_str!("../../data/back_to_3.sql"),
    include_str!("../../data/back_to_4.sql"),
    include_str!("../../data/back_to_5.sql"),
];

/// Turns a folder's file into one of an older version.
fn make_older(folder: &Folder, version: usize) {
    let file = Connection::open(folder.path()).unwrap();
    file.execute_batch(BACK[4]).unwrap();
    forget_messages(&file, "delivery");
    forget_messages(&file, "history");
    for back in BACK[version - 1..4].iter().rev() {
        file.execute_batch(back).unwrap();
    }
    file.close().unwrap();
}

/// Computes the checksums of deliveries as version 5 did: without those of their messages.
fn forget_messages(file: &Connection, table: &str) {
    let mut select = file.prepare(&format!("SELECT {} FROM {table}", row::DELIVERY)).unwrap();
    let mut update =
        file.prepare(&format!("UPDATE {table} SET checksum = ?2 WHERE number = ?1")).unwrap();
    let checksum = |row: &Row<'_>| {
        let delivery = row::read_delivery(row).unwrap();
        Ok((delivery.number.cast_signed(), row::delivery_checksum(&delivery, None)))
    };
    let checksums: Vec<_> = select.query_map([], checksum).unwrap().map(Result::unwrap).collect();
    for values in checksums {
        update.execute(values).unwrap();
    }
}

/// A folder with messages, some of which are over: acknowledged, dead, or dead and sent again.
fn folder_with_history() -> (Folder, World) {
    let (folder, mut world) = (Folder::new(), World::default());
    world.oracle.clock = clock(0);
    // The kinds of change that version 1 had.
    let kinds = [0, 1, 3, 4, 5, 7, 8, 9, 10, 13, 14];
    let changes = (0..600).map(|n| world.change(kinds[n as usize % 11], n * n)).collect();
    folder.run(vec![write(changes)]);
    (folder, world)
}

/// All rows of a folder's deliveries, as text.
fn rows(folder: &Folder) -> Vec<String> {
    let file = Connection::open(folder.path()).unwrap();
    let columns = "number, message, stream, recipient, name, seq, hex(id), expires, attempts,
        failures, ending, ended_ms, coalesce(code, '-'), coalesce(why, '-'), checksum,
        sender_name, coalesce(topic, '-'), iif(ending = 0, 0, ended)";
    let sql = format!("SELECT concat_ws(' ', {columns}) FROM delivery ORDER BY number");
    let mut statement = file.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn older_file_is_taken_over_and_kept() {
    for version in 1..=5 {
        let (folder, mut world) = folder_with_history();
        let expected = rows(&folder);
        assert!(expected.len() > 100, "{}", expected.len());
        make_older(&folder, version);
        let before = fs::read(folder.path()).unwrap();
        // No version before 7 had these.
        world.oracle.agents.values_mut().for_each(|agent| agent.earlier.clear());
        if version < 5 {
            // No version before 5 had these.
            world.oracle.agents.values_mut().for_each(|agent| agent.guest_key = None);
            world.oracle.sessions.values_mut().for_each(|session| session.former = None);
        }
        let opened = folder.open();
        assert_eq!(opened.image, world.oracle.image(), "version {version}");
        let kept = folder.0.join(format!("relay.db.before-v{version}"));
        let remark = format!(
            "{} was of an older version, which is kept as {}",
            folder.path().display(),
            kept.display()
        );
        assert_eq!(opened.remarks, [remark]);
        platform::paths::check_private(&kept).unwrap();
        platform::paths::check_private(&folder.path()).unwrap();
        assert!(fs::read(&kept).unwrap() == before, "version {version}");
        drop(opened);
        let found = rows(&folder);
        assert_eq!(found.len(), expected.len(), "version {version}");
        for (now, then) in found.iter().zip(&expected) {
            // Version 2 had no moments of ends: they are found by the wall clock.
            let ends = if version < 3 { 1 } else { 0 };
            let same = |row: &str| row.rsplitn(ends + 1, ' ').last().map(str::to_owned);
            assert_eq!(same(now), same(then), "version {version}");
        }
        folder.check_counts();
        let notice = NoticeRecord { number: 1, agent: 1, frame: b"a frame".as_slice().into() };
        run(folder.open().store, vec![write(vec![Change::Notice(Box::new(notice.clone()))])]);
        let again = folder.open();
        assert!(again.remarks.is_empty(), "{:?}", again.remarks);
        assert_eq!(again.image.notices[&1], notice);
        let kept = format!("relay.db.before-v{version}");
        run(again.store, vec![end_group()]);
        assert_eq!(folder.files(""), ["relay.db".to_owned(), kept]);
    }
}

#[test]
fn deliveries_of_an_older_file_are_found_by_their_ids_until_they_are_deleted() {
    let folder = folder_with_messages();
    let ending = Ending::Dead { code: NackCode::Expired, why: "late".into() };
    folder.run(vec![write(vec![Change::Ended { delivery: 7, ending, unix_ms: NOW_MS }])]);
    let file = Connection::open(folder.path()).unwrap();
    file.execute_batch("UPDATE delivery SET id = randomblob(16) WHERE number = 7").unwrap();
    let id: [u8; 16] =
        file.query_row("SELECT id FROM delivery WHERE number = 7", [], |row| row.get(0)).unwrap();
    file.close().unwrap();
    let id = uuid::Uuid::from_bytes(id).to_string();
    let find = || -> Vec<Vec<u64>> {
        let ids = [&id, &id[..8], &id[..11], "m-7"];
        let jobs = (1..).zip(ids).map(|(number, id)| query(number, Query::Id(id.to_owned())));
        let answers = answers(run(folder.open().store, jobs.collect()));
        let numbers = |found: &protocol::record::QueryResult| {
            found.rows.iter().map(|row| row.delivery.number).collect()
        };
        answers.iter().map(numbers).collect()
    };
    assert_eq!(find(), [vec![], vec![], vec![], vec![7]], "the id has another form");
    make_older(&folder, 5);
    assert_eq!(find(), vec![vec![7]; 4]);
    folder.run(vec![write(vec![Change::Ended {
        delivery: 7,
        ending: Ending::Erased,
        unix_ms: NOW_MS,
    }])]);
    assert_eq!(find(), vec![Vec::<u64>::new(); 4]);
}

#[test]
fn damaged_rows_of_the_history_are_left_out_of_a_takeover() {
    let (folder, world) = folder_with_history();
    make_older(&folder, 5);
    let file = Connection::open(folder.path()).unwrap();
    let ended: Vec<i64> = file
        .prepare("SELECT number FROM history ORDER BY number LIMIT 3")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let not_utf8 = "UPDATE history SET why = CAST(x'ff' AS TEXT) WHERE number = ?";
    file.execute(not_utf8, [ended[0]]).unwrap();
    file.execute("UPDATE history SET expires = x'00' WHERE number = ?", [ended[1]]).unwrap_err();
    file.execute("UPDATE history SET number = 1000000 WHERE number = ?", [ended[2]]).unwrap();
    file.close().unwrap();
    let opened = folder.open();
    assert!(opened.image.deliveries == world.oracle.image().deliveries);
    let [damaged, kept] = &opened.remarks[..] else { panic!("{:?}", opened.remarks) };
    assert!(damaged.starts_with("1 ended deliveries and messages of "), "{damaged}");
    assert!(kept.contains("is kept as"), "{kept}");
}

#[test]
fn ids_of_an_older_file_are_found_after_its_file_was_lost() {
    let folder = folder_with_messages();
    let file = Connection::open(folder.path()).unwrap();
    file.execute_batch("UPDATE delivery SET id = randomblob(16)").unwrap();
    file.close().unwrap();
    make_older(&folder, 5);
    let opened = folder.open();
    let image = opened.image.clone();
    let live = RunningStore::start(opened.store);
    live.faults.set(Some((FaultPoint::Commit, || StoreError::Damaged("lost".to_owned()))));
    live.write(vec![Change::SessionEnded { agent: 1 }]);
    live.faults.set(None);
    let again = image.deliveries.values().map(|delivery| {
        let message = image.messages[&delivery.message].clone();
        let dedup = image.dedup[&message.number].clone();
        let deliveries = vec![delivery.clone()];
        Change::AcceptedAgain(Box::new(AcceptedSend { message, deliveries, dedup }))
    });
    live.write(again.collect());
    for delivery in image.deliveries.values().take(3) {
        let rows = rows_of(&live, Query::Id(delivery.id.to_string()));
        assert_eq!(rows.len(), 1, "{}", delivery.id);
    }
    live.end();
}

#[test]
fn takeover_that_was_cut_short_goes_on() {
    let (folder, world) = folder_with_history();
    make_older(&folder, 5);
    let taken_over = Folder::new();
    folder.copy_to(&taken_over);
    drop(taken_over.open());
    let new = fs::read(taken_over.path()).unwrap();
    let write_as = |folder: &Folder, suffix: &str, bytes: &[u8]| {
        fs::write(folder.0.join(format!("relay.db{suffix}")), bytes).unwrap();
    };
    // A part of the new file, the whole of it next to the older one, which may have changed since,
    // and the older one already renamed.
    for (name, bytes) in [(".taking-over", &new[..9_000]), (".of-v5", &new[..]), ("", &new[..])] {
        let cut = Folder::new();
        folder.copy_to(&cut);
        if name.is_empty() {
            fs::rename(cut.path(), cut.0.join("relay.db.before-v5")).unwrap();
            write_as(&cut, ".of-v5", bytes);
        } else {
            write_as(&cut, name, bytes);
        }
        let opened = cut.open();
        let kept = format!("kept as {}", cut.0.join("relay.db.before-v5").display());
        assert!(opened.remarks[0].ends_with(&kept), "{name}: {:?}", opened.remarks);
        assert!(opened.image == world.oracle.image(), "{name}");
        run(opened.store, vec![end_group()]);
        let again = cut.open();
        assert!(again.remarks.is_empty(), "{name}");
        run(again.store, vec![end_group()]);
        let older = cut.files("relay.db.before-v5");
        assert!(cut.files("").len() == 2 && older.len() == 1, "{name}: {:?}", cut.files(""));
    }
}

#[test]
fn takeover_that_cannot_write_changes_nothing() {
    let folder = folder_with_messages();
    let before = folder.image();
    make_older(&folder, 5);
    let old = fs::read(folder.path()).unwrap();
    // Nothing can be written where a directory is.
    let draft = folder.0.join("relay.db.taking-over");
    fs::create_dir(&draft).unwrap();
    let error = open_with(folder.settings()).unwrap_err().to_string();
    assert!(error.contains("relay.db"), "{error}");
    assert!(fs::read(folder.path()).unwrap() == old && folder.files("relay.db.").len() == 1);
    fs::remove_dir(draft).unwrap();
    assert_eq!(folder.image(), before);
}

#[test]
fn takeover_tells_how_far_it_is() {
    let folder = Folder::new();
    let mut world = World::default();
    let accepted = |_| Change::Accepted(Box::new(world.accepted(1, &[2], None, "hi")));
    folder.run(vec![write((0..5_000).map(accepted).collect())]);
    make_older(&folder, 5);
    let mut reports = Vec::new();
    drop(Store::open(folder.settings(), NOW_MS, &mut |progress| reports.push(progress)).unwrap());
    // The last reports are before the new file is committed, synced, and has its name.
    let expected = [0, 4_096, 8_192, 12_288, 15_000, 15_000, 15_000];
    assert_eq!(reports, expected.map(|done| Progress { done, all: 15_000 }));
}

const NOTE: &str =
    "CREATE TABLE note (text TEXT NOT NULL) STRICT; INSERT INTO note VALUES ('moved')";

/// A version after the current one.
const NEXT: Schema =
    Schema { version: FIRST + 2, create: "", tables: &["agent", "note"], steps: &["", NOTE] };

#[test]
fn file_without_earlier_names_gets_room_for_them() {
    let folder = Folder::new();
    let agent = AgentRecord {
        number: 7,
        name: name(2),
        since_unix_ms: 1,
        forget_at: None,
        guest_key: None,
        earlier: Vec::new(),
    };
    let store = |agent: &AgentRecord| vec![write(vec![Change::Agent(Box::new(agent.clone()))])];
    folder.run(store(&agent));
    let file = Connection::open(folder.path()).unwrap();
    file.execute_batch("ALTER TABLE agent DROP COLUMN earlier; PRAGMA user_version = 6").unwrap();
    file.close().unwrap();
    let opened = folder.open();
    assert_eq!(opened.image.agents[&7], agent);
    let kept = folder.0.join("relay.db.before-v6");
    assert!(opened.remarks[0].ends_with(&format!("kept as {}", kept.display())), "{opened:?}");
    let renamed = AgentRecord { name: name(3), earlier: vec![name(1), name(2)], ..agent };
    run(opened.store, store(&renamed));
    assert_eq!(folder.image().agents[&7], renamed);
}

#[test]
fn older_file_is_copied_and_migrated_and_newer_one_refused() {
    let folder = folder_with_messages();
    let before = folder.image();
    let mut connection = file::connect(&folder.settings()).unwrap();
    let prepared = schema::prepare(&mut connection, &folder.path(), &NEXT).unwrap();
    let copy = folder.0.join("relay.db.before-v7");
    assert_eq!(prepared, Prepared::Migrated(copy.clone()));
    platform::paths::check_private(&copy).unwrap();
    let text: String = connection.query_row("SELECT text FROM note", [], |row| row.get(0)).unwrap();
    assert_eq!(text, "moved");
    let again = schema::prepare(&mut connection, &folder.path(), &NEXT).unwrap();
    assert_eq!(again, Prepared::Current);
    file::close(connection).unwrap();

    let error = open_with(folder.settings()).unwrap_err().to_string();
    assert!(error.contains("schema 8, this one knows 7"), "{error}");
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
