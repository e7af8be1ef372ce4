//! What other clients of the database do to rows of ours delays those rows' names only.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::collections::HashMap;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::*;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{POLL_FLOOR, definite, eventually, pause, spawn, within};
use stanchion_core::spi::{Acquired, Decide, LimitAsk, Limited, Object, ParameterCheck, RequestId};
use stanchion_core::{
    ErrorKind, Kind, LimiterOptions, MutexMode, MutexOptions, Name, Quota, Result, Store, Ticket,
};
use stanchion_postgres::PostgresStore;

/// A third of it is much longer than a batch needs that meets a locked row, also on a busy machine.
const TTL: Duration = Duration::from_secs(9);

async fn execute(raw: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(raw).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_locked_row_delays_its_own_name_only() {
    let server = server();
    let store = builder(&server.url(), MutexMode::Lease).connect().await.unwrap();
    let mutex = |name: &str| store.mutex(name, MutexOptions::default().ttl(TTL)).unwrap();
    let limiter = |name: &str| {
        let quota = Quota::per_second(1_000).burst(1_000);
        store.limiter(name, LimiterOptions::new(quota)).unwrap()
    };
    let mut held = Vec::new();
    for number in 0..20 {
        let (mutex, limiter) = (mutex(&format!("m{number}")), limiter(&format!("l{number}")));
        held.push(definite(|| mutex.lock_for(EPSILON * 20)).await.unwrap().unwrap());
        definite(|| limiter.allow()).await.unwrap();
    }
    let mut neighbour = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut neighbour, "BEGIN").await;
    execute(&mut neighbour, "SELECT FROM stanchion.objects WHERE name = 'm7' FOR UPDATE").await;
    execute(&mut neighbour, "SELECT FROM stanchion.limiters WHERE name = 'l7' FOR UPDATE").await;
    // Longer than a lease, so that all holds have to be renewed meanwhile.
    let watch = Stopwatch::start();
    while watch.elapsed() < TTL + EPSILON {
        let call = Stopwatch::start();
        let (mine, others, decided) = tokio::join!(
            async { mutex("m7").try_lock().await },
            async {
                let (call, other) = (Stopwatch::start(), mutex("m8"));
                definite(|| other.try_lock()).await.unwrap();
                call.elapsed()
            },
            async {
                let call = Stopwatch::start();
                let (locked, free) = (limiter("l7"), limiter("l8"));
                let (_, decision) = tokio::join!(locked.allow(), async {
                    let decision = definite(|| free.allow()).await;
                    (decision.unwrap().allowed, call.elapsed())
                });
                decision
            }
        );
        // The last answer can come too late, while the machine stands still.
        let kind = mine.unwrap_err().kind();
        let is_refused = matches!(kind, ErrorKind::Unavailable | ErrorKind::Unknown);
        assert!(is_refused, "{kind:?} after {:?}", call.elapsed());
        assert!(others < EPSILON, "another name took {others:?}");
        assert!(decided.0 && decided.1 < EPSILON, "another limiter took {:?}", decided.1);
    }
    execute(&mut neighbour, "COMMIT").await;
    for (number, guard) in held.iter().enumerate().filter(|(number, _)| *number != 7) {
        assert!(guard.is_held(), "m{number} was lost");
    }
    let mutex = mutex("m7");
    definite(|| mutex.try_lock()).await.unwrap();
}

