//! The ends of leases as waiters see them: on time, for a few wake-ups, and on any executor.

use std::mem::forget;
use std::thread::sleep;
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::EPSILON;
use stanchion_conformance::support::drive_bare;
use stanchion_core::{MutexOptions, SemaphoreOptions, Store, WaitGroupOptions};
use stanchion_memory::MemoryStore;

const SHORT: Duration = Duration::from_millis(100);
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

#[test]
fn c27_the_end_of_a_lease_wakes_the_next_waiter_alone() {
    let store = MemoryStore::new();
    let mutex = store.mutex("a", MutexOptions::default().ttl(SHORT).renew(false)).unwrap();
    forget(now(mutex.lock()).unwrap());
    let mut waiters: Vec<_> = (0..WAITERS).map(|_| Polled::new(mutex.lock())).collect();
    assert!(waiters.iter_mut().all(|waiter| waiter.poll().is_none()));
    for next in waiters.iter_mut().take(3) {
        until("the lease ends", || next.wakes() > 0);
        forget(next.poll().expect("its turn").unwrap());
    }
    let wakes: usize = waiters.iter().map(Polled::wakes).sum();
    assert!(wakes <= 4, "{wakes} wake-ups for three grants");
}

#[test]
fn c27_the_end_of_a_lease_wakes_a_waiter_whatever_the_others_do() {
    let store = MemoryStore::new();
    let semaphore = semaphore(&store, "a", 2);
    let options = SemaphoreOptions::new(2).ttl(SHORT).renew(false);
    forget(now(store.semaphore("a", options).unwrap().acquire_many(2)).unwrap());
    // The first waiter is not polled again: its executor stands still.
    let (mut first, mut second) = (Polled::new(semaphore.acquire()), Polled::new(semaphore.acquire()));
    assert!(first.poll().is_none() && second.poll().is_none());
    until("the lease ends", || second.wakes() > 0);
    assert!(second.poll().expect("one of two").is_ok());
}

#[test]
fn w3_the_end_of_a_members_lease_is_told_without_a_runtime() {
    let store = MemoryStore::new();
    let options = WaitGroupOptions::default();
    let leased = store.wait_group("g", options.clone().ttl(SHORT).renew(false)).unwrap();
    forget(now(leased.add()).unwrap());
    let group = store.wait_group("g", options).unwrap();
    assert_eq!(drive_bare(group.wait_for(SHORT / 4)).unwrap(), None);
    let outcome = drive_bare(group.wait_for(SHORT + EPSILON)).unwrap().expect("it ended");
    assert_eq!((outcome.finished, outcome.abandoned, outcome.expired), (0, 0, 1));
}
