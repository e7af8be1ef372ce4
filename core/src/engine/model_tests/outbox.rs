//! The queue of releases: what is pushed while something is under way, while it rests, and while it
//! stops.

use std::sync::Arc;

use tokio::time::Instant;

use super::store::{Heard, Store, object};
use crate::clock::now;
use crate::engine::sending::outbox::Outbox;
use crate::spi::{Cancel, Ending, Release};
use crate::sync::model::{LateSignals, Time, beside, draw, explore, pause};
use crate::{Ticket, Ttl};

fn release(number: usize, ticket: Ticket) -> Release {
    let (object, ending) = (object(number), Ending::Abandoned);
    Release { object, ticket, ending, tombstone: None, call: None }
}

fn cancel(number: usize, ticket: Ticket) -> Cancel {
    Cancel { object: object(number), ticket, tombstone: Some(Ttl::DEFAULT) }
}

/// Two who push, one who waits until the queue is empty, and a deliverer that is stopped.
fn deliveries(faults: usize) {
    Time::scenario(|time| async move {
        let store = Store::new(faults);
        let outbox = Arc::new(Outbox::new(store.steps(false)));
        let (delivering, steps) = (Arc::clone(&outbox), store.steps(true));
        let deliverer = beside(async move { delivering.deliver(&steps).await });
        let flow = time.flow(20);
        let tickets = [0, 1, 2].map(|_| Ticket::random());
        let (pushing, heard) = (Arc::clone(&outbox), Arc::clone(&store));
        // The same lane twice, and a ticket that is released and then cancelled.
        let first = beside(async move {
            pushing.push(release(0, tickets[0]), None);
            pause().await;
            pushing.push(cancel(0, tickets[0]), None);
        });
        let pushing = Arc::clone(&outbox);
        let second = beside(async move {
            pushing.push(release(2, tickets[1]), None);
            pushing.drained().await;
            assert_eq!(heard.heard(tickets[1]), [Heard::Released], "drained, and not delivered (C12)");
            pushing.push(release(1, tickets[2]), None);
        });
        first.await;
        second.await;
        if draw(2) == 0 {
            outbox.drained().await;
        }
        outbox.stop();
        deliverer.await;
        time.stop();
        flow.await;
        assert_eq!(store.heard(tickets[0]), [Heard::Released, Heard::Cancelled], "each once, in order");
        assert_eq!(store.heard(tickets[1]), [Heard::Released]);
        assert_eq!(store.heard(tickets[2]), [Heard::Released]);
    });
}

#[test]
fn c12_what_is_pushed_is_sent_until_it_is_answered_and_then_no_more() {
    explore(2000, || deliveries(3));
}

/// What is given up lets the queue run empty, and nothing of it is sent for ever.
#[test]
fn c12_what_is_given_up_holds_nobody_up() {
    explore(2000, || {
        Time::scenario(|time| async move {
            let store = Store::new(usize::MAX);
            let outbox = Arc::new(Outbox::new(store.steps(false)));
            let (delivering, steps) = (Arc::clone(&outbox), store.steps(true));
            let deliverer = beside(async move { delivering.deliver(&steps).await });
            let flow = time.flow(20);
            let end = now() + Ttl::MIN;
            let pushers = [0, 1].map(|number| {
                let pushing = Arc::clone(&outbox);
                let end: Option<Instant> = Some(end);
                beside(async move {
                    pushing.push(release(number, Ticket::random()), end);
                    pushing.push(cancel(number, Ticket::random()), end);
                    pushing.drained().await;
                })
            });
            for pusher in pushers {
                pusher.await;
            }
            outbox.stop();
            deliverer.await;
            time.stop();
            flow.await;
        });
    });
}

/// A deliverer that does not remember a push between its look at the queue and its sleep.
#[test]
#[should_panic(expected = "max_steps")]
fn c12_a_late_signal_is_found_where_releases_are_delivered() {
    let _bug = LateSignals::insert();
    explore(2000, || deliveries(0));
}
