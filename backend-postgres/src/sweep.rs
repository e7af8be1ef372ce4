//! Removes rows whose retention time is over (C25): the server does not do it by itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Result;
use stanchion_core::clock::sleep;
use stanchion_core::spi::{Chore, Reports};

use crate::context::Context;
use crate::error;
use crate::pool::Pool;
use crate::schema::Statement;
use crate::steps::{StatementArguments, column};

/// Minimum and maximum interval between two sweeps.
const MIN_INTERVAL: Duration = Duration::from_secs(10);
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of rows of each kind that one transaction removes.
const MAX_ROWS: i32 = 300;
/// How long a connection may be idle: it has a place at the server that others may want.
const MAX_IDLE: Duration = Duration::from_secs(60);
/// Pause between two transactions of a sweep, so that other transactions reach the rows.
const PAUSE: Duration = Duration::from_millis(10);

/// Sweeps the namespace while the store lives. Every process does so: rows that one process removed
/// cost the others one request.
#[derive(Debug)]
pub(crate) struct Sweep {
    context: Arc<Context>,
    pool: Arc<Pool>,
    /// Each by itself: where one fails, the others go on.
    statements: [Statement; 3],
    interval: Duration,
}

impl Sweep {
    pub(crate) fn new(context: Arc<Context>, pool: Arc<Pool>) -> Self {
        let retention = context.retention;
        let interval = (retention.tokens.min(retention.state) / 4).clamp(MIN_INTERVAL, MAX_INTERVAL);
        let statements = [
            include_str!("sql/sweep_permits.sql"),
            include_str!("sql/sweep_limits.sql"),
            include_str!("sql/sweep_blooms.sql"),
        ]
        .map(|text| context.schema.statement(text));
        Self { context, pool, statements, interval }
    }

    /// Removes one batch and returns its number of rows.
    async fn batch(&self, statement: &Statement) -> Result<i64> {
        let arguments = StatementArguments::default().with(&*self.context.namespace).with(MAX_ROWS);
        let rows = self.pool.rows(statement, arguments.complete()?).await?;
        column(rows.first().ok_or_else(error::unexpected)?, 0)
    }

    /// Removes all that there is to remove. Returns the first error.
    async fn sweep(&self) -> Result<()> {
        let mut swept = Ok(());
        for statement in &self.statements {
            swept = swept.and(self.sweep_by(statement).await);
        }
        swept
    }

    async fn sweep_by(&self, statement: &Statement) -> Result<()> {
        while self.batch(statement).await? > 0 {
            sleep(PAUSE).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Chore for Sweep {
    async fn run(&self, _: &Reports) {
        let mut has_failed = false;
        loop {
            sleep(self.interval.mul_f64(rand::random_range(0.8..=1.0))).await;
            let Err(error) = self.sweep().await else {
                // The sweep's own connection has just been used, and stays.
                self.pool.close_idle(MAX_IDLE);
                has_failed = false;
                continue;
            };
            // An outage is told by the requests of callers.
            if !has_failed && error::is_refusal(&error) {
                tracing::warn!(
                    name: "stanchion.sweep.failed",
                    {
                        stanchion.store = "postgres",
                        error.type = error.kind().as_str(),
                        exception.message = ?error,
                    },
                    "the sweep fails: rows stay past their retention time until it succeeds"
                );
            }
            has_failed = true;
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests own their runtimes")]
mod tests {
    use stanchion_core::spi::ProcessId;
    use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

    use super::*;
    use crate::context::Retention;
    use crate::schema::Schema;

    /// Functions that report removed rows for the first calls only.
    const STAND_INS: &str = "CREATE SCHEMA swept;
        CREATE SEQUENCE swept.calls;
        CREATE FUNCTION swept.sweep_permits(namespace text, batch integer) RETURNS integer LANGUAGE sql
            AS $$ SELECT CASE WHEN nextval('swept.calls') < 4 AND namespace = 'n' THEN batch ELSE 0 END $$;
        CREATE FUNCTION swept.sweep_limits(namespace text, batch integer) RETURNS bigint LANGUAGE sql
            AS $$ SELECT CASE WHEN nextval('swept.calls') < 6 THEN 1 ELSE 0 END::bigint $$;
        CREATE FUNCTION swept.sweep_blooms(namespace text, batch integer) RETURNS bigint LANGUAGE sql
            AS $$ SELECT CASE WHEN nextval('swept.calls') < 8 THEN 1 ELSE 0 END::bigint $$;";

    fn sweep(url: &str, retention: Duration) -> Sweep {
        let context = Context {
            schema: Schema::new("swept").unwrap(),
            namespace: Arc::from("n"),
            process: ProcessId::random(),
            retention: Retention { tokens: retention * 2, state: retention },
            hints: Arc::default(),
        };
        let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
        Sweep::new(Arc::new(context), Arc::new(Pool::new(options, 1, Duration::from_secs(2))))
    }

    #[tokio::test]
    async fn c25_a_sweep_goes_on_until_nothing_is_left() {
        let server = PostgresServer::start(PostgresOptions::default()).unwrap();
        let sweep = sweep(&server.url(), Duration::from_secs(60));
        assert!(sweep.sweep().await.is_err(), "there are no functions yet");
        server.sql(STAND_INS).unwrap();
        sweep.sweep().await.unwrap();
        let calls = || server.sql("SELECT last_value FROM swept.calls").unwrap().trim().to_owned();
        assert_eq!(calls(), "8");
        // Where one fails, the others go on.
        server.sql("DROP FUNCTION swept.sweep_permits(text, integer)").unwrap();
        assert!(sweep.sweep().await.is_err());
        assert_eq!(calls(), "10");
    }

    #[test]
    fn c25_sweeps_are_10_to_60_s_apart() {
        for (retention, interval) in [(1, 10), (120, 30), (3_600, 60)] {
            let sweep = sweep("postgres://127.0.0.1/", Duration::from_secs(retention));
            assert_eq!(sweep.interval, Duration::from_secs(interval));
        }
    }
}
