//! Tests of queries that run during the store's other work.

use super::{
    super::{
        Cancel, Report,
        active_query::ActiveQuery,
        error::StoreError,
        fault::{Fault, FaultPoint},
        file, query,
        row::IdForm,
        words,
    },
    folder::{self, DAY_MS, Folder, NOW, NOW_MS, RunningStore, answers, clock, run, write},
    world::World,
};
use crossbeam_channel::{Receiver, Sender, bounded};
use protocol::{
    code::NackCode,
    record::{Change, DeliveryRow, Ending, Filter, Query},
};
use rusqlite::{Connection, params_from_iter, types::Value};
use std::{
    fs, io,
    sync::LazyLock,
    time::{Duration, Instant},
};

/// The query for all deliveries.
pub(super) fn all() -> Query {
    Query::List(Filter { limit: 1_000, bytes_max: 1 << 24, ..Filter::default() })
}

/// The rows that a query finds.
pub(super) fn rows_of(live: &RunningStore, query: Query) -> Vec<DeliveryRow> {
    live.ask(7, query);
    let Report::Answer(7, Ok(found)) = live.next() else { panic!("no answer") };
    found.rows
}

fn message(world: &mut World, body: &str) -> Change {
    Change::Accepted(Box::new(world.accepted(1, &[2], None, body)))
}

/// A place where a slice waits, and then fails.
#[derive(Debug)]
struct Gate {
    open: (Sender<()>, Receiver<()>),
    reached: (Sender<()>, Receiver<()>),
}

impl Gate {
    fn new() -> Self {
        Self { open: bounded(1), reached: bounded(1) }
    }

    fn pass(&self) -> StoreError {
        self.reached.0.send(()).unwrap();
        self.open.1.recv().unwrap();
        broken()
    }

    /// Asks for all deliveries, and waits until the query is stuck in the gate. `pass` passes it.
    /// Returns what cancels the query.
    fn stick(&self, live: &RunningStore, pass: fn() -> StoreError) -> Cancel {
        live.faults.set(Some((FaultPoint::Query, pass)));
        let cancel = live.ask_cancellable(1, all());
        self.reached.1.recv().unwrap();
        live.faults.set(None);
        cancel
    }
}

/// The longest wait for what happens in the background.
const WATCHDOG: Duration = Duration::from_secs(60);

/// The reason why a test fails on Windows, where it has to be skipped.
const NO_READER: &str = "the system allows no second connection, so a stuck query would stop the \
                         store (ci/windows.skipped-tests lists the tests that need one)";

/// A store whose queries have a connection of their own.
fn store_with_reader(folder: &Folder) -> RunningStore {
    let store = folder.open().store;
    assert!(store.0.open_reader().is_some(), "{NO_READER}");
    RunningStore::start(store)
}

fn broken() -> StoreError {
    StoreError::Io(io::Error::other("the disk is broken"))
}

#[test]
fn query_that_is_stuck_delays_no_commit() {
    static GATE: LazyLock<Gate> = LazyLock::new(Gate::new);
    let folder = Folder::new();
    let mut world = World::default();
    let live = store_with_reader(&folder);
    live.write(vec![message(&mut world, "before")]);
    GATE.stick(&live, || GATE.pass());
    for _ in 0..20 {
        let (report, before) = live.write(vec![message(&mut world, "meanwhile")]);
        assert_eq!((report, before), (Report::Persisted(1), vec![]));
    }
    GATE.open.0.send(()).unwrap();
    let Report::Answer(1, Ok(found)) = live.next() else { panic!("no answer") };
    assert_eq!(found.rows.len(), 21, "the connection is opened again, and the query repeated");
    assert!(live.end().is_empty());
}

#[test]
fn stuck_query_does_not_stop_the_recovery_of_a_replaced_file() {
    static GATE: LazyLock<Gate> = LazyLock::new(Gate::new);
    let folder = Folder::new();
    let mut world = World::default();
    let live = store_with_reader(&folder);
    live.write(vec![message(&mut world, "before")]);
    GATE.stick(&live, || GATE.pass());
    fs::remove_file(folder.path()).unwrap();
    let (report, before) = live.write(vec![message(&mut world, "after")]);
    assert_eq!(report, Report::Persisted(1));
    assert!(matches!(&before[..], [Report::Saved(_)]), "{before:?}");
    GATE.open.0.send(()).unwrap();
    let Report::Answer(1, Ok(answer)) = live.next() else { panic!("no answer") };
    assert_eq!(answer.rows.len(), 2, "from the new file");
    assert_eq!(rows_of(&live, all()).len(), 2);
    assert!(live.end().is_empty());
}

