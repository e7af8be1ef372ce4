//! Processes that drive the steps by themselves, in a namespace of their own, on a real server.

#![allow(clippy::disallowed_methods, reason = "tests wait in real time")]

mod grants;
mod groups;
mod liveness;
mod members;
mod queue;
mod records;
mod speed;
mod stress;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgRow};
use sqlx::{Connection, Row};
use stanchion_conformance::servers;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Answers, Cancel, Ending, Kept, LimitCheck, Object, PermitSteps, Polled, Release,
};
use stanchion_core::{FencingToken, Kind, Name, Ticket, Ttl};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::PostgresSteps;
use crate::context::{Context, Retention};
use crate::link::Link;
use crate::schema::Schema;

/// After so long unheard a process counts as silent.
const LIVENESS: Duration = Duration::from_secs(1);
/// How long nobody is judged dead after a stall.
const GRACE: Duration = Duration::from_secs(2);

/// The servers that have our schema.
static MADE: LazyLock<Mutex<Vec<String>>> = LazyLock::new(Mutex::default);

/// A namespace on a server, in the schema of this run.
struct Bed {
    url: String,
    namespace: String,
    retention: Retention,
}

/// One store object of one process: what its callers use, what its engine uses, and its hints.
struct Process {
    callers: PostgresSteps,
    own: PostgresSteps,
    wake: Wake,
}

/// The hints that were sent to a process.
struct Wake(Mutex<(PgListener, Vec<Ticket>)>);

impl Wake {
    /// The next hint, if one comes in time.
    async fn next(&self) -> Option<Ticket> {
        let mut inner = self.0.lock().await;
        let (listener, tickets) = &mut *inner;
        if tickets.is_empty() {
            let heard = timeout(Duration::from_millis(1_500), listener.recv()).await.ok()?.expect("a server");
            tickets
                .extend(heard.payload().split(',').map(|ticket| ticket.parse::<Ticket>().expect("a ticket")));
        }
        Some(tickets.remove(0))
    }

    async fn is_silent(&self) -> bool {
        timeout(Duration::from_millis(100), self.next()).await.is_err()
    }
}

impl Bed {
    /// On the server that all tests of this process share.
    fn shared() -> Self {
        Self::on(servers::postgres().expect("a postgres").url())
    }

    fn on(url: &str) -> Self {
        let retention = Retention { tokens: Duration::from_secs(86_400), state: Duration::from_secs(3_600) };
        Self { url: url.to_owned(), namespace: format!("t{}", Ticket::random()), retention }
    }

    fn retaining(self, tokens: Duration, state: Duration) -> Self {
        Self { retention: Retention { tokens, state }, ..self }
    }

    fn schema() -> Schema {
        static NAME: LazyLock<String> = LazyLock::new(|| format!("t{}", Ticket::random()));
        Schema::new(&NAME).expect("a name")
    }

    /// A plain client.
    async fn raw(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("a connection")
    }

    async fn make_schema(&self) {
        let mut made = MADE.lock().await;
        if made.contains(&self.url) {
            return;
        }
        let mut raw = self.raw().await;
        let schema = Self::schema();
        self.execute(&mut raw, &format!("CREATE SCHEMA \"{}\"", schema.name())).await;
        for migration in schema.migrations() {
            sqlx::raw_sql(migration.sql.clone()).execute(&mut raw).await.expect(&migration.description);
        }
        made.push(self.url.clone());
    }

    /// Runs a statement in which `stanchion.` stands for the schema and `$N` for the namespace.
    async fn execute(&self, raw: &mut PgConnection, text: &str) -> Vec<PgRow> {
        let text = text.replace("stanchion.", &format!("\"{}\".", Self::schema().name()));
        let text = text.replace("$N", &format!("'{}'", self.namespace));
        sqlx::query(sqlx::AssertSqlSafe(text)).fetch_all(raw).await.expect("a statement that succeeds")
    }

    async fn number(&self, raw: &mut PgConnection, text: &str) -> i64 {
        self.execute(raw, text).await[0].get(0)
    }

    /// The store loses this namespace's data.
    async fn forget(&self) {
        let mut raw = self.raw().await;
        for table in ["holds", "waiters", "tombstones", "watchers"] {
            let mine = "object IN (SELECT id FROM stanchion.objects WHERE namespace = $N)";
            self.execute(&mut raw, &format!("DELETE FROM stanchion.{table} WHERE {mine}")).await;
        }
        for table in ["objects", "processes", "grace"] {
            self.execute(&mut raw, &format!("DELETE FROM stanchion.{table} WHERE namespace = $N")).await;
        }
    }

