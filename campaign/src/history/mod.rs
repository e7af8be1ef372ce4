//! Histories of runs under faults, and the checkers that find breaches of the contract in them.
//!
//! Each worker process records its requests, its answers and its beliefs in a file of its own. The
//! nemesis, which kills, stops and cuts off workers, does the same. Afterwards [`check`] reads all
//! files of the folder and reports which clauses of the contract the history breaks.
//!
//! # Recording
//! A worker has one [`Recorder`]. Each call is an [`Operation`]: it is invoked and answered. An
//! operation that was granted a guard is kept together with it, as a [`RecordedHold`], until the
//! hold is given up. A restarted process is another worker.
//!
//! ```no_run
//! # async fn worker(mutex: std::sync::Arc<dyn stanchion_core::Mutex>) -> Result<(), Box<dyn std::error::Error>> {
//! use stanchion_campaign::history::{Call, ObjectId, Recorder, What};
//! use stanchion_core::{Kind, Name};
//!
//! let recorder = Recorder::create("target/campaign", 3)?;
//! let object = ObjectId::new(Kind::Mutex, Name::new("invoices/42")?);
//! let call = Call::Acquire { weight: 1, permits: None, ttl: Some(2_000_000), waits: true };
//! let operation = recorder.invoke(&object, call, None)?;
//! match mutex.lock().await {
//!     Ok(guard) => {
//!         let held = operation.granted(guard)?;
//!         held.believes()?;
//!         let (operation, guard) = held.releasing()?;
//!         match guard.release().await {
//!             Ok(()) => operation.record(What::Released)?,
//!             Err(error) => operation.record(What::ReleaseFailed { error: error.kind() })?,
//!         };
//!     }
//!     Err(error) => drop(operation.record(What::Failed { error: error.kind() })?),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The nemesis records with a worker number of its own: [`Recorder::process`] and
//! [`Recorder::fault_began`].
//!
//! # Checking
//! ```no_run
//! let report = stanchion_campaign::history::check("target/campaign")?;
//! println!("{report}");
//! assert!(report.is_clean());
//! # Ok::<(), stanchion_campaign::history::HistoryError>(())
//! ```
//!
//! The checkers are sound: what they report cannot be explained by any outcome of a call whose
//! outcome is not known, nor by the order of concurrent calls. Each checker's file says what the
//! checker assumes and what it cannot see. The checkers take as long as sorting the events; a wait
//! that lasts through many faults of its own process takes one more step for each fault.

mod audit;
mod bounds;
mod bystander;
mod call;
pub mod clock;
mod digest;
mod event;
mod fence;
mod fields;
mod hold;
mod limiter;
mod line;
mod line_call;
mod liveness;
mod mutex;
mod operation;
mod reader;
mod recorder;
mod report;
mod room;
mod semaphore;
mod spans;
mod steps;
mod surroundings;
mod tokens;
mod violation;
mod wait_group;
mod windows;

use std::path::Path;

pub(crate) use audit::{Entry, HoldChange};
pub use bounds::Bounds;
pub use call::Call;
pub use event::{Change, Event, ObjectId, Target, What};
pub use operation::{Guard, Operation, RecordedHold};
pub(crate) use reader::AUDIT;
pub use reader::{History, HistoryError};
pub use recorder::Recorder;
pub(crate) use recorder::file_name;
pub use report::{Report, Tally};
pub use violation::{Rule, Violation};

/// Reads all files of a folder and runs all checkers with the bounds of the contract.
///
/// # Errors
/// As [`History::read`]. Violations are no error; they are in the report.
pub fn check(folder: impl AsRef<Path>) -> Result<Report, HistoryError> {
    Ok(History::read(folder)?.check())
}