#[test]
fn failing_disk_is_opened_again_only_without_a_reader() {
    static GATE: LazyLock<Gate> = LazyLock::new(Gate::new);
    let folder = Folder::new();
    let mut world = World::default();
    let live = store_with_reader(&folder);
    GATE.stick(&live, || GATE.pass());
    live.faults.set(Some((FaultPoint::Commit, broken)));
    let (report, _) = live.write(vec![message(&mut world, "refused")]);
    assert!(matches!(report, Report::Refused { count: 1, .. }), "{report:?}");
    live.faults.set(None);
    let (report, before) = live.write(vec![message(&mut world, "refused")]);
    let Report::Refused { count: 1, why } = report else { panic!("{report:?}") };
    assert!(why.contains("the disk is broken") && before.is_empty(), "{why} {before:?}");
    GATE.open.0.send(()).unwrap();
    // A query is answered with the reason while the store fails, and repeated afterwards.
    match [live.next(), live.next()] {
        [Report::Answer(1, Err(why)), Report::Health(Ok(()))] => {
            assert!(why.contains("the disk is broken"), "{why}");
        }
        [Report::Health(Ok(())), Report::Answer(1, Ok(found))] => assert!(found.rows.is_empty()),
        other => panic!("{other:?}"),
    }
    assert_eq!(live.write(vec![message(&mut world, "accepted")]).0, Report::Persisted(1));
    assert_eq!(rows_of(&live, all()).len(), 1);
    live.end();
}

#[test]
fn queries_that_never_pause_do_not_put_off_the_recovery() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    live.faults.set(Some((FaultPoint::Commit, broken)));
    let (report, _) = live.write(vec![message(&mut world, "refused")]);
    assert!(matches!(report, Report::Refused { count: 1, .. }), "{report:?}");
    live.faults.set(None);
    let begun = Instant::now();
    // The store always has a query that it has not looked at.
    (0..2).for_each(|_| live.ask(1, all()));
    loop {
        live.ask(1, all());
        if live.next() == Report::Health(Ok(())) {
            break;
        }
        assert!(begun.elapsed() < WATCHDOG, "the store was not tried again");
    }
    live.end();
}

#[test]
fn queries_that_never_pause_do_not_put_off_the_sweep() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    let ended = Change::Ended { delivery: 1, ending: Ending::Acknowledged, unix_ms: NOW_MS };
    live.write(vec![message(&mut world, "old"), ended]);
    live.tell_time(clock(8 * DAY_MS));
    let begun = Instant::now();
    // The store always has a query that it has not looked at.
    (0..2).for_each(|_| live.ask(1, all()));
    loop {
        live.ask(1, all());
        let Report::Answer(1, Ok(found)) = live.next() else { panic!("no answer") };
        if found.rows.is_empty() {
            break;
        }
        assert!(begun.elapsed() < WATCHDOG, "the old history stays");
    }
    live.end();
}

#[test]
fn store_ends_while_a_query_runs() {
    static GATE: LazyLock<Gate> = LazyLock::new(Gate::new);
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    live.write(vec![message(&mut world, "before")]);
    GATE.stick(&live, || GATE.pass());
    GATE.open.0.send(()).unwrap();
    let reports = live.end();
    assert!(!reports.iter().any(|it| matches!(it, Report::Answer(_, Err(_)))), "{reports:?}");
    assert_eq!(folder.files(""), ["relay.db"], "the log is gone once the store is closed");
}

#[test]
fn cancelled_queries_end_without_another_slice() {
    static GATE: LazyLock<Gate> = LazyLock::new(Gate::new);
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    live.write(vec![message(&mut world, "before")]);
    let running = GATE.stick(&live, || GATE.pass());
    let waiting = live.ask_cancellable(2, all());
    running.cancel();
    waiting.cancel();
    GATE.open.0.send(()).unwrap();
    for _ in 0..2 {
        let Report::Answer(1 | 2, Ok(found)) = live.next() else { panic!("no answer") };
        assert!(found.rows.is_empty(), "{found:?}");
    }
    assert_eq!(rows_of(&live, all()).len(), 1);
    live.end();
}

#[test]
fn query_that_is_cancelled_reads_nothing_more() {
    let folder = Folder::new();
    let mut world = World::default();
    folder.run(vec![write((0..9).map(|_| message(&mut world, "hi")).collect())]);
    let mut database = Connection::open(folder.path()).unwrap();
    let cancel = Cancel::default();
    let mut query = ActiveQuery::new(1, None, all(), cancel.clone());
    cancel.cancel();
    assert!(query.slice(&mut database).unwrap(), "it is over");
    assert_eq!(query.into_result().rows.len(), 0);
}

