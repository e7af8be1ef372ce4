//! Hints to waiters. A step notes them; they leave after its commit, in a request of their own, so
//! that they fail and delay nothing (C30). Those to waiters of this process need no server.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::types::Uuid;
use sqlx::{Arguments, Row};
use stanchion_core::Ticket;
use stanchion_core::clock::{Instant, now};
use stanchion_core::spi::{HintBox, ProcessId};

use crate::pool::Pool;
use crate::schema::Statement;

/// What a step has noted: the processes, and the tickets of their waiters.
#[derive(Debug, Default, PartialEq, Eq)]
struct Noted {
    processes: Vec<Uuid>,
    tickets: Vec<Uuid>,
    own: Vec<Ticket>,
}

impl Noted {
    /// Reads the text that `hints` returns.
    fn read(text: &str, process: ProcessId) -> Self {
        let own = Uuid::from_u128(process.as_u128());
        let mut noted = Self::default();
        for (process, ticket) in text.split(',').filter_map(|hint| hint.split_once(':')) {
            let (Ok(process), Ok(ticket)) = (process.parse::<Uuid>(), ticket.parse::<Uuid>()) else {
                continue;
            };
            if process == own {
                noted.own.push(ticket.as_u128().into());
            } else {
                noted.processes.push(process);
                noted.tickets.push(ticket);
            }
        }
        noted
    }
}

/// Time for which a step's caller waits until its hints are sent. The cases of the steps ask for
/// the hints themselves, which a busy machine may not send within that time.
const SEND_TIMEOUT: Duration = if cfg!(test) { Duration::from_secs(10) } else { Duration::from_millis(100) };
/// Maximum number of hints of one request.
const MAX_HINTS: usize = 500;

/// Passes on the hints of a step, of whose answer this is the row. A hint that cannot be sent in
/// time is given up: its waiter asks by itself.
pub(crate) async fn pass_on(
    row: &PgRow,
    (process, local): (ProcessId, &HintBox),
    pool: &Arc<Pool>,
    tell: &Statement,
) {
    let Ok(Some(text)) = row.try_get::<Option<String>, _>("hints") else { return };
    if text.is_empty() {
        return;
    }
    let Noted { processes, tickets, own } = Noted::read(&text, process);
    if !own.is_empty() {
        local.put(own);
    }
    self::tell(pool, tell, processes, tickets, now()).await;
}

/// Sends hints, for a short time from `began` on.
pub(crate) async fn tell(
    pool: &Arc<Pool>,
    tell: &Statement,
    processes: Vec<Uuid>,
    tickets: Vec<Uuid>,
    began: Instant,
) {
    let end = began + SEND_TIMEOUT;
    for (processes, tickets) in processes.chunks(MAX_HINTS).zip(tickets.chunks(MAX_HINTS)) {
        let mut arguments = PgArguments::default();
        if arguments.add(processes).and_then(|()| arguments.add(tickets)).is_err() {
            return;
        }
        if let Err(error) = pool.rows_of_call(tell, arguments, end).await {
            tracing::debug!(
                error.type = error.kind().as_str(),
                exception.message = ?error,
                "a hint was not sent: its waiter asks by itself"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_and_those_of_this_process_kept() {
        let (own, other) = (ProcessId::random(), ProcessId::random());
        let [one, two] = [Ticket::random(), Ticket::random()];
        let uuid = |value: u128| Uuid::from_u128(value);
        let hint = |process: ProcessId, ticket: Ticket| {
            format!("{}:{},", uuid(process.as_u128()), uuid(ticket.as_u128()))
        };
        let text = hint(other, one) + &hint(own, two) + "forged,:,";
        let noted = Noted::read(&text, own);
        assert_eq!(noted.own, [two]);
        assert_eq!(
            (noted.processes, noted.tickets),
            (vec![uuid(other.as_u128())], vec![uuid(one.as_u128())])
        );
        assert_eq!(Noted::read("", own), Noted::default());
    }
}
