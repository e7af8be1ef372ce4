//! The entries of a batch in the order in which their objects are locked.

use std::collections::HashMap;

use stanchion_core::spi::Object;
use stanchion_core::{Kind, Ticket};

/// Entries grouped by object, as the SQL functions take them: each object with the number of its
/// entries. If a ticket occurs twice in the entries of an object, the object is listed twice, so
/// that the tickets of each part are distinct.
#[derive(Debug)]
pub(super) struct Batch<'a, T> {
    entries: Vec<(usize, &'a T)>,
    pub(super) kinds: Vec<String>,
    pub(super) names: Vec<&'a str>,
    pub(super) counts: Vec<i32>,
}

impl<'a, T> Batch<'a, T> {
    /// Groups entries. `key` returns the object of an entry, and its ticket if it has one.
    pub(super) fn new(batch: &'a [T], key: fn(&T) -> (&Object, Option<Ticket>)) -> Self {
        let mut seen: HashMap<(Kind, &str, Ticket), u32> = HashMap::with_capacity(batch.len());
        let mut keyed: Vec<_> = Vec::with_capacity(batch.len());
        for (index, entry) in batch.iter().enumerate() {
            let (object, ticket) = key(entry);
            let (kind, name) = (object.kind, object.name.as_str());
            let round = ticket.map_or(0, |ticket| {
                let times = seen.entry((kind, name, ticket)).or_default();
                *times += 1;
                *times
            });
            keyed.push(((kind.letter(), name, round), (index, entry)));
        }
        keyed.sort_by_key(|(part, (index, _))| (*part, *index));
        let mut ordered = Self {
            entries: Vec::with_capacity(batch.len()),
            kinds: Vec::new(),
            names: Vec::new(),
            counts: Vec::new(),
        };
        let mut last = None;
        for (part, entry) in keyed {
            match ordered.counts.last_mut() {
                Some(count) if last == Some(part) => *count += 1,
                _ => {
                    ordered.kinds.push(part.0.to_string());
                    ordered.names.push(part.1);
                    ordered.counts.push(1);
                }
            }
            last = Some(part);
            ordered.entries.push(entry);
        }
        ordered
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns one value of each entry, in the order of this batch.
    pub(super) fn each<V>(&self, value: impl Fn(&'a T) -> V) -> Vec<V> {
        self.entries.iter().map(|(_, entry)| value(entry)).collect()
    }

    /// Sorts answers from the order of this batch into the order in which the entries were given.
    pub(super) fn restore<A>(&self, answers: impl IntoIterator<Item = A>) -> Vec<A> {
        let mut answers: Vec<_> = self.entries.iter().map(|(index, _)| *index).zip(answers).collect();
        answers.sort_unstable_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use stanchion_core::Name;

    use super::*;

    fn entry(kind: Kind, name: &str, ticket: u128) -> (Object, Ticket) {
        (Object { kind, name: Name::new(name).unwrap() }, ticket.into())
    }

    #[test]
    fn entries_are_ordered_by_object_and_a_repeated_ticket_comes_in_a_part_of_its_own() {
        let batch = [
            entry(Kind::Semaphore, "b", 1),
            entry(Kind::Semaphore, "a", 2),
            entry(Kind::Mutex, "z", 3),
            entry(Kind::Semaphore, "b", 1),
            entry(Kind::Semaphore, "b", 4),
        ];
        let ordered = Batch::new(&batch, |(object, ticket)| (object, Some(*ticket)));
        assert_eq!(ordered.kinds, ["m", "s", "s", "s"]);
        assert_eq!(ordered.names, ["z", "a", "b", "b"]);
        assert_eq!(ordered.counts, [1, 1, 2, 1]);
        let tickets = ordered.each(|(_, ticket)| ticket.as_u128());
        assert_eq!(tickets, [3, 2, 1, 4, 1]);
        assert_eq!(ordered.restore(tickets), [1, 2, 3, 1, 4]);
    }
}
