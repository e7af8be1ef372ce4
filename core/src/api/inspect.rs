//! The result of `inspect()`.

use std::time::Duration;

use crate::{FencingToken, Ticket};

/// One hold of an object, as the store sees it ([C23]). A field that the store does not know is
/// `None`: where Postgres keeps mutexes by sessions, all fields of another process's hold are, in
/// its first second.
///
/// [C23]: crate::contract#c23
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The ticket of the acquisition.
    pub ticket: Option<Ticket>,
    /// The label given in the options.
    pub label: Option<String>,
    /// The fencing token of the grant.
    pub token: Option<FencingToken>,
    /// Permits held; 1 for a mutex or a member.
    pub weight: u32,
    /// Time since the grant, by the store's clock.
    pub age: Option<Duration>,
    /// Rest of the lease, by the store's clock; `None` for a hold without a lease.
    pub lease_left: Option<Duration>,
}

impl Holder {
    /// Makes a holder without a label and a lease; set those fields if they are known.
    #[must_use]
    pub fn new(ticket: Ticket, token: FencingToken, weight: u32, age: Duration) -> Self {
        let (ticket, token, age) = (Some(ticket), Some(token), Some(age));
        Self { ticket, token, age, ..Self::unknown(weight) }
    }

    /// Makes a holder of which only the weight is known.
    #[must_use]
    pub fn unknown(weight: u32) -> Self {
        Self { ticket: None, label: None, token: None, weight, age: None, lease_left: None }
    }
}

/// The state of an object at one instant of store time ([C23]). Expired holds are not in it.
///
/// A networked store reads more than 1,000 holds in several requests, so that no request keeps the
/// server from other work ([C27]). They are the holds of the instant of the first request. A hold
/// may be missing if it has ended since, its lease was shortened, or it was taken over in between.
/// An object with more holds than can be read within the request timeout is
/// [`Unavailable`](crate::ErrorKind::Unavailable). To know how many permits are free, or how many
/// members there are, [`available`](crate::Semaphore::available) and
/// [`count`](crate::WaitGroup::count) take one short request.
///
/// [C23]: crate::contract#c23
/// [C27]: crate::contract#c27
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The holders, oldest grant first.
    pub holders: Vec<Holder>,
    /// Number of queued acquisitions. An acquisition has lost its place and does not count if its
    /// process was silent for the lease that it asks for, 1 s at least. In a queue longer than
    /// 1,000 the acquisitions behind those count until a request comes upon them. In the first 2 s
    /// after a restart or a stall of the store all acquisitions count ([C16]). A mutex kept by a
    /// session of Postgres may count its holder, too, for a moment after the grant: the place in
    /// the queue is given up after the lock is had.
    ///
    /// [C16]: crate::contract#c16
    pub waiters: u64,
    /// The limit in force: 1 for a mutex, the permits of a semaphore, the member limit of a wait
    /// group, `None` if there is none or nothing was stored yet.
    pub limit: Option<u32>,
}

impl Inspection {
    /// Makes the state of these holders and waiters.
    #[must_use]
    pub fn new(holders: Vec<Holder>, waiters: u64, limit: Option<u32>) -> Self {
        Self { holders, waiters, limit }
    }
}
