//! A batch of calls on the wire.

use redis::Cmd;
use stanchion_core::Result;
use stanchion_core::spi::limit_batch::{CallRun, NameBatch};
use stanchion_core::spi::{Decide, LimitAsk, Limited};

use crate::error::unexpected;
use crate::steps::reply::Reply;

/// Adds the arguments of one limiter.
pub(super) fn arguments(command: &mut Cmd, batch: &NameBatch<'_>) {
    command.arg(batch.id.sequence.to_string()).arg(batch.id.number).arg(batch.runs.len());
    for CallRun { call, count } in &batch.runs {
        let Decide { quota, check, ask, .. } = call;
        command.arg(check.letter()).arg(quota.amount()).arg(quota.period()).arg(quota.burst());
        match ask {
            LimitAsk::Take { cost } => command.arg(cost).arg("").arg(count),
            LimitAsk::Reserve { ticket, cost, max_wait } => {
                command.arg(cost).arg(ticket.to_string()).arg(max_wait)
            }
        };
    }
}

/// Reads the answer to each call, in order. Waits count from now, also if the answer is that to an
/// earlier copy.
///
/// # Errors
/// `Unknown` for an answer that the script does not give, and if a later batch of the sequence was
/// answered before.
pub(super) fn decode(batch: &NameBatch<'_>, reply: &Reply) -> Result<Vec<Limited>> {
    if reply.number(0)? != 1 {
        return Err(unexpected());
    }
    let (answer, elapsed) = (reply.text(1)?, reply.further(2)?);
    read(batch, &answer, elapsed.unwrap_or(0)).ok_or_else(unexpected)
}

/// Reads an answer as the record keeps it, after the number of the request and its time.
fn read(batch: &NameBatch<'_>, answer: &str, elapsed: u64) -> Option<Vec<Limited>> {
    let mut parts = answer.split(';');
    let behind = parts.next()?.split(' ').nth(2)?.parse().ok()?;
    batch.decode(parts, behind, elapsed)
}

#[cfg(test)]
mod tests {
    use stanchion_core::spi::limit_batch::by_name;
    use stanchion_core::spi::{Object, ParameterCheck, RequestId};
    use stanchion_core::{Kind, Name, Quota};

    use super::*;

    #[test]
    fn c3_an_answer_of_no_script_is_not_understood() {
        let object = Object { kind: Kind::Limiter, name: Name::new("a").unwrap() };
        let quota = Quota::per_second(10).burst(9).validate().unwrap();
        let ask = LimitAsk::Take { cost: 1 };
        let call = Decide { id: RequestId::NONE, object, quota, check: ParameterCheck::Follow, ask };
        let batches = by_name(&[&call]);
        let reads = |answer| read(&batches[0], answer, 0).is_some();
        assert!(reads("7 1000 0;q 1 100000 9;t 1 1 1 5 0 1"));
        for answer in ["", "7", "7 1000", "7 1000 x;q 1 100000 9;n", "7 1000 0", "7 1000;q 1 100000 9;n"] {
            assert!(!reads(answer), "{answer}");
        }
    }
}
