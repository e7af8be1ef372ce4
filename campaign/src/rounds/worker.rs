//! The main loop of a worker.

use std::io;
use std::sync::Arc;

use stanchion_core::{Kind, Store};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinSet;

use super::stall_monitor::StallMonitor;
use super::work::{CANCEL, CROWD, Job, STOP, Work};
use super::worker_commands::run_commands;
use super::workload::Workload;
use crate::history::{Recorder, What};

/// The tasks that a worker runs for each kind.
const TASKS: usize = 3;

impl Work {
    /// Runs the job with a store that was connected to [`url`](Self::url), until the nemesis ends
    /// it.
    ///
    /// # Errors
    /// If the history cannot be written, an object cannot be created, or the free permits cannot be
    /// taken.
    pub async fn run(&self, store: Arc<dyn Store>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let recorder = Recorder::create(&self.folder, self.worker)?;
        let of_stalls = recorder.task();
        let _stalls = StallMonitor::start(move |end, length| {
            of_stalls.record_at(end, 0, None, What::StoodStill { length })
        });
        match self.job {
            Job::Use | Job::Crowd => self.use_up(Workload::new(store.as_ref(), self, recorder)?).await?,
            Job::Drain => Workload::new(store.as_ref(), self, recorder)?.drain().await?,
            Job::RunCommands => run_commands(store.as_ref(), self.ttl, &recorder).await?,
        }
        // A hold that cannot be released ends with its lease.
        drop(store.close().await);
        Ok(())
    }

    async fn use_up(&self, workload: Workload) -> io::Result<()> {
        let workload = Arc::new(workload);
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let mut round = 0;
        let mut tasks = self.tasks(&workload, round);
        loop {
            tokio::select! {
                line = lines.next_line() => match line?.as_deref() {
                    Some(CANCEL) => {
                        round += 1;
                        tasks.shutdown().await;
                        tasks = self.tasks(&workload, round);
                    }
                    Some(STOP) | None => break,
                    Some(_) => {}
                },
                // A task ends only if its history cannot be written, or by a panic.
                Some(ended) = tasks.join_next() => {
                    ended.map_err(io::Error::other)??;
                }
            }
        }
        tasks.shutdown().await;
        Ok(())
    }

    fn tasks(&self, workload: &Arc<Workload>, round: u64) -> JoinSet<io::Result<()>> {
        let mut tasks = JoinSet::new();
        let (kinds, each) = match self.job {
            Job::Crowd => (&[Kind::Mutex][..], CROWD),
            _ => (&self.kinds[..], TASKS),
        };
        for (at, kind) in kinds.iter().enumerate() {
            for task in 0..each {
                let number = (round << 16) | (u64::try_from(at * each + task).unwrap_or_default());
                let (workload, kind) = (Arc::clone(workload), *kind);
                tasks.spawn(async move { workload.run(kind, number).await });
            }
        }
        tasks
    }
}
