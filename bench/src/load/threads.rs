//! Locks that threads take, which have no runtime.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::Failure;
use crate::figure::whole;
use crate::load::tasks::clock;

/// A lock of threads.
pub trait ThreadLock: Sync {
    /// Takes the lock, waiting for it, calls `work` and gives the lock back, to who has waited
    /// longest if the side can.
    ///
    /// # Errors
    /// The errors of the side.
    fn with(&self, work: impl FnOnce()) -> Result<(), Failure>;
}

/// Lets one thread take and give back a lock for `time`; returns the seconds of a pair. The clock
/// is read once for each batch.
///
/// # Errors
/// The errors of the side.
pub fn alone(lock: &impl ThreadLock, time: Duration, batch: u32) -> Result<f64, Failure> {
    let start = clock();
    let mut pairs = 0.0;
    while clock() - start < time {
        for _ in 0..batch {
            lock.with(|| ())?;
        }
        pairs += f64::from(batch);
    }
    Ok((clock() - start).as_secs_f64() / pairs)
}

/// Lets `threads` threads take the one lock again and again and hold it over one turn of the
/// others, so that all of them queue; returns the hand-offs a second.
///
/// # Errors
/// The errors of the side.
pub fn passed_on(lock: &impl ThreadLock, threads: usize, time: Duration) -> Result<f64, Failure> {
    let (end, count) = (clock() + time, AtomicU64::new(0));
    let start = clock();
    thread::scope(|scope| {
        let take = || {
            while clock() < end {
                lock.with(|| {
                    count.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                })?;
            }
            Ok::<_, Failure>(())
        };
        let takers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        takers.into_iter().try_for_each(|taker| taker.join().map_err(|_| "a thread has panicked")?)
    })?;
    let seconds = (clock() - start).as_secs_f64();
    Ok(whole(usize::try_from(count.into_inner())?) / seconds)
}
