//! The server, in a real store another program: a map, its clock, and a mailbox for each process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::{Instant, micros, now, sleep, wall_micros};
use stanchion_core::spi::{Object, ProcessId};
use stanchion_core::{Error, ErrorKind, Result, Ticket};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout_at;

use crate::client::Client;
use crate::liveness::Liveness;
use crate::moment::Moment;
use crate::record::{QueuedWaiter, Record};

/// Pause between two looks at whether a step is under way.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// The server of a store. Clients of the same server share its names.
#[derive(Debug)]
pub struct Server {
    /// The clock: a wall clock, so that tokens grow even after a loss of data (M3), but one that
    /// never goes back.
    origin: Instant,
    origin_micros: u64,
    state: Mutex<State>,
}

/// The state of a server.
#[derive(Debug, Default)]
pub struct State {
    /// The records by name.
    pub records: HashMap<Object, Record>,
    pub(crate) liveness: Liveness,
    mailboxes: HashMap<ProcessId, UnboundedSender<Ticket>>,
}

impl Server {
    /// Creates an empty server.
    #[must_use]
    pub fn start() -> Arc<Self> {
        Arc::new(Self { origin: now(), origin_micros: wall_micros(), state: Mutex::default() })
    }

    /// Locks and returns the server's state, for tests and administrators. No step runs meanwhile.
    pub async fn state(&self) -> MutexGuard<'_, State> {
        // In line, the lock would be given to a call that nobody polls, and stay with it (C27).
        loop {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Forgets everything, like a server that crashed and kept nothing.
    pub async fn lose_data(&self) {
        let mut state = self.state().await;
        (state.records, state.liveness) = Default::default();
    }

    /// Removes expired state (C25).
    pub(crate) async fn sweep(&self, client: Client) -> Result<()> {
        let mut step = self.enter(client, now() + client.request_timeout).await?;
        let now = step.now;
        let State { records, liveness, mailboxes } = &mut *step.state;
        for record in records.values_mut() {
            record.reap(&Moment { now, client, liveness: &mut *liveness });
        }
        records.retain(|_, record| !record.is_over(now));
        liveness.sweep(now);
        mailboxes.retain(|_, mailbox| !mailbox.is_closed());
        Ok(())
    }

    /// Creates the mailbox for the hints to a process.
    pub(crate) async fn mailbox(&self, process: ProcessId) -> UnboundedReceiver<Ticket> {
        let (sender, receiver) = unbounded_channel();
        self.state().await.mailboxes.insert(process, sender);
        receiver
    }

    /// Waits for the lock, and reads the clock after that (C7): a hold that ends while a step waits
    /// for the lock has ended when the step decides. Called once for a whole step.
    ///
    /// # Errors
    /// `Unavailable` at `end`: then certainly nothing was done.
    pub(crate) async fn enter(&self, client: Client, end: Instant) -> Result<StepInProgress<'_>> {
        let late = |_| Error::new(ErrorKind::Unavailable, "the server is busy");
        let mut state = timeout_at(end, self.state()).await.map_err(late)?;
        let now = self.origin_micros + micros(self.origin.elapsed());
        state.liveness.begin(now);
        Ok(StepInProgress { state, now, client, touched: HashSet::new() })
    }
}

/// One step in progress: no other step runs, and its time does not advance.
pub(crate) struct StepInProgress<'a> {
    state: MutexGuard<'a, State>,
    now: u64,
    client: Client,
    touched: HashSet<Object>,
}

impl StepInProgress<'_> {
    /// Executes one entry.
    pub(crate) fn on<T>(
        &mut self,
        object: &Object,
        run: impl FnOnce(&mut Record, &mut Moment<'_>) -> T,
    ) -> T {
        let State { records, liveness, .. } = &mut *self.state;
        let mut at = Moment { now: self.now, client: self.client, liveness };
        let record = records.entry(object.clone()).or_default();
        record.reap(&at);
        let answer = run(record, &mut at);
        if record.epoch == 0 {
            // Nothing was stored: a query or a refused request leaves nothing (C20).
            records.remove(object);
        } else if record.stirred {
            self.touched.insert(object.clone());
        }
        answer
    }

    /// Sends the hints, after the last entry and once for each name.
    pub(crate) fn wake(mut self) {
        let State { records, liveness, mailboxes } = &mut *self.state;
        let at = Moment { now: self.now, client: self.client, liveness };
        for object in &self.touched {
            let Some(record) = records.get_mut(object) else { continue };
            record.stirred = false;
            for QueuedWaiter { process, ticket, .. } in record.next_grants(&at) {
                // A hint to a process that is gone is no error.
                let _ = mailboxes.get(&process).map(|mailbox| mailbox.send(ticket));
            }
        }
    }
}
