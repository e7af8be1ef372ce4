//! Answers that are late. The server is asked over another connection whether the session of this
//! one is at work. If it is not, the connection is dead, and the call has time for another one
//! ([C28]).
//!
//! [C28]: stanchion_core::contract#c28

use std::pin::{Pin, pin};
use std::time::Duration;

use sqlx::{PgConnection, Row, query_scalar, raw_sql};
use stanchion_core::clock::{Instant, now, sleep, sleep_until, timeout, timeout_at};
use stanchion_core::connect::LATE_ANSWER;

use super::Pool;
use super::registry::CountedConnection;
use super::runtime_connections::{Idle, OpenConnection, RuntimeConnections};
use super::under_way::UnderWay;

/// How a request ended.
pub(super) enum Ended<T> {
    Answered(T),
    Late,
    /// Its connection leads nowhere. This other one does not.
    Dead(Idle),
}

/// Returns the process id of a session, as the server names it.
///
/// # Errors
/// If the server did not answer.
pub(crate) async fn backend_pid(connection: &mut PgConnection) -> sqlx::Result<i32> {
    let row = raw_sql(include_str!("../sql/pid.sql")).fetch_one(connection).await?;
    row.try_get(0)
}

impl Pool {
    /// Waits for the answer to a request until `end`. `pid` is the session of its connection, if
    /// that can be asked for.
    pub(super) async fn answer<T>(
        &self,
        local: &RuntimeConnections,
        (pid, end): (Option<i32>, Instant),
        answer: impl Future<Output = T>,
    ) -> Ended<T> {
        let mut answer = pin!(answer);
        let sent = now();
        let late = sent + self.patience();
        match (timeout_at(end.min(late), answer.as_mut()).await, pid) {
            (Ok(answer), _) => Ended::Answered(answer),
            // Boxed: most requests have no need of it.
            (Err(_), Some(pid)) if late < end => {
                Box::pin(self.late_answer(local, (pid, sent, end), answer)).await
            }
            (Err(_), _) => timeout_at(end, answer).await.map_or(Ended::Late, Ended::Answered),
        }
    }

    async fn late_answer<T>(
        &self,
        local: &RuntimeConnections,
        (pid, sent, end): (i32, Instant, Instant),
        answer: Pin<&mut impl Future<Output = T>>,
    ) -> Ended<T> {
        tokio::select! {
            biased;
            answer = answer => Ended::Answered(answer),
            () = sleep_until(end) => Ended::Late,
            other = self.beside_dead(local, pid, sent) => Ended::Dead(other),
        }
    }

    /// Returns another connection, once the server has said over it that a session has nothing to
    /// do.
    async fn beside_dead(&self, local: &RuntimeConnections, pid: i32, sent: Instant) -> Idle {
        loop {
            if let Ok(Some(connection)) = timeout(self.patience(), self.other(local, sent)).await {
                // Kept if the answer comes meanwhile.
                let open = Some(OpenConnection::Own(connection));
                let mut asked = UnderWay { open, pool: self, local };
                let is_at_rest = match &mut asked.open {
                    Some(OpenConnection::Own(connection)) => {
                        timeout(self.patience(), is_at_rest(connection, pid)).await
                    }
                    _ => Ok(Ok(false)),
                };
                match (is_at_rest, asked.end()) {
                    (Ok(Ok(true)), Some(OpenConnection::Own(connection))) => {
                        return Idle::used_now(connection);
                    }
                    (Ok(Ok(false)), Some(OpenConnection::Own(connection))) => {
                        local.keep(Idle::used_now(connection));
                    }
                    _ => {}
                }
            }
            sleep(self.patience()).await;
        }
    }

    /// Returns a connection over which an answer has come since, or else a new one; `None` if there
    /// is none.
    async fn other(&self, local: &RuntimeConnections, since: Instant) -> Option<CountedConnection> {
        if let Some(idle) = local.take_used_since(since) {
            return Some(idle.connection);
        }
        self.connect().await.ok().flatten()
    }

    /// Returns how long an answer may take until it is late.
    fn patience(&self) -> Duration {
        (self.request_timeout / 4).min(LATE_ANSWER)
    }
}

/// Returns whether a session has nothing to do.
///
/// # Errors
/// If the server did not answer, or does not tell.
async fn is_at_rest(connection: &mut PgConnection, pid: i32) -> sqlx::Result<bool> {
    let asked = query_scalar(include_str!("../sql/is_at_rest.sql")).bind(pid).persistent(false);
    asked.fetch_one(connection).await
}
