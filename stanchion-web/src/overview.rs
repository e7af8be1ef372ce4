//! The names of a look at a store that may have more of them than can be shown.

use std::collections::BTreeMap;
use std::slice;

use stanchion_core::clock::{Instant, now};
use stanchion_core::{Kind, ListOptions, Listed, Result, Store, StoreExt as _};

use crate::row::has_holders;

/// A name of a store, and when this process learned of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Seen {
    /// The figures of the name.
    pub listed: Listed,
    /// When the store answered.
    pub at: Instant,
}

/// A bounded number of the names that have state. Where there are more, names in use come before
/// idle ones.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Overview {
    /// The names, each once, in no particular order.
    pub names: Vec<Seen>,
    /// Whether there are names that are left out.
    pub is_cut: bool,
}

type Names = BTreeMap<(Kind, String), Seen>;

impl Overview {
    /// Looks at the names of a store with this kind and prefix, `most` of them at most.
    ///
    /// It costs as much as [`Store::list`] does. Where there are more names, each kind is listed by
    /// itself as well, and has an equal share of the names: of mutexes, semaphores and wait groups
    /// those that are held or waited for. So no number of idle names hides one in use, unless more
    /// of its kind are in use than the share. The rest goes to other names in use, then to idle
    /// ones.
    ///
    /// # Errors
    /// As [`Store::list`].
    ///
    /// # Cancel safety
    /// Nothing changes.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion_core::Result<()> {
    /// use stanchion_core::{Kind, ListOptions, Store};
    /// use stanchion_web::Overview;
    ///
    /// let store = stanchion_memory::MemoryStore::new();
    /// let guard = store.mutex("report", Default::default())?.lock().await?;
    /// let seen = Overview::take(&store, &ListOptions::new(), 2_000).await?;
    /// assert_eq!((seen.names[0].listed.kind, seen.is_cut), (Kind::Mutex, false));
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(store: &dyn Store, scope: &ListOptions, most: usize) -> Result<Self> {
        let options = scope.clone().page(ListOptions::MAX_PAGE);
        let mut names = Names::new();
        let mut pages = store.pages(options.clone());
        while names.len() <= most {
            let Some(page) = pages.next().await? else {
                return Ok(Self { names: names.into_values().collect(), is_cut: false });
            };
            // A name may come twice.
            page.entries.into_iter().for_each(|listed| drop(add(&mut names, listed)));
        }
        let kinds = scope.kind.as_ref().map_or(Kind::ALL, slice::from_ref);
        let share = (most / kinds.len()).max(1);
        for &kind in kinds {
            let mut pages = store.pages(options.clone().kind(kind));
            let mut kept = count(&names, kind, |_| true);
            while count(&names, kind, matters) < share {
                let Some(page) = pages.next().await? else { break };
                for listed in page.entries {
                    if matters(&listed) || kept < share {
                        kept += usize::from(add(&mut names, listed).is_none());
                    }
                }
            }
        }
        Ok(Self { names: chosen(names, share, most), is_cut: true })
    }
}

/// Adds a name. Returns the earlier entry of it.
fn add(names: &mut Names, listed: Listed) -> Option<Seen> {
    names.insert((listed.kind, listed.name.as_str().to_owned()), Seen { listed, at: now() })
}

/// Returns whether its kind's share is for that name. A name of unknown use counts as in use.
fn matters(listed: &Listed) -> bool {
    !has_holders(listed.kind.as_str())
        || listed.holders != Some(0)
        || listed.waiters.is_some_and(|waiters| waiters > 0)
}

fn count(names: &Names, kind: Kind, is_meant: fn(&Listed) -> bool) -> usize {
    names.values().filter(|seen| seen.listed.kind == kind && is_meant(&seen.listed)).count()
}

