//! Jobs that run once in each period on one instance.

#![cfg(all(feature = "memory", feature = "postgres", feature = "redis"))]

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stanchion::memory::{ManualClock, MemoryStore};
use stanchion::{ElectionOptions, ErrorKind, FencingToken, LimiterOptions, Quota, Store, StoreExt};
use stanchion_conformance::support::{definite, eventually, within};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const JOB: &str = "jobs/report";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
/// By so much a run takes longer than the one before.
const STEP: Duration = Duration::from_secs(7);
/// Far above what a run takes, and far below a period.
const SOON: Duration = Duration::from_secs(20);

fn options() -> ElectionOptions {
    ElectionOptions::new().ttl(Duration::from_secs(2)).pause(Duration::from_millis(50))
}

/// The runs of all instances: their fencing tokens.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<FencingToken>>>);

impl Runs {
    fn add(&self, token: FencingToken) {
        self.0.lock().unwrap().push(token);
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn last(&self) -> FencingToken {
        *self.0.lock().unwrap().last().unwrap()
    }

    /// Waits for a run, the one with this number.
    async fn reach(&self, count: usize) {
        let reached = async {
            while self.count() < count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        within(SOON, "a run", reached).await;
    }
}

/// Waits until the store has the note of a run.
async fn noted(store: &dyn Store) {
    let bucket = store.limiter(JOB, LimiterOptions::new(Quota::per_second(1))).unwrap();
    let is_noted = async || !definite(|| bucket.peek()).await.unwrap().reset_after.is_zero();
    eventually(SOON, "a note", is_noted).await;
}

/// Runs an instance whose runs succeed.
async fn succeeds(store: &dyn Store, period: Duration, runs: &Runs) -> stanchion::Result<()> {
    let job = store.every(JOB, period, options(), async |token| {
        runs.add(token);
        Ok::<_, Infallible>(())
    });
    job?.run().await
}

#[tokio::test(start_paused = true)]
async fn c7_every_period_has_one_run() {
    let store: Arc<dyn Store> = stanchion::connect("memory:").await.unwrap();
    let starts = Arc::new(Mutex::new(Vec::new()));
    let running = Arc::new(tokio::sync::Semaphore::new(1));
    let mut instances = JoinSet::new();
    for _ in 0..3 {
        let (starts, running) = (Arc::clone(&starts), Arc::clone(&running));
        let job = store.every(JOB, MINUTE, options(), move |_| {
            let (starts, running) = (Arc::clone(&starts), Arc::clone(&running));
            async move {
                let _alone = running.try_acquire().expect("one at a time");
                let begun = {
                    let mut starts = starts.lock().unwrap();
                    starts.push(Instant::now());
                    u32::try_from(starts.len()).unwrap()
                };
                // Longer and longer, in the end longer than the period.
                sleep(STEP * begun).await;
                Ok::<_, Infallible>(())
            }
        });
        instances.spawn(job.unwrap().run());
    }
    let begin = Instant::now();
    sleep(MINUTE * 9).await;
    instances.shutdown().await;
    let starts: Vec<_> = starts.lock().unwrap().iter().map(|start| start.duration_since(begin)).collect();
    assert_eq!(starts.len(), 9, "{starts:?}");
    for (index, pair) in (1..).zip(starts.windows(2)) {
        let least = MINUTE.max(STEP * index);
        // A timer of the runtime is late by a millisecond.
        assert!((least..least + Duration::from_millis(2)).contains(&(pair[1] - pair[0])), "{starts:?}");
    }
}

/// Each run begins a little late, and none of the later ones later.
#[tokio::test(start_paused = true)]
async fn c7_periods_do_not_grow() {
    let store: Arc<dyn Store> = stanchion::connect("memory:").await.unwrap();
    let starts = Arc::new(Mutex::new(Vec::new()));
    let job = store.every(JOB, MINUTE, options(), async |_| {
        starts.lock().unwrap().push(Instant::now());
        tokio::time::advance(Duration::from_micros(300)).await;
        Ok::<_, Infallible>(())
    });
    timeout(MINUTE * 100, job.unwrap().run()).await.expect_err("it goes on");
    let starts = starts.lock().unwrap();
    assert!(starts.len() >= 100, "{}", starts.len());
    for (number, start) in (0..).zip(&*starts) {
        let (since, due) = (start.duration_since(starts[0]), MINUTE * number);
        // A timer of the runtime is late by a millisecond.
        assert!((due..due + Duration::from_millis(3)).contains(&since), "{number}: {since:?}");
    }
}

/// Another version of the program runs it less often: what is due by the old period is due.
#[tokio::test(start_paused = true)]
async fn c7_a_longer_period_puts_off_nothing_that_is_due() {
    let store: Arc<dyn Store> = stanchion::connect("memory:").await.unwrap();
    let (runs, begin) = (Runs::default(), Instant::now());
    let fails = store.every(JOB, MINUTE, options(), async |_| Err("its own error")).unwrap();
    timeout(MINUTE, fails.run()).await.expect_err("it goes on");
    sleep(MINUTE * 6).await;
    tokio::select! {
        ended = succeeds(&*store, HOUR * 24, &runs) => panic!("{ended:?}"),
        () = runs.reach(1) => {}
    }
    assert!(begin.elapsed() < MINUTE * 8, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn c7_a_job_follows_a_clock_that_a_test_moves() {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let runs = Runs::default();
    let moves = async {
        for count in 1..=5 {
            runs.reach(count).await;
            noted(&store).await;
            assert_eq!(runs.count(), count);
            clock.advance(HOUR);
        }
        runs.reach(6).await;
    };
    tokio::select! {
        ended = succeeds(&store, HOUR, &runs) => panic!("{ended:?}"),
        () = moves => {}
    }
}

/// Checks one store. `connect` opens it as another process does.
async fn repeats_what_did_not_end(connect: impl AsyncFn() -> Arc<dyn Store>) {
    let (first, second) = (connect().await, connect().await);
    let runs = Runs::default();

    // An instance that goes away in the middle of its run.
    let leaves = first.every(JOB, HOUR, options(), async |token| {
        runs.add(token);
        pending::<Result<(), Infallible>>().await
    });
    tokio::select! {
        ended = leaves.unwrap().run() => panic!("{ended:?}"),
        () = runs.reach(1) => {}
    }
    // One whose run is overtaken, and one whose run fails.
    let overtaken = first.every(JOB, HOUR, options(), async |token| {
        runs.add(token);
        if runs.count() == 2 {
            assert!(second.mutex(JOB, Default::default()).unwrap().force_unlock().await.unwrap());
            pending::<()>().await;
        }
        Err("its own error")
    });
    tokio::select! {
        ended = overtaken.unwrap().run() => panic!("{ended:?}"),
        () = runs.reach(3) => {}
    }
    // The run that succeeds is the only one of this hour, whoever leads, and also for a process
    // that begins later.
    let (third, done) = (connect().await, Runs::default());
    let succeed = async { tokio::join!(succeeds(&*first, HOUR, &done), succeeds(&*second, HOUR, &done)) };
    tokio::select! {
        ended = succeed => panic!("{ended:?}"),
        () = noted(&*third) => {}
    }
    assert!(timeout(Duration::from_secs(1), succeeds(&*third, HOUR, &done)).await.is_err());
    assert_eq!(done.count(), 1);
    runs.add(done.last());
    let tokens = runs.0.lock().unwrap().clone();
    assert!(tokens.is_sorted_by(|one, next| one < next), "a repeated run has a larger token: {tokens:?}");

    // Another version of the program, which runs it more often: what is left of the old period
    // counts no more.
    let often = Duration::from_millis(200);
    tokio::select! {
        ended = succeeds(&*third, often, &done) => panic!("{ended:?}"),
        () = done.reach(4) => {}
    }

    // What only the caller can solve ends it.
    let (mut closed, lives) = (Box::pin(succeeds(&*third, HOUR, &done)), timeout(often, pending::<()>()));
    tokio::select! {
        ended = &mut closed => panic!("{ended:?}"),
        _ = lives => {}
    }
    third.close().await.unwrap();
    assert_eq!(within(SOON, "the end", closed).await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_a_run_that_does_not_end_is_repeated_and_no_other_on_redis() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let url = server.url();
    repeats_what_did_not_end(async || stanchion::connect(&url).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_a_run_that_does_not_end_is_repeated_and_no_other_on_postgres() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let url = server.url();
    repeats_what_did_not_end(async || stanchion::connect(&url).await.unwrap()).await;
}

#[tokio::test]
async fn c21_a_period_has_bounds() {
    let store = stanchion::connect("memory:").await.unwrap();
    for period in [Duration::ZERO, Duration::from_micros(999), MINUTE * 60 * 24 * 367] {
        let job = store.every(JOB, period, options(), async |_| Ok::<_, Infallible>(()));
        assert_eq!(job.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn c27_terms_without_a_pause_leave_the_thread_to_other_tasks() {
    let (over, is_over) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store: Arc<dyn Store> = stanchion::connect("memory:").await.unwrap();
            let options = ElectionOptions::new().pause(Duration::ZERO);
            let candidate = store.elect(JOB, options, async |_| {}).unwrap();
            timeout(Duration::from_millis(50), candidate.run()).await.expect_err("it goes on");
        });
        over.send(()).unwrap();
    });
    is_over.recv_timeout(SOON).expect("the time limit is noticed");
}
