//! A batch of calls on the wire: the calls of each name in order, and their bits by page.

use std::collections::{BTreeMap, HashMap};

use stanchion_core::spi::{FilterRecord, Object, Opening, Probe, ProbeItems, Probed, RequestId};
use stanchion_core::{Name, Result};

use super::call::{Entry, packed};
use super::{PAGE_BITS, record};
use crate::error::unexpected;
use crate::steps::reply::Reply;

/// The calls of a batch for one name.
#[derive(Debug)]
pub(super) struct NameBatch<'a> {
    /// The batch that the engine sent them in.
    id: RequestId,
    object: &'a Object,
    /// The places of its calls in the batch, in order.
    pub(super) calls: Vec<usize>,
    groups: Vec<CallGroup<'a>>,
}

/// Calls in a row that differ in nothing but their items.
#[derive(Debug)]
struct CallGroup<'a> {
    /// The first of the calls.
    call: &'a Probe,
    /// How many items each call has.
    counts: Vec<u64>,
    /// How many items all calls have.
    items: u64,
    /// The bits by page: the place of each bit in its page, and its item.
    pages: BTreeMap<u64, Vec<u8>>,
}

/// Sorts calls by name, in the order in which names first occur. The calls of a name stay in order.
pub(super) fn by_name<'a>(calls: &[&'a Probe]) -> Vec<NameBatch<'a>> {
    let mut batches: Vec<NameBatch<'_>> = Vec::new();
    let mut places: HashMap<(RequestId, &Name), usize> = HashMap::new();
    for (index, call) in calls.iter().copied().enumerate() {
        let object = &call.of.object;
        let place = *places.entry((call.id, &object.name)).or_insert_with(|| {
            batches.push(NameBatch { id: call.id, object, calls: Vec::new(), groups: Vec::new() });
            batches.len() - 1
        });
        batches[place].push(index, call);
    }
    batches
}

impl<'a> NameBatch<'a> {
    fn push(&mut self, index: usize, call: &'a Probe) {
        self.calls.push(index);
        match self.groups.last_mut() {
            Some(group) if group.takes(call) => group.push(call),
            _ => {
                let mut group = CallGroup { call, counts: Vec::new(), items: 0, pages: BTreeMap::new() };
                group.push(call);
                self.groups.push(group);
            }
        }
    }

    /// Returns the question to the script, which may begin at most `max_begun` pages.
    pub(super) fn entry(&self, max_begun: u64) -> Entry<'a> {
        let mut entry = Entry::new(self.object);
        entry.pages = self.groups.iter().flat_map(|group| group.pages.keys().copied()).collect();
        entry.pages.sort_unstable();
        entry.pages.dedup();
        let id = self.id;
        let numbers = [id.number, max_begun, self.groups.len() as u64];
        entry.arguments.push(id.sequence.to_string().into_bytes());
        entry.arguments.extend(numbers.map(|number| number.to_string().into_bytes()));
        for group in &self.groups {
            group.arguments(&entry.pages, &mut entry.arguments);
        }
        entry
    }

    /// Returns the entries that begin the pages which the calls insert into, at most `max_pages` in
    /// one entry.
    pub(super) fn beginnings(&self, max_pages: usize) -> Vec<Entry<'a>> {
        let (id, mut entries) = (self.id, Vec::new());
        for group in self.groups.iter().filter(|group| group.inserts()) {
            let pages: Vec<u64> = group.pages.keys().copied().collect();
            for pages in pages.chunks(max_pages) {
                let mut entry = Entry::new(self.object);
                entry.pages = pages.to_vec();
                entry
                    .arguments
                    .extend([id.sequence.to_string(), id.number.to_string()].map(String::into_bytes));
                group.opening(&mut entry.arguments);
                entries.push(entry);
            }
        }
        entries
    }

    /// Reads the answer to each call, in order.
    ///
    /// # Errors
    /// `Unknown` for an answer that the script does not give, and if a later batch of the sequence
    /// was answered before.
    pub(super) fn decode(&self, reply: &Reply) -> Result<Vec<Probed>> {
        if reply.number(0)? != 1 {
            return Err(unexpected());
        }
        let probed = read(&reply.text(1)?).ok_or_else(unexpected)?;
        let counts = self.groups.iter().flat_map(|group| &group.counts);
        let fits = |(count, probed): (&u64, &Probed)| match probed {
            Probed::Told { answers, .. } => u64::try_from(answers.len()) == Ok(*count),
            _ => true,
        };
        let whole = probed.len() == self.calls.len() && counts.zip(&probed).all(fits);
        whole.then_some(probed).ok_or_else(unexpected)
    }
}

