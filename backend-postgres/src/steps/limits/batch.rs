//! A request of limiter calls: its arguments and its answer.

use sqlx::Arguments;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use stanchion_core::Result;
use stanchion_core::limiter::ExactQuota;
use stanchion_core::spi::limit_batch::{self, CallRun, NameBatch};
use stanchion_core::spi::{Answers, Decide, LimitAsk, Limited, ParameterCheck, RequestId};

use super::{number, uuid};
use crate::error::unexpected;

/// Sorts the calls of a request by name, the order in which rows are locked. The calls of a name
/// stay in order.
pub(super) fn by_name(calls: &[Decide]) -> Vec<NameBatch<'_>> {
    let mut batches = limit_batch::by_name(&calls.iter().collect::<Vec<_>>());
    batches.sort_unstable_by_key(|batch| &batch.object.name);
    batches
}

/// Adds the arguments of `limit_decide` after the namespace and the retention.
///
/// # Errors
/// The error of the client for a value that cannot be encoded.
pub(super) fn encode(
    arguments: &mut PgArguments,
    batches: &[NameBatch<'_>],
) -> std::result::Result<(), BoxDynError> {
    let runs = || batches.iter().flat_map(|batch| &batch.runs);
    let quotas = |part: fn(&ExactQuota) -> u64| -> Vec<_> {
        runs().map(|run| number(part(&run.call.quota))).collect()
    };
    let sizes = batches.iter().map(|batch| i32::try_from(batch.runs.len()));
    // The engine sends the calls of one batch under one id.
    let id = batches.first().map_or(RequestId::NONE, |batch| batch.id);
    arguments.add(uuid(id.sequence))?;
    arguments.add(number(id.number))?;
    arguments.add(batches.iter().map(|batch| batch.object.name.as_str()).collect::<Vec<_>>())?;
    arguments.add(sizes.collect::<std::result::Result<Vec<_>, _>>()?)?;
    arguments.add(runs().map(|run| check(run.call.check)).collect::<Vec<_>>())?;
    arguments.add(quotas(ExactQuota::amount))?;
    arguments.add(quotas(ExactQuota::period))?;
    arguments.add(quotas(ExactQuota::burst))?;
    let (mut costs, mut tickets, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    for CallRun { call, count } in runs() {
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

/// Returns the check as a value of the server's type `"char"`.
fn check(check: ParameterCheck) -> i8 {
    check.letter().as_bytes()[0].cast_signed()
}

/// Reads the answer to each of `count` calls. The calls of a name get `Unknown` if its answer is
/// not understood, or if there is none because a later batch of the sequence came before.
pub(super) fn decode(batches: &[NameBatch<'_>], texts: &[Option<String>], count: usize) -> Answers<Limited> {
    let mut answers: Vec<Option<Result<Limited>>> = (0..count).map(|_| None).collect();
    for (batch, text) in batches.iter().zip(texts) {
        let limited = text.as_deref().and_then(|text| read(batch, text)).unwrap_or_default();
        for (index, limited) in batch.calls.iter().zip(limited) {
            answers[*index] = Some(Ok(limited));
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unexpected()))).collect()
}

/// Reads an answer of `limit_decide`. It begins with the time since the decision, and with how far
/// the clock had gone back at the decision.
fn read(batch: &NameBatch<'_>, text: &str) -> Option<Vec<Limited>> {
    let mut parts = text.split(';');
    let mut head = parts.next()?.split(' ').map(|word| word.parse().ok());
    let (elapsed, behind) = (head.next()??, head.next()??);
    batch.decode(parts, behind, elapsed)
}

#[cfg(test)]
mod tests {
    use stanchion_core::spi::Object;
    use stanchion_core::{Kind, Name, Quota};

    use super::*;

    fn call(name: &str) -> Decide {
        let object = Object { kind: Kind::Limiter, name: Name::new(name).unwrap() };
        let quota = Quota::per_second(10).burst(9).validate().unwrap();
        Decide {
            id: RequestId::NONE,
            object,
            quota,
            check: ParameterCheck::Follow,
            ask: LimitAsk::Take { cost: 1 },
        }
    }

    #[test]
    fn c2_names_go_in_the_order_in_which_rows_are_locked() {
        let calls = ["b", "a", "c", "b"].map(call);
        let batches = by_name(&calls);
        let places: Vec<_> =
            batches.iter().map(|batch| (batch.object.name.as_str(), batch.calls.as_slice())).collect();
        assert_eq!(places, [("a", &[1][..]), ("b", &[0, 3]), ("c", &[2])]);
    }

    #[test]
    fn c3_an_answer_of_no_step_is_not_understood() {
        let calls = [call("a")];
        let batches = by_name(&calls);
        assert!(read(&batches[0], "0 0;q 1 100000 9;s 5 0 1;t 1 1 1").is_some());
        for text in ["", "0", "0;q 1 100000 9;n", "x 0;q 1 100000 9;n", "0 x;q 1 100000 9;n", "0 0"] {
            assert_eq!(read(&batches[0], text), None, "{text}");
        }
    }
}
