//! Holders that fall silent: stopped, or cut off without a message to either side (C8, C9, C10,
//! M1).

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::*;
use stanchion_conformance::EPSILON;
use stanchion_conformance::outages::{
    call_over_connections_dropped_in_use, call_over_dropped_connections, decide_through,
};
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{pause, within};
use stanchion_core::{MutexGuard, MutexMode, MutexOptions, Store};
use stanchion_postgres::PostgresStore;
use stanchion_testbed::faults::{Away, Direction, Proxy, Scope};

/// So long that a hold is renewed in time on a machine that stands still for two seconds.
const TTL: Duration = Duration::from_secs(4);
const CHILD: &str = "STANCHION_SILENT_HOLDER";

async fn lock(url: &str, mode: MutexMode) -> (std::sync::Arc<dyn Store>, MutexGuard) {
    let store = store(url, mode, TTL).await;
    let guard = store.mutex("m", MutexOptions::default().ttl(TTL)).unwrap().lock().await.unwrap();
    (store, guard)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c8_c9_m1_a_holder_whose_link_is_cut_is_lost_first() {
    let server = server();
    for mode in MODES {
        let proxy = Proxy::to(&server.url()).unwrap();
        let (_store, guard) = lock(&proxy.url(&server.url()), mode).await;
        // Long enough for a renewal.
        pause(TTL).await;
        assert!(guard.is_held());
        let url = server.url();
        let next = tokio::spawn(async move {
            let (_store, guard) = lock(&url, mode).await;
            let granted = Instant::now();
            guard.release().await.unwrap();
            granted
        });
        pause(Duration::from_millis(200)).await;
        proxy.black_hole(Direction::Both);
        let cut = Stopwatch::start();
        within(TTL + EPSILON, "it is lost without any network", guard.lost()).await;
        assert!(!guard.is_held());
        let granted = within((TTL + EPSILON).saturating_sub(cut.elapsed()), "the next one is granted", next);
        let granted = granted.await.unwrap();
        // From this time on, the holder reported that it does not hold the mutex.
        let doubted = guard.deadline().unwrap();
        assert!(doubted < granted, "{mode:?}: two holders believed for {:?}", doubted - granted);
    }
}

/// The child process of the test below. It holds the mutex, and answers each line by whether it
/// does.
#[tokio::main]
async fn hold(url: &str, mode: MutexMode) {
    let (_store, guard) = lock(url, mode).await;
    println!("\nholding");
    std::io::stdout().flush().unwrap();
    for line in std::io::stdin().lines() {
        let _ = line.unwrap();
        println!("{}", guard.is_held());
        std::io::stdout().flush().unwrap();
    }
}

fn signal(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn c8_c10_m1_a_stopped_holder_does_not_believe() {
    if let Ok(asked) = env::var(CHILD) {
        let (mode, url) = asked.split_once(' ').unwrap();
        return hold(url, if mode == "lease" { MutexMode::Lease } else { MutexMode::Session });
    }
    let server = server();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (mode, word) in [(MutexMode::Lease, "lease"), (MutexMode::Session, "session")] {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "silence::c8_c10_m1_a_stopped_holder_does_not_believe", "--nocapture"])
            .env(CHILD, format!("{word} {}", server.url()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        lines.by_ref().find(|line| line == "holding").expect("it holds");
        std::thread::sleep(TTL);
        writeln!(child.stdin.as_mut().unwrap(), "asked").unwrap();
        assert_eq!(lines.next().as_deref(), Some("true"), "it was renewed");
        signal("-STOP", child.id());
        let (_store, guard) = runtime.block_on(async {
            within(TTL + EPSILON, "the next one is granted", lock(&server.url(), mode)).await
        });
        // The first line that it answers after it resumes.
        writeln!(child.stdin.as_mut().unwrap(), "asked").unwrap();
        signal("-CONT", child.id());
        assert_eq!(lines.next().as_deref(), Some("false"), "{mode:?}: it believed when another held");
        runtime.block_on(async { guard.release().await.unwrap() });
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_a_policy_decides_at_once_while_the_server_is_away() {
    for away in Away::ALL {
        let server = server();
        let proxy = Proxy::to(&server.url()).unwrap();
        let store = PostgresStore::connect(&proxy.url(&server.url())).await.unwrap();
        decide_through(&store, &away.to_string(), || away.begin(&server, &proxy).unwrap()).await;
        away.end(&server, &proxy).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c28_connections_that_were_dropped_in_silence_are_replaced_within_a_call() {
    let server = server();
    for mode in MODES {
        let proxy = Proxy::to(&server.url()).unwrap();
        let builder =
            PostgresStore::builder(&proxy.url(&server.url())).unwrap().namespace(format!("{mode:?}"));
        let store = builder.mutex(mode).connect().await.unwrap();
        let drop_all = || proxy.black_hole_for(Scope::Existing, Direction::Both);
        call_over_dropped_connections(&store, drop_all).await;
        // A hold ends with its session, so that its release cannot succeed.
        if mode == MutexMode::Lease {
            call_over_connections_dropped_in_use(&store, drop_all).await;
        }
    }
}
