//! Tests of when the functions read the clock, what they find then, and which settings their
//! transaction has.

use stanchion_conformance::steps::StepCalls;
use stanchion_conformance::steps::drive::*;
use stanchion_conformance::support::{pause, spawn, within};
use stanchion_core::spi::{Acquire, Attach, Cancel, Force, Split};

use super::*;

const LEASE: i64 = 30_000_000;
/// Timeout of a step's wait for a record.
const RECORD_TIMEOUT: Duration = Duration::from_secs(4);

/// Times of an object of the namespace, each of which shows the time that a step has read.
const EXPIRY: &str = "SELECT max(h.expiry) FROM stanchion.holds h JOIN stanchion.objects x ON x.id = h.object WHERE x.namespace = $N";
const TOMBSTONE: &str = "SELECT max(t.expiry) FROM stanchion.tombstones t JOIN stanchion.objects x ON x.id = t.object WHERE x.namespace = $N";
const NOTED: &str = "SELECT max(w.noted) FROM stanchion.watchers w JOIN stanchion.objects x ON x.id = w.object WHERE x.namespace = $N";
const TOUCHED: &str = "SELECT max(touched) FROM stanchion.objects WHERE namespace = $N";
const HEARD: &str = "SELECT max(heard) FROM stanchion.processes WHERE namespace = $N";

/// Ends the lease of a hold in the tables.
const OVER: [&str; 2] = [
    "UPDATE stanchion.holds h SET expiry = 1 FROM stanchion.objects x \
     WHERE x.id = h.object AND x.namespace = $N AND h.label = 'dead'",
    "UPDATE stanchion.objects SET next = 1 WHERE namespace = $N",
];

/// Runs a step that waits for its records, and checks that the time which it wrote is not before
/// they were free.
async fn reads_after_its_wait<T: Send + 'static>(
    fixture: &Fixture,
    written: (&str, i64),
    step: impl Future<Output = T> + Send + 'static,
) {
    let mut raw = fixture.raw().await;
    fixture.execute(&mut raw, "BEGIN").await;
    fixture.execute(&mut raw, "SELECT id FROM stanchion.objects WHERE namespace = $N FOR UPDATE").await;
    let step = spawn(step);
    let waiting =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
    within(RECORD_TIMEOUT, "it waits for the record", async {
        while fixture.number(&mut raw, waiting).await == 0 {
            pause(Duration::from_millis(2)).await;
        }
    })
    .await;
    let free = fixture.number(&mut raw, "SELECT stanchion.now()").await;
    fixture.execute(&mut raw, "COMMIT").await;
    step.join().await;
    let (what, later) = written;
    let read = fixture.number(&mut raw, what).await - later;
    assert!(read >= free, "{what}: read {} us before the record was free", free - read);
}

fn attach(held: &Acquire) -> Attach {
    let object = held.object.clone();
    Attach { object, from: held.ticket, to: Ticket::random(), lease: held.lease, label: None }
}

fn split(held: &Acquire) -> Split {
    Split { lease: held.lease, ..split_of(held) }
}

#[tokio::test]
async fn c7_steps_at_holds_read_the_clock_once_they_have_the_record() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let own = || Arc::clone(&process.own);
    let held = ask_many(&semaphore("s"), 1, 5);
    granted(&process, &held).await;
    let (steps, renewed) = (own(), [renewal(&held)]);
    reads_after_its_wait(&fixture, (EXPIRY, LEASE), async move { steps.renew(&renewed).await }).await;
    let (steps, attached) = (own(), attach(&held));
    let held = Acquire { ticket: attached.to, ..held };
    reads_after_its_wait(&fixture, (EXPIRY, LEASE), async move { steps.attach(&attached).await }).await;
    let (steps, object) = (own(), held.object.clone());
    reads_after_its_wait(&fixture, (TOUCHED, 0), async move { steps.resize(&object, 4).await }).await;
    let (steps, released) = (own(), [freeing(&held, None)]);
    reads_after_its_wait(&fixture, (TOUCHED, 0), async move { steps.release(&released).await }).await;
    let held = ask_many(&held.object, 1, 4);
    granted(&process, &held).await;
    let (steps, object) = (own(), held.object.clone());
    reads_after_its_wait(&fixture, (TOUCHED, 0), async move { steps.force(&object, Force::All).await }).await;
    let (steps, lease) = (own(), held.lease);
    let cancelled =
        [Cancel { object: held.object.clone(), ticket: Ticket::random(), tombstone: Some(lease) }];
    reads_after_its_wait(&fixture, (TOMBSTONE, LEASE), async move { steps.cancel(&cancelled).await }).await;
}

#[tokio::test]
async fn c7_steps_at_queues_and_groups_read_the_clock_once_they_have_the_record() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let own = || Arc::clone(&process.own);
    granted(&process, &ask(&mutex("m"))).await;
    waits(&process, &ask(&mutex("m"))).await;
    // A process that was marked live a moment ago is not marked again; wait for longer than that.
    pause(Duration::from_millis(150)).await;
    // A poll that has nothing to change waits for no record.
    let mut raw = fixture.raw().await;
    fixture.execute(&mut raw, OVER[1]).await;
    let (steps, polled) = (own(), [mutex("m")]);
    reads_after_its_wait(&fixture, (HEARD, 0), async move { steps.poll(&polled).await }).await;
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let own = || Arc::clone(&process.own);
    let whole = members(&wait_group("g"), 3);
    granted(&process, &whole).await;
    let (steps, parts) = (own(), split(&whole));
    reads_after_its_wait(&fixture, (EXPIRY, LEASE), async move { steps.split(&parts).await }).await;
    let (steps, watched) = (own(), [watching(&whole.object, Some(0), Ticket::random())]);
    reads_after_its_wait(&fixture, (NOTED, 0), async move { steps.look(&watched).await }).await;
}

