//! The suite over the blocking face of a store: every call of a case is made by a thread of its
//! own, as a program without a runtime makes it.
//!
//! A thread cannot be dropped: where a case drops a future, the thread goes on, and what it gets is
//! given up then. Cases about dropped futures are gaps of this face
//! ([C4](stanchion_core::contract#c4)).

mod hold;
mod objects;
mod rates;

use std::future::pending;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{Result, Store, blocking};
use tokio::sync::oneshot;

use self::objects::Threaded;
use crate::faulty::Faults;
use crate::harness::Harness;

/// Another harness, whose stores are called through their blocking face.
///
/// ```ignore
/// stanchion_conformance::blocking_suite!(MyHarness::start().await);
/// ```
#[derive(Debug)]
pub struct BlockingFace<H>(pub H);

impl<H> BlockingFace<H> {
    fn over(store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Threaded(blocking::Store::from(store)))
    }
}

#[async_trait]
impl<H: Harness> Harness for BlockingFace<H> {
    async fn store(&self) -> Arc<dyn Store> {
        Self::over(self.0.store().await)
    }

    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>> {
        self.0.forgetful_store(retention).await.map(Self::over)
    }

    async fn pass(&self, time: Duration) -> bool {
        self.0.pass(time).await
    }

    async fn faulty_store(&self, faults: &Arc<Faults>) -> Option<Arc<dyn Store>> {
        self.0.faulty_store(faults).await.map(Self::over)
    }

    async fn leftover(&self) -> Option<usize> {
        self.0.leftover().await
    }

    fn ttl(&self) -> Duration {
        self.0.ttl()
    }

    async fn lose_data(&self) -> bool {
        self.0.lose_data().await
    }
}

/// Makes a call on a thread of its own.
async fn on_thread<T: Send + 'static>(call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    if blocking::is_refused() {
        return pending().await;
    }
    let (answer, answered) = oneshot::channel();
    let run = move || {
        // The case has dropped the call if nobody waits for the answer.
        let _ = answer.send(call());
    };
    thread::Builder::new().name("blocking call".to_owned()).spawn(run).expect("a thread");
    answered.await.expect("the thread of a call has panicked")
}

/// Makes one `#[test]` for each case, as [`suite!`](crate::suite!), over the blocking face of the
/// harness's stores. The gaps of that face are listed here; those of the store follow the harness.
#[macro_export]
macro_rules! blocking_suite {
    ($harness:expr $(, gaps { $($gaps:tt)* })? $(,)?) => {
        $crate::suite! {
            $crate::BlockingFace($harness),
            gaps {
                as_mutex::c4_dropped_waiter_leaves_the_queue: "it drops a call under way, and a thread cannot be dropped",
                as_mutex::c23_inspect_counts_the_waiters: "it drops a call under way, and a thread cannot be dropped",
                as_mutex::c26_a_full_queue_refuses: "it drops a call under way, and a thread cannot be dropped",
                as_semaphore_of_one::c4_dropped_waiter_leaves_the_queue: "it drops a call under way, and a thread cannot be dropped",
                as_semaphore_of_one::c23_inspect_counts_the_waiters: "it drops a call under way, and a thread cannot be dropped",
                as_semaphore_of_one::c26_a_full_queue_refuses: "it drops a call under way, and a thread cannot be dropped",
                as_semaphore_of_five::c4_dropped_waiter_leaves_the_queue: "it drops a call under way, and a thread cannot be dropped",
                as_semaphore_of_five::c23_inspect_counts_the_waiters: "it drops a call under way, and a thread cannot be dropped",
                as_semaphore_of_five::c26_a_full_queue_refuses: "it drops a call under way, and a thread cannot be dropped",
                elections::c4_a_dropped_candidate_leaves_nothing: "it drops a call under way, and a thread cannot be dropped",
                limiter::c4_l7_a_dropped_wait_costs_nothing: "it drops a call under way, and a thread cannot be dropped",
                limiter::l7_a_dropped_reservation_is_cancelled: "it drops a call under way, and a thread cannot be dropped",
                mutex::c4_a_dropped_run_leaves_nothing: "it drops a call under way, and a thread cannot be dropped",
                as_mutex::c6_a_call_that_nobody_polls_costs_the_others_one_lease: "a thread polls its call until it ends",
                as_semaphore_of_one::c6_a_call_that_nobody_polls_costs_the_others_one_lease: "a thread polls its call until it ends",
                as_semaphore_of_five::c6_a_call_that_nobody_polls_costs_the_others_one_lease: "a thread polls its call until it ends",
                wait_group::c6_w4_a_member_that_nobody_polled_does_not_expire: "a thread polls its call until it ends",
                semaphore::c5_s5_a_dropped_large_head_lets_all_who_fit_run: "it drops a call under way, and a thread cannot be dropped",
                under_faults::c4_a_late_copy_of_a_dropped_acquire_is_refused: "it drops a call under way, and a thread cannot be dropped",
                wait_group::c4_w7_a_dropped_add_leaves_the_queue: "it drops a call under way, and a thread cannot be dropped",
                $($($gaps)*)?
            }
        }
    };
}
