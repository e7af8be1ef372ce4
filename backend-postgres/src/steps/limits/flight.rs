//! A flight on the wire.

use sqlx::Arguments;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use stanchion_core::Result;
use stanchion_core::steps::limit_batch::{self, NameBatch, Group};
use stanchion_core::steps::{Answers, RequestId, LimitAsk, LimitCall, Limited, QuotaCheck};
use stanchion_core::limiter::ExactQuota;

use super::{number, uuid};
use crate::error::unexpected;

/// Sorts a flight by name, as rows are locked; the calls of a name stay in order.
pub(super) fn by_name(calls: &[LimitCall]) -> Vec<NameBatch<'_>> {
    let mut cargo = flight::by_name(calls);
    cargo.sort_unstable_by_key(|cargo| &cargo.object.name);
    cargo
}

/// The arguments of `limit_decide` behind the first.
///
/// # Errors
/// What the client says of values that cannot be written.
pub(super) fn load(
    arguments: &mut PgArguments,
    flight: RequestId,
    cargo: &[NameBatch<'_>],
) -> std::result::Result<(), BoxDynError> {
    let groups = || cargo.iter().flat_map(|cargo| &cargo.groups);
    let quotas = |part: fn(&ExactQuota) -> u64| -> Vec<_> {
        groups().map(|group| number(part(&group.call.quota))).collect()
    };
    let sizes = cargo.iter().map(|cargo| i32::try_from(cargo.groups.len()));
    arguments.add(uuid(flight.lane))?;
    arguments.add(number(flight.number))?;
    arguments.add(cargo.iter().map(|cargo| cargo.object.name.as_str()).collect::<Vec<_>>())?;
    arguments.add(sizes.collect::<std::result::Result<Vec<_>, _>>()?)?;
    arguments.add(groups().map(|group| check(group.call.check)).collect::<Vec<_>>())?;
    arguments.add(quotas(ExactQuota::amount))?;
    arguments.add(quotas(ExactQuota::period))?;
    arguments.add(quotas(ExactQuota::burst))?;
    let (mut costs, mut tickets, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    for Group { call, count } in groups() {
        let (cost, ticket, span) = match call.ask {
            LimitAsk::Take { cost } => (cost, None, i64::try_from(*count)?),
            LimitAsk::Reserve { ticket, cost, max_wait } => (cost, Some(uuid(ticket)), number(max_wait)),
        };
        costs.push(number(cost));
        tickets.push(ticket);
        spans.push(span);
    }
    arguments.add(costs)?;
    arguments.add(tickets)?;
    arguments.add(spans)
}

/// As a value of the server's type `"char"`.
fn check(check: QuotaCheck) -> i8 {
    check.letter().as_bytes()[0].cast_signed()
}

/// What each of `count` calls is told; of a name whose answer is not understood or none, because a later flight of the
/// lane came before, it is `Unknown`.
pub(super) fn unload(cargo: &[NameBatch<'_>], told: &[Option<String>], count: usize) -> Answers<Limited> {
    let mut answers: Vec<Option<Result<Limited>>> = (0..count).map(|_| None).collect();
    for (cargo, told) in cargo.iter().zip(told) {
        let limited = told.as_deref().and_then(|told| read(cargo, told)).unwrap_or_default();
        for (index, limited) in cargo.calls.iter().zip(limited) {
            answers[*index] = Some(Ok(limited));
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unexpected()))).collect()
}

/// Reads an answer of `limit_decide`, behind how long ago it was decided and by how much the clock was back then.
fn read(cargo: &NameBatch<'_>, told: &str) -> Option<Vec<Limited>> {
    let mut parts = told.split(';');
    let mut head = parts.next()?.split(' ').map(|word| word.parse().ok());
    let (elapsed, behind) = (head.next()??, head.next()??);
    cargo.unload(parts, behind, elapsed)
}

#[cfg(test)]
mod tests {
    use stanchion_core::steps::Object;
    use stanchion_core::{Kind, Name, Quota};

    use super::*;

    fn call(name: &str) -> LimitCall {
        let object = Object { kind: Kind::Limiter, name: Name::new(name).unwrap() };
        let quota = Quota::per_second(10).burst(9).validate().unwrap();
        LimitCall { object, quota, check: QuotaCheck::Follow, ask: LimitAsk::Take { cost: 1 } }
    }

    #[test]
    fn c2_names_go_in_the_order_in_which_rows_are_locked() {
        let calls = ["b", "a", "c", "b"].map(call);
        let cargo = by_name(&calls);
        let places: Vec<_> =
            cargo.iter().map(|cargo| (cargo.object.name.as_str(), cargo.calls.as_slice())).collect();
        assert_eq!(places, [("a", &[1][..]), ("b", &[0, 3]), ("c", &[2])]);
    }

    #[test]
    fn c3_an_answer_of_no_step_is_not_understood() {
        let calls = [call("a")];
        let cargo = by_name(&calls);
        assert!(read(&cargo[0], "0 0;q 1 100000 9;s 5 0 1;t 1 1 1").is_some());
        for told in ["", "0", "0;q 1 100000 9;n", "x 0;q 1 100000 9;n", "0 x;q 1 100000 9;n", "0 0"] {
            assert_eq!(read(&cargo[0], told), None, "{told}");
        }
    }
}