/// Every step that finds an expired hold wakes the next waiters.
#[tokio::test]
async fn c14_every_step_that_finds_an_expired_hold_wakes_the_next() {
    for step in 0..6 {
        let fixture = Fixture::shared();
        let (first, second) = (fixture.process().await, fixture.process().await);
        let object = if step < 4 { semaphore("s") } else { wait_group("g") };
        let kept = ask_many(&object, 2, 3);
        let dead = Acquire { label: Some("dead".into()), ..ask_many(&object, 1, 3) };
        let waiter = ask_many(&object, 1, 3);
        granted(&first, &kept).await;
        granted(&first, &dead).await;
        waits(&second, &waiter).await;
        let mut raw = fixture.raw().await;
        for over in OVER {
            fixture.execute(&mut raw, over).await;
        }
        match step {
            0 => drop(first.own.renew(&[renewal(&kept)]).await),
            1 => drop(first.own.attach(&attach(&kept)).await),
            2 => drop(first.own.release(&[freeing(&ask(&object), None)]).await),
            3 => cancel(&first, &ask(&object)).await,
            4 => drop(first.own.split(&split(&kept)).await),
            _ => {
                look(&first, &object, None).await;
            }
        }
        assert_eq!(second.hint().await, waiter.ticket, "step {step}");
    }
}

#[tokio::test]
async fn c2_c24_a_late_copy_of_the_acquire_of_an_attached_hold_is_refused_as_long_as_it_would_have_lasted() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let held = ask(&mutex("m"));
    granted(&process, &held).await;
    let attached = process.own.attach(&Attach { lease: ttl(1_000), ..attach(&held) }).await;
    assert!(attached.unwrap().is_some());
    let mut raw = fixture.raw().await;
    let until = fixture.number(&mut raw, TOMBSTONE).await;
    let granted = "SELECT max(h.granted) FROM stanchion.holds h JOIN stanchion.objects x ON x.id = h.object WHERE x.namespace = $N";
    assert_eq!(until - fixture.number(&mut raw, granted).await, LEASE);
}

/// Settings that a session of the user, or one behind a pooler, may have.
const FOREIGN: &str =
    "SET synchronous_commit = off; SET plan_cache_mode = auto; SET enable_seqscan = on; SET jit = on";
/// A call of each function that a client calls, with nothing to do.
const CALLS: [&str; 12] = [
    "acquire($N, gen_random_uuid(), 1, 1, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
    "renew($N, 1, '{}', '{}', '{}', '{}', '{}')",
    "release($N, 1, '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
    "cancel($N, 1, '{}', '{}', '{}', '{}', '{}')",
    "poll($N, gen_random_uuid(), 1, 1, '{}', '{}')",
    "attach($N, 1, 'm', 'x', gen_random_uuid(), gen_random_uuid(), 1, NULL)",
    "resize($N, 1, 's', 'x', 1)",
    "force($N, 1, 's', 'x', NULL)",
    "look($N, gen_random_uuid(), 1, '{}', '{}', '{}', '{}')",
    "split($N, 1, 'w', 'x', gen_random_uuid(), 1, '{}')",
    "limit_decide($N, 1, gen_random_uuid(), 1, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
    "limit_refund($N, 1, '{}', '{}', '{}')",
];

#[tokio::test]
async fn c22_a_step_waits_for_the_disk_and_plans_alike_whatever_the_session_is_set_to() {
    let fixture = Fixture::shared();
    fixture.make_schema().await;
    let mut raw = fixture.raw().await;
    sqlx::raw_sql(FOREIGN).execute(&mut raw).await.unwrap();
    for call in CALLS {
        fixture.execute(&mut raw, "BEGIN").await;
        fixture.execute(&mut raw, &format!("SELECT stanchion.{call}")).await;
        let set = ["synchronous_commit", "plan_cache_mode", "enable_seqscan", "jit"]
            .map(|name| format!("current_setting('{name}')"));
        let rows = fixture.execute(&mut raw, &format!("SELECT concat_ws(' ', {})", set.join(", "))).await;
        assert_eq!(rows[0].get::<String, _>(0), "on force_generic_plan off off", "{call}");
        fixture.execute(&mut raw, "ROLLBACK").await;
    }
}

/// A price that keeps the planner from scans of whole tables would make the server compile each
/// such statement, for 40 to 120 ms with a snapshot (C30).
#[tokio::test]
async fn c30_a_session_of_the_store_compiles_no_statement() {
    let fixture = Fixture::shared();
    fixture.make_schema().await;
    let builder = crate::PostgresBuilder::new(&fixture.url).unwrap().schema(fixture.schema.name());
    let (opened, view) = builder.open(None).await.unwrap();
    let steps = opened.steps(&view.context);
    let setting =
        fixture.schema.statement("SELECT current_setting('enable_seqscan'), current_setting('jit')");
    for pool in steps.iter().map(|steps| steps.pool()) {
        let rows = pool.rows(&setting, sqlx::postgres::PgArguments::default()).await.unwrap();
        assert_eq!((rows[0].get::<&str, _>(0), rows[0].get::<&str, _>(1)), ("off", "off"));
    }
}
