//! The store under a model checker: waiters that depend on other callers, and names that come and
//! go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use stanchion_core::{
    ErrorKind, LimiterOptions, Member, Mutex, MutexOptions, Quota, Store, WaitGroup, WaitGroupOptions,
};

use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::model::{GiveUp, LateSignals, Time, beside, draw, explore, pause};
use crate::{ManualClock, MemoryStore};

const TTL: Duration = Duration::from_millis(100);

fn mutex(store: &MemoryStore) -> Arc<dyn Mutex> {
    store.mutex("a", MutexOptions::default()).unwrap()
}

fn group(store: &MemoryStore) -> Arc<dyn WaitGroup> {
    store.wait_group("a", WaitGroupOptions::default()).unwrap()
}

/// Ends a hold by force, by `close` or by its lease, while two callers wait for its loss and one
/// waits for the mutex.
fn loss() {
    Time::scenario(|time| async move {
        let store = MemoryStore::new();
        let other = store.client();
        let end = draw(3);
        // Without a lease, only a signal from another caller wakes the waiters.
        let options = MutexOptions::default();
        let options = if end < 2 { options } else { options.ttl(TTL).renew(false) };
        let guard = Arc::new(store.mutex("a", options).unwrap().lock().await.unwrap());
        let watchers = [0, 1].map(|_| {
            let guard = Arc::clone(&guard);
            beside(async move {
                guard.lost().await;
                assert!(!guard.is_held(), "lost, and held again (C9)");
            })
        });
        let (next, before) = (mutex(&other), Arc::clone(&guard));
        let next = beside(async move {
            let guard = next.lock().await.unwrap();
            assert!(guard.is_held() && !before.is_held(), "two believe in a hold (M1)");
            assert!(guard.fencing_token() > before.fencing_token());
        });
        let flow = time.flow(40);
        match end {
            0 => drop(mutex(&other).force_unlock().await.unwrap()),
            1 => store.close().await.unwrap(),
            _ => {}
        }
        for watcher in watchers {
            watcher.await;
        }
        next.await;
        time.stop();
        flow.await;
        assert_eq!(guard.deadline(), None);
        drop((store, other, guard));
    });
}

#[test]
fn c9_every_waiter_for_the_loss_of_a_hold_is_told_however_it_ends() {
    explore(3000, loss);
}

/// A queued call whose store object closes while the holder releases the mutex.
#[test]
fn c12_a_close_ends_a_queued_call_or_loses_its_hold_and_leaves_nothing() {
    explore(3000, || {
        Time::scenario(|_| async move {
            let holder = MemoryStore::new();
            let closed = holder.client();
            let (held, one) = (mutex(&holder).lock().await.unwrap(), mutex(&closed));
            let give_up = GiveUp::draw();
            let queued = beside(async move {
                match give_up.wait(one.lock()).await {
                    Some(Ok(guard)) => {
                        guard.lost().await;
                        assert!(!guard.is_held());
                    }
                    Some(Err(error)) => assert_eq!(error.kind(), ErrorKind::Closed),
                    None => {}
                }
            });
            let closer = beside(async move { closed.close().await.unwrap() });
            drop(held);
            queued.await;
            closer.await;
            let inspected = mutex(&holder).inspect().await.unwrap();
            assert!(inspected.holders.is_empty() && inspected.waiters == 0, "{inspected:?}");
            assert!(mutex(&holder).try_lock().await.unwrap().is_some());
        });
    });
}

/// Ends a member by `done` or by a drop.
async fn end(member: Member, count: &AtomicU32) {
    count.fetch_add(1, SeqCst);
    if draw(2) == 0 { member.done().await.unwrap() } else { drop(member) }
}

/// Ends two members while two callers wait for zero.
fn zero() {
    Time::scenario(|_| async move {
        let store = MemoryStore::new();
        let one = group(&store);
        let ended = Arc::new(AtomicU32::new(0));
        let members = one.add_many(2).await.unwrap();
        let waiters = [0, 1].map(|_| {
            let (one, ended) = (group(&store.client()), Arc::clone(&ended));
            beside(async move {
                let outcome = one.wait().await.unwrap();
                assert_eq!(ended.load(SeqCst), 2, "not at zero (W1)");
                assert_eq!(outcome.finished + outcome.abandoned, 2);
            })
        });
        let enders: Vec<_> = members
            .into_iter()
            .map(|member| {
                let ended = Arc::clone(&ended);
                beside(async move { end(member, &ended).await })
            })
            .collect();
        for waiter in waiters {
            waiter.await;
        }
        for ender in enders {
            ender.await;
        }
        drop(one);
        assert_eq!(store.len(), 1, "zero is a record of its own (W6)");
    });
}

/// Two callers wait for a group through a store object that closes, while its last member leaves.
#[test]
fn c12_a_close_ends_the_waits_for_a_group() {
    explore(3000, || {
        Time::scenario(|_| async move {
            let store = MemoryStore::new();
            let closed = store.client();
            let member = group(&store).add().await.unwrap();
            let leaves = draw(2) == 0;
            let waiters = [0, 1].map(|_| {
                let one = group(&closed);
                beside(async move {
                    match one.wait().await {
                        Ok(outcome) => assert!(leaves && outcome.abandoned == 1),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
                    }
                })
            });
            let closer = beside(async move { closed.close().await.unwrap() });
            let kept = (!leaves).then_some(member);
            for waiter in waiters {
                waiter.await;
            }
            closer.await;
            drop(kept);
        });
    });
}

#[test]
fn w3_every_waiter_is_told_of_zero_and_none_before() {
    explore(3000, zero);
}

