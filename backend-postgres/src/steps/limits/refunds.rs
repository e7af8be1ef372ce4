//! A batch of refunds: its arguments and its answer.

use sqlx::Arguments;
use sqlx::error::BoxDynError;
use sqlx::postgres::PgArguments;
use stanchion_core::spi::{Answers, Refund, refused};

use super::uuid;
use crate::error::unexpected;

/// Sorts a batch by name, the order in which rows are locked. Returns each refund with its index in
/// the batch. The refunds of a name stay in order.
pub(super) fn by_name(batch: &[Refund]) -> Vec<(usize, &Refund)> {
    let mut order: Vec<_> = batch.iter().enumerate().collect();
    order.sort_by_key(|(_, refund)| &refund.object.name);
    order
}

/// Adds the arguments of `limit_refund` after the namespace and the retention.
///
/// # Errors
/// The error of the client for a value that cannot be encoded.
pub(super) fn encode(arguments: &mut PgArguments, order: &[(usize, &Refund)]) -> Result<(), BoxDynError> {
    let runs = || order.chunk_by(|(_, one), (_, next)| one.object.name == next.object.name);
    let sizes = runs().map(|run| i32::try_from(run.len()));
    arguments.add(runs().map(|run| run[0].1.object.name.as_str()).collect::<Vec<_>>())?;
    arguments.add(sizes.collect::<Result<Vec<_>, _>>()?)?;
    arguments.add(order.iter().map(|(_, refund)| uuid(refund.ticket)).collect::<Vec<_>>())
}

/// Returns how many tokens each refund of the batch gave back.
pub(super) fn decode(order: &[(usize, &Refund)], refunded: Vec<i64>) -> Answers<u64> {
    if refunded.len() != order.len() {
        return refused(order.len(), &unexpected());
    }
    let mut answers: Vec<_> =
        order.iter().zip(refunded).map(|((index, _), tokens)| (*index, tokens)).collect();
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, tokens)| u64::try_from(tokens).map_err(|_| unexpected())).collect()
}
