//! What others see of a store: the log, the metrics, outages, and who freed what by force.

pub mod audit;
pub(crate) mod availability;
pub mod events;
mod loss_cause;
pub mod metering;
