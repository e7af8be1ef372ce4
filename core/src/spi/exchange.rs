//! Releases and acquires that leave in one request.

use super::{Acquire, Acquired, Answers, Kept, Object, Release};
use crate::{Error, ErrorKind, Result, Ttl};

/// One entry of [`PermitSteps::exchange`](super::PermitSteps::exchange).
#[derive(Clone, Debug)]
pub enum Exchange {
    /// A request for permits.
    Acquire(Acquire),
    /// A request to end a hold.
    Release(Release),
}

/// The answer to an [`Exchange`], of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exchanged {
    /// To a request for permits.
    Acquired(Acquired),
    /// To a request to end a hold.
    Kept(Kept),
}

impl Exchange {
    /// The object of the entry.
    #[must_use]
    pub fn object(&self) -> &Object {
        match self {
            Self::Acquire(acquire) => &acquire.object,
            Self::Release(release) => &release.object,
        }
    }

    /// The longest lease of the entries, which limits the time of their request; `None` if one of them is a release, whose
    /// time no lease limits.
    #[must_use]
    pub fn longest_lease(batch: &[Self]) -> Option<Ttl> {
        let leases = batch.iter().map(|entry| match entry {
            Self::Acquire(acquire) => Some(acquire.lease),
            Self::Release(_) => None,
        });
        leases.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// The releases and the acquires of a batch, each in its order.
    #[must_use]
    pub fn split(batch: &[Self]) -> (Vec<Release>, Vec<Acquire>) {
        let (mut releases, mut acquires) = (Vec::new(), Vec::new());
        for entry in batch {
            match entry {
                Self::Release(release) => releases.push(release.clone()),
                Self::Acquire(acquire) => acquires.push(acquire.clone()),
            }
        }
        (releases, acquires)
    }

    /// The answers to the two parts that [`split`](Self::split) made of a batch, in the order of the batch.
    #[must_use]
    pub fn join(batch: &[Self], released: Answers<Kept>, acquired: Answers<Acquired>) -> Answers<Exchanged> {
        let (mut released, mut acquired) = (released.into_iter(), acquired.into_iter());
        let answer = |entry: &Self| {
            let answer = match entry {
                Self::Release(_) => released.next().map(|kept| kept.map(Exchanged::Kept)),
                Self::Acquire(_) => acquired.next().map(|acquired| acquired.map(Exchanged::Acquired)),
            };
            let short = || Err(Error::new(ErrorKind::Unknown, "the store's answer was too short"));
            answer.unwrap_or_else(short)
        };
        batch.iter().map(answer).collect()
    }
}

impl Exchanged {
    /// The answer to a request for permits.
    ///
    /// # Errors
    /// `Unknown` if the store has given the answer of a release.
    pub fn acquired(self) -> Result<Acquired> {
        match self {
            Self::Acquired(acquired) => Ok(acquired),
            Self::Kept(_) => Err(mixed_up()),
        }
    }

    /// The answer to a request to end a hold.
    ///
    /// # Errors
    /// `Unknown` if the store has given the answer of a request for permits.
    pub fn kept(self) -> Result<Kept> {
        match self {
            Self::Kept(kept) => Ok(kept),
            Self::Acquired(_) => Err(mixed_up()),
        }
    }
}

fn mixed_up() -> Error {
    Error::new(ErrorKind::Unknown, "the store's answers are not in the order of the entries")
}
