//! Bloom filters of the engine over a model of a store: flights, their retries, other terms,
//! losses.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::model::drop_after::drop_after;
use crate::model::{Model, model, model_within};
use stanchion_core::engine::Engine;
use stanchion_core::spi::{MAX_POSITIONS, ProbeItems};
use stanchion_core::{BloomFilter, BloomOptions, ErrorKind, OnMismatch};

const SHORT: Duration = Duration::from_millis(200);

fn options() -> BloomOptions {
    BloomOptions::new(10_000, 1e-6)
}

fn filter(engine: &Engine, options: &BloomOptions) -> Arc<dyn BloomFilter> {
    engine.bloom_filter("b", options).unwrap()
}

fn flights(model: &Model) -> usize {
    model.filters.flights.lock().unwrap().len()
}

fn lose_next_reply(model: &Model) {
    model.faults.lose_reply.store(model.faults.calls.load(SeqCst) + 1, SeqCst);
}

#[tokio::test]
async fn b3_a_lost_reply_is_answered_again() {
    let (model, engine) = model();
    let filter = filter(&engine, &options());
    for item in [b"a", b"b", b"c"] {
        lose_next_reply(&model);
        assert!(filter.insert(item).await.unwrap(), "the retry does not find its own item");
    }
    assert_eq!(flights(&model), 6);
    assert!(!filter.insert(b"a").await.unwrap());
    let ids: Vec<_> = model.filters.flights.lock().unwrap().iter().map(|(flight, _)| *flight).collect();
    assert!(ids.chunks(2).take(3).all(|pair| pair[0] == pair[1]), "under the same name");
}

#[tokio::test]
async fn b3_what_was_not_answered_is_unknown() {
    let (model, engine) = model_within(SHORT);
    let filter = filter(&engine, &options());
    model.faults.lose_replies.store(true, SeqCst);
    assert_eq!(filter.insert(b"a").await.unwrap_err().kind(), ErrorKind::Unknown);
    model.faults.lose_replies.store(false, SeqCst);
    model.faults.away.store(true, SeqCst);
    let error = filter.insert(b"a").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.name(), error.operation()),
        (ErrorKind::Unavailable, Some("b"), Some("insert"))
    );
    model.faults.away.store(false, SeqCst);
    assert!(filter.contains(b"a").await.unwrap());
}

#[tokio::test]
async fn b3_concurrent_calls_share_flights() {
    let (model, engine) = model();
    model.faults.delay_ms.store(10, SeqCst);
    let filter = filter(&engine, &options());
    let calls = (0..100_u8).map(|item| {
        let filter = Arc::clone(&filter);
        tokio::spawn(async move { filter.insert(&[item / 2]).await.unwrap() })
    });
    let mut new = 0;
    for call in calls.collect::<Vec<_>>() {
        new += usize::from(call.await.unwrap());
    }
    assert_eq!(new, 50);
    assert!(flights(&model) <= 3, "{} flights", flights(&model));
}