/// Members join a limited group while others leave it; calls are given up at any point.
#[test]
fn w7_members_that_wait_for_room_are_never_too_many_and_leave_nothing() {
    explore(3000, || {
        Time::scenario(|_| async move {
            let store = MemoryStore::new();
            let options = WaitGroupOptions::default().limit(1);
            let open = || store.wait_group("a", options.clone()).unwrap();
            let live = Arc::new(AtomicU32::new(0));
            let joiners = [0, 1, 2].map(|_| {
                let (one, live) = (open(), Arc::clone(&live));
                beside(async move {
                    if let Some(member) = GiveUp::draw().wait(one.add()).await {
                        assert_eq!(live.fetch_add(1, SeqCst), 0, "over the limit (W7)");
                        pause().await;
                        live.fetch_sub(1, SeqCst);
                        member.unwrap().done().await.unwrap();
                    }
                })
            });
            for joiner in joiners {
                joiner.await;
            }
            let one = open();
            assert_eq!(one.wait().await.unwrap().expired, 0);
            assert_eq!((one.count().await.unwrap(), one.inspect().await.unwrap().waiters), (0, 0));
        });
    });
}

fn limiter(store: &MemoryStore) -> Arc<dyn stanchion_core::Limiter> {
    store.limiter("a", LimiterOptions::new(Quota::per_second(1))).unwrap()
}

/// Two reservations wait for a limiter's clock, while the test moves it no further than they need.
fn clocked() {
    Time::scenario(|_| async move {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let one = limiter(&store);
        assert!(one.allow().await.unwrap().allowed);
        let mut waiters = Vec::new();
        for seconds in 1..3 {
            let place = one.reserve_n(1, Duration::MAX).await.unwrap().unwrap();
            let (clock, due) = (clock.clone(), clock.micros() + seconds * 1_000_000);
            waiters.push(beside(async move {
                place.wait().await;
                assert!(clock.micros() >= due, "before its time");
            }));
        }
        for _ in 0..2 {
            clock.advance(Duration::from_secs(1));
            pause().await;
        }
        for waiter in waiters {
            waiter.await;
        }
    });
}

#[test]
fn l6_every_waiter_for_a_clock_sees_each_of_its_moves() {
    explore(3000, clocked);
}

/// A caller is held up between its call and the lock, while the clock goes on by so much that its
/// earlier time would count as wrong.
#[test]
fn c7_l1_a_decision_goes_by_the_time_after_the_wait_for_the_lock() {
    explore(3000, || {
        Time::scenario(|_| async move {
            let clock = ManualClock::new();
            let store = MemoryStore::builder().clock(clock.clone()).build();
            let minute = Duration::from_secs(61);
            let open = || store.limiter("a", LimiterOptions::new(Quota::per(10, minute))).unwrap();
            let (one, other) = (open(), open());
            let late = beside(async move { u64::from(other.allow_n(1).await.unwrap().allowed) });
            let mut admitted = 0;
            for turn in 0..4 {
                admitted += 10 * u64::from(one.allow_n(10).await.unwrap().allowed);
                if turn == 0 {
                    clock.advance(minute);
                }
                pause().await;
            }
            admitted += late.await;
            assert!(admitted <= 20, "{admitted} in one period, with a burst of 10 (L1)");
        });
    });
}

#[test]
fn a_clock_that_two_threads_move_has_moved_twice() {
    explore(300, || {
        Time::scenario(|_| async move {
            let clock = ManualClock::new();
            let (begun, clone) = (clock.micros(), clock.clone());
            let other = beside(async move { clone.advance(Duration::from_secs(1)) });
            clock.advance(Duration::from_secs(2));
            other.await;
            assert_eq!(clock.micros() - begun, 3_000_000);
        });
    });
}

#[test]
fn c12_a_close_ends_the_waits_of_a_limiter() {
    explore(3000, || {
        Time::scenario(|_| async move {
            let store = MemoryStore::new();
            let one = limiter(&store);
            let other = limiter(&store.client());
            assert!(one.allow().await.unwrap().allowed);
            let waiter = beside(async move {
                let error = one.wait().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Closed);
            });
            let closed = store.clone();
            let closer = beside(async move { closed.close().await.unwrap() });
            waiter.await;
            closer.await;
            // The clock stands still, and the reservation was given back.
            let reset = other.peek().await.unwrap().reset_after;
            assert_eq!(reset, Duration::from_secs(1), "a place is left (C4)");
        });
    });
}

#[test]
fn c25_a_name_that_comes_and_goes_is_never_doubled_and_its_tokens_grow() {
    explore(3000, || {
        Time::scenario(|_| async move {
            let store = MemoryStore::new();
            let (held, largest) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
            let users = [0, 1, 2].map(|_| {
                let (store, held, largest) = (store.clone(), Arc::clone(&held), Arc::clone(&largest));
                beside(async move {
                    for _ in 0..2 {
                        let guard = mutex(&store).lock().await.unwrap();
                        assert_eq!(held.fetch_add(1, SeqCst), 0, "two hold the name (M1)");
                        let token = guard.fencing_token().get();
                        assert!(largest.swap(token, SeqCst) < token, "a token that does not grow (M2)");
                        pause().await;
                        held.fetch_sub(1, SeqCst);
                    }
                })
            });
            for user in users {
                user.await;
            }
            assert!(store.is_empty(), "state is left of an unused name");
        });
    });
}

/// The checker finds a signal that reaches only waiters polled before it.
#[test]
#[should_panic(expected = "deadlock")]
fn w3_a_late_signal_is_found_where_a_group_is_waited_for() {
    let _bug = LateSignals::insert();
    explore(1500, zero);
}

#[test]
#[should_panic(expected = "deadlock")]
fn l6_a_late_signal_is_found_where_a_clock_is_waited_for() {
    let _bug = LateSignals::insert();
    explore(1500, clocked);
}
