//! The keys of a Bloom filter: how long they stay, and what steps notice when they are gone or
//! foreign.

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
use stanchion_core::spi::{ChunkRead, Merged, Probed, Surveyed};
use stanchion_core::{ErrorKind, Ticket};
use tokio::time::sleep;

/// A capacity that takes 12 pages of 1 MiB, the last one shorter.
const MANY: u64 = 10_000_000;
/// In ms; a thousand years and more.
const NEVER: u64 = 1 << 50;

#[tokio::test]
async fn b5_all_keys_of_a_filter_expire_at_one_instant() {
    let fixture = Fixture::shared();
    let mut filter = Filter::new(&fixture, "f", MANY, 0.01).await.living(Duration::from_secs(8));
    filter.insert(&items("a", 1)).await;
    let ends = filter.record().ends.unwrap();
    // The record stays for retries that may still come.
    assert_eq!(ends_of(&fixture, &filter).await, [ends, ends + 60_000]);
    // The same holds for pages that are begun later, for merges, and for answers to other lanes.
    filter.insert(&items("b", 100)).await;
    filter.other_handle().insert(&items("c", 100)).await;
    filter.steps.merge(&filter.piece(3, vec![255; 10])).await.unwrap();
    assert_eq!(fixture.keys().await.len(), 13);
    assert_eq!(ends_of(&fixture, &filter).await, [ends, ends + 60_000]);
    assert_eq!(filter.record().ends, Some(ends));
    sleep(Duration::from_millis(8_100)).await;
    let question = filter.question(&items("a", 1));
    assert_eq!(filter.probe(question).await, Probed::Empty { record: None }, "the filter ended in due time");
    let [record]: [String; 1] = fixture.keys().await.try_into().unwrap();
    let before = filter.record().generation;
    filter.terms.ttl = None;
    assert_eq!(filter.insert(&items("a", 1)).await, [true]);
    assert_ne!(filter.record().generation, before);
    let fields: u64 = filter.raw("HLEN", &record).await;
    let keys = fixture.keys().await.len() as u64;
    // 12 pages of the old one have a field, whether the new one has them or not.
    assert_eq!((fields, keys <= 12), (12 + 3, true), "the filter, pages, and the answers to two lanes");
    let ends = ends_of(&fixture, &filter).await;
    assert!(ends.iter().all(|ends| *ends > NEVER), "no expiry of the old filter ends the new one: {ends:?}");
}

#[tokio::test]
async fn b3_a_retry_is_answered_as_the_first_time_after_an_end_and_a_clear() {
    let fixture = Fixture::shared();
    for (name, ttl) in [("ends", Some(Duration::from_millis(500))), ("cleared", None)] {
        let mut filter = Filter::new(&fixture, name, 1_000, 0.01).await;
        filter.terms.ttl = ttl;
        let (id, call) = (filter.next_id(), filter.insertion(&items("a", 3)));
        let first = filter.send_as(id, call.clone()).await.unwrap();
        if ttl.is_some() {
            sleep(Duration::from_millis(600)).await;
        } else {
            filter.steps.clear(&filter.object).await.unwrap().unwrap();
        }
        for _ in 0..2 {
            assert_eq!(filter.send_as(id, call.clone()).await.unwrap(), first, "{name}");
            let empty = filter.survey_or_empty().await;
            assert!(matches!(empty, Surveyed::Empty(_)), "{name}: not executed again: {empty:?}");
        }
        // Nor is it executed again once there is another filter.
        let mut other = filter.other_handle();
        other.terms.ttl = None;
        assert_eq!(other.insert(&item("b")).await, [true]);
        assert_eq!(filter.send_as(id, call).await.unwrap(), first, "{name}");
        assert_eq!(other.contains(&items("a", 3)).await, [false; 3], "{name}");
    }
}

#[tokio::test]
async fn b5_a_cleared_filter_keeps_its_generation_and_nothing_else() {
    let fixture = Fixture::shared();
    let mut filter = Filter::new(&fixture, "f", MANY, 0.01).await.living(Duration::from_secs(600));
    assert_eq!(filter.steps.clear(&filter.object).await.unwrap(), None);
    filter.insert(&items("a", 100)).await;
    let generation = filter.record().generation;
    for _ in 0..2 {
        let cleared = filter.steps.clear(&filter.object).await.unwrap().unwrap();
        assert_eq!(cleared.generation, generation);
    }
    // The pages have expired, and so are gone for all clients; the server deletes them in its own
    // time.
    sleep(Duration::from_millis(1_100)).await;
    let [record]: [String; 1] = fixture.keys().await.try_into().unwrap();
    let left: u64 = filter.raw("PTTL", &record).await;
    assert!((86_000_000..=86_460_000).contains(&left), "{left} ms");
    let (question, chunk) =
        (filter.question(&item("a")), filter.steps.read(&filter.object, filter.seen, 0).await);
    let Probed::Empty { record: Some(kept) } = filter.probe(question).await else { panic!("not empty") };
    assert_eq!((kept.generation, chunk.unwrap()), (generation, ChunkRead::Empty));
    // Other terms are allowed now.
    filter.terms.ttl = None;
    assert_eq!(filter.insert(&items("a", 2)).await, [true, true]);
    assert_eq!((filter.record().generation, filter.record().ends), (generation, None));
    let left: u64 = filter.raw("PTTL", &record).await;
    assert!(left > NEVER, "{left} ms");
    assert!(filter.bytes().await == filter.image(&items("a", 2)));
}

