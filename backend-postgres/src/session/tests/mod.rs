//! Session mode on a real server, through the engine.

#![allow(clippy::disallowed_methods, reason = "tests wait in real time")]

mod ends;
mod force;
mod holds;
mod machines;
mod state;
mod tokens;
mod waits;
mod watch;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::Stopwatch;
use stanchion_conformance::support::{eventually, within};
use stanchion_core::engine::{Background, Engine};
use stanchion_core::spi::{Purpose, Steps};
use stanchion_core::{Capabilities, Mutex, MutexMode, MutexOptions, Name, Result, Ticket, Ttl};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

use crate::connector::Connector;
use crate::context::{Context, Retention};
use crate::migrate::schema_sql;
use crate::pool::Pool;
use crate::schema::Schema;
use crate::steps::PostgresSteps;
use crate::transaction::{Asked, LockInOptions, TransactionLock, lock_in};
use crate::wake::{Listener, PostgresWake};

const SECOND: Duration = Duration::from_secs(1);
/// The time limit of a request of most processes.
const REQUEST: Duration = Duration::from_secs(2);
/// How long a process has to give a mutex up that was asked for it.
const GRACE: Duration = Duration::from_secs(1);

/// A process: an engine of its own and its mutexes.
struct Process {
    engine: Engine,
    context: Arc<Context>,
    pool: Arc<Pool>,
    ttl: Duration,
}

fn options(server: &PostgresServer) -> PgConnectOptions {
    server.url().parse().unwrap()
}

fn connector(server: &PostgresServer) -> Connector {
    options(server).into()
}

async fn connect(server: &PostgresServer) -> PgConnection {
    PgConnection::connect_with(&options(server)).await.unwrap()
}

/// Makes the schema, once for each server.
async fn migrate(server: &PostgresServer) {
    let schema = schema_sql("stanchion", None, 0).unwrap();
    sqlx::raw_sql(AssertSqlSafe(schema)).execute(&mut connect(server).await).await.unwrap();
}

async fn start(options: PostgresOptions) -> PostgresServer {
    let server = PostgresServer::start(options).unwrap();
    migrate(&server).await;
    server
}

/// The server of all tests that do it no harm.
async fn server() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    static FIRST: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _first = FIRST.lock().await;
    if SERVER.get().is_none() {
        drop(SERVER.set(start(PostgresOptions::default().setting("max_connections", "300")).await));
    }
    SERVER.get().unwrap()
}

impl Process {
    fn new(server: &PostgresServer, namespace: &str) -> Self {
        Self::with(server, namespace, Duration::from_secs(10))
    }

    fn with(server: &PostgresServer, namespace: &str, ttl: Duration) -> Self {
        Self::with_limit(server, namespace, ttl, REQUEST)
    }

    fn with_limit(
        server: &PostgresServer,
        namespace: &str,
        ttl: Duration,
        request_timeout: Duration,
    ) -> Self {
        let context = Arc::new(Context {
            schema: Schema::new("stanchion").unwrap(),
            namespace: Arc::from(namespace),
            process: Ticket::random(),
            retention: Retention { tokens: ttl, state: ttl },
            hints: Arc::default(),
        });
        let steps = || {
            let pool = Pool::new(options(server), 2, request_timeout);
            PostgresSteps::new(Arc::clone(&context), Arc::new(pool))
        };
        let (callers, own, places) = (steps(), steps(), Ticket::random());
        let lease = Ttl::new(ttl).unwrap();
        let (steps, chore, _) =
            super::sessions(&context, (&callers, &own), places, &connector(server), lease);
        let [callers_steps, own_steps] = steps.map(|steps| Arc::new(steps) as Arc<dyn Steps>);
        let processes = vec![context.process, places];
        let wake =
            PostgresWake::new(&Listener::new(Some(connector(server))), processes, Arc::clone(&context.hints));
        let background = Background::new(own_steps);
        let own = Background { chores: vec![Arc::new(chore)], wake: Some(Arc::new(wake)), ..background };
        let mut capabilities = Capabilities::full("postgres", MutexMode::Session);
        capabilities.detach = false;
        let pool = Arc::clone(callers.pool());
        Self { engine: Engine::start(capabilities, callers_steps, own).unwrap(), context, pool, ttl }
    }

