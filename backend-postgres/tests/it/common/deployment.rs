//! Namespaces on deployments that all cases of the test program share.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use stanchion_conformance::Harness;
use stanchion_conformance::faulty::{self, Faults};
use stanchion_core::{MutexMode, Store, Ticket};
use stanchion_postgres::{PostgresBuilder, PostgresStore};
use stanchion_testbed::faults::Clock;
use stanchion_testbed::servers::{self, PgBouncer, PostgresOptions, PostgresServer};

use super::REQUEST;

/// The URL that stores connect to, and the superuser's URL, directly to the server.
pub(crate) struct Deployment {
    url: String,
    admin: String,
    migrate: bool,
    /// Whether no other test uses the database, so that rows which belong to no namespace can be
    /// lost, too.
    alone: bool,
}

/// Maximum number of connections: enough for all store objects of the cases that run at the same
/// time.
const MAX_CONNECTIONS: &str = "1000";

static SERVER: LazyLock<Deployment> = LazyLock::new(|| {
    let url = servers::postgres().expect("a postgres").url().to_owned();
    Deployment { admin: url.clone(), url, migrate: true, alone: false }
});

static POOLER: LazyLock<Deployment> = LazyLock::new(|| {
    let server = start(PostgresOptions::default());
    make_hostile(server);
    let pooler = PgBouncer::start(server, 40, &[]).expect("a pgbouncer");
    Deployment { url: Box::leak(Box::new(pooler)).url(), admin: server.url(), migrate: true, alone: false }
});

static ROLE: LazyLock<Deployment> = LazyLock::new(|| {
    let server = start(PostgresOptions::default().tls(true).passwords(true));
    make_hostile(server);
    make_schema(server);
    let url = server.role("app", "p w", &grants("app").join("\n")).expect("the manual's grants");
    Deployment { url, admin: server.url(), migrate: false, alone: false }
});

/// A server for idle names alone, whose clock a case moves forward.
struct Clocked {
    deployment: Deployment,
    clock: Clock,
    _server: PostgresServer,
}

impl Clocked {
    fn start() -> Self {
        let clock = Clock::new().expect("a clock");
        let server = PostgresServer::start(PostgresOptions::default().clock(&clock)).expect("a postgres");
        let url = server.url();
        let deployment = Deployment { admin: url.clone(), url, migrate: true, alone: false };
        Self { deployment, clock, _server: server }
    }
}

/// The server of databases that belong to one test.
static PRIVATE: LazyLock<&'static PostgresServer> = LazyLock::new(|| start(PostgresOptions::default()));

fn start(options: PostgresOptions) -> &'static PostgresServer {
    let server = PostgresServer::start(options.setting("max_connections", MAX_CONNECTIONS));
    Box::leak(Box::new(server.expect("a postgres")))
}

/// Settings that change what statements mean, how their values are written, or what fails.
const HOSTILE: [(&str, &str); 20] = [
    ("bytea_output", "'escape'"),
    ("standard_conforming_strings", "off"),
    ("backslash_quote", "off"),
    ("plpgsql.extra_errors", "'all'"),
    ("plpgsql.extra_warnings", "'all'"),
    ("plpgsql.variable_conflict", "'use_column'"),
    ("plpgsql.check_asserts", "off"),
    ("default_transaction_isolation", "'serializable'"),
    ("default_transaction_deferrable", "on"),
    ("lock_timeout", "'1ms'"),
    ("DateStyle", "'SQL, DMY'"),
    ("IntervalStyle", "'sql_standard'"),
    ("TimeZone", "'Asia/Kathmandu'"),
    ("array_nulls", "off"),
    ("transform_null_equals", "on"),
    ("quote_all_identifiers", "on"),
    ("row_security", "off"),
    ("search_path", "'public'"),
    ("client_min_messages", "'debug1'"),
    ("extra_float_digits", "-15"),
];

/// Gives the database all of them.
pub(crate) fn make_hostile(server: &PostgresServer) {
    for (name, value) in HOSTILE {
        server.sql(&format!("ALTER DATABASE postgres SET {name} = {value}")).expect("a setting");
    }
}

/// Makes the schema as an administrator, before any store connects.
pub(crate) fn make_schema(server: &PostgresServer) {
    let sql = stanchion_postgres::schema_sql("stanchion", None, 0).expect("a schema");
    server.script(&sql).expect("the schema");
}

/// Returns the rights in the manual, word for word, one in each line.
pub(crate) fn grants(role: &str) -> Vec<String> {
    let manual = include_str!("../../../README.md");
    let lines = manual.lines().filter(|line| line.starts_with("GRANT "));
    let grants: Vec<_> = lines.map(|line| line.replace("ROLE", role)).collect();
    assert!(!grants.is_empty(), "the manual has no grants");
    grants
}

