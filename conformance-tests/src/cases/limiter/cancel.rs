//! Calls that are dropped half-way.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::{Limiter, LimiterOptions, Quota};

use crate::harness::Harness;
use crate::support::{CANCELLED, Cut, drop_after, eventually, unique};

/// Maximum number of polls: more than any call needs before it waits for its time.
const MAXIMUM_POLLS: u32 = 24;
const BURST: u32 = 10;
const TOKEN: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(1_000);

type Calling<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
type Way = fn(&dyn Limiter) -> Calling<'_>;

/// Calls that reserve four tokens, and whether they end before their time comes.
const RESERVING: [(bool, Way); 3] = [
    (false, |limiter| Box::pin(async { limiter.wait_n(4).await.expect("a decision") })),
    (false, |limiter| {
        Box::pin(async { assert!(limiter.wait_n_for(4, LONG).await.expect("a decision"), "soon enough") })
    }),
    (true, |limiter| {
        Box::pin(async { drop(limiter.reserve_n(4, LONG).await.expect("reserve").expect("soon enough")) })
    }),
];

/// Returns `count` new limiters, each with a handle of one client and a handle of another.
///
/// Each call needs its own limiter: a dropped request may reach the store late, and gives nothing
/// back if another reservation is behind it (L7).
async fn fresh(h: &dyn Harness, count: u32) -> Vec<(Arc<dyn Limiter>, Arc<dyn Limiter>)> {
    let (store, others) = (h.store().await, h.store().await);
    let options = || LimiterOptions::new(Quota::per(1, TOKEN).burst(u64::from(BURST)));
    let pair = |_| {
        let name = unique("limiter");
        let open = |store: &dyn stanchion_core::Store| store.limiter(&name, options()).expect("a limiter");
        (open(store.as_ref()), open(others.as_ref()))
    };
    (0..count).map(pair).collect()
}

async fn level(limiter: &dyn Limiter) -> i64 {
    super::level(limiter, i64::from(BURST), TOKEN).await
}

/// C4, L7: a wait or a reservation that is dropped at the k-th poll, for every k, costs nothing.
pub(crate) async fn c4_l7_a_dropped_wait_costs_nothing(h: &dyn Harness) {
    for (ends, call) in RESERVING {
        let limiters = fresh(h, MAXIMUM_POLLS).await;
        let mut is_through = false;
        for (polls, (own, other)) in (0..).zip(&limiters) {
            let all = own.allow_n(u64::from(BURST)).await.expect("a decision");
            assert!(all.allowed, "the bucket begins full");
            let cut = drop_after(polls, call(own.as_ref())).await;
            is_through = !matches!(cut, Cut::Dropped);
            assert!(ends || !matches!(cut, Cut::Ended(())), "40 s ahead");
            eventually(CANCELLED, "nothing is left behind", || async { level(other.as_ref()).await >= 0 })
                .await;
            if is_through {
                break;
            }
        }
        assert!(is_through, "it ends, or waits");
        for (_, other) in &limiters {
            eventually(CANCELLED, "nothing came later", || async { level(other.as_ref()).await >= 0 }).await;
        }
    }
}

/// C2, C4: a decision that is dropped at the k-th poll, for every k, is charged once or not at all.
pub(crate) async fn c2_c4_a_dropped_decision_is_charged_once_at_most(h: &dyn Harness) {
    let limiters = fresh(h, MAXIMUM_POLLS).await;
    let mut is_through = false;
    for (polls, (own, other)) in (0..).zip(&limiters) {
        let cut = drop_after(polls, own.allow_n(3)).await;
        is_through = matches!(cut, Cut::Ended(_));
        match cut {
            Cut::Ended(decision) => assert!(decision.expect("a decision").allowed, "the bucket begins full"),
            Cut::Dropped if polls == 0 => assert_eq!(level(other.as_ref()).await, 10, "nothing was asked"),
            // A decision waits for no other caller: here the machine was slow.
            Cut::Dropped | Cut::Waiting => {}
        }
        if is_through {
            break;
        }
    }
    assert!(is_through, "a decision ends");
    // The dropped requests have arrived by now, or never will: the client still works.
    let (own, _) = &limiters[limiters.len() - 1];
    own.peek().await.expect("a decision");
    for (_, other) in &limiters {
        let level = level(other.as_ref()).await;
        assert!([7, 10].contains(&level), "{level} of 10 after three were asked for");
    }
}
