//! Operations on a whole filter: counting, clearing, reading and merging, piece by piece.

use super::handle::Filter;
use crate::bloom::{self, Shape};
use crate::spi::{
    CHUNK_BYTES, ChunkRead, Clear, FilterRecord, FilterState, Merge, Merged, Object, Read, StepsExt, Survey,
    Surveyed,
};
use crate::{Error, ErrorKind, Kind, Name, Result};

/// Maximum number of attempts of an import or a union that the filter's end interrupts.
const ATTEMPTS: usize = 3;

impl Filter {
    /// Returns the shape in force and the number of bits set.
    pub(super) async fn count(&self) -> Result<(Shape, u64)> {
        let survey = self.survey().await?;
        Ok((self.terms.value().shape, survey.map_or(0, |survey| survey.bits_set)))
    }

    /// Asks the store for a filter as a whole.
    async fn count_bits(&self, object: &Object, seen: Option<FilterRecord>) -> Result<Surveyed> {
        self.engine.shared.steps.ask(Survey { object: object.clone(), seen }).await
    }

    /// Returns the store's filter, after a comparison of its terms; `None` if there is none.
    async fn survey(&self) -> Result<Option<FilterState>> {
        self.engine.shared.check_open()?;
        let (terms, record) = (self.terms.value(), self.record());
        match self.count_bits(&self.object, record).await? {
            Surveyed::Live(survey) => {
                if survey.terms != terms {
                    self.accept(terms, survey.terms)?;
                }
                self.saw(survey.record);
                Ok(Some(survey))
            }
            Surveyed::Empty(_) => {
                self.saw_nothing(record);
                Ok(None)
            }
            Surveyed::Lost => Err(self.lost(record)),
        }
    }

    pub(super) async fn empty(&self) -> Result<()> {
        self.engine.shared.check_open()?;
        let record = self.record();
        self.engine.shared.steps.ask(Clear { object: self.object.clone() }).await?;
        self.saw_nothing(record);
        Ok(())
    }

    pub(super) async fn image(&self) -> Result<Vec<u8>> {
        let survey = self.survey().await?;
        let shape = self.terms.value().shape;
        let size = bloom::image_bytes(&shape);
        let mut image = bloom::begin_image(&shape)?;
        let Some(survey) = survey else {
            image.resize(size, 0);
            return Ok(image);
        };
        for (chunk, span) in chunks(&shape) {
            let record = self.record();
            let end = image.len() + span;
            match self.read(&self.object, &survey, chunk, span).await? {
                ChunkRead::Bytes(bytes) => image.extend(bytes),
                ChunkRead::Empty => {
                    // The filter ended or was cleared meanwhile: it is empty, whatever was read
                    // before.
                    image.truncate(bloom::HEADER_BYTES);
                    break;
                }
                ChunkRead::Lost => return Err(self.lost(record)),
            }
            image.resize(end, 0);
        }
        image.resize(size, 0);
        Ok(image)
    }

    pub(super) async fn load(&self, exported: &[u8]) -> Result<()> {
        let (shape, bits) = bloom::open(exported)?;
        self.survey().await?;
        self.check_like(&shape)?;
        for _ in 0..ATTEMPTS {
            if self.load_once(&shape, bits).await? {
                return Ok(());
            }
        }
        Err(ended_again())
    }

