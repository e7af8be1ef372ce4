//! Foreign values under keys of a namespace: steps report them and leave them alone.

#![allow(clippy::disallowed_methods, reason = "tests run their own runtime")]

use crate::common::*;
use redis::aio::MultiplexedConnection;
use stanchion_conformance::steps::StepCalls;
use stanchion_core::spi::{Ending, Kept};
use stanchion_core::{ErrorKind, Ticket};

#[tokio::test]
async fn c21_a_foreign_value_under_a_key_is_told_and_left_alone() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let mut raw = fixture.raw().await;
    let (object, other) = (mutex("m"), ask(&mutex("other")));
    granted(&process, &other).await;
    for part in [":m:m", ":me:m", ":mq:m"] {
        // The mutex is used once, so that its keys are known, and then deleted.
        let held = ask(&object);
        granted(&process, &held).await;
        waits(&process, &ask(&object)).await;
        let keys: Vec<_> = fixture.keys().await.into_iter().filter(|key| key.ends_with(":m")).collect();
        let key = keys.iter().find(|key| key.ends_with(part)).expect("a key");
        let _: () = redis::cmd("DEL").arg(&keys).query_async(&mut raw).await.unwrap();
        let _: () = redis::cmd("SET").arg(key).arg("foreign").query_async(&mut raw).await.unwrap();
        let mut told = 0;
        for _ in 0..2 {
            if let Err(error) = process.callers.acquire(&[ask(&object)]).await.remove(0) {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(error.to_string().contains(key) && error.to_string().contains("string"), "{error}");
                told += 1;
            }
        }
        // The key of the queue does not matter before a waiter queues.
        assert_eq!(told, if part == ":mq:m" { 1 } else { 2 });
        let left = fixture.keys().await.into_iter().filter(|key| key.ends_with(":m")).count();
        assert_eq!(left, if part == ":mq:m" { 3 } else { 1 }, "a refused step changes nothing");
        // The other entries of a batch do not suffer.
        let kept = all(process.own.renew(&[renewal(&held), renewal(&other)]).await);
        assert_eq!(kept, [Kept::No, Kept::Yes]);
        assert_eq!(release(&process, &held).await, Kept::No);
        cancel(&process, &held).await;
        let value: String = redis::cmd("GET").arg(key).query_async(&mut raw).await.unwrap();
        assert_eq!(value, "foreign");
        let _: () = redis::cmd("DEL").arg(&keys).query_async(&mut raw).await.unwrap();
    }
}

#[tokio::test]
async fn c21_foreign_values_are_told_and_left_alone() {
    let fixture = Fixture::shared();
    let process = fixture.process().await;
    let (object, ours) = (wait_group("g"), wait_group("ours"));
    let member = added(&process, &object).await;
    let other = added(&process, &ours).await;
    look(&process, &object, Some(0)).await;
    let mut raw = fixture.raw().await;
    let watchers = fixture.keys().await.into_iter().find(|key| key.contains(":wv:")).expect("a watcher");
    let set = async |key: &str, raw: &mut MultiplexedConnection| -> () {
        redis::cmd("SET").arg(key).arg("foreign").query_async(raw).await.unwrap()
    };
    set(&watchers, &mut raw).await;
    let looks = [watching(&object, Some(0), Ticket::random()), watching(&ours, Some(0), Ticket::random())];
    let answers = process.callers.look(&looks).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains(&watchers) && error.to_string().contains("string"), "{error}");
    assert_eq!(answers[1].as_ref().unwrap().count, 1, "the other entries of a batch do not suffer");
    // The foreign value costs the watchers their hints only.
    assert_eq!(look(&process, &object, None).await.count, 1);
    assert_eq!(end(&process, &member, Ending::Finished).await, Kept::Yes);
    assert_eq!(ended(look(&process, &object, None).await), Some((1, 0, 0)));
    let value: String = redis::cmd("GET").arg(&watchers).query_async(&mut raw).await.unwrap();
    assert_eq!(value, "foreign");
    let record = fixture.keys().await.into_iter().find(|key| key.ends_with("}:w:g")).expect("a record");
    set(&record, &mut raw).await;
    let refused = process.callers.look(&[watching(&object, None, Ticket::random())]).await.remove(0);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let whole = members(&object, 2);
    assert_eq!(
        process.callers.split(&split_of(&whole)).await.unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(end(&process, &other, Ending::Finished).await, Kept::Yes);
}
