//! The steps of Bloom filters on a server: what is kept, what is remembered, what is noticed when it is lost.

#![cfg(feature = "bloom")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

mod filters;
mod harness;

use std::time::Duration;

use filters::*;
use harness::*;
use stanchion_conformance::servers::RedisOptions;
use stanchion_core::ErrorKind;
use stanchion_core::engine::steps::{BloomAsk, BloomSteps, ChunkRead, Merged, Probed, Surveyed};

/// 12 pages of 1 MiB, the last one shorter.
const MANY: u64 = 10_000_000;

fn ones(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(byte.count_ones())).sum()
}

#[tokio::test]
async fn b4_the_bits_are_those_of_the_layout_in_one_page_and_in_many() {
    let bed = Bed::shared();
    for (name, capacity, rate) in [("small", 1_000, 0.01), ("large", MANY, 0.01), ("rare", 60_000, 1e-6)] {
        let mut filter = Filter::new(&bed, name, capacity, rate).await;
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
async fn b3_of_equal_items_the_first_is_new() {
    let bed = Bed::shared();
    for capacity in [1_000, MANY] {
        let mut filter = Filter::new(&bed, &format!("f{capacity}"), capacity, 1e-6).await;
        let twice: Vec<_> = ["a", "b", "a", "c", "b"].map(str::to_owned).into();
        assert_eq!(filter.insert(&twice).await, [true, true, false, true, false]);
        // In one flight, after what came before, under other names too.
        let calls = [
            filter.question(&item("d")),
            filter.insertion(&item("d")),
            filter.insertion(&["d".to_owned(), "e".to_owned()]),
            filter.question(&["e".to_owned(), "f".to_owned()]),
            filter.insertion(&[]),
        ];
        let flight = filter.depart();
        let told = filter.steps.probe(flight, &calls).await.into_iter().map(Result::unwrap);
        let expected: [&[bool]; 5] = [&[false], &[true], &[false, true], &[true, false], &[]];
        for (probed, expected) in told.zip(expected) {
            let life = filter.life();
            assert_eq!(probed, Probed::Told { answers: expected.to_vec(), life });
        }
    }
}

#[tokio::test]
async fn b3_a_flight_whose_reply_was_lost_is_answered_as_the_first_time() {
    let bed = Bed::shared();
    let mut filter = Filter::new(&bed, "f", 1_000, 1e-6).await;
    let flight = filter.depart();
    let call = filter.insertion(&items("i", 10));
    let first = filter.again(flight, call.clone()).await.unwrap();
    let Probed::Told { answers, .. } = &first else { panic!("{first:?}") };
    assert_eq!(answers, &[true; 10]);
    let mut other = filter.stranger();
    assert_eq!(other.insert(&items("i", 11)).await, [vec![false; 10], vec![true]].concat());
    for _ in 0..2 {
        assert_eq!(filter.again(flight, call.clone()).await.unwrap(), first);
    }
    let next = filter.depart();
    assert!(filter.again(next, filter.insertion(&item("x"))).await.is_ok());
    let late = filter.again(flight, call).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unknown, "a later flight was answered");
}

#[tokio::test]
async fn b3_a_reply_that_never_came_does_not_cost_the_news() {
    let (server, bed) = start(RedisOptions::default());
    let mut filter = Filter::new(&bed, "f", 1_000, 1e-6).await;
    let steps = bed.builder().request_timeout(Duration::from_millis(200)).steps().await.unwrap();
    filter.insert(&item("first")).await;
    filter.steps = steps.callers;
    filter.contains(&item("first")).await;
    let (flight, call) = (filter.depart(), filter.insertion(&items("i", 3)));
    // It is sent, and carried out when the server goes on.
    server.pause().unwrap();
    assert_eq!(filter.again(flight, call.clone()).await.unwrap_err().kind(), ErrorKind::Unknown);
    server.resume().unwrap();
    let Probed::Told { answers, .. } = filter.again(flight, call).await.unwrap() else { panic!("no answer") };
    assert_eq!(answers, [true; 3]);
    assert_eq!(filter.stranger().insert(&items("i", 3)).await, [false; 3]);
}

#[tokio::test]
async fn b5_other_terms_are_told_and_nothing_is_done() {
    let bed = Bed::shared();
    let mut filter = Filter::new(&bed, "f", 1_000, 0.01).await;
    filter.insert(&item("a")).await;
    let bits = filter.survey().await.bits_set;
    for (capacity, rate, ttl) in [(1_001, 0.01, None), (1_000, 0.02, None), (1_000, 0.01, Some(60))] {
        let mut other = Filter::new(&bed, "f", capacity, rate).await;
        other.terms.ttl = ttl.map(Duration::from_secs);
        for known in [None, filter.known] {
            other.known = known;
            for call in [other.insertion(&items("b", 50)), other.question(&item("a"))] {
                assert_eq!(other.probe(call).await, Probed::Mismatch { stored: filter.terms });
            }
            let merged = other.steps.merge(&other.piece(0, vec![255])).await.unwrap();
            assert_eq!(merged, Merged::Mismatch(filter.terms));
        }
    }
    assert_eq!(filter.survey().await.bits_set, bits);
}

/// The different times at which the keys expire.
async fn ends_of(bed: &Bed, filter: &Filter) -> Vec<u64> {
    let mut ends = Vec::new();
    for key in bed.keys().await {
        ends.push(filter.raw("PEXPIRETIME", key).await);
    }
    ends.sort_unstable();
    ends.dedup();
    ends
}

#[tokio::test]
async fn b5_all_keys_of_a_filter_expire_at_one_instant() {
    let bed = Bed::shared();
    let mut filter = Filter::new(&bed, "f", MANY, 0.01).await.living(Duration::from_secs(2));
    filter.insert(&items("a", 1)).await;
    let ends = filter.life().ends.unwrap();
    assert_eq!(ends_of(&bed, &filter).await, [ends]);
    // Pages that are begun later, what is merged, and answers of other lanes.
    filter.insert(&items("b", 100)).await;
    filter.stranger().insert(&items("c", 100)).await;
    filter.steps.merge(&filter.piece(3, vec![255; 10])).await.unwrap();
    assert_eq!(bed.keys().await.len(), 13);
    assert_eq!(ends_of(&bed, &filter).await, [ends]);
    assert_eq!(filter.life().ends, Some(ends));
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let question = filter.question(&items("a", 1));
    assert_eq!(filter.probe(question).await, Probed::Empty { life: None }, "it ended in due time");
    assert_eq!(bed.keys().await, Vec::<String>::new());
    let before = filter.life().generation;
    assert_eq!(filter.insert(&items("a", 1)).await, [true]);
    assert_ne!(filter.life().generation, before);
}

#[tokio::test]
async fn b5_a_cleared_filter_keeps_its_generation_and_nothing_else() {
    let bed = Bed::shared();
    let mut filter = Filter::new(&bed, "f", MANY, 0.01).await.living(Duration::from_secs(600));
    assert_eq!(filter.steps.clear(&filter.object).await.unwrap(), None);
    filter.insert(&items("a", 100)).await;
    let generation = filter.life().generation;
    for _ in 0..2 {
        let cleared = filter.steps.clear(&filter.object).await.unwrap().unwrap();
        assert_eq!(cleared.generation, generation);
    }
    let [record]: [String; 1] = bed.keys().await.try_into().unwrap();
    let left: u64 = filter.raw("PTTL", &record).await;
    assert!((86_000_000..=86_400_000).contains(&left), "{left} ms");
    let (question, chunk) =
        (filter.question(&item("a")), filter.steps.read(&filter.object, filter.known, 0).await);
    let Probed::Empty { life: Some(life) } = filter.probe(question).await else { panic!("not empty") };
    assert_eq!((life.generation, chunk.unwrap()), (generation, ChunkRead::Empty));
    // Others terms are free now.
    filter.terms.ttl = None;
    assert_eq!(filter.insert(&items("a", 2)).await, [true, true]);
    assert_eq!((filter.life().generation, filter.life().ends), (generation, None));
    let left: i64 = filter.raw("PTTL", &record).await;
    assert_eq!(left, -1);
    assert!(filter.bytes().await == filter.image(&items("a", 2)));
}

#[tokio::test]
async fn b6_a_record_that_is_gone_was_lost() {
    let bed = Bed::shared();
    let mut filter = Filter::new(&bed, "f", MANY, 0.01).await;
    filter.insert(&items("a", 100)).await;
    let mut record = bed.keys().await;
    record.retain(|key| key.ends_with("}:b:f"));
    let _: u64 = filter.raw("DEL", &record).await;
    for call in [filter.question(&item("a0")), filter.insertion(&item("a0"))] {
        assert_eq!(filter.probe(call).await, Probed::Lost);
    }
    assert_eq!(filter.steps.survey(&filter.object, filter.known).await.unwrap(), Surveyed::Lost);
    assert_eq!(filter.steps.read(&filter.object, filter.known, 0).await.unwrap(), ChunkRead::Lost);
    assert_eq!(filter.steps.merge(&filter.piece(0, vec![1])).await.unwrap(), Merged::Lost);
    // Who never saw it begins anew, and what is left of the old bits does not count.
    let mut other = filter.stranger();
    assert_eq!(other.insert(&items("a", 50)).await, [true; 50]);
    assert!(other.bytes().await == other.image(&items("a", 50)));
    let question = filter.question(&item("a0"));
    assert_eq!(filter.probe(question).await, Probed::Lost, "another generation");
    let mut life = filter.life();
    life.ends = Some(1);
    filter.known = Some(life);
    assert_eq!(filter.contains(&item("a0")).await, [true], "that one ended in due time");
}

#[tokio::test]
async fn b6_a_page_that_is_gone_was_lost_until_the_filter_is_cleared() {
    let bed = Bed::shared();
    let mut filter = Filter::new(&bed, "f", MANY, 0.01).await;
    filter.insert(&items("a", 1_000)).await;
    let page = bed.keys().await.into_iter().find(|key| key.ends_with("}:b3:f")).unwrap();
    for damage in ["DEL", "SET"] {
        let arguments = if damage == "DEL" { vec![&*page] } else { vec![&*page, "short"] };
        let _: redis::Value = filter.raw(damage, arguments).await;
        for mut handle in [filter.stranger(), Filter { known: filter.known, ..filter.stranger() }] {
            for call in [handle.question(&items("a", 100)), handle.insertion(&items("a", 100))] {
                assert_eq!(handle.probe(call).await, Probed::Lost, "{damage}");
            }
        }
        let of_page = 3 * 8;
        let read = filter.steps.read(&filter.object, filter.known, of_page).await.unwrap();
        assert_eq!(read, ChunkRead::Lost);
        let merged = filter.steps.merge(&filter.piece(of_page, vec![1])).await.unwrap();
        assert_eq!(merged, Merged::Lost);
    }
    filter.steps.clear(&filter.object).await.unwrap();
    assert_eq!(bed.keys().await.len(), 1, "what is left of it too");
    assert!(filter.insert(&items("a", 100)).await.iter().all(|new| *new));
}

#[tokio::test]
async fn b4_pieces_are_merged_bit_by_bit() {
    let bed = Bed::shared();
    let (mut from, mut into) =
        (Filter::new(&bed, "from", MANY, 0.01).await, Filter::new(&bed, "into", MANY, 0.01).await);
    let merged = into.steps.merge(&into.piece(0, Vec::new())).await.unwrap();
    let Merged::Done(life) = merged else { panic!("{merged:?}") };
    assert_eq!(bed.keys().await.len(), 1, "only the record");
    into.known = Some(life);
    from.insert(&items("a", 500)).await;
    into.insert(&items("b", 500)).await;
    for _ in 0..2 {
        let bytes = from.bytes().await;
        for (chunk, bytes) in bytes.chunks(1 << 17).enumerate() {
            let piece = into.piece(chunk as u64, bytes.to_vec());
            assert_eq!(into.steps.merge(&piece).await.unwrap(), Merged::Done(life));
        }
    }
    let both = into.image(&[items("a", 500), items("b", 500)].concat());
    assert!(into.bytes().await == both);
    assert_eq!(into.survey().await.bits_set, ones(&both));
    assert!(bed.keys().await.iter().all(|key| !key.contains("}:bt:")));
}

#[tokio::test]
async fn c19_a_foreign_key_is_named_and_left_alone() {
    let bed = Bed::shared();
    let mut filter = Filter::new(&bed, "f", MANY, 0.01).await;
    filter.insert(&item("a")).await;
    let before = filter.survey().await;
    let record = bed.keys().await.into_iter().find(|key| key.ends_with("}:b:f")).unwrap();
    for part in ["}:b5:", "}:bt:"] {
        let key = record.replace("}:b:", part);
        let kept: Option<Vec<u8>> = filter.raw("GETDEL", &key).await;
        let _: u64 = filter.raw("RPUSH", &[&*key, "theirs"]).await;
        let refused = if part == "}:bt:" {
            filter.steps.merge(&filter.piece(0, vec![255])).await.map(drop)
        } else {
            let flight = filter.depart();
            filter.again(flight, filter.insertion(&items("b", 100))).await.map(drop)
        };
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&key), "{error}");
        let _: u64 = filter.raw("DEL", &key).await;
        if let Some(bytes) = kept {
            let () = filter.raw("SET", (&key, bytes)).await;
        }
    }
    assert_eq!(filter.survey().await, before, "nothing of it was done");
    let _: u64 = filter.raw("DEL", &record).await;
    let () = filter.raw("SET", &[&*record, "theirs"]).await;
    let flight = filter.depart();
    let error = filter.again(flight, filter.insertion(&item("a"))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains(&record), "{error}");
    assert_eq!(filter.steps.clear(&filter.object).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn c25_lanes_that_ended_are_taken_out() {
    let bed = Bed::shared();
    let mut filter = Filter::new(&bed, "f", 1_000, 0.01).await;
    filter.insert(&item("a")).await;
    let record = bed.keys().await.into_iter().find(|key| key.ends_with("}:b:f")).unwrap();
    // Answers of long ago, as they would be after many processes came and went.
    let kept: String = filter.raw("HGET", &[&*record, "f"]).await;
    let mut words: Vec<_> = kept.split(' ').map(str::to_owned).collect();
    words[3] = "1001".to_owned();
    let mut set = vec![record.clone(), "f".to_owned(), words.join(" ")];
    for _ in 0..1_000 {
        set.extend([format!("a{}", stanchion_core::Ticket::random()), "1 1700000000000000;l".to_owned()]);
    }
    let _: u64 = filter.raw("HSET", set).await;
    filter.stranger().insert(&item("a")).await;
    let fields = || filter.raw::<u64>("HLEN", &record);
    assert_eq!(fields().await, 4, "the filter, its page and two lanes");
    // Who only asks leaves nothing.
    for _ in 0..50 {
        filter.stranger().contains(&item("a")).await;
    }
    assert_eq!(fields().await, 4);
    for _ in 0..50 {
        filter.stranger().insert(&item("a")).await;
    }
    assert_eq!(fields().await, 54, "what is younger than 60 s stays");
}

#[tokio::test]
async fn b3_a_batch_is_few_calls_of_the_server() {
    let (_server, bed) = start(RedisOptions::default());
    let mut filter = Filter::new(&bed, "f", 100_000, 0.01).await;
    filter.insert(&item("a")).await;
    let idle = bed.calls().await;
    let idle = bed.calls().await - idle;
    for (size, calls) in [(1, 6), (1_000, 33)] {
        let before = bed.calls().await;
        filter.insert(&items("b", size)).await;
        // EVALSHA, TIME, HMGET of the record and of its pages, STRLEN, a BITFIELD for each 250 bits, HSET.
        let made = bed.calls().await - before - idle;
        assert!(made <= calls + 1, "{made} calls for {size} items");
    }
    let ask = BloomAsk::Contains(Vec::new());
    let nothing = stanchion_core::engine::steps::BloomCall { of: filter.opening(), ask };
    assert!(matches!(filter.probe(nothing).await, Probed::Told { answers, .. } if answers.is_empty()));
}
