//! Splits a batch into parts that leave side by side, and puts their answers in the order of the
//! batch.

use futures_util::future::{Either, join_all};

use super::{Answers, Ask, Request, Response};
use crate::{Error, ErrorKind};

/// Sends the entries of a batch in parts, one for each key, side by side; returns the answers in
/// the order of the batch. The entries of a part keep their order. A batch of one key is sent as it
/// is.
pub fn by<'a, T, K, A, F>(
    batch: &'a [T],
    key: impl Fn(&T) -> K,
    send: impl Fn(K, Vec<&'a T>) -> F,
) -> impl Future<Output = Answers<A>>
where
    K: PartialEq,
    F: Future<Output = Answers<A>>,
{
    let first = batch.first().map(&key);
    if let Some(first) = first
        && batch[1..].iter().all(|entry| key(entry) == first)
    {
        return Either::Left(send(first, batch.iter().collect()));
    }
    let mut parts: Vec<(K, Vec<usize>)> = Vec::new();
    for (index, entry) in batch.iter().enumerate() {
        let key = key(entry);
        match parts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, indices)) => indices.push(index),
            None => parts.push((key, vec![index])),
        }
    }
    let sent = parts.into_iter().map(|(key, indices)| {
        let answers = send(key, indices.iter().map(|&index| &batch[index]).collect());
        async { (indices, answers.await) }
    });
    let (count, sent) = (batch.len(), join_all(sent));
    Either::Right(async move { gather(count, sent.await) })
}

/// Puts the answers to the parts of a batch of `count` entries in its order. Each part comes with
/// the places of its entries, which are in order. An entry without an answer gets `Unknown`.
pub fn gather<A>(count: usize, parts: impl IntoIterator<Item = (Vec<usize>, Answers<A>)>) -> Answers<A> {
    let mut parts = parts.into_iter();
    let Some((indices, part)) = parts.next() else { return (0..count).map(|_| Err(short())).collect() };
    if indices.len() == count && part.len() == count {
        return part;
    }
    let mut answers: Vec<_> = (0..count).map(|_| None).collect();
    for (indices, part) in std::iter::once((indices, part)).chain(parts) {
        for (index, answer) in indices.into_iter().zip(part) {
            answers[index] = Some(answer);
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(short()))).collect()
}

/// Returns the contents of requests of one kind. Those of other kinds are left out.
#[must_use]
pub fn contents<'a, A: Ask>(batch: &[&'a Request]) -> Vec<&'a A> {
    batch.iter().filter_map(|request| A::of(request)).collect()
}

/// Makes the responses to requests of one kind of the answers to them.
#[must_use]
pub fn responses<A: Ask>(answers: Answers<A::Answer>) -> Answers<Response> {
    answers.into_iter().map(|answer| answer.map(A::response)).collect()
}

/// Returns the error of an entry that the store left out.
pub(crate) fn short() -> Error {
    Error::new(ErrorKind::Unknown, "the store's answer was too short")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn sent(batch: &[u32], send: impl Fn(u32, &[u32]) -> Vec<u32>) -> Vec<Option<u32>> {
        let send = |key, part: Vec<&u32>| {
            let part: Vec<_> = part.into_iter().copied().collect();
            std::future::ready(send(key, &part).into_iter().map(Ok).collect())
        };
        let answers = by(batch, |entry| entry % 3, send).now_or_never().unwrap();
        answers.into_iter().map(Result::ok).collect()
    }

    #[test]
    fn answers_come_in_the_order_of_the_batch() {
        let tenfold = |_, part: &[u32]| part.iter().map(|entry| entry * 10).collect();
        assert_eq!(sent(&[4, 2, 3, 1, 5], tenfold), [40, 20, 30, 10, 50].map(Some));
        assert_eq!(sent(&[4, 1], tenfold), [40, 10].map(Some), "one part");
        assert!(sent(&[], tenfold).is_empty());
    }

    #[test]
    fn c3_an_entry_that_the_store_left_out_has_an_unknown_outcome() {
        let short = |key, part: &[u32]| if key == 1 { Vec::new() } else { part.to_vec() };
        assert_eq!(sent(&[4, 2, 1, 3], short), [None, Some(2), None, Some(3)]);
    }
}
