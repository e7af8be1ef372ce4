//! Inserts and look-ups.

use std::sync::Arc;

use stanchion_core::{BloomOptions, ErrorKind};
use tokio::sync::Barrier;

use super::{client, contains, insert, items, precise, slices, yes};
use crate::harness::Harness;
use crate::support::{Cut, drop_after, join_all, kind_of, spawn, unique};

pub(crate) async fn b1_what_was_inserted_is_contained(h: &dyn Harness) {
    let name = unique("filter");
    let (one, other) = (client(h, &name, precise()).await, client(h, &name, precise()).await);
    assert_eq!(one.name(), name);
    assert!(!one.contains(b"a").await.expect("an answer"), "a filter that is not there");
    assert!(one.insert(b"a").await.expect("inserted"));
    let (inside, outside) = (items("inside", 1_000), items("outside", 1_000));
    assert_eq!(yes(&insert(one.as_ref(), &inside).await), 1_000);
    for filter in [&one, &other] {
        assert!(filter.contains(b"a").await.expect("an answer"));
        assert_eq!(yes(&contains(filter.as_ref(), &inside).await), 1_000, "no false negative");
        assert!(yes(&contains(filter.as_ref(), &outside).await) <= 1, "and hardly a false positive");
    }
    assert_eq!(insert(one.as_ref(), &[]).await, [false; 0], "nothing asked");
}

/// B1: a batch with more bits than one request sets.
pub(crate) async fn b1_a_batch_may_be_large(h: &dyn Harness) {
    let filter = client(h, &unique("filter"), precise()).await;
    let inside = items("inside", 4_000);
    assert!(yes(&insert(filter.as_ref(), &inside).await) >= 3_999);
    assert_eq!(yes(&contains(filter.as_ref(), &inside).await), 4_000);
}

pub(crate) async fn c27_a_call_has_ten_thousand_items_at_most(h: &dyn Harness) {
    let filter = client(h, &unique("filter"), precise()).await;
    let items = items("inside", 10_001);
    let slices = slices(&items);
    for refused in [filter.insert_many(&slices).await, filter.contains_many(&slices).await] {
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument));
    }
    assert_eq!(
        yes(&filter.contains_many(&slices[..10_000]).await.expect("an answer")),
        0,
        "nothing was done"
    );
}

/// B1: a filter with more bits than a page of any store.
pub(crate) async fn b1_a_filter_may_be_large(h: &dyn Harness) {
    let filter = client(h, &unique("filter"), BloomOptions::new(2_000_000, 1e-6)).await;
    let inside = items("inside", 50);
    assert_eq!(yes(&insert(filter.as_ref(), &inside).await), 50);
    assert_eq!(yes(&contains(filter.as_ref(), &inside).await), 50);
    assert_eq!(yes(&contains(filter.as_ref(), &items("outside", 50)).await), 0);
}

pub(crate) async fn b1_items_may_be_of_any_length(h: &dyn Harness) {
    let filter = client(h, &unique("filter"), precise()).await;
    let long = vec![7; 64 << 20];
    let odd = [&b""[..], b"\0", b"\0\0", b"\xff\xfe", &long, &long[1..]];
    assert_eq!(yes(&filter.insert_many(&odd).await.expect("inserted")), odd.len(), "they are all different");
    assert_eq!(yes(&filter.contains_many(&odd).await.expect("an answer")), odd.len());
    assert!(!filter.contains(&long[2..]).await.expect("an answer"));
}

pub(crate) async fn b1_nothing_is_lost_among_concurrent_inserts(h: &dyn Harness) {
    let name = unique("filter");
    let mut tasks = Vec::new();
    for client_number in 0..4 {
        let filter = client(h, &name, precise()).await;
        tasks.push(spawn(async move {
            for piece in items(&format!("client {client_number}"), 200).chunks(20) {
                insert(filter.as_ref(), piece).await;
            }
        }));
    }
    join_all(tasks).await;
    let filter = client(h, &name, precise()).await;
    for client_number in 0..4 {
        let inside = items(&format!("client {client_number}"), 200);
        assert_eq!(yes(&contains(filter.as_ref(), &inside).await), 200, "client {client_number}");
    }
}

/// B2: 200 false positives in 20,000 are expected; the bounds are five standard deviations away.
pub(crate) async fn b2_a_full_filter_keeps_its_rate(h: &dyn Harness) {
    let filter = client(h, &unique("filter"), BloomOptions::new(2_000, 0.01)).await;
    insert(filter.as_ref(), &items("inside", 2_000)).await;
    let mut taken = 0;
    for outside in items("outside", 20_000).chunks(10_000) {
        taken += yes(&contains(filter.as_ref(), outside).await);
    }
    assert!((130..=270).contains(&taken), "{taken} of 20,000");
}