/// Returns the names of each kind's share, then others in use, then the rest.
fn chosen(names: Names, share: usize, most: usize) -> Vec<Seen> {
    let mut taken = BTreeMap::<Kind, usize>::new();
    let mut ranked: Vec<_> =
        names.into_values().map(|seen| (rank(&seen.listed, &mut taken, share), seen)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.truncate(most);
    ranked.into_iter().map(|(_, seen)| seen).collect()
}

fn rank(listed: &Listed, taken: &mut BTreeMap<Kind, usize>, share: usize) -> u8 {
    if !matters(listed) {
        return 2;
    }
    let taken = taken.entry(listed.kind).or_default();
    *taken += 1;
    match (*taken <= share, has_holders(listed.kind.as_str())) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests own their runtimes")]
mod tests {
    use stanchion_core::{LimiterOptions, MutexOptions, Name, Quota, SemaphoreOptions, WaitGroupOptions};
    use stanchion_memory::MemoryStore;

    use super::*;

    const MOST: usize = 20;

    fn kinds(overview: &Overview) -> BTreeMap<Kind, usize> {
        let mut kinds = BTreeMap::new();
        overview.names.iter().for_each(|seen| *kinds.entry(seen.listed.kind).or_default() += 1);
        kinds
    }

    /// Makes idle limiters and semaphores, whose names sort before all others, and more than a page
    /// of them.
    async fn crowd(store: &dyn Store) {
        for number in 0..1_500 {
            let name = format!("a {number}");
            store.limiter(&name, LimiterOptions::new(Quota::per_hour(1))).unwrap().allow().await.unwrap();
            let semaphore = store.semaphore(&name, SemaphoreOptions::new(1)).unwrap();
            semaphore.acquire().await.unwrap().release().await.unwrap();
        }
    }

    #[tokio::test]
    async fn idle_names_hide_none_in_use() {
        let store = MemoryStore::new();
        crowd(&store).await;
        let guard = store.mutex("z", MutexOptions::new()).unwrap().lock().await.unwrap();
        let permit = store.semaphore("z", SemaphoreOptions::new(2)).unwrap().acquire().await.unwrap();
        let member = store.wait_group("z", WaitGroupOptions::new()).unwrap().add().await.unwrap();
        let all = Overview::take(&store, &ListOptions::new(), MOST).await.unwrap();
        assert_eq!((all.names.len(), all.is_cut), (MOST, true));
        for kind in [Kind::Mutex, Kind::Semaphore, Kind::WaitGroup] {
            let seen =
                all.names.iter().find(|seen| seen.listed.kind == kind && seen.listed.name.as_str() == "z");
            assert_eq!(seen.and_then(|seen| seen.listed.holders), Some(1), "{kind:?}");
        }
        assert!(kinds(&all)[&Kind::Limiter] >= MOST / 5, "limiters have a share, too: {:?}", kinds(&all));
        let some = Overview::take(&store, &ListOptions::new().kind(Kind::Semaphore), MOST).await.unwrap();
        assert_eq!((some.names.len(), some.is_cut), (MOST, true));
        assert!(some.names.iter().any(|seen| seen.listed.name.as_str() == "z"));
        let whole = Overview::take(&store, &ListOptions::new().prefix("z"), MOST).await.unwrap();
        assert_eq!((whole.names.len(), whole.is_cut), (3, false));
        drop((guard, permit, member));
    }

    #[test]
    fn names_in_use_go_before_idle_ones_and_beyond_their_share() {
        let seen = |kind, number: usize, holders| {
            let mut listed = Listed::new(kind, Name::new(&format!("{number:02}")).unwrap());
            listed.holders = holders;
            Seen { listed, at: now() }
        };
        let mut names = Names::new();
        for number in 0..20 {
            for seen in [
                seen(Kind::Mutex, number, Some(u64::from(number % 2 == 0))),
                seen(Kind::Limiter, number, None),
            ] {
                names.insert((seen.listed.kind, number.to_string()), seen);
            }
        }
        let chosen = chosen(names, 4, 16);
        let of = |kind| chosen.iter().filter(move |seen| seen.listed.kind == kind);
        assert_eq!((of(Kind::Mutex).count(), of(Kind::Limiter).count()), (12, 4));
        assert_eq!(of(Kind::Mutex).filter(|seen| seen.listed.holders == Some(1)).count(), 10);
    }
}
