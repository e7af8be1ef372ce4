//! The open connections to one server, and how one is found, made, and replaced.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stanchion_core::clock::{Instant, now, real, sleep, sleep_until, timeout, timeout_at};
use stanchion_core::connect::{Attempts, LATE_ANSWER, current_runtime};
use stanchion_core::{Error, ErrorKind, Result};
use tokio::runtime::Id;

use crate::connection::{Connection, ConnectionState};
use crate::connector::Connect;

/// How long an answer takes to reach a caller, at most, and how often callers look whether their
/// connection is known to be dead.
const MOMENT: Duration = Duration::from_millis(20);

/// One connection for each runtime that makes requests. The engine lets two at most make requests:
/// one of callers, and its own.
pub(super) struct Connections {
    /// What they are for.
    pub(super) sort: Sort,
    pub(super) open: Arc<OpenConnections>,
    attempts: Attempts<Connection>,
}

/// The requests that have connections of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Plain,
    Waiting,
    /// Those of the pool beside.
    PlainBeside,
    WaitingBeside,
}

impl Sort {
    fn waits(self) -> bool {
        matches!(self, Self::Waiting | Self::WaitingBeside)
    }
}

/// The connections to a server that can be used, each of the requests and the runtime that it was
/// made for.
#[derive(Default)]
pub(super) struct OpenConnections(Mutex<Vec<((Sort, Id), Connection)>>);

impl OpenConnections {
    fn all(&self) -> MutexGuard<'_, Vec<((Sort, Id), Connection)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection that was made for these requests of a runtime. Drops the connections
    /// whose driver has ended.
    fn find(&self, of: (Sort, Id)) -> Option<Connection> {
        let mut all = self.all();
        all.retain(|(_, connection)| connection.is_running());
        all.iter().find(|(made_for, _)| *made_for == of).map(|(_, connection)| connection.clone())
    }

    /// Returns any connection: rather none that others wait on, and one of this runtime.
    pub(super) fn any(&self, sort: Sort) -> Option<Connection> {
        let runtime = current_runtime().ok();
        let mut all = self.all();
        all.retain(|(_, connection)| connection.is_running());
        let distance = |(made_for, of): &(Sort, Id)| (made_for.waits() != sort.waits(), Some(*of) != runtime);
        all.iter().min_by_key(|(made_for, _)| distance(made_for)).map(|(_, connection)| connection.clone())
    }

    /// Makes a connection.
    async fn connect(&self, connector: &dyn Connect, of: (Sort, Id)) -> Result<Connection> {
        let connection = connector.connect().await?;
        self.all().push((of, connection.clone()));
        Ok(connection)
    }

    /// Makes a connection in place of one that may be dead.
    ///
    /// # Errors
    /// If none was made, or not all that is asked over it is answered, or the other has answered
    /// meanwhile.
    async fn replace(
        &self,
        connector: &dyn Connect,
        of: (Sort, Id),
        dead: &ConnectionState,
    ) -> Result<Connection> {
        let asked = real();
        let mut connection = connector.connect().await?;
        // A pause of writes holds a script up, and not what a new connection is asked.
        let mut script = redis::cmd("EVAL");
        script.arg("return 1").arg(0);
        let asking =
            async { connection.answers(&script).await && connection.answers(&redis::cmd("PING")).await };
        let answers = timeout(LATE_ANSWER, asking).await.unwrap_or(false);
        // At the end of a pause the server answers all in one turn, the last connection first. What
        // it has said over the other one is to reach a caller.
        sleep(MOMENT).await;
        let mut all = self.all();
        if !answers || dead.is_given_up() || dead.is_heard_since(asked) {
            let alive = Error::new(ErrorKind::Unavailable, "the connection may live");
            return Err(connector.locate(alive));
        }
        dead.note_dead();
        all.retain(|(_, open)| !open.is_same(dead) && open.is_running());
        // Another one may be in its place.
        if let Some((_, other)) = all.iter().find(|(made_for, _)| *made_for == of) {
            return Ok(other.clone());
        }
        all.push((of, connection.clone()));
        Ok(connection)
    }

    fn discard(&self, connection: &Connection) {
        connection.give_up();
        self.all().retain(|(_, other)| !other.is_same(connection));
    }
}

impl Connections {
    pub(super) fn new(sort: Sort, open: &Arc<OpenConnections>) -> Self {
        Self { sort, open: Arc::clone(open), attempts: Attempts::default() }
    }

    pub(super) fn count(&self) -> usize {
        let all = self.open.all();
        all.iter().filter(|((sort, _), connection)| *sort == self.sort && connection.is_running()).count()
    }

    /// Returns the connection of the current runtime, which an attempt makes if there is none;
    /// while none can be made, any that is there (C28).
    pub(super) async fn connection(&self, connector: &Arc<dyn Connect>) -> Result<Connection> {
        let find = |runtime| self.open.find((self.sort, runtime));
        let connect = |runtime| {
            let (connector, open, of) = (Arc::clone(connector), Arc::clone(&self.open), (self.sort, runtime));
            async move { open.connect(&*connector, of).await }
        };
        // A server that has as many as it takes need not say so: it may have closed the new one
        // before that was read.
        if connector.is_refused()
            && let Some(other) = self.open.any(self.sort)
        {
            // An attempt goes on beside.
            return Ok(self.attempts.begun(find, connect)?.unwrap_or(other));
        }
        match self.attempts.shared(find, connect).await {
            Err(error) if !error.kind().is_final() => self.open.any(self.sort).ok_or(error),
            made => made,
        }
    }

    /// Waits for an answer over a connection; `None` if there is none by `end`, or if
    /// the connection has turned out to be dead.
    pub(super) async fn answer<T>(
        &self,
        connector: &Arc<dyn Connect>,
        connection: &ConnectionState,
        end: Instant,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let mut answer = pin!(answer);
        let late = now() + LATE_ANSWER;
        match timeout_at(end.min(late), answer.as_mut()).await {
            Ok(answer) => Some(answer),
            // Boxed: most requests have no need of it.
            Err(_) if late < end => Box::pin(self.late_answer(connector, connection, end, answer)).await,
            Err(_) => timeout_at(end, answer).await.ok(),
        }
    }

    /// Waits on for an answer that is late.
    async fn late_answer<T>(
        &self,
        connector: &Arc<dyn Connect>,
        connection: &ConnectionState,
        end: Instant,
        answer: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = sleep_until(end) => None,
            () = self.dead(connector, connection) => None,
        }
    }

    /// Resolves once a connection without answers is known to be dead, and another one is in its
    /// place. The server is asked over a new connection: if it answers that one and still not this
    /// one, where it answers in turn, this one leads nowhere (C28).
    async fn dead(&self, connector: &Arc<dyn Connect>, connection: &ConnectionState) {
        while !connection.is_dead() {
            // Also while another caller asks.
            if !connection.is_question_due() {
                sleep(MOMENT).await;
                continue;
            }
            let connect = |runtime| {
                let (connector, open) = (Arc::clone(connector), Arc::clone(&self.open));
                let (dead, of) = (connection.clone(), (self.sort, runtime));
                async move { open.replace(&*connector, of, &dead).await }
            };
            drop(self.attempts.shared(|_| None, connect).await);
        }
    }

    /// Drops a connection. Requests of other callers on it still get answers that are not late.
    pub(super) fn discard(&self, connection: &Connection) {
        self.open.discard(connection);
    }

    pub(super) fn leave(&self) {
        self.attempts.end();
        // Those of the pool beside lead to the same server.
        self.open.all().drain(..).for_each(|(_, connection)| connection.give_up());
    }
}
