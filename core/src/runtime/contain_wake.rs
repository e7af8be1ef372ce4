//! Wakes callers.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Wakes callers. What panics in a waker is its executor's: the others have to be woken, too, and
/// whoever wakes may be the drop of a guard, or keep the holds of a whole store ([C27]).
///
/// Call it with no lock held. A waker can drop the task that it belongs to, and with it calls and
/// guards that take the same lock.
///
/// [C27]: crate::contract#c27
pub fn contain_wake(wake: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(wake)));
}
