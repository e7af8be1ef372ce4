//! All pages of a listing.

use super::{ListOptions, ListPage};
use crate::{Result, Store};

/// The pages of a listing, one after the other, as [`StoreExt::pages`](crate::StoreExt::pages)
/// makes them.
#[derive(Debug)]
pub struct Pages<'a, S: ?Sized> {
    store: &'a S,
    /// `None` after the last page.
    options: Option<ListOptions>,
}

impl<'a, S: Store + ?Sized> Pages<'a, S> {
    pub(crate) fn new(store: &'a S, options: ListOptions) -> Self {
        Self { store, options: Some(options) }
    }

    /// Returns the next page; `None` after the last one.
    ///
    /// # Errors
    /// As [`Store::list`]. The next call asks for the same page again.
    ///
    /// # Cancel safety
    /// After a dropped call, the next one asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<ListPage>> {
        let Some(options) = &self.options else { return Ok(None) };
        let page = self.store.list(options.clone()).await?;
        self.options = page.next.clone().map(|next| options.clone().after(next));
        Ok(Some(page))
    }
}