/// A full queue of messages, which a listener in an open transaction brings about, has some 8 GB:
/// its error is made here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_hint_that_cannot_be_sent_fails_no_release() {
    let server = server();
    let connect = || async { builder(&server.url(), MutexMode::Lease).connect().await.unwrap() };
    let (near, far) = (connect().await, connect().await);
    let mutex = |store: &PostgresStore| store.mutex("m", MutexOptions::default()).unwrap();
    let full = "CREATE OR REPLACE FUNCTION stanchion.tell(p_processes uuid[], p_tickets uuid[]) RETURNS void LANGUAGE plpgsql
                AS $$ BEGIN RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = '53400'; END $$";
    server.sql(full).unwrap();
    let guard = mutex(&near).lock().await.unwrap();
    let next = mutex(&far);
    let waiting = spawn(async move { next.lock().await });
    let queued = || async { mutex(&near).inspect().await.is_ok_and(|seen| seen.waiters == 1) };
    eventually(Duration::from_secs(10), "a waiter", queued).await;
    guard.release().await.unwrap();
    // The waiter asks by itself.
    within(POLL_FLOOR + EPSILON, "a turn", waiting.join()).await.unwrap().release().await.unwrap();
}

/// Those who wait read what others write: they neither lock nor change it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_idle_waiters_lock_no_row_of_the_name_they_wait_for() {
    let server = server();
    for mode in MODES {
        let connect = || async { builder(&server.url(), mode).connect().await.unwrap() };
        let holder = connect().await;
        let guard = holder.mutex("m", MutexOptions::default()).unwrap().lock().await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let mutex = connect().await.mutex("m", MutexOptions::default()).unwrap();
            waiting.push(spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() }));
        }
        let mutex = holder.mutex("m", MutexOptions::default()).unwrap();
        let queued = || async { mutex.inspect().await.is_ok_and(|seen| seen.waiters == 3) };
        eventually(Duration::from_secs(10), "three waiters", queued).await;
        // A row lock is a change of its row: its place and its `xmax`.
        let version = "SELECT xmin::text || xmax::text FROM stanchion.objects WHERE waiting > 0";
        let seen = || async { row(&server.url(), version).await };
        // A request to join that a busy machine answers late is sent once more.
        let is_unchanged = || async {
            let before: String = seen().await.get(0);
            pause(Duration::from_secs(3)).await;
            seen().await.get::<String, _>(0) == before
        };
        eventually(Duration::from_secs(20), "nobody writes for 3 s", is_unchanged).await;
        guard.release().await.unwrap();
        for waiting in waiting {
            within(Duration::from_secs(10), "a turn", waiting.join()).await;
        }
    }
}

/// A row beside that of the name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_locked_hold_delays_its_own_name_only() {
    let server = server();
    let store = builder(&server.url(), MutexMode::Lease).connect().await.unwrap();
    let mut held = Vec::new();
    for number in 0..20 {
        let mutex = store.mutex(&format!("m{number}"), MutexOptions::default().ttl(TTL)).unwrap();
        held.push(definite(|| mutex.lock_for(EPSILON * 20)).await.unwrap().unwrap());
    }
    let mut neighbour = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut neighbour, "BEGIN").await;
    let lock = "SELECT FROM stanchion.holds h JOIN stanchion.objects o ON o.id = h.object WHERE o.name = 'm7' FOR UPDATE OF h";
    execute(&mut neighbour, lock).await;
    pause(TTL + EPSILON).await;
    execute(&mut neighbour, "COMMIT").await;
    for (number, guard) in held.iter().enumerate().filter(|(number, _)| *number != 7) {
        assert!(guard.is_held(), "m{number}");
    }
}

