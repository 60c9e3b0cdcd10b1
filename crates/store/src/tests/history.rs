//! Tests of ended deliveries: found, redelivered and deleted.

use super::{
    super::{Job, Report, Settings, Store, words},
    folder::{DAY_MS, Folder, NOW, NOW_MS, answers, clock, open_with, query, run, write},
    world::{World, name},
};
use proptest::prelude::*;
use protocol::{
    Moment,
    code::NackCode,
    name::Name,
    record::{Change, DeliveryRow, Ending, Filter, NamedAgent, Query, QueryResult},
};
use std::fs;

fn any() -> Filter {
    Filter { limit: 1_000, bytes_max: 1 << 20, ..Filter::default() }
}

/// The deliveries that the oracle finds.
fn expected(world: &World, filter: &Filter) -> Vec<u64> {
    let rows = world.oracle.rows.iter().rev();
    rows.filter(|(_, row)| is_wanted(filter, row)).map(|(number, _)| *number).collect()
}

fn is_wanted(filter: &Filter, row: &DeliveryRow) -> bool {
    let shared = String::from_utf8(row.message.shared.to_vec()).unwrap();
    let (from, to) = (name(row.message.sender), &row.delivery.to_name);
    let is_own = |number| [row.message.sender, row.delivery.to].contains(&number);
    let is_under = |(name, number): (&Name, Option<u64>)| {
        (*name == from || name == to) && number.is_none_or(is_own)
    };
    let has = |wanted: &Option<NamedAgent>| {
        wanted.as_ref().is_none_or(|agent| agent.names().any(is_under))
    };
    let topic = |topic: &String| shared.contains(&format!("\"topic\":\"{topic}\""));
    let text = |text: &String| shared.to_lowercase().contains(text);
    has(&filter.of)
        && has(&filter.with)
        && filter.viewer.is_none_or(is_own)
        && filter.topic.as_ref().is_none_or(topic)
        && filter.search.as_ref().is_none_or(text)
        && (!filter.dead || matches!(row.ended, Some((Ending::Dead { .. }, _))))
        && filter.before.is_none_or(|before| row.delivery.number < before)
}

fn ask(store: Store, queries: &[Query]) -> Vec<QueryResult> {
    let jobs = (1..).zip(queries).map(|(number, asked)| query(number, asked.clone()));
    answers(run(store, jobs.collect()))
}

fn numbers(found: &QueryResult) -> Vec<u64> {
    found.rows.iter().map(|row| row.delivery.number).collect()
}

fn filters() -> impl Strategy<Value = Filter> {
    let agent = || prop::option::of((0..5_u64).prop_map(name));
    // The earlier names may be those of other agents now.
    let earlier = prop::collection::vec((0..5_u64).prop_map(name), 0..3);
    let word = |words: &'static [&str]| {
        prop::option::weighted(0.3, prop::sample::select(words).prop_map(str::to_owned))
    };
    let topic = word(&["build.done", "other"]);
    let search = word(&["well", "is", "nothing"]);
    let (before, viewer) = (prop::option::of(1..30_u64), prop::option::weighted(0.3, 0..5_u64));
    let of = (agent(), 0..6_u64, earlier);
    (of, agent(), viewer, topic, search, any_bool(), before).prop_map(
        |((of, number, earlier), with, viewer, topic, search, dead, before)| Filter {
            // With the same agent twice, the filter would ask for its messages to itself.
            with: with
                .filter(|with| of.as_ref() != Some(with) && !earlier.contains(with))
                .map(Into::into),
            of: of.map(|name| NamedAgent { name, number, earlier }),
            viewer,
            topic,
            search,
            dead,
            before,
            ..any()
        },
    )
}

