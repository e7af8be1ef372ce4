//! How long idle names stay, and the costs of removing them (C25) and of finding a name among them.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own their runtimes, and fail by panic"
)]

use std::time::Duration;

use crate::common::{lease, server};
use stanchion_core::{MutexOptions, Store};

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
