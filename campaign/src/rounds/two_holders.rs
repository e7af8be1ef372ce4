//! Two holders of one mutex: an unsafe fault made the store forget the first.

use std::io;
use std::time::Duration;

use stanchion_core::{FencingToken, Kind, Mutex, MutexGuard, Name, Result, Ticket};
use tempfile::TempDir;

use super::register::{Register, Written};
use crate::history::{self, Call, Change, RecordedHold, ObjectId, Recorder, Report, Target, What, clock};

/// The nemesis' own number in the history.
const NEMESIS: u32 = 0;

/// The history of one mutex under an unsafe fault, and the [`Register`] that it guards.
///
/// Each who [locks](Self::lock) counts as a process of its own. What the history shows is [checked](Self::check) in the end:
/// beliefs that overlap are told as [admitted](Report::admitted), and tokens and writes have to be in command all the same.
///
/// ```no_run
/// # async fn holders(first: &dyn stanchion_core::Mutex, second: &dyn stanchion_core::Mutex)
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
/// assert!(other.write()? && !one.write()?, "which the register bears");
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
/// Gives the hold up.
#[derive(Debug)]
pub struct Contender {
    held: RecordedHold<MutexGuard>,
    register: Register,
}

impl TwoHolders {
    /// The holders for a mutex of that name, in a temporary folder.
    ///
    /// # Errors
    /// As writing files; `Other` for a name that is none.
    pub fn begin(name: &str) -> io::Result<Self> {
        let object = ObjectId::new(Kind::Mutex, Name::new(name).map_err(io::Error::other)?);
        let folder = tempfile::tempdir()?;
        let nemesis = Recorder::create(folder.path(), NEMESIS)?;
        Ok(Self { object, nemesis, contenders: NEMESIS, folder })
    }

    /// Locks, as a process of its own whose holds have that lease.
    ///
    /// # Errors
    /// As [`Mutex::lock`].
    ///
    /// # Panics
    /// If the history or the register cannot be written.
    ///
    /// # Cancel safety
    /// Dropped, it has not locked; the history says so.
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

    /// An unsafe fault of the store begins, now.
    ///
    /// # Errors
    /// As [`Recorder::fault_began`].
    pub fn fault_began(&self, fault: &str) -> io::Result<u64> {
        self.nemesis.fault_began(fault, Target::Store, false)
    }

    /// It is over.
    ///
    /// # Errors
    /// As [`Recorder::fault_ended`].
    pub fn fault_ended(&self, fault: u64) -> io::Result<()> {
        self.nemesis.fault_ended(fault)
    }

    /// What all checkers say.
    ///
    /// # Errors
    /// As [`history::check`].
    pub fn check(&self) -> Result<Report, history::HistoryError> {
        history::check(self.folder.path())
    }
}

impl Contender {
    /// The fencing token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.held.fencing_token()
    }

    /// The ticket.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.held.ticket()
    }

    /// Whether it believes to hold, which is recorded.
    ///
    /// # Errors
    /// As [`RecordedHold::believes`].
    pub fn believes(&self) -> io::Result<bool> {
        self.held.believes()
    }

    /// Writes to the register, which is recorded; `false` if it refused.
    ///
    /// # Errors
    /// As [`Register::write`]; `WouldBlock` if another writes at this moment.
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

    /// Waits until it is told that the hold is lost, which is recorded.
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

    /// Releases, which is recorded.
    ///
    /// # Errors
    /// As [`MutexGuard::release`].
    ///
    /// # Panics
    /// If the history cannot be written.
    ///
    /// # Cancel safety
    /// Dropped, the release is queued.
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