    /// Another process: an identity and connections of its own.
    async fn process(&self) -> Process {
        self.make_schema().await;
        let process = Ticket::random();
        let options: PgConnectOptions = self.url.parse().expect("a URL");
        let link = || Arc::new(Link::new(options.clone(), 2, Duration::from_secs(5)));
        let context = Arc::new(Context {
            schema: Self::schema(),
            namespace: self.namespace.as_str().into(),
            process,
            retention: self.retention,
        });
        let mut listener = PgListener::connect(&self.url).await.expect("a connection");
        listener.listen(&format!("stanchion_{process}")).await.expect("a channel");
        Process {
            callers: PostgresSteps::new(Arc::clone(&context), link()),
            own: PostgresSteps::new(context, link()),
            wake: Wake(Mutex::new((listener, Vec::new()))),
        }
    }
}

fn mutex(name: &str) -> Object {
    Object { kind: Kind::Mutex, name: Name::new(name).expect("a name") }
}

fn semaphore(name: &str) -> Object {
    Object { kind: Kind::Semaphore, name: Name::new(name).expect("a name") }
}

fn ttl(milliseconds: u64) -> Ttl {
    Ttl::new(Duration::from_millis(milliseconds)).expect("a TTL")
}

/// A request for one permit of a limit of one, that queues, with a lease of 30 s.
fn ask(object: &Object) -> Acquire {
    Acquire {
        object: object.clone(),
        ticket: Ticket::random(),
        weight: 1,
        lease: Ttl::DEFAULT,
        limit: 1,
        check: LimitCheck::Follow,
        queue: true,
        max_waiters: None,
        label: None,
    }
}

/// The same for `weight` of `limit` permits.
fn ask_many(object: &Object, weight: u32, limit: u32) -> Acquire {
    Acquire { weight, limit, ..ask(object) }
}

/// The answers to a batch in which none failed.
fn all<T>(answers: Answers<T>) -> Vec<T> {
    answers.into_iter().map(|answer| answer.expect("an answer")).collect()
}

/// The answer to a batch of one.
fn one<T>(answers: Answers<T>) -> T {
    all(answers).remove(0)
}

/// The release of what was asked for.
fn freeing(request: &Acquire, tombstone: Option<Ttl>) -> Release {
    let object = request.object.clone();
    Release { object, ticket: request.ticket, ending: Ending::Finished, tombstone, call: None }
}

async fn acquire(process: &Process, request: &Acquire) -> Acquired {
    one(process.callers.acquire(std::slice::from_ref(request)).await)
}

async fn granted(process: &Process, request: &Acquire) -> FencingToken {
    match acquire(process, request).await {
        Acquired::Granted { token, .. } => token,
        other => panic!("not granted but {other:?}"),
    }
}

async fn waits(process: &Process, request: &Acquire) {
    let answer = acquire(process, request).await;
    assert!(matches!(answer, Acquired::Waiting { .. }), "{answer:?}");
}

async fn release(process: &Process, request: &Acquire) -> Kept {
    let release = freeing(request, None);
    one(process.own.release(&[release]).await)
}

async fn cancel(process: &Process, request: &Acquire) {
    let cancel = Cancel { object: request.object.clone(), ticket: request.ticket, lease: request.lease };
    one(process.own.cancel(&[cancel]).await);
}

async fn poll(process: &Process, object: &Object) -> Polled {
    one(process.own.poll(std::slice::from_ref(object)).await)
}

/// The next hint to this process's waiters.
async fn hint(process: &Process) -> Vec<Ticket> {
    vec![process.wake.next().await.expect("a hint")]
}

/// Polls until it is this ticket's turn; how long that took.
async fn turn(process: &Process, request: &Acquire, limit: Duration) -> Duration {
    let start = Instant::now();
    while !poll(process, &request.object).await.ready.contains(&request.ticket) {
        assert!(start.elapsed() < limit, "not its turn within {limit:?}");
        sleep(Duration::from_millis(50)).await;
    }
    start.elapsed()
}

/// Sleeps a time, during which these processes are heard.
async fn heard(processes: &[&Process], object: &Object, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for process in processes {
            poll(process, object).await;
        }
        sleep(Duration::from_millis(100)).await;
    }
}