/// B3: no request is so large that others wait for long, and each has a lane of its own.
#[tokio::test]
async fn b3_large_calls_leave_in_several_flights() {
    // No request is sent again because the machine is slow.
    let (model, engine) = model_within(Duration::from_secs(60));
    let filter = filter(&engine, &options());
    let items: Vec<_> = (0..8_000_u32).map(u32::to_le_bytes).collect();
    let items: Vec<&[u8]> = items.iter().map(<[u8; 4]>::as_slice).collect();
    let told = filter.insert_many(&items).await.unwrap();
    assert!(told.len() == 8_000 && told.iter().filter(|new| **new).count() >= 7_999);
    assert_eq!(flights(&model), 16, "500 items each");

    model.faults.delay_ms.store(20, SeqCst);
    let calls = (0..6).map(|_| {
        let (filter, items) =
            (Arc::clone(&filter), items[..1_000].iter().map(|item| item.to_vec()).collect());
        tokio::spawn(async move {
            let items: Vec<Vec<u8>> = items;
            let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
            yes(filter.insert_many(&items).await.unwrap())
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), 0, "none is new");
    }
    let flights = model.filters.flights.lock().unwrap();
    let positions = |ask: &ProbeItems| match ask {
        ProbeItems::Insert(positions) | ProbeItems::Contains(positions) => positions.len(),
    };
    for (flight, calls) in flights.iter() {
        let load: usize = calls.iter().map(|call| positions(&call.items)).sum();
        assert!(load <= MAX_POSITIONS, "{flight:?}: {load}");
        assert!(load <= 500 * filter.shape().hashes() as usize, "{flight:?}: {load}");
    }
}

fn yes(told: Vec<bool>) -> usize {
    told.into_iter().filter(|new| *new).count()
}

#[tokio::test]
async fn b3_c4_a_call_dropped_anywhere_disturbs_nobody() {
    for polls in 0..6 {
        let (model, engine) = model();
        model.faults.delay_ms.store(6, SeqCst);
        let filter = filter(&engine, &options());
        let told = drop_after(polls, filter.insert(b"a")).await;
        let again = filter.insert(b"a").await.unwrap();
        assert!(!(told.is_some_and(Result::unwrap) && again), "{polls} polls: new twice");
        assert!(filter.contains(b"a").await.unwrap());
        assert!(drop_after(polls, filter.clear()).await.is_none_or(|cleared| cleared.is_ok()));
        filter.insert(b"b").await.unwrap();
        assert!(filter.contains(b"b").await.unwrap());
    }
}

#[tokio::test]
async fn b5_other_terms_are_refused_or_adopted() {
    let (model, engine) = model();
    let first = filter(&engine, &options());
    assert!(first.insert(b"a").await.unwrap());
    let small = BloomOptions::new(10, 0.1);
    let refusing = filter(&engine, &small);
    let error = refusing.insert(b"b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigMismatch);
    assert!(error.to_string().contains("10000") && error.to_string().contains("10 items"), "{error}");
    let adopting = filter(&engine, &small.on_mismatch(OnMismatch::Adopt));
    let before = flights(&model);
    assert!(!adopting.insert(b"a").await.unwrap());
    assert_eq!(flights(&model) - before, 2, "asked again with the stored shape");
    assert_eq!(adopting.shape(), first.shape());
    assert!(adopting.contains(b"a").await.unwrap());
    assert_eq!(flights(&model) - before, 3, "known from then on");
    assert!(!first.contains(b"b").await.unwrap());
}

#[tokio::test]
async fn b6_a_loss_is_told_once() {
    let (model, engine) = model();
    let (one, other) = (filter(&engine, &options()), filter(&engine, &options()));
    assert!(!one.contains(b"a").await.unwrap());
    assert!(one.insert(b"a").await.unwrap());
    assert!(other.contains(b"a").await.unwrap());
    model.filters.lose();
    assert_eq!(one.contains(b"a").await.unwrap_err().kind(), ErrorKind::StateLost);
    assert!(one.insert(b"a").await.unwrap());
    assert_eq!(other.insert(b"b").await.unwrap_err().kind(), ErrorKind::StateLost);
    assert!(!other.contains(b"b").await.unwrap());
}

#[tokio::test]
async fn b6_what_is_torn_stays_lost_until_it_is_cleared() {
    let (model, engine) = model();
    let filter = filter(&engine, &options());
    filter.insert(b"a").await.unwrap();
    model.filters.only(|filter| filter.torn = true);
    for _ in 0..2 {
        assert_eq!(filter.contains(b"a").await.unwrap_err().kind(), ErrorKind::StateLost);
        assert_eq!(filter.export().await.unwrap_err().kind(), ErrorKind::StateLost);
    }
    filter.clear().await.unwrap();
    assert!(filter.insert(b"a").await.unwrap());
}

#[tokio::test]
async fn b6_an_end_in_due_time_is_no_loss() {
    let (model, engine) = model();
    let options = options().ttl(Duration::from_secs(10));
    let (one, other) = (filter(&engine, &options), filter(&engine, &options));
    assert!(one.insert(b"a").await.unwrap());
    assert!(!other.insert(b"a").await.unwrap());
    model.filters.now.store(9_999, SeqCst);
    assert!(one.contains(b"a").await.unwrap());
    model.filters.now.store(10_000, SeqCst);
    assert!(!one.contains(b"a").await.unwrap());
    assert!(one.insert(b"a").await.unwrap(), "a new life");
    assert!(!other.insert(b"a").await.unwrap(), "which the other did not see begin");
}

#[tokio::test]
async fn b4_images_go_piece_by_piece() {
    let (model, engine) = model();
    // 3.6 pieces.
    let options = BloomOptions::new(130_000, 1e-6);
    let filter = filter(&engine, &options);
    for item in 0..50_u8 {
        filter.insert(&[item]).await.unwrap();
    }
    let exported = filter.export().await.unwrap();
    let copy = engine.bloom_filter("copy", &options).unwrap();
    copy.import(&exported).await.unwrap();
    assert!(copy.export().await.unwrap() == exported);
    let union = engine.bloom_filter("union", &options).unwrap();
    union.insert(&[99]).await.unwrap();
    union.union_with("b").await.unwrap();
    assert!(union.contains(&[99]).await.unwrap() && union.contains(&[7]).await.unwrap());
    assert_eq!(filter.len_estimate().await.unwrap(), 50);
    // A piece that is lost half way is an error, and to do it again mends it.
    model.faults.lose_reply.store(model.faults.calls.load(SeqCst) + 3, SeqCst);
    let again = engine.bloom_filter("again", &options).unwrap();
    assert_eq!(again.import(&exported).await.unwrap_err().kind(), ErrorKind::Unknown);
    again.import(&exported).await.unwrap();
    assert!(again.export().await.unwrap() == exported);
}

#[tokio::test]
async fn b1_an_import_begins_again_where_the_filter_ended_under_it() {
    let (model, engine) = model();
    let options = BloomOptions::new(130_000, 1e-6).ttl(Duration::from_secs(10));
    let source = filter(&engine, &options);
    let items: Vec<[u8; 1]> = (0..50).map(|item| [item]).collect();
    let items: Vec<&[u8]> = items.iter().map(<[u8; 1]>::as_slice).collect();
    source.insert_many(&items).await.unwrap();
    let exported = source.export().await.unwrap();
    let copy = engine.bloom_filter("copy", &options).unwrap();
    model.faults.delay_ms.store(10, SeqCst);
    let importing = tokio::spawn({
        let copy = Arc::clone(&copy);
        async move { copy.import(&exported).await }
    });
    let has_begun = || {
        let names = model.filters.names.lock().unwrap();
        names.iter().any(|(object, filter)| object.name.as_str() == "copy" && !filter.bits.is_empty())
    };
    while !has_begun() {
        tokio::task::yield_now().await;
    }
    model.filters.now.store(10_000, SeqCst);
    importing.await.unwrap().unwrap();
    assert_eq!(copy.contains_many(&items).await.unwrap(), [true; 50]);
}
