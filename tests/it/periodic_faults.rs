//! Periodic jobs whose runs fail, whose notes are lost, and that are told to end as a run succeeds.

#![cfg(feature = "memory")]

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use stanchion::memory::MemoryStore;
use stanchion::{
    Capabilities, Decision, ElectionHandle, ElectionOptions, Error, ErrorKind, ExactQuota, Limiter,
    LimiterOptions, ListOptions, ListPage, Mutex, MutexOptions, Quota, Reservation, Result, Semaphore,
    SemaphoreOptions, Stats, Store, StoreExt, WaitGroup, WaitGroupOptions,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const JOB: &str = "jobs/report";
const MINUTE: Duration = Duration::from_secs(60);

/// A store on which charging a bucket takes time, and whose first answers to that are an error.
#[derive(Debug)]
struct Slow {
    store: MemoryStore,
    errors: Arc<AtomicUsize>,
    kind: ErrorKind,
}

#[derive(Debug)]
struct SlowLimiter {
    limiter: Arc<dyn Limiter>,
    errors: Arc<AtomicUsize>,
    kind: ErrorKind,
}

impl Slow {
    fn new(errors: usize, kind: ErrorKind) -> Self {
        Self { store: MemoryStore::new(), errors: Arc::new(AtomicUsize::new(errors)), kind }
    }
}

#[async_trait]
impl Store for Slow {
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        self.store.mutex(name, options)
    }

    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        self.store.semaphore(name, options)
    }

    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        self.store.wait_group(name, options)
    }

    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        let limiter = self.store.limiter(name, options)?;
        Ok(Arc::new(SlowLimiter { limiter, errors: Arc::clone(&self.errors), kind: self.kind }))
    }

    async fn list(&self, options: ListOptions) -> Result<ListPage> {
        self.store.list(options).await
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    async fn ping(&self) -> Result<()> {
        self.store.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

#[async_trait]
impl Limiter for SlowLimiter {
    fn name(&self) -> &str {
        self.limiter.name()
    }

    async fn allow_n(&self, cost: u64) -> Result<Decision> {
        sleep(Duration::from_millis(1)).await;
        let decision = self.limiter.allow_n(cost).await?;
        let is_error = |left: usize| (cost > 0).then(|| left.checked_sub(1)).flatten();
        match self.errors.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_error) {
            Ok(_) => Err(Error::new(self.kind, "no note")),
            Err(_) => Ok(decision),
        }
    }

    async fn reserve_n(&self, cost: u64, max_wait: Duration) -> Result<Option<Reservation>> {
        self.limiter.reserve_n(cost, max_wait).await
    }

    async fn wait_n(&self, cost: u64) -> Result<()> {
        self.limiter.wait_n(cost).await
    }

    async fn wait_n_for(&self, cost: u64, timeout: Duration) -> Result<bool> {
        self.limiter.wait_n_for(cost, timeout).await
    }

    async fn quota(&self) -> Result<ExactQuota> {
        self.limiter.quota().await
    }

    async fn set_quota(&self, quota: Quota) -> Result<()> {
        self.limiter.set_quota(quota).await
    }

    async fn reset(&self) -> Result<()> {
        self.limiter.reset().await
    }
}

/// The time from the first to each of the runs.
#[derive(Clone, Default)]
struct Runs(Arc<StdMutex<Vec<Instant>>>);

impl Runs {
    fn add(&self) -> usize {
        let mut runs = self.0.lock().unwrap();
        runs.push(Instant::now());
        runs.len()
    }

    fn times(&self) -> Vec<Duration> {
        let runs = self.0.lock().unwrap();
        runs.iter().map(|run| *run - runs[0]).collect()
    }
}

/// Half of the runs return an error, half of them panic.
#[tokio::test(start_paused = true)]
async fn c27_runs_that_fail_are_repeated_at_growing_intervals() {
    let store = MemoryStore::new();
    let runs = Runs::default();
    let mut instances = JoinSet::new();
    for _ in 0..3 {
        let runs = runs.clone();
        let job = store.every(JOB, MINUTE * 60 * 24, ElectionOptions::new(), move |_| {
            let runs = runs.clone();
            async move {
                assert!(runs.add() % 2 == 0, "as every second run");
                Err("as the others")
            }
        });
        instances.spawn(job.unwrap().run());
    }
    sleep(MINUTE * 60).await;
    let times = runs.times();
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.is_sorted(), "{gaps:?}");
    // Three instances, whose intervals grow from 1 s to 5 minutes: 1, 1, 1, 2, 2, 2, …, 256, 256,
    // 256, and 300 for the rest.
    assert!((25..40).contains(&times.len()), "{times:?}");
    assert!(gaps.last().unwrap() <= &(MINUTE * 5 + Duration::from_secs(1)), "{gaps:?}");
    assert_eq!(instances.len(), 3);
    assert!(instances.try_join_next().is_none(), "none has ended");
}

