//! The source of wake-ups, and the periodic sweep.

use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::sleep;
use stanchion_core::spi::{Chore, Object, Reports, WakeSource};
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::steps::ThirdSteps;

/// Time limit of one wait for hints, so that a source notices when its connection is lost.
const WAIT_LIMIT: Duration = Duration::from_secs(1);
/// Maximum number of hints taken at once.
const BATCH: usize = 100;
/// Interval between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The mailbox of one process. Hints may be lost or doubled: a woken waiter asks the store again,
/// and the poll floor covers lost hints.
#[derive(Debug)]
pub(crate) struct Mailbox(pub(crate) Mutex<UnboundedReceiver<Ticket>>);

#[async_trait]
impl WakeSource for Mailbox {
    /// Does nothing: the hints to all names of the process come here anyway.
    fn watch(&self, _: &Object, _: bool) {}

    async fn next(&self) -> Result<Vec<Ticket>> {
        let (mut mailbox, mut tickets) = (self.0.lock().await, Vec::new());
        let received = timeout(WAIT_LIMIT, mailbox.recv_many(&mut tickets, BATCH)).await;
        match received {
            Ok(0) => Err(Error::new(ErrorKind::Unavailable, "the server has gone")),
            _ => Ok(tickets),
        }
    }
}

/// Removes expired state, as long as any process is connected.
#[derive(Debug)]
pub(crate) struct Sweep(pub(crate) ThirdSteps);

#[async_trait]
impl Chore for Sweep {
    async fn run(&self, _: &Reports) {
        let Self(ThirdSteps { server, client }) = self;
        loop {
            sleep(SWEEP_INTERVAL).await;
            // The next sweep makes up for a failed one.
            let _ = server.sweep(*client).await;
        }
    }
}
