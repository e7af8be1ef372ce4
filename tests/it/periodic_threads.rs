//! Periodic jobs of threads.

#![cfg(all(feature = "blocking", feature = "memory", feature = "postgres", feature = "redis"))]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use stanchion::blocking::{Lost, Store, connect};
use stanchion::{
    ElectionHandle, ElectionOptions, ErrorKind, FencingToken, LimiterOptions, MutexOptions, Quota,
};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer};

const JOB: &str = "jobs/report";
const HOUR: Duration = Duration::from_secs(60 * 60);

fn options() -> ElectionOptions {
    ElectionOptions::new().ttl(Duration::from_secs(2)).pause(Duration::from_millis(50))
}

/// Waits until the store has the note that a run has succeeded, which puts the next one off by an
/// hour.
fn wait_for_note(store: &Store) {
    let bucket = store.limiter(JOB, LimiterOptions::new(Quota::per_second(1))).unwrap();
    while bucket.peek().unwrap().reset_after < HOUR / 2 {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Checks a store that two instances have opened.
fn one_run_is_noted(first: &Store, second: &Store) {
    let runs = AtomicUsize::new(0);
    let run = |other: &Store, lost: Lost<'_>| match runs.fetch_add(1, Ordering::Relaxed) {
        0 => panic!("as the first run"),
        1 => Err("its own error"),
        2 => {
            // Taken from it, while it is at work.
            assert!(!lost.is_lost());
            assert!(other.mutex(JOB, MutexOptions::new()).unwrap().force_unlock().unwrap());
            lost.wait().unwrap();
            Ok(())
        }
        _ => Ok(()),
    };
    let jobs = [(first, second), (second, first)].map(|(store, other)| {
        store.every(JOB, HOUR, options(), move |_: FencingToken, lost| run(other, lost)).unwrap()
    });
    let handles = [jobs[0].handle(), jobs[1].handle()];
    thread::scope(|scope| {
        let ended = jobs.map(|job| scope.spawn(|| job.run()));
        wait_for_note(first);
        assert!(handles.iter().any(|handle| handle.is_leader()));
        // One leads and waits for the next hour, the other one waits for the lead.
        handles.iter().for_each(ElectionHandle::withdraw);
        for job in ended {
            job.join().unwrap().unwrap();
        }
    });
    assert_eq!(runs.load(Ordering::Relaxed), 4);
}

#[test]
fn m2_a_run_that_succeeds_is_the_only_one_on_memory() {
    let store = connect("memory:").unwrap();
    one_run_is_noted(&store, &store.clone());
}

#[test]
fn m2_a_run_that_succeeds_is_the_only_one_on_redis() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    one_run_is_noted(&connect(&server.url()).unwrap(), &connect(&server.url()).unwrap());
}

#[test]
fn m2_a_run_that_succeeds_is_the_only_one_on_postgres() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    one_run_is_noted(&connect(&server.url()).unwrap(), &connect(&server.url()).unwrap());
}

#[test]
fn c17_a_closed_store_ends_the_job_of_a_thread() {
    let store = connect("memory:").unwrap();
    let job = store.every(JOB, HOUR, options(), |_, _| Ok::<_, Infallible>(())).unwrap();
    let ended = thread::spawn(|| job.run());
    wait_for_note(&store);
    store.close().unwrap();
    assert_eq!(ended.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

/// It would stand still, with the task that it is called in.
#[tokio::test]
async fn the_job_of_a_thread_is_refused_inside_of_a_task() {
    let store = connect("memory:").unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let job = store.every(JOB, HOUR, options(), move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(())
    });
    let ended = tokio::spawn(async move { job.unwrap().run() }).await.unwrap();
    let error = ended.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation(), error.name()),
        (ErrorKind::Unsupported, Some("run"), Some(JOB))
    );
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

/// Far above what a run, or the end of a job, takes.
const SOON: Duration = Duration::from_secs(20);

fn awaits_a_call_in_a_runtime_of_its_own(store: &Store) {
    let (ran, has_run) = channel();
    let other = store.mutex("other", MutexOptions::new()).unwrap();
    let job = store.every(JOB, HOUR, options(), move |_, _| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let locked = runtime.block_on(async {
            let guard = other.as_async().lock().await?;
            guard.release().await
        });
        ran.send(locked).unwrap();
        Ok::<_, Infallible>(())
    });
    let job = job.unwrap();
    let handle = job.handle();
    let ended = thread::spawn(|| job.run());
    has_run.recv_timeout(SOON).expect("the call ends").unwrap();
    handle.withdraw();
    ended.join().unwrap().unwrap();
}

#[test]
fn a_job_of_a_thread_awaits_calls_in_a_runtime_of_its_own_on_memory() {
    awaits_a_call_in_a_runtime_of_its_own(&connect("memory:").unwrap());
}

#[test]
fn a_job_of_a_thread_awaits_calls_in_a_runtime_of_its_own_on_redis() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    awaits_a_call_in_a_runtime_of_its_own(&connect(&server.url()).unwrap());
}

#[test]
fn a_job_whose_runs_take_longer_than_the_period_withdraws() {
    let store = connect("memory:").unwrap();
    let ((ran, has_run), (ended, has_ended)) = (channel(), channel());
    let job = store.every(JOB, Duration::from_millis(1), options(), move |_, _| {
        thread::sleep(Duration::from_millis(5));
        ran.send(())
    });
    let job = job.unwrap();
    let handle = job.handle();
    thread::spawn(move || ended.send(job.run()));
    has_run.recv().unwrap();
    handle.withdraw();
    has_ended.recv_timeout(SOON).expect("it hears of it").unwrap();
}

#[test]
fn a_run_that_lost_the_lead_and_panics_leaves_no_note() {
    let store = connect("memory:").unwrap();
    let runs = AtomicUsize::new(0);
    let bucket = store.limiter(JOB, LimiterOptions::new(Quota::per_second(1))).unwrap();
    let job = |_: FencingToken, lost: Lost<'_>| {
        match runs.fetch_add(1, Ordering::SeqCst) {
            0 => {
                assert!(store.mutex(JOB, MutexOptions::new()).unwrap().force_unlock().unwrap());
                lost.wait().unwrap();
                // Until the next leader is at work.
                while runs.load(Ordering::SeqCst) < 2 {
                    thread::sleep(Duration::from_millis(1));
                }
                panic!("as a run that is stopped in the middle");
            }
            1 => {
                let begun = Instant::now();
                while bucket.peek().unwrap().reset_after.is_zero() && begun.elapsed() < Duration::from_secs(1)
                {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            _ => {}
        }
        Ok::<_, Infallible>(())
    };
    let jobs = [0, 1].map(|_| store.every(JOB, HOUR, options(), job).unwrap());
    let handles = [jobs[0].handle(), jobs[1].handle()];
    thread::scope(|scope| {
        let ended = jobs.map(|job| scope.spawn(|| job.run()));
        wait_for_note(&store);
        // A run that is repeated begins within the pause after the one that lost the lead.
        thread::sleep(Duration::from_secs(1));
        handles.iter().for_each(ElectionHandle::withdraw);
        for job in ended {
            job.join().unwrap().unwrap();
        }
    });
    assert_eq!(runs.load(Ordering::SeqCst), 2, "one was lost, and one has succeeded");
}
