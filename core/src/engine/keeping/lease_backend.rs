//! The guard's side of a hold: release, detach and loss.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::clock::sleep;
use crate::engine::keeping::hold::LeaseHold;
use crate::engine::sending::in_doubt::InDoubt;
use crate::engine::sending::leftover::Left;
use crate::engine::shared::{EngineHandle, Shared, release_of};
use crate::engine::timing::ATTEMPTS;
use crate::engine::timing::engine_now as now;
use crate::spi::{Attach, Attached, Ending, Kept, Object, Release, StepsExt};
use crate::{Detached, Error, ErrorKind, FencingToken, HoldBackend, Result, Ticket, Ttl};

/// The backend of one hold. It keeps the engine alive.
#[derive(Debug)]
pub(crate) struct LeaseBackend {
    pub(crate) engine: Arc<EngineHandle>,
    pub(crate) hold: Arc<LeaseHold>,
}

/// Pause between two attempts of a call with a maximum number of attempts.
const PAUSE: Duration = Duration::from_millis(50);

impl LeaseBackend {
    fn forget(&self) -> bool {
        self.engine.shared.registry.remove(self.hold.ticket);
        self.hold.give()
    }

    fn check_process(&self, operation: &'static str) -> Result<()> {
        self.engine.shared.check_process().map_err(|error| self.context(operation, error))
    }

    async fn try_release(&self, was_live: bool, deadline: Instant) -> Result<()> {
        // A member whose guard has lost it is told so, and is not counted as finished (C9, W4).
        let ending = if was_live { Ending::Finished } else { Ending::Abandoned };
        let mut release = release_of(&self.hold, ending);
        // A tombstone that is left in any case can name the call that left it.
        release.call = release.tombstone.filter(|_| was_live).map(|_| Ticket::random());
        match release_with_retry(&self.engine.shared, &release).await? {
            (Kept::Yes, _) if was_live => Ok(()),
            (Kept::No, Some(in_doubt)) if was_live && release.call.is_none() => {
                // Gone after an attempt with an unknown outcome: that attempt released it, unless
                // the lease has ended or the hold was released by force.
                if now() < deadline && !self.hold.is_force_requested() { Ok(()) } else { Err(in_doubt) }
            }
            _ => Err(Error::lost()),
        }
    }

    /// Moves the hold to a fresh ticket, so that a renewal of the old ticket that is still under
    /// way cannot shorten the lease that is set here.
    async fn try_detach(&self, lease: Ttl) -> Result<Ticket> {
        let to = Ticket::detached();
        let object = self.hold.object.clone();
        // Where a close frees the new ticket before the move arrives, the hold is still the old
        // one's.
        let mut held = InDoubt::new(&self.engine, &object, self.hold.ticket, self.hold.lease, Left::Moved);
        held.sent();
        // Without a close, the guard frees it.
        held.resolved();
        let attach = Attach { object, from: self.hold.ticket, to, lease, label: None };
        let (_, in_doubt) = move_hold(&self.engine, &attach).await?.ok_or_else(Error::lost)?;
        // A close that came first frees it.
        if in_doubt.settle() { Ok(to) } else { Err(Error::closed()) }
    }
}

