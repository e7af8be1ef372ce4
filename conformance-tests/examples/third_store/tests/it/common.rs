//! The harnesses that the suites need.

#![allow(clippy::disallowed_methods, reason = "a test runs tasks of its own")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stanchion_conformance::Harness;
use stanchion_conformance::faulty::{self, Faults};
use stanchion_conformance::gaps::cannot_show;
use stanchion_conformance::steps::{Outages, Process, StepHarness};
use stanchion_core::Store;
use stanchion_core::engine::StepsWrap;
use stanchion_core::spi::Object;
use third_store::{Client, Mistake, Retention, Server};
use tokio::sync::oneshot;
use tokio::time::sleep;

/// Time limit of a request: a machine that stands still for seconds makes no error. No case depends
/// on it.
const REQUEST: Duration = Duration::from_secs(10);

/// A private server for one case. Each of its clients is another process.
pub struct Fixture {
    server: Arc<Server>,
    mistake: Option<Mistake>,
}

impl Fixture {
    pub fn new() -> Self {
        Self { server: Server::start(), mistake: None }
    }

    /// Creates a server whose clients all make this mistake.
    pub fn with(mistake: Mistake) -> Self {
        Self { mistake: Some(mistake), ..Self::new() }
    }

    fn client(&self) -> Client {
        let mut client = Client::default();
        client.request_timeout = REQUEST;
        self.mistake.map_or(client, |mistake| client.with_mistake(mistake))
    }

    async fn driven(&self, client: Client) -> Process {
        let (steps, wake) = client.steps(&self.server).await;
        Process::of(steps.clone(), steps, Some(wake))
    }

    /// Returns a client whose idle names are kept for these times.
    fn forgetful(&self, tokens: Duration, limits: Duration) -> Client {
        let mut client = self.client();
        client.retention = Retention { tokens, limits };
        client
    }
}

/// The harness for `suite!`.
#[async_trait]
impl Harness for Fixture {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.client().connect(&self.server).await.expect("a store"))
    }

    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>> {
        let client = self.forgetful(retention, retention);
        Some(Arc::new(client.connect(&self.server).await.expect("a store")))
    }

    async fn faulty_store(&self, faults: &Arc<Faults>) -> Option<Arc<dyn Store>> {
        let faults = Arc::clone(faults);
        let wrap = StepsWrap::new(move |steps| faulty::wrap(steps, &faults));
        Some(Arc::new(self.client().connect_wrapped(&self.server, Some(&wrap)).await.expect("a store")))
    }

    async fn leftover(&self) -> Option<usize> {
        Some(self.server.state().await.records.len())
    }

    fn ttl(&self) -> Duration {
        Duration::from_millis(500)
    }

    async fn lose_data(&self) -> bool {
        self.server.lose_data().await;
        true
    }
}

/// The harness for `permit_step_suite!`. Only the first method is required; without the others, the
/// cases that need them are gaps.
#[async_trait]
impl StepHarness for Fixture {
    async fn process(&self) -> Process {
        self.driven(self.client()).await
    }

    async fn forgetful_process(&self, tokens: Duration, state: Duration) -> Process {
        self.driven(self.forgetful(tokens, state)).await
    }

    async fn other_namespace(&self) -> Process {
        Self::new().process().await
    }

    async fn alone(&self) -> (Box<dyn StepHarness>, Box<dyn Outages>) {
        let fixture = Self::new();
        let stalled = Stalled { server: Arc::clone(&fixture.server), go_on: Mutex::default() };
        (Box::new(fixture), Box::new(stalled))
    }

    async fn keep_busy(&self, _: &Object, time: Duration) {
        let _ = stall(&self.server, sleep(time)).await;
    }

    async fn lose_data(&self) {
        self.server.lose_data().await;
    }

    async fn set_token(&self, object: &Object, token: u64) {
        self.server.state().await.records.get_mut(object).expect("a record").token = token;
    }

    async fn check(&self, object: &Object) {
        let state = self.server.state().await;
        let Some(record) = state.records.get(object) else { return };
        let holds = record.holds.iter().map(|hold| hold.ticket);
        let tickets: Vec<_> = holds.chain(record.queue.iter().map(|waiter| waiter.ticket)).collect();
        let distinct: HashSet<_> = tickets.iter().collect();
        assert_eq!(distinct.len(), tickets.len(), "a ticket holds or queues, once: {record:?}");
        let refused = tickets.iter().find(|ticket| record.tombstones.contains_key(ticket));
        assert_eq!(refused, None, "a refused ticket has no hold and no place: {record:?}");
        let tokens: HashSet<_> = record.holds.iter().map(|hold| hold.token).collect();
        assert_eq!(tokens.len(), record.holds.len(), "each hold has its own token: {record:?}");
        for hold in &record.holds {
            assert!(hold.token.get() <= record.token && hold.expires <= record.forget_at, "{record:?}");
        }
        assert!(record.epoch > 0 && (record.limit.is_some() || tickets.is_empty()), "{record:?}");
    }
}

/// Keeps the server locked until a future ends. Returns once it is locked.
async fn stall(server: &Arc<Server>, end: impl Future<Output = ()> + Send + 'static) {
    let (server, (began, begins)) = (Arc::clone(server), oneshot::channel());
    tokio::spawn(async move {
        let _served_by_nobody = server.state().await;
        let _ = began.send(());
        end.await;
    });
    begins.await.expect("it begins");
}

/// A server that can be paused.
struct Stalled {
    server: Arc<Server>,
    go_on: Mutex<Option<oneshot::Sender<()>>>,
}

impl Outages for Stalled {
    fn pause(&self) {
        let (go_on, goes_on) = oneshot::channel::<()>();
        *self.go_on.lock().unwrap_or_else(PoisonError::into_inner) = Some(go_on);
        let server = Arc::clone(&self.server);
        tokio::spawn(async move {
            stall(&server, async {
                // Ends also if the case has ended without a resume.
                let _ = goes_on.await;
            })
            .await;
        });
    }

    fn resume(&self) {
        self.go_on.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn kill(&self) {
        cannot_show("a server that survives a kill");
    }

    fn restart(&self) {}
}
