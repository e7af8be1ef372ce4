//! How long idle names stay, and the costs of removing them (C25) and of finding a name among them.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own their runtimes, and fail by panic"
)]

use std::env;
use std::time::Duration;

use crate::common::{lease, server};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{eventually, within};
use stanchion_core::{ErrorKind, MutexOptions, SemaphoreOptions, Store};
use stanchion_postgres::PostgresStore;
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

const HOUR: Duration = Duration::from_secs(3_600);

/// Makes names of two namespaces. In `ours`, the retention of `OVER` names is over; in `other`,
/// that of all names.
const FILLED: &str = "INSERT INTO stanchion.objects (namespace, kind, name, epoch, expires)
    SELECT CASE WHEN i % 2 = 0 THEN 'ours' ELSE 'other' END, 's', 'n' || i, 0,
           CASE WHEN i % 2 = 0 AND i > 20 THEN stanchion.now() + 3600000000 ELSE 1 END
    FROM generate_series(1, 20000) i;
    ANALYZE stanchion.objects";
const OVER: i64 = 10;

/// Counts the rows of `objects` that one sweep reads, in a session with the store's settings.
const READ: &str = "SET enable_seqscan = off;
    SET plan_cache_mode = force_generic_plan;
    SELECT stanchion.sweep_permits('ours', 1000);
    SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'stanchion.objects'::regclass";

/// Counts the rows that a step reads to find one of many names that the planner does not know yet.
const FOUND: &str = "SET enable_seqscan = off;
    SET plan_cache_mode = force_generic_plan;
    BEGIN;
    SELECT (stanchion.claim('ours', 's', 'first', 1)).id;
    INSERT INTO stanchion.objects (namespace, kind, name, epoch, expires)
        SELECT 'ours', 's', 'n' || i, 0, stanchion.now() + 3600000000 FROM generate_series(1, 10000) i;
    SELECT (stanchion.claim('ours', 's', 'n5000', 1)).id;
    SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'stanchion.objects'::regclass;
    ROLLBACK";

#[tokio::test]
async fn c25_a_record_stays_for_the_longer_of_its_two_times() {
    let server = server();
    let left = "SELECT (expires - stanchion.now()) / 1000000 FROM stanchion.objects";
    for (tokens, state, namespace) in [(HOUR / 60, HOUR, "state"), (HOUR, HOUR / 60, "tokens")] {
        let builder = lease(&server.url()).namespace(namespace).retention(tokens, state);
        let store = builder.connect().await.unwrap();
        let mutex = store.mutex("m", MutexOptions::default()).unwrap();
        mutex.lock().await.unwrap().release().await.unwrap();
        let left = server.sql(&format!("{left} WHERE namespace = '{namespace}'")).unwrap();
        let left: u64 = left.trim().parse().unwrap();
        assert!((HOUR.as_secs()..HOUR.as_secs() * 5 / 4).contains(&left), "{namespace}: {left} s");
    }
}

#[tokio::test]
async fn c25_a_sweep_reads_what_it_takes_out_and_no_other_names() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    server.sql(FILLED).unwrap();
    let told = server.sql(READ).unwrap();
    let told: Vec<i64> = told.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(told[0], OVER, "removed");
    assert!((OVER..=OVER * 5).contains(&told[1]), "{} rows read for {OVER}", told[1]);
    let left = server.sql("SELECT count(*) FROM stanchion.objects").unwrap();
    assert_eq!(left.trim(), (20_000 - OVER).to_string());
}

#[tokio::test]
async fn c25_a_name_is_found_without_the_others_also_before_the_first_analyze() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    let told = server.sql(FOUND).unwrap();
    let read: i64 = told.trim().lines().last().unwrap().parse().unwrap();
    assert!(read <= 3, "{read} rows read for one");
}

/// Makes N holds of one semaphore that have expired, of more than that, and 2 · N idle names.
const MANY: &str = "INSERT INTO stanchion.objects (namespace, kind, name, lim, used, next, epoch, expires)
        VALUES ('ours', 's', 'many', {n} * 2, {n}, 1, 1, stanchion.now() + 3600000000);
    INSERT INTO stanchion.holds (object, ticket, weight, expiry, granted, token)
        SELECT o.id, gen_random_uuid(), 1, 1 + i, 1, i FROM stanchion.objects o, generate_series(1, {n}) i
        WHERE o.name = 'many';
    INSERT INTO stanchion.objects (namespace, kind, name, epoch, expires)
        SELECT 'ours', 's', 'n' || i, 1, 1 FROM generate_series(1, {n} * 2) i";

/// Of each table, how many rows were read by an index or in turn, and how many removed.
const READ_AND_REMOVED: &str =
    "SELECT relname || ' ' || seq_tup_read + coalesce(idx_tup_fetch, 0) || ' ' || n_tup_del
    FROM pg_stat_user_tables WHERE schemaname = 'stanchion' AND relname IN ('objects', 'holds') ORDER BY 1";

