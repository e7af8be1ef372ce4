//! A handle: what mutexes, semaphores and wait groups of one caller have in common.

use std::sync::Arc;

use tracing::Instrument;
use tracing::field::Empty;

use crate::api::options::check_count;
use crate::engine::agreed::Agreed;
use crate::engine::keeping::lease_backend::move_hold;
use crate::engine::retrying::WaitLimit;
use crate::engine::sending::in_doubt::InDoubt;
use crate::engine::shared::EngineHandle;
use crate::engine::taking::acquire::{Acquisition, Grant, into_hold, wait_for_room};
use crate::engine::taking::wait_record::WaitRecord;
use crate::observe::audit::ForcedRelease;
use crate::observe::events::LossCause;
use crate::observe::metering::Meter;
use crate::spi::{
    Acquire, Ask, Attach, Attached, Force, ForceRelease, Inspect, NO_LIMIT, Object, Purpose, StepsExt, Total,
    Usage,
};
use crate::{Detached, Error, ErrorKind, Hold, HoldOptions, Inspection, Kind, OnMismatch, Result, Ticket};

/// One caller's handle of a mutex, a semaphore or a wait group.
#[derive(Debug)]
pub(crate) struct ObjectHandle {
    pub(crate) engine: Arc<EngineHandle>,
    pub(crate) object: Object,
    options: HoldOptions,
    pub(crate) limit: Agreed<u32>,
    purpose: Purpose,
    meter: Meter,
}

