//! How the schema is made, and which schemas are refused.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own their runtimes, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::{lease, refused, server};
use stanchion_core::{ErrorKind, MutexOptions, Store};
use stanchion_postgres::schema_sql;
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_connect_at_once_all_succeed() {
    let server = server();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let builder = lease(&server.url());
            tokio::spawn(async move { builder.steps().await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().callers.ping().await.unwrap();
    }
    assert_eq!(server.sql("SELECT count(*) FROM stanchion.namespaces").unwrap().trim(), "1");
}

#[tokio::test]
async fn schemas_do_not_see_each_other() {
    let server = server();
    lease(&server.url()).schema("one").steps().await.unwrap();
    lease(&server.url()).schema("other_2").steps().await.unwrap();
    let count = "SELECT count(*) FROM pg_namespace WHERE nspname = 'stanchion'";
    assert_eq!(server.sql(count).unwrap().trim(), "0");
    assert_eq!(server.sql("SELECT count(*) FROM one.namespaces").unwrap().trim(), "1");
    assert_eq!(server.sql("SELECT count(*) FROM other_2.namespaces").unwrap().trim(), "1");
}

/// The library's connections put a large price on scans of a whole table, and the server compiles
/// what costs much first: a look at the schema that scanned a table took 100 ms.
#[tokio::test]
async fn a_connect_scans_no_table_as_a_whole() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    let count = |column: &str| {
        let sum = format!("SELECT sum({column}) FROM pg_stat_user_tables WHERE schemaname = 'stanchion'");
        server.sql(&sum).unwrap().trim().parse::<u64>().unwrap()
    };
    // A connection's counts are seen for certain once it has ended.
    let ended = async |builder: stanchion_postgres::PostgresBuilder| {
        drop(builder.steps().await.unwrap());
        let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'stanchion%'";
        while server.sql(left).unwrap().trim() != "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    ended(lease(&server.url())).await;
    let (scans, lookups) = (count("seq_scan"), count("idx_scan"));
    ended(lease(&server.url())).await;
    assert_eq!(count("seq_scan"), scans);
    assert!(count("idx_scan") > lookups, "the counts were not read");
}

#[tokio::test]
async fn c22_a_schema_that_is_not_this_versions_is_refused() {
    let server = server();
    let off = || lease(&server.url()).migrate(false);
    let missing = refused(off()).await;
    assert_eq!(missing.kind(), ErrorKind::ConfigMismatch, "{missing:?}");
    assert!(missing.to_string().contains("stanchion::postgres::schema_sql()"), "{missing}");
    lease(&server.url()).steps().await.unwrap();
    off().steps().await.unwrap();
    server.sql("INSERT INTO stanchion.migrations VALUES (9999, 'later', now(), true, '\\x00', 1)").unwrap();
    for builder in [off(), lease(&server.url())] {
        let newer = refused(builder).await;
        assert_eq!(newer.kind(), ErrorKind::ConfigMismatch, "{newer:?}");
        assert!(newer.to_string().contains("9999"), "{newer}");
    }
    server.sql("DELETE FROM stanchion.migrations WHERE version IN (9999, 6)").unwrap();
    let behind = refused(off()).await;
    assert!(behind.to_string().contains("lacks migration 6"), "{behind}");
    server.sql("DROP TABLE stanchion.fences CASCADE").unwrap();
    lease(&server.url()).steps().await.unwrap();
    assert_eq!(server.sql("SELECT count(*) FROM stanchion.fences").unwrap().trim(), "0");
    server.sql("UPDATE stanchion.migrations SET checksum = '\\x00' WHERE version = 1").unwrap();
    assert_eq!(refused(off()).await.kind(), ErrorKind::ConfigMismatch);
}

#[tokio::test]
async fn c22_functions_of_an_earlier_version_are_replaced() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    let earlier = "UPDATE stanchion.library SET version = '0.0.9', functions = '\\x00';
                   CREATE OR REPLACE FUNCTION stanchion.now() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'";
    server.sql(earlier).unwrap();
    let refused = refused(lease(&server.url()).migrate(false)).await;
    assert!(refused.to_string().contains("functions of version 0.0.9"), "{refused}");
    lease(&server.url()).steps().await.unwrap();
    assert_eq!(server.sql("SELECT stanchion.now() > 0").unwrap().trim(), "t");
    let version = server.sql("SELECT version FROM stanchion.library").unwrap();
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
}

/// Two builds of one version do not replace each other's functions in turn: each is written once.
#[tokio::test]
async fn c22_functions_of_another_build_are_replaced_once() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    let noted = || server.sql("SELECT functions FROM stanchion.library").unwrap();
    // Another build, which takes its functions to be the newer ones.
    let other = "UPDATE stanchion.library SET functions = set_byte(functions, 0, 255 - get_byte(functions, 0)) || functions";
    server.sql(other).unwrap();
    let before = noted();
    lease(&server.url()).steps().await.unwrap();
    assert_eq!(noted(), before, "they serve this build, too");
    // One that this version has not seen.
    let other =
        "UPDATE stanchion.library SET functions = set_byte(functions, 0, 255 - get_byte(functions, 0))";
    server.sql("DELETE FROM stanchion.library").unwrap();
    lease(&server.url()).steps().await.unwrap();
    let ours = noted();
    server.sql(other).unwrap();
    let others = noted();
    lease(&server.url()).steps().await.unwrap();
    let both = format!("{}{}", ours.trim(), others.trim().trim_start_matches("\\x"));
    assert_eq!(noted().trim(), both, "what was replaced is remembered");
}

