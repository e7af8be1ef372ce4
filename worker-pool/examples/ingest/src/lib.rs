//! An HTTP endpoint that takes payloads, queues them in a worker pool and stores them in batches.
//!
//! `POST /payloads` brings a [`Collection`]. A request that was answered 202 is in the queue of the
//! pool; a worker adds its payloads to the open [batch](Batches), and the worker that fills a batch
//! stores it as one object. Data on its way from a socket to an object is bounded: in requests by
//! the pool's queue, and in bytes by the room that each request takes before its body is read.
//! Beyond these bounds a request is answered 503, and costs nothing.
//!
//! [`run`] is the whole service; [`Settings`] holds its command line.

#![expect(clippy::disallowed_methods, reason = "a program owns its runtime, reads its clock and sleeps")]

mod batch;
mod batches;
mod collection;
mod endpoint;
mod error;
mod server;
mod service;
mod settings;
mod storage;

pub use batch::Batch;
pub use batches::Batches;
pub use collection::{Collection, Malformed};
pub use endpoint::{Endpoint, router};
pub use error::Failed;
pub use server::serve;
pub use service::{Summary, run};
pub use settings::{Settings, USAGE};
pub use storage::Storage;
