//! Where wake-ups come from, and the work that nobody calls for.

use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::sleep;
use stanchion_core::steps::{Chore, Object, Reports, WakeSource};
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::steps::ThirdSteps;

/// How long a call waits for hints. Less than forever, so that a source that lost its connection notices.
const WAIT: Duration = Duration::from_secs(1);
/// Hints taken at once.
const BATCH: usize = 100;
/// How often what is over is removed.
const SWEEP: Duration = Duration::from_secs(1);

/// The mailbox of one process. Hints may be lost or doubled: whoever is woken asks again, and the poll floor is there.
#[derive(Debug)]
pub(crate) struct Mailbox(pub(crate) Mutex<UnboundedReceiver<Ticket>>);

#[async_trait]
impl WakeSource for Mailbox {
    /// Nothing to do: hints to all names of the process come here anyway.
    fn watch(&self, _: &Object, _: bool) {}

    async fn next(&self) -> Result<Vec<Ticket>> {
        let (mut mailbox, mut tickets) = (self.0.lock().await, Vec::new());
        let received = timeout(WAIT, mailbox.recv_many(&mut tickets, BATCH)).await;
        match received {
            Ok(0) => Err(Error::new(ErrorKind::Unavailable, "the server has gone")),
            _ => Ok(tickets),
        }
    }
}

/// Removes what is over, for as long as any process is connected.
#[derive(Debug)]
pub(crate) struct Sweep(pub(crate) ThirdSteps);

#[async_trait]
impl Chore for Sweep {
    async fn run(&self, _: &Reports) {
        let Self(ThirdSteps { server, client }) = self;
        loop {
            sleep(SWEEP).await;
            // A sweep that failed is made up for by the next one.
            let _ = server.sweep(*client).await;
        }
    }
}