impl ObjectHandle {
    pub(crate) fn new(
        engine: &Arc<EngineHandle>,
        object: Object,
        limit: u32,
        on_mismatch: OnMismatch,
        options: HoldOptions,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            meter: Meter::new(engine.shared.store(), object.kind, &object.name),
            object,
            options,
            limit: Agreed::new(limit, on_mismatch),
            purpose: Purpose::default(),
        }
    }

    /// Requests holds for that purpose.
    pub(crate) fn with_purpose(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    pub(crate) fn context(&self, operation: &'static str, error: Error) -> Error {
        error.context(operation, self.engine.shared.store(), self.object.name.as_str())
    }

    /// Makes a call, and adds to its error what was called.
    pub(crate) async fn on<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.engine.shared.on(call).await.map_err(|error| self.context(operation, error))
    }

    fn request(&self, weight: u32, queue: bool) -> Result<Acquire> {
        Ok(Acquire {
            object: self.object.clone(),
            ticket: Ticket::random(),
            weight,
            lease: self.options.first_lease()?,
            limit: self.limit.value(),
            check: self.limit.check(true),
            queue,
            max_waiters: self.options.max_waiters,
            label: self.options.label.clone(),
            purpose: self.purpose,
        })
    }

    /// Acquires. The caller resolves the [`InDoubt`] of the grant.
    pub(crate) async fn acquire(
        &self,
        operation: &'static str,
        weight: u32,
        wait_limit: WaitLimit,
    ) -> Result<Option<(Grant, InDoubt)>> {
        let span = tracing::debug_span!(
            "stanchion.acquire",
            stanchion.store = self.engine.shared.store(),
            stanchion.namespace = &*self.engine.shared.namespace,
            stanchion.kind = self.object.kind.as_str(),
            stanchion.name = self.object.name.as_str(),
            stanchion.operation = operation,
            stanchion.weight = weight,
            stanchion.outcome = Empty,
            error.type = Empty,
        );
        let recorded = span.clone();
        let acquired = async move {
            let what = if self.object.kind == Kind::WaitGroup { "members" } else { "permits" };
            check_count(what, weight)?;
            // Before a lock is taken, which a forked child must not do.
            self.engine.shared.check_process()?;
            let limit = self.limit.value();
            if weight > limit && !self.limit.follows() {
                return Err(Error::over_limit(weight, limit));
            }
            let request = self.request(weight, !matches!(wait_limit, WaitLimit::None))?;
            let acquisition = Acquisition { engine: &self.engine, request, wait_limit, limit: &self.limit };
            let record = WaitRecord::begin(&self.engine, &self.object, operation, wait_limit, recorded);
            let granted = acquisition.run().await;
            let waited = record.end(&granted);
            if let Ok(granted) = &granted {
                self.meter.ended(operation, granted.is_some());
                if granted.is_some() {
                    self.meter.waited(operation, waited);
                }
            }
            granted
        };
        let acquired = self.engine.shared.on(acquired.instrument(span)).await;
        acquired.map_err(|error| self.context(operation, error))
    }

    /// Makes the hold of a grant.
    pub(crate) fn make_hold(
        &self,
        operation: &'static str,
        grant: &Grant,
        in_doubt: InDoubt,
        weight: u32,
    ) -> Result<Hold> {
        into_hold(grant, in_doubt, &self.options, weight).map_err(|error| self.context(operation, error))
    }

    /// Acquires a hold.
    pub(crate) async fn take(
        &self,
        operation: &'static str,
        weight: u32,
        wait_limit: WaitLimit,
    ) -> Result<Option<Hold>> {
        let acquired = self.acquire(operation, weight, wait_limit).await?;
        acquired.map(|(grant, in_doubt)| self.make_hold(operation, &grant, in_doubt, weight)).transpose()
    }

    /// Takes a detached hold over; also returns the epoch of a wait group's record.
    pub(crate) async fn take_over(&self, detached: &Detached) -> Result<(Hold, u64)> {
        let taken = async {
            self.engine.shared.check_open()?;
            self.check_detached(detached)?;
            wait_for_room(&self.engine, &self.object, WaitLimit::None).await?;
            let attach = Attach {
                object: self.object.clone(),
                from: detached.ticket(),
                to: Ticket::random(),
                lease: self.options.first_lease()?,
                label: self.options.label.clone(),
            };
            let (moved, in_doubt) = move_hold(&self.engine, &attach).await?.ok_or_else(Error::lost)?;
            let Attached { token, weight, epoch } = moved.attached;
            let grant = Grant { token, sent: moved.sent, ambiguous: true, epoch };
            Ok((into_hold(&grant, in_doubt, &self.options, weight)?, epoch))
        };
        self.on("attach", taken).await
    }

    /// Checks that this object can have the detached hold (C24).
    fn check_detached(&self, detached: &Detached) -> Result<()> {
        let shared = &self.engine.shared;
        if self.object.kind == Kind::Mutex && !shared.capabilities.detach {
            return Err(Error::new(ErrorKind::Unsupported, "a session cannot give away what it holds"));
        }
        detached.check(self.object.kind, &shared.namespace, &self.object.name)?;
        if detached.ticket().is_detached() { Ok(()) } else { Err(Error::lost()) }
    }

    /// Sends a request about the object that leaves alone.
    pub(crate) async fn ask<A: Ask>(&self, operation: &'static str, request: A) -> Result<A::Answer> {
        self.engine.shared.check_open().map_err(|error| self.context(operation, error))?;
        self.on(operation, self.engine.shared.steps.ask(request)).await
    }

    pub(crate) async fn inspect(&self) -> Result<Inspection> {
        let mut inspection = self.ask("inspect", Inspect { object: self.object.clone() }).await?;
        inspection.limit = inspection.limit.filter(|limit| *limit != NO_LIMIT);
        self.meter.queue(inspection.waiters);
        Ok(inspection)
    }

    pub(crate) async fn usage(&self, operation: &'static str) -> Result<Usage> {
        self.ask(operation, Total { object: self.object.clone() }).await
    }

    pub(crate) async fn force(&self, operation: &'static str, force: Force) -> Result<bool> {
        let shared = &self.engine.shared;
        let forced = async {
            shared.check_open()?;
            // The holds of this process at the sending: if the request is executed, they are gone.
            let meant = shared.registry.matching(&self.object, force);
            meant.iter().for_each(|hold| hold.request_force());
            let object = self.object.clone();
            let freed = shared.steps.ask(ForceRelease { object, force }).await;
            for hold in &meant {
                match &freed {
                    Ok(_) => {
                        hold.lose(LossCause::Forced);
                    }
                    Err(error) if error.kind() == ErrorKind::Unknown => {}
                    Err(_) => hold.force_refused(),
                }
            }
            freed.map(u64::from)
        };
        let freed = shared.on(forced).await;
        let ticket = if let Force::One(ticket) = force { Some(ticket) } else { None };
        let (name, by) = (&self.object.name, self.options.label.as_deref());
        ForcedRelease { store: shared.store(), namespace: &shared.namespace, operation, name, ticket, by }
            .record(&freed);
        freed.map(|freed| freed > 0).map_err(|error| self.context(operation, error))
    }
}
