//! What the engine's thread and the callers share.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

#[cfg(feature = "bloom")]
use super::bloom::Filtering;
use super::board::Board;
use super::group::Looking;
use super::hold::LeaseHold;
use super::joint::{Gates, Joint};
use super::limit::{Claimed, Limiting};
use super::outbox::{Message, Outbox};
use super::permits::{Acquiring, Releasing};
use super::registry::Registry;
use super::renewal::jittered;
use super::steps::{Cancel, Ending, Object, Refund, Release, Steps, WakeSource};
use super::watch::Watches;
use crate::clock::now;
use crate::sync::Notify;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Capabilities, Error, Result, Ticket, Ttl};

/// How much later than the steps the engine calls a request overdue.
const LATE: Duration = Duration::from_millis(50);

/// How long a refund is tried at least, and beyond the reservation's time: clocks run at different speeds.
const REFUNDABLE: Duration = Duration::from_secs(60);

/// The state of one store object.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) capabilities: Capabilities,
    /// The steps over the callers' connection.
    pub(crate) steps: Steps,
    pub(crate) acquires: Joint<Acquiring>,
    pub(crate) releases: Joint<Releasing>,
    /// Where the store offers wait groups.
    pub(crate) looks: Option<Arc<Joint<Looking>>>,
    pub(crate) limits: Option<Arc<Limiting>>,
    #[cfg(feature = "bloom")]
    pub(crate) bloom: Option<Arc<Filtering>>,
    pub(crate) registry: Registry,
    pub(crate) board: Board,
    pub(crate) watches: Watches,
    pub(crate) outbox: Outbox,
    closed: AtomicBool,
    stop: Notify,
}

impl Shared {
    pub(crate) fn new(capabilities: Capabilities, steps: Steps, wake: Option<Arc<dyn WakeSource>>) -> Self {
        let gates = Gates::default();
        Self {
            capabilities,
            acquires: Joint::new(Acquiring(Arc::clone(&steps.permits), gates.clone())),
            releases: Joint::new(Releasing(Arc::clone(&steps.permits), gates)),
            looks: steps.groups.as_ref().map(|groups| Arc::new(Joint::new(Looking(Arc::clone(groups))))),
            limits: steps.limits.as_ref().map(|limits| Arc::new(Limiting::new(Arc::clone(limits)))),
            #[cfg(feature = "bloom")]
            bloom: steps.bloom.as_ref().map(|bloom| Arc::new(Filtering::new(Arc::clone(bloom)))),
            outbox: Outbox::new(steps.clone()),
            steps,
            registry: Registry::default(),
            board: Board::new(wake.clone()),
            watches: Watches::new(wake),
            closed: AtomicBool::new(false),
            stop: Notify::new(),
        }
    }

    pub(crate) fn store(&self) -> &'static str {
        self.capabilities.store
    }

    /// # Errors
    /// `Closed` after [`close`](Self::close).
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::closed()) } else { Ok(()) }
    }

    /// When a request that begins now is over: the steps' own time limit, or a third of the lease if that is less (C17),
    /// and a little more, so that the steps are the first to notice.
    pub(crate) fn request_end(&self, lease: Option<Ttl>) -> Instant {
        let limit = self.steps.request_timeout;
        now() + lease.map_or(limit, |lease| limit.min(lease.renewal())) + LATE
    }

    /// Takes a granted hold into the care of the watchdog.
    ///
    /// # Errors
    /// `Closed`, then the hold is the caller's to cancel.
    pub(crate) fn adopt(&self, hold: &Arc<LeaseHold>, renew: bool) -> Result<()> {
        let renew_at = renew.then(|| hold.sent + jittered(hold.lease));
        if self.registry.insert(hold, renew_at) { Ok(()) } else { Err(Error::closed()) }
    }

    /// Queues the release of a hold that its guard gave up without a word.
    pub(crate) fn send_release(&self, hold: &LeaseHold) {
        let release = release_of(hold, Ending::Abandoned);
        let lasting = release.tombstone.unwrap_or(hold.lease);
        self.outbox.push(Message::Release(release), now().checked_add(lasting.get()));
    }

    /// Queues a cancel. It is never given up: the place of a waiter lasts for as long as its process lives.
    pub(crate) fn send_cancel(&self, object: &Object, ticket: Ticket, lease: Ttl) {
        let cancel = Cancel { object: object.clone(), ticket, lease: lease.tombstone() };
        self.outbox.push(Message::Cancel(cancel), None);
    }

    /// Queues the cancel of a reservation that is ready at `ready_at`, at the latest; `None` is later than the clock
    /// reaches. Until then its cost keeps others waiting.
    pub(crate) fn send_refund(&self, object: &Object, ticket: Ticket, ready_at: Option<Instant>) {
        let give_up = ready_at.and_then(|ready_at| ready_at.max(now()).checked_add(REFUNDABLE));
        self.outbox.push(Message::Refund(Refund { object: object.clone(), ticket }), give_up);
    }

    /// Refuses new calls, makes live guards lost and queues what they held (C12).
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for hold in self.registry.close() {
            hold.lose();
            self.send_release(&hold);
        }
        for (object, ticket) in self.board.close() {
            self.send_cancel(&object, ticket, Ttl::DEFAULT);
        }
        self.watches.close();
        if let Some(limits) = &self.limits {
            for (ticket, Claimed { object, ready_by, .. }) in limits.close() {
                self.send_refund(&object, ticket, ready_by);
            }
            limits.dismiss();
        }
    }

    /// Ends the engine's thread once the outbox is drained.
    pub(crate) fn stop(&self) {
        self.outbox.stop();
        self.stop.notify_one();
    }

    pub(crate) async fn stopped(&self) {
        self.stop.notified().await;
    }
}

/// The release step of a hold.
pub(crate) fn release_of(hold: &LeaseHold, ending: Ending) -> Release {
    let tombstone = hold.ambiguous.then_some(hold.lease.tombstone());
    Release { object: hold.object.clone(), ticket: hold.ticket, ending, tombstone, call: None }
}