/// While somebody keeps a row, one batch finds that out, and those after it know. Another locker is
/// found out anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_row_that_is_known_to_be_locked_holds_up_no_further_batch() {
    let server = server();
    let steps = builder(&server.url(), MutexMode::Lease).steps().await.unwrap().callers;
    let ask = |name: &str| {
        let object = Object { kind: Kind::Mutex, name: Name::new(name).unwrap() };
        stanchion_conformance::steps::drive::ask(&object)
    };
    let free = |answers: &[Result<Acquired>]| {
        assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Unavailable, "{answers:?}");
        assert!(matches!(answers[1], Ok(Acquired::Granted { .. })), "{answers:?}");
    };
    assert!(steps.acquire(&[ask("locked"), ask("other")]).await.iter().all(Result::is_ok));
    let lock = "BEGIN; SELECT FROM stanchion.objects WHERE name = 'locked' FOR UPDATE";
    for round in 0..2 {
        let mut neighbour = PgConnection::connect(&server.url()).await.unwrap();
        execute(&mut neighbour, lock).await;
        let first = Stopwatch::start();
        free(&steps.acquire(&[ask("locked"), ask(&format!("free {round}"))]).await);
        let (first, later) = (first.elapsed(), Stopwatch::start());
        for number in 0..3 {
            free(&steps.acquire(&[ask("locked"), ask(&format!("free {round} {number}"))]).await);
        }
        assert!(later.elapsed() < first, "{:?} for three, {first:?} for the first", later.elapsed());
        execute(&mut neighbour, "COMMIT").await;
        let mine = ask("locked");
        let both = steps.acquire(&[mine.clone(), ask(&format!("last {round}"))]).await;
        assert!(both.iter().all(Result::is_ok), "it is known no longer: {both:?}");
    }
}

/// Requests of ours that wait for a row one after the other have the row of its name locked, each
/// for a moment: who keeps the row is seen behind them all the same, and a batch goes on without
/// its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_who_keeps_a_row_is_seen_behind_requests_that_wait_for_it() {
    let server = server();
    let steps = builder(&server.url(), MutexMode::Lease).steps().await.unwrap().callers;
    let ask = |name: &str| {
        let object = Object { kind: Kind::Mutex, name: Name::new(name).unwrap() };
        stanchion_conformance::steps::drive::ask(&object)
    };
    let mine = ask("locked");
    assert!(steps.acquire(slice::from_ref(&mine)).await.iter().all(Result::is_ok));
    let mut neighbour = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut neighbour, "BEGIN; SELECT FROM stanchion.holds FOR UPDATE").await;
    let mut alone = Vec::new();
    for _ in 0..4 {
        let (steps, mine) = (Arc::clone(&steps), mine.clone());
        alone.push(spawn(async move {
            loop {
                steps.acquire(slice::from_ref(&mine)).await;
            }
        }));
    }
    pause(EPSILON).await;
    for number in 0..3 {
        let answers = steps.acquire(&[mine.clone(), ask(&format!("free {number}"))]).await;
        let refused = answers[0].as_ref().unwrap_err().to_string();
        assert!(refused.contains("keeps a row of this name locked"), "{refused}");
        assert!(matches!(answers[1], Ok(Acquired::Granted { .. })), "{answers:?}");
    }
    drop(alone);
    execute(&mut neighbour, "COMMIT").await;
}

/// Those who wait while a transaction has the mutex change and lock nothing either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_waiters_for_a_transaction_lock_no_row_of_its_name() {
    let server = server();
    for mode in MODES {
        let connect = || async { builder(&server.url(), mode).connect().await.unwrap() };
        let (store, other) = (connect().await, connect().await);
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        let mut transaction = connection.begin().await.unwrap();
        store.lock_in(&mut transaction, "x").await.unwrap();
        let waiting: Vec<_> = [store.clone(), other]
            .into_iter()
            .map(|store| {
                let mutex = store.mutex("x", MutexOptions::default()).unwrap();
                spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() })
            })
            .collect();
        let mut raw = PgConnection::connect(&server.url()).await.unwrap();
        let version = "SELECT x.ctid::text || x.xmin::text || x.xmax::text FROM stanchion.objects x WHERE x.waiting > 0";
        pause(EPSILON * 4).await;
        let before: String = sqlx::query_scalar(version).fetch_one(&mut raw).await.unwrap();
        pause(EPSILON * 4).await;
        let after: String = sqlx::query_scalar(version).fetch_one(&mut raw).await.unwrap();
        assert_eq!(before, after, "the row was locked or written");
        // A process is heard after another one, which polls, has read the clock.
        let poll = "BEGIN; UPDATE stanchion.processes SET heard = stanchion.now() + 500000;
                    SELECT stanchion.poll(x.namespace, gen_random_uuid(), 1, 1, '{m}', '{x}')
                    FROM stanchion.objects x WHERE x.waiting > 0";
        execute(&mut raw, poll).await;
        let polled: String = sqlx::query_scalar(version).fetch_one(&mut raw).await.unwrap();
        execute(&mut raw, "ROLLBACK").await;
        assert_eq!(before, polled, "a poll locked or wrote the row");
        transaction.commit().await.unwrap();
        for task in waiting {
            within(EPSILON * 20, "a waiter", task.join()).await;
        }
    }
}