/// Very many holds of one name that have expired, and very many idle names, cost calls nothing but
/// their own part, and go. `STANCHION_ROWS` makes it more of them, and the server logs the plans of
/// what takes over 5 ms in the folder `STANCHION_PLANS`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c25_c27_very_many_rows_go_and_hold_up_no_call() {
    /// The default time limit of a request, and what a call may take at all.
    const LIMIT: Duration = Duration::from_secs(2).saturating_add(EPSILON);
    let number: u64 = env::var("STANCHION_ROWS").map_or(20_000, |rows| rows.parse().unwrap());
    let mut options = PostgresOptions::default();
    if let Ok(folder) = env::var("STANCHION_PLANS") {
        for (name, value) in [
            ("logging_collector", "on"),
            ("log_directory", &folder),
            ("session_preload_libraries", "auto_explain"),
            ("auto_explain.log_min_duration", "5ms"),
            ("auto_explain.log_nested_statements", "on"),
            ("auto_explain.log_analyze", "on"),
            ("auto_explain.log_timing", "off"),
        ] {
            options = options.setting(name, value);
        }
    }
    let server = PostgresServer::start(options).unwrap();
    drop(lease(&server.url()).steps().await.unwrap());
    server.script(&MANY.replace("{n}", &number.to_string())).unwrap();
    let counted = || {
        let told = server.sql(READ_AND_REMOVED).unwrap();
        let numbers = told.lines().map(|line| {
            let (_, numbers) = line.split_once(' ').unwrap();
            let (read, removed) = numbers.split_once(' ').unwrap();
            [read, removed].map(|number| number.parse::<u64>().unwrap())
        });
        numbers.collect::<Vec<_>>()
    };
    let before = counted();
    let builder = PostgresStore::builder(&server.url()).unwrap().namespace("ours");
    let minute = Duration::from_secs(60);
    let store = builder.retention(minute, minute).connect().await.unwrap();
    let many = store.semaphore("many", SemaphoreOptions::new(u32::try_from(number * 2).unwrap())).unwrap();
    let other = store.mutex("other", MutexOptions::default()).unwrap();
    let (watch, mut largest, mut late) = (Stopwatch::start(), [Duration::ZERO; 2], 0);
    loop {
        let call = Stopwatch::start();
        match within(LIMIT, "a call of the name", many.try_acquire()).await {
            Ok(permit) => drop(permit.expect("there is room")),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
                late += 1;
            }
        }
        largest[0] = largest[0].max(call.elapsed());
        let call = Stopwatch::start();
        let guard = within(LIMIT, "a call of another name", other.lock()).await.unwrap();
        within(LIMIT, "its release", guard.release()).await.unwrap();
        largest[1] = largest[1].max(call.elapsed());
        let left = server.sql("SELECT expires FROM stanchion.objects WHERE expires = 1 LIMIT 1").unwrap();
        let held =
            server.sql("SELECT expiry FROM stanchion.holds WHERE expiry < 9999999999 LIMIT 1").unwrap();
        if left.trim().is_empty() && held.trim().is_empty() {
            break;
        }
        assert!(watch.elapsed() < minute * 10, "rows are left after 10 min");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!(
        "{number} holds and {} names are gone after {:?}; largest call of the name {:?}, of another {:?}; \
         {late} of the name ended as unavailable",
        number * 2,
        watch.elapsed(),
        largest[0],
        largest[1]
    );
    drop(store);
    // A session tells what it counted when it ends.
    eventually(minute, "the server counts", || async {
        counted().iter().zip(&before).all(|(after, before)| after[1] >= before[1] + number)
    })
    .await;
    for (table, (after, before)) in ["holds", "objects"].iter().zip(counted().iter().zip(&before)) {
        let (read, removed) = (after[0] - before[0], after[1] - before[1]);
        println!("{table}: {read} rows read, {removed} removed");
        assert!(read <= removed * 5, "{table}: {read} rows read for {removed}");
    }
}

/// What the server's clean-up of old transaction ids has to do is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_lock_and_its_release_take_two_transaction_ids() {
    const PAIRS: u64 = 200;
    let server = server();
    let ids = || -> u64 {
        let next = server.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())").unwrap();
        next.trim().parse().unwrap()
    };
    let store = lease(&server.url()).connect().await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    let before = ids();
    for _ in 0..PAIRS {
        mutex.lock().await.unwrap().release().await.unwrap();
    }
    let taken = ids() - before;
    println!("{taken} transaction ids for {PAIRS} pairs");
    // A renewal or a sweep may come between.
    assert!(taken <= PAIRS * 2 + 20, "{taken} for {PAIRS}");
}