/// A namespace of its own on the deployment.
pub(crate) struct DeploymentFixture {
    deployment: &'static Deployment,
    mode: MutexMode,
    namespace: String,
    /// The server of idle names, if they are to be on one whose clock can be moved.
    clocked: Option<OnceLock<Clocked>>,
}

impl DeploymentFixture {
    /// Makes a namespace in lease mode on one server.
    pub(crate) fn lease() -> Self {
        Self { clocked: Some(OnceLock::new()), ..Self::on(&SERVER, MutexMode::Lease) }
    }

    /// Makes a namespace in session mode on one server.
    pub(crate) fn session() -> Self {
        Self { clocked: Some(OnceLock::new()), ..Self::on(&SERVER, MutexMode::Session) }
    }

    /// Makes a namespace behind a transaction pooler.
    pub(crate) fn pooled() -> Self {
        Self::on(&POOLER, MutexMode::Lease)
    }

    /// Makes a namespace on a server with TLS, for a role with the manual's rights only, in a
    /// schema that an administrator made.
    pub(crate) fn role() -> Self {
        Self::on(&ROLE, MutexMode::Lease)
    }

    /// Makes a database of its own, with the schema.
    pub(crate) async fn alone(mode: MutexMode) -> Self {
        let name = format!("d{}", Ticket::random());
        let server = PRIVATE.url();
        let mut admin = PgConnection::connect(&server).await.expect("a connection");
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&mut admin).await.expect("a database");
        let (before, _) = server.rsplit_once('/').expect("a URL with a database");
        let url = format!("{before}/{name}");
        let deployment = Deployment { admin: url.clone(), url, migrate: true, alone: true };
        let alone = Self::on(Box::leak(Box::new(deployment)), mode);
        drop(alone.store().await);
        alone
    }

    /// Replaces texts in functions of the schema, in a database of its own. Each text must be there
    /// exactly once.
    pub(crate) async fn change(&self, changes: &[(&str, &str, &str)]) {
        assert!(self.deployment.alone, "other tests use these functions");
        let mut admin = self.admin().await;
        for (function, from, to) in changes {
            let named = format!("SELECT pg_get_functiondef('stanchion.{function}'::regproc)");
            let text: String =
                sqlx::query_scalar(AssertSqlSafe(named)).fetch_one(&mut admin).await.expect("a function");
            assert_eq!(text.matches(from).count(), 1, "{from:?} in {text}");
            let changed = AssertSqlSafe(text.replace(from, to));
            sqlx::raw_sql(changed).execute(&mut admin).await.expect("it is replaced");
        }
    }

    /// Runs a statement.
    pub(crate) async fn execute(&self, statement: &'static str) {
        sqlx::raw_sql(statement).execute(&mut self.admin().await).await.expect("it is carried out");
    }

    /// Returns the URL of the database.
    pub(crate) fn url(&self) -> &str {
        &self.deployment.url
    }

    fn on(deployment: &'static Deployment, mode: MutexMode) -> Self {
        Self { deployment, mode, namespace: format!("t{}", Ticket::random()), clocked: None }
    }

    /// Returns the deployment of idle names.
    fn forgetful(&self) -> &Deployment {
        let clocked = self.clocked.as_ref().map(|server| server.get_or_init(Clocked::start));
        clocked.map_or(self.deployment, |clocked| &clocked.deployment)
    }

    fn builder(&self) -> PostgresBuilder {
        self.builder_on(self.deployment)
    }

    fn builder_on(&self, deployment: &Deployment) -> PostgresBuilder {
        // `lose_data` finds the sessions that keep mutexes by the beginning of the application
        // name.
        let separator = if deployment.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}application_name={}", deployment.url, self.namespace);
        let builder = PostgresStore::builder(&url).expect("a URL").namespace(&self.namespace);
        let builder = builder.request_timeout(REQUEST).migrate(deployment.migrate);
        builder.mutex(self.mode).session_ttl(self.ttl())
    }

    async fn admin(&self) -> PgConnection {
        let mut admin = PgConnection::connect(&self.deployment.admin).await.expect("a connection");
        let isolation =
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, NOT DEFERRABLE";
        sqlx::raw_sql(isolation).execute(&mut admin).await.expect("an isolation level");
        admin
    }
}

