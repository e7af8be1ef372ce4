//! What takes out rows that are past their retention time (C25): nothing in the server does it by itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Arguments;
use sqlx::Row;
use sqlx::postgres::PgArguments;
use stanchion_core::clock::sleep;
use stanchion_core::engine::steps::{Chore, Reports};
use stanchion_core::{Error, ErrorKind, Result};

use crate::context::Context;
use crate::error;
use crate::link::Link;
use crate::schema::Statement;

/// Between two sweeps.
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(60);
/// Rows of each kind in one transaction.
const BATCH: i32 = 1_000;
/// Between two transactions of a sweep, so that others get at the rows.
const BREATH: Duration = Duration::from_millis(10);

/// Sweeps the namespace while the store lives. Every process does: what one has taken out costs the others one question.
#[derive(Debug)]
pub(crate) struct Sweep {
    context: Arc<Context>,
    link: Arc<Link>,
    statement: Statement,
    pause: Duration,
}

impl Sweep {
    pub(crate) fn new(context: Arc<Context>, link: Arc<Link>) -> Self {
        let retention = context.retention;
        let pause = (retention.tokens.min(retention.state) / 4).clamp(SHORTEST, LONGEST);
        let statement = context.schema.statement(include_str!("sql/sweep.sql"));
        Self { context, link, statement, pause }
    }

    /// Takes out one batch and tells how many rows it was.
    async fn batch(&self) -> Result<i64> {
        let mut arguments = PgArguments::default();
        let encoding = |error| Error::new(ErrorKind::InvalidArgument, "not an argument").with_source(error);
        arguments.add(&*self.context.namespace).map_err(encoding)?;
        arguments.add(BATCH).map_err(encoding)?;
        let rows = self.link.rows(&self.statement, arguments).await?;
        rows.first().and_then(|row| row.try_get(0).ok()).ok_or_else(error::unexpected)
    }

    async fn sweep(&self) -> Result<()> {
        while self.batch().await? > 0 {
            sleep(BREATH).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Chore for Sweep {
    async fn run(&self, _: &Reports) {
        loop {
            sleep(self.pause.mul_f64(rand::random_range(0.8..=1.0))).await;
            if let Err(error) = self.sweep().await {
                tracing::debug!(%error, "rows past their retention time stay for now");
            }
        }
    }
}
