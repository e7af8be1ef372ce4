//! Names (C19).

use std::time::Duration;

use stanchion_core::{
    BloomOptions, ErrorKind, LimiterOptions, MutexMode, MutexOptions, Quota, SemaphoreOptions, Ticket, Ttl,
    WaitGroupOptions,
};

use crate::harness::Harness;
use crate::support::{kind_of, unique};

/// Returns names that an encoding, a pattern, a path or a query could confuse with another name or
/// with its own syntax.
fn odd_names() -> Vec<String> {
    let odd = [
        " ",
        "  ",
        "a",
        "A",
        "a ",
        " a",
        "a b",
        "a\tb",
        "\n",
        "\r\n",
        "a\nb",
        "\u{1}",
        "\u{7f}",
        "\u{ffff}",
        "{",
        "}",
        "{}",
        "{a}",
        "{a}b",
        "a{b}",
        "{0}",
        "{/0}:layout",
        "layout",
        ":layout",
        "m:a",
        "s:a",
        "m",
        ":",
        "::",
        "a:b",
        "a:b:c",
        "a::b",
        "'",
        "''",
        "\"",
        "`",
        "\\",
        "\\n",
        "\\0",
        "%",
        "%%",
        "%s",
        "%00",
        "%2F",
        "a%20b",
        "+",
        "a+b",
        "*",
        "?",
        "[a]",
        "a*",
        "^$",
        ".*",
        "..",
        ".",
        "/",
        "a/b",
        "a//b",
        "a/",
        "~",
        "$1",
        "$$",
        "#",
        ";",
        "a;b",
        "'; drop table holds; --",
        "--",
        "/*",
        "null",
        "NULL",
        "nil",
        "0",
        "-1",
        "1e9",
        "true",
        "é",
        "e\u{301}",
        "\u{e9}\u{301}",
        "ß",
        "ss",
        "SS",
        "İ",
        "i",
        "\u{200b}",
        "a\u{200b}",
        "\u{202e}a",
        "\u{1f980}",
        "\u{1f468}\u{200d}\u{1f469}",
        "\u{10ffff}",
        "日本",
        "holders",
        "queue",
        "token",
        "wake",
    ];
    let mut names: Vec<_> = odd.into_iter().map(str::to_owned).collect();
    names.extend(["x".repeat(511), "x".repeat(512), format!("{}y", "x".repeat(511)), "é".repeat(256)]);
    names.push(format!("{}{}", "\u{1f980}".repeat(127), "abcd"));
    names
}

/// C19: all names at once, so that two names that alias would conflict, and from two clients.
pub(crate) async fn c19_every_legal_name_is_its_own_mutex(h: &dyn Harness) {
    let (store, other) = (h.store().await, h.store().await);
    let by_session = store.capabilities().mutex_mode == MutexMode::Session;
    let mut held = Vec::new();
    for name in odd_names() {
        let mutex = store.mutex(&name, MutexOptions::default()).expect("a legal name");
        let granted = mutex.try_lock().await.expect("a definite answer");
        held.push((granted.unwrap_or_else(|| panic!("{name:?} is another name's alias")), name));
    }
    for (guard, name) in held {
        let mutex = other.mutex(&name, MutexOptions::default()).expect("a legal name");
        assert_eq!(mutex.name(), name);
        let state = mutex.inspect().await.expect("inspect");
        // A session's hold is known to another process after a while.
        let is_known = |ticket: Option<Ticket>| ticket.map_or(by_session, |ticket| ticket == guard.ticket());
        let tickets: Vec<_> = state.holders.iter().map(|holder| holder.ticket).collect();
        let are_known = tickets.len() == 1 && tickets.iter().copied().all(is_known);
        assert!(are_known, "the same bytes name the same mutex everywhere: {name:?} {tickets:?}");
        guard.release().await.expect("release");
        assert!(mutex.inspect().await.expect("inspect").holders.is_empty());
    }
}

pub(crate) async fn c19_every_legal_name_is_its_own_semaphore(h: &dyn Harness) {
    let (store, other) = (h.store().await, h.store().await);
    let mut held = Vec::new();
    for name in odd_names() {
        let semaphore = store.semaphore(&name, SemaphoreOptions::new(1)).expect("a legal name");
        let granted = semaphore.try_acquire().await.expect("a definite answer");
        held.push((granted.unwrap_or_else(|| panic!("{name:?} is another name's alias")), name));
    }
    for (permit, name) in held {
        let semaphore = other.semaphore(&name, SemaphoreOptions::new(1)).expect("a legal name");
        assert_eq!((semaphore.name(), semaphore.available().await.expect("available")), (name.as_str(), 0));
        permit.release().await.expect("release");
        assert_eq!(semaphore.available().await.expect("available"), 1);
    }
}

pub(crate) async fn c19_every_legal_name_is_its_own_wait_group(h: &dyn Harness) {
    let (store, other) = (h.store().await, h.store().await);
    if !store.capabilities().wait_groups {
        return crate::support::cannot_show("the store declares no wait groups");
    }
    let mut live = Vec::new();
    for name in odd_names() {
        let group = store.wait_group(&name, WaitGroupOptions::default()).expect("a legal name");
        assert_eq!(group.count().await.expect("count"), 0, "{name:?} is another name's alias");
        live.push((group.add().await.expect("add"), name));
    }
    for (member, name) in live {
        let group = other.wait_group(&name, WaitGroupOptions::default()).expect("a legal name");
        assert_eq!((group.name(), group.count().await.expect("count")), (name.as_str(), 1));
        member.done().await.expect("done");
        assert!(group.wait_for(Duration::ZERO).await.expect("wait").is_some());
    }
}

