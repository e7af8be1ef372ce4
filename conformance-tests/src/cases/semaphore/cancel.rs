//! Acquisitions of several permits that are dropped half-way.

use std::pin::Pin;
use std::time::Duration;

use stanchion_core::{HoldOptions, Permit, Result, Semaphore};

use super::client;
use crate::harness::Harness;
use crate::support::{CANCELLED, Cut, drop_after, eventually, unique};

/// Maximum number of polls: more than any acquisition needs before it waits.
const MAXIMUM_POLLS: u32 = 24;
const LIMIT: u32 = 3;
const LONG: Duration = Duration::from_secs(30);

type Acquiring<'a> = Pin<Box<dyn Future<Output = Result<Option<Permit>>> + Send + 'a>>;

/// The three ways to acquire several permits.
const WAYS: [fn(&dyn Semaphore) -> Acquiring<'_>; 3] = [
    |semaphore| Box::pin(async { semaphore.acquire_many(2).await.map(Some) }),
    |semaphore| semaphore.try_acquire_many(2),
    |semaphore| semaphore.acquire_many_for(2, LONG),
];

/// Asserts that all permits come back, and not one more.
async fn all_come_back(semaphore: &dyn Semaphore) {
    eventually(CANCELLED, "all permits are back", || async {
        let Some(all) = semaphore.try_acquire_many(LIMIT).await.expect("a definite answer") else {
            return false;
        };
        assert!(semaphore.try_acquire().await.expect("a definite answer").is_none(), "one too many");
        all.release().await.map(|()| true).expect("release")
    })
    .await;
    eventually(CANCELLED, "nothing is left behind", || async {
        let state = semaphore.inspect().await.expect("inspect");
        state.holders.is_empty() && state.waiters == 0
    })
    .await;
}

/// C4, S4: an acquisition of two of three permits is dropped at the k-th poll, for every k: with
/// free permits, and with permits that it must wait for.
pub(crate) async fn c4_s4_a_dropped_acquisition_of_several_loses_no_permit(h: &dyn Harness) {
    let name = unique("semaphore");
    let own = client(h, &name, LIMIT, HoldOptions::default()).await;
    let other = client(h, &name, LIMIT, HoldOptions::default()).await;
    for acquire in WAYS {
        for taken in [false, true] {
            for polls in 0..=MAXIMUM_POLLS {
                assert!(polls < MAXIMUM_POLLS, "it ends, or waits");
                let held = match taken {
                    true => Some(other.acquire_many(2).await.expect("acquire")),
                    false => None,
                };
                let cut = drop_after(polls, acquire(own.as_ref())).await;
                let is_last = match cut {
                    Cut::Ended(permit) => {
                        let permit = permit.expect("a definite answer");
                        assert!(!taken || permit.is_none(), "two of one");
                        // If there are not two of three, the dropped request before came after the
                        // others had looked, and its cancel comes now.
                        taken || permit.is_some()
                    }
                    Cut::Waiting => true,
                    Cut::Dropped => false,
                };
                if let Some(held) = held {
                    held.release().await.expect("release");
                }
                all_come_back(other.as_ref()).await;
                if is_last {
                    break;
                }
            }
        }
    }
}
