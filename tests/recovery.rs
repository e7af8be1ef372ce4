//! After each single fault things go on within the time that the contract allows.

#![cfg(all(feature = "redis", feature = "postgres"))]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test owns its runtime and fails by a panic"
)]

use std::env;
use std::process::{Command, Stdio};

use stanchion_conformance::campaign::recovery::{Measure, Table, measure};
use stanchion_conformance::campaign::{Site, Stand, Work};

/// What a worker is told follows this among the arguments of the test program. The test harness takes it for the exact
/// names of more tests, of which there are none.
const LAST: &str = "--nocapture";

/// A worker is the same program again, told to run the test of that name alone.
fn worker_of(test: &'static str) -> impl Fn() -> Command {
    move || {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, LAST]).stdout(Stdio::null());
        command
    }
}

fn told() -> Option<Work> {
    let arguments: Vec<String> = env::args().skip_while(|argument| argument != LAST).skip(1).collect();
    Work::parse(&arguments)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn work(work: &Work) {
    let store = stanchion::connect(work.url()).await.unwrap();
    work.run(store).await.unwrap();
}

fn is_within_bounds(stand: Stand, test: &'static str) {
    if let Some(told) = told() {
        return work(&told);
    }
    let site = Site::start(stand).unwrap();
    let table = Table::of(&measure(&site, &worker_of(test), 0).unwrap());
    println!("{table}");
    assert!(table.is_within(), "\n{table}");
    let measured = Measure::ALL.iter().filter(|measure| measure.bound(stand).is_some()).count();
    assert_eq!(table.len(), measured, "\n{table}");
}

#[test]
fn c5_c8_c9_c14_c18_m1_m7_recovery_on_redis() {
    is_within_bounds(Stand::Redis, "c5_c8_c9_c14_c18_m1_m7_recovery_on_redis");
}

#[test]
fn c5_c8_c9_c14_c18_m1_m7_recovery_on_postgres() {
    is_within_bounds(Stand::Postgres, "c5_c8_c9_c14_c18_m1_m7_recovery_on_postgres");
}

#[test]
fn c5_c8_c9_c18_m1_m7_recovery_on_postgres_sessions() {
    is_within_bounds(Stand::PostgresSessions, "c5_c8_c9_c18_m1_m7_recovery_on_postgres_sessions");
}