fn any_bool() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn queries_find_the_same_before_and_after_a_sweep(
        kinds in prop::collection::vec((0..9_u8, 0..1_u64 << 40), 1..60),
        later in prop::collection::vec((3..9_u8, 0..1_u64 << 40), 0..20),
        filters in prop::collection::vec(filters(), 6),
    ) {
        let folder = Folder::new();
        let mut world = World::default();
        world.oracle.clock = clock(0);
        let changes = |kinds: Vec<(u8, u64)>, world: &mut World| {
            vec![write(kinds.into_iter().map(|(kind, pick)| world.change(kind, pick)).collect())]
        };
        folder.run(changes(kinds, &mut world));
        let queries: Vec<_> = filters.iter().cloned().map(Query::List).collect();
        let check = |world: &World| {
            prop_assert_eq!(folder.image(), world.oracle.image());
            for (filter, found) in filters.iter().zip(ask(folder.open().store, &queries)) {
                prop_assert_eq!(numbers(&found), expected(world, filter), "{:?}", filter);
                for row in &found.rows {
                    prop_assert_eq!(row, &world.oracle.rows[&row.delivery.number]);
                }
            }
            Ok(())
        };
        check(&world)?;
        folder.open().store.0.sweep_all(NOW);
        check(&world)?;
        folder.check_counts();
        // Dead letters in the history are redelivered or acknowledged.
        folder.run(changes(later, &mut world));
        check(&world)?;
        folder.check_counts();
        // Ended deliveries are deleted, open ones stay.
        folder.open().store.0.sweep_all(NOW);
        folder.open().store.0.sweep_all(Moment(u64::MAX / 2));
        let mut image = world.oracle.image();
        image.dead_letters.clear();
        prop_assert_eq!(folder.image(), image);
        folder.check_counts();
    }
}

/// Stores ended messages from Ann to Bob.
fn fill(folder: &Folder, bodies: &[&str]) -> World {
    let mut world = World::default();
    let mut changes = Vec::new();
    for (at, body) in bodies.iter().enumerate() {
        changes.push(Change::Accepted(Box::new(world.accepted(1, &[2], None, body))));
        let ending = if at % 2 == 0 {
            Ending::Acknowledged
        } else {
            Ending::Dead { code: NackCode::GaveUp, why: "ten times".into() }
        };
        changes.push(Change::Ended { delivery: at as u64 + 1, ending, unix_ms: NOW_MS });
    }
    changes.iter().for_each(|change| world.oracle.apply(change));
    folder.run(vec![write(changes)]);
    world
}

#[test]
fn search_ignores_punctuation_and_query_syntax() {
    let folder = Folder::new();
    fill(&folder, &["Der Käse ist alle", "foo-bar baz", "say OR NOT", "1234 \\\"quoted\\\""]);
    folder.open().store.0.sweep_all(NOW);
    for (words, numbers_found) in [
        ("kase ALLE", &[1][..]),
        ("baz foo-bar", &[2]),
        ("bar-foo", &[]),
        ("or not", &[3]),
        ("\"quoted\"", &[4]),
        ("body:foo*", &[]),
        ("\u{0}1234\u{0}", &[4]),
        ("!!", &[]),
        ("", &[]),
        ("\u{1F600} \u{345}", &[]),
    ] {
        let filter = Filter { search: Some(words.to_owned()), ..any() };
        let found = ask(folder.open().store, &[Query::List(filter)]);
        assert_eq!(numbers(&found[0]), numbers_found, "{words:?}");
    }
}

#[test]
fn search_finds_parts_of_words_in_any_language() {
    let folder = Folder::new();
    let bodies = ["完成部署了", "서버가 멈췄다", "Überlauf im Puffer", "the end"];
    let mut world = fill(&folder, &bodies);
    let found = |store: Store| -> Vec<Vec<u64>> {
        let words = ["部署", "署", "서버", "서", "UBERLAUF puff", "uberl", "e e", "p xyz"];
        let search = |word: &&str| Filter { search: Some((*word).to_owned()), ..any() };
        let queries = words.iter().map(|word| Query::List(search(word))).collect::<Vec<_>>();
        ask(store, &queries).iter().map(numbers).collect()
    };
    let expected = [&[1][..], &[1], &[2], &[2], &[3], &[3], &[4, 3], &[]];
    assert_eq!(found(folder.open().store), expected, "and the index is begun");
    let late = bodies.map(|body| world.accepted(1, &[2], None, body));
    let late = late.map(|accepted| Change::Accepted(Box::new(accepted)));
    folder.run(vec![write(late.to_vec())]);
    let expected = expected.map(|own| -> Vec<u64> {
        own.iter().map(|number| number + 4).chain(own.iter().copied()).collect()
    });
    assert_eq!(found(folder.open().store), expected, "half is not indexed yet");
    folder.open().store.0.sweep_all(NOW);
    assert_eq!(found(folder.open().store), expected, "all is indexed");
}

