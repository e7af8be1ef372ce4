//! What the log says of an outage: one line when the store goes away, one when it is back (C29).

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::now;
use crate::observe::events::server_fields;
use crate::observe::metering::StoreMeter;
use crate::runtime::Broadcast;
use crate::{Error, Kind};

/// Time without an answer from which on the store is away. A lost reply alone is no outage.
const AWAY: Duration = Duration::from_millis(500);
/// Minimum time between two lines about decisions of an outage policy.
const POLICY_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum time between two requests that only ask whether a server answers.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// Number of servers that are told apart.
const SERVERS: usize = 32;

/// Whether the servers of a store answer to one engine.
#[derive(Debug)]
pub(crate) struct Availability {
    servers: Arc<[ServerState; SERVERS]>,
    outages: Arc<Outages>,
}

/// What the log says of a store, whichever of its engines notices it.
#[derive(Debug)]
pub(crate) struct Outages {
    pub(crate) store: &'static str,
    /// The servers of all engines that ask the same ones.
    servers: Arc<[ServerState; SERVERS]>,
    /// Number of servers logged as away. `away` is logged for the first, `back` for the last.
    away: AtomicUsize,
    /// Number of calls under way that acquire.
    pub(crate) acquiring: AtomicUsize,
    /// When a decision of an outage policy was logged last, and how many were made since.
    policy: Mutex<(Option<Instant>, u64)>,
    /// Notified when another server is known to be away.
    pub(crate) noticed: Broadcast,
}

#[derive(Debug, Default)]
struct ServerState {
    /// Number of answers so far.
    answers: AtomicU64,
    /// The last request failed.
    is_failing: AtomicBool,
    failing: Mutex<Failing>,
}

#[derive(Debug, Default)]
struct Failing {
    since: Option<Instant>,
    /// It is known to be away, and was logged as such.
    is_logged: bool,
    error: Option<Error>,
    /// When it was last asked only whether it answers.
    probed: Option<Instant>,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    server: usize,
    at: Instant,
    answers: u64,
}

fn servers() -> Arc<[ServerState; SERVERS]> {
    Arc::new(array::from_fn(|_| ServerState::default()))
}

impl Outages {
    pub(crate) fn new(store: &'static str) -> Arc<Self> {
        let (away, acquiring) = (AtomicUsize::new(0), AtomicUsize::new(0));
        StoreMeter { store }.opened();
        Arc::new(Self {
            store,
            servers: servers(),
            away,
            acquiring,
            policy: Mutex::default(),
            noticed: Broadcast::new(),
        })
    }

    /// Notes a decision of an outage policy.
    pub(crate) fn decided_without(&self, name: &str) {
        let mut policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        policy.1 += 1;
        if policy.0.is_some_and(|logged| logged.elapsed() < POLICY_INTERVAL) {
            return;
        }
        let (_, decisions) = std::mem::replace(&mut *policy, (Some(now()), 0));
        drop(policy);
        tracing::warn!(
            name: "stanchion.policy.decided",
            {
                stanchion.store = self.store,
                stanchion.kind = Kind::Limiter.as_str(),
                stanchion.name = name,
                stanchion.decisions = decisions,
            },
            "the store is away, and the outage policy decides"
        );
    }
}

impl Availability {
    /// `is_shared` if all engines ask the same servers: then an answer to one of them is one to
    /// all.
    pub(crate) fn new(outages: Arc<Outages>, is_shared: bool) -> Self {
        let servers = if is_shared { Arc::clone(&outages.servers) } else { servers() };
        Self { servers, outages }
    }

    /// Returns the last error of a server that is known to be away.
    pub(crate) fn away(&self, server: usize) -> Option<Error> {
        let server = &self.servers[server % SERVERS];
        if !server.is_failing.load(Ordering::Relaxed) {
            return None;
        }
        let failing = server.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.error.as_ref().filter(|_| failing.is_logged).map(Error::replicate)
    }

    /// Returns whether to ask a server now whether it answers, which the caller does then.
    pub(crate) fn is_probe_due(&self, server: usize) -> bool {
        let state = &self.servers[server % SERVERS];
        let (mut failing, at) = (state.failing.lock().unwrap_or_else(PoisonError::into_inner), now());
        let is_due = failing.probed.is_none_or(|probed| at >= probed + PROBE_INTERVAL);
        if is_due {
            failing.probed = Some(at);
        }
        is_due
    }

    /// Notes that a request is about to be sent.
    pub(crate) fn sent(&self, server: usize) -> Request {
        let server = server % SERVERS;
        Request { server, at: now(), answers: self.servers[server].answers.load(Ordering::Relaxed) }
    }

    /// Notes that the store answered.
    pub(crate) fn answered(&self, request: Request) {
        let server = &self.servers[request.server];
        server.answers.fetch_add(1, Ordering::Relaxed);
        if !server.is_failing.swap(false, Ordering::Relaxed) {
            return;
        }
        let failing = std::mem::take(&mut *server.failing.lock().unwrap_or_else(PoisonError::into_inner));
        if let (Some(since), true) = (failing.since, failing.is_logged)
            && self.outages.away.fetch_sub(1, Ordering::Relaxed) == 1
        {
            tracing::info!(
                name: "stanchion.store.back",
                {
                    stanchion.store = self.outages.store,
                    stanchion.outage.duration = since.elapsed().as_secs_f64(),
                },
                "the store is back"
            );
            StoreMeter { store: self.outages.store }.came_back();
        }
    }

    /// Notes that no answer came. Another request's answer since it was sent says that the store is
    /// there.
    pub(crate) fn failed(&self, request: Request, error: &Error) {
        let server = &self.servers[request.server];
        if server.answers.load(Ordering::Relaxed) != request.answers {
            return;
        }
        server.is_failing.store(true, Ordering::Relaxed);
        let mut failing = server.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *failing.since.get_or_insert(request.at);
        let is_first = !failing.is_logged && since.elapsed() >= AWAY;
        failing.is_logged |= is_first;
        failing.error = Some(error.replicate());
        drop(failing);
        if is_first {
            self.outages.noticed.notify_waiters();
        }
        if is_first && self.outages.away.fetch_add(1, Ordering::Relaxed) == 0 {
            let waiting = self.outages.acquiring.load(Ordering::Relaxed);
            let server = error.address().map(server_fields);
            tracing::warn!(
                name: "stanchion.store.away",
                {
                    stanchion.store = self.outages.store,
                    server.address = server.map(|(host, _)| host),
                    server.port = server.and_then(|(_, port)| port),
                    stanchion.waiting = waiting,
                    stanchion.outage.duration = since.elapsed().as_secs_f64(),
                    error.type = error.kind().as_str(),
                    exception.message = ?error,
                },
                "the store is away"
            );
            StoreMeter { store: self.outages.store }.went_away();
        }
    }
}

impl Drop for Availability {
    /// What was logged of an engine that is gone is over.
    fn drop(&mut self) {
        for server in Arc::get_mut(&mut self.servers).into_iter().flatten() {
            if server.failing.get_mut().unwrap_or_else(PoisonError::into_inner).is_logged
                && self.outages.away.fetch_sub(1, Ordering::Relaxed) == 1
            {
                StoreMeter { store: self.outages.store }.came_back();
            }
        }
    }
}

impl Drop for Outages {
    /// A store that is gone is not away.
    fn drop(&mut self) {
        if *self.away.get_mut() > 0 {
            StoreMeter { store: self.store }.came_back();
        }
    }
}