    async fn lock_in(&self, transaction: &mut PgConnection, name: &str) -> Result<TransactionLock> {
        let turn = MutexOptions::default().ttl(self.ttl);
        let mutex = self.engine.mutex_for(Purpose::Transaction, name, turn)?;
        let name = Name::new(name)?;
        let (context, pool, engine) = (&*self.context, &self.pool, &self.engine);
        let options = LockInOptions::default();
        let asked = Asked { context, pool, transaction, name, options, engine, by_session: true, end: None };
        lock_in(asked, mutex).await.map(Option::unwrap)
    }

    fn mutex(&self, name: &str) -> Arc<dyn Mutex> {
        self.mutex_with(name, MutexOptions::default())
    }

    fn mutex_with(&self, name: &str, options: MutexOptions) -> Arc<dyn Mutex> {
        self.engine.mutex(name, options.ttl(self.ttl)).unwrap()
    }

    /// How its sessions call themselves.
    fn application(&self) -> String {
        format!("stanchion lock {}", self.context.process)
    }

    async fn sessions(&self, server: &PostgresServer) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1")
            .bind(self.application())
            .fetch_one(&mut connect(server).await)
            .await
            .unwrap()
    }

    /// Stops its sessions at the server where they are (`SIGSTOP`), those of which that is so.
    async fn stop_sessions(&self, server: &PostgresServer, which: &'static str) -> Stopped {
        let sql = format!("SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND {which}");
        let pids: Vec<i32> = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .bind(self.application())
            .fetch_all(&mut connect(server).await)
            .await
            .unwrap();
        assert!(!pids.is_empty());
        Stopped::new(pids)
    }

    /// Ends its sessions at the server.
    async fn terminate(&self, server: &PostgresServer) {
        sqlx::query(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1",
        )
        .bind(self.application())
        .execute(&mut connect(server).await)
        .await
        .unwrap();
    }
}

/// Server processes that are stopped until this is dropped.
struct Stopped(Vec<i32>);

impl Stopped {
    fn new(pids: Vec<i32>) -> Self {
        signal("-STOP", &pids);
        Self(pids)
    }

    fn resume(self) {
        drop(self);
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", &self.0);
    }
}

fn signal(which: &str, pids: &[i32]) {
    let pids = pids.iter().map(ToString::to_string);
    let status = std::process::Command::new("kill").arg(which).args(pids).status().unwrap();
    assert!(status.success());
}

/// The time since another process was asked to give a mutex up.
struct AskedHolder {
    clock: Instant,
    watch: Stopwatch,
}

impl AskedHolder {
    /// Begins right before the call that asks.
    fn now() -> Self {
        Self { clock: Instant::now(), watch: Stopwatch::start() }
    }

    /// Returns whether the caller, which goes by its clock, ended the holder's session although the
    /// holder had less time than `needed` to obey: the machine stood still. It is called right
    /// after the call that asks.
    fn stood_still(&self, needed: Duration) -> bool {
        self.clock.elapsed() >= GRACE && self.watch.elapsed() < needed
    }
}

/// Waits until it is so, for a second.
async fn soon<F: Future<Output = bool>>(what: &str, check: impl FnMut() -> F) {
    eventually(SECOND + EPSILON, what, check).await;
}

/// The number of places in the queue of a mutex.
async fn in_line(server: &PostgresServer, namespace: &str, name: &str) -> i64 {
    let waiting = "SELECT count(*) FROM stanchion.waiters w JOIN stanchion.objects x ON x.id = w.object
        WHERE x.namespace = $1 AND x.name = $2";
    let waiting = sqlx::query_scalar(waiting).bind(namespace).bind(name);
    waiting.fetch_one(&mut connect(server).await).await.unwrap()
}

/// What a task comes to, which is to be within some seconds.
async fn in_time<T>(task: tokio::task::JoinHandle<T>) -> T {
    within(Duration::from_secs(5), "a task", task).await.unwrap()
}
