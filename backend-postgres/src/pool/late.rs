//! Answers that are late. The server is asked over another connection whether the session of this
//! one is at work. If it is not, the connection is dead, and the call has time for another one
//! ([C28]).
//!
//! [C28]: stanchion_core::contract#c28

use std::pin::{Pin, pin};
use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection, Row, raw_sql};
use stanchion_core::clock::{Instant, now, sleep, sleep_until, timeout, timeout_at};
use stanchion_core::connect::{LATE_ANSWER, late_pause};

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
        let late = now() + LATE_ANSWER;
        match (timeout_at(end.min(late), answer.as_mut()).await, pid) {
            (Ok(answer), _) => Ended::Answered(answer),
            // Boxed: most requests have no need of it.
            (Err(_), Some(pid)) if late < end => Box::pin(self.late_answer(local, (pid, end), answer)).await,
            (Err(_), _) => timeout_at(end, answer).await.map_or(Ended::Late, Ended::Answered),
        }
    }

    async fn late_answer<T>(
        &self,
        local: &RuntimeConnections,
        (pid, end): (i32, Instant),
        answer: Pin<&mut impl Future<Output = T>>,
    ) -> Ended<T> {
        tokio::select! {
            biased;
            answer = answer => Ended::Answered(answer),
            () = sleep_until(end) => Ended::Late,
            other = self.beside_dead(local, pid) => Ended::Dead(other),
        }
    }

    /// Returns another connection, once the server has said over it that a session has nothing to
    /// do.
    async fn beside_dead(&self, local: &RuntimeConnections, pid: i32) -> Idle {
        loop {
            // Its connection may be one more than requests use: there is one of them at a time.
            let turn = local.asking.lock().await;
            let mut asked = Asked::InVain;
            if let Some(idle) = local.take_certain() {
                asked = self.ask_beside(local, idle.connection, (pid, LATE_ANSWER / 2)).await;
            }
            if matches!(asked, Asked::InVain)
                && let (Ok(Some((connection, _))), _) = self.attempt(local).await
            {
                asked = self.ask_beside(local, connection, (pid, LATE_ANSWER)).await;
            }
            if let Asked::IsDead(other) = asked {
                return other;
            }
            drop(turn);
            sleep(late_pause()).await;
        }
    }

    /// Asks over a connection, for so long, whether a session has nothing to do. Unless it has
    /// nothing, the connection is kept.
    async fn ask_beside(
        &self,
        local: &RuntimeConnections,
        connection: CountedConnection,
        (pid, limit): (i32, Duration),
    ) -> Asked {
        // Kept also if the answer to the request comes meanwhile.
        let mut asked = UnderWay { open: Some(OpenConnection::Own(connection)), pool: self, local };
        let is_at_rest = match &mut asked.open {
            Some(OpenConnection::Own(connection)) => timeout(limit, is_at_rest(connection, pid)).await,
            _ => return Asked::InVain,
        };
        let Some(OpenConnection::Own(connection)) = asked.end() else { return Asked::InVain };
        match is_at_rest {
            Ok(Ok(true)) => return Asked::IsDead(Idle::used_now(connection)),
            Ok(Ok(false)) => {
                local.keep(Idle::used_now(connection));
                return Asked::IsAtWork;
            }
            Ok(Err(_)) => {}
            Err(_) => local.keep(Idle::in_doubt(connection)),
        }
        Asked::InVain
    }
}

/// What the server said of a session.
enum Asked {
    IsAtWork,
    /// It has nothing to do: its connection leads nowhere. This other one does not.
    IsDead(Idle),
    /// Nothing.
    InVain,
}

/// Returns whether a session has nothing to do.
///
/// # Errors
/// If the server did not answer, or does not tell.
async fn is_at_rest(connection: &mut PgConnection, pid: i32) -> sqlx::Result<bool> {
    let asked = include_str!("../sql/is_at_rest.sql").replace("$1", &pid.to_string());
    raw_sql(AssertSqlSafe(asked)).fetch_one(connection).await?.try_get(0)
}