    /// Merges all pieces; `false` if the filter ended in between, and with it the pieces merged
    /// before (B1).
    async fn load_once(&self, shape: &Shape, bits: &[u8]) -> Result<bool> {
        let mut filled = Filled::default();
        for (chunk, bytes) in (0..).zip(bits.chunks(length(CHUNK_BYTES))) {
            if !filled.is_same(self.merge(chunk, bytes.to_vec(), shape).await?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) async fn unite(&self, other: &str) -> Result<()> {
        let other = Object { kind: Kind::BloomFilter, name: Name::new(other)? };
        self.survey().await?;
        if other == self.object {
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            if self.unite_once(&other).await? {
                return Ok(());
            }
        }
        Err(ended_again())
    }

    /// As [`load_once`](Self::load_once), with the pieces of another filter.
    async fn unite_once(&self, other: &Object) -> Result<bool> {
        let survey = match self.count_bits(other, None).await? {
            Surveyed::Live(survey) => survey,
            Surveyed::Empty(_) => return Ok(true),
            Surveyed::Lost => return Err(other_lost()),
        };
        let shape = survey.terms.shape;
        self.check_like(&shape)?;
        let mut filled = Filled::default();
        for (chunk, span) in chunks(&shape) {
            self.engine.shared.check_open()?;
            match self.read(other, &survey, chunk, span).await? {
                ChunkRead::Bytes(bytes) => {
                    if !filled.is_same(self.merge(chunk, bytes, &shape).await?) {
                        return Ok(false);
                    }
                }
                ChunkRead::Empty => return Ok(true),
                ChunkRead::Lost => return Err(other_lost()),
            }
        }
        Ok(true)
    }

    fn check_like(&self, shape: &Shape) -> Result<()> {
        let own = self.terms.value().shape;
        if own == *shape { Ok(()) } else { Err(Error::mismatch("filter", shape, own)) }
    }

    /// Reads a piece of the surveyed filter; `Empty` if the filter was replaced meanwhile, so that
    /// its bits mean something else.
    async fn read(&self, object: &Object, found: &FilterState, chunk: u64, span: usize) -> Result<ChunkRead> {
        let (object, seen) = (object.clone(), Some(found.record));
        let read = self.engine.shared.steps.ask(Read { object: object.clone(), seen, chunk }).await?;
        let ChunkRead::Bytes(bytes) = &read else { return Ok(read) };
        if bytes.len() > span {
            let detail = "the store's answer was longer than what was asked for";
            return Err(Error::new(ErrorKind::Unknown, detail));
        }
        Ok(match self.count_bits(&object, seen).await? {
            Surveyed::Live(now) if (now.terms, now.record) == (found.terms, found.record) => read,
            Surveyed::Lost => ChunkRead::Lost,
            Surveyed::Live(_) | Surveyed::Empty(_) => ChunkRead::Empty,
        })
    }

    /// Merges a piece of an image of that shape, and returns the record it was merged into. A piece
    /// of zeros is skipped.
    async fn merge(&self, chunk: u64, bytes: Vec<u8>, shape: &Shape) -> Result<Option<FilterRecord>> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        self.engine.shared.check_open()?;
        let mut merge = Merge { of: self.opening(self.terms.value(), self.record()), chunk, bytes };
        loop {
            let (terms, record) = (self.terms.value(), self.record());
            (merge.of.terms, merge.of.seen) = (terms, record);
            match self.engine.shared.steps.ask(merge.clone()).await? {
                Merged::Done(record) => {
                    self.saw(record);
                    return Ok(Some(record));
                }
                Merged::Mismatch(stored) => {
                    self.accept(terms, stored)?;
                    self.check_like(shape)?;
                }
                Merged::Lost => return Err(self.lost(record)),
            }
        }
    }
}

/// The record into which pieces are merged.
#[derive(Default)]
struct Filled(Option<FilterRecord>);

impl Filled {
    fn is_same(&mut self, merged: Option<FilterRecord>) -> bool {
        merged.is_none_or(|record| *self.0.get_or_insert(record) == record)
    }
}

fn ended_again() -> Error {
    Error::new(ErrorKind::StateLost, "the filter ended again and again before all of the bits were in it")
}

fn other_lost() -> Error {
    Error::new(ErrorKind::StateLost, "a part of the other filter is gone: what it held is not known any more")
}

/// Returns the pieces of an image, with their lengths.
fn chunks(shape: &Shape) -> impl Iterator<Item = (u64, usize)> + use<> {
    let bytes = shape.bytes();
    let span = move |chunk: u64| length((bytes - chunk * CHUNK_BYTES).min(CHUNK_BYTES));
    (0..bytes.div_ceil(CHUNK_BYTES)).map(move |chunk| (chunk, span(chunk)))
}

/// Converts a length to one that this machine can address.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX / 2)
}
