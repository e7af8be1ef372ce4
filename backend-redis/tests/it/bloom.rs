//! The steps of Bloom filters on a server: the bits, which items count as new, and what a batch
//! costs.

#![cfg(feature = "bloom")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::*;
use crate::filters::*;
use stanchion_conformance::support::{definite, within};
use stanchion_core::ErrorKind;
use stanchion_core::spi::{Merged, Probe, ProbeItems, Probed, RequestId};
use stanchion_testbed::servers::RedisOptions;

/// A capacity that takes 12 pages of 1 MiB, the last one shorter.
const MANY: u64 = 10_000_000;

fn ones(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(byte.count_ones())).sum()
}

#[tokio::test]
async fn b4_the_bits_are_those_of_the_layout_in_one_page_and_in_many() {
    let fixture = Fixture::shared();
    for (name, capacity, rate) in [("small", 1_000, 0.01), ("large", MANY, 0.01), ("rare", 60_000, 1e-6)] {
        let mut filter = Filter::new(&fixture, name, capacity, rate).await;
        let (inserted, others) = (items("in", 1_500), items("out", 500));
        let news = filter.insert(&inserted).await;
        assert!(news.iter().filter(|new| **new).count() >= 1_450, "most of them are new");
        assert!(filter.contains(&inserted).await.iter().all(|contained| *contained));
        let image = filter.image(&inserted);
        let bytes = filter.bytes().await;
        assert!(bytes == image, "{name}: the same bits");
        assert_eq!(filter.survey().await.bits_set, ones(&image), "{name}");
        let expected: Vec<bool> = others.iter().map(|item| filter.is_in(item, &image)).collect();
        assert_eq!(filter.contains(&others).await, expected, "{name}");
    }
}

#[tokio::test]
async fn b3_a_filter_of_very_many_pages_begins_them_in_several_requests() {
    let (_server, fixture) = start(RedisOptions::default());
    let mut filter = Filter::new(&fixture, "f", 70_000_000, 0.01).await.living(Duration::from_secs(600));
    filter.steps = fixture.builder().request_timeout(Duration::from_secs(20)).steps().await.unwrap().callers;
    let (first, more) = (items("a", 500), items("a", 600));
    let (id, call) = (filter.next_id(), filter.insertion(&first));
    let told = filter.send_as(id, call.clone()).await.unwrap();
    let Probed::Told { answers, record } = &told else { panic!("{told:?}") };
    assert!(answers.iter().all(|new| *new));
    assert_eq!(filter.send_as(id, call).await.unwrap(), told, "a retry");
    assert_eq!(
        (fixture.keys().await.len(), ends_of(&fixture, &filter).await),
        (81, vec![record.ends.unwrap(), record.ends.unwrap() + 60_000])
    );
    let news = filter.insert(&more).await;
    assert_eq!(news, [vec![false; 500], vec![true; 100]].concat());
    assert_eq!(filter.survey().await.bits_set, ones(&filter.image(&more)));
}

#[tokio::test]
async fn b3_of_equal_items_the_first_is_new() {
    let fixture = Fixture::shared();
    for capacity in [1_000, MANY] {
        let mut filter = Filter::new(&fixture, &format!("f{capacity}"), capacity, 1e-6).await;
        let twice: Vec<_> = ["a", "b", "a", "c", "b"].map(str::to_owned).into();
        assert_eq!(filter.insert(&twice).await, [true, true, false, true, false]);
        // In one batch after the earlier request, with insertions and questions mixed.
        let calls = [
            filter.question(&item("d")),
            filter.insertion(&item("d")),
            filter.insertion(&["d".to_owned(), "e".to_owned()]),
            filter.question(&["e".to_owned(), "f".to_owned()]),
            filter.insertion(&[]),
        ];
        let id = filter.next_id();
        let told = filter.steps.probe(id, &calls).await.into_iter().map(Result::unwrap);
        let expected: [&[bool]; 5] = [&[false], &[true], &[false, true], &[true, false], &[]];
        for (probed, expected) in told.zip(expected) {
            let record = filter.record();
            assert_eq!(probed, Probed::Told { answers: expected.to_vec(), record });
        }
    }
}

#[tokio::test]
async fn b3_a_request_whose_reply_was_lost_is_answered_as_the_first_time() {
    let fixture = Fixture::shared();
    let mut filter = Filter::new(&fixture, "f", 1_000, 1e-6).await;
    let id = filter.next_id();
    let call = filter.insertion(&items("i", 10));
    let first = filter.send_as(id, call.clone()).await.unwrap();
    let Probed::Told { answers, .. } = &first else { panic!("{first:?}") };
    assert_eq!(answers, &[true; 10]);
    let mut other = filter.other_handle();
    assert_eq!(other.insert(&items("i", 11)).await, [vec![false; 10], vec![true]].concat());
    for _ in 0..2 {
        assert_eq!(filter.send_as(id, call.clone()).await.unwrap(), first);
    }
    let next = filter.next_id();
    assert!(filter.send_as(next, filter.insertion(&item("x"))).await.is_ok());
    let late = filter.send_as(id, call).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unknown, "a later request was answered");
}

