//! The options and the results of `Store::list`.

mod cursor;
mod options;
mod pages;

use std::time::Duration;

pub use self::cursor::Cursor;
pub use self::options::ListOptions;
pub use self::pages::Pages;
use crate::{Kind, Name};

/// A name that has state, as [`Store::list`](crate::Store::list) returns it. A figure is `None` if
/// the store cannot read it cheaply, or if the kind has no such figure.
///
/// The figures of one name are of one instant of store time; the figures of two names may be of
/// different instants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The kind of the object.
    pub kind: Kind,
    /// Its name.
    pub name: Name,
    /// Number of holds that have not expired: of a mutex 0 or 1.
    pub holders: Option<u64>,
    /// Permits or members that these holds have together.
    pub weight: Option<u64>,
    /// Number of queued acquisitions. Acquisitions of silent processes count as in
    /// [`Inspection::waiters`](crate::Inspection::waiters), but in a long queue until a request
    /// comes upon them.
    pub waiters: Option<u64>,
    /// The limit in force: 1 for a mutex, the permits of a semaphore, the member limit of a wait
    /// group, the burst of a limiter, the capacity of a Bloom filter.
    pub limit: Option<u64>,
    /// Whole tokens of a limiter that can be taken at once.
    pub tokens: Option<u64>,
    /// Time since the last use, by the store's clock: 0 while the name is held or waited for;
    /// otherwise since a hold ended or a limiter was asked to take.
    pub last_used: Option<Duration>,
}

impl Listed {
    /// Makes a name without figures; set the fields that are known.
    #[must_use]
    pub fn new(kind: Kind, name: Name) -> Self {
        Self {
            kind,
            name,
            holders: None,
            weight: None,
            waiters: None,
            limit: None,
            tokens: None,
            last_used: None,
        }
    }
}

/// A part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPage {
    /// The names, in no particular order. There may be none although the listing goes on.
    pub entries: Vec<Listed>,
    /// Where the listing goes on; `None` at its end.
    pub next: Option<Cursor>,
}

impl ListPage {
    /// Makes a page.
    #[must_use]
    pub fn new(entries: Vec<Listed>, next: Option<Cursor>) -> Self {
        Self { entries, next }
    }
}
