//! The answers of the store at a moment.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use stanchion::spi::clock;
use stanchion::{Holder, Kind, ListOptions, Listed, Store, StoreExt as _};
use stanchion_web::Overview;

use crate::errors;

/// Maximum number of names that are shown: a screen is no place for more.
const MOST: usize = 2_000;

/// A name, as an index of rows.
pub(super) type Key = (Kind, String);

/// A name with its holders, where they were asked for.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) listed: Listed,
    pub(super) holders: Vec<Holder>,
}

impl Row {
    pub(super) fn key(&self) -> Key {
        (self.listed.kind, self.listed.name.as_str().to_owned())
    }

    pub(super) fn waiters(&self) -> u64 {
        self.listed.waiters.unwrap_or_default()
    }
}

/// The names at a moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) rows: Vec<Row>,
    /// There are more names than are shown.
    pub(super) is_cut: bool,
    /// Why this is not all, or not new.
    pub(super) error: Option<String>,
    /// How long it took.
    pub(super) took: Duration,
    /// When the store answered with the holders.
    pub(super) at: Instant,
}

/// Looks at the store. The holders of the names on the screen are asked for, too.
pub(super) async fn take(store: &dyn Store, prefix: &str, on_screen: Vec<Key>) -> Snapshot {
    let start = clock::now();
    let (mut listed, mut error, mut is_cut) = (HashMap::new(), None, false);
    match Overview::take(store, &ListOptions::new().prefix(prefix), MOST).await {
        Ok(overview) => {
            is_cut = overview.is_cut;
            listed.extend(overview.names.into_iter().map(|seen| (key(&seen.listed), seen.listed)));
        }
        Err(cause) => error = Some(errors::text(&cause)),
    }
    let mut held = HashMap::new();
    for key in on_screen {
        if listed.get(&key).is_some_and(|one| one.holders != Some(0)) && error.is_none() {
            match store.inspect(key.0, &key.1).await {
                Ok(state) => drop(held.insert(key, state.holders)),
                Err(cause) => error = Some(errors::text(&cause)),
            }
        }
    }
    let row = |(key, listed)| Row { listed, holders: held.remove(&key).unwrap_or_default() };
    let rows = listed.into_iter().map(row).collect();
    Snapshot { rows, is_cut, error, took: start.elapsed(), at: clock::real().into_std() }
}

fn key(listed: &Listed) -> Key {
    (listed.kind, listed.name.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use stanchion::SemaphoreOptions;
    use stanchion::memory::MemoryStore;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test owns its runtime")]
    fn idle_names_hide_none_that_is_held() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::new();
            for number in 0..MOST + 1_100 {
                let semaphore = store.semaphore(&format!("a {number}"), SemaphoreOptions::new(1)).unwrap();
                semaphore.acquire().await.unwrap().release().await.unwrap();
            }
            let permit = store.semaphore("z", SemaphoreOptions::new(2)).unwrap().acquire().await.unwrap();
            let key = (Kind::Semaphore, "z".to_owned());
            let seen = take(&store, "", vec![key.clone()]).await;
            assert_eq!((seen.rows.len(), seen.is_cut), (MOST, true));
            let row = seen.rows.iter().find(|row| row.key() == key).unwrap();
            assert_eq!(row.holders[0].ticket, Some(permit.ticket()));
        });
    }
}
