//! Guards that are dropped or released while the store object closes and the engine's thread ends,
//! and holds that are renewed, lost and watched by the whole of it.

use std::sync::Arc;
use std::time::Duration;

use super::store::{Heard, Store, object};
use crate::clock::now;
use crate::engine::contained::Containment;
use crate::engine::sending::in_doubt::InDoubt;
use crate::engine::sending::leftover::Left;
use crate::engine::shared::{EngineHandle, Shared};
use crate::engine::taking::acquire::{Grant, into_hold};
use crate::engine::{Engine, serve};
use crate::observe::availability::Outages;
use crate::runtime::call_runtime::CallRuntime;
use crate::sync::model::{Time, beside, draw, explore, pause};
use crate::{Capabilities, ErrorKind, FencingToken, HoldOptions, MutexGuard, MutexMode, Ticket, Ttl};

/// An engine over a store, with its thread.
struct Rig {
    store: Arc<Store>,
    engine: Arc<EngineHandle>,
}

impl Rig {
    /// The rig, and the end of its thread.
    fn start(store: Arc<Store>) -> (Self, impl Future<Output = ()>) {
        let capabilities = Capabilities::full("model", MutexMode::Lease);
        let containment = Arc::new(Containment::new(Outages::new("model"), false));
        let shared = Arc::new(Shared::new(
            capabilities,
            store.steps(false),
            None,
            containment,
            Arc::from(""),
            Arc::new(CallRuntime::new(None)),
        ));
        let (running, steps) = (Arc::clone(&shared), store.steps(true));
        let thread = beside(async move { serve::engine(&running, &steps, None, Duration::ZERO).await });
        (
            Self {
                store,
                engine: Arc::new(EngineHandle {
                    shared,
                    thread: None,
                    drain: Duration::ZERO,
                    slow_wait: Duration::MAX,
                }),
            },
            thread,
        )
    }

    /// What the store has just granted to a call.
    fn answer(&self, number: usize, ttl: Duration) -> (Grant, InDoubt) {
        let (ticket, lease, sent) = (Ticket::random(), Ttl::new(ttl).unwrap(), now());
        self.store.grant(ticket, sent + ttl);
        let mut in_doubt = InDoubt::new(&self.engine, &object(number), ticket, lease, Left::Hold);
        in_doubt.sent();
        let token = FencingToken::new(1).unwrap();
        (Grant { token, sent, ambiguous: draw(2) == 0, epoch: 0 }, in_doubt)
    }

    /// A hold that the store has just granted.
    fn grant(&self, number: usize, ttl: Duration) -> MutexGuard {
        let (grant, in_doubt) = self.answer(number, ttl);
        MutexGuard::new(into_hold(&grant, in_doubt, &HoldOptions::default(), 1).unwrap())
    }
}

/// A store object with three holds: one dropped, one released by a call, one kept, and a grant that
/// has no guard yet, while it is closed or not, and then nobody is left.
#[test]
fn c12_every_hold_is_released_whatever_ends_first_and_none_twice() {
    explore(2500, || {
        Time::scenario(|time| async move {
            let (rig, thread) = Rig::start(Store::new(draw(4)));
            let guards = [0, 1, 2].map(|number| rig.grant(number, Ttl::DEFAULT.get()));
            let tickets = guards.each_ref().map(MutexGuard::ticket);
            let [dropped, released, kept] = guards;
            let (grant, in_doubt) = rig.answer(3, Ttl::DEFAULT.get());
            let late = in_doubt.leftover.ticket;
            let closes = draw(2) == 0;
            let flow = time.flow(10);
            let owning = beside(async move {
                match into_hold(&grant, in_doubt, &HoldOptions::default(), 1) {
                    Ok(hold) => drop(hold),
                    Err(error) => assert!(closes && error.kind() == ErrorKind::Closed, "{error}"),
                }
            });
            let dropping = beside(async move { drop(dropped) });
            let releasing = beside(async move {
                if let Err(error) = released.release().await {
                    let lost = error.kind() == ErrorKind::Lost;
                    assert!(error.is_retryable() || (lost && closes), "{error}");
                }
            });
            let Rig { store, engine } = rig;
            let held = Arc::clone(&store);
            let closing = beside(async move {
                let began = now();
                if closes {
                    let closed = Engine { handle: engine }.close().await;
                    let long = began.elapsed() > Duration::from_secs(1);
                    assert!(closed.is_ok() || long, "{closed:?}");
                    assert!(!kept.is_held(), "held by a closed store object (C12)");
                    kept.lost().await;
                    for ticket in [kept.ticket(), late] {
                        assert!(closed.is_err() || held.until(ticket).is_none(), "drained, and held");
                    }
                } else {
                    assert!(kept.is_held());
                    drop(engine);
                }
                now()
            });
            owning.await;
            dropping.await;
            releasing.await;
            let ended = closing.await;
            thread.await;
            let drained = now() - ended < Duration::from_secs(2);
            time.stop();
            flow.await;
            assert!(drained, "a second or more for a few requests");
            assert!(store.until(late).is_none() && !store.heard(late).is_empty(), "a grant is left");
            for ticket in tickets {
                assert_eq!(store.until(ticket), None, "a release is lost");
                let most = if closes { 2 } else { 1 };
                let heard = store.heard(ticket);
                assert!((1..=most).contains(&heard.len()), "{heard:?} of one hold");
                assert!(heard.iter().all(|heard| *heard == Heard::Released));
            }
        });
    });
}

/// How a hold that the thread renews comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Freed,
    Away,
    Closed,
    Dropped,
}

#[test]
fn c9_a_hold_in_the_care_of_the_thread_is_never_believed_beyond_the_stores_word() {
    explore(2500, || {
        Time::scenario(|time| async move {
            let (rig, thread) = Rig::start(Store::new(draw(3)));
            let guard = Arc::new(rig.grant(0, Ttl::MIN));
            let end = [End::Freed, End::Away, End::Closed, End::Dropped][draw(4)];
            // In time for the renewals, or hardly.
            let flow = time.flow([8, 40][draw(2)]);
            let watcher = (end != End::Dropped).then(|| {
                let guard = Arc::clone(&guard);
                beside(async move {
                    guard.lost().await;
                    assert!(!guard.is_held(), "lost, and held (C9)");
                })
            });
            let Rig { store, engine } = rig;
            let mut held = true;
            for look in 0..12 {
                let at = now();
                let still = guard.is_held();
                assert!(held || !still, "held again (C10)");
                // It lasts at the store, unless somebody freed it there.
                let lasts = store.until(guard.ticket()).is_none_or(|until| at < until);
                assert!(!still || lasts, "believed beyond its lease (C8)");
                held = still;
                match end {
                    End::Freed if look == 6 => store.free(guard.ticket()),
                    End::Away if look == 6 => store.go_away(),
                    End::Closed if look == 6 => {
                        let closed = Engine { handle: Arc::clone(&engine) }.close().await;
                        assert!(closed.is_ok() && !guard.is_held());
                    }
                    _ => {}
                }
                pause().await;
            }
            if let Some(watcher) = watcher {
                watcher.await;
            }
            let ticket = guard.ticket();
            drop((guard, engine));
            thread.await;
            time.stop();
            flow.await;
            let left = store.until(ticket).is_some_and(|until| now() < until);
            assert!(!left, "a hold is left");
        });
    });
}
