//! What a store implements.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

use super::{Answers, Ask, Lane, MAX_POSITIONS, Request, Response, short};
use crate::Result;
use crate::clock::{Instant, now};

/// The requests of a store, over one connection: see the [head of this page](super) for the rules.
///
/// A mutex is a semaphore with one permit. The members of a wait group are holds of weight 1, with
/// a limit or without.
///
/// # What is kept of a name
/// - Its **limit**, from the first grant or queued request on, while there are holds or waiters,
///   and for a retention time after ([C20], [C25]).
/// - Its last **fencing token**. A grant's token MUST be `max(last + 1, store time in µs since
///   1970)` ([M2], [M3]).
/// - Its **holds**: ticket, weight, token, time of grant, end of the lease, label. A hold whose
///   lease has ended MUST count as gone in every step, whether anything has removed it yet or not
///   ([C8]).
/// - Its **queue**: places in order of arrival, each with ticket, weight, process, and the lease of
///   the request.
/// - **Tombstones**: tickets that are refused until a time, some with the call that left them.
/// - Its **epoch**: see below.
///
/// # Epoch
/// `epoch` identifies a name's record: the store time in µs at which the record was made, or
/// another number above 0 that no earlier record of the name had. 0 means that there is no record.
/// It MUST NOT change while the record keeps a hold or a place, and MUST change once they were
/// lost. The engine compares it with the last value: if it differs, the queue was lost with the
/// record, and all waiters of the process send their requests again. In an answer after which no
/// caller waits (`Granted`, [`Attached`](super::Attached)), only wait groups use it; it is 0 for
/// other objects.
///
/// # Live and silent processes, and which places may be dropped
/// - A process is **heard** on a name when it polls that name or keeps its places there, and when
///   one of its requests joins the queue there or finds its place. A store may count other
///   requests, and hear a process on other names by them.
/// - A process that was not heard for 1 s is **silent**. Its waiters MUST be passed over: they are
///   not granted, do not delay the waiters behind them, and do not count for `max_waiters`. They
///   keep their places: once the process is heard again, a waiter is first again ([C16]). The
///   engine polls, or keeps the places, every 300 ms while there are waiters.
/// - No process may be judged silent in the first 2 s after the store stood still or was restarted.
///   A store that heard no process at all for a while cannot tell the two apart, and MUST give this
///   **grace**, once: processes that were silent for a whole grace MUST NOT start another ([C5]).
/// - A place MUST be dropped by the acquire of its own ticket that is granted, is refused as
///   `TooLarge`, or does not ask to queue, and by a cancel of its ticket.
/// - A store may drop a place on its own only once the process was silent for the lease of the
///   request, for 1 s at least, and outside a grace. It MUST drop the place some time after that
///   ([C25]).
/// - A store that lost places MUST show that by another epoch.
///
/// [C20]: crate::contract#c20
/// [C25]: crate::contract#c25
/// [M2]: crate::contract#m2
/// [M3]: crate::contract#m3
/// [C8]: crate::contract#c8
/// [C16]: crate::contract#c16
/// [C5]: crate::contract#c5
#[async_trait]
pub trait Steps: Debug + Send + Sync {
    /// Returns the lane of a request.
    fn lane(&self, request: &Request) -> Lane;

    /// Carries out a batch of one lane, and returns an answer for each entry, in order. It is to be
    /// answered by `end`.
    async fn send(&self, batch: &[Request], end: Instant) -> Answers<Response>;

    /// Returns the time limit of one request, 1 ms to 1 h ([C17]).
    ///
    /// [C17]: crate::contract#c17
    fn request_timeout(&self) -> Duration;

    /// Returns the maximum number of positions of the probes of one batch, at most
    /// [`MAX_POSITIONS`]: fewer where each position can cost a page.
    fn maximum_positions(&self) -> usize {
        MAX_POSITIONS
    }
}

/// Typed calls of [`Steps::send`].
pub trait StepsExt: Steps {
    /// Sends one request, within its own time limit.
    ///
    /// # Errors
    /// The request's own.
    fn ask<A: Ask>(&self, request: A) -> impl Future<Output = Result<A::Answer>> + Send {
        let request = request.into();
        async move {
            let end = now() + request.time_limit(self.request_timeout());
            let answer = self.send(std::slice::from_ref(&request), end).await.pop();
            answer.unwrap_or_else(|| Err(short())).and_then(A::answer)
        }
    }

    /// Sends a batch of requests of one kind, within its time limit.
    fn ask_all<A: Ask>(&self, batch: &[A]) -> impl Future<Output = Answers<A::Answer>> + Send {
        let batch: Vec<Request> = batch.iter().cloned().map(Into::into).collect();
        async move {
            if batch.is_empty() {
                return Vec::new();
            }
            let end = now() + Request::time_limit_of(&batch, self.request_timeout());
            let answers = self.send(&batch, end).await;
            answers.into_iter().map(|answer| answer.and_then(A::answer)).collect()
        }
    }
}

impl<S: Steps + ?Sized> StepsExt for S {}