#[tokio::test]
async fn b3_a_reply_that_never_came_does_not_cost_the_news() {
    let (server, fixture) = start(RedisOptions::default());
    let mut filter = Filter::new(&fixture, "f", 1_000, 1e-6).await;
    let hasty = || fixture.builder().request_timeout(Duration::from_millis(200)).steps();
    let hasty = definite(hasty).await.unwrap().callers;
    filter.insert(&item("first")).await;
    let patient = std::mem::replace(&mut filter.steps, hasty);
    let (id, call) = (filter.next_id(), filter.question(&item("first")));
    definite(|| filter.send_as(id, call.clone())).await.unwrap();
    let (id, call) = (filter.next_id(), filter.insertion(&items("i", 3)));
    // The request is sent, and executed when the server goes on.
    server.pause().unwrap();
    assert_eq!(filter.send_as(id, call.clone()).await.unwrap_err().kind(), ErrorKind::Unknown);
    server.resume().unwrap();
    // The same request again: a login may take longer than it may.
    let again = definite(|| filter.send_as(id, call.clone()));
    let again = within(PATIENT, "an answer", again).await.unwrap();
    let Probed::Told { answers, .. } = again else { panic!("{again:?}") };
    assert_eq!(answers, [true; 3]);
    filter.steps = patient;
    assert_eq!(filter.other_handle().insert(&items("i", 3)).await, [false; 3]);
}

#[tokio::test]
async fn b5_other_terms_are_told_and_nothing_is_done() {
    let fixture = Fixture::shared();
    let mut filter = Filter::new(&fixture, "f", 1_000, 0.01).await;
    filter.insert(&item("a")).await;
    let bits = filter.survey().await.bits_set;
    for (capacity, rate, ttl) in [(1_001, 0.01, None), (1_000, 0.02, None), (1_000, 0.01, Some(60))] {
        let mut other = Filter::new(&fixture, "f", capacity, rate).await;
        other.terms.ttl = ttl.map(Duration::from_secs);
        for seen in [None, filter.seen] {
            other.seen = seen;
            for call in [other.insertion(&items("b", 50)), other.question(&item("a"))] {
                assert_eq!(other.probe(call).await, Probed::Mismatch { stored: filter.terms });
            }
            let merged = other.steps.merge(&other.piece(0, vec![255])).await.unwrap();
            assert_eq!(merged, Merged::Mismatch(filter.terms));
        }
    }
    assert_eq!(filter.survey().await.bits_set, bits);
}

#[tokio::test]
async fn b4_pieces_are_merged_bit_by_bit() {
    let fixture = Fixture::shared();
    let (mut from, mut into) =
        (Filter::new(&fixture, "from", MANY, 0.01).await, Filter::new(&fixture, "into", MANY, 0.01).await);
    let merged = into.steps.merge(&into.piece(0, Vec::new())).await.unwrap();
    let Merged::Done(record) = merged else { panic!("{merged:?}") };
    assert_eq!(fixture.keys().await.len(), 1, "only the record");
    into.seen = Some(record);
    from.insert(&items("a", 500)).await;
    into.insert(&items("b", 500)).await;
    for _ in 0..2 {
        let bytes = from.bytes().await;
        for (chunk, bytes) in bytes.chunks(1 << 17).enumerate() {
            let piece = into.piece(chunk as u64, bytes.to_vec());
            assert_eq!(into.steps.merge(&piece).await.unwrap(), Merged::Done(record));
        }
    }
    let both = into.image(&[items("a", 500), items("b", 500)].concat());
    assert!(into.bytes().await == both);
    assert_eq!(into.survey().await.bits_set, ones(&both));
    assert!(fixture.keys().await.iter().all(|key| !key.contains("}:bt:")));
}

#[tokio::test]
async fn b3_a_batch_is_few_calls_of_the_server() {
    let (_server, fixture) = start(RedisOptions::default());
    let mut filter = Filter::new(&fixture, "f", 100_000, 0.01).await;
    filter.insert(&item("a")).await;
    let idle = fixture.calls().await;
    let idle = fixture.calls().await - idle;
    for (size, calls) in [(1, 6), (1_000, 33)] {
        let before = fixture.calls().await;
        filter.insert(&items("b", size)).await;
        // EVALSHA, TIME, HMGET of the record and of its pages, STRLEN, a BITFIELD for each 250
        // bits, HSET.
        let made = fixture.calls().await - before - idle;
        assert!(made <= calls + 1, "{made} calls for {size} items");
    }
    let ask = ProbeItems::Contains(Vec::new());
    let nothing = Probe { id: RequestId::NONE, of: filter.opening(), items: ask };
    assert!(matches!(filter.probe(nothing).await, Probed::Told { answers, .. } if answers.is_empty()));
}
