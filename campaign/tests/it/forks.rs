//! A forked child shares nothing with its parent (C1).

use std::process::Command;

use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisCluster, RedisOptions, RedisServer};

#[track_caller]
fn holds(scenario: &str, url: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_forks")).args([scenario, url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn both(url: &str) {
    holds("tickets", url);
    holds("inherited", url);
}

#[test]
fn c1_a_fork_on_redis() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    both(&server.url());
}

#[test]
fn c1_a_fork_on_a_redis_cluster() {
    let cluster = RedisCluster::start(RedisOptions::default()).unwrap();
    both(&cluster.url());
}

#[test]
fn c1_a_fork_on_postgres() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    for mode in ["lease", "session"] {
        both(&format!("{}?mutex={mode}&namespace={mode}", server.url()));
    }
}