#[test]
fn long_texts_are_found_and_not_indexed() {
    let long = "ab c".repeat(words::INDEXED_BYTES_MAX / 4);
    // The sign becomes 18 characters in the index.
    let grows = "\u{fdfa}".repeat(words::INDEXED_BYTES_MAX / 4);
    let bodies = [long.clone() + "d", long + "needle", grows + " needle", "Needle".to_owned()];
    let folder = Folder::new();
    fill(&folder, &bodies.each_ref().map(String::as_str));
    let found = |words: &str| {
        let search = Filter { search: Some(words.to_owned()), ..any() };
        numbers(&ask(folder.open().store, &[Query::List(search)])[0])
    };
    assert_eq!(found("needle"), [4, 3, 2], "the index is begun");
    folder.open().store.0.sweep_all(NOW);
    let database = rusqlite::Connection::open(folder.path()).unwrap();
    let sql = "SELECT sum(length(block)) FROM words_data";
    let bytes: u32 = database.query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(bytes < 1_024, "{bytes} bytes");
    // On Windows its lock would keep the store out.
    drop(database);
    for (words, expected) in
        [("needle", &[4, 3, 2][..]), ("needle ab", &[2]), ("\u{1}\u{1}\u{1}", &[]), ("lost", &[])]
    {
        assert_eq!(found(words), expected, "{words}");
    }
}

#[test]
fn pages_are_consecutive_and_within_their_limits() {
    let folder = Folder::new();
    fill(&folder, &["page"; 25]);
    let mut seen = Vec::new();
    let mut filter = Filter { limit: 4, ..any() };
    loop {
        let found = ask(folder.open().store, &[Query::List(filter.clone())]).remove(0);
        seen.extend(numbers(&found));
        filter.before = seen.last().copied();
        assert!(found.rows.len() <= 4);
        if !found.more {
            break;
        }
        if seen.len() == 12 {
            folder.open().store.0.sweep_all(NOW);
        }
    }
    assert_eq!(seen, (1..=25).rev().collect::<Vec<_>>());
    let small = Filter { bytes_max: 1, ..any() };
    let found = ask(folder.open().store, &[Query::List(small)]).remove(0);
    assert_eq!((numbers(&found), found.more), (vec![25], true), "at least one row");
}

#[test]
fn query_by_id_finds_a_deliver_or_all_of_a_send() {
    let folder = Folder::new();
    let mut world = World::default();
    let accepted = Change::Accepted(Box::new(world.accepted(1, &[2, 3], None, "to two")));
    let ended = Change::Ended { delivery: 1, ending: Ending::Acknowledged, unix_ms: NOW_MS };
    folder.run(vec![write(vec![accepted, ended])]);
    let deliver = folder.image().deliveries[&2].id.to_string();
    let (short, odd) = (deliver[..8].to_owned(), deliver[..11].to_uppercase());
    let (too_short, other) = (deliver[..3].to_owned(), "ffffffff".to_owned());
    let ids = [deliver, "m-1".to_owned(), "m-2".to_owned(), short, odd, too_short, other];
    let queries = ids.map(Query::Id);
    let expected = [vec![2], vec![2, 1], vec![], vec![2], vec![2], vec![], vec![]];
    let found = ask(folder.open().store, &queries);
    assert_eq!(found.iter().map(numbers).collect::<Vec<_>>(), expected);
}

#[test]
fn old_history_is_deleted_with_its_messages_and_words() {
    let folder = Folder::new();
    fill(&folder, &["old"; 300]);
    folder.open().store.0.sweep_all(NOW);
    folder.open().store.0.sweep_all(NOW.plus(7 * DAY_MS));
    assert_eq!(ask(folder.open().store, &[Query::List(any())])[0].rows.len(), 300);
    folder.open().store.0.sweep_all(NOW.plus(7 * DAY_MS + 1));
    assert_eq!(ask(folder.open().store, &[Query::List(any())])[0], QueryResult::default());
    assert!(folder.image().dead_letters.is_empty());
    let database = rusqlite::Connection::open(folder.path()).unwrap();
    for table in ["message", "words", "delivery"] {
        let count = format!("SELECT count(*) FROM {table}");
        let count: u32 = database.query_row(&count, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 0, "{table}");
    }
}

