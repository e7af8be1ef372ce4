//! Operations on a whole filter: count, export, import and union. They hold the lock of the filter
//! for a page at a time: a change of the record, and every call behind it, must not wait for a
//! filter of gigabytes (C27).

use std::sync::Arc;
use std::thread;

use stanchion_core::bloom::{self, FilterTerms, Shape};
use stanchion_core::{Error, ErrorKind, Name, Result};

use super::bits::{Bits, PAGE_BYTES};
use super::handle::MemoryFilter;
use super::record::{Contents, FilterEntry};

/// Maximum number of times that an import begins.
const IMPORTS: usize = 3;

impl MemoryFilter {
    pub(super) fn count(&self) -> Result<u64> {
        let whole = self.with(false, |contents| (contents.number, contents.bits.pages()))?;
        let Some((number, pages)) = whole else { return Ok(0) };
        let count = |page| Ok(self.with_same(number, |bits| bits.count(page))?.unwrap_or(0));
        (0..pages).map(count).sum()
    }

    pub(super) fn image(&self) -> Result<Vec<u8>> {
        let Some((number, shape)) = self.with(false, |contents| (contents.number, contents.terms.shape))?
        else {
            return blank(&self.terms().shape);
        };
        let mut image = blank(&shape)?;
        for (page, span) in image[bloom::HEADER_BYTES..].chunks_mut(PAGE_BYTES).enumerate() {
            match self.with_same(number, |bits| bits.read(page))? {
                Some(Some(bytes)) => span.copy_from_slice(&bytes),
                Some(None) => {}
                // It has ended meanwhile: no part of it is exported.
                None => return blank(&self.terms().shape),
            }
            // Whoever waits for the lock comes first.
            thread::yield_now();
        }
        Ok(image)
    }

    pub(super) fn load(&self, exported: &[u8]) -> Result<()> {
        let (shape, bits) = bloom::open(exported)?;
        self.check_like(&shape)?;
        if bits.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        for _ in 0..IMPORTS {
            let number =
                self.with(true, |contents| like(&shape, &contents.terms).map(|()| contents.number))?;
            let number = number.unwrap_or(Ok(0))?;
            let mut pages = bits.chunks(PAGE_BYTES).enumerate();
            let merge = |(page, bytes): (usize, &[u8])| {
                let is_merged = self.with_same(number, |bits| bits.merge(page, bytes))?.is_some();
                thread::yield_now();
                Ok(is_merged)
            };
            if pages.try_fold(true, |all, part| Result::Ok(all && merge(part)?))? {
                return Ok(());
            }
        }
        let detail = "the filter ended each time before the import was complete";
        Err(Error::new(ErrorKind::StateLost, detail))
    }

    /// Runs `look` on the bits, if they are still those of the contents with that number.
    fn with_same<R>(&self, number: u64, look: impl FnOnce(&Bits) -> R) -> Result<Option<R>> {
        let same = |contents: &Contents| (contents.number == number).then(|| look(&contents.bits));
        Ok(self.with(false, same)?.flatten())
    }

    pub(super) fn unite(&self, other: &str) -> Result<()> {
        let other = Visited::open(self, Name::new(other)?);
        if Arc::ptr_eq(&other.entry, &self.entry) {
            return self.with(false, |_| ()).map(drop);
        }
        let Some((shape, pages)) = other.with(|contents| (contents.terms.shape, contents.bits.pages()))
        else {
            return self.with(false, |_| ()).map(drop);
        };
        self.check_like(&shape)?;
        for page in 0..pages {
            let bytes =
                other.with(|contents| (contents.terms.shape == shape).then(|| contents.bits.read(page)));
            // One lock at a time, because two filters may be united with each other.
            let Some(Some(bytes)) = bytes.flatten() else { continue };
            let merged = self.with(true, |contents| {
                like(&shape, &contents.terms).map(|()| contents.bits.merge(page, &bytes))
            })?;
            merged.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// Refuses a shape other than the one in force.
    fn check_like(&self, shape: &Shape) -> Result<()> {
        self.with(false, |_| ())?;
        like(shape, &self.terms())
    }
}

fn like(given: &Shape, own: &FilterTerms) -> Result<()> {
    if *given == own.shape { Ok(()) } else { Err(Error::mismatch("filter", given, own.shape)) }
}

/// Returns an export without items.
fn blank(shape: &Shape) -> Result<Vec<u8>> {
    let mut image = bloom::begin_image(shape)?;
    image.resize(bloom::image_bytes(shape), 0);
    Ok(image)
}

/// Another filter of the store, opened for reading.
struct Visited<'a> {
    host: &'a MemoryFilter,
    name: Name,
    entry: Arc<FilterEntry>,
}

impl<'a> Visited<'a> {
    fn open(host: &'a MemoryFilter, name: Name) -> Self {
        let state = &host.session.state;
        let entry = state.filters.open(&name, state.clock.read(), |_| FilterEntry::new());
        Self { host, name, entry }
    }

    fn with<R>(&self, look: impl FnOnce(&Contents) -> R) -> Option<R> {
        let record = self.entry.read();
        let at = self.host.session.state.clock.read();
        let record = record.as_ref().filter(|record| !record.lifetime.is_over(at))?;
        record.contents.as_ref().map(look)
    }
}

impl Drop for Visited<'_> {
    fn drop(&mut self) {
        let state = &self.host.session.state;
        state.filters.leave(&self.name, state.clock.read());
    }
}
