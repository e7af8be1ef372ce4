//! Pieces of an image, and their pages.

use stanchion_core::bloom::FilterTerms;
use stanchion_core::spi::CHUNK_BYTES;
use stanchion_core::{Error, Result};

use super::PAGE_BITS;
use crate::error::unexpected;

const PAGE_BYTES: u64 = PAGE_BITS / 8;
const PAGES: u64 = CHUNK_BYTES / PAGE_BYTES;

/// Converts the number of a page for the SQL functions.
///
/// # Errors
/// `InvalidArgument` for a number that no filter has.
pub(super) fn page(number: u64) -> Result<i32> {
    let beyond = |error| Error::invalid_argument("beyond the bits of any filter").with_source(error);
    i32::try_from(number).map_err(beyond)
}

/// Returns the first and the last page of a piece.
///
/// # Errors
/// As [`page`].
pub(super) fn range(chunk: u64) -> Result<(i32, i32)> {
    let first = chunk.saturating_mul(PAGES);
    Ok((page(first)?, page(first + (PAGES - 1))?))
}

/// Returns the length of a piece of a filter in bytes; 0 beyond the end of the filter.
pub(super) fn length(terms: &FilterTerms, chunk: u64) -> usize {
    let left = terms.shape.bytes().saturating_sub(chunk.saturating_mul(CHUNK_BYTES));
    usize::try_from(left.min(CHUNK_BYTES)).unwrap_or_default()
}

/// Returns the pages of a piece that have set bits, and the bytes of each.
///
/// # Errors
/// As [`page`].
pub(super) fn pages(chunk: u64, bytes: &[u8]) -> Result<(Vec<i32>, Vec<Vec<u8>>)> {
    let (first, _) = range(chunk)?;
    let size = usize::try_from(PAGE_BYTES).unwrap_or(usize::MAX);
    let all = (first..).zip(bytes.chunks(size));
    let whole = |bytes: &[u8]| {
        let mut whole = bytes.to_vec();
        whole.resize(size, 0);
        whole
    };
    let set = all.filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0));
    Ok(set.map(|(page, bytes)| (page, whole(bytes))).unzip())
}

/// Joins pages to a piece of this length that begins with the page `first`. Returns no bytes if
/// there are no pages.
///
/// # Errors
/// `Unknown` for pages of another piece.
pub(super) fn joined(first: i32, length: usize, pages: &[i32], bytes: &[Vec<u8>]) -> Result<Vec<u8>> {
    if pages.is_empty() {
        return Ok(Vec::new());
    }
    let size = usize::try_from(PAGE_BYTES).unwrap_or(usize::MAX);
    let mut piece = vec![0; length];
    for (page, bytes) in pages.iter().zip(bytes) {
        let index = usize::try_from(page - first).map_err(|_| unexpected())?;
        let rest = piece.get_mut(index * size..).ok_or_else(unexpected)?;
        let count = rest.len().min(bytes.len());
        rest[..count].copy_from_slice(&bytes[..count]);
    }
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b4_a_piece_is_cut_into_pages_and_joined_again() {
        // The last piece of a filter ends within a page.
        for length in [131_072, 5_000, 2_048, 8] {
            let mut piece = vec![0; length];
            (piece[0], piece[length - 1]) = (1, 7);
            let (pages, bytes) = pages(3, &piece).unwrap();
            assert_eq!(pages.first(), Some(&192));
            assert!(pages.len() <= 2 && bytes.iter().all(|page| page.len() == 2_048), "zeros are not sent");
            assert_eq!(joined(192, length, &pages, &bytes).unwrap(), piece);
        }
        assert_eq!(pages(0, &[0; 4_096]).unwrap(), (vec![], vec![]));
        assert!(joined(0, 4_096, &[], &[]).unwrap().is_empty());
    }

    #[test]
    fn c3_a_page_of_another_piece_is_not_understood() {
        let page = vec![vec![1; 2_048]];
        assert!(joined(64, 131_072, &[63], &page).is_err());
        assert!(joined(0, 2_048, &[2], &page).is_err());
        assert!(range(u64::MAX).is_err());
    }
}
