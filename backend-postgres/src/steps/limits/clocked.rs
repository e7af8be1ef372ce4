//! Limiters on a real server with a clock that the test sets.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::{Arguments, AssertSqlSafe, Connection, PgConnection, Row, raw_sql};
use stanchion_conformance::steps::ClockHarness;
use stanchion_core::Ticket;
use stanchion_core::spi::{ProcessId, Steps};
use stanchion_testbed::servers;
use tokio::sync::Mutex;

use crate::context::{Context, Retention};
use crate::migrate::schema_sql;
use crate::pool::Pool;
use crate::schema::Schema;
use crate::steps::PostgresSteps;

/// A schema of its own. A table that the test sets replaces the server's clock in the only function
/// that reads it.
pub(super) struct Clocked {
    steps: PostgresSteps,
    schema: String,
    raw: Mutex<PgConnection>,
}

impl Clocked {
    pub(super) async fn new() -> Self {
        let options: PgConnectOptions =
            servers::postgres().expect("a postgres").url().parse().expect("a URL");
        let mut raw = PgConnection::connect_with(&options).await.unwrap();
        let schema = format!("t{}", Ticket::random());
        let place = Schema::new(&schema).unwrap();
        let all = schema_sql(&schema, None, 0).unwrap();
        raw_sql(AssertSqlSafe(all)).execute(&mut raw).await.unwrap();
        let hour = Duration::from_secs(3_600);
        let context = Context {
            schema: place,
            namespace: Arc::from("n"),
            process: ProcessId::random(),
            retention: Retention { tokens: hour, state: hour },
            hints: Arc::default(),
        };
        let pool = Pool::new(options, 16, Duration::from_secs(60));
        let steps = PostgresSteps::new(Arc::new(context), Arc::new(pool));
        let clocked = Self { steps, schema, raw: Mutex::new(raw) };
        clocked
            .run(
                "CREATE TABLE stanchion.clock (at bigint); INSERT INTO stanchion.clock VALUES (0);
             CREATE OR REPLACE FUNCTION stanchion.now() RETURNS bigint LANGUAGE sql VOLATILE
             AS $$ SELECT at FROM stanchion.clock $$",
            )
            .await;
        clocked
    }

    pub(super) async fn run(&self, sql: &str) {
        let sql = sql.replace("stanchion.", &format!("{}.", self.schema));
        raw_sql(AssertSqlSafe(sql)).execute(&mut *self.raw.lock().await).await.unwrap();
    }

    pub(super) async fn number(&self, sql: &str) -> i64 {
        let sql = sql.replace("stanchion.", &format!("{}.", self.schema));
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *self.raw.lock().await).await.unwrap()
    }

    /// Waits until a step waits for a lock of this connection.
    pub(super) async fn await_waiter(&self) {
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))";
        while self.number(waits).await == 0 {}
    }

    /// Sweeps over another connection, and returns the number of removed rows.
    pub(super) async fn sweep_elsewhere(&self) -> i64 {
        let place = Schema::new(&self.schema).unwrap();
        let mut arguments = PgArguments::default();
        arguments.add("n").and_then(|()| arguments.add(100_i32)).unwrap();
        let rows =
            self.steps.pool.rows(&place.statement("SELECT stanchion.sweep_limits($1, $2)"), arguments).await;
        rows.unwrap()[0].get(0)
    }

    /// Returns the numbers of rows of limiters, tickets and answers.
    pub(super) async fn rows(&self) -> [i64; 3] {
        let limiters = self.number("SELECT count(*) FROM stanchion.limiters").await;
        let tickets = self.number("SELECT count(*) FROM stanchion.limit_tickets").await;
        [limiters, tickets, self.number("SELECT count(*) FROM stanchion.limit_answers").await]
    }
}

#[async_trait]
impl ClockHarness for Clocked {
    fn steps(&self) -> Arc<dyn Steps> {
        Arc::new(self.steps.clone())
    }

    async fn at(&self, now: u64) {
        self.run(&format!("UPDATE stanchion.clock SET at = {now}")).await;
    }
}