/// Counts the rows that belong to names. The rows of a namespace, of its processes and of its grace
/// period do not.
const LEFTOVER: &str = "
    WITH o AS (SELECT id FROM stanchion.objects WHERE namespace = $1),
         l AS (SELECT id FROM stanchion.limiters WHERE namespace = $1),
         b AS (SELECT id FROM stanchion.bloom_filters WHERE namespace = $1),
         g AS (SELECT id FROM stanchion.bloom_images WHERE namespace = $1)
    SELECT (SELECT count(*) FROM o) + (SELECT count(*) FROM l) + (SELECT count(*) FROM b) + (SELECT count(*) FROM g)
         + (SELECT count(*) FROM stanchion.holds WHERE object IN (TABLE o))
         + (SELECT count(*) FROM stanchion.tombstones WHERE object IN (TABLE o))
         + (SELECT count(*) FROM stanchion.waiters WHERE object IN (TABLE o))
         + (SELECT count(*) FROM stanchion.watchers WHERE object IN (TABLE o))
         + (SELECT count(*) FROM stanchion.limit_tickets WHERE limiter IN (TABLE l))
         + (SELECT count(*) FROM stanchion.limit_answers WHERE limiter IN (TABLE l))
         + (SELECT count(*) FROM stanchion.bloom_pages WHERE image IN (TABLE g))
         + (SELECT count(*) FROM stanchion.bloom_flights WHERE filter IN (TABLE b))";

/// Deletes all rows in one statement, so that no step meets a part of them.
const LOSE: &str = "
    WITH o AS (DELETE FROM stanchion.objects WHERE namespace = $1 RETURNING id),
         l AS (DELETE FROM stanchion.limiters WHERE namespace = $1 RETURNING id),
         b AS (DELETE FROM stanchion.bloom_filters WHERE namespace = $1 RETURNING id),
         g AS (DELETE FROM stanchion.bloom_images WHERE namespace = $1 RETURNING id),
         h AS (DELETE FROM stanchion.holds WHERE object IN (TABLE o)),
         t AS (DELETE FROM stanchion.tombstones WHERE object IN (TABLE o)),
         w AS (DELETE FROM stanchion.waiters WHERE object IN (TABLE o)),
         x AS (DELETE FROM stanchion.watchers WHERE object IN (TABLE o)),
         i AS (DELETE FROM stanchion.limit_tickets WHERE limiter IN (TABLE l)),
         a AS (DELETE FROM stanchion.limit_answers WHERE limiter IN (TABLE l)),
         s AS (DELETE FROM stanchion.bloom_pages WHERE image IN (TABLE g)),
         f AS (DELETE FROM stanchion.bloom_flights WHERE filter IN (TABLE b)),
         p AS (DELETE FROM stanchion.processes WHERE namespace = $1),
         n AS (DELETE FROM stanchion.waited WHERE namespace = $1)
    DELETE FROM stanchion.grace WHERE namespace = $1";

/// Ends the sessions that keep mutexes, as a restart of the server does.
const END_SESSIONS: &str = "
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE left($1, 24) || ' lock %'";

#[async_trait]
impl Harness for DeploymentFixture {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.builder().connect().await.expect("a store"))
    }

    async fn forgetful_store(&self, retention: Duration) -> Option<Arc<dyn Store>> {
        // A second is the minimum.
        let retention = retention.max(Duration::from_secs(1));
        let builder = self.builder_on(self.forgetful());
        let store = builder.retention(retention, retention).connect().await;
        Some(Arc::new(store.expect("a store")))
    }

    async fn pass(&self, time: Duration) -> bool {
        let clocked = self.clocked.as_ref().and_then(OnceLock::get);
        clocked.is_some_and(|clocked| clocked.clock.forward(time).is_ok())
    }

    async fn faulty_store(&self, faults: &Arc<Faults>) -> Option<Arc<dyn Store>> {
        if self.mode == MutexMode::Session {
            return None;
        }
        let faults = Arc::clone(faults);
        let builder = self.builder().with_steps(move |steps| faulty::wrap(steps, &faults));
        Some(Arc::new(builder.connect().await.expect("a store")))
    }

    async fn leftover(&self) -> Option<usize> {
        let mut admin = PgConnection::connect(&self.forgetful().admin).await.expect("a connection");
        let row = sqlx::query(LEFTOVER).bind(&self.namespace).fetch_one(&mut admin).await;
        usize::try_from(row.expect("a count").get::<i64, _>(0)).ok()
    }

    fn ttl(&self) -> Duration {
        // In session mode it is the lease of every mutex, also of mutexes that must be kept on a
        // busy machine.
        Duration::from_secs(if self.mode == MutexMode::Session { 4 } else { 1 })
    }

    async fn lose_data(&self) -> bool {
        let mut admin = self.admin().await;
        sqlx::query(LOSE).bind(&self.namespace).execute(&mut admin).await.expect("it is gone");
        if self.mode == MutexMode::Session {
            sqlx::query(END_SESSIONS).bind(&self.namespace).execute(&mut admin).await.expect("they end");
            if self.deployment.alone {
                self.execute("ALTER SEQUENCE stanchion.session_tokens RESTART").await;
            }
        }
        true
    }
}
