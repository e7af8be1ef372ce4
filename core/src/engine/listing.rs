//! Lists names, page by page.

use std::time::Duration;

use super::Engine;
use crate::clock::now;
use crate::spi::{List, StepsExt};
use crate::{Cursor, Error, ErrorKind, ListOptions, ListPage, Result};

/// Time after which a page ends with the names that were found so far, so that a caller gets its
/// first names soon on a server with many keys of others.
const PAGE_TIME: Duration = Duration::from_millis(100);

impl Engine {
    /// Returns a page of the names that have state: see [`Store::list`](crate::Store::list).
    ///
    /// # Errors
    /// As the step; `InvalidArgument`, `Closed`; `Unsupported` on a store that does not list.
    pub async fn list(&self, options: ListOptions) -> Result<ListPage> {
        let page = async {
            options.check()?;
            self.handle.shared.check_open()?;
            if self.capabilities().listing { self.page(&options).await } else { Err(unsupported()) }
        };
        self.handle.shared.on(page).await.map_err(|error| self.context("list", "", error))
    }

    async fn page(&self, options: &ListOptions) -> Result<ListPage> {
        let shared = &self.handle.shared;
        let position =
            |cursor: &Cursor| cursor.position(shared.store(), &shared.namespace).map(str::to_owned);
        let after = options.after.as_ref().map(position).transpose()?;
        let wanted = usize::try_from(options.page).unwrap_or(usize::MAX);
        let mut list = List { kind: options.kind, prefix: options.prefix.clone(), count: wanted, after };
        let (mut entries, end) = (Vec::new(), now() + PAGE_TIME);
        loop {
            let part = shared.steps.ask(list.clone()).await?;
            shared.check_open()?;
            entries.extend(part.entries);
            if part.next.is_none() || entries.len() >= wanted || now() >= end {
                let next = part.next.map(|next| Cursor::new(shared.store(), &shared.namespace, &next));
                return Ok(ListPage::new(entries, next));
            }
            list.count = wanted - entries.len();
            list.after = part.next;
        }
    }
}

/// Returns the error of a store that does not list.
pub(crate) fn unsupported() -> Error {
    Error::new(ErrorKind::Unsupported, "this store does not list names")
}
