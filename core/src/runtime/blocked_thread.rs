//! Threads that are blocked by a call of the blocking face, so that it must not be left to the
//! runtime of its thread.

use std::cell::Cell;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::coop;

/// Upper bound of tokio's budget of a poll, which is 128: in a task, less than this is left.
const MORE_THAN_A_BUDGET: usize = 256;

thread_local! {
    static IS_BLOCKED: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as blocked by a call, or as not blocked, as long as it lives.
pub(crate) struct BlockedThread {
    was_blocked: bool,
}

impl BlockedThread {
    #[cfg_attr(not(feature = "blocking"), expect(dead_code, reason = "the blocking face calls it"))]
    pub(crate) fn mark() -> Self {
        Self { was_blocked: IS_BLOCKED.replace(true) }
    }

    /// Marks the thread as not blocked, for code of the user's that a call runs: it may poll calls
    /// in a runtime of its own.
    #[cfg_attr(not(feature = "blocking"), expect(dead_code, reason = "the blocking face calls it"))]
    pub(crate) fn unmark() -> Self {
        Self { was_blocked: IS_BLOCKED.replace(false) }
    }

    /// Whether a call blocks this thread.
    pub(crate) fn is() -> bool {
        IS_BLOCKED.get()
    }

    /// Whether a call that blocks this thread must not even begin: it would have to wait where it
    /// must not, and is refused.
    pub(crate) fn is_refused() -> bool {
        IS_BLOCKED.get() && (is_in_polled_task() || is_ending())
    }
}

impl Drop for BlockedThread {
    fn drop(&mut self) {
        IS_BLOCKED.set(self.was_blocked);
    }
}

/// Whether the thread ends, and has no place for a runtime any more: a destructor of one of its
/// thread-local variables runs.
pub(crate) fn is_ending() -> bool {
    Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

/// Whether the thread polls a task of tokio at this moment. A task has a budget; threads of
/// `spawn_blocking` and the inside of `block_in_place` have none.
fn is_in_polled_task() -> bool {
    if Handle::try_current().is_err() {
        return false;
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut taken = Vec::new();
    let mut has_budget = false;
    while !has_budget && taken.len() < MORE_THAN_A_BUDGET {
        match coop::poll_proceed(&mut context) {
            Poll::Ready(unit) => taken.push(unit),
            Poll::Pending => has_budget = true,
        }
    }
    // Each gives back what was left before it: the first one taken is the last to do so.
    while taken.pop().is_some() {}
    has_budget
}
