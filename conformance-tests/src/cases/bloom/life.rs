//! How a filter begins and ends.

use std::time::Duration;

use stanchion_core::{BloomOptions, ErrorKind};

use super::{client, contains, insert, items, precise, yes};
use crate::harness::Harness;
use crate::support::{EPSILON, cannot_show, eventually, kind_of, now, pause_until, unique};

pub(crate) async fn b5_opening_never_clears(h: &dyn Harness) {
    let name = unique("filter");
    let inside = items("inside", 50);
    insert(client(h, &name, precise()).await.as_ref(), &inside).await;
    for _ in 0..3 {
        let filter = client(h, &name, precise()).await;
        assert_eq!(yes(&contains(filter.as_ref(), &inside).await), 50);
        assert_eq!(yes(&insert(filter.as_ref(), &inside).await), 0);
    }
}

/// B5: the time to live counts from the first insert, whatever comes later. Its end is no loss.
pub(crate) async fn b5_a_time_to_live_ends_everything_at_once(h: &dyn Harness) {
    const TTL: Duration = Duration::from_secs(2);
    let name = unique("filter");
    let options = BloomOptions::new(300_000, 1e-6).ttl(TTL);
    let (one, other) = (client(h, &name, options.clone()).await, client(h, &name, options).await);
    let (early, late) = (items("early", 20), items("late", 20));
    let before = now();
    insert(one.as_ref(), &early).await;
    let after = now();
    pause_until(before + TTL / 2).await;
    let told = insert(other.as_ref(), &late).await;
    let inserted = now();
    let seen = yes(&contains(one.as_ref(), &early).await);
    if now() < before + TTL {
        assert_eq!((yes(&told), seen), (20, 20), "it is not over yet");
    }
    let all = [early, late].concat();
    // On a machine that stood still, the late items can have begun another life.
    let end = if inserted < before + TTL { after } else { inserted } + TTL;
    eventually(end.saturating_duration_since(now()) + EPSILON, "it ends", || async {
        yes(&contains(one.as_ref(), &all).await) == 0
    })
    .await;
    assert!(now() >= before + TTL, "not before its time");
    assert_eq!(one.len_estimate().await.expect("a number"), 0);
    let again = now();
    assert_eq!(yes(&insert(other.as_ref(), &all).await), 40, "all of it is new again, and nothing was lost");
    let seen = yes(&contains(one.as_ref(), &all).await);
    assert!(seen == 40 || again.elapsed() >= TTL, "{seen} of 40");
}

pub(crate) async fn b5_clear_removes_items_and_parameters(h: &dyn Harness) {
    let name = unique("filter");
    let (one, other) = (client(h, &name, precise()).await, client(h, &name, precise()).await);
    one.clear().await.expect("nothing to clear");
    let inside = items("inside", 100);
    insert(one.as_ref(), &inside).await;
    assert_eq!(yes(&contains(other.as_ref(), &inside).await), 100);
    other.clear().await.expect("cleared");
    assert_eq!(yes(&contains(one.as_ref(), &inside).await), 0, "cleared is not lost");
    assert_eq!(one.len_estimate().await.expect("a number"), 0);
    assert_eq!(yes(&insert(one.as_ref(), &inside).await), 100, "all of it is new again");
    assert_eq!(yes(&insert(other.as_ref(), &inside).await), 0);
    one.clear().await.expect("cleared");
    let larger = client(h, &name, BloomOptions::new(20_000, 1e-6)).await;
    assert_eq!(yes(&insert(larger.as_ref(), &inside).await), 100, "with parameters of its own");
    assert_eq!(kind_of(one.contains(b"a").await), Some(ErrorKind::ConfigMismatch));
}

pub(crate) async fn b6_what_was_lost_is_not_absent(h: &dyn Harness) {
    let name = unique("filter");
    let (one, other) = (client(h, &name, precise()).await, client(h, &name, precise()).await);
    let inside = items("inside", 10);
    insert(one.as_ref(), &inside).await;
    assert_eq!(yes(&contains(other.as_ref(), &inside).await), 10);
    if !h.lose_data().await {
        return cannot_show("this harness cannot lose data");
    }
    assert_eq!(kind_of(one.contains(&inside[0]).await), Some(ErrorKind::StateLost));
    assert!(one.insert(&inside[0]).await.expect("inserted"), "told once; then it starts anew");
    let refused = other.insert(&inside[1]).await;
    assert_eq!(
        kind_of(refused),
        Some(ErrorKind::StateLost),
        "another filter of the same name is not the same"
    );
    assert!(other.contains(&inside[0]).await.expect("an answer"));
    assert!(!other.contains(&inside[1]).await.expect("an answer"), "a refused insert inserts nothing");
}

/// B6: a client that cleared a filter, or found it cleared, has not seen the filter that came after
/// it, and gets no loss when that one ends.
pub(crate) async fn b6_the_end_of_what_nobody_saw_is_no_loss(h: &dyn Harness) {
    const TTL: Duration = Duration::from_secs(1);
    let (name, inside) = (unique("filter"), items("inside", 3));
    let (one, other) = (client(h, &name, precise()).await, client(h, &name, precise()).await);
    for filter in [&one, &other] {
        insert(filter.as_ref(), &inside).await;
    }
    one.clear().await.expect("cleared");
    assert!(!other.contains(&inside[0]).await.expect("an answer"));
    insert(client(h, &name, precise().ttl(TTL)).await.as_ref(), &inside).await;
    let ended = now() + TTL;
    pause_until(ended + EPSILON).await;
    for filter in [one, other] {
        assert_eq!(yes(&contains(filter.as_ref(), &inside).await), 0, "it ended in due time");
    }
}

/// B6: none of the other calls takes a loss for an empty filter.
pub(crate) async fn b6_no_call_takes_a_loss_for_nothing(h: &dyn Harness) {
    let (name, fresh) = (unique("filter"), items("fresh", 3));
    let mut filters = Vec::new();
    for _ in 0..4 {
        let filter = client(h, &name, precise()).await;
        insert(filter.as_ref(), &fresh).await;
        filters.push(filter);
    }
    let exported = filters[0].export().await.expect("exported");
    if !h.lose_data().await {
        return cannot_show("this harness cannot lose data");
    }
    let lost = Some(ErrorKind::StateLost);
    assert_eq!(kind_of(filters[0].len_estimate().await), lost);
    assert_eq!(kind_of(filters[1].export().await), lost);
    assert_eq!(kind_of(filters[2].union_with(&unique("other")).await), lost);
    assert_eq!(kind_of(filters[3].import(&exported).await), lost);
    filters[3].import(&exported).await.expect("told once; then it starts anew");
    assert_eq!(yes(&contains(filters[0].as_ref(), &fresh).await), 3);
}
