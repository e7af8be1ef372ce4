//! What the proofs share: stores of both modes on a server of their own.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use stanchion_core::{MutexMode, Store};
use stanchion_postgres::{PostgresBuilder, PostgresStore};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

pub(crate) const MODES: [MutexMode; 2] = [MutexMode::Lease, MutexMode::Session];

pub(crate) fn server() -> PostgresServer {
    PostgresServer::start(PostgresOptions::default()).expect("a postgres")
}

/// A builder for a namespace that is that mode's.
pub(crate) fn builder(url: &str, mode: MutexMode) -> PostgresBuilder {
    let namespace = if mode == MutexMode::Session { "by-session" } else { "by-lease" };
    PostgresStore::builder(url).expect("a URL").namespace(namespace).mutex(mode)
}

pub(crate) async fn store(url: &str, mode: MutexMode, ttl: Duration) -> Arc<dyn Store> {
    Arc::new(builder(url, mode).session_ttl(ttl).connect().await.expect("a store"))
}

/// One row of an answer, over a connection of its own.
pub(crate) async fn row(url: &str, sql: &str) -> PgRow {
    let mut raw = PgConnection::connect(url).await.expect("a connection");
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut raw).await.expect("a row")
}