pub(crate) async fn b2_the_fill_tells_the_number(h: &dyn Harness) {
    let filter = client(h, &unique("filter"), BloomOptions::new(2_000, 0.01)).await;
    assert_eq!(filter.len_estimate().await.expect("a number"), 0);
    assert!(filter.fill_ratio().await.expect("a ratio") < f64::EPSILON);
    insert(filter.as_ref(), &items("inside", 1_000)).await;
    let number = filter.len_estimate().await.expect("a number");
    assert!((950..=1_050).contains(&number), "{number} of 1,000");
    insert(filter.as_ref(), &items("more", 1_000)).await;
    let ratio = filter.fill_ratio().await.expect("a ratio");
    assert!((0.48..=0.56).contains(&ratio), "about a half when full: {ratio}");
}

pub(crate) async fn b3_an_item_is_new_once(h: &dyn Harness) {
    let name = unique("filter");
    let (one, other) = (client(h, &name, precise()).await, client(h, &name, precise()).await);
    assert!(one.insert(b"a").await.expect("inserted"));
    assert!(!one.insert(b"a").await.expect("inserted"), "not again");
    assert!(!other.insert(b"a").await.expect("inserted"), "nor to anybody else");
    let twice: [&[u8]; 5] = [b"b", b"a", b"b", b"c", b"c"];
    let told = other.insert_many(&twice).await.expect("inserted");
    assert_eq!(told, [true, false, false, true, false], "items count one after the other");
}

/// B3: many clients insert the same items at once; each item is new to exactly one of them.
pub(crate) async fn b3_one_of_many_is_told(h: &dyn Harness) {
    const COUNT: usize = 500;
    const CLIENTS: usize = 6;
    let name = unique("filter");
    let (mut filters, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        filters.push(client(h, &name, precise()).await);
    }
    let together = Arc::new(Barrier::new(CLIENTS));
    for filter in filters {
        let together = Arc::clone(&together);
        tasks.push(spawn(async move {
            let mut told = Vec::new();
            for piece in items("same", COUNT).chunks(10) {
                // However busy the machine is, none of them is done before the others begin.
                together.wait().await;
                told.append(&mut insert(filter.as_ref(), piece).await);
            }
            told
        }));
    }
    let told = join_all(tasks).await;
    let times = |item: usize| told.iter().filter(|told| told[item]).count();
    let twice: Vec<_> = (0..COUNT).filter(|item| times(*item) > 1).collect();
    assert_eq!(twice, [0; 0], "new to more than one");
    let never = (0..COUNT).filter(|item| times(*item) == 0).count();
    assert!(never <= 1, "{never} are new to nobody");
}

/// B3: concurrent calls of one client share requests, and each still gets its own answer.
pub(crate) async fn b3_joined_calls_get_their_own_answers(h: &dyn Harness) {
    let filter = client(h, &unique("filter"), precise()).await;
    let mut tasks = Vec::new();
    for number in 0..200_u32 {
        let filter = Arc::clone(&filter);
        tasks.push(spawn(async move {
            let item = (number / 2).to_le_bytes();
            (filter.insert(&item).await.expect("inserted"), filter.contains(&item).await.expect("an answer"))
        }));
    }
    let told = join_all(tasks).await;
    for (number, pair) in told.chunks(2).enumerate() {
        assert_eq!(pair.iter().filter(|(new, _)| *new).count(), 1, "item {number} is new to one of two");
        assert!(pair.iter().all(|(_, contained)| *contained), "item {number} is contained");
    }
}

/// B3, C4: an insert that was dropped half-way may have happened or not; its items are new to one
/// caller at most.
pub(crate) async fn b3_c4_a_dropped_insert_is_told_to_one_at_most(h: &dyn Harness) {
    let name = unique("filter");
    let (one, other) = (client(h, &name, precise()).await, client(h, &name, precise()).await);
    for polls in 0..6 {
        let item = format!("item {polls}").into_bytes();
        let told = match drop_after(polls, one.insert(&item)).await {
            Cut::Ended(new) => usize::from(new.expect("inserted")),
            Cut::Dropped | Cut::Waiting => 0,
        };
        let again =
            [other.insert(&item).await.expect("inserted"), one.insert(&item).await.expect("inserted")];
        assert!(told + yes(&again) <= 1, "{polls} polls: told {told} times, then {again:?}");
        assert!(other.contains(&item).await.expect("an answer"));
    }
}