/// Calls of one limiter stay in one request, however a batch has to be cut: what is admitted is
/// charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_a_batch_that_goes_in_parts_charges_what_it_admits() {
    const BURST: u64 = 1_000;
    let server = server();
    let steps = builder(&server.url(), MutexMode::Lease).steps().await.unwrap().callers;
    let store = builder(&server.url(), MutexMode::Lease).connect().await.unwrap();
    let quota = Quota::per_hour(1).burst(BURST);
    let call = |name: &str| {
        let object = Object { kind: Kind::Limiter, name: Name::new(name).unwrap() };
        let quota = quota.validate().unwrap();
        Decide {
            id: RequestId::NONE,
            object,
            quota,
            check: ParameterCheck::Follow,
            ask: LimitAsk::Take { cost: 1 },
        }
    };
    let mut id = RequestId { sequence: Ticket::random(), number: 0 };
    let mut admitted = 0;
    let mut neighbour = PgConnection::connect(&server.url()).await.unwrap();
    for delay in (0..40).map(|round| Duration::from_millis(round * 10)) {
        id.number += 1;
        execute(&mut neighbour, "BEGIN").await;
        execute(&mut neighbour, "SELECT FROM stanchion.limit_answers FOR UPDATE").await;
        let calls = [call("a"), call("a"), call("a"), call("b")];
        let (answers, ()) = tokio::join!(steps.decide(id, &calls), async {
            pause(delay).await;
            execute(&mut neighbour, "COMMIT").await;
        });
        let is_admitted = |answer: &Result<Limited>| matches!(answer, Ok(Limited::Taken { verdict, .. }) if verdict.allowed);
        admitted += answers[..3].iter().filter(|answer| is_admitted(answer)).count() as u64;
    }
    assert!(admitted > 0);
    let limiter = store.limiter("a", LimiterOptions::new(quota)).unwrap();
    assert!(definite(|| limiter.allow_n(BURST - admitted)).await.unwrap().allowed, "{admitted}");
    assert!(!definite(|| limiter.allow()).await.unwrap().allowed, "more than {admitted} are left");
}

