//! The guard of a resource: an older holder never writes after a newer one, in whichever order they
//! come.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use crate::common::*;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use stanchion_core::{ErrorKind, FencingToken, Ticket};
use stanchion_redis::RedisFence;
use tokio::task::JoinSet;

const WRITERS: u64 = 16;
const WRITES: u64 = 200;

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

async fn fence(fixture: &Fixture) -> (RedisFence, String, MultiplexedConnection) {
    let tag = format!("{{{}}}", fixture.namespace);
    (RedisFence::new(format!("{tag}:mark")), format!("{tag}:value"), fixture.raw().await)
}

#[tokio::test]
async fn m9_smaller_tokens_and_other_tickets_are_refused() {
    let fixture = Fixture::shared();
    let (fence, key, mut raw) = fence(&fixture).await;
    let (old, new) = (Ticket::random(), Ticket::random());
    fence.set(&mut raw, (token(7), old), &key, "a").await.unwrap();
    fence.set(&mut raw, (token(7), old), &key, "b").await.unwrap();
    for (number, ticket) in [(6, old), (6, new), (7, new)] {
        let error = fence.set(&mut raw, (token(number), ticket), &key, "x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{number}");
        assert!(error.to_string().contains(&format!("token {number} may not write")), "{error}");
    }
    // 2^53 − 1 is as exact as any other.
    let (largest, second) = (token((1 << 53) - 1), token((1 << 53) - 2));
    fence.set(&mut raw, (largest, new), &key, "c").await.unwrap();
    assert_eq!(fence.set(&mut raw, (second, new), &key, "x").await.unwrap_err().kind(), ErrorKind::Lost);
    let value: String = raw.get(&key).await.unwrap();
    assert_eq!(value, "c");
}

#[tokio::test]
async fn m9_an_attached_hold_is_handed_over() {
    let fixture = Fixture::shared();
    let (fence, key, mut raw) = fence(&fixture).await;
    let (from, to) = (Ticket::random(), Ticket::random());
    fence.set(&mut raw, (token(7), from), &key, "a").await.unwrap();
    fence.hand_over(&mut raw, (token(7), to)).await.unwrap();
    fence.set(&mut raw, (token(7), to), &key, "b").await.unwrap();
    assert_eq!(fence.set(&mut raw, (token(7), from), &key, "x").await.unwrap_err().kind(), ErrorKind::Lost);
    let error = fence.hand_over(&mut raw, (token(6), from)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().ends_with("token 6 may not write any more: token 7 has"), "{error}");
}

/// Writers with growing tokens race. Each script that writes appends its token to a list, which
/// shows the order in which the server executed the writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m9_in_a_race_the_tokens_of_the_writes_never_fall() {
    let fixture = Fixture::shared();
    let tag = format!("{{{}}}", fixture.namespace);
    let append = "if not fenced(KEYS[1], ARGV[1], ARGV[2]) then return 0 end \
                  redis.call('RPUSH', KEYS[2], ARGV[1]) return 1";
    let script = redis::Script::new(&format!("{}{append}", RedisFence::GUARD));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (script, tag, mut raw) = (script.clone(), tag.clone(), fixture.raw().await);
        writers.spawn(async move {
            let (ticket, mut written) = (Ticket::random(), 0);
            for write in 0..WRITES {
                let mut call = script.key(format!("{tag}:mark"));
                call.key(format!("{tag}:log")).arg(write * WRITERS + writer + 1).arg(ticket.to_string());
                written += call.invoke_async::<u64>(&mut raw).await.unwrap();
            }
            written
        });
    }
    let mut written = 0;
    while let Some(count) = writers.join_next().await {
        written += count.unwrap();
    }
    let log: Vec<u64> = fixture.raw().await.lrange(format!("{tag}:log"), 0, -1).await.unwrap();
    assert_eq!(log.len() as u64, written);
    assert!(log.windows(2).all(|pair| pair[0] < pair[1]), "{log:?}");
    assert_eq!(log.last(), Some(&(WRITERS * WRITES)), "the largest token is never refused");
}

#[tokio::test]
async fn m9_a_mark_of_somebody_elses_stops_the_write() {
    let fixture = Fixture::shared();
    let (fence, key, mut raw) = fence(&fixture).await;
    let _: () = raw.set(format!("{{{}}}:mark", fixture.namespace), "mine").await.unwrap();
    assert!(fence.set(&mut raw, (token(7), Ticket::random()), &key, "x").await.is_err());
    let value: Option<String> = raw.get(&key).await.unwrap();
    assert_eq!(value, None);
}
