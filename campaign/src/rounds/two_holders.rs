//! Two holders of one mutex: an unsafe fault made the store forget the first.

use std::io;
use std::time::{Duration, Instant};

use stanchion_core::{FencingToken, Kind, Mutex, MutexGuard, Name, Result, Ticket};
use tempfile::TempDir;

use super::register::{Register, Written};
use crate::history::{self, Call, Change, ObjectId, RecordedHold, Recorder, Report, Target, What, clock};

/// The worker number of the nemesis in the history.
const NEMESIS: u32 = 0;

/// The history of one mutex under an unsafe fault, and the [`Register`] that it guards.
///
/// Each holder that [locks](Self::lock) counts as a process of its own. The history is
/// [checked](Self::check) at the end: beliefs that overlap are reported as
/// [admitted](Report::admitted), but tokens and writes must be in order all the same.
///
/// ```no_run
/// # async fn two_holders(first: &dyn stanchion_core::Mutex, second: &dyn stanchion_core::Mutex)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use stanchion_campaign::rounds::TwoHolders;
///
/// let ttl = std::time::Duration::from_secs(4);
/// let mut holders = TwoHolders::begin(first.name())?;
/// let one = holders.lock(first, ttl).await?;
/// let fault = holders.fault_began("FLUSHALL")?;
/// // the fault goes here
/// holders.fault_ended(fault)?;
/// let other = holders.lock(second, ttl).await?;
/// assert!(one.believes()? && other.believes()?, "as the contract admits");
/// assert!(other.write()? && !one.write()?, "the register refuses the older holder");
/// drop((one, other));
/// assert!(holders.check()?.is_clean());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TwoHolders {
    object: ObjectId,
    nemesis: Recorder,
    contenders: u32,
    // Last, so that all files in it are closed before it is removed.
    folder: TempDir,
}

/// A holder in a [`TwoHolders`].
///
/// # Drop
/// Releases the hold in the background.
#[derive(Debug)]
pub struct Contender {
    held: RecordedHold<MutexGuard>,
    register: Register,
}

impl TwoHolders {
    /// Begins the history of a mutex of that name, in a temporary folder.
    ///
    /// # Errors
    /// As writing files; `Other` for an invalid name.
    pub fn begin(name: &str) -> io::Result<Self> {
        let object = ObjectId::new(Kind::Mutex, Name::new(name).map_err(io::Error::other)?);
        let folder = tempfile::tempdir()?;
        let nemesis = Recorder::create(folder.path(), NEMESIS)?;
        Ok(Self { object, nemesis, contenders: NEMESIS, folder })
    }

    /// Locks the mutex as a process of its own. `ttl` is the lease of its holds.
    ///
    /// # Errors
    /// As [`Mutex::lock`].
    ///
    /// # Panics
    /// If the history or the register cannot be written.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the lock; the history records it.
    pub async fn lock(&mut self, mutex: &dyn Mutex, ttl: Duration) -> Result<Contender> {
        self.contenders += 1;
        let recorder = Recorder::create(self.folder.path(), self.contenders).expect("a file of the history");
        self.nemesis.process(self.contenders, Change::Started).expect("a line of the history");
        let ttl = u64::try_from(ttl.as_micros()).ok();
        let call = Call::Acquire { weight: 1, permits: None, ttl, waits: true };
        let operation = recorder.invoke(&self.object, call, None).expect("a line of the history");
        let guard = mutex.lock().await?;
        let held = operation.granted(guard).expect("a line of the history");
        let register = Register::open(&self.folder.path().join("register")).expect("a register");
        Ok(Contender { held, register })
    }

    /// Records that an unsafe fault of the store begins, and returns its number.
    ///
    /// # Errors
    /// As [`Recorder::fault_began`].
    pub fn fault_began(&self, fault: &str) -> io::Result<u64> {
        self.nemesis.fault_began(fault, Target::Store, false)
    }

    /// Records that the fault is over.
    ///
    /// # Errors
    /// As [`Recorder::fault_ended`].
    pub fn fault_ended(&self, fault: u64) -> io::Result<()> {
        self.nemesis.fault_ended(fault)
    }

    /// Runs all checkers.
    ///
    /// # Errors
    /// As [`history::check`].
    pub fn check(&self) -> Result<Report, history::HistoryError> {
        history::check(self.folder.path())
    }
}

impl Contender {
    /// Returns the fencing token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.held.fencing_token()
    }

    /// Returns the ticket.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.held.ticket()
    }

    /// Returns until when the holder believes that it holds, if nothing renews the hold; `None`
    /// without a lease.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.held.deadline()
    }

    /// Returns whether the holder believes that it holds, and records the answer.
    ///
    /// # Errors
    /// As [`RecordedHold::believes`].
    pub fn believes(&self) -> io::Result<bool> {
        self.held.believes()
    }

    /// Writes to the register and records the result; `false` if the register refused.
    ///
    /// # Errors
    /// As [`Register::write`]; `WouldBlock` if another holder writes at the same time.
    pub fn write(&self) -> io::Result<bool> {
        let (token, ticket) = (self.token(), self.ticket());
        let began = clock::now();
        let (what, taken) = match self.register.write(token, ticket)? {
            Written::Yes(sequence) => (What::Wrote { began, token, ticket, sequence }, true),
            Written::No => (What::WriteRefused { began, token, ticket }, false),
            Written::Busy => return Err(io::ErrorKind::WouldBlock.into()),
        };
        self.held.operation().record(what)?;
        Ok(taken)
    }

    /// Waits until `lost()` resolves, and records the loss.
    ///
    /// # Errors
    /// As [`Recorder::record`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) -> io::Result<()> {
        self.held.lost().await;
        self.held.operation().record(What::Lost).map(drop)
    }

    /// Releases the hold, and records the result.
    ///
    /// # Errors
    /// As [`MutexGuard::release`].
    ///
    /// # Panics
    /// If the history cannot be written.
    ///
    /// # Cancel safety
    /// Dropping the future queues the release.
    pub async fn release(self) -> Result<()> {
        let (operation, guard) = self.held.releasing().expect("a line of the history");
        let released = guard.release().await;
        let what = match &released {
            Ok(()) => What::Released,
            Err(error) => What::ReleaseFailed { error: error.kind() },
        };
        operation.record(what).expect("a line of the history");
        released
    }
}