/// Sends a release until it is answered, at most [`ATTEMPTS`] times. Also returns the error of an
/// earlier attempt whose outcome is unknown, if there is one.
///
/// # Errors
/// As the step: `Unknown` if any attempt may have been executed.
pub(crate) async fn release_with_retry(shared: &Shared, release: &Release) -> Result<(Kept, Option<Error>)> {
    let mut in_doubt = None;
    for attempt in 1.. {
        match shared.batcher.ask(release.clone(), shared.request_end(None)).await {
            Ok(kept) => return Ok((kept, in_doubt)),
            Err(error) if error.kind().is_final() || attempt == ATTEMPTS => {
                return Err(in_doubt.unwrap_or(error));
            }
            Err(error) if error.kind() == ErrorKind::Unknown => in_doubt = Some(error),
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
    unreachable!("the loop ends at the last attempt")
}

/// A hold that was moved, and when the successful request was sent.
pub(crate) struct Moved {
    pub(crate) attached: Attached,
    pub(crate) sent: Instant,
}

/// Moves a hold to another ticket; `None` if the hold is gone. If the outcome is unknown after the
/// last attempt or when the call is dropped, the hold is released; a moved hold is released, too,
/// unless the caller resolves the [`InDoubt`].
///
/// # Errors
/// As the step: `Unknown` if any attempt may have been executed.
pub(crate) async fn move_hold(
    engine: &Arc<EngineHandle>,
    attach: &Attach,
) -> Result<Option<(Moved, InDoubt)>> {
    let mut in_doubt = InDoubt::new(engine, &attach.object, attach.to, attach.lease, Left::Moved);
    let (mut ambiguous, mut unknown) = (false, None);
    for attempt in 1.. {
        in_doubt.sent();
        let sent = now();
        match engine.shared.steps.ask(attach.clone()).await {
            Ok(Some(_)) if now() > sent + attach.lease.handout() => {
                ambiguous = true;
                if attempt == ATTEMPTS {
                    // It was moved, and is being released.
                    let slow = Error::too_slow(attach.lease, sent.elapsed());
                    let moved =
                        || Error::new(ErrorKind::Unknown, "the hold was moved too late").with_source(slow);
                    return Err(unknown.unwrap_or_else(moved));
                }
            }
            Ok(Some(attached)) => return Ok(Some((Moved { attached, sent }, in_doubt))),
            Ok(None) => {
                in_doubt.resolved();
                return Ok(None);
            }
            Err(error) => {
                let is_unknown = error.kind() == ErrorKind::Unknown;
                ambiguous |= is_unknown;
                if !ambiguous {
                    in_doubt.resolved();
                }
                if error.kind().is_final() || attempt == ATTEMPTS {
                    return Err(unknown.filter(|_| !is_unknown).unwrap_or(error));
                }
                unknown = if is_unknown { Some(error) } else { unknown };
                sleep(PAUSE).await;
            }
        }
    }
    unreachable!("the loop ends at the last attempt")
}

#[async_trait]
impl HoldBackend for LeaseBackend {
    fn is_held(&self, _: Ticket) -> bool {
        !self.engine.shared.is_forked() && self.hold.is_held()
    }

    fn deadline(&self, _: Ticket) -> Option<Instant> {
        (!self.engine.shared.is_forked()).then(|| self.hold.deadline())
    }

    fn name(&self) -> &str {
        self.hold.object.name.as_str()
    }

    fn context(&self, operation: &'static str, error: Error) -> Error {
        error.context(operation, self.engine.shared.store(), self.hold.object.name.as_str())
    }

    async fn lost(&self, _: Ticket) {
        if !self.engine.shared.is_forked() {
            self.engine.shared.on(self.hold.lost()).await;
        }
    }

    fn abandon(&self, _: Ticket) {
        if self.engine.shared.is_forked() {
            return;
        }
        self.forget();
        self.engine.shared.send_release(&self.hold);
    }

    async fn release(&self, _: Ticket) -> Result<()> {
        self.check_process("release")?;
        let deadline = self.hold.deadline();
        let was_live = self.forget();
        let released = self.engine.shared.on(self.try_release(was_live, deadline)).await;
        let is_closed = released.as_ref().is_err_and(|error| error.kind() == ErrorKind::Closed);
        if is_closed && self.engine.shared.check_open().is_ok() {
            // The callers' way to the server is closed; the engine may have one of its own.
            self.engine.shared.send_release(&self.hold);
        }
        released.map_err(|error| self.context("release", error))
    }

    async fn detach(&self, _: Ticket, token: FencingToken, lease: Ttl) -> Result<Detached> {
        self.check_process("detach")?;
        if !self.forget() {
            return Err(self.context("detach", Error::lost()));
        }
        let moved = self.engine.shared.on(self.try_detach(lease)).await;
        let ticket = moved.map_err(|error| self.context("detach", error))?;
        let Object { kind, name } = &self.hold.object;
        Ok(Detached::new(*kind, &self.engine.shared.namespace, name, ticket, token))
    }
}
