//! How a store presents itself to its server.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::support::{eventually, within};
use stanchion_core::{ErrorKind, MutexOptions, Store};
use stanchion_redis::{Credentials, RedisBuilder, RedisStore};
use stanchion_testbed::servers::{RedisOptions, RedisServer};

/// The line of `CLIENT LIST` of each connection with that name.
fn named(server: &RedisServer, name: &str) -> Vec<String> {
    let list = server.command(&["CLIENT", "LIST"]).unwrap();
    let name = format!(" name={name} ");
    list.lines().filter(|line| line.contains(&name)).map(str::to_owned).collect()
}

async fn locks(store: &RedisStore) -> stanchion_core::Result<()> {
    match store.mutex("m", MutexOptions::default())?.try_lock().await? {
        Some(guard) => guard.release().await,
        None => Ok(()),
    }
}

#[tokio::test]
async fn all_connections_have_the_name_of_the_client() {
    let (server, fixture) = start(RedisOptions::default());
    let store = fixture.builder().request_timeout(PATIENT).client_name("billing-7").connect().await.unwrap();
    locks(&store).await.unwrap();
    drop(store.mutex("m", MutexOptions::default()).unwrap().lock().await.unwrap());
    eventually(Duration::from_secs(10), "two connections", || async {
        named(&server, "billing-7").len() >= 2
    })
    .await;
    let url = format!("{}?client_name=by-url", server.url());
    let _store = RedisBuilder::new(&url).unwrap().request_timeout(PATIENT).connect().await.unwrap();
    assert_eq!(named(&server, "by-url").len(), 2, "that of callers and that of the engine");
    // Without the right to it, there is no name.
    server.command(&["ACL", "SETUSER", "me", "on", ">pw", "~*", "+@all", "-client|setname"]).unwrap();
    let url = format!("redis://me:pw@127.0.0.1:{}/?client_name=unseen", server.port());
    let builder = RedisBuilder::new(&url).unwrap().request_timeout(PATIENT);
    locks(&builder.connect().await.unwrap()).await.unwrap();
    assert!(named(&server, "unseen").is_empty());
}

#[tokio::test]
async fn the_older_protocol_serves_with_wake_ups() {
    let (server, fixture) = start(RedisOptions::default());
    let url = format!("{}?protocol=resp2&namespace={}&client_name=older", server.url(), fixture.namespace);
    let builder = RedisBuilder::new(&url).unwrap().request_timeout(PATIENT);
    let store = builder.keepalive(Duration::from_secs(30)).connect().await.unwrap();
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    let guard = mutex.lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = Arc::clone(&mutex);
        async move { mutex.lock().await }
    });
    eventually(Duration::from_secs(10), "a waiter", || async { mutex.inspect().await.unwrap().waiters == 1 })
        .await;
    assert!(
        named(&server, "older").iter().all(|line| line.contains(" resp=2")),
        "{:?}",
        named(&server, "older")
    );
    guard.release().await.unwrap();
    within(Duration::from_secs(10), "the hand-over", waiting)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn each_connection_has_the_credentials_of_its_moment() {
    let (server, fixture) = start(RedisOptions::default());
    let set_password = |password: &str| {
        let rules = ["reset", "on", &format!(">{password}"), "~*", "+@all"];
        server.command(&[&["ACL", "SETUSER", "me"][..], &rules[..]].concat()).unwrap();
    };
    set_password("first");
    let password = Arc::new(Mutex::new("first"));
    let given = Arc::clone(&password);
    let store = fixture
        .builder()
        .request_timeout(PATIENT)
        .credentials(move || {
            let password = *given.lock().unwrap();
            async move {
                if password.is_empty() {
                    return Err(io::Error::other("the vault is sealed").into());
                }
                Ok(Credentials::user("me", password))
            }
        })
        .connect()
        .await
        .unwrap();
    locks(&store).await.unwrap();
    // A new password ends the connections of the user.
    *password.lock().unwrap() = "second";
    set_password("second");
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    eventually(Duration::from_secs(10), "a lock", || async { locks(&store).await.is_ok() }).await;
    *password.lock().unwrap() = "";
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    let refused = || async {
        locks(&store).await.is_err_and(|error| {
            error.kind() == ErrorKind::Unavailable && format!("{error:?}").contains("the vault is sealed")
        })
    };
    eventually(Duration::from_secs(20), "the program's own error", refused).await;
}
