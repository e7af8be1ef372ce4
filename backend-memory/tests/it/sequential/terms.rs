//! What the callers' objects are made with.

use std::time::Duration;

use proptest::prelude::*;
use stanchion_core::{HoldOptions, MutexOptions, OnMismatch, SemaphoreOptions, WaitGroupOptions};

use crate::sequential::model::{Limit, Terms};

/// Store objects over the state; another one only looks on.
pub(crate) const CLIENTS: usize = 3;
/// Objects of callers: each store object has two of the name.
pub(crate) const HANDLES: usize = 2 * CLIENTS;

/// Without a lease, with one that is not renewed, or with one that ends after a time although it
/// is.
fn hold() -> impl Strategy<Value = HoldOptions> {
    let lease = prop_oneof![
        3 => Just((None, true, None)),
        3 => Just((Some(1000), false, None)),
        1 => Just((None, true, Some(700))),
        1 => Just((Some(900), false, Some(300))),
    ];
    (lease, prop::option::weighted(0.2, 1..3_u32)).prop_map(|((ttl, renew, max_hold), max_waiters)| {
        let mut options = HoldOptions::default();
        options.ttl = ttl.map(Duration::from_millis);
        options.renew = renew;
        options.max_hold = max_hold.map(Duration::from_millis);
        options.max_waiters = max_waiters;
        options
    })
}

fn many(limit: impl Strategy<Value = Limit>, mismatch: bool) -> impl Strategy<Value = Vec<Terms>> {
    let on_mismatch = if mismatch {
        prop_oneof![Just(OnMismatch::Refuse), Just(OnMismatch::Adopt), Just(OnMismatch::Replace)].boxed()
    } else {
        Just(OnMismatch::Adopt).boxed()
    };
    prop::collection::vec((limit, on_mismatch, hold()), HANDLES).prop_map(|all| {
        let terms = all.into_iter().enumerate().map(|(index, (limit, on_mismatch, hold))| {
            let client = index % CLIENTS;
            Terms { client, limit, on_mismatch, hold, settled: false }
        });
        terms.collect()
    })
}

pub(crate) fn mutexes() -> impl Strategy<Value = Vec<Terms>> {
    many(Just(Some(1)), false)
}

/// Most callers agree on the limit.
pub(crate) fn semaphores() -> impl Strategy<Value = Vec<Terms>> {
    many(prop_oneof![4 => Just(Some(3)), 1 => (1..6_u32).prop_map(Some)], true)
}

pub(crate) fn groups() -> impl Strategy<Value = Vec<Terms>> {
    prop_oneof![
        many(Just(None), true),
        many(Just(Some(3)), true),
        many(prop_oneof![2 => Just(Some(3)), 1 => Just(None), 1 => (1..5_u32).prop_map(Some)], true),
    ]
}

impl Terms {
    pub(crate) fn mutex(&self) -> MutexOptions {
        let mut options = MutexOptions::default();
        options.hold = self.hold.clone();
        options
    }

    pub(crate) fn semaphore(&self) -> SemaphoreOptions {
        let mut options = SemaphoreOptions::new(self.limit.unwrap()).on_mismatch(self.on_mismatch);
        options.hold = self.hold.clone();
        options
    }

    pub(crate) fn group(&self) -> WaitGroupOptions {
        let mut options = WaitGroupOptions::default().on_mismatch(self.on_mismatch);
        (options.limit, options.hold) = (self.limit, self.hold.clone());
        options
    }
}
