//! Groups of calls that differ in nothing but their kind and their items.
//!
//! A group is sent as two parts: first the items to look for, then the items to insert. The SQL
//! functions look at each bit of a part once, and know no order of calls. This module makes calls
//! and items count in order: if an earlier item of the group sets a bit, no later item asks for it.

use std::ops::Range;

use stanchion_core::bloom::FilterTerms;
use stanchion_core::spi::{FilterRecord, Opening, Probe, ProbeItems, Probed};
use stanchion_core::{Result, Ticket};

use crate::error::unexpected;

/// Consecutive calls for one name, with the same terms, whose callers have seen the same record.
#[derive(Debug)]
pub(super) struct CallGroup<'a> {
    pub(super) of: &'a Opening,
    /// The generation of a filter that this group makes.
    pub(super) fresh: Ticket,
    pub(super) contains: Option<Part>,
    pub(super) inserts: Option<Part>,
    calls: Vec<GroupedCall>,
}

/// Items, and the bits that the request asks for.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) items: usize,
    /// The position and the item of each bit, in order.
    pub(super) bits: Vec<(u64, usize)>,
}

/// One call of a group.
#[derive(Debug)]
struct GroupedCall {
    /// The index of the call in the request.
    index: usize,
    inserts: bool,
    /// The items of the call, as indices in its part.
    items: Range<usize>,
    /// Number of insert calls of the group before this call, and number of their items.
    inserts_before: usize,
    items_before: usize,
}

/// The answer to a part.
#[derive(Debug)]
pub(super) enum PartAnswer {
    /// The record, and one bit for each item, which is set if the item lacks a bit.
    Flags(FilterRecord, Vec<u8>),
    Empty(Option<FilterRecord>),
    Mismatch(FilterTerms),
    Lost,
    /// A later batch of the sequence was answered before.
    Late,
}

impl<'a> CallGroup<'a> {
    /// Makes a group of the calls at these indices; `None` if there are none.
    pub(super) fn of(calls: &'a [Probe], places: &[usize]) -> Option<Self> {
        let first = &calls.get(*places.first()?)?.of;
        let mut group =
            Self { of: first, fresh: first.fresh, contains: None, inserts: None, calls: Vec::new() };
        for &index in places {
            group.push(index, &calls[index]);
        }
        for part in group.contains.iter_mut().chain(&mut group.inserts) {
            part.bits.sort_unstable();
        }
        let Some(inserts) = &mut group.inserts else { return Some(group) };
        inserts.bits.dedup_by_key(|(position, _)| *position);
        if let Some(contains) = &mut group.contains {
            let mut before = vec![0; contains.items];
            for call in group.calls.iter().filter(|call| !call.inserts) {
                before[call.items.clone()].fill(call.items_before);
            }
            contains.bits.retain(|(position, item)| {
                let setter = inserts.bits.binary_search_by_key(position, |(position, _)| *position);
                setter.map_or(true, |at| inserts.bits[at].1 >= before[*item])
            });
        }
        Some(group)
    }

    fn push(&mut self, index: usize, call: &Probe) {
        let inserts_before = self.calls.iter().rev().find(|call| call.inserts);
        let inserts_before = inserts_before.map_or(0, |call| call.inserts_before + 1);
        let items_before = self.inserts.as_ref().map_or(0, |part| part.items);
        let (inserts, part, positions) = match &call.items {
            ProbeItems::Insert(positions) => (true, &mut self.inserts, positions),
            ProbeItems::Contains(positions) => (false, &mut self.contains, positions),
        };
        if inserts && part.is_none() {
            self.fresh = call.of.fresh;
        }
        let hashes = usize::try_from(call.of.terms.shape.hashes()).unwrap_or(1).max(1);
        let part = part.get_or_insert_default();
        let first = part.items;
        for item in positions.chunks(hashes) {
            part.bits.extend(item.iter().map(|position| (*position, part.items)));
            part.items += 1;
        }
        let items = first..part.items;
        self.calls.push(GroupedCall { index, inserts, items, inserts_before, items_before });
    }

    /// Returns the answer to each call, with the index of the call in the request.
    pub(super) fn answers<'g>(
        &'g self,
        contains: Option<&'g PartAnswer>,
        inserts: Option<&'g PartAnswer>,
    ) -> impl Iterator<Item = (usize, Result<Probed>)> + 'g {
        self.calls.iter().map(move |call| {
            let answer = match (call.inserts, inserts) {
                (true, Some(PartAnswer::Flags(record, lacking))) => {
                    answered(*record, call, |item| flag(lacking, item))
                }
                (true, Some(other)) => other.for_all_items(),
                (true, None) => None,
                (false, Some(inserted)) if call.inserts_before > 0 => {
                    self.after_insert(call, contains, inserted)
                }
                (false, _) => match contains {
                    Some(PartAnswer::Flags(record, lacking)) => {
                        answered(*record, call, |item| flag(lacking, item).map(|lacks| !lacks))
                    }
                    Some(PartAnswer::Empty(record)) => Some(Probed::Empty { record: *record }),
                    other => other.and_then(PartAnswer::for_all_items),
                },
            };
            (call.index, answer.ok_or_else(unexpected))
        })
    }

    /// Returns the answer to a call that comes after an insert, so that its filter is not empty any
    /// more.
    fn after_insert(
        &self,
        call: &GroupedCall,
        contains: Option<&PartAnswer>,
        inserted: &PartAnswer,
    ) -> Option<Probed> {
        let PartAnswer::Flags(record, _) = inserted else { return inserted.for_all_items() };
        match contains? {
            PartAnswer::Flags(_, lacking) => {
                answered(*record, call, |item| flag(lacking, item).map(|lacks| !lacks))
            }
            PartAnswer::Empty(_) => {
                let part = self.contains.as_ref()?;
                let mut set = vec![true; part.items];
                part.bits.iter().for_each(|(_, item)| set[*item] = false);
                answered(*record, call, |item| set.get(item).copied())
            }
            other => other.for_all_items(),
        }
    }
}

