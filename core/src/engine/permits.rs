//! Mutexes and semaphores of lease stores: one handle type, since a mutex is a semaphore of one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tracing::Instrument;

use super::EngineHandle;
use super::acquire::{Acquisition, Grant, Patience, own};
use super::joint::{Passage, Vessel};
use super::keeper::move_hold;
use super::steps::{
    Acquire, Acquired, Answers, Attach, Force, Kept, LimitCheck, Object, PermitSteps, Release,
};
use crate::clock::now;
use crate::options::check_count;
use crate::{
    Error, Hold, HoldOptions, Inspection, Mutex, MutexGuard, OnMismatch, Permit, Result, Semaphore, Ticket,
};

/// Acquires that leave together.
#[derive(Debug)]
pub(crate) struct Acquiring(pub(crate) Arc<dyn PermitSteps>);

#[async_trait]
impl Vessel for Acquiring {
    type Ask = Acquire;
    type Answer = Acquired;

    const BATCH: usize = 128;
    const IN_TURN: bool = false;

    fn lane(&self, ask: &Acquire) -> usize {
        self.0.lane(&ask.object)
    }

    async fn carry(&self, _: Passage<'_>, asks: &[Acquire]) -> Answers<Acquired> {
        self.0.acquire(asks).await
    }
}

/// Releases that leave together.
#[derive(Debug)]
pub(crate) struct Releasing(pub(crate) Arc<dyn PermitSteps>);

#[async_trait]
impl Vessel for Releasing {
    type Ask = Release;
    type Answer = Kept;

    const BATCH: usize = 128;
    const IN_TURN: bool = false;

    fn lane(&self, ask: &Release) -> usize {
        self.0.lane(&ask.object)
    }

    async fn carry(&self, _: Passage<'_>, asks: &[Release]) -> Answers<Kept> {
        self.0.release(asks).await
    }
}

/// A handle of an object of permits.
#[derive(Debug)]
pub(crate) struct Permits {
    engine: Arc<EngineHandle>,
    object: Object,
    options: HoldOptions,
    on_mismatch: OnMismatch,
    /// The limit as last heard of; the handle follows the store (C20).
    limit: AtomicU32,
    /// The limit was compared once.
    compared: AtomicBool,
}

impl Permits {
    pub(crate) fn new(
        engine: &Arc<EngineHandle>,
        object: Object,
        limit: u32,
        on_mismatch: OnMismatch,
        options: HoldOptions,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            object,
            options,
            on_mismatch,
            limit: AtomicU32::new(limit),
            compared: AtomicBool::new(false),
        }
    }

    fn learn(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
        self.compared.store(true, Ordering::Relaxed);
    }

    fn known_limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    fn context(&self, operation: &'static str, error: Error) -> Error {
        error.context(operation, self.engine.shared.store(), self.object.name.as_str())
    }

    fn request(&self, weight: u32, queue: bool) -> Result<Acquire> {
        let check = if self.compared.load(Ordering::Relaxed) {
            LimitCheck::Follow
        } else {
            LimitCheck::First(self.on_mismatch)
        };
        Ok(Acquire {
            object: self.object.clone(),
            ticket: Ticket::random(),
            weight,
            lease: self.options.first_lease()?,
            limit: self.known_limit(),
            check,
            queue,
            max_waiters: self.options.max_waiters,
            label: self.options.label.clone(),
        })
    }

    async fn take(&self, operation: &'static str, weight: u32, patience: Patience) -> Result<Option<Hold>> {
        let taken = async {
            check_count("the number of permits", weight)?;
            let limit = self.known_limit();
            if weight > limit && !self.follows() {
                let detail = format!("{weight} permits were asked for and the limit is {limit}");
                return Err(Error::invalid_argument(detail));
            }
            let request = self.request(weight, !matches!(patience, Patience::None))?;
            let learn = |limit| self.learn(limit);
            let acquisition = Acquisition { engine: &self.engine, request, patience, learn: &learn };
            let started = now();
            let granted = acquisition.run().await?;
            tracing::debug!(waited = ?started.elapsed(), granted = granted.is_some(), limit = self.known_limit());
            match granted {
                Some((grant, doubt)) => own(&grant, doubt, &self.options, weight).map(Some),
                None => Ok(None),
            }
        };
        let span = tracing::debug_span!(
            "stanchion.acquire",
            operation,
            store = self.engine.shared.store(),
            name = %self.object.name,
            weight
        );
        taken.instrument(span).await.map_err(|error| self.context(operation, error))
    }

    /// Whether the store's limit may be another than the one this handle knows.
    fn follows(&self) -> bool {
        self.compared.load(Ordering::Relaxed) || self.on_mismatch == OnMismatch::Adopt
    }

    async fn take_over(&self, ticket: Ticket) -> Result<Hold> {
        let taken = async {
            self.engine.shared.check_open()?;
            let attach = Attach {
                object: self.object.clone(),
                from: ticket,
                to: Ticket::random(),
                lease: self.options.first_lease()?,
                label: self.options.label.clone(),
            };
            let (moved, doubt) = move_hold(&self.engine, &attach).await?.ok_or_else(Error::lost)?;
            let grant = Grant { token: moved.attached.token, sent: moved.sent, ambiguous: true };
            own(&grant, doubt, &self.options, moved.attached.weight)
        };
        taken.await.map_err(|error| self.context("attach", error))
    }

    async fn look(&self, operation: &'static str) -> Result<Inspection> {
        let looked = match self.engine.shared.check_open() {
            Ok(()) => self.engine.shared.steps.permits.inspect(&self.object).await,
            Err(error) => Err(error),
        };
        looked.map_err(|error| self.context(operation, error))
    }

    async fn force(&self, operation: &'static str, force: Force) -> Result<bool> {
        let forced = match self.engine.shared.check_open() {
            Ok(()) => self.engine.shared.steps.permits.force(&self.object, force).await,
            Err(error) => Err(error),
        };
        forced.map(|freed| freed > 0).map_err(|error| self.context(operation, error))
    }
}

