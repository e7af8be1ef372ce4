//! A program that ends leaves nothing held, if it drops its store before, however it ends (C12).

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use stanchion::MutexOptions;
use stanchion_campaign::connected;
use stanchion_conformance::stopwatch::{EPSILON, Stopwatch, timeout};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer};

/// Programs that end in each way, on each store.
const PROGRAMS: usize = 50;
/// Maximum time until the next process has the lock.
const FREE: Duration = Duration::from_secs(1);
/// Maximum time for which the drop of a store waits for its releases, where the program does not
/// choose another.
const DRAIN: Duration = Duration::from_millis(250);

static REDIS: LazyLock<RedisServer> = LazyLock::new(|| RedisServer::start(RedisOptions::default()).unwrap());
static POSTGRES: LazyLock<PostgresServer> =
    LazyLock::new(|| PostgresServer::start(PostgresOptions::default()).unwrap());

fn redis() -> String {
    REDIS.url()
}

fn postgres_with(parameters: &str) -> String {
    let url = POSTGRES.url();
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}{parameters}")
}

fn leases() -> String {
    postgres_with("mutex=lease&namespace=leases")
}

fn sessions() -> String {
    postgres_with("mutex=session&namespace=sessions")
}

fn program(way: &str, url: &str, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_program-end"));
    command.args([way, url, name]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs programs one after the other. After each, this process gets the lock in time.
#[tokio::main(flavor = "current_thread")]
async fn leave_nothing_held(way: &str, url: &str) {
    let store = connected(url).await.unwrap();
    let mutex = store.mutex(way, MutexOptions::default()).unwrap();
    for round in 0..PROGRAMS {
        let status = program(way, url, way).status().unwrap();
        assert_eq!(status.success(), !matches!(way, "error" | "panic"), "program {round}: {status}");
        let watch = Stopwatch::start();
        let locked = timeout(FREE + EPSILON, mutex.lock()).await;
        let guard = locked.unwrap_or_else(|_| panic!("program {round} of {PROGRAMS} left the lock held"));
        let guard = guard.unwrap();
        assert!(watch.elapsed() < FREE + EPSILON);
        guard.release().await.unwrap();
    }
    store.close().await.unwrap();
}

macro_rules! ways {
    ($($store:ident: $($test:ident $way:literal),+;)+) => {
        $($(
            #[test]
            fn $test() {
                leave_nothing_held($way, &$store());
            }
        )+)+
    };
}

ways! {
    redis:
        c12_a_return_on_redis "return",
        c12_an_error_on_redis "error",
        c12_a_panic_on_redis "panic",
        c12_a_current_thread_runtime_on_redis "current-thread",
        c12_a_dropped_runtime_on_redis "dropped-runtime",
        c12_a_static_store_on_redis "static",
        c12_a_static_store_in_a_runtime_on_redis "static-async";
    leases:
        c12_a_return_on_postgres_leases "return",
        c12_an_error_on_postgres_leases "error",
        c12_a_panic_on_postgres_leases "panic",
        c12_a_current_thread_runtime_on_postgres_leases "current-thread",
        c12_a_dropped_runtime_on_postgres_leases "dropped-runtime",
        c12_a_static_store_on_postgres_leases "static",
        c12_a_static_store_in_a_runtime_on_postgres_leases "static-async";
    sessions:
        c12_a_return_on_postgres_sessions "return",
        c12_an_error_on_postgres_sessions "error",
        c12_a_panic_on_postgres_sessions "panic",
        c12_a_current_thread_runtime_on_postgres_sessions "current-thread",
        c12_a_dropped_runtime_on_postgres_sessions "dropped-runtime",
        c12_a_static_store_on_postgres_sessions "static",
        c12_a_static_store_in_a_runtime_on_postgres_sessions "static-async";
}

/// A server that does not answer costs the end of a program `drain` at most.
fn ends_in_time(url: &str, pause: impl FnOnce(), resume: impl FnOnce()) {
    let mut child =
        program("away", url, "away").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");
    pause();
    let watch = Stopwatch::start();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let status = child.wait().unwrap();
    let took = watch.elapsed();
    resume();
    assert!(status.success(), "{status}");
    assert!(took < DRAIN + EPSILON, "{took:?}");
}

#[test]
fn c12_a_silent_redis_costs_an_end_no_more_than_the_drain() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    ends_in_time(&server.url(), || server.pause().unwrap(), || server.resume().unwrap());
}

#[test]
fn c12_a_silent_postgres_costs_an_end_no_more_than_the_drain() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    for mode in ["lease", "session"] {
        let url = format!("{}?mutex={mode}&namespace={mode}", server.url());
        ends_in_time(&url, || server.pause().unwrap(), || server.resume().unwrap());
    }
}
