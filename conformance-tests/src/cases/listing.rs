//! Listings of the names with state.

use std::collections::BTreeMap;
use std::sync::Arc;

use stanchion_core::{
    BloomOptions, Cursor, ErrorKind, Kind, LimiterOptions, ListOptions, Listed, Mutex, MutexGuard,
    MutexOptions, Name, Quota, SemaphoreOptions, Store, StoreExt, WaitGroupOptions,
};

use crate::harness::Harness;
use crate::support::{
    EPSILON, POLL_FLOOR, QUEUED, eventually, kind_of, queue_of, spawn, tenant, unique, unrenewed, within,
};

type Names = BTreeMap<(Kind, String), Listed>;

/// Returns the names of all pages, without doubles, and the number of pages.
async fn all_pages(store: &dyn Store, options: ListOptions) -> (Names, usize) {
    let (mut names, mut count, mut pages) = (Names::new(), 0, store.pages(options));
    while let Some(page) = pages.next().await.expect("a page") {
        names.extend(page.entries.into_iter().map(|listed| ((listed.kind, listed.name.to_string()), listed)));
        count += 1;
    }
    (names, count)
}

async fn all(store: &dyn Store, prefix: &str) -> Names {
    all_pages(store, ListOptions::new().prefix(prefix)).await.0
}

/// Waits until a name is listed: a database session's hold is written down a while after its grant.
async fn appears(store: &dyn Store, kind: Kind, name: &str) -> Listed {
    let key = (kind, name.to_owned());
    eventually(POLL_FLOOR + EPSILON, "it is listed", || async { all(store, name).await.contains_key(&key) })
        .await;
    all(store, name).await.remove(&key).expect("it stays listed")
}

fn mutex(store: &dyn Store, name: &str) -> Arc<dyn Mutex> {
    store.mutex(name, MutexOptions::default()).expect("a mutex")
}

async fn held(store: &dyn Store, name: &str) -> MutexGuard {
    within(QUEUED, "a lock", mutex(store, name).lock()).await.expect("lock")
}

/// Asserts what holds for a name that is held.
fn assert_held(listed: &Listed, (holders, weight): (u64, u64), limit: Option<u64>) {
    assert_eq!((listed.holders, listed.weight), (Some(holders), Some(weight)), "{listed:?}");
    assert_eq!(listed.limit, limit, "{listed:?}");
    assert!(listed.last_used.is_none_or(|used| used.is_zero()), "it is in use: {listed:?}");
}

pub(crate) async fn c23_holders_and_waiters_are_told(h: &dyn Harness) {
    let (one, other, name) = (h.store().await, h.store().await, unique("listed"));
    let guard = held(one.as_ref(), &name).await;
    assert_held(&appears(other.as_ref(), Kind::Mutex, &name).await, (1, 1), Some(1));
    let waiting = mutex(other.as_ref(), &name);
    let waiter = spawn(async move { waiting.lock().await });
    queue_of(&mutex(one.as_ref(), &name), 1, QUEUED).await;
    let listed = appears(other.as_ref(), Kind::Mutex, &name).await;
    assert_held(&listed, (1, 1), Some(1));
    assert_eq!(listed.waiters, Some(1));
    drop(waiter);
    let semaphore = one.semaphore(&name, SemaphoreOptions::new(5)).expect("a semaphore");
    let permits = [
        semaphore.acquire_many(3).await.expect("three permits"),
        semaphore.acquire().await.expect("a permit"),
    ];
    let listed = appears(other.as_ref(), Kind::Semaphore, &name).await;
    assert_held(&listed, (2, 4), Some(5));
    assert_eq!(listed.waiters, Some(0));
    // A semaphore that nobody uses keeps its limit.
    for permit in permits {
        permit.release().await.expect("release");
    }
    let listed = appears(other.as_ref(), Kind::Semaphore, &name).await;
    assert_eq!((listed.holders, listed.weight, listed.limit), (Some(0), Some(0), Some(5)));
    guard.release().await.expect("release");
}