pub(crate) async fn c19_every_legal_name_is_its_own_limiter(h: &dyn Harness) {
    let (store, other) = (h.store().await, h.store().await);
    if !store.capabilities().limiters {
        return crate::support::cannot_show("the store declares no limiters");
    }
    let options = LimiterOptions::new(Quota::per_hour(1));
    for name in odd_names() {
        let limiter = store.limiter(&name, options.clone()).expect("a legal name");
        assert!(limiter.allow().await.expect("a decision").allowed, "{name:?} is another name's alias");
        let limiter = other.limiter(&name, options.clone()).expect("a legal name");
        assert_eq!(limiter.name(), name);
        assert!(!limiter.allow().await.expect("a decision").allowed, "{name:?} is the same everywhere");
    }
}

pub(crate) async fn c19_every_legal_name_is_its_own_filter(h: &dyn Harness) {
    let (store, other) = (h.store().await, h.store().await);
    if !store.capabilities().bloom_filters {
        return crate::support::cannot_show("the store declares no Bloom filters");
    }
    let options = BloomOptions::new(10, 1e-6);
    for name in odd_names() {
        let filter = store.bloom_filter(&name, options.clone()).expect("a legal name");
        assert!(filter.insert(b"a").await.expect("inserted"), "{name:?} is another name's alias");
        let filter = other.bloom_filter(&name, options.clone()).expect("a legal name");
        assert_eq!(filter.name(), name);
        assert!(!filter.insert(b"a").await.expect("inserted"), "{name:?} is the same everywhere");
    }
}

/// C19: a bad name is refused when the object is created, before any I/O, with the same error on
/// every store.
pub(crate) async fn c19_a_bad_name_is_refused(h: &dyn Harness) {
    use stanchion_core::ErrorKind::InvalidArgument;
    let store = h.store().await;
    let capabilities = store.capabilities();
    let long = "x".repeat(513);
    let wide = "é".repeat(257);
    for name in ["", "\0", "a\0", "\0a", "a\0b", &long, &wide] {
        assert_eq!(kind_of(store.mutex(name, MutexOptions::default())), Some(InvalidArgument), "{name:?}");
        assert_eq!(
            kind_of(store.semaphore(name, SemaphoreOptions::new(1))),
            Some(InvalidArgument),
            "{name:?}"
        );
        if capabilities.wait_groups {
            let refused = store.wait_group(name, WaitGroupOptions::default());
            assert_eq!(kind_of(refused), Some(InvalidArgument), "{name:?}");
        }
        if capabilities.limiters {
            let refused = store.limiter(name, LimiterOptions::new(Quota::per_second(1)));
            assert_eq!(kind_of(refused), Some(InvalidArgument), "{name:?}");
        }
    }
}

/// C19: a mutex, a semaphore, a wait group, a limiter and a filter of one name are independent.
pub(crate) async fn c19_kinds_do_not_see_each_other(h: &dyn Harness) {
    let store = h.store().await;
    let capabilities = store.capabilities();
    let name = unique("shared");
    let mutex = store.mutex(&name, MutexOptions::default()).expect("a mutex");
    let semaphore = store.semaphore(&name, SemaphoreOptions::new(2)).expect("a semaphore");
    let guard = mutex.try_lock().await.expect("a definite answer").expect("free");
    let both = semaphore.try_acquire_many(2).await.expect("a definite answer").expect("free");
    if capabilities.wait_groups {
        let group = store.wait_group(&name, WaitGroupOptions::default()).expect("a wait group");
        assert_eq!(group.count().await.expect("count"), 0);
        group.add().await.expect("add").done().await.expect("done");
    }
    if capabilities.limiters {
        let limiter = store.limiter(&name, LimiterOptions::new(Quota::per_hour(1))).expect("a limiter");
        assert!(limiter.allow().await.expect("a decision").allowed);
        limiter.reset().await.expect("reset");
    }
    if capabilities.bloom_filters {
        let filter = store.bloom_filter(&name, BloomOptions::new(10, 1e-6)).expect("a filter");
        assert!(filter.insert(b"a").await.expect("inserted"));
        filter.clear().await.expect("clear");
    }
    assert_eq!(mutex.inspect().await.expect("inspect").holders.len(), 1);
    let guard = if capabilities.detach {
        let detached = guard.detach(Ttl::DEFAULT).await.expect("detach");
        let attached = kind_of(semaphore.attach(&detached).await);
        assert_eq!(attached, Some(ErrorKind::InvalidArgument), "a mutex's hold is nothing to a semaphore");
        mutex.attach(&detached).await.expect("attach")
    } else {
        guard
    };
    assert!(!semaphore.force_release(guard.ticket()).await.expect("force"));
    assert!(mutex.force_unlock().await.expect("force"));
    assert_eq!(semaphore.available().await.expect("available"), 0, "the semaphore is untouched");
    both.release().await.expect("release");
    drop(guard);
}