/// A call that waits for as long as it takes has no definite no.
fn granted(hold: Option<Hold>) -> Result<Hold> {
    hold.ok_or_else(Error::lost)
}

#[async_trait]
impl Mutex for Permits {
    fn name(&self) -> &str {
        self.object.name.as_str()
    }

    async fn lock(&self) -> Result<MutexGuard> {
        self.take("lock", 1, Patience::Forever).await.and_then(granted).map(MutexGuard::new)
    }

    async fn try_lock(&self) -> Result<Option<MutexGuard>> {
        Ok(self.take("try_lock", 1, Patience::None).await?.map(MutexGuard::new))
    }

    async fn try_lock_for(&self, limit: Duration) -> Result<Option<MutexGuard>> {
        Ok(self.take("try_lock_for", 1, Patience::at_most(limit)).await?.map(MutexGuard::new))
    }

    async fn attach(&self, ticket: Ticket) -> Result<MutexGuard> {
        self.take_over(ticket).await.map(MutexGuard::new)
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.look("inspect").await
    }

    async fn force_unlock(&self) -> Result<bool> {
        self.force("force_unlock", Force::All).await
    }
}

#[async_trait]
impl Semaphore for Permits {
    fn name(&self) -> &str {
        self.object.name.as_str()
    }

    async fn acquire_many(&self, count: u32) -> Result<Permit> {
        self.take("acquire_many", count, Patience::Forever).await.and_then(granted).map(Permit::new)
    }

    async fn try_acquire_many(&self, count: u32) -> Result<Option<Permit>> {
        Ok(self.take("try_acquire_many", count, Patience::None).await?.map(Permit::new))
    }

    async fn try_acquire_many_for(&self, count: u32, limit: Duration) -> Result<Option<Permit>> {
        Ok(self.take("try_acquire_many_for", count, Patience::at_most(limit)).await?.map(Permit::new))
    }

    async fn attach(&self, ticket: Ticket) -> Result<Permit> {
        self.take_over(ticket).await.map(Permit::new)
    }

    async fn available(&self) -> Result<u32> {
        let inspection = self.look("available").await?;
        let limit = inspection.limit.unwrap_or_else(|| self.known_limit());
        let used = inspection.holders.iter().fold(0_u32, |used, holder| used.saturating_add(holder.weight));
        Ok(limit.saturating_sub(used))
    }

    async fn resize(&self, permits: u32) -> Result<()> {
        let resized = async {
            check_count("permits", permits)?;
            self.engine.shared.check_open()?;
            self.engine.shared.steps.permits.resize(&self.object, permits).await
        };
        resized.await.map_err(|error| self.context("resize", error))?;
        self.learn(permits);
        Ok(())
    }

    async fn inspect(&self) -> Result<Inspection> {
        self.look("inspect").await
    }

    async fn force_release(&self, ticket: Ticket) -> Result<bool> {
        self.force("force_release", Force::One(ticket)).await
    }
}