pub(crate) async fn c23_every_kind_is_listed(h: &dyn Harness) {
    let (one, other, name) = (h.store().await, h.store().await, unique("kinds"));
    let capabilities = one.capabilities();
    let guard = held(one.as_ref(), &name).await;
    appears(other.as_ref(), Kind::Mutex, &name).await;
    let semaphore = one.semaphore(&name, SemaphoreOptions::new(2)).expect("a semaphore");
    let permit = semaphore.acquire().await.expect("a permit");
    let (mut members, mut expected) = (Vec::new(), vec![Kind::Mutex, Kind::Semaphore]);
    if capabilities.wait_groups {
        let group = one.wait_group(&name, WaitGroupOptions::default()).expect("a group");
        members.extend([group.add().await.expect("a member"), group.add().await.expect("a member")]);
        expected.push(Kind::WaitGroup);
        assert_held(&appears(other.as_ref(), Kind::WaitGroup, &name).await, (2, 2), None);
    }
    if capabilities.limiters {
        let quota = LimiterOptions::new(Quota::per_hour(1).burst(10));
        let limiter = one.limiter(&name, quota).expect("a limiter");
        assert!(limiter.allow_n(3).await.expect("a decision").allowed);
        expected.push(Kind::Limiter);
        let listed = appears(other.as_ref(), Kind::Limiter, &name).await;
        assert_eq!((listed.limit, listed.tokens, listed.holders), (Some(10), Some(7), None), "{listed:?}");
    }
    if capabilities.bloom_filters {
        let filter = one.bloom_filter(&name, BloomOptions::new(1_000, 0.01)).expect("a filter");
        assert!(filter.insert(b"an item").await.expect("an answer"));
        expected.push(Kind::BloomFilter);
        assert_eq!(appears(other.as_ref(), Kind::BloomFilter, &name).await.limit, Some(1_000));
        filter.clear().await.expect("clear");
        let cleared =
            all_pages(other.as_ref(), ListOptions::new().kind(Kind::BloomFilter).prefix(&name)).await;
        assert!(cleared.0.is_empty(), "a cleared filter has no bits: {cleared:?}");
        assert!(filter.insert(b"an item").await.expect("an answer"));
    }
    let listed: Vec<Kind> = all(other.as_ref(), &name).await.into_keys().map(|(kind, _)| kind).collect();
    assert_eq!(listed, expected);
    for kind in expected {
        let options = ListOptions::new().kind(kind).prefix(&name);
        let listed: Vec<_> = all_pages(other.as_ref(), options).await.0.into_keys().collect();
        assert_eq!(listed, [(kind, name.clone())]);
    }
    drop((permit, members));
    guard.release().await.expect("release");
}

