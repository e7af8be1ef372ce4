//! The ends of leases as waiters see them: on time, for a few wake-ups, and on any executor.

use std::mem::forget;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::*;
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::drive_bare;
use stanchion_core::{MutexOptions, SemaphoreOptions, Store, WaitGroupOptions};
use stanchion_memory::MemoryStore;

const SHORT: Duration = Duration::from_millis(100);
/// Long enough for everything that has to happen before its end, unless the machine stands still.
const LEASE: Duration = Duration::from_secs(1);
const WAITERS: usize = 2_000;

/// Waits until that happens.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if happened() {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("{what}");
}

/// Returns the number of wake-ups for three grants, each at the end of a lease; `None` if the
/// machine stood still for so long that another lease ended meanwhile.
fn wake_ups_for_three_grants() -> Option<usize> {
    let store = MemoryStore::new();
    let mutex = store.mutex("a", MutexOptions::default().ttl(LEASE).renew(false)).unwrap();
    // The last hold was claimed at this time or later.
    let mut claimed = Instant::now();
    forget(now(mutex.lock()).unwrap());
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| Polled::new(mutex.lock())).collect();
    let all_wait = waiters.iter_mut().all(|waiter| waiter.poll().is_none());
    if claimed.elapsed() >= LEASE {
        return None;
    }
    assert!(all_wait);
    for next in waiters.iter_mut().take(3) {
        until("the lease ends", || next.wakes() > 0);
        let before = std::mem::replace(&mut claimed, Instant::now());
        let granted = next.poll();
        // A grant begins at the end of the lease before it, and ends after a lease unless its
        // waiter claims it.
        if before.elapsed() >= LEASE * 2 {
            return None;
        }
        forget(granted.expect("its turn").unwrap());
    }
    let wakes = waiters.iter().map(Polled::wakes).sum();
    (claimed.elapsed() < LEASE).then_some(wakes)
}

#[test]
fn c27_the_end_of_a_lease_wakes_the_next_waiter_alone() {
    let wakes = loop {
        if let Some(wakes) = wake_ups_for_three_grants() {
            break wakes;
        }
    };
    assert!(wakes <= 4, "{wakes} wake-ups for three grants");
}

#[test]
fn c27_the_end_of_a_lease_wakes_a_waiter_whatever_the_others_do() {
    loop {
        let store = MemoryStore::new();
        let semaphore = semaphore(&store, "a", 2);
        let options = SemaphoreOptions::new(2).ttl(LEASE).renew(false);
        let before = Instant::now();
        forget(now(store.semaphore("a", options).unwrap().acquire_many(2)).unwrap());
        // The first waiter is not polled again: its executor stands still.
        let (mut first, mut second) = (Polled::new(semaphore.acquire()), Polled::new(semaphore.acquire()));
        let both_wait = first.poll().is_none() && second.poll().is_none();
        if before.elapsed() >= LEASE {
            // The machine stood still: the lease ended too early.
            continue;
        }
        assert!(both_wait);
        until("the lease ends", || second.wakes() > 0);
        assert!(second.poll().expect("one of two").is_ok());
        break;
    }
}

#[test]
fn w3_the_end_of_a_members_lease_is_told_without_a_runtime() {
    let store = MemoryStore::new();
    let options = WaitGroupOptions::default();
    let leased = store.wait_group("g", options.clone().ttl(SHORT).renew(false)).unwrap();
    let added = Instant::now();
    forget(now(leased.add()).unwrap());
    let group = store.wait_group("g", options).unwrap();
    let early = drive_bare(group.wait_for(SHORT / 4)).unwrap();
    // On a machine that stood still, the lease may be over.
    assert!(early.is_none() || added.elapsed() >= SHORT, "{early:?} after {:?}", added.elapsed());
    let rest = || drive_bare(group.wait_for(SHORT + EPSILON)).unwrap().expect("it ended");
    let outcome = early.unwrap_or_else(rest);
    assert_eq!((outcome.finished, outcome.abandoned, outcome.expired), (0, 0, 1));
}
