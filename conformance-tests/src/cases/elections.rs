//! Elections: candidates, and observers of them.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stanchion_core::{
    ElectionHandle, ElectionOptions, Fenced, GrantId, MutexOptions, Result, StoreExt, Ticket,
};

use crate::harness::Harness;
use crate::support::{
    AT_ONCE, CANCELLED, QUEUED, Task, beside, eventually, pause, queue_of, spawn, takes_its_turn, unique,
    within,
};

/// A pause after a term that is short beside every limit of these cases.
const PAUSE: Duration = Duration::from_millis(10);

/// What the leaders of an election do: each writes to a fenced value, and is counted while it
/// leads.
#[derive(Debug, Default)]
struct Post {
    leading: AtomicU64,
    terms: AtomicU64,
    ledger: Fenced<u64>,
}

impl Post {
    /// Leads until it is stopped.
    async fn lead(&self, id: GrantId) {
        assert_eq!(self.leading.fetch_add(1, Ordering::SeqCst), 0, "one leads at a time");
        let _over = Over(&self.leading);
        self.terms.fetch_add(1, Ordering::SeqCst);
        loop {
            self.ledger.write(id, |writes| *writes += 1).expect("no later leader has written");
            pause(Duration::from_millis(1)).await;
        }
    }
}

/// Counts a leader whose future is dropped.
struct Over<'a>(&'a AtomicU64);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A candidate of a client of its own, standing.
async fn candidate(
    h: &dyn Harness,
    name: &str,
    label: &str,
    post: &Arc<Post>,
) -> (ElectionHandle, Task<Result<()>>) {
    let (store, post) = (h.store().await, Arc::clone(post));
    let options = ElectionOptions::new().label(label).pause(PAUSE);
    let election = store.elect(name, options, move |token| {
        let (post, ticket) = (Arc::clone(&post), Ticket::random());
        async move { post.lead(GrantId::new(token, ticket)).await }
    });
    let election = election.expect("a candidate");
    (election.handle(), spawn(election.run()))
}

pub(crate) async fn m1_one_candidate_leads_at_a_time(h: &dyn Harness) {
    let (name, post) = (unique("election"), Arc::new(Post::default()));
    let mut candidates = Vec::new();
    for label in ["ada", "grace", "joan"] {
        candidates.push(candidate(h, &name, label, &post).await);
    }
    for round in 1..=9 {
        let is_led = || async { candidates.iter().any(|(handle, _)| handle.is_leader()) };
        eventually(QUEUED, "somebody leads", is_led).await;
        let what = "each term is another one";
        eventually(QUEUED, what, || async { post.terms.load(Ordering::SeqCst) >= round }).await;
        assert!(candidates.iter().filter(|(handle, _)| handle.is_leader()).count() <= 1);
        candidates.iter().for_each(|(handle, _)| handle.step_down());
    }
    for (handle, standing) in candidates {
        handle.withdraw();
        within(QUEUED, "a candidate withdraws", standing.join()).await.expect("no error");
        assert!(!handle.is_leader());
    }
    assert_eq!(post.leading.load(Ordering::SeqCst), 0);
}

pub(crate) async fn m1_a_leader_who_is_deposed_stops_and_stands_again(h: &dyn Harness) {
    let (name, post) = (unique("election"), Arc::new(Post::default()));
    let mutex = h.store().await.mutex(&name, MutexOptions::new()).expect("a mutex");
    let (handle, standing) = candidate(h, &name, "ada", &post).await;
    eventually(QUEUED, "it leads", || async { handle.is_leader() }).await;
    assert!(mutex.force_unlock().await.expect("force"));
    // It is told within a third of the default lease, stops, and stands again.
    let again = Duration::from_secs(10) + QUEUED;
    eventually(again, "it leads again", || async {
        post.terms.load(Ordering::SeqCst) >= 2 && handle.is_leader()
    })
    .await;
    handle.withdraw();
    within(QUEUED, "it withdraws", standing.join()).await.expect("no error");
}

pub(crate) async fn c4_a_dropped_candidate_leaves_nothing(h: &dyn Harness) {
    let (name, store) = (unique("election"), h.store().await);
    let mutex = h.store().await.mutex(&name, MutexOptions::new()).expect("a mutex");
    let election = store.elect(&name, ElectionOptions::new(), |_| pending()).expect("a candidate");
    let handle = election.handle();
    let mut standing = Box::pin(election.run());
    let leads = eventually(QUEUED, "it leads", || async { handle.is_leader() });
    beside(&mut standing, "it stands", leads).await;
    drop(standing);
    assert!(!handle.is_leader());
    takes_its_turn(&mutex).await;

    let held = mutex.lock().await.expect("lock");
    let election = store.elect(&name, ElectionOptions::new(), |_| pending()).expect("a candidate");
    let mut waiting = Box::pin(election.run());
    beside(&mut waiting, "it waits", queue_of(&mutex, 1, AT_ONCE)).await;
    drop(waiting);
    queue_of(&mutex, 0, CANCELLED).await;
    held.release().await.expect("release");
}

pub(crate) async fn c23_an_observer_sees_who_leads(h: &dyn Harness) {
    let (name, post) = (unique("election"), Arc::new(Post::default()));
    let observer = h.store().await.observe_election(&name).expect("an observer");
    let mut changes = observer.changes();
    let first = within(QUEUED, "the present leader", changes.next()).await.expect("it goes on");
    assert_eq!(first.expect("an answer"), None);

    let (handle, standing) = candidate(h, &name, "ada", &post).await;
    // Of a session of another process, the label is known after a second.
    loop {
        let change = within(QUEUED * 2, "a change", changes.next()).await.expect("it goes on");
        let leader = change.expect("an answer").expect("somebody leads");
        if let Some(label) = leader.label {
            assert_eq!(label, "ada");
            assert!(leader.token.is_some());
            break;
        }
    }
    handle.withdraw();
    within(QUEUED, "it withdraws", standing.join()).await.expect("no error");
    let last = within(QUEUED * 2, "a change", changes.next()).await.expect("it goes on");
    assert_eq!(last.expect("an answer"), None);
}