pub(crate) async fn c19_names_and_prefixes_are_taken_as_they_are(h: &dyn Harness) {
    let (one, other, base) = (h.store().await, h.store().await, unique("odd"));
    let long = "x".repeat(Name::MAX_BYTES - base.len());
    let odd = [
        "",
        "*",
        "**",
        "?",
        "[a-z]",
        "[^x]",
        "[",
        "]",
        "\\",
        "\\*",
        "a\\b",
        "%",
        "_",
        "%s",
        "'",
        "\"",
        "$1",
        "{}",
        "}:m:x",
        ":",
        "a:b",
        " ",
        "a",
        "A",
        "é",
        "日本",
        "🦀",
        "\n",
        "\u{1b}[31m",
        "\u{7f}",
        "\u{10ffff}",
        &long,
    ];
    let names: Vec<String> = odd.iter().map(|odd| format!("{base}{odd}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(held(one.as_ref(), name).await);
    }
    let are_all = async || all(other.as_ref(), &base).await.len() == names.len();
    eventually(POLL_FLOOR + EPSILON, "all are listed", are_all).await;
    for prefix in &names {
        let mut expected: Vec<&String> = names.iter().filter(|name| name.starts_with(prefix)).collect();
        expected.sort();
        let listed = all(other.as_ref(), prefix).await;
        assert_eq!(listed.keys().map(|(_, name)| name).collect::<Vec<_>>(), expected, "of {prefix:?}");
    }
    for guard in guards {
        guard.release().await.expect("release");
    }
}

/// Names that stay are listed while others come and go, with pages as small as they can be.
pub(crate) async fn c23_a_name_that_stays_is_on_a_page(h: &dyn Harness) {
    let (one, other, base) = (h.store().await, h.store().await, unique("stay"));
    let (mut guards, mut permits, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..30 {
        let name = format!("{base}/{number}");
        guards.push(held(one.as_ref(), &name).await);
        let semaphore = one.semaphore(&name, SemaphoreOptions::new(2)).expect("a semaphore");
        permits.push(semaphore.acquire().await.expect("a permit"));
        expected.extend([(Kind::Mutex, name.clone()), (Kind::Semaphore, name)]);
    }
    let are_all = async || all(other.as_ref(), &base).await.len() >= expected.len();
    eventually(POLL_FLOOR + EPSILON, "all are listed", are_all).await;
    let (churning, names) = (Arc::clone(&one), base.clone());
    let churn = spawn(async move {
        for number in 0_u64.. {
            let guard = held(churning.as_ref(), &format!("{names}/x{}", number % 100)).await;
            guard.release().await.expect("release");
            // In this process nothing waits for an answer.
            tokio::task::yield_now().await;
        }
    });
    for page in [1, 2, 1_000] {
        let (listed, pages) = all_pages(other.as_ref(), ListOptions::new().prefix(&base).page(page)).await;
        let missing: Vec<_> = expected.iter().filter(|name| !listed.contains_key(*name)).collect();
        assert!(missing.is_empty(), "pages of {page}: {missing:?} of {pages} pages");
        assert!(page > 2 || pages > 1, "a page is about as long as it is asked to be");
    }
    churn.cancel().await;
    drop((guards, permits));
}

pub(crate) async fn c19_a_listing_goes_on_from_the_text_of_its_cursor(h: &dyn Harness) {
    let (one, other, base) = (h.store().await, h.store().await, unique("text"));
    let mut permits = Vec::new();
    for number in 0..20 {
        let semaphore =
            one.semaphore(&format!("{base}{number}"), SemaphoreOptions::new(1)).expect("a semaphore");
        permits.push(semaphore.acquire().await.expect("a permit"));
    }
    let (mut names, mut options) = (Vec::new(), ListOptions::new().prefix(&base).page(3));
    // Another store object each time, as another run of a program.
    for store in [&one, &other].into_iter().cycle() {
        let page = store.list(options.clone()).await.expect("a page");
        names.extend(page.entries.into_iter().map(|listed| listed.name.to_string()));
        let Some(next) = page.next else { break };
        options = options.after(next.to_string().parse::<Cursor>().expect("a cursor"));
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), permits.len());
}

pub(crate) async fn c25_a_free_mutex_is_not_listed(h: &dyn Harness) {
    let (one, other, name) = (h.store().await, h.store().await, unique("freed"));
    let guard = held(one.as_ref(), &name).await;
    appears(other.as_ref(), Kind::Mutex, &name).await;
    let waiting = mutex(other.as_ref(), &name);
    let waiter = spawn(async move { waiting.lock().await });
    queue_of(&mutex(one.as_ref(), &name), 1, QUEUED).await;
    guard.release().await.expect("release");
    let guard = within(QUEUED, "the lock", waiter.join()).await.expect("lock");
    guard.release().await.expect("release");
    assert!(all(one.as_ref(), &name).await.is_empty(), "nobody holds it or waits for it");
}

pub(crate) async fn c23_an_expired_hold_is_not_listed(h: &dyn Harness) {
    let (one, other, name) = (h.store().await, h.store().await, unique("expired"));
    let mut options = SemaphoreOptions::new(3);
    options.hold = unrenewed(h.ttl());
    let semaphore = one.semaphore(&name, options).expect("a semaphore");
    let forgotten = semaphore.acquire_many(2).await.expect("two permits");
    std::mem::forget(forgotten);
    assert_held(&appears(other.as_ref(), Kind::Semaphore, &name).await, (1, 2), Some(3));
    let key = (Kind::Semaphore, name.clone());
    let is_free =
        async || all(other.as_ref(), &name).await.get(&key).is_none_or(|listed| listed.holders == Some(0));
    eventually(h.ttl() + EPSILON, "its lease ends", is_free).await;
    let listed = all(other.as_ref(), &name).await;
    assert!(listed.values().all(|listed| listed.weight == Some(0)), "{listed:?}");
}

/// A handle makes no state, and neither does a look.
pub(crate) async fn c20_c25_a_name_without_state_is_not_listed(h: &dyn Harness) {
    let (store, name) = (h.store().await, unique("looked at"));
    let semaphore = store.semaphore(&name, SemaphoreOptions::new(2)).expect("a semaphore");
    assert_eq!(semaphore.available().await.expect("an answer"), 2);
    mutex(store.as_ref(), &name).inspect().await.expect("an answer");
    let capabilities = store.capabilities();
    if capabilities.wait_groups {
        let group = store.wait_group(&name, WaitGroupOptions::default()).expect("a group");
        assert_eq!(group.count().await.expect("an answer"), 0);
    }
    if capabilities.limiters {
        let limiter = store.limiter(&name, LimiterOptions::new(Quota::per_second(1))).expect("a limiter");
        limiter.peek().await.expect("an answer");
    }
    let listed = all(store.as_ref(), &name).await;
    assert!(listed.is_empty(), "{listed:?}");
}

pub(crate) async fn c28_other_namespaces_are_not_listed(h: &dyn Harness) {
    let (store, name) = (h.store().await, unique("the same"));
    if !store.capabilities().namespaces {
        return;
    }
    let tenant = tenant("listed");
    // One name is the beginning of the other.
    let views = [store.namespace(&tenant).await, store.namespace(&format!("{tenant}x")).await];
    let views = views.map(|view| view.expect("a view"));
    for view in &views {
        assert!(all(view.as_ref(), "").await.is_empty(), "nobody has used it");
    }
    let semaphore = views[1].semaphore(&name, SemaphoreOptions::new(1)).expect("a semaphore");
    let permit = semaphore.acquire().await.expect("a permit");
    assert_eq!(all(views[1].as_ref(), "").await.len(), 1);
    assert!(all(views[0].as_ref(), "").await.is_empty());
    assert!(all(store.as_ref(), &name).await.is_empty());
    let cursor = Cursor::new(store.capabilities().store, &tenant, "0");
    let refused = views[1].list(ListOptions::new().after(cursor)).await;
    assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument), "the cursor of another namespace");
    permit.release().await.expect("release");
}

