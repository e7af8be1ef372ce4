//! Calls of a flight that are told apart by nothing but what they ask.
//!
//! They go as two parts: first whether the filter contains items, then what is inserted. The functions look at each bit
//! of a part once and know no order of calls. That calls and items count in order is seen to here: a bit that an earlier
//! item of the group sets is not asked for by a later one.

use std::ops::Range;

use stanchion_core::bloom::FilterTerms;
use stanchion_core::steps::{BloomAsk, BloomCall, Known, Life, Opening, Probed};
use stanchion_core::{Result, Ticket};

use crate::error::unexpected;

/// Calls in a row on one name, with the same terms, that have seen the same record.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) of: &'a Opening,
    /// Of a filter that is made.
    pub(super) fresh: Ticket,
    pub(super) contains: Option<Part>,
    pub(super) inserts: Option<Part>,
    calls: Vec<Asked>,
}

/// Items, and which of their bits are asked for.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) items: usize,
    /// Position and item, in order.
    pub(super) bits: Vec<(u64, usize)>,
}

/// One call.
#[derive(Debug)]
struct Asked {
    /// Its place in the flight.
    index: usize,
    inserts: bool,
    /// Which items of its part it has.
    items: Range<usize>,
    /// How many inserts of the group came before it, and how many items they had.
    inserts_before: usize,
    items_before: usize,
}

/// The answer to a part.
#[derive(Debug)]
pub(super) enum Told {
    /// The items that lack a bit, as bits.
    Flags(Life, Vec<u8>),
    Empty(Known),
    Mismatch(FilterTerms),
    Lost,
    /// A later flight of the lane was answered before.
    Late,
}

impl<'a> Group<'a> {
    /// The calls at these places, of which there is at least one.
    pub(super) fn of(calls: &'a [BloomCall], places: &[usize]) -> Option<Self> {
        let first = &calls.get(*places.first()?)?.of;
        let mut group =
            Self { of: first, fresh: first.fresh, contains: None, inserts: None, calls: Vec::new() };
        for &index in places {
            group.load(index, &calls[index]);
        }
        for part in group.contains.iter_mut().chain(&mut group.inserts) {
            part.bits.sort_unstable();
        }
        let Some(inserts) = &mut group.inserts else { return Some(group) };
        inserts.bits.dedup_by_key(|(position, _)| *position);
        if let Some(contains) = &mut group.contains {
            let mut before = vec![0; contains.items];
            for asked in group.calls.iter().filter(|asked| !asked.inserts) {
                before[asked.items.clone()].fill(asked.items_before);
            }
            contains.bits.retain(|(position, item)| {
                let setter = inserts.bits.binary_search_by_key(position, |(position, _)| *position);
                setter.map_or(true, |at| inserts.bits[at].1 >= before[*item])
            });
        }
        Some(group)
    }

    fn load(&mut self, index: usize, call: &BloomCall) {
        let inserts_before = self.calls.iter().rev().find(|asked| asked.inserts);
        let inserts_before = inserts_before.map_or(0, |asked| asked.inserts_before + 1);
        let items_before = self.inserts.as_ref().map_or(0, |part| part.items);
        let (inserts, part, positions) = match &call.ask {
            BloomAsk::Insert(positions) => (true, &mut self.inserts, positions),
            BloomAsk::Contains(positions) => (false, &mut self.contains, positions),
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
        self.calls.push(Asked { index, inserts, items, inserts_before, items_before });
    }

    /// What each call is told, with its place in the flight.
    pub(super) fn answers<'g>(
        &'g self,
        contains: Option<&'g Told>,
        inserts: Option<&'g Told>,
    ) -> impl Iterator<Item = (usize, Result<Probed>)> + 'g {
        self.calls.iter().map(move |asked| {
            let answer = match (asked.inserts, inserts) {
                (true, Some(Told::Flags(life, lacking))) => told(*life, asked, |item| flag(lacking, item)),
                (true, Some(other)) => other.certain(),
                (true, None) => None,
                (false, Some(inserted)) if asked.inserts_before > 0 => self.later(asked, contains, inserted),
                (false, _) => match contains {
                    Some(Told::Flags(life, lacking)) => {
                        told(*life, asked, |item| flag(lacking, item).map(|lacks| !lacks))
                    }
                    Some(Told::Empty(life)) => Some(Probed::Empty { life: *life }),
                    other => other.and_then(Told::certain),
                },
            };
            (asked.index, answer.ok_or_else(unexpected))
        })
    }

    /// What a call is told that asks behind an insert: that filter is not empty any more.
    fn later(&self, asked: &Asked, contains: Option<&Told>, inserted: &Told) -> Option<Probed> {
        let Told::Flags(life, _) = inserted else { return inserted.certain() };
        match contains? {
            Told::Flags(_, lacking) => told(*life, asked, |item| flag(lacking, item).map(|lacks| !lacks)),
            Told::Empty(_) => {
                let part = self.contains.as_ref()?;
                let mut set = vec![true; part.items];
                part.bits.iter().for_each(|(_, item)| set[*item] = false);
                told(*life, asked, |item| set.get(item).copied())
            }
            other => other.certain(),
        }
    }
}