#[tokio::test]
async fn b6_a_record_that_is_gone_was_lost() {
    let fixture = Fixture::shared();
    let mut filter = Filter::new(&fixture, "f", MANY, 0.01).await;
    filter.insert(&items("a", 100)).await;
    let mut record = fixture.keys().await;
    record.retain(|key| key.ends_with("}:b:f"));
    let _: u64 = filter.raw("DEL", &record).await;
    for call in [filter.question(&item("a0")), filter.insertion(&item("a0"))] {
        assert_eq!(filter.probe(call).await, Probed::Lost);
    }
    assert_eq!(filter.steps.survey(&filter.object, filter.seen).await.unwrap(), Surveyed::Lost);
    assert_eq!(filter.steps.read(&filter.object, filter.seen, 0).await.unwrap(), ChunkRead::Lost);
    assert_eq!(filter.steps.merge(&filter.piece(0, vec![1])).await.unwrap(), Merged::Lost);
    // A handle that never saw the record begins anew, and what is left of the old bits does not
    // count.
    let mut other = filter.other_handle();
    assert_eq!(other.insert(&items("a", 50)).await, [true; 50]);
    assert!(other.bytes().await == other.image(&items("a", 50)));
    let question = filter.question(&item("a0"));
    assert_eq!(filter.probe(question).await, Probed::Lost, "another generation");
    let mut record = filter.record();
    record.ends = Some(1);
    filter.seen = Some(record);
    assert_eq!(
        filter.contains(&item("a0")).await,
        [true],
        "the record that the handle knows ended in due time"
    );
}

#[tokio::test]
async fn b6_a_page_that_is_gone_was_lost_until_the_filter_is_cleared() {
    let fixture = Fixture::shared();
    let mut filter = Filter::new(&fixture, "f", MANY, 0.01).await;
    filter.insert(&items("a", 1_000)).await;
    let page = fixture.keys().await.into_iter().find(|key| key.ends_with("}:b3:f")).unwrap();
    for damage in ["DEL", "SET"] {
        let arguments = if damage == "DEL" { vec![&*page] } else { vec![&*page, "short"] };
        let _: redis::Value = filter.raw(damage, arguments).await;
        for mut handle in [filter.other_handle(), Filter { seen: filter.seen, ..filter.other_handle() }] {
            for call in [handle.question(&items("a", 100)), handle.insertion(&items("a", 100))] {
                assert_eq!(handle.probe(call).await, Probed::Lost, "{damage}");
            }
        }
        let of_page = 3 * 8;
        let read = filter.steps.read(&filter.object, filter.seen, of_page).await.unwrap();
        assert_eq!(read, ChunkRead::Lost);
        let merged = filter.steps.merge(&filter.piece(of_page, vec![1])).await.unwrap();
        assert_eq!(merged, Merged::Lost);
    }
    filter.steps.clear(&filter.object).await.unwrap();
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(fixture.keys().await.len(), 1, "what is left of the page is gone, too");
    assert!(filter.insert(&items("a", 100)).await.iter().all(|new| *new));
}

#[tokio::test]
async fn c19_a_foreign_key_is_named_and_left_alone() {
    let fixture = Fixture::shared();
    let mut filter = Filter::new(&fixture, "f", MANY, 0.01).await;
    filter.insert(&item("a")).await;
    let before = filter.survey().await;
    let record = fixture.keys().await.into_iter().find(|key| key.ends_with("}:b:f")).unwrap();
    for part in ["}:b5:", "}:bt:"] {
        let key = record.replace("}:b:", part);
        let kept: Option<Vec<u8>> = filter.raw("GETDEL", &key).await;
        let _: u64 = filter.raw("RPUSH", &[&*key, "theirs"]).await;
        let refused = if part == "}:bt:" {
            filter.steps.merge(&filter.piece(0, vec![255])).await.map(drop)
        } else {
            let id = filter.next_id();
            filter.send_as(id, filter.insertion(&items("b", 100))).await.map(drop)
        };
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&key), "{error}");
        let _: u64 = filter.raw("DEL", &key).await;
        if let Some(bytes) = kept {
            let () = filter.raw("SET", (&key, bytes)).await;
        }
    }
    assert_eq!(filter.survey().await, before, "no part of the request was executed");
    let _: u64 = filter.raw("DEL", &record).await;
    let () = filter.raw("SET", &[&*record, "theirs"]).await;
    let id = filter.next_id();
    let error = filter.send_as(id, filter.insertion(&item("a"))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(&record), "{error}");
    assert_eq!(filter.steps.clear(&filter.object).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn c25_lanes_that_ended_are_taken_out() {
    let fixture = Fixture::shared();
    let mut filter = Filter::new(&fixture, "f", 1_000, 0.01).await;
    filter.insert(&item("a")).await;
    let record = fixture.keys().await.into_iter().find(|key| key.ends_with("}:b:f")).unwrap();
    // Old answers, as they would be after many processes came and went.
    let mut set = vec![record.clone()];
    for _ in 0..1_000 {
        set.extend([format!("a{}", Ticket::random()), "1 1700000000000000;l".to_owned()]);
    }
    let _: u64 = filter.raw("HSET", set).await;
    filter.other_handle().insert(&item("a")).await;
    let fields = || filter.raw::<u64>("HLEN", &record);
    let left = fields().await;
    assert!((4..1_004).contains(&left), "the filter, its page, two lanes, and a part of the others: {left}");
    // Each new lane takes a part of them out.
    for _ in 0..100 {
        filter.other_handle().insert(&item("a")).await;
    }
    assert_eq!(fields().await, 104);
    // A handle that only asks leaves nothing.
    for _ in 0..50 {
        filter.other_handle().contains(&item("a")).await;
    }
    assert_eq!(fields().await, 104);
    for _ in 0..50 {
        filter.other_handle().insert(&item("a")).await;
    }
    assert_eq!(fields().await, 154, "answers younger than 60 s stay");
}