#[test]
fn deleted_texts_and_words_leave_the_files() {
    let folder = Folder::new();
    let contains = |word: &str| {
        let files = ["relay.db", "relay.db-wal"].map(|name| fs::read(folder.0.join(name)));
        files.iter().flatten().any(|bytes| {
            bytes.to_ascii_lowercase().windows(word.len()).any(|it| it == word.as_bytes())
        })
    };
    let mut world = World::default();
    let mut ended = |day: u64, bodies: &[&str]| {
        let mut changes = Vec::new();
        for body in bodies {
            let accepted = world.accepted(1, &[2], None, body);
            let delivery = accepted.deliveries[0].number;
            changes.push(Change::Accepted(Box::new(accepted)));
            let ending = Ending::Acknowledged;
            changes.push(Change::Ended { delivery, ending, unix_ms: NOW_MS });
        }
        folder.run(vec![Job::Write { changes, clock: clock(day * DAY_MS) }]);
    };
    let long = format!("quokka {}", "wombat ".repeat(2_000));
    ended(0, &["numbat one", "numbat two", &long]);
    let search = |word: &str| Query::List(Filter { search: Some(word.to_owned()), ..any() });
    assert_eq!(numbers(&ask(folder.open().store, &[search("numbat")])[0]), [2, 1]);
    ended(7, &["bilby one", "bilby two"]);
    folder.open().store.0.sweep_all(NOW.plus(7 * DAY_MS));
    for word in ["numbat", "quokka", "wombat", "bilby"] {
        assert!(contains(word), "{word}");
    }
    let mut store = folder.open().store;
    let later = NOW.plus(7 * DAY_MS + 1);
    // The log is not emptied while a query reads it, and is later.
    let other = store.0.open_reader();
    if let Some(other) = &other {
        other.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
        store.0.sweep_steps(later, 200);
        assert!(contains("numbat"));
    }
    drop(other);
    store.0.sweep_all(later);
    for word in ["numbat", "quokka", "wombat"] {
        assert!(!contains(word), "{word}");
    }
    let found = ask(store, &["numbat", "bilby"].map(search));
    assert_eq!(found.iter().map(numbers).collect::<Vec<_>>(), [vec![], vec![5, 4]]);
}

#[test]
fn erased_deliveries_leave_no_message_and_no_words() {
    let folder = Folder::new();
    let mut world = World::default();
    let accepted = Change::Accepted(Box::new(world.accepted(1, &[2, 3], None, "secret words")));
    folder.run(vec![write(vec![accepted])]);
    let erased = |delivery| Change::Ended { delivery, ending: Ending::Erased, unix_ms: NOW_MS };
    let left = |expected: &[u64]| {
        let filter = Filter { search: Some("secret".to_owned()), ..any() };
        let found = ask(folder.open().store, &[Query::List(filter)]);
        assert_eq!(numbers(&found[0]), expected);
        folder.check_counts();
    };
    left(&[2, 1]);
    folder.run(vec![write(vec![erased(1)])]);
    left(&[2]);
    folder.run(vec![write(vec![erased(2)])]);
    left(&[]);
    folder.open().store.0.sweep_all(NOW);
    for file in ["relay.db", "relay.db-wal"] {
        let bytes = fs::read(folder.0.join(file)).unwrap_or_default();
        assert!(!bytes.windows(6).any(|it| it == b"secret"), "{file}");
    }
    let database = rusqlite::Connection::open(folder.path()).unwrap();
    for table in ["message", "words", "delivery"] {
        let count = format!("SELECT count(*) FROM {table}");
        let count: u32 = database.query_row(&count, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 0, "{table}");
    }
}

#[test]
fn step_of_the_wall_clock_removes_nothing() {
    let folder = Folder::new();
    fill(&folder, &["young"; 20]);
    let mut store = folder.open().store;
    store.0.sweep_all(NOW);
    store.0.set_wall_clock(NOW_MS + 8 * DAY_MS);
    store.0.sweep_all(NOW.plus(3_600_000));
    assert_eq!(ask(store, &[Query::List(any())])[0].rows.len(), 20);
    assert_eq!(folder.image().dead_letters.len(), 10);
}