/// What is charged twice puts the next run off.
#[tokio::test(start_paused = true)]
async fn c2_a_note_whose_answers_are_lost_is_made_once() {
    let store = Slow::new(2, ErrorKind::Unknown);
    let runs = Runs::default();
    let job = store.every(JOB, MINUTE, ElectionOptions::new(), async |_| {
        runs.add();
        sleep(MINUTE * 2 / 3).await;
        Ok::<_, Infallible>(())
    });
    drop(timeout(MINUTE * 7 / 2, job.unwrap().run()).await);
    let times = runs.times();
    assert_eq!(times.len(), 4, "{times:?}");
    assert!(times[3] < MINUTE * 3 + Duration::from_secs(1), "{times:?}");
    assert_eq!(store.errors.load(Ordering::Relaxed), 0);
}

/// As with a role that has rights for mutexes alone.
#[tokio::test(start_paused = true)]
async fn c17_a_note_that_is_refused_for_good_ends_the_job() {
    let store = Slow::new(1, ErrorKind::Unauthorized);
    let job = store.every(JOB, MINUTE, ElectionOptions::new(), async |_| Ok::<_, Infallible>(()));
    let ended = timeout(MINUTE, job.unwrap().run_while(pending::<()>())).await.expect("it ends");
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Unauthorized);
}

/// The order comes while the note is made.
#[tokio::test(start_paused = true)]
async fn a_run_that_has_succeeded_is_noted_before_the_lead_ends() {
    for order in [ElectionHandle::withdraw, ElectionHandle::step_down] {
        let store = Slow::new(0, ErrorKind::Unknown);
        let runs = Runs::default();
        let handle = OnceLock::new();
        let job = async |_| {
            runs.add();
            if let Some(handle) = handle.get() {
                order(handle);
            }
            Ok::<_, Infallible>(())
        };
        let first = store.every(JOB, MINUTE, ElectionOptions::new(), job).unwrap();
        handle.get_or_init(|| first.handle());
        let second = store.every(JOB, MINUTE, ElectionOptions::new(), async |_| {
            runs.add();
            pending::<Result<(), Infallible>>().await
        });
        let both = async { tokio::join!(first.run(), second.unwrap().run()) };
        drop(timeout(MINUTE / 2, both).await);
        assert_eq!(runs.times().len(), 1);
    }
}

/// The program's server, for instance, ends while the note is made.
#[tokio::test(start_paused = true)]
async fn c12_the_job_ends_with_the_work_that_it_runs_beside() {
    let store = Slow::new(0, ErrorKind::Unknown);
    let (runs, label) = (Runs::default(), String::from("host a"));
    let job = || {
        store.every(JOB, MINUTE, ElectionOptions::new().label(&label), async |_| {
            runs.add();
        })
    };
    let until_it_ran = async {
        while runs.times().is_empty() {
            sleep(Duration::from_micros(100)).await;
        }
        "served"
    };
    assert_eq!(job().unwrap().run_while(until_it_ran).await.unwrap(), "served");
    assert!(store.mutex(JOB, MutexOptions::new()).unwrap().try_lock().await.unwrap().is_some());
    // It has noted its run, so nobody repeats it.
    job().unwrap().run_while(sleep(MINUTE / 2)).await.unwrap();
    assert_eq!(runs.times().len(), 1);
    // Work goes on without a job that has ended in order.
    let closing = async {
        store.close().await.unwrap();
        sleep(MINUTE * 2).await;
        "served all the same"
    };
    assert_eq!(job().unwrap().run_while(closing).await.unwrap(), "served all the same");
}

/// As an operator does who wants a run now.
#[tokio::test(start_paused = true)]
async fn c25_a_note_that_is_gone_is_missed_within_a_minute() {
    let store = MemoryStore::new();
    let runs = Runs::default();
    let job = store.every(JOB, MINUTE * 60, ElectionOptions::new(), async |_| {
        runs.add();
        Ok::<_, Infallible>(())
    });
    let reset = async {
        sleep(MINUTE * 5).await;
        store.limiter(JOB, LimiterOptions::new(Quota::per_second(1))).unwrap().reset().await.unwrap();
        sleep(MINUTE * 2).await;
    };
    tokio::select! {
        ended = job.unwrap().run() => panic!("{ended:?}"),
        () = reset => {}
    }
    let times = runs.times();
    assert_eq!(times.len(), 2, "{times:?}");
    assert!(times[1] <= MINUTE * 6 + Duration::from_secs(1), "{times:?}");
}