#[test]
fn slow_slice_narrows_its_window_and_fails_at_the_least_width() {
    let folder = Folder::new();
    let recipients: Vec<_> = (2..2_002).collect();
    let to_many = World::default().accepted(1, &recipients, None, "hi");
    folder.run(vec![write(vec![Change::Accepted(Box::new(to_many))])]);
    let mut database = Connection::open(folder.path()).unwrap();
    let mut query = ActiveQuery::new(1, None, Query::Id("m-1".into()), Cancel::default());
    let mut slice = |max, narrow_max| query.slice_within(&mut database, max, narrow_max);
    assert!(!slice(Duration::ZERO, Duration::MAX).unwrap(), "the window becomes narrower");
    let error = slice(Duration::MAX, Duration::ZERO).unwrap_err();
    assert!(matches!(error, StoreError::TooSlow(_)), "{error}");
    while !slice(Duration::MAX, Duration::MAX).unwrap() {}
    assert_eq!(query.into_result().rows.len(), 2_000);
}

/// Senders choose the ids of their SENDs.
#[test]
fn id_of_thousands_of_sends_is_searched_in_small_steps() {
    let folder = Folder::new();
    let mut world = World::default();
    let changes = (0..2_000).map(|_| {
        let mut accepted = world.accepted(1, &[2], None, "hi");
        accepted.message.send_id = "same".into();
        Change::Accepted(Box::new(accepted))
    });
    folder.run(vec![write(changes.collect())]);
    for (query, rows) in [
        (Query::Id("same".into()), 2_000),
        (Query::OwnId("same".into(), 2), 2_000),
        (Query::OwnId("same".into(), 9), 1),
        (Query::Id("other".into()), 0),
        (Query::Id("abcd".into()), 0),
    ] {
        let mut database = Connection::open(folder.path()).unwrap();
        database.set_prepared_statement_cache_capacity(0);
        let mut active = ActiveQuery::new(1, None, query.clone(), Cancel::default());
        active.narrow();
        // Without time, a long statement fails.
        while !active.slice_within(&mut database, Duration::ZERO, Duration::ZERO).unwrap() {}
        assert_eq!(active.into_result().rows.len(), rows, "{query:?}");
    }
}

#[test]
fn window_that_became_too_wide_in_a_slice_is_narrowed() {
    let folder = Folder::new();
    let mut world = World::default();
    let oldest = Change::Accepted(Box::new(world.accepted(1, &[2], Some("rare"), "hi")));
    let others = (0..2_000).map(|_| message(&mut world, "hi"));
    folder.run(vec![write([oldest].into_iter().chain(others).collect())]);
    let mut database = Connection::open(folder.path()).unwrap();
    // SQLite counts the instructions of a cached statement over all of its uses.
    database.set_prepared_statement_cache_capacity(0);
    let filter = Filter { topic: Some("rare".into()), limit: 9, ..Filter::default() };
    let mut query = ActiveQuery::new(1, None, Query::List(filter), Cancel::default());
    query.narrow();
    // Without time, a statement is interrupted unless it ends before the first look at the clock.
    while !query.slice_within(&mut database, Duration::ZERO, Duration::ZERO).unwrap() {}
    assert_eq!(query.into_result().rows.len(), 1);
}

#[test]
fn failing_query_is_answered_with_the_error_and_the_store_goes_on() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    let fault: Fault = (FaultPoint::Query, broken);
    live.faults.set(Some(fault));
    live.ask(1, all());
    let Report::Answer(1, Err(why)) = live.next() else { panic!("no error") };
    assert!(why.contains("relay.db") && why.contains("the disk is broken"), "{why}");
    let (report, before) = live.write(vec![message(&mut world, "hi")]);
    assert_eq!((report, before), (Report::Persisted(1), vec![]));
    live.faults.set(None);
    assert_eq!(rows_of(&live, all()).len(), 1);
    assert!(live.end().is_empty());
}

#[test]
fn search_is_answered_although_its_index_cannot_begin() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    live.write(vec![message(&mut world, "hello there")]);
    live.faults.set(Some((FaultPoint::Index, broken)));
    let search =
        Filter { search: Some("hello".into()), limit: 9, bytes_max: 9_999, ..Filter::default() };
    live.ask(1, Query::List(search.clone()));
    let answer = || {
        let mut reports = std::iter::repeat_with(|| live.next());
        reports.find_map(|report| match report {
            Report::Answer(number, answer) => Some((number, answer)),
            _ => None,
        })
    };
    let Some((1, Err(why))) = answer() else { panic!("no error") };
    assert!(why.contains("the disk is broken"), "{why}");
    live.faults.set(None);
    live.write(vec![message(&mut world, "hello again")]);
    live.ask(2, Query::List(search));
    let Some((2, Ok(found))) = answer() else { panic!("no answer") };
    assert_eq!(found.rows.len(), 2);
    live.end();
}

