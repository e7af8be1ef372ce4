//! `resize`: changes the limit of a semaphore.

use clap::Args;
use stanchion::{OnMismatch, SemaphoreOptions};

use crate::exit::{Exit, Failure};
use crate::output::line;
use crate::url::Target;
use crate::values;

/// Change the number of permits of a semaphore, for everybody
///
/// A higher number lets waiters in. A lower one takes no permit away: nobody is let in until fewer
/// are held. The number stays until the name was idle for an hour. Until then, programs that name
/// another number are refused with 78 (in the library with `ConfigMismatch`), unless they say by
/// --on-mismatch which one counts.
#[derive(Args, Clone, Debug)]
pub(crate) struct Resize {
    /// The name of the semaphore
    #[arg(value_parser = values::name)]
    name: String,
    /// The number of permits
    #[arg(value_name = "N", value_parser = values::permits)]
    permits: u32,
}

pub(crate) async fn resize(options: &Resize, target: &Target) -> Result<Exit, Failure> {
    let store = target.open().await?;
    let settings = SemaphoreOptions::new(options.permits).on_mismatch(OnMismatch::Adopt);
    store.semaphore(&options.name, settings)?.resize(options.permits).await?;
    line(format_args!("{:?} has {} permits", options.name, options.permits))?;
    Ok(Exit::DONE)
}