impl Told {
    /// What does not depend on items.
    fn certain(&self) -> Option<Probed> {
        match self {
            Self::Mismatch(stored) => Some(Probed::Mismatch { stored: *stored }),
            Self::Lost => Some(Probed::Lost),
            _ => None,
        }
    }
}

fn told(life: Life, asked: &Asked, answer: impl FnMut(usize) -> Option<bool>) -> Option<Probed> {
    let answers = asked.items.clone().map(answer).collect::<Option<_>>()?;
    Some(Probed::Told { answers, life })
}

/// Whether an item is among those of an answer.
fn flag(flags: &[u8], item: usize) -> Option<bool> {
    flags.get(item / 8).map(|byte| byte >> (item % 8) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stanchion_core::bloom::Shape;
    use stanchion_core::steps::Object;
    use stanchion_core::{Kind, Name};

    use super::*;

    /// Calls on a filter of one hash, so that each item has one bit.
    fn calls(asks: &[(char, &[u64])]) -> Vec<BloomCall> {
        let terms = FilterTerms { shape: Shape::new(100, 0.5).unwrap(), ttl: Some(Duration::from_secs(1)) };
        assert_eq!(terms.shape.hashes(), 1);
        let of = |fresh| Opening {
            object: Object { kind: Kind::BloomFilter, name: Name::new("f").unwrap() },
            terms,
            known: None,
            fresh: Ticket::from(fresh),
        };
        let ask = |kind, bits: &[u64]| {
            if kind == 'i' { BloomAsk::Insert(bits.to_vec()) } else { BloomAsk::Contains(bits.to_vec()) }
        };
        asks.iter()
            .zip(1_u128..)
            .map(|((kind, bits), at)| BloomCall { of: of(at), ask: ask(*kind, bits) })
            .collect()
    }

    fn life() -> Life {
        Life { generation: Ticket::from(9), ends: None }
    }

    fn answers(calls: &[BloomCall], contains: Option<&Told>, inserts: Option<&Told>) -> Vec<Option<Probed>> {
        let places: Vec<_> = (0..calls.len()).collect();
        let group = Group::of(calls, &places).unwrap();
        group.answers(contains, inserts).map(|(_, answer)| answer.ok()).collect()
    }

    fn says(answers: &[bool]) -> Option<Probed> {
        Some(Probed::Told { answers: answers.to_vec(), life: life() })
    }

    #[test]
    fn b3_a_bit_is_asked_for_by_the_first_item_that_sets_it() {
        let calls = calls(&[('c', &[3]), ('i', &[3, 5, 3]), ('c', &[5, 7]), ('i', &[7, 5]), ('c', &[7])]);
        let group = Group::of(&calls, &[0, 1, 2, 3, 4]).unwrap();
        assert_eq!(group.inserts.unwrap().bits, [(3, 0), (5, 1), (7, 3)]);
        assert_eq!(group.contains.unwrap().bits, [(3, 0), (7, 2)]);
        assert_eq!(group.fresh, Ticket::from(2));
    }

    #[test]
    fn b1_calls_count_in_order() {
        let calls = calls(&[('c', &[3]), ('i', &[3, 3]), ('c', &[3, 7])]);
        // The bit of the item that is first in the inserts; items 0 and 2 of the others.
        let inserts = Told::Flags(life(), vec![0b01]);
        let known = Told::Flags(life(), vec![0b101]);
        let expected = [says(&[false]), says(&[true, false]), says(&[true, false])];
        assert_eq!(answers(&calls, Some(&known), Some(&inserts)), expected);
        // Where there was no filter before the insert.
        let made = answers(&calls, Some(&Told::Empty(None)), Some(&inserts));
        assert_eq!(made[0], Some(Probed::Empty { life: None }));
        assert_eq!(made[1..], expected[1..]);
    }

    #[test]
    fn c3_what_was_not_carried_out_is_not_told() {
        let calls = calls(&[('i', &[3]), ('c', &[3])]);
        let nothing = Told::Flags(life(), vec![0]);
        assert_eq!(answers(&calls, Some(&nothing), Some(&Told::Late)), [None, None]);
        assert_eq!(
            answers(&calls, Some(&nothing), Some(&Told::Lost)),
            [Some(Probed::Lost), Some(Probed::Lost)]
        );
        assert_eq!(
            answers(&calls, Some(&nothing), Some(&Told::Flags(life(), vec![]))),
            [None, says(&[true])]
        );
    }
}
