//! The sessions' place on the engine's thread.

use std::sync::Arc;

use async_trait::async_trait;
use stanchion_core::clock::now;
use stanchion_core::steps::{Chore, Reports};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::desk::Desk;
use super::errands;
use super::notes;
use super::serve::serve;
use super::wire::Wires;
use crate::steps::PostgresSteps;

/// Drives all lock sessions of a process. Dropped, it closes them.
#[derive(Debug)]
pub(crate) struct SessionChore {
    pub(super) desk: Arc<Desk>,
    pub(super) wires: Arc<Wires>,
    pub(super) places: PostgresSteps,
}

/// The engine hears of what happens for as long as this lives.
struct Reporting<'a>(&'a Desk);

impl Drop for Reporting<'_> {
    fn drop(&mut self) {
        drop(self.0.with(|state| state.reports.take()));
    }
}

impl SessionChore {
    async fn serve_all(&self) {
        // Dropped with this future, with all sessions.
        let mut sessions = JoinSet::new();
        loop {
            let (started, next) = self.desk.with(|state| state.tick_and_start(now()));
            for id in started {
                let (desk, wires) = (Arc::clone(&self.desk), Arc::clone(&self.wires));
                sessions.spawn(async move { serve(&desk, &wires, id).await });
            }
            while sessions.try_join_next().is_some() {}
            tokio::select! {
                () = self.desk.stir.notified() => {}
                () = async { sleep_until(next.unwrap_or_else(now)).await }, if next.is_some() => {}
            }
        }
    }
}

#[async_trait]
impl Chore for SessionChore {
    async fn run(&self, reports: &Reports) {
        let reporting = Reporting(&self.desk);
        reporting.0.with(|state| state.reports = Some(reports.clone()));
        // Boxed: nested, the futures of requests are deeper than what an optimising build lays out.
        tokio::join!(
            self.serve_all(),
            Box::pin(errands::give_up_places(&self.desk, &self.places)),
            Box::pin(errands::tell(&self.desk, &self.places)),
            Box::pin(notes::note(&self.desk, &self.places)),
            Box::pin(notes::forget(&self.desk, &self.places)),
        );
    }
}
