//! Histories of runs under faults, and what they must not show.
//!
//! Worker processes write down what they ask for, what they get and what they believe, each into a file of its own; so
//! does the nemesis that kills, stops and cuts them off. Afterwards one [`check`] reads all files of the folder and
//! says which clauses of the contract the history breaks.
//!
//! # Recording
//! A worker has one [`Recorder`]. Each call is an [`Operation`]: invoked, answered, and, if it was granted a guard,
//! kept together with it as [`RecordedHold`] until the hold is given up. A process that is started again is another worker.
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
//! The nemesis records with a worker number of its own: [`Recorder::process`] and [`Recorder::fault_began`].
//!
//! # Checking
//! ```no_run
//! let report = stanchion_campaign::history::check("target/campaign")?;
//! println!("{report}");
//! assert!(report.is_clean());
//! # Ok::<(), stanchion_campaign::history::HistoryError>(())
//! ```
//!
//! The checkers are sound: what they report cannot be explained by any outcome of a call whose outcome is not known,
//! nor by the order of calls that were under way at the same time. What each assumes and cannot see is said in its
//! file. Their time is that of sorting the events; a wait that lasts through many faults of its own process costs a
//! step for each.

mod audit;
mod bounds;
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
pub use operation::{Guard, RecordedHold, Operation};
pub(crate) use reader::AUDIT;
pub use reader::{History, HistoryError};
pub use recorder::Recorder;
pub(crate) use recorder::file_name;
pub use report::{Report, Tally};
pub use violation::{Rule, Violation};

/// Reads all files of a folder and runs all checkers with the bounds of the contract.
///
/// # Errors
/// As [`History::read`]. What the checkers find is no error but in the report.
pub fn check(folder: impl AsRef<Path>) -> Result<Report, HistoryError> {
    Ok(History::read(folder)?.check())
}