#[test]
fn query_finds_all_changes_before_it() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    for count in 1..100 {
        live.write(vec![message(&mut world, "hello there")]);
        let query = match count % 2 {
            0 => all(),
            _ => Query::List(Filter {
                search: Some("hello".into()),
                limit: 1_000,
                bytes_max: 1 << 24,
                ..Filter::default()
            }),
        };
        assert_eq!(rows_of(&live, query).len(), count);
    }
    live.end();
}

#[test]
fn log_stays_short_although_queries_never_pause() {
    let folder = Folder::new();
    let mut world = World::default();
    let live = RunningStore::start(folder.open().store);
    let body = "x".repeat(20_000);
    let few = || Query::List(Filter { limit: 5, bytes_max: 1 << 24, ..Filter::default() });
    live.ask(1, few());
    let mut longest = 0;
    for _ in 0..150 {
        live.ask(1, few());
        live.write_amid_answers(vec![message(&mut world, &body)]);
        longest = longest.max(fs::metadata(file::log_of(&folder.path())).unwrap().len());
    }
    // All changes together take 1,350 pages.
    assert!(longest < 300 * 4_096, "{longest} bytes");
    live.end();
}

#[test]
fn each_query_of_people_uses_its_index() {
    let folder = Folder::new();
    folder.run(vec![write(vec![message(&mut World::default(), "hi")])]);
    let database = Connection::open(folder.path()).unwrap();
    words::add_function(&database).unwrap();
    let ids = IdForm { old: 9, ..IdForm::read(&database).unwrap() };
    ids.write(&database).unwrap();
    let name = || Some(protocol::name::Name::parse("Ann").unwrap().into());
    let list = |filter| query::select(&filter, [false; 3], None);
    let topic = Some("build".to_owned());
    let search = query::Search::new(&database, "hello").unwrap().unwrap();
    for (sql, indices) in [
        (query::of_deliver(&ids.which_are_old()), &["delivery_old_id"][..]),
        (query::OF_SENDS.to_owned(), &["delivery_message", "message USING INTEGER PRIMARY KEY"]),
        (
            list(Filter { of: name(), ..Filter::default() }),
            &["delivery_sender", "delivery_recipient"],
        ),
        (
            query::select(&Filter { of: name(), ..Filter::default() }, [false, true, false], None),
            &["delivery_sender", "delivery_recipient"],
        ),
        (list(Filter { topic, ..Filter::default() }), &["delivery_topic"]),
        (list(Filter { dead: true, ..Filter::default() }), &["delivery_dead"]),
        (query::select(&Filter::default(), [false; 3], Some(&search)), &["delivery_message"]),
    ] {
        let mut statement = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let count = statement.parameter_count();
        let values = vec![Value::Integer(1); count];
        let plan = statement.query_map(params_from_iter(values), |row| row.get(3));
        let plan: Vec<String> = plan.unwrap().map(Result::unwrap).collect();
        assert!(!plan.iter().any(|step| step.starts_with("SCAN delivery")), "{sql}: {plan:#?}");
        for index in indices {
            assert!(plan.iter().any(|step| step.contains(index)), "{index}: {plan:#?}");
        }
    }
}

#[test]
fn ids_are_found_wherever_a_delivery_is() {
    let folder = Folder::new();
    let mut world = World::default();
    let accepted: Vec<_> = (0..20).map(|_| world.accepted(1, &[2], None, "hi")).collect();
    let ids: Vec<_> = accepted.iter().map(|it| it.deliveries[0].id.to_string()).collect();
    let again = Change::AcceptedAgain(Box::new(accepted[4].clone()));
    let dead = Ending::Dead { code: NackCode::Expired, why: "late".into() };
    let ended = |delivery, ending| Change::Ended { delivery, ending, unix_ms: NOW_MS };
    let redelivered = Change::Redelivered { delivery: 3, expires: NOW };
    let changes = accepted.into_iter().map(|it| Change::Accepted(Box::new(it))).collect();
    let stages = [
        ("accepted", changes),
        ("dead", vec![ended(3, dead)]),
        ("in the history", vec![]),
        ("open again", vec![redelivered, again]),
        ("ended", (1..=10).map(|delivery| ended(delivery, Ending::Acknowledged)).collect()),
    ];
    for (stage, changes) in stages {
        let store = folder.open().store;
        let queries = ids.iter().cloned().chain((1..=21).map(|number| format!("m-{number}")));
        let queries = (1..).zip(queries).map(|(number, id)| folder::query(number, Query::Id(id)));
        let jobs = [write(changes)].into_iter().chain(queries).collect();
        for (at, found) in answers(run(store, jobs)).into_iter().enumerate() {
            let numbers: Vec<u64> = found.rows.iter().map(|row| row.delivery.number).collect();
            let expected = [at as u64 % 20 + 1];
            assert_eq!(numbers, if at < 40 { &expected[..] } else { &[] }, "{stage}");
        }
        folder.check_counts();
    }
}
