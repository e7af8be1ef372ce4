//! Measures how long it takes until the store serves calls again after one fault, and compares with
//! the contract.
//!
//! Each trial has its own worker processes on a private server: a holder of a mutex, waiters for
//! it, and an observer that counts the waiters, so that the fault begins only after all waiters
//! have queued. Workers record the times of their grants. All times are of the machine's monotonic
//! clock.
//!
//! ```no_run
//! use std::process::Command;
//! use stanchion_campaign::recovery::{Table, measure};
//! use stanchion_campaign::rounds::{CampaignServer, Deployment};
//!
//! let server = CampaignServer::start(Deployment::Redis)?;
//! let samples = measure(&server, &|| Command::new("target/debug/fault-worker"), 0)?;
//! println!("{}", Table::of(&samples));
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```

mod measures;
mod stalls;
mod table;
mod trial_setup;
mod trial_worker;
mod trials;

use std::process::Command;

use stanchion_testbed::servers::temporary_folder;

use crate::rounds::{CampaignServer, Deployment};
use stalls::Stalls;
use trial_setup::TrialSetup;

pub use measures::{Bound, Limit, Measure};
pub use table::Table;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// One measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// The deployment.
    pub deployment: Deployment,
    /// The measure.
    pub measure: Measure,
    /// The time in µs; negative if the second event came first. A time with an upper limit is
    /// without the time in which the machine stood still.
    pub micros: i64,
}

/// Runs each trial once, one after the other. Blocks the thread for about 15 s. `program` returns
/// the command that starts a worker; [its arguments](crate::rounds::Work::to_arguments) are added.
/// `run` is the number of the run on this server: in each run, faults strike at another moment of a
/// lease.
///
/// # Errors
/// If a server, a process or a file fails, or a grant does not come within 20 s. A time over its
/// bound is no error.
pub fn measure(
    server: &CampaignServer,
    program: &dyn Fn() -> Command,
    run: u32,
) -> Result<Vec<Sample>, Error> {
    // Workers wait for each line of their histories, so a busy disk would look like a slow store.
    let folder = temporary_folder("recovery")?;
    let (stalls, mut samples) = (Stalls::watch(), Vec::new());
    for (name, measure, trial) in trials::TRIALS {
        if measure.bound(server.deployment()).is_none() {
            continue;
        }
        let mut setup = TrialSetup::new(server, program, &folder.path().join(name), name, run, &stalls);
        let measured =
            trial(&mut setup).map_err(|error| format!("{}, {name}: {error}", server.deployment()))?;
        let sample = |(measure, micros)| Sample { deployment: server.deployment(), measure, micros };
        samples.extend(measured.into_iter().map(sample));
    }
    Ok(samples)
}
