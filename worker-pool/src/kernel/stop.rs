//! The stop of a running job.

use std::sync::atomic::{AtomicU8, Ordering};

/// Why a running job has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its handle or its group cancelled it.
    Cancel,
    /// The deadline of the pool's shutdown has come.
    Abort,
}

/// Set under the kernel's lock, read by the worker before each step of its job without it.
#[derive(Debug, Default)]
pub(crate) struct StopFlag(AtomicU8);

impl StopFlag {
    pub(crate) fn get(&self) -> Option<Stop> {
        match self.0.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Stop::Cancel),
            _ => Some(Stop::Abort),
        }
    }

    /// Sets the reason to stop; the first one stays.
    pub(crate) fn set(&self, stop: Stop) {
        let value = match stop {
            Stop::Cancel => 1,
            Stop::Abort => 2,
        };
        // Only the kernel writes, under its lock.
        if self.0.load(Ordering::Relaxed) == 0 {
            self.0.store(value, Ordering::Release);
        }
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