/// In a rolling upgrade, and after a rollback, an earlier version uses the schema of a later one.
#[tokio::test]
async fn c22_the_schema_of_a_later_version_is_left_alone_while_it_works() {
    let server = server();
    lease(&server.url()).steps().await.unwrap();
    let later = "INSERT INTO stanchion.migrations VALUES (9999, 'later', now(), true, '\\x00', 1);
                 UPDATE stanchion.library SET version = '9.0.0', functions = '\\x00'";
    server.sql(later).unwrap();
    for migrate in [false, true] {
        let steps = lease(&server.url()).migrate(migrate).steps().await.unwrap();
        steps.callers.ping().await.unwrap();
        assert_eq!(server.sql("SELECT version FROM stanchion.library").unwrap().trim(), "9.0.0");
    }
    server.sql("UPDATE stanchion.library SET oldest = '8.1.0'").unwrap();
    for migrate in [false, true] {
        let refused = refused(lease(&server.url()).migrate(migrate)).await;
        assert_eq!(refused.kind(), ErrorKind::ConfigMismatch, "{refused:?}");
        assert!(refused.to_string().contains("8.1.0") && refused.to_string().contains("update"), "{refused}");
    }
}

#[tokio::test]
async fn c22_a_schema_of_another_tool_is_left_alone() {
    let server = server();
    server.sql("CREATE SCHEMA stanchion; CREATE TABLE stanchion.migrations (version bigint)").unwrap();
    for migrate in [false, true] {
        let refused = refused(lease(&server.url()).migrate(migrate)).await;
        assert_eq!(refused.kind(), ErrorKind::ConfigMismatch, "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains("did not make") && !text.contains("drop"), "{text}");
    }
}

#[tokio::test]
async fn c30_a_schema_whose_rows_were_removed_is_made_whole_or_refused_with_the_cure() {
    let server = server();
    let lock = async || {
        let store = lease(&server.url()).connect().await?;
        let mutex = store.mutex("m", MutexOptions::default())?;
        mutex.lock().await?.release().await
    };
    lock().await.unwrap();
    // What is lost can be written anew.
    for table in ["library", "namespaces", "processes, stanchion.grace, stanchion.waited"] {
        server.sql(&format!("TRUNCATE stanchion.{table}")).unwrap();
        lock().await.unwrap();
    }
    // What was done to the tables is not known any more.
    server.sql("TRUNCATE stanchion.migrations").unwrap();
    for migrate in [false, true] {
        let refused = refused(lease(&server.url()).migrate(migrate)).await;
        assert_eq!(refused.kind(), ErrorKind::ConfigMismatch, "{refused:?}");
        assert!(refused.to_string().contains("restore `stanchion.migrations`"), "{refused}");
    }
    server.sql("DROP TABLE stanchion.migrations").unwrap();
    let refused = refused(lease(&server.url())).await;
    assert!(refused.to_string().contains("restore `stanchion.migrations`"), "{refused}");
    server.sql("DROP SCHEMA stanchion CASCADE").unwrap();
    lock().await.unwrap();
    server.sql("DELETE FROM stanchion.migrations WHERE version = 3").unwrap();
    let refused = crate::common::refused(lease(&server.url())).await;
    assert_eq!(refused.kind(), ErrorKind::ConfigMismatch, "{refused:?}");
}

#[tokio::test]
async fn c21_a_role_without_rights_is_told_what_it_lacks() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    let url = server.role("app", "pw", "SELECT 1").unwrap();
    let make = refused(lease(&url)).await;
    assert_eq!(make.kind(), ErrorKind::Unauthorized, "{make:?}");
    assert!(make.to_string().contains("database") && make.to_string().contains("schema_sql()"), "{make}");
    lease(&server.url()).steps().await.unwrap();
    let look = refused(lease(&url)).await;
    assert_eq!(look.kind(), ErrorKind::Unauthorized, "{look:?}");
    assert!(look.to_string().contains("permission denied for schema stanchion"), "{look}");
    server
        .sql(
            "GRANT USAGE ON SCHEMA stanchion TO app;
             GRANT SELECT ON stanchion.migrations, stanchion.library TO app",
        )
        .unwrap();
    let table = refused(lease(&url)).await;
    assert_eq!(table.kind(), ErrorKind::Unauthorized, "{table:?}");
    assert!(table.to_string().contains("permission denied for table namespaces"), "{table}");
}

#[tokio::test]
async fn what_an_administrator_runs_is_all_that_a_role_needs() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    let url = server.role("app", "pw", "SELECT 1").unwrap();
    for schema in ["stanchion", "locks"] {
        server.script(&schema_sql(schema, Some("app"), 0).unwrap()).unwrap();
        let builder = || lease(&url).schema(schema);
        builder().migrate(false).steps().await.unwrap().callers.ping().await.unwrap();
        // There is nothing to migrate, so no right is needed.
        builder().steps().await.unwrap();
        let write = format!("SET ROLE app; DELETE FROM {schema}.migrations");
        assert!(server.sql(&write).is_err());
    }
}

/// Names are chosen by users: whoever knows the library cannot choose two with one lock, nor that
/// of somebody else's name.
#[tokio::test]
async fn c19_the_lock_of_a_name_is_known_to_the_schema_only() {
    let server = server();
    let keys = async |schema: &str| {
        let builder = lease(&server.url()).schema(schema);
        drop(builder.connect().await.unwrap());
        let key = |name: &str| server.sql(&format!("SELECT {schema}.session_key('n', '{name}')")).unwrap();
        assert_eq!(key("m"), key("m"));
        (key("m"), key("k"))
    };
    let (first, second) = (keys("stanchion").await, keys("other").await);
    assert_ne!(first.0, first.1);
    assert!(first.0 != second.0 && first.1 != second.1, "each schema has a secret of its own");
    // It stays.
    assert_eq!(keys("stanchion").await, first);
}
