//! What a store tells of an object: in one part, or in several if it has many holds.

use std::collections::HashMap;

use crate::clock::{Instant, now};
use crate::{Error, ErrorKind, Holder, Inspection, Result};

/// The totals of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Sum of the weights of the holds.
    pub weight: u64,
    /// The limit, `None` if none is stored.
    pub limit: Option<u32>,
}

impl Usage {
    /// Makes the totals of an object.
    #[must_use]
    pub fn new(weight: u64, limit: Option<u32>) -> Self {
        Self { weight, limit }
    }
}

/// The answer to one request of an inspection. Times are µs of the store's clock.
#[derive(Clone, Debug)]
pub struct InspectionPart<P> {
    /// The time of this part.
    pub now: u64,
    /// The number of waiters. It counts in the first part only.
    pub waiters: u64,
    /// The limit, `None` if none is stored. It counts in the first part only.
    pub limit: Option<u32>,
    /// The holds of this part, each with the time of its grant.
    pub holders: Vec<(u64, Holder)>,
    /// Where the next part begins; `None` if there is none.
    pub next: Option<P>,
}

/// Inspects an object part by part, so that no request grows with the number of its holds ([C27]).
/// `ask` makes the request for the part that begins there, `None` for the first one.
///
/// Several parts are not of one instant. A hold that was granted after the first part is left out,
/// so that the holders never weigh more than the limit; one that ended in between may be told or
/// not.
///
/// # Errors
/// Those of `ask`. `Unavailable` if there is more to tell than can be asked for until `end`.
///
/// [C27]: crate::contract#c27
pub async fn inspect_in_parts<P, F>(end: Instant, mut ask: impl FnMut(Option<P>) -> F) -> Result<Inspection>
where
    F: Future<Output = Result<InspectionPart<P>>>,
{
    let first = ask(None).await?;
    let (begun, waiters, limit) = (first.now, first.waiters, first.limit);
    let (mut holders, mut next) = (first.holders, first.next);
    if next.is_some() {
        let mut found: HashMap<_, _> = holders.into_iter().map(by_ticket).collect();
        while let Some(at) = next {
            if now() >= end {
                let detail = "the object has more holds than can be told within the request's time limit";
                return Err(Error::new(ErrorKind::Unavailable, detail).of_a_store_that_answers());
            }
            let part = ask(Some(at)).await?;
            // A grant from a time that is ahead was made before the clock went back.
            let is_older = |granted: u64| granted <= begun || granted > part.now;
            found.extend(part.holders.into_iter().filter(|(granted, _)| is_older(*granted)).map(by_ticket));
            next = part.next;
        }
        holders = found.into_values().collect();
    }
    holders.sort_by_key(|(granted, holder)| (*granted, holder.token));
    Ok(Inspection::new(holders.into_iter().map(|(_, holder)| holder).collect(), waiters, limit))
}

/// A hold may come twice: its ticket tells it.
fn by_ticket(hold: (u64, Holder)) -> (Option<crate::Ticket>, (u64, Holder)) {
    (hold.1.ticket, hold)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::{FencingToken, Ticket};

    fn hold(ticket: u128, granted: u64) -> (u64, Holder) {
        let token = FencingToken::new(granted).unwrap();
        (granted, Holder::new(Ticket::from(ticket), token, 1, Duration::ZERO))
    }

    fn part(now: u64, holders: Vec<(u64, Holder)>, next: Option<usize>) -> InspectionPart<usize> {
        InspectionPart { now, waiters: 1_000 - now, limit: Some(3), holders, next }
    }

    fn inspected(parts: Vec<InspectionPart<usize>>, timeout: Duration) -> Result<Inspection> {
        let mut parts: Vec<_> = parts.into_iter().map(Some).collect();
        let ask = |at: Option<usize>| std::future::ready(Ok(parts[at.unwrap_or(0)].take().unwrap()));
        inspect_in_parts(now() + timeout, ask).now_or_never().unwrap()
    }

    #[test]
    fn c23_the_parts_tell_each_hold_once_and_none_that_came_after_the_first() {
        let parts = vec![
            part(100, vec![hold(2, 20), hold(1, 10)], Some(1)),
            part(110, vec![hold(1, 10), hold(4, 105)], Some(2)),
            part(120, vec![hold(3, 100), hold(5, 121)], None),
        ];
        let told = inspected(parts, Duration::from_secs(60)).unwrap();
        let tickets: Vec<_> = told.holders.iter().filter_map(|holder| holder.ticket).collect();
        assert_eq!(
            tickets,
            [1, 2, 3, 5].map(Ticket::from),
            "the fourth came later, the fifth before a step back"
        );
        assert_eq!((told.waiters, told.limit), (900, Some(3)));
    }

    #[test]
    fn c17_more_parts_than_the_time_allows_are_an_error_and_no_outage() {
        let parts = || vec![part(100, vec![hold(1, 10)], Some(1)), part(110, vec![], None)];
        let error = inspected(parts(), Duration::ZERO).unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && error.is_answer(), "{error:?}");
        let told = inspected(vec![part(100, vec![hold(1, 10)], None)], Duration::ZERO).unwrap();
        assert_eq!(told.holders.len(), 1, "one part always goes");
    }
}
