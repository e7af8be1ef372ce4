//! The state of a name behind its lock.

use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::task::Wake;

use stanchion_core::clock::{self, Instant, WakeUp};
use stanchion_core::observe::events::LostHold;
use stanchion_core::{Kind, Name};

use crate::clock::{Moment, StoreClock};
use crate::kernel::{Loss, Permits, Transition};
use crate::names::Resident;
use crate::sync::{Broadcast, Mutex};

/// The state of a mutex, a semaphore or a wait group. The lock is held for nanoseconds, never
/// across an await.
pub(crate) struct Entry {
    named: Named,
    clock: StoreClock,
    permits: Mutex<Permits>,
    /// Notified when a hold ended in another way than by its holder.
    pub(crate) lost: Broadcast,
    watch: Watch,
}

/// What a state is called, for the log.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) namespace: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) name: Name,
}

/// Ends the leases of a name in time for its waiters: one wake-up for the name, whatever the number
/// of waiters.
#[derive(Default)]
struct Watch {
    watcher: OnceLock<Arc<Watcher>>,
    /// Of the time that is watched.
    wake_up: std::sync::Mutex<Option<WakeUp>>,
}

struct Watcher(Weak<Entry>);

impl Wake for Watcher {
    fn wake(self: Arc<Self>) {
        let Some(entry) = self.0.upgrade() else { return };
        drop(entry.watch.wake_up.lock().unwrap_or_else(PoisonError::into_inner).take());
        entry.change(Permits::watch);
    }
}

impl Entry {
    pub(crate) fn new(named: Named, clock: StoreClock, permits: Permits) -> Self {
        Self { named, clock, permits: Mutex::new(permits), lost: Broadcast::new(), watch: Watch::default() }
    }

    /// Lets the ends of leases be watched.
    pub(crate) fn watched(self: Arc<Self>) -> Arc<Self> {
        self.watch.watcher.get_or_init(|| Arc::new(Watcher(Arc::downgrade(&self))));
        self
    }

    /// Reads the state.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Permits) -> R) -> R {
        read(&self.permits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state under its lock, and sends the wake-ups and logs the losses once the lock
    /// is free.
    #[inline]
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Permits, &mut Transition<'_>) -> R) -> R {
        let mut transition = Transition::new(&self.clock);
        let result =
            change(&mut self.permits.lock().unwrap_or_else(PoisonError::into_inner), &mut transition);
        if transition.lost {
            self.lost.notify_waiters();
        }
        if let Some(at) = transition.next_end {
            self.watch_until(at);
        }
        let losses = transition.take_losses();
        transition.end();
        if !losses.is_empty() {
            self.record(&losses);
        }
        result
    }

    #[cold]
    fn record(&self, losses: &[Loss]) {
        let Named { namespace, kind, name } = &self.named;
        for Loss { ticket, terms, held, cause } in losses {
            let lost = LostHold {
                store: crate::STORE,
                namespace: Some(namespace),
                kind: *kind,
                name,
                ticket: *ticket,
                label: terms.label(),
                held: *held,
                cause: *cause,
            };
            lost.record();
        }
    }

    #[cold]
    fn watch_until(&self, at: Instant) {
        let Some(watcher) = self.watch.watcher.get().filter(|_| clock::is_real()) else { return };
        let at = at.into_std();
        let mut watched = self.watch.wake_up.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.as_ref().is_none_or(|watched| at < watched.time()) {
            *watched = Some(WakeUp::at(at, Arc::clone(watcher).into()));
        }
    }
}

impl Resident for Entry {
    fn token_floor(&self) -> u64 {
        self.read(Permits::last_token)
    }

    fn retained_until(&self, at: Moment) -> Option<u64> {
        self.change(|permits, transition| {
            permits.reap(transition);
            permits.retained_until(at)
        })
    }
}
