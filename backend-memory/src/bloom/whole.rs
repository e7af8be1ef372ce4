//! Operations on a whole filter: count, export, import and union.

use std::sync::Arc;

use stanchion_core::bloom::{self, FilterTerms, Shape};
use stanchion_core::{Error, Name, Result};

use super::bits::PAGE_BYTES;
use super::handle::MemoryFilter;
use super::record::{Contents, FilterEntry};

impl MemoryFilter {
    pub(super) fn count(&self) -> Result<u64> {
        Ok(self.with(false, |contents| contents.bits.count())?.unwrap_or(0))
    }

    pub(super) fn image(&self) -> Result<Vec<u8>> {
        let filled = self.with(false, |Contents { terms, bits, .. }| {
            let mut image = blank(&terms.shape)?;
            for (page, span) in image[bloom::HEADER_BYTES..].chunks_mut(PAGE_BYTES).enumerate() {
                if let Some(bytes) = bits.read(page) {
                    span.copy_from_slice(&bytes);
                }
            }
            Ok(image)
        })?;
        filled.unwrap_or_else(|| blank(&self.terms().shape))
    }

    pub(super) fn load(&self, exported: &[u8]) -> Result<()> {
        let (shape, bits) = bloom::open(exported)?;
        self.check_like(&shape)?;
        if bits.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let pages = bits.chunks(PAGE_BYTES).enumerate();
        let loaded = self.with(true, |contents| {
            like(&shape, &contents.terms)?;
            pages.for_each(|(page, bytes)| contents.bits.merge(page, bytes));
            Ok(())
        })?;
        loaded.unwrap_or(Ok(()))
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
        let record = record.as_ref().filter(|record| !record.life.is_over(at))?;
        record.contents.as_ref().map(look)
    }
}

impl Drop for Visited<'_> {
    fn drop(&mut self) {
        let state = &self.host.session.state;
        state.filters.leave(&self.name, state.clock.read());
    }
}
