//! Runs the SQL in the manual.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own their runtimes, and fail by panic"
)]

use crate::common::{lease, server};

const MANUAL: &str = include_str!("../../README.md");

#[tokio::test]
async fn the_manuals_sql_on_long_transactions_is_what_the_server_takes() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    let section = MANUAL.split("\n## ").find(|section| section.starts_with("Long transactions")).unwrap();
    let blocks = section.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap());
    let told: Vec<_> = blocks.map(|sql| server.script(sql).unwrap()).collect();
    assert_eq!(told.len(), 3);
    // The psql session has a snapshot, so it finds itself.
    assert!(told[0].contains("|active|"), "{}", told[0]);
    assert!(told[1].contains("objects|"), "{}", told[1]);
}
