//! Names of objects and their kinds.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// The kind of an object. A mutex and a semaphore may share a name: they are different objects
/// ([C19]).
///
/// [C19]: crate::contract#c19
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// A semaphore.
    Semaphore,
    /// A wait group.
    WaitGroup,
    /// A rate limiter.
    Limiter,
    /// A Bloom filter.
    BloomFilter,
}

impl Kind {
    /// All kinds.
    pub const ALL: &'static [Self] =
        &[Self::Mutex, Self::Semaphore, Self::WaitGroup, Self::Limiter, Self::BloomFilter];

    /// Returns the word that logs, metrics and written tickets use: `mutex`, `semaphore`,
    /// `wait_group`, `limiter`, `bloom_filter`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Semaphore => "semaphore",
            Self::WaitGroup => "wait_group",
            Self::Limiter => "limiter",
            Self::BloomFilter => "bloom_filter",
        }
    }

    /// Returns a letter for keys and channels: `m`, `s`, `w`, `l`, `b`.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Mutex => 'm',
            Self::Semaphore => 's',
            Self::WaitGroup => 'w',
            Self::Limiter => 'l',
            Self::BloomFilter => 'b',
        }
    }

    /// Returns the kind with that [`letter`](Self::letter); `None` for any other text.
    #[must_use]
    pub fn of_letter(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| text.chars().eq([kind.letter()]))
    }
}

/// A checked name: 1 to 512 bytes of UTF-8 without NUL ([C19]).
///
/// Every such text is legal, distinct names never alias, and the same bytes name the same object on
/// every store. Cloning shares the text.
///
/// [C19]: crate::contract#c19
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// Maximum length of a name, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks a name.
    ///
    /// # Errors
    /// `InvalidArgument` if it is empty, longer than [`MAX_BYTES`](Self::MAX_BYTES) or holds NUL.
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() {
            return Err(Error::invalid_argument("a name must not be empty"));
        }
        if name.len() > Self::MAX_BYTES {
            let detail = format!("a name has at most {} bytes, this one has {}", Self::MAX_BYTES, name.len());
            return Err(Error::invalid_argument(detail));
        }
        if name.contains('\0') {
            return Err(Error::invalid_argument("a name must not hold NUL"));
        }
        Ok(Self(Arc::from(name)))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
