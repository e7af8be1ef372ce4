//! Writing a history.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Call, Change, Event, ObjectId, Operation, Target, What, clock};

/// Writes the events of one process into a file of its own. Cheap to clone; clones write to the
/// same file.
///
/// Each event is one `write(2)` with `O_APPEND` when [`record`](Self::record) returns: a recorded
/// event survives `SIGKILL` of the process, because the kernel has it. It does not survive a crash
/// of the machine, because nothing waits for the disk. A write takes a few µs.
///
/// # Examples
/// ```
/// use stanchion_campaign::history::{self, Call, ObjectId, Recorder, What};
/// use stanchion_core::{Kind, Name};
///
/// let folder = tempfile::tempdir()?;
/// let recorder = Recorder::create(folder.path(), 1)?;
/// let mutex = ObjectId::new(Kind::Mutex, Name::new("invoices/42")?);
/// let call = Call::Acquire { weight: 1, permits: None, ttl: Some(1_000_000), waits: true };
/// let operation = recorder.invoke(&mutex, call, None)?;
/// // `lock()` goes here
/// operation.record(What::Refused)?;
/// assert!(history::check(folder.path())?.is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    task: u64,
}

#[derive(Debug)]
struct Shared {
    file: File,
    worker: u32,
    operations: AtomicU64,
    tasks: AtomicU64,
}

impl Recorder {
    /// Creates a recorder of this process, with a new file `worker-N.history` in `folder`. Creates
    /// the folder if it is missing.
    ///
    /// # Errors
    /// As opening a file; `AlreadyExists` if that worker has a file: a restarted process is a new
    /// worker.
    pub fn create(folder: impl AsRef<Path>, worker: u32) -> io::Result<Self> {
        let folder = folder.as_ref();
        DirBuilder::new().recursive(true).create(folder)?;
        let file = OpenOptions::new().append(true).create_new(true).open(folder.join(file_name(worker)))?;
        let shared = Shared { file, worker, operations: AtomicU64::new(1), tasks: AtomicU64::new(1) };
        Ok(Self { shared: Arc::new(shared), task: 0 })
    }

    /// Returns the worker's number.
    #[must_use]
    pub fn worker(&self) -> u32 {
        self.shared.worker
    }

    /// Returns the same recorder for another task, with a task number of its own.
    #[must_use]
    pub fn task(&self) -> Self {
        let task = self.shared.tasks.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(&self.shared), task }
    }

    /// Records that a call begins. Call it just before the call.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn invoke(&self, object: &ObjectId, call: Call, time_limit: Option<u64>) -> io::Result<Operation> {
        let operation = self.number();
        self.record(operation, Some(object), What::Invoked { call, time_limit })?;
        Ok(Operation::new(self.clone(), object.clone(), operation))
    }

    /// Records that a fault begins, and returns the number to pass to
    /// [`fault_ended`](Self::fault_ended).
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn fault_began(&self, fault: &str, target: Target, safe: bool) -> io::Result<u64> {
        let operation = self.number();
        self.record(operation, None, What::FaultBegan { fault: fault.to_owned(), target, safe })?;
        Ok(operation)
    }

    /// Records that a safe fault begins that concerns one object only, and returns the number to
    /// pass to [`fault_ended`](Self::fault_ended).
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn fault_of_object_began(&self, fault: &str, object: &ObjectId) -> io::Result<u64> {
        let operation = self.number();
        let what = What::FaultBegan { fault: fault.to_owned(), target: Target::Object, safe: true };
        self.record(operation, Some(object), what)?;
        Ok(operation)
    }

    /// Records that a fault is over.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn fault_ended(&self, fault: u64) -> io::Result<()> {
        self.record(fault, None, What::FaultEnded).map(drop)
    }

    /// Records a change of a process; [`Change`] says on which side of the signal to call it.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn process(&self, worker: u32, change: Change) -> io::Result<()> {
        self.record(0, None, What::Process { worker, change }).map(drop)
    }

    /// Records an event at the present time, and returns the time in µs.
    ///
    /// # Errors
    /// As `write(2)`; `WriteZero` if only a part was written, which makes the file unreadable.
    pub fn record(&self, operation: u64, object: Option<&ObjectId>, what: What) -> io::Result<u64> {
        let at = clock::now();
        self.record_at(at, operation, object, what)?;
        Ok(at)
    }

    /// Records an event at a time that was read before, in µs of [`clock`].
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_at(
        &self,
        at: u64,
        operation: u64,
        object: Option<&ObjectId>,
        what: What,
    ) -> io::Result<()> {
        let event = Event {
            at,
            worker: self.shared.worker,
            task: self.task,
            operation,
            object: object.cloned(),
            what,
        };
        let line = format!("{event}\n");
        loop {
            return match (&self.shared.file).write(line.as_bytes()) {
                Ok(written) if written == line.len() => Ok(()),
                Ok(_) => Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }

    fn number(&self) -> u64 {
        self.shared.operations.fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns the name of a worker's file.
pub(crate) fn file_name(worker: u32) -> String {
    format!("worker-{worker}.history")
}
