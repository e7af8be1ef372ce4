//! The work of a worker: its job and its arguments.

use std::path::PathBuf;
use std::time::Duration;

use stanchion_core::Kind;

/// The messages of the nemesis to a worker, one per line of its standard input.
pub(crate) const CANCEL: &str = "cancel";
pub(crate) const STOP: &str = "stop";

/// The number of waiters of a crowd.
pub(crate) const CROWD: usize = 1_000;

/// The job of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Calls all kinds of objects again and again, until the nemesis sends [`STOP`] or its input
    /// ends.
    Use,
    /// Calls one mutex from [`CROWD`] tasks, until the process is killed.
    Crowd,
    /// Takes all free permits once, after all other workers have ended.
    Drain,
    /// Executes the commands on its standard input.
    RunCommands,
}

const JOBS: [(Job, &str); 4] =
    [(Job::Use, "use"), (Job::Crowd, "crowd"), (Job::Drain, "drain"), (Job::RunCommands, "run-commands")];

/// The arguments of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    pub(crate) job: Job,
    pub(crate) folder: PathBuf,
    pub(crate) worker: u32,
    pub(crate) url: String,
    pub(crate) ttl: Duration,
    pub(crate) kinds: Vec<Kind>,
    /// The number of mutexes that its tasks share, at least 1.
    pub(crate) mutexes: usize,
    pub(crate) seed: u64,
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "mutex",
        Kind::Semaphore => "semaphore",
        Kind::WaitGroup => "wait-group",
        Kind::Limiter => "limiter",
        _ => "bloom-filter",
    }
}

fn kind_named(name: &str) -> Option<Kind> {
    [Kind::Mutex, Kind::Semaphore, Kind::WaitGroup, Kind::Limiter]
        .into_iter()
        .find(|kind| kind_name(*kind) == name)
}

impl Work {
    /// Converts it to arguments of a command line.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        let job = JOBS.iter().find(|(job, _)| *job == self.job).map_or("", |(_, name)| *name);
        let kinds: Vec<_> = self.kinds.iter().map(|kind| kind_name(*kind)).collect();
        vec![
            job.to_owned(),
            self.folder.display().to_string(),
            self.worker.to_string(),
            self.url.clone(),
            self.ttl.as_millis().to_string(),
            kinds.join(","),
            self.mutexes.to_string(),
            self.seed.to_string(),
        ]
    }

    /// Parses the arguments that [`to_arguments`](Self::to_arguments) makes; `None` for any others.
    #[must_use]
    pub fn parse(arguments: &[String]) -> Option<Self> {
        let [job, folder, worker, url, ttl, kinds, mutexes, seed] = arguments else { return None };
        Some(Self {
            job: JOBS.iter().find(|(_, name)| name == job).map(|(job, _)| *job)?,
            folder: folder.into(),
            worker: worker.parse().ok()?,
            url: url.clone(),
            ttl: Duration::from_millis(ttl.parse().ok()?),
            kinds: kinds.split(',').map(kind_named).collect::<Option<_>>()?,
            mutexes: mutexes.parse().ok()?,
            seed: seed.parse().ok()?,
        })
    }

    /// Returns the URL of its store.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_is_told_fits_on_a_command_line() {
        for (job, _) in JOBS {
            let work = Work {
                job,
                folder: "/tmp/a b".into(),
                worker: 3,
                url: "redis://127.0.0.1:1/?namespace=x".to_owned(),
                ttl: Duration::from_millis(1_000),
                kinds: vec![Kind::Mutex, Kind::WaitGroup],
                mutexes: 2,
                seed: 7,
            };
            assert_eq!(Work::parse(&work.to_arguments()), Some(work));
        }
        assert_eq!(Work::parse(&["use".to_owned()]), None);
    }
}