impl PartAnswer {
    /// Returns the answer if it is the same for all items.
    fn for_all_items(&self) -> Option<Probed> {
        match self {
            Self::Mismatch(stored) => Some(Probed::Mismatch { stored: *stored }),
            Self::Lost => Some(Probed::Lost),
            _ => None,
        }
    }
}

fn answered(
    record: FilterRecord,
    call: &GroupedCall,
    answer: impl FnMut(usize) -> Option<bool>,
) -> Option<Probed> {
    let answers = call.items.clone().map(answer).collect::<Option<_>>()?;
    Some(Probed::Told { answers, record })
}

/// Returns the bit of an item.
fn flag(flags: &[u8], item: usize) -> Option<bool> {
    flags.get(item / 8).map(|byte| byte >> (item % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stanchion_core::bloom::Shape;
    use stanchion_core::spi::{Object, RequestId};
    use stanchion_core::{Kind, Name};

    use super::*;

    /// Calls on a filter of one hash, so that each item has one bit.
    fn calls(asks: &[(char, &[u64])]) -> Vec<Probe> {
        let terms = FilterTerms { shape: Shape::new(100, 0.5).unwrap(), ttl: Some(Duration::from_secs(1)) };
        assert_eq!(terms.shape.hashes(), 1);
        let of = |fresh| Opening {
            object: Object { kind: Kind::BloomFilter, name: Name::new("f").unwrap() },
            terms,
            seen: None,
            fresh: Ticket::from(fresh),
        };
        let ask = |kind, bits: &[u64]| {
            if kind == 'i' { ProbeItems::Insert(bits.to_vec()) } else { ProbeItems::Contains(bits.to_vec()) }
        };
        asks.iter()
            .zip(1_u128..)
            .map(|((kind, bits), at)| Probe { id: RequestId::NONE, of: of(at), items: ask(*kind, bits) })
            .collect()
    }

    fn record() -> FilterRecord {
        FilterRecord { generation: Ticket::from(9), ends: None }
    }

    fn answers(
        calls: &[Probe],
        contains: Option<&PartAnswer>,
        inserts: Option<&PartAnswer>,
    ) -> Vec<Option<Probed>> {
        let places: Vec<_> = (0..calls.len()).collect();
        let group = CallGroup::of(calls, &places).unwrap();
        group.answers(contains, inserts).map(|(_, answer)| answer.ok()).collect()
    }

    fn says(answers: &[bool]) -> Option<Probed> {
        Some(Probed::Told { answers: answers.to_vec(), record: record() })
    }

    #[test]
    fn b3_a_bit_is_asked_for_by_the_first_item_that_sets_it() {
        let calls = calls(&[('c', &[3]), ('i', &[3, 5, 3]), ('c', &[5, 7]), ('i', &[7, 5]), ('c', &[7])]);
        let group = CallGroup::of(&calls, &[0, 1, 2, 3, 4]).unwrap();
        assert_eq!(group.inserts.unwrap().bits, [(3, 0), (5, 1), (7, 3)]);
        assert_eq!(group.contains.unwrap().bits, [(3, 0), (7, 2)]);
        assert_eq!(group.fresh, Ticket::from(2));
    }

    #[test]
    fn b1_calls_count_in_order() {
        let calls = calls(&[('c', &[3]), ('i', &[3, 3]), ('c', &[3, 7])]);
        // Of the inserts, the first item lacks a bit; of the others, items 0 and 2.
        let inserts = PartAnswer::Flags(record(), vec![0b01]);
        let known = PartAnswer::Flags(record(), vec![0b101]);
        let expected = [says(&[false]), says(&[true, false]), says(&[true, false])];
        assert_eq!(answers(&calls, Some(&known), Some(&inserts)), expected);
        // If there was no filter before the insert.
        let made = answers(&calls, Some(&PartAnswer::Empty(None)), Some(&inserts));
        assert_eq!(made[0], Some(Probed::Empty { record: None }));
        assert_eq!(made[1..], expected[1..]);
    }

    #[test]
    fn c3_what_was_not_carried_out_is_not_told() {
        let calls = calls(&[('i', &[3]), ('c', &[3])]);
        let nothing = PartAnswer::Flags(record(), vec![0]);
        assert_eq!(answers(&calls, Some(&nothing), Some(&PartAnswer::Late)), [None, None]);
        assert_eq!(
            answers(&calls, Some(&nothing), Some(&PartAnswer::Lost)),
            [Some(Probed::Lost), Some(Probed::Lost)]
        );
        assert_eq!(
            answers(&calls, Some(&nothing), Some(&PartAnswer::Flags(record(), vec![]))),
            [None, says(&[true])]
        );
    }
}