/// While somebody waits, a vacuum and a new index of another table wait for nobody, and a limiter's
/// table stays small (C30). The wait is as long as `STANCHION_WAIT_SECONDS` says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_waiter_holds_up_no_vacuum() {
    let server = server();
    let mut raw = PgConnection::connect(&server.url()).await.unwrap();
    let seconds = std::env::var("STANCHION_WAIT_SECONDS").map_or(2, |seconds| seconds.parse().unwrap());
    for mode in MODES {
        execute(&mut raw, "CREATE TABLE theirs AS SELECT generate_series(1, 1000) AS id").await;
        let connect = || async { builder(&server.url(), mode).connect().await.unwrap() };
        let (holder, waiter) = (connect().await, connect().await);
        let guard = holder.mutex("m", MutexOptions::default()).unwrap().lock().await.unwrap();
        let mutex = waiter.mutex("m", MutexOptions::default()).unwrap();
        let waiting = spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
        let mutex = holder.mutex("m", MutexOptions::default()).unwrap();
        let queued = || async { mutex.inspect().await.is_ok_and(|seen| seen.waiters == 1) };
        eventually(Duration::from_secs(10), "a waiter", queued).await;
        let quota = LimiterOptions::new(Quota::per_second(1_000_000));
        let limiter = holder.limiter("busy", quota).unwrap();
        let deciding = spawn(async move {
            for _ in 0_u32.. {
                definite(|| limiter.allow()).await.unwrap();
            }
        });
        let open =
            "SELECT concat(pid, ' ', xact_start), extract(epoch FROM clock_timestamp() - xact_start)::float8
                    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
                    AND (backend_xmin IS NOT NULL OR xact_start IS NOT NULL)";
        let (start, mut oldest, mut seen) = (Instant::now(), 0.0_f64, HashMap::new());
        while start.elapsed() < Duration::from_secs(seconds) {
            pause(EPSILON / 2).await;
            let rows: Vec<(String, f64)> = sqlx::query_as(open).fetch_all(&mut raw).await.unwrap();
            seen = rows.iter().map(|(which, _)| (which.clone(), seen.get(which).unwrap_or(&0) + 1)).collect();
            oldest = rows.iter().fold(oldest, |oldest, (_, age)| oldest.max(*age));
            assert!(seen.values().all(|times| *times < 4), "{mode:?}: old snapshots: {rows:?}");
        }
        deciding.cancel().await;
        let size = "SELECT pg_table_size('stanchion.limiters')";
        let size: i64 = sqlx::query_scalar(size).fetch_one(&mut raw).await.unwrap();
        println!("{mode:?}: {seconds} s of waiting, oldest snapshot {oldest:.3} s, limiters {size} bytes");
        assert!(size < 100_000, "{mode:?}: limiters has {size} bytes");
        execute(&mut raw, "DELETE FROM theirs").await;
        let left = "SELECT pg_table_size('theirs')";
        let vacuumed = async {
            loop {
                execute(&mut raw, "VACUUM theirs").await;
                if sqlx::query_scalar::<_, i64>(left).fetch_one(&mut raw).await.unwrap() < 25_000 {
                    break;
                }
                pause(Duration::from_millis(100)).await;
            }
        };
        within(EPSILON * 10, "no dead row is left", vacuumed).await;
        let index = execute(&mut raw, "CREATE INDEX CONCURRENTLY ON theirs (id)");
        within(EPSILON * 10, "an index", index).await;
        execute(&mut raw, "DROP TABLE theirs").await;
        guard.release().await.unwrap();
        within(Duration::from_secs(10), "a turn", waiting.join()).await;
    }
}

/// What a session holds needs no table, and no right to write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_what_sessions_hold_outlasts_locked_tables_and_a_switch_to_read_only() {
    let server = server();
    let ttl = Duration::from_secs(5);
    let store = builder(&server.url(), MutexMode::Session).session_ttl(ttl).connect().await.unwrap();
    let lock = async |name: &str| store.mutex(name, MutexOptions::default()).unwrap().lock().await.unwrap();
    let (first, second) = (lock("first").await, lock("second").await);
    // Others are tried meanwhile, and refused: what is held does not suffer from it.
    let other = store.clone();
    let trying = spawn(async move {
        for number in 0_u32.. {
            let mutex = other.mutex(&format!("other {number}"), MutexOptions::default()).unwrap();
            drop(mutex.try_lock().await);
            pause(Duration::from_millis(5)).await;
        }
    });
    let mut raw = PgConnection::connect(&server.url()).await.unwrap();
    execute(&mut raw, "BEGIN").await;
    for table in ["objects", "waiters", "processes", "session_evictions"] {
        execute(&mut raw, &format!("LOCK TABLE stanchion.{table} IN ACCESS EXCLUSIVE MODE")).await;
    }
    pause(ttl + EPSILON).await;
    assert!(first.is_held() && second.is_held(), "tables were locked");
    within(EPSILON, "a release needs no table", first.release()).await.unwrap();
    execute(&mut raw, "COMMIT").await;
    execute(&mut raw, "ALTER SYSTEM SET default_transaction_read_only = on").await;
    execute(&mut raw, "SELECT pg_reload_conf()").await;
    pause(ttl + EPSILON).await;
    assert!(second.is_held(), "a switch to read-only");
    trying.cancel().await;
    within(EPSILON, "a release writes nothing", second.release()).await.unwrap();
    execute(&mut raw, "SET default_transaction_read_only = off; ").await;
    execute(&mut raw, "ALTER SYSTEM RESET default_transaction_read_only").await;
    execute(&mut raw, "SELECT pg_reload_conf()").await;
    let third = store.mutex("third", MutexOptions::default()).unwrap();
    within(EPSILON * 10, "locks are had again", third.lock()).await.unwrap().release().await.unwrap();
}

