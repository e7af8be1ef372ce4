//! The life of a lease: renewed, lost, given back and watched, all at once.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::store::object;
use crate::clock::now;
use crate::engine::keeping::hold::LeaseHold;
use crate::observe::events::LossCause;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::model::{LateSignals, Time, beside, draw, exhaust, explore, pause};
use crate::{Ticket, Ttl};

fn hold(lease: Ttl) -> Arc<LeaseHold> {
    Arc::new(LeaseHold::new(object(0), Ticket::random(), lease, now()))
}

/// One lease, and what is known of it from outside.
struct Scene {
    hold: Arc<LeaseHold>,
    lease: Ttl,
    /// No deadline is later, after all requests that were sent.
    latest: Mutex<Instant>,
    /// Until then it was believed, after all renewals that came in time.
    believed: Mutex<Instant>,
    /// Somebody began to say that it is lost.
    losing: AtomicBool,
    /// Its guard gave it up in time.
    given: AtomicBool,
}

impl Scene {
    fn new() -> Arc<Self> {
        let lease = Ttl::new(Ttl::MIN).unwrap();
        let deadline = now() + lease.belief();
        let (latest, believed) = (Mutex::new(deadline), Mutex::new(deadline));
        let (losing, given) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { hold: hold(lease), lease, latest, believed, losing, given })
    }

    /// A request that is answered late.
    async fn renew(&self) {
        let sent = now();
        let deadline = sent + self.lease.belief();
        *self.latest.lock().unwrap() = deadline;
        pause().await;
        self.hold.extend(sent, self.lease);
        if self.hold.is_held() {
            *self.believed.lock().unwrap() = deadline;
        }
        pause().await;
    }

    async fn observe(&self) {
        let mut held = true;
        for _ in 0..5 {
            let at = now();
            let still = self.hold.is_held();
            assert!(held || !still, "held again (C10)");
            assert!(!still || at < *self.latest.lock().unwrap(), "held beyond its deadline (C10)");
            held = still;
            pause().await;
        }
    }

    async fn watch(&self) {
        self.hold.lost().await;
        assert!(!self.hold.is_held(), "lost, and held (C9)");
        let early = now() < *self.believed.lock().unwrap();
        assert!(!early || self.losing.load(SeqCst), "lost while it was believed (C9)");
        assert!(!self.given.load(SeqCst), "lost by its own release (C9)");
    }

    fn lose(&self) {
        self.losing.store(true, SeqCst);
        self.hold.lose(LossCause::Gone);
    }

    fn give(&self) {
        let given = self.hold.give();
        assert!(!self.hold.is_held());
        self.given.fetch_or(given, SeqCst);
    }
}

#[test]
fn c9_renewal_loss_deadline_release_and_watchers_of_one_lease_agree() {
    explore(5000, || {
        Time::scenario(|time| async move {
            let scene = Scene::new();
            let with = || Arc::clone(&scene);
            let (renewed, observed) = (with(), with());
            let renewal = beside(async move {
                renewed.renew().await;
                renewed.renew().await;
            });
            let observer = beside(async move { observed.observe().await });
            let watchers = [with(), with()].map(|scene| beside(async move { scene.watch().await }));
            let (loses, gives) = ([(true, true), (true, false), (false, true), (false, false)])[draw(4)];
            let (losing, giving) = (with(), with());
            let loser = beside(async move {
                if loses {
                    losing.lose();
                }
            });
            let giver = beside(async move {
                if gives {
                    giving.give();
                }
            });
            let flow = time.flow(30);
            renewal.await;
            observer.await;
            loser.await;
            giver.await;
            if !scene.given.load(SeqCst) {
                // By the deadline at the latest.
                for watcher in watchers {
                    watcher.await;
                }
            }
            time.stop();
            flow.await;
        });
    });
}

/// Time stands still: nobody but the loss wakes the watchers.
fn loss() {
    Time::scenario(|_| async move {
        let hold = hold(Ttl::DEFAULT);
        let (losing, renewed) = (Arc::clone(&hold), Arc::clone(&hold));
        let loser = beside(async move { assert!(losing.lose(LossCause::Gone)) });
        let renewal = beside(async move { renewed.extend(now(), Ttl::DEFAULT) });
        hold.lost().await;
        assert!(!hold.is_held());
        loser.await;
        renewal.await;
        assert!(!hold.is_held() && hold.deadline() <= now() + Duration::from_secs(30));
    });
}

#[test]
fn c9_every_schedule_of_a_loss_a_renewal_and_a_watcher_wakes_it() {
    let schedules = exhaust(50_000, loss);
    println!("{schedules} schedules");
}

#[test]
#[should_panic(expected = "deadlock")]
fn c9_a_late_signal_is_found_where_a_loss_is_watched() {
    let _bug = LateSignals::insert();
    exhaust(50_000, loss);
}
