//! What can be ordered to go wrong.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use stanchion_core::spi::{Acquire, Object};
use stanchion_core::{Error, ErrorKind, Result, Ttl};
use tokio::time::{Instant, sleep};

/// A step that can be stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    Release,
    Cancel,
    Refund,
    Renew,
    Poll,
    Look,
    Wake,
    Decide,
}

/// What happens to calls of steps, counted from 1 over all of them.
#[derive(Debug, Default)]
pub struct Faults {
    /// Calls made.
    pub calls: AtomicU64,
    /// The reply of this call is lost after it was executed.
    pub lose_reply: AtomicU64,
    /// The replies of all calls are lost after they were executed.
    pub lose_replies: AtomicBool,
    /// All calls are lost on their way.
    pub lose_requests: AtomicBool,
    /// This call and all later ones are lost on their way; none at 0.
    pub lose_from: AtomicU64,
    /// All calls fail before they are executed.
    pub away: AtomicBool,
    /// Every request is refused, by a store that is there.
    pub refuses: AtomicBool,
    /// All calls are refused for want of a right.
    pub forbidden: AtomicBool,
    /// All calls take so many milliseconds, half of them before they are executed.
    pub delay_ms: AtomicU64,
    /// The next refund finds the clock of the thread that sends it so many seconds ahead, once.
    pub leap_secs: AtomicU64,
    /// A request of that step with an entry of that lane takes a second and is lost.
    pub stuck: Mutex<Option<(Stuck, usize)>>,
    /// A request with an entry of that name is not answered.
    pub locked: Mutex<Option<&'static str>>,
    /// Each entry of a request to decide takes so many milliseconds.
    pub entry_ms: AtomicU64,
    /// It takes for ever.
    pub for_ever: AtomicBool,
    /// That step panics.
    pub panics: Mutex<Option<Stuck>>,
    /// Renewals fail.
    pub no_renewal: AtomicBool,
    /// Wake-ups are dropped.
    pub no_wake: AtomicBool,
    pub looks: AtomicU32,
    pub acquires: AtomicU32,
    pub polls: AtomicU32,
    /// All waiters are told that another process is in front.
    pub far: AtomicBool,
    /// Requests that kept places and asked for no more.
    pub marks: AtomicU32,
    pub renewals: AtomicU32,
    /// The leases of each renewal.
    pub renewed: Mutex<Vec<Vec<Ttl>>>,
    /// Acquires and releases leave together, as the model says of itself.
    pub exchanges: AtomicBool,
    /// The acquires and releases of several entries each: which, from when and until when.
    pub flights: Mutex<Vec<(bool, Instant, Instant)>>,
    /// All that was asked for, whatever became of it.
    pub asked: Mutex<Vec<Acquire>>,
}

impl Faults {
    /// Takes its time, or panics, where that is ordered.
    ///
    /// # Errors
    /// `Unknown`, once it took its time.
    pub async fn pass<'a>(&self, step: Stuck, objects: impl Iterator<Item = &'a Object>) -> Result<()> {
        if *self.panics.lock().unwrap() == Some(step) {
            // Without the hook, which reads all symbols for a backtrace: that takes as long as what
            // is measured.
            resume_unwind(Box::new("a step panics, as ordered"));
        }
        let (stuck, locked) = (*self.stuck.lock().unwrap(), *self.locked.lock().unwrap());
        let objects: Vec<_> = objects.collect();
        if objects.iter().any(|object| Some(object.name.as_str()) == locked) {
            std::future::pending::<()>().await;
        }
        if stuck.is_some_and(|(stuck, lane)| {
            stuck == step && objects.into_iter().any(|object| lane_of(object) == lane)
        }) {
            if self.for_ever.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_secs(1)).await;
            return Err(Error::new(ErrorKind::Unknown, "stuck"));
        }
        Ok(())
    }

    /// Notes a request of so many entries that began then and has ended.
    pub fn flown(&self, acquires: bool, count: usize, began: Instant) {
        if count > 1 {
            self.flights.lock().unwrap().push((acquires, began, Instant::now()));
        }
    }

    /// Sets the clock of this thread's runtime ahead, if that is ordered.
    pub async fn leap(&self) {
        let leap = Duration::from_secs(self.leap_secs.swap(0, SeqCst));
        if !leap.is_zero() {
            tokio::time::pause();
            tokio::time::advance(leap).await;
            tokio::time::resume();
        }
    }
}

/// The number that a name begins with, before a slash.
pub fn lane_of(object: &Object) -> usize {
    let lane = object.name.as_str().split_once('/').map(|(lane, _)| lane.parse());
    lane.map_or(0, std::result::Result::unwrap)
}
