//! The background task of session mode on the engine's thread.

use std::sync::Arc;

use async_trait::async_trait;
use stanchion_core::clock::now;
use stanchion_core::spi::{Chore, Reports};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::connection::SessionConfig;
use super::leaving;
use super::lock_sessions::LockSessions;
use super::recording;
use super::session_task::run_session;
use crate::steps::PostgresSteps;

/// Runs all lock sessions of a process. Dropping it closes them.
#[derive(Debug)]
pub(crate) struct SessionRunner {
    pub(super) lock_sessions: Arc<LockSessions>,
    pub(super) config: Arc<SessionConfig>,
    pub(super) places: PostgresSteps,
}

/// The engine gets reports for as long as this lives.
struct Reporting<'a>(&'a LockSessions);

impl Drop for Reporting<'_> {
    fn drop(&mut self) {
        drop(self.0.with(|state| state.reports.take()));
    }
}

impl SessionRunner {
    async fn run_sessions(&self) {
        // Dropped with this future, which ends all sessions.
        let mut tasks = JoinSet::new();
        loop {
            let (started, next) = self.lock_sessions.with(|state| state.run_timers(now()));
            for id in started {
                let (lock_sessions, config) = (Arc::clone(&self.lock_sessions), Arc::clone(&self.config));
                tasks.spawn(async move { run_session(&lock_sessions, &config, id).await });
            }
            while tasks.try_join_next().is_some() {}
            tokio::select! {
                () = self.lock_sessions.schedule_changed.notified() => {}
                () = async { sleep_until(next.unwrap_or_else(now)).await }, if next.is_some() => {}
            }
        }
    }
}

#[async_trait]
impl Chore for SessionRunner {
    async fn run(&self, reports: &Reports) {
        let reporting = Reporting(&self.lock_sessions);
        reporting.0.with(|state| state.reports = Some(reports.clone()));
        // Boxed: nested, the futures of requests are deeper than what an optimising build lays out.
        tokio::join!(
            self.run_sessions(),
            Box::pin(leaving::leave_queues(&self.lock_sessions, &self.places)),
            Box::pin(leaving::send_hints(&self.lock_sessions, &self.places)),
            Box::pin(recording::write(&self.lock_sessions, &self.places)),
            Box::pin(recording::remove(&self.lock_sessions, &self.places)),
        );
    }
}
