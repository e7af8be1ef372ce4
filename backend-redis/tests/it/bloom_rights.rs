//! Each right that the manual names for Bloom filters is needed, and named if it is missing (C21).

#![cfg(feature = "bloom")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own their runtimes, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::collections::BTreeSet;

use crate::common::deployment::{least_rights, rights_of_filters};
use crate::common::*;
use crate::filters::*;
use stanchion_core::spi::Merged;
use stanchion_core::{Error, ErrorKind};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::RedisOptions;

/// The operation that needs a right.
#[derive(Clone, Copy, Debug)]
enum Needs {
    Insert,
    Contains,
    Merge,
    Read,
}

const PROBES: [(&str, Needs); 7] = [
    ("strlen", Needs::Insert),
    ("bitfield", Needs::Insert),
    ("bitfield_ro", Needs::Contains),
    ("bitcount", Needs::Merge),
    ("setrange", Needs::Merge),
    ("bitop", Needs::Merge),
    ("getrange", Needs::Read),
];

async fn attempt(filter: &mut Filter, needs: Needs) -> Result<(), Error> {
    match needs {
        Needs::Insert => {
            let (id, call) = (filter.next_id(), filter.insertion(&item("b")));
            filter.send_as(id, call).await.map(drop)
        }
        Needs::Contains => {
            let (id, call) = (filter.next_id(), filter.question(&item("a")));
            filter.send_as(id, call).await.map(drop)
        }
        Needs::Merge => filter.steps.merge(&filter.piece(0, vec![255])).await.map(drop),
        Needs::Read => filter.steps.read(&filter.object, filter.seen, 0).await.map(drop),
    }
}

#[tokio::test]
async fn c21_each_right_of_filters_is_needed_and_named_where_it_is_missing() {
    let rights = rights_of_filters();
    let granted: BTreeSet<_> = rights.iter().filter_map(|word| word.strip_prefix('+')).collect();
    assert_eq!(PROBES.iter().map(|(command, _)| *command).collect::<BTreeSet<_>>(), granted);
    let (server, fixture) = start(RedisOptions::default());
    for (command, needs) in PROBES {
        let mut rule = least_rights(command, "pw", &fixture.namespace);
        rule.extend(rights.iter().cloned());
        let () = redis::cmd("ACL").arg(rule).query_async(&mut fixture.raw().await).await.unwrap();
        let url =
            format!("redis://{command}:pw@127.0.0.1:{}/?namespace={}", server.port(), fixture.namespace);
        let mut filter = Filter::new(&fixture, command, 1_000, 0.01).await;
        let admin = std::sync::Arc::clone(&filter.steps);
        filter.steps =
            RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap().callers;
        filter.insert(&item("a")).await;
        attempt(&mut filter, needs).await.unwrap();
        let taken = ["ACL", "SETUSER", command, &format!("-{command}")];
        assert_eq!(server.command(&taken).unwrap(), "+OK\r\n");
        let error = attempt(&mut filter, needs).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{command}: {error:?}");
        assert!(error.to_string().contains(&format!("'{command}'")), "{command}: {error}");
        // A merge or insert begun without the right does no harm once the right is there.
        server.command(&["ACL", "SETUSER", command, &format!("+{command}")]).unwrap();
        attempt(&mut filter, needs).await.unwrap();
        let whole = filter.steps.merge(&filter.piece(0, vec![0x80])).await.unwrap();
        assert!(matches!(whole, Merged::Done(_)));
        assert_eq!(filter.contains(&item("a")).await, [true]);
        // Nor does a page whose first insert was refused: the page does not count as lost.
        admin.clear(&filter.object).await.unwrap();
        server.command(&taken).unwrap();
        let first = attempt(&mut filter, Needs::Insert).await;
        assert_eq!(first.is_err(), matches!(needs, Needs::Insert), "{command}: {first:?}");
        server.command(&["ACL", "SETUSER", command, &format!("+{command}")]).unwrap();
        attempt(&mut filter, Needs::Insert).await.unwrap();
    }
}

#[tokio::test]
async fn c21_a_clear_that_is_refused_destroys_nothing() {
    let rights = rights_of_filters();
    let (server, fixture) = start(RedisOptions::default());
    for command in ["hdel", "hset"] {
        let mut rule = least_rights(command, "pw", &fixture.namespace);
        rule.extend(rights.iter().cloned());
        let () = redis::cmd("ACL").arg(rule).query_async(&mut fixture.raw().await).await.unwrap();
        let url =
            format!("redis://{command}:pw@127.0.0.1:{}/?namespace={}", server.port(), fixture.namespace);
        let mut filter = Filter::new(&fixture, command, 1_000, 0.01).await;
        filter.steps =
            RedisStore::builder(&url).unwrap().request_timeout(PATIENT).steps().await.unwrap().callers;
        filter.insert(&item("a")).await;
        server.command(&["ACL", "SETUSER", command, &format!("-{command}")]).unwrap();
        let error = filter.steps.clear(&filter.object).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{command}: {error:?}");
        assert_eq!(filter.other_handle().contains(&item("a")).await, [true], "{command}");
        assert!(ends_of(&fixture, &filter).await.iter().all(|ends| *ends == u64::MAX), "{command}");
        server.command(&["ACL", "SETUSER", command, &format!("+{command}")]).unwrap();
        filter.steps.clear(&filter.object).await.unwrap().unwrap();
        for key in fixture.keys().await {
            let _: u64 = filter.raw("DEL", key).await;
        }
    }
}
