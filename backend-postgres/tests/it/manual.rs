//! Runs the SQL in the manual.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own their runtimes, and fail by panic"
)]

use stanchion_conformance::support::{definite, within};
use stanchion_core::{MutexOptions, Store};

use crate::common::{REQUEST, lease, server};

const MANUAL: &str = include_str!("../../README.md");

#[tokio::test]
async fn the_manuals_sql_on_long_transactions_is_what_the_server_takes() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    let section = MANUAL.split("\n## ").find(|section| section.starts_with("Long transactions")).unwrap();
    let blocks = section.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap());
    let told: Vec<_> = blocks.map(|sql| server.script(sql).unwrap()).collect();
    assert_eq!(told.len(), 2);
    // The psql session has a snapshot, so it finds itself.
    assert!(told[0].contains("|active|"), "{}", told[0]);
    assert!(told[1].contains("objects|"), "{}", told[1]);
}

/// An operator frees a lock with psql alone.
#[tokio::test]
async fn m8_the_guides_sql_frees_a_mutex() {
    let guide = include_str!("../../../src/guide/operating_postgres.md");
    let sql = guide.split('`').find(|code| code.starts_with("SELECT freed FROM stanchion.force(")).unwrap();
    let sql = sql.replace("NAMESPACE", "stanchion").replace("NAME", "x");
    let server = server();
    let store = lease(&server.url()).connect().await.unwrap();
    let mutex = store.mutex("x", MutexOptions::default()).unwrap();
    let guard = definite(|| mutex.lock_for(REQUEST)).await.unwrap().unwrap();
    assert!(server.script(&sql).unwrap().starts_with('1'));
    let next = within(REQUEST, "it is free", mutex.lock()).await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
}
