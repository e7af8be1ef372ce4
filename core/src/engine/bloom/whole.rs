//! What concerns a filter as a whole: counted, emptied, read and merged, piece by piece.

use super::handle::{Filter, mismatch};
use crate::bloom::{self, Shape};
use crate::engine::steps::{CHUNK_BYTES, ChunkRead, Known, Merge, Merged, Object, Survey, Surveyed};
use crate::{Error, ErrorKind, Kind, Name, Result};

impl Filter {
    /// The shape in force and the bits that are set.
    pub(super) async fn count(&self) -> Result<(Shape, u64)> {
        let survey = self.survey().await?;
        Ok((self.seen().terms.shape, survey.map_or(0, |survey| survey.bits_set)))
    }

    /// The filter as the store has it, its terms compared; `None` if it has none.
    async fn survey(&self) -> Result<Option<Survey>> {
        self.engine.shared.check_open()?;
        let seen = self.seen();
        match self.filtering.steps.survey(&self.object, seen.life).await? {
            Surveyed::Live(survey) => {
                if survey.terms != seen.terms {
                    self.accept(seen.terms, survey.terms)?;
                }
                self.saw(Some(survey.life));
                Ok(Some(survey))
            }
            Surveyed::Empty(life) => {
                self.saw(life);
                Ok(None)
            }
            Surveyed::Lost => Err(self.lost(seen)),
        }
    }

    pub(super) async fn empty(&self) -> Result<()> {
        self.engine.shared.check_open()?;
        let life = self.filtering.steps.clear(&self.object).await?;
        self.saw(life);
        Ok(())
    }

    pub(super) async fn image(&self) -> Result<Vec<u8>> {
        let survey = self.survey().await?;
        let shape = self.seen().terms.shape;
        let size = length(shape.bytes()) + bloom::HEADER_BYTES;
        let mut image = Vec::new();
        image.try_reserve_exact(size).map_err(|error| {
            Error::new(ErrorKind::Overloaded, "there is no memory for the exported bytes").with_source(error)
        })?;
        image.extend(bloom::header(&shape));
        let Some(survey) = survey else {
            image.resize(size, 0);
            return Ok(image);
        };
        for (chunk, span) in chunks(&shape) {
            let seen = self.seen();
            let end = image.len() + span;
            match self.read(&self.object, Some(survey.life), chunk, span).await? {
                ChunkRead::Bytes(bytes) => image.extend(bytes),
                ChunkRead::Empty => {}
                ChunkRead::Lost => return Err(self.lost(seen)),
            }
            image.resize(end, 0);
        }
        Ok(image)
    }

    pub(super) async fn load(&self, exported: &[u8]) -> Result<()> {
        let (shape, bits) = bloom::open(exported)?;
        self.survey().await?;
        self.check_like(&shape)?;
        for (chunk, bytes) in (0..).zip(bits.chunks(length(CHUNK_BYTES))) {
            self.merge(chunk, bytes.to_vec(), &shape).await?;
        }
        Ok(())
    }

    pub(super) async fn unite(&self, other: &str) -> Result<()> {
        let other = Object { kind: Kind::BloomFilter, name: Name::new(other)? };
        self.survey().await?;
        if other == self.object {
            return Ok(());
        }
        let survey = match self.filtering.steps.survey(&other, None).await? {
            Surveyed::Live(survey) => survey,
            Surveyed::Empty(_) => return Ok(()),
            Surveyed::Lost => return Err(other_lost()),
        };
        let shape = survey.terms.shape;
        self.check_like(&shape)?;
        for (chunk, span) in chunks(&shape) {
            self.engine.shared.check_open()?;
            match self.read(&other, Some(survey.life), chunk, span).await? {
                ChunkRead::Bytes(bytes) => self.merge(chunk, bytes, &shape).await?,
                ChunkRead::Empty => return Ok(()),
                ChunkRead::Lost => return Err(other_lost()),
            }
        }
        Ok(())
    }

    fn check_like(&self, shape: &Shape) -> Result<()> {
        let own = self.seen().terms.shape;
        if own == *shape { Ok(()) } else { Err(mismatch(shape, &own)) }
    }

    async fn read(&self, object: &Object, known: Known, chunk: u64, span: usize) -> Result<ChunkRead> {
        let read = self.filtering.steps.read(object, known, chunk).await?;
        match &read {
            ChunkRead::Bytes(bytes) if bytes.len() > span => {
                Err(Error::new(ErrorKind::Unknown, "the store's answer was longer than what was asked for"))
            }
            _ => Ok(read),
        }
    }

    /// Merges a piece of an image of that shape; nothing to do for one of zeros.
    async fn merge(&self, chunk: u64, bytes: Vec<u8>, shape: &Shape) -> Result<()> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        self.engine.shared.check_open()?;
        let mut merge = Merge { of: self.opening(self.seen()), chunk, bytes };
        loop {
            let seen = self.seen();
            (merge.of.terms, merge.of.known) = (seen.terms, seen.life);
            match self.filtering.steps.merge(&merge).await? {
                Merged::Done(life) => {
                    self.saw(Some(life));
                    return Ok(());
                }
                Merged::Mismatch(stored) => {
                    self.accept(seen.terms, stored)?;
                    self.check_like(shape)?;
                }
                Merged::Lost => return Err(self.lost(seen)),
            }
        }
    }
}

fn other_lost() -> Error {
    Error::new(ErrorKind::StateLost, "a part of the other filter is gone: what it held is not known any more")
}

/// The pieces of an image and their lengths.
fn chunks(shape: &Shape) -> impl Iterator<Item = (u64, usize)> + use<> {
    let bytes = shape.bytes();
    let span = move |chunk: u64| length((bytes - chunk * CHUNK_BYTES).min(CHUNK_BYTES));
    (0..bytes.div_ceil(CHUNK_BYTES)).map(move |chunk| (chunk, span(chunk)))
}

/// A length that this machine can address; no `Vec` is longer than the largest.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX / 2)
}