#[test]
fn principal_with_most_of_the_history_makes_room() {
    let folder = Folder::new();
    let settings = || Settings { bytes_max: 512 * 4096, ..folder.settings() };
    let mut world = World::default();
    let mut send = |from, count, body: &str| {
        let mut changes = Vec::new();
        for _ in 0..count {
            let accepted = world.accepted(from, &[2], None, body);
            let delivery = accepted.deliveries[0].number;
            changes.push(Change::Accepted(Box::new(accepted)));
            let ending = Ending::Acknowledged;
            changes.push(Change::Ended { delivery, ending, unix_ms: NOW_MS });
        }
        let mut store = open_with(settings()).unwrap().store;
        store.0.sweep_all(NOW);
        assert_eq!(run(store, vec![write(changes)]), [Report::Persisted(2 * count)]);
    };
    // The first message is the oldest, and its sender holds little.
    send(1, 1, "from Ann");
    for _ in 0..30 {
        send(3, 20, &"x".repeat(3_000));
    }
    let mut store = open_with(settings()).unwrap().store;
    store.0.sweep_all(NOW);
    let found = &ask(store, &[Query::List(Filter { bytes_max: 8 << 20, ..any() })])[0];
    assert!((100..500).contains(&found.rows.len()), "{} fit", found.rows.len());
    assert_eq!(found.rows.last().unwrap().delivery.number, 1, "Ann's is kept");
    folder.check_counts();
}

#[test]
fn guests_are_one_principal() {
    let folder = Folder::new();
    let mut world = World::default();
    let mut changes = Vec::new();
    for (delivery, from) in (1..).zip([4, 4, 1]) {
        changes.push(Change::Accepted(Box::new(world.accepted(from, &[2], None, "hi"))));
        let ending = Ending::Acknowledged;
        changes.push(Change::Ended { delivery, ending, unix_ms: NOW_MS });
    }
    folder.run(vec![write(changes)]);
    folder.open().store.0.sweep_all(NOW);
    let database = rusqlite::Connection::open(folder.path()).unwrap();
    let mut holders = database.prepare("SELECT name FROM holder ORDER BY bytes").unwrap();
    let holders = holders.query_map([], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(holders.map(Result::unwrap).collect::<Vec<_>>(), ["bob", "@guest"]);
}

#[test]
fn latest_dedup_records_and_those_of_open_messages_are_kept() {
    let folder = Folder::new();
    let settings = || Settings { dedup_max: 10, ..folder.settings() };
    let mut world = World::default();
    let mut changes = Vec::new();
    for delivery in 1..=800 {
        changes.push(Change::Accepted(Box::new(world.accepted(1, &[2], None, "repeated"))));
        if delivery > 3 {
            let ending = Ending::Acknowledged;
            changes.push(Change::Ended { delivery, ending, unix_ms: NOW_MS });
        }
    }
    changes.push(Change::Accepted(Box::new(world.accepted(3, &[2], None, "another's"))));
    let count = changes.len() as u64;
    let store = open_with(settings()).unwrap().store;
    assert_eq!(run(store, vec![write(changes)]), [Report::Persisted(count)]);
    open_with(settings()).unwrap().store.0.sweep_all(NOW);
    let dedup: Vec<u64> = folder.image().dedup.into_keys().collect();
    assert_eq!(dedup, [1, 2, 3].into_iter().chain(791..=801).collect::<Vec<_>>());
}

#[test]
fn id_of_several_senders_finds_the_viewers_own() {
    let folder = Folder::new();
    let mut world = World::default();
    let changes = [(1, 2), (3, 2)].map(|(from, to)| {
        let mut accepted = world.accepted(from, &[to], None, "hi");
        accepted.message.send_id = "abcd-1".into();
        Change::Accepted(Box::new(accepted))
    });
    folder.run(vec![write(changes.to_vec())]);
    let check = || {
        for (viewer, expected) in [(1, &[1][..]), (3, &[2]), (2, &[2, 1]), (9, &[2])] {
            for id in ["abcd-1", "abcd"] {
                let found = ask(folder.open().store, &[Query::OwnId(id.to_owned(), viewer)]);
                assert_eq!(numbers(&found[0]), expected, "{id} for {viewer}");
            }
        }
    };
    check();
    let ended =
        |delivery| Change::Ended { delivery, ending: Ending::Acknowledged, unix_ms: NOW_MS };
    folder.run(vec![write(vec![ended(1), ended(2)])]);
    folder.open().store.0.sweep_all(NOW);
    check();
}
