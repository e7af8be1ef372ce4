//! Filters with answers to very many processes.

use stanchion_core::bloom::{FilterTerms, Shape};
use stanchion_core::spi::{Clear, Merge, Opening, Probe, ProbeItems, Read, Survey};

use super::*;

/// Items in a filter of 115 pages.
const CAPACITY: u64 = 100_000_000;
/// What a probe reads of their bits counts, too.
const ITEMS: u32 = 200;

fn opening() -> Opening {
    let terms = FilterTerms { shape: Shape::new(CAPACITY, 0.01).unwrap(), ttl: None };
    Opening { object: object(Kind::BloomFilter, "f"), terms, seen: None, fresh: Ticket::random() }
}

fn probe(items: fn(Vec<u64>) -> ProbeItems, from: u32) -> Request {
    let of = opening();
    let positions = |item: u32| of.terms.shape.positions(&item.to_be_bytes());
    let items = items((from..from + ITEMS).flat_map(positions).collect());
    Probe { id: RequestId { sequence: Ticket::random(), number: 1 }, of, items }.into()
}

fn requests() -> Vec<(&'static str, Request)> {
    let of = || opening().object;
    vec![
        ("insert", probe(ProbeItems::Insert, ITEMS)),
        ("contains", probe(ProbeItems::Contains, 0)),
        ("merge", Merge { of: opening(), chunk: 0, bytes: vec![1; 1 << 17] }.into()),
        ("survey", Survey { object: of(), seen: None }.into()),
        ("read", Read { object: of(), seen: None, chunk: 0 }.into()),
        ("clear", Clear { object: of() }.into()),
    ]
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
async fn c27_no_script_looks_at_all_answers_of_a_filter() {
    let rig = Rig::new().await;
    let mut over = Vec::new();
    // Answers that a retry may still need, and older ones.
    for (offset, is_cleared) in [("0", false), ("-100000000", false), ("0", true)] {
        for (what, request) in requests() {
            rig.send(probe(ProbeItems::Insert, 0)).await.unwrap();
            let answers = [&MANY.to_string(), "answered", offset];
            rig.run(include_str!("reservations.lua"), &opening().object, &answers).await;
            if is_cleared {
                rig.send(Clear { object: opening().object }.into()).await.unwrap();
            }
            let what = format!("answered {offset}, {}: {what}", if is_cleared { "cleared" } else { "live" });
            if !rig.judge(&what, request).await {
                over.push(what);
            }
            let _: String = rig.ask("FLUSHALL", &[]).await;
        }
    }
    assert!(over.is_empty(), "more than {MOST}: {over:#?}");
}
