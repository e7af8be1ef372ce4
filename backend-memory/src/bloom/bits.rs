//! The bits of a filter, in pages that are allocated when their first bit is set.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use stanchion_core::bloom::Shape;

/// Number of words in a page; a page has 128 KiB.
const PAGE_WORDS: usize = 1 << 14;
/// Number of bytes in a page.
pub(super) const PAGE_BYTES: usize = PAGE_WORDS * 8;

/// Bit `b` is in word `b / 64`, the most significant bit first: the big-endian bytes of the words
/// are the layout.
#[derive(Debug)]
pub(super) struct Bits {
    words: usize,
    pages: Box<[OnceLock<Page>]>,
}

type Page = Box<[AtomicU64]>;

impl Bits {
    pub(super) fn new(shape: &Shape) -> Self {
        let words = index(shape.bits() / 64);
        Self {
            words,
            pages: std::iter::repeat_with(OnceLock::new).take(words.div_ceil(PAGE_WORDS)).collect(),
        }
    }

    /// Returns whether a bit below [`Shape::bits`] is set.
    #[inline]
    pub(super) fn is_set(&self, bit: u64) -> bool {
        let (page, word, mask) = place(bit);
        self.pages[page].get().is_some_and(|page| page[word].load(Ordering::Relaxed) & mask != 0)
    }

    /// Sets a bit, and returns whether it was not set before.
    #[inline]
    pub(super) fn set(&self, bit: u64) -> bool {
        let (page, word, mask) = place(bit);
        self.page(page)[word].fetch_or(mask, Ordering::Relaxed) & mask == 0
    }

    fn page(&self, page: usize) -> &Page {
        let words = (self.words - page * PAGE_WORDS).min(PAGE_WORDS);
        self.pages[page].get_or_init(|| std::iter::repeat_with(AtomicU64::default).take(words).collect())
    }

    /// Counts the bits of a page that are set.
    pub(super) fn count(&self, page: usize) -> u64 {
        let words = self.pages.get(page).and_then(OnceLock::get).into_iter().flatten();
        words.map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the bytes of a page; `None` if no bit of it was ever set.
    pub(super) fn read(&self, page: usize) -> Option<Vec<u8>> {
        let words = self.pages.get(page)?.get()?;
        Some(words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_be_bytes()).collect())
    }

    /// Sets all bits that are set in the bytes of a page.
    pub(super) fn merge(&self, page: usize, bytes: &[u8]) {
        if bytes.iter().all(|byte| *byte == 0) {
            return;
        }
        for (word, bytes) in self.page(page).iter().zip(bytes.as_chunks().0) {
            word.fetch_or(u64::from_be_bytes(*bytes), Ordering::Relaxed);
        }
    }
}

/// Returns page, word and mask of a bit.
#[inline]
fn place(bit: u64) -> (usize, usize, u64) {
    let word = index(bit / 64);
    (word / PAGE_WORDS, word % PAGE_WORDS, (1 << 63) >> (bit % 64))
}

/// Converts to an index. A 64-bit `usize` fits every filter; on smaller machines the largest
/// filters do not fit.
#[inline]
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
