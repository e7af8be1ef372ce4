//! Options of a listing.

use super::Cursor;
use crate::{Error, Kind, Name, Result};

/// Which names [`Store::list`](crate::Store::list) returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListOptions {
    /// Only objects of this kind. `None`: of all kinds.
    pub kind: Option<Kind>,
    /// Only names that begin with this text, at most 512 bytes; no character has a special meaning.
    /// Empty: all names.
    pub prefix: String,
    /// About how many names a page has, 1 to 1,000.
    pub page: u32,
    /// Where the listing goes on. `None`: from its beginning.
    pub after: Option<Cursor>,
}

impl Default for ListOptions {
    fn default() -> Self {
        Self { kind: None, prefix: String::new(), page: 100, after: None }
    }
}

impl ListOptions {
    /// Maximum number of names that a page is asked for.
    pub const MAX_PAGE: u32 = 1_000;

    /// Makes the options for all names, about 100 a page.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists objects of one kind only.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Lists names that begin with a text only.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets about how many names a page has, 1 to 1,000.
    #[must_use]
    pub fn page(mut self, page: u32) -> Self {
        self.page = page;
        self
    }

    /// Goes on where an earlier page ended. Give the other options as for that page: otherwise the
    /// two pages do not belong to one complete listing.
    #[must_use]
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Checks every field.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field and its range.
    pub fn check(&self) -> Result<()> {
        if !(1..=Self::MAX_PAGE).contains(&self.page) {
            let detail = format!("a page has 1 to {} names, not {}", Self::MAX_PAGE, self.page);
            return Err(Error::invalid_argument(detail));
        }
        if self.prefix.len() > Name::MAX_BYTES {
            let detail =
                format!("a prefix has at most {} bytes, this one has {}", Name::MAX_BYTES, self.prefix.len());
            return Err(Error::invalid_argument(detail));
        }
        if self.prefix.contains('\0') {
            return Err(Error::invalid_argument("a prefix must not hold NUL"));
        }
        Ok(())
    }
}
