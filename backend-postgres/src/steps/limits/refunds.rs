//! Refunds on the wire.

use sqlx::Arguments;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use stanchion_core::steps::{Answers, Refund, refused};

use super::uuid;
use crate::error::unexpected;

/// A batch by name, as rows are locked, each with its place; those of a name stay in order.
pub(super) fn by_name(batch: &[Refund]) -> Vec<(usize, &Refund)> {
    let mut order: Vec<_> = batch.iter().enumerate().collect();
    order.sort_by_key(|(_, refund)| &refund.object.name);
    order
}

/// The arguments of `limit_refund` behind the first.
///
/// # Errors
/// What the client says of values that cannot be written.
pub(super) fn load(arguments: &mut PgArguments, order: &[(usize, &Refund)]) -> Result<(), BoxDynError> {
    let runs = || order.chunk_by(|(_, one), (_, next)| one.object.name == next.object.name);
    let sizes = runs().map(|run| i32::try_from(run.len()));
    arguments.add(runs().map(|run| run[0].1.object.name.as_str()).collect::<Vec<_>>())?;
    arguments.add(sizes.collect::<Result<Vec<_>, _>>()?)?;
    arguments.add(order.iter().map(|(_, refund)| uuid(refund.ticket)).collect::<Vec<_>>())
}

/// What each refund of the batch gave back.
pub(super) fn unload(order: &[(usize, &Refund)], given: Vec<i64>) -> Answers<u64> {
    if given.len() != order.len() {
        return refused(order.len(), &unexpected());
    }
    let mut answers: Vec<_> = order.iter().zip(given).map(|((index, _), given)| (*index, given)).collect();
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, given)| u64::try_from(given).map_err(|_| unexpected())).collect()
}