/// The queue of one mutex is locked by somebody else: those who wait for others are served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_locked_queue_delays_its_own_name_only() {
    let server = server();
    for mode in MODES {
        let connect = || async { builder(&server.url(), mode).session_ttl(TTL).connect().await.unwrap() };
        let (holder, waiter) = (connect().await, connect().await);
        let names: Vec<_> = (0..12).map(|number| format!("m{number}")).collect();
        let mut held = Vec::new();
        for name in &names {
            let mutex = holder.mutex(name, MutexOptions::default().ttl(TTL)).unwrap();
            held.push(definite(|| mutex.lock_for(EPSILON * 20)).await.unwrap().unwrap());
        }
        // Its row is there, since somebody has waited.
        let mutex = waiter.mutex("m7", MutexOptions::default().ttl(TTL)).unwrap();
        assert!(definite(|| mutex.lock_for(EPSILON / 2)).await.unwrap().is_none());
        let mut neighbour = PgConnection::connect(&server.url()).await.unwrap();
        execute(&mut neighbour, "BEGIN").await;
        execute(&mut neighbour, "SELECT FROM stanchion.objects WHERE name = 'm7' FOR UPDATE").await;
        let waiting: Vec<_> = names
            .iter()
            .map(|name| {
                let mutex = waiter.mutex(name, MutexOptions::default().ttl(TTL)).unwrap();
                spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() })
            })
            .collect();
        for (name, guard) in names.iter().zip(held).filter(|(name, _)| *name != "m7") {
            let mutex = holder.mutex(name, MutexOptions::default().ttl(TTL)).unwrap();
            let queued = || async { mutex.inspect().await.is_ok_and(|seen| seen.waiters == 1) };
            eventually(EPSILON * 3, &format!("{mode:?}: a waiter of {name}"), queued).await;
            guard.release().await.unwrap();
        }
        for (name, task) in names.iter().zip(waiting) {
            if name == "m7" {
                execute(&mut neighbour, "COMMIT").await;
            }
            within(EPSILON * 3, &format!("{mode:?}: a turn on {name}"), task.join()).await;
        }
    }
}

