//! After each single fault, the store serves calls again within the time that the contract allows.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test owns its runtime and fails by a panic"
)]

use std::process::Command;

use stanchion_campaign::recovery::{Measure, Table, measure};
use stanchion_campaign::rounds::{CampaignServer, Deployment};

fn worker() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fault-worker"))
}

fn is_within_bounds(deployment: Deployment) {
    let server = CampaignServer::start(deployment).unwrap();
    let table = Table::of(&measure(&server, &worker, 0).unwrap());
    println!("{table}");
    assert!(table.is_within(), "\n{table}");
    let measured = Measure::ALL.iter().filter(|measure| measure.bound(deployment).is_some()).count();
    assert_eq!(table.len(), measured, "\n{table}");
}

#[test]
fn c5_c8_c9_c14_c18_m1_m7_recovery_on_redis() {
    is_within_bounds(Deployment::Redis);
}

#[test]
fn c5_c8_c9_c14_c18_m1_m7_recovery_on_postgres() {
    is_within_bounds(Deployment::Postgres);
}

#[test]
fn c5_c8_m7_recovery_on_a_cluster() {
    is_within_bounds(Deployment::RedisCluster);
}

#[test]
fn c5_c8_c9_c18_m1_m7_recovery_on_postgres_sessions() {
    is_within_bounds(Deployment::PostgresSessions);
}
