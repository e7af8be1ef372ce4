//! The step cases, in a namespace of their own on a real server, and tests of this store alone.

#![allow(clippy::disallowed_methods, reason = "tests wait in real time")]

mod dead;
mod harness;
mod moments;
mod mutants;
mod scans;
mod sweep;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgRow};
use sqlx::{Connection, Row};
use stanchion_conformance::step_suite;
use stanchion_conformance::steps::Process;
use stanchion_core::spi::{HintBox, Object, WakeSource};
use stanchion_core::{Result, Ticket};
use stanchion_testbed::servers;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::PostgresSteps;
use crate::connector::Connector;
use crate::context::{Context, Retention};
use crate::migrate::schema_sql;
use crate::pool::Pool;
use crate::schema::Schema;
use crate::session_settings::SessionSettings;

step_suite!(Fixture::shared());

/// The schemas that were made, by the server's URL and the schema's name.
static MADE: LazyLock<Mutex<Vec<(String, String)>>> = LazyLock::new(Mutex::default);

/// A function of the schema, a text in it, and the text that replaces it.
type Change = (&'static str, &'static str, &'static str);

/// A namespace on a server, in the schema of this run.
struct Fixture {
    url: String,
    namespace: String,
    schema: Schema,
    /// The changes that are made to the schema after it is made.
    changes: &'static [Change],
    retention: Retention,
    /// The connection for SQL that tests run often, opened once.
    shared_raw: Mutex<Option<PgConnection>>,
}

/// The hints to a process, from its start on.
#[derive(Debug)]
struct Wake(Mutex<PgListener>, Arc<HintBox>);

#[async_trait]
impl WakeSource for Wake {
    fn watch(&self, _: &Object, _: bool) {}

    async fn next(&self) -> Result<Vec<Ticket>> {
        let next = async {
            let mut listener = self.0.lock().await;
            tokio::select! {
                () = self.1.arrived() => None,
                heard = listener.recv() => Some(heard.expect("a server")),
            }
        };
        let Ok(heard) = timeout(Duration::from_millis(1_500), next).await else { return Ok(Vec::new()) };
        let Some(heard) = heard else { return Ok(self.1.take()) };
        Ok(heard.payload().split(',').map(|ticket| ticket.parse().expect("a ticket")).collect())
    }
}

impl Fixture {
    /// Makes a namespace on the server that all tests of this process share.
    fn shared() -> Self {
        Self::on(servers::postgres().expect("a postgres").url())
    }

    fn on(url: &str) -> Self {
        let retention = Retention { tokens: Duration::from_secs(86_400), state: Duration::from_secs(3_600) };
        Self {
            url: url.to_owned(),
            namespace: format!("t{}", Ticket::random()),
            schema: Self::shared_schema(),
            changes: &[],
            retention,
            shared_raw: Mutex::default(),
        }
    }

    /// Moves the namespace to a schema of its own with these changes.
    fn changed(self, changes: &'static [Change]) -> Self {
        let schema = Schema::new(&format!("t{}", Ticket::random())).expect("a name");
        Self { schema, changes, ..self }
    }

    fn retaining(self, tokens: Duration, state: Duration) -> Self {
        Self { retention: Retention { tokens, state }, ..self }
    }

    fn shared_schema() -> Schema {
        static NAME: LazyLock<String> = LazyLock::new(|| format!("t{}", Ticket::random()));
        Schema::new(&NAME).expect("a name")
    }

    /// Uses the same schema as the other fixture; on another server, one with the same changes.
    fn with(self, other: &Self) -> Self {
        Self { schema: other.schema.clone(), changes: other.changes, ..self }
    }

    /// Connects a plain client.
    async fn raw(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("a connection")
    }

    async fn make_schema(&self) {
        let mut made = MADE.lock().await;
        let place = (self.url.clone(), self.schema.name().to_owned());
        if made.contains(&place) {
            return;
        }
        let mut raw = self.raw().await;
        let schema = schema_sql(self.schema.name(), None, 0).expect("a name of a schema");
        sqlx::raw_sql(sqlx::AssertSqlSafe(schema)).execute(&mut raw).await.expect("a schema");
        for change in self.changes {
            self.change(&mut raw, change).await;
        }
        made.push(place);
    }

    async fn change(&self, raw: &mut PgConnection, (function, from, to): &Change) {
        let rows =
            self.execute(raw, &format!("SELECT pg_get_functiondef('stanchion.{function}'::regproc)")).await;
        let text: String = rows[0].get(0);
        let from = self.in_schema(from);
        assert_eq!(text.matches(&from).count(), 1, "{from:?} in {text}");
        let changed = text.replace(&from, &self.in_schema(to));
        sqlx::raw_sql(sqlx::AssertSqlSafe(changed)).execute(raw).await.expect("it is replaced");
    }

    /// Replaces `stanchion.` by the schema in a text.
    fn in_schema(&self, text: &str) -> String {
        text.replace("stanchion.", &format!("{}.", self.schema.quoted()))
    }

    /// Runs a statement in which `stanchion.` stands for the schema and `$N` for the namespace.
    async fn execute(&self, raw: &mut PgConnection, text: &str) -> Vec<PgRow> {
        let text = self.in_schema(text).replace("$N", &format!("'{}'", self.namespace));
        sqlx::query(sqlx::AssertSqlSafe(text)).fetch_all(raw).await.expect("a statement that succeeds")
    }

    async fn number(&self, raw: &mut PgConnection, text: &str) -> i64 {
        self.execute(raw, text).await[0].get(0)
    }

    /// Makes another process, with an identity and connections of its own.
    async fn process(&self) -> Process {
        self.make_schema().await;
        let process = Ticket::random();
        let options: PgConnectOptions = self.url.parse().expect("a URL");
        // A step waits for a row for longer than tests lock it.
        let (request_timeout, lock_wait) = (Duration::from_secs(20), Duration::from_millis(4_999));
        let settings = SessionSettings { lock_wait, ..SessionSettings::new(request_timeout) };
        let connector = Connector::from(options).with(settings);
        let pool = || Arc::new(Pool::new(connector.clone(), 2, Duration::from_secs(5)));
        let context = Arc::new(Context {
            schema: self.schema.clone(),
            namespace: self.namespace.as_str().into(),
            process,
            retention: self.retention,
            hints: Arc::default(),
        });
        let mut listener = PgListener::connect(&self.url).await.expect("a connection");
        listener.listen(&format!("stanchion_{process}")).await.expect("a channel");
        let steps = || Arc::new(PostgresSteps::new(Arc::clone(&context), pool()));
        let wake = Wake(Mutex::new(listener), Arc::clone(&context.hints));
        Process::new(steps(), steps(), Arc::new(wake))
    }
}
