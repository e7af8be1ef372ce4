//! The rows that the functions keep of Bloom filters (pages, images, and answers), and how the loss
//! of rows is noticed.

#![cfg(feature = "bloom")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::time::Duration;

use crate::common::server;
use crate::filters::{Filter, all, large, says, small};
use stanchion_conformance::support::pause;
use stanchion_core::Ticket;
use stanchion_core::bloom::FilterTerms;
use stanchion_core::spi::{CHUNK_BYTES, ChunkRead, FilterState, Merged, Probed, Surveyed};
use stanchion_testbed::servers::PostgresServer;
use tokio::task::JoinSet;

fn count(server: &PostgresServer, what: &str) -> i64 {
    server.sql(&format!("SELECT count(*) FROM stanchion.{what}")).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn b1_b4_items_of_many_pages_are_found_and_have_the_bits_of_the_layout() {
    let server = server();
    let mut filter = Filter::new(&server, large()).await;
    let (odd, even): (Vec<u32>, Vec<u32>) = (0..4_000).partition(|item| item % 2 == 1);
    assert!(matches!(filter.contains(&odd).await, Probed::Empty { record: None }));
    for items in odd.chunks(1_000) {
        assert_eq!(says(&filter.insert(items).await), vec![true; 1_000]);
    }
    assert_eq!(says(&filter.insert(&odd[500..1_500]).await), vec![false; 1_000]);
    assert_eq!(says(&filter.contains(&odd).await), vec![true; 2_000]);
    assert_eq!(says(&filter.contains(&even).await), vec![false; 2_000]);
    assert!(count(&server, "bloom_pages") > 1_000);
    let mut expected = vec![0_u8; usize::try_from(filter.terms.shape.bytes()).unwrap()];
    for position in filter.positions(&odd) {
        expected[usize::try_from(position / 8).unwrap()] |= 0x80 >> (position % 8);
    }
    assert!(filter.bits().await == expected);
    let Surveyed::Live(FilterState { terms, bits_set, .. }) = filter.survey().await else {
        panic!("a filter")
    };
    assert_eq!(terms, filter.terms);
    assert_eq!(bits_set, expected.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>());
}

#[tokio::test]
async fn b3_calls_and_items_of_a_request_count_in_order() {
    let server = server();
    let mut filter = Filter::new(&server, small()).await;
    let calls = [
        filter.asking(&[1]),
        filter.inserting(&[1, 2, 1]),
        filter.asking(&[2, 3]),
        filter.inserting(&[3, 2]),
        filter.asking(&[3]),
    ];
    let told = filter.send(&calls).await;
    assert!(matches!(told[0], Probed::Empty { .. }));
    let rest: Vec<_> = told[1..].iter().map(says).collect();
    let expected = [&[true, true, false][..], &[true, false], &[true, false], &[true]];
    assert_eq!(rest, expected);
    // Nothing is new, and nothing is written.
    let answers = count(&server, "bloom_flights");
    assert_eq!(
        filter.send(&calls).await.iter().map(says).map(|said| said[0]).collect::<Vec<_>>(),
        [true, false, true, false, true]
    );
    assert_eq!(server.sql("SELECT number FROM stanchion.bloom_flights").unwrap().trim(), "1");
    assert_eq!(answers, 1);
    assert!(matches!(filter.insert(&[]).await, Probed::Told { answers, .. } if answers.is_empty()));
}

#[tokio::test]
async fn b3_a_request_that_is_sent_again_is_answered_as_the_first_time() {
    let server = server();
    let mut filter = Filter::new(&server, small()).await;
    let other = Filter::named(&server, "g", small()).await;
    let calls =
        [filter.inserting(&[1, 2]), other.inserting(&[1]), filter.asking(&[1]), filter.inserting(&[2, 3])];
    let id = filter.next_id();
    let told = all(filter.steps.probe(id, &calls).await);
    assert_eq!(
        told.iter().map(says).collect::<Vec<_>>(),
        [vec![true; 2], vec![true], vec![true], vec![false, true]]
    );
    assert_eq!(all(filter.steps.probe(id, &calls).await), told);
    // Also if the filter was cleared in the meantime.
    let record = filter.clear().await;
    let again = all(filter.steps.probe(id, &calls).await);
    assert_eq!((&again[0], &again[1], &again[3]), (&told[0], &told[1], &told[3]));
    assert!(matches!(filter.contains(&[1]).await, Probed::Empty { record: cleared } if cleared == record));
    // A later request of the lane came before.
    let mut late = Filter { number: 9, lane: id.sequence, ..Filter::new(&server, small()).await };
    late.insert(&[7]).await;
    let refused = filter.steps.probe(id, &[filter.inserting(&[8])]).await;
    assert!(refused[0].is_err(), "{refused:?}");
    assert_eq!(says(&late.contains(&[8]).await), [false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b3_of_clients_that_insert_the_same_items_one_is_told_each() {
    let server = server();
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let mut filter = Filter::new(&server, small()).await;
        tasks.spawn(async move {
            let mut new = vec![0; 600];
            for items in (0..600).collect::<Vec<u32>>().chunks(40) {
                let told = says(&filter.insert(items).await);
                for (item, is_new) in items.iter().zip(told) {
                    new[usize::try_from(*item).unwrap()] += u32::from(is_new);
                }
            }
            new
        });
    }
    let told = tasks.join_all().await;
    let sums: Vec<u32> = (0..600).map(|item| told.iter().map(|new| new[item]).sum()).collect();
    assert_eq!(sums, vec![1; 600]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_the_same_filters_do_not_deadlock() {
    let server = server();
    let mut tasks = JoinSet::new();
    for client in 0..4_u32 {
        let mut filters = Vec::new();
        for name in ["a", "b", "c"] {
            filters.push(Filter::named(&server, name, small()).await);
        }
        tasks.spawn(async move {
            for round in 0..40 {
                filters.rotate_left(1);
                let calls: Vec<_> =
                    filters.iter().map(|filter| filter.inserting(&[client, round, round + 1])).collect();
                filters[0].send(&calls).await;
                filters[0].clear().await;
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn b5_other_terms_are_told_and_nothing_is_done() {
    let server = server();
    let mut filter = Filter::new(&server, small()).await;
    filter.insert(&[1]).await;
    let terms = FilterTerms { ttl: Some(Duration::from_secs(60)), ..small() };
    let mut other = Filter::new(&server, terms).await;
    let mismatch = Probed::Mismatch { stored: small() };
    assert_eq!(other.insert(&[2]).await, mismatch);
    assert_eq!(other.contains(&[2]).await, mismatch);
    assert_eq!(other.merge(0, vec![255]).await, Merged::Mismatch(small()));
    assert_eq!(says(&filter.contains(&[1, 2]).await), [true, false]);
    filter.clear().await;
    assert_eq!(says(&other.insert(&[2]).await), [true]);
    assert_eq!(filter.insert(&[1]).await, Probed::Mismatch { stored: terms });
}

#[tokio::test]
async fn b5_a_filter_ends_as_a_whole_and_another_begins() {
    let server = server();
    // Long enough for the calls before its end, on any machine.
    let ttl = Duration::from_secs(10);
    let mut filter = Filter::new(&server, FilterTerms { ttl: Some(ttl), ..large() }).await;
    filter.insert(&[1, 2]).await;
    let first = filter.see().await;
    assert!(first.ends.is_some());
    assert_eq!(says(&filter.contains(&[1]).await), [true]);
    pause(ttl).await;
    assert_eq!(filter.contains(&[1]).await, Probed::Empty { record: None });
    assert_eq!(filter.survey().await, Surveyed::Empty(None));
    assert_eq!(filter.read(0).await, ChunkRead::Empty);
    assert_eq!(says(&filter.insert(&[2]).await), [true]);
    assert_eq!(says(&filter.contains(&[1, 2]).await), [false, true]);
    filter.seen = None;
    assert_ne!(filter.see().await.generation, first.generation);
}

#[tokio::test]
async fn b5_a_cleared_filter_is_empty_and_keeps_its_generation() {
    let server = server();
    let mut filter = Filter::new(&server, large()).await;
    assert_eq!(filter.clear().await, None);
    filter.insert(&[1]).await;
    let record = filter.see().await;
    let cleared = filter.clear().await.unwrap();
    assert_eq!(cleared.generation, record.generation);
    assert!(cleared.ends.is_some());
    assert_eq!(filter.contains(&[1]).await, Probed::Empty { record: Some(cleared) });
    assert_eq!(filter.survey().await, Surveyed::Empty(Some(cleared)));
    assert_eq!(filter.read(0).await, ChunkRead::Empty);
    assert_eq!(says(&filter.insert(&[2]).await), [true]);
    assert_eq!(filter.see().await, record, "it does not end any more");
    assert_eq!(says(&filter.contains(&[1, 2]).await), [false, true]);
}

#[tokio::test]
async fn b6_what_is_lost_is_not_taken_for_what_was_not_inserted() {
    let losses = [
        "DELETE FROM stanchion.bloom_filters",
        "DELETE FROM stanchion.bloom_pages",
        "DELETE FROM stanchion.bloom_pages WHERE page >= 0",
        "UPDATE stanchion.bloom_filters SET generation = 'c0ffee00-0000-0000-0000-000000000000'",
    ];
    let server = server();
    for loss in losses {
        let mut filter = Filter::named(&server, &Ticket::random().to_string(), large()).await;
        let items: Vec<u32> = (0..500).collect();
        filter.insert(&items).await;
        filter.see().await;
        server.sql(loss).unwrap();
        assert_eq!(filter.contains(&[1]).await, Probed::Lost, "{loss}");
        assert_eq!(filter.insert(&[1]).await, Probed::Lost, "{loss}");
        assert_eq!(filter.read(0).await, ChunkRead::Lost, "{loss}");
        if loss.contains("bloom_filters") {
            assert_eq!(filter.survey().await, Surveyed::Lost, "{loss}");
        } else {
            assert_eq!(filter.merge(0, vec![255; 131_072]).await, Merged::Lost, "{loss}");
        }
        filter.clear().await;
        filter.seen = None;
        assert_eq!(says(&filter.insert(&[1]).await), [true], "{loss}");
    }
}

#[tokio::test]
async fn b4_what_one_filter_exports_another_takes_in() {
    let server = server();
    let mut from = Filter::named(&server, "from", large()).await;
    let mut into = Filter::named(&server, "into", large()).await;
    from.insert(&(0..1_000).collect::<Vec<_>>()).await;
    into.insert(&(500..1_500).collect::<Vec<_>>()).await;
    let bits = from.bits().await;
    for _ in 0..2 {
        for (chunk, piece) in (0..).zip(bits.chunks(usize::try_from(CHUNK_BYTES).unwrap())) {
            assert!(matches!(into.merge(chunk, piece.to_vec()).await, Merged::Done(_)));
        }
    }
    assert_eq!(says(&into.contains(&(0..1_500).collect::<Vec<_>>()).await), vec![true; 1_500]);
    let Surveyed::Live(survey) = into.survey().await else { panic!("a filter") };
    assert_eq!(
        survey.bits_set,
        into.bits().await.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
    );
    // An empty piece makes the filter.
    let made = Filter::named(&server, "made", small()).await;
    assert!(matches!(made.merge(0, Vec::new()).await, Merged::Done(_)));
    assert_eq!(made.read(0).await, ChunkRead::Bytes(Vec::new()));
    assert!(matches!(made.survey().await, Surveyed::Live(FilterState { bits_set: 0, .. })));
}

#[tokio::test]
async fn c25_what_is_over_leaves_no_row() {
    let server = server();
    let mut filter = Filter::new(&server, large()).await;
    filter.insert(&(0..100).collect::<Vec<_>>()).await;
    let mut kept = Filter::named(&server, "kept", small()).await;
    kept.insert(&[1]).await;
    filter.clear().await;
    let sweep = || -> i64 {
        server.sql("SELECT stanchion.sweep_blooms('stanchion', 100)").unwrap().trim().parse().unwrap()
    };
    while sweep() > 0 {}
    // The row of the cleared filter stays, and the answers of both filters for a minute.
    let rows = || {
        ["bloom_filters", "bloom_images", "bloom_pages", "bloom_flights"].map(|table| count(&server, table))
    };
    let [filters, images, pages, answers] = rows();
    assert_eq!((filters, images, answers), (2, 1, 2));
    assert!((2..=4).contains(&pages), "{pages}");
    server.sql("UPDATE stanchion.bloom_flights SET answered = answered - 61000").unwrap();
    server.sql("UPDATE stanchion.bloom_filters SET ends = stanchion.now() / 1000 - 61000").unwrap();
    while sweep() > 0 {}
    assert_eq!(rows(), [0; 4]);
}