pub(crate) async fn c19_a_bad_listing_is_refused(h: &dyn Harness) {
    let store = h.store().await;
    let long = "x".repeat(Name::MAX_BYTES + 1);
    for (what, options) in [
        ("no name", ListOptions::new().page(0)),
        ("too many names", ListOptions::new().page(ListOptions::MAX_PAGE + 1)),
        ("a prefix longer than a name", ListOptions::new().prefix(long)),
        ("a prefix with NUL", ListOptions::new().prefix("a\0")),
        ("a cursor of another store", ListOptions::new().after(Cursor::new("another", "stanchion", "0"))),
    ] {
        let refused = store.list(options).await.expect_err(what);
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{what}");
        assert_eq!(refused.operation(), Some("list"), "{what}");
    }
    // A position that no page has given, in this store's own namespace.
    let base = unique("cursor");
    for number in 0..2 {
        let semaphore =
            store.semaphore(&format!("{base}{number}"), SemaphoreOptions::new(1)).expect("a semaphore");
        semaphore.acquire().await.expect("a permit").release().await.expect("release");
    }
    let page = store.list(ListOptions::new().prefix(&base).page(1)).await.expect("a page");
    let Some(next) = page.next else { return };
    let text = next.to_string();
    let (known, _) = text.rsplit_once(':').expect("a store, a namespace and a position");
    for position in ["", "zz", "-1", "18446744073709551616", "m", "99:9:9:9", "é"] {
        let digits: String = position.bytes().map(|byte| format!("{byte:02x}")).collect();
        let cursor = format!("{known}:{digits}").parse::<Cursor>().expect("a cursor");
        let refused = store.list(ListOptions::new().after(cursor)).await;
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument), "{position:?}");
    }
}

pub(crate) async fn c12_a_closed_store_lists_nothing(h: &dyn Harness) {
    let store = h.store().await;
    store.close().await.expect("close");
    assert_eq!(kind_of(store.list(ListOptions::new()).await), Some(ErrorKind::Closed));
}
