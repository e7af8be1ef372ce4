//! Reservations in the future.

use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{Limiter, Quota, Reservation};

use super::client;
use crate::harness::Harness;
use crate::support::{
    AT_ONCE, CANCELLED, EPSILON, TICK, eventually, join_all, now, spawn, stays_pending, unique, within,
};

const TOKEN: Duration = Duration::from_secs(10);

/// Opens a limiter with one token in 10 s and a burst of 10.
async fn tens(h: &dyn Harness, name: &str) -> Arc<dyn Limiter> {
    client(h, name, Quota::per(1, TOKEN).burst(10)).await
}

async fn reserve(limiter: &Arc<dyn Limiter>, cost: u64) -> Reservation {
    limiter.reserve_n(cost, TOKEN * 1_000).await.expect("reserve").expect("soon enough")
}

/// Returns the number of tokens; negative for a debt.
async fn level(limiter: &Arc<dyn Limiter>) -> i64 {
    super::level(limiter.as_ref(), 10, TOKEN).await
}

pub(crate) async fn l6_places_are_in_the_order_of_reservation(h: &dyn Harness) {
    let name = unique("limiter");
    let clients = [tens(h, &name).await, tens(h, &name).await];
    let before = now();
    let mut places = Vec::new();
    for (number, cost) in [10, 1, 3, 0, 2, 5, 1, 1].into_iter().enumerate() {
        places.push(reserve(&clients[number % 2], cost).await);
    }
    let received = now();
    assert!(places[0].is_due(), "the burst is there at once");
    let mut total = 0;
    for place in &places {
        total += place.cost();
        let due = TOKEN * u32::try_from(total.saturating_sub(10)).expect("a small number");
        let ready = place.ready_at();
        assert!(
            ready + TICK >= (before + due).into_std(),
            "early by {:?}",
            (before + due).into_std() - ready
        );
        assert!(
            ready <= (received + due + TICK).into_std(),
            "late by {:?}",
            ready - (received + due).into_std()
        );
    }
    assert!(places[1..].iter().all(|place| !place.is_due()));
}

/// L6: across processes and under concurrency, no two reservations share tokens.
pub(crate) async fn l6_concurrent_reservations_share_nothing(h: &dyn Harness) {
    let name = unique("limiter");
    let clients = [tens(h, &name).await, tens(h, &name).await];
    let before = now();
    let calls = (0..40_usize).map(|number| {
        let limiter = Arc::clone(&clients[number % 2]);
        spawn(async move { reserve(&limiter, 1).await })
    });
    let places = join_all(calls.collect()).await;
    let received = now();
    let mut ready: Vec<_> = places.iter().map(Reservation::ready_at).collect();
    ready.sort_unstable();
    for (number, ready) in ready.iter().enumerate().skip(10) {
        let due = TOKEN * u32::try_from(number - 9).expect("a small number");
        assert!(*ready + TICK >= (before + due).into_std() && *ready <= (received + due + TICK).into_std());
    }
    let mut tickets: Vec<_> = places.iter().map(Reservation::ticket).collect();
    tickets.sort_unstable();
    tickets.dedup();
    assert_eq!(tickets.len(), 40, "each has its own ticket (C1)");
}

pub(crate) async fn l6_a_place_too_late_is_refused_without_cost(h: &dyn Harness) {
    let name = unique("limiter");
    let (limiter, other) = (tens(h, &name).await, tens(h, &name).await);
    drop(reserve(&limiter, 10).await);
    for max_wait in [Duration::ZERO, Duration::from_micros(1), TOKEN * 2] {
        let refused =
            within(AT_ONCE, "refused at once", other.reserve_n(3, max_wait)).await.expect("reserve");
        assert!(refused.is_none(), "30 s is not within {max_wait:?}");
    }
    assert_eq!(level(&limiter).await, 0, "without cost");
    let place = other.reserve_n(3, TOKEN * 3).await.expect("reserve").expect("30 s is within 30 s");
    assert_eq!(level(&limiter).await, -3);
    assert_eq!(place.cancel().await.expect("cancel"), 3);
}

/// L7: `clamp(n − cost reserved after it, 0, n)`.
pub(crate) async fn l7_cancel_gives_back_what_nobody_used(h: &dyn Harness) {
    let name = unique("limiter");
    let (limiter, other) = (tens(h, &name).await, tens(h, &name).await);
    drop(reserve(&limiter, 10).await);
    let last = reserve(&other, 4).await;
    assert_eq!(last.cancel().await.expect("cancel"), 4, "nobody was behind it");
    assert_eq!(level(&other).await, 0);
    let first = reserve(&limiter, 5).await;
    let second = reserve(&other, 3).await;
    assert_eq!(level(&other).await, -8);
    assert_eq!(first.cancel().await.expect("cancel"), 2, "three of five were used behind it");
    assert_eq!(level(&other).await, -6);
    let third = reserve(&limiter, 2).await;
    let fourth = reserve(&limiter, 7).await;
    assert_eq!(third.cancel().await.expect("cancel"), 0, "all of it was used behind it");
    assert_eq!(fourth.cancel().await.expect("cancel"), 7);
    drop(second);
}

pub(crate) async fn l7_a_dropped_reservation_is_cancelled(h: &dyn Harness) {
    let name = unique("limiter");
    let (limiter, other) = (tens(h, &name).await, tens(h, &name).await);
    drop(reserve(&limiter, 10).await);
    assert_eq!(level(&other).await, 0, "its time had come: nothing is given back");
    let place = reserve(&limiter, 6).await;
    assert_eq!(level(&other).await, -6);
    drop(place);
    eventually(CANCELLED, "the queued cancel", || async { level(&other).await >= 0 }).await;
    let waiting = reserve(&limiter, 6).await;
    let mut waiting = Box::pin(waiting.wait());
    stays_pending(TICK * 5, "60 s ahead", &mut waiting).await;
    drop(waiting);
    eventually(CANCELLED, "the queued cancel", || async { level(&other).await >= 0 }).await;
}

/// L7: from its time on, a reservation counts as used.
pub(crate) async fn l7_a_due_reservation_gives_nothing_back(h: &dyn Harness) {
    let quick = Duration::from_millis(50);
    let limiter = client(h, &unique("limiter"), Quota::per(1, quick).burst(2)).await;
    let due = limiter.reserve_n(2, quick).await.expect("reserve").expect("at once");
    assert!(due.is_due());
    assert_eq!(due.cancel().await.expect("cancel"), 0);
    let place = limiter.reserve_n(1, quick * 10).await.expect("reserve").expect("soon enough");
    let waited = limiter.reserve_n(1, quick * 10).await.expect("reserve").expect("soon enough");
    within(quick * 2 + EPSILON, "its time comes", waited.wait()).await;
    // Each counts from the receipt of its own reply, which may have come late.
    eventually(CANCELLED, "the time of the one before", || async { place.is_due() }).await;
    assert_eq!(place.cancel().await.expect("cancel"), 0);
}