/// What nobody waits for (releases of dropped guards, cancels) and what is asked for all who wait
/// leaves together: what is about a locked row holds up nothing else, however often it fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c27_a_locked_row_delays_no_release_cancel_or_poll_of_another() {
    let server = server();
    let rows = "SELECT FROM stanchion.objects WHERE name IN ('locked', 'mine') FOR UPDATE";
    let holds =
        "SELECT FROM stanchion.holds h JOIN stanchion.objects o ON o.id = h.object WHERE o.name = 'mine'
                 FOR UPDATE OF h";
    let waiters =
        "SELECT FROM stanchion.waiters w JOIN stanchion.objects o ON o.id = w.object WHERE o.name = 'locked'
                   FOR UPDATE OF w";
    let lease = MutexMode::Lease;
    for (mode, lock) in [(MutexMode::Session, rows), (lease, rows), (lease, holds), (lease, waiters)] {
        let connect = || async { builder(&server.url(), mode).session_ttl(TTL).connect().await.unwrap() };
        let (near, far) = (connect().await, connect().await);
        let mutex =
            |store: &PostgresStore, name: &str| store.mutex(name, MutexOptions::default().ttl(TTL)).unwrap();
        let waiter = |name: &str| {
            let mutex = mutex(&near, name);
            spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() })
        };
        let waiters = |name: &str, count: u64| {
            let mutex = mutex(&far, name);
            async move { mutex.inspect().await.is_ok_and(|seen| seen.waiters == count) }
        };
        let take = async |store: &PostgresStore, name: &str| {
            let mutex = mutex(store, name);
            definite(|| mutex.lock_for(EPSILON * 20)).await.unwrap().unwrap()
        };
        let (mine, _held, _other) =
            (take(&near, "mine").await, take(&far, "locked").await, take(&far, "other").await);
        let mut waiting: Vec<_> = (0..6).map(|_| waiter("locked")).collect();
        eventually(EPSILON * 20, "waiters", || waiters("locked", 6)).await;
        drop(far.mutex("mine", MutexOptions::default().ttl(TTL)).unwrap().try_lock().await.unwrap());
        let mut neighbour = PgConnection::connect(&server.url()).await.unwrap();
        execute(&mut neighbour, "BEGIN").await;
        execute(&mut neighbour, lock).await;
        drop(mine);
        while let Some(cancelled) = waiting.pop() {
            // Now, and while it fails again.
            drop(cancelled);
            for _ in 0..2 {
                let guard = take(&near, "free").await;
                drop(guard);
                let (watch, free) = (Stopwatch::start(), mutex(&far, "free"));
                let is_free = || async { matches!(free.try_lock().await, Ok(Some(_))) };
                eventually(EPSILON * 20, "a mutex that was dropped", is_free).await;
                assert!(watch.elapsed() < EPSILON, "{mode:?} {lock}: a release took {:?}", watch.elapsed());

                let queued = waiter("other");
                eventually(EPSILON * 20, "a waiter", || waiters("other", 1)).await;
                drop(queued);
                let watch = Stopwatch::start();
                eventually(EPSILON * 20, "no waiter", || waiters("other", 0)).await;
                assert!(watch.elapsed() < EPSILON, "{mode:?} {lock}: a cancel took {:?}", watch.elapsed());
            }
        }
        execute(&mut neighbour, "COMMIT").await;
        eventually(EPSILON * 20, "no waiter", || waiters("locked", 0)).await;
        take(&far, "mine").await.release().await.unwrap();
    }
}

/// A call waits for a table that somebody else has locked, as it does for a row, for as long as its
/// own time allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c17_a_locked_table_ends_no_call_before_its_time() {
    let server = server();
    let store = builder(&server.url(), MutexMode::Lease).connect().await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    let limiter = store.limiter("l", LimiterOptions::new(Quota::per_second(1_000).burst(1_000))).unwrap();
    mutex.try_lock().await.unwrap().unwrap().release().await.unwrap();
    limiter.allow().await.unwrap();
    let mut neighbour = PgConnection::connect(&server.url()).await.unwrap();
    for table in ["limiters", "objects", "holds"] {
        execute(&mut neighbour, "BEGIN").await;
        execute(&mut neighbour, &format!("LOCK TABLE stanchion.{table} IN ACCESS EXCLUSIVE MODE")).await;
        let (locked, decided, ()) = tokio::join!(
            async { mutex.try_lock().await.unwrap().unwrap().release().await },
            async {
                for decision in futures_util::future::join_all((0..10).map(|_| limiter.allow())).await {
                    decision?;
                }
                Ok::<_, stanchion_core::Error>(())
            },
            async {
                pause(EPSILON * 2).await;
                execute(&mut neighbour, "COMMIT").await;
            }
        );
        locked.unwrap_or_else(|error| panic!("{table}, the mutex: {error}"));
        decided.unwrap_or_else(|error| panic!("{table}, the limiter: {error}"));
    }
}