impl CallGroup<'_> {
    fn inserts(&self) -> bool {
        matches!(self.call.items, ProbeItems::Insert(_))
    }

    /// Adds the record that the calls have seen, and the one that they make.
    fn opening(&self, arguments: &mut Vec<Vec<u8>>) {
        let Opening { seen, fresh, terms, .. } = &self.call.of;
        record::push_seen(arguments, seen.as_ref());
        arguments.extend([fresh.to_string(), record::terms(terms)].map(String::into_bytes));
    }

    fn takes(&self, call: &Probe) -> bool {
        let (own, other) = (&self.call.of, &call.of);
        self.inserts() == matches!(call.items, ProbeItems::Insert(_))
            && own.seen == other.seen
            && own.terms == other.terms
    }

    fn push(&mut self, call: &Probe) {
        let (ProbeItems::Insert(positions) | ProbeItems::Contains(positions)) = &call.items;
        let hashes = usize::try_from(call.of.terms.shape.hashes()).unwrap_or(1).max(1);
        let before = self.items;
        for item in positions.chunks(hashes) {
            for position in item {
                let bits = self.pages.entry(position / PAGE_BITS).or_default();
                bits.extend(packed(position % PAGE_BITS));
                bits.extend(packed(self.items));
            }
            self.items += 1;
        }
        self.counts.push(self.items - before);
    }

    fn arguments(&self, pages: &[u64], arguments: &mut Vec<Vec<u8>>) {
        arguments.push(if self.inserts() { b"i" } else { b"c" }.to_vec());
        self.opening(arguments);
        arguments.push(self.counts.iter().flat_map(|count| packed(*count)).collect());
        arguments.push(self.pages.len().to_string().into_bytes());
        for (page, bits) in &self.pages {
            let place = pages.partition_point(|other| other <= page);
            arguments.push(place.to_string().into_bytes());
            arguments.push(bits.clone());
        }
    }
}

/// Reads an answer as the record keeps it, after the number of the request and its time.
fn read(answer: &str) -> Option<Vec<Probed>> {
    let mut record: Option<FilterRecord> = None;
    let mut probed = Vec::new();
    for part in answer.split(';').skip(1) {
        let (kind, rest) = part.split_once(' ').unwrap_or((part, ""));
        match kind {
            "g" => record = Some(record_of(rest)?),
            "t" => probed.push(Probed::Told { answers: bits(rest)?, record: record? }),
            "e" => probed.push(Probed::Empty { record: None }),
            "E" => probed.push(Probed::Empty { record: Some(record?) }),
            "m" => probed.push(Probed::Mismatch { stored: record::stored(rest).ok()? }),
            "l" => probed.push(Probed::Lost),
            _ => return None,
        }
    }
    Some(probed)
}

fn record_of(words: &str) -> Option<FilterRecord> {
    let (generation, ends) = words.split_once(' ')?;
    record::record_of(generation, ends.parse().ok()?)
}

fn bits(text: &str) -> Option<Vec<bool>> {
    let bit = |byte| match byte {
        b'0' => Some(false),
        b'1' => Some(true),
        _ => None,
    };
    text.bytes().map(bit).collect()
}

#[cfg(test)]
mod tests {
    use stanchion_core::bloom::{FilterTerms, Shape};
    use stanchion_core::{Kind, Ticket};

    use super::*;

    fn call(name: &str, items: ProbeItems) -> Probe {
        let object = Object { kind: Kind::BloomFilter, name: Name::new(name).unwrap() };
        // Two hashes.
        let terms = FilterTerms { shape: Shape::new(10_000_000, 0.25).unwrap(), ttl: None };
        Probe {
            id: RequestId::NONE,
            of: Opening { object, terms, seen: None, fresh: Ticket::random() },
            items,
        }
    }

    #[test]
    fn calls_in_a_row_of_one_kind_are_one_group() {
        let (page, insert) = (PAGE_BITS, |positions: &[u64]| ProbeItems::Insert(positions.to_vec()));
        let calls = [
            call("a", insert(&[1, page, 2, 3])),
            call("b", insert(&[])),
            call("a", insert(&[page + 1, 4])),
            call("a", ProbeItems::Contains(vec![1, 2 * page])),
        ];
        let batches = by_name(&calls.iter().collect::<Vec<_>>());
        assert_eq!((batches[0].calls.as_slice(), batches[1].calls.as_slice()), (&[0, 2, 3][..], &[1][..]));
        let [first, second] = batches[0].groups.as_slice() else { panic!("two groups") };
        assert_eq!((first.counts.as_slice(), second.counts.as_slice()), (&[2, 1][..], &[1][..]));
        assert_eq!(first.pages[&0], [0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 3, 0, 0, 1, 0, 0, 4, 0, 0, 2]);
        assert_eq!(first.pages[&1], [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2]);
        let entry = batches[0].entry(64);
        assert_eq!(entry.pages, [0, 1, 2]);
        let last = &entry.arguments[entry.arguments.len() - 2..];
        assert_eq!((last[0].as_slice(), last[1].len()), (&b"3"[..], 6), "the third page");
        let begun: Vec<_> = batches[0].beginnings(1).into_iter().map(|entry| entry.pages).collect();
        assert_eq!(begun, [[0], [1]], "none for a call that only asks");
    }

    #[test]
    fn c3_an_answer_of_no_script_is_not_understood() {
        let generation = Ticket::random();
        let record = FilterRecord { generation, ends: Some(5) };
        let told = Probed::Told { answers: vec![true, false], record };
        assert_eq!(read(&format!("7 9;g {generation} 5;t 10;l")), Some(vec![told, Probed::Lost]));
        assert_eq!(read("7 9;e"), Some(vec![Probed::Empty { record: None }]));
        for answer in ["7 9;t 10", "7 9;E", "7 9;x", "7 9;m 1 2", &format!("7 9;g {generation} 5;t 12")] {
            assert_eq!(read(answer), None, "{answer}");
        }
    }
}
