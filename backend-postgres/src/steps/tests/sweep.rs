//! Tests of the sweep and of the views.

use stanchion_conformance::steps::drive::*;
use stanchion_core::spi::{Acquire, Kept};
use tokio::task::JoinSet;

use super::*;

const ROWS: &str = "
SELECT (SELECT count(*) FROM stanchion.objects WHERE namespace = $N)
     + (SELECT count(*) FROM stanchion.processes WHERE namespace = $N)
     + (SELECT count(*) FROM stanchion.grace WHERE namespace = $N)
     + (SELECT count(*) FROM stanchion.holds h WHERE NOT EXISTS (SELECT FROM stanchion.objects x WHERE x.id = h.object))
     + (SELECT count(*) FROM stanchion.waiters h WHERE NOT EXISTS (SELECT FROM stanchion.objects x WHERE x.id = h.object))
     + (SELECT count(*) FROM stanchion.watchers h WHERE NOT EXISTS (SELECT FROM stanchion.objects x WHERE x.id = h.object)
        AND h.noted < stanchion.now() - 10000000)
     + (SELECT count(*) FROM stanchion.tombstones h WHERE NOT EXISTS (SELECT FROM stanchion.objects x WHERE x.id = h.object)
        AND h.expiry < stanchion.now())";

/// Moves all rows 20 s into the past.
const EARLIER: [&str; 5] = [
    "UPDATE stanchion.objects SET expires = expires - 20000000",
    "UPDATE stanchion.holds SET expiry = expiry - 20000000",
    "UPDATE stanchion.tombstones SET expiry = expiry - 20000000",
    "UPDATE stanchion.watchers SET noted = noted - 20000000",
    "UPDATE stanchion.processes SET kept = kept - 20000000",
];

#[tokio::test]
async fn c25_the_sweep_leaves_no_row() {
    let moment = Duration::from_secs(10);
    // In a schema of its own, which has no tombstones or watchers of other namespaces.
    let fixture = Fixture::shared().changed(&[]).retaining(moment, moment);
    let process = fixture.process().await;
    for object in [mutex("m"), semaphore("s"), wait_group("g")] {
        // No lease ends by itself, and all have ended once the rows are moved.
        let lease = ttl(5_000);
        let held = Acquire { lease, ..ask(&object) };
        granted(&process, &held).await;
        waits(&process, &Acquire { lease, ..ask(&object) }).await;
        poll(&process, &object).await;
        cancel(&process, &Acquire { lease, ..ask(&object) }).await;
    }
    look(&process, &wait_group("g"), Some(0)).await;
    let mut raw = fixture.raw().await;
    let sweep = "SELECT stanchion.sweep_permits($N, 2)";
    fixture.number(&mut raw, sweep).await;
    assert!(
        fixture.number(&mut raw, "SELECT count(*) FROM stanchion.objects WHERE namespace = $N").await == 3
    );
    for earlier in EARLIER {
        fixture.execute(&mut raw, earlier).await;
    }
    let mut sweeps = 0;
    while fixture.number(&mut raw, sweep).await > 0 {
        sweeps += 1;
        assert!(sweeps < 1_000);
    }
    assert_eq!(fixture.number(&mut raw, ROWS).await, 0);
    // A swept name is used again.
    granted(&process, &ask(&mutex("m"))).await;
    added(&process, &wait_group("g")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c25_sweeps_and_uses_of_the_same_names_do_each_other_no_harm() {
    let moment = Duration::from_millis(1);
    let fixture = Arc::new(Fixture::shared().retaining(moment, moment));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let process = fixture.process().await;
        tasks.spawn(async move {
            for round in 0..80 {
                let request = Acquire {
                    lease: ttl(5_000),
                    queue: false,
                    ..members(&wait_group(&format!("g{}", round % 3)), 1)
                };
                granted(&process, &request).await;
                assert_eq!(release(&process, &request).await, Kept::Yes);
                sleep(Duration::from_millis(round % 7)).await;
            }
        });
        let fixture = Arc::clone(&fixture);
        tasks.spawn(async move {
            let mut raw = fixture.raw().await;
            for _ in 0..100 {
                // Ends the retention. Rows are locked in one order: two such statements would end
                // in a deadlock.
                let idle = "WITH free AS (SELECT id FROM stanchion.objects WHERE namespace = $N AND used = 0 \
                                          ORDER BY id FOR UPDATE) \
                            UPDATE stanchion.objects SET expires = 0 WHERE id IN (TABLE free)";
                fixture.execute(&mut raw, idle).await;
                fixture.number(&mut raw, "SELECT stanchion.sweep_permits($N, 100)").await;
                sleep(Duration::from_millis(3)).await;
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn c25_the_sweep_waits_for_no_record_in_use() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    for name in ["free", "used"] {
        granted(&process, &ask(&mutex(name))).await;
    }
    let (mut raw, mut other) = (fixture.raw().await, fixture.raw().await);
    fixture.execute(&mut raw, "UPDATE stanchion.objects SET expires = 0 WHERE namespace = $N").await;
    fixture.execute(&mut raw, "BEGIN").await;
    let used = "SELECT id FROM stanchion.objects WHERE namespace = $N AND name = 'used' FOR UPDATE";
    assert_eq!(fixture.execute(&mut raw, used).await.len(), 1);
    // A wait for the locked row would end with an error.
    fixture.execute(&mut other, "SET lock_timeout = '1s'").await;
    fixture.number(&mut other, "SELECT stanchion.sweep_permits($N, 100)").await;
    let names = "SELECT string_agg(name, ' ') FROM stanchion.objects WHERE namespace = $N";
    assert_eq!(fixture.execute(&mut other, names).await[0].get::<String, _>(0), "used");
    fixture.execute(&mut raw, "COMMIT").await;
    fixture.number(&mut other, "SELECT stanchion.sweep_permits($N, 100)").await;
    let left = "SELECT count(*) FROM stanchion.objects WHERE namespace = $N";
    assert_eq!(fixture.number(&mut other, left).await, 0);
}

#[tokio::test]
async fn the_views_show_names_times_and_labels() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let object = mutex("shown");
    granted(&process, &Acquire { label: Some("by whom".into()), ..ask(&object) }).await;
    waits(&process, &ask(&object)).await;
    let mut raw = fixture.raw().await;
    let shown = "SELECT kind || ' ' || name || ' ' || label FROM stanchion.holders WHERE namespace = $N \
                 AND lease_left BETWEEN interval '20 s' AND interval '30 s' AND granted > now() - interval '1 min'";
    let rows = fixture.execute(&mut raw, shown).await;
    assert_eq!(rows[0].get::<String, _>(0), "mutex shown by whom");
    let queued = "SELECT count(*) FROM stanchion.waiting WHERE namespace = $N AND name = 'shown' \
                  AND heard > now() - interval '1 min'";
    assert_eq!(fixture.number(&mut raw, queued).await, 1);
}
