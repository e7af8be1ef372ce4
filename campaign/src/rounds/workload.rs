//! The tasks of a worker: calls of all kinds, each recorded.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use stanchion_conformance::support::definite;
use stanchion_core::clock::{micros, sleep};
use stanchion_core::{
    Kind, Limiter, LimiterOptions, Mutex, MutexOptions, Name, Permit, Quota, Result, Semaphore,
    SemaphoreOptions, Store, WaitGroup, WaitGroupOptions,
};

use super::register::{Register, Written};
use super::work::{Job, Work};
use crate::history::{Call, Guard, ObjectId, Operation, RecordedHold, Recorder, What, clock};

/// The permits of the semaphore.
const PERMITS: u32 = 3;
/// The time limit of a request, unless a lease is shorter.
const REQUEST: Duration = Duration::from_secs(2);
const SEMAPHORE: &str = "semaphore";
const LIMITER: &str = "limiter";
/// The pause after a failed call.
const PAUSE: Duration = Duration::from_millis(5);
/// The time in which members join a wait group, and the equally long time after it in which they
/// wait for it, in µs.
const PHASE: u64 = 700_000;
/// The number of wait groups; they are used one after the other.
const GROUPS: u64 = 8;
/// Far more than the delay that dead waiters in front may cause.
const DRAIN_LIMIT: Duration = Duration::from_secs(15);
/// The time limit of calls that have one.
const LIMIT: Duration = Duration::from_millis(400);

/// The objects of a worker.
pub(super) struct Workload {
    recorder: Recorder,
    seed: u64,
    ttl: Duration,
    /// The time limit of a single request.
    request: Duration,
    /// The mutexes, and the register that each guards.
    mutexes: Vec<(Arc<dyn Mutex>, Register)>,
    semaphore: Option<Arc<dyn Semaphore>>,
    groups: Vec<Arc<dyn WaitGroup>>,
    limiter: Option<Arc<dyn Limiter>>,
    quota: Quota,
    /// A crowd waits without a limit: its process is busy with itself at first.
    only_waits: bool,
}

/// Returns the names of one kind that workers use.
pub(super) fn names(kind: Kind, mutexes: usize) -> Vec<String> {
    match kind {
        Kind::Mutex => (0..mutexes).map(mutex_name).collect(),
        Kind::WaitGroup => (0..GROUPS).map(group_name).collect(),
        Kind::Semaphore => vec![SEMAPHORE.to_owned()],
        Kind::Limiter => vec![LIMITER.to_owned()],
        _ => Vec::new(),
    }
}

pub(super) fn object(kind: Kind, name: &str) -> io::Result<ObjectId> {
    Ok(ObjectId::new(kind, Name::new(name).map_err(io::Error::other)?))
}

impl Workload {
    pub(super) fn new(store: &dyn Store, work: &Work, recorder: Recorder) -> io::Result<Self> {
        let ttl = work.ttl;
        let quota = Quota::per_second(200).burst(40);
        let has = |kind| work.kinds.contains(&kind);
        let made = || -> Result<_> {
            let mutex = |name: String| store.mutex(&name, MutexOptions::default().ttl(ttl));
            let mutexes =
                names(Kind::Mutex, work.mutexes).into_iter().map(mutex).collect::<Result<Vec<_>>>()?;
            let semaphore = has(Kind::Semaphore)
                .then(|| store.semaphore(SEMAPHORE, SemaphoreOptions::new(PERMITS).ttl(ttl)))
                .transpose()?;
            let mut groups = Vec::new();
            for number in 0..if has(Kind::WaitGroup) { GROUPS } else { 0 } {
                groups.push(store.wait_group(&group_name(number), WaitGroupOptions::default().ttl(ttl))?);
            }
            let limiter =
                has(Kind::Limiter).then(|| store.limiter(LIMITER, LimiterOptions::new(quota))).transpose()?;
            Ok((mutexes, semaphore, groups, limiter))
        };
        let (mutexes, semaphore, groups, limiter) = made().map_err(io::Error::other)?;
        let register = |mutex: Arc<dyn Mutex>| {
            let register = Register::open(&work.folder.join(format!("register-{}", mutex.name())))?;
            Ok((mutex, register))
        };
        let mutexes = mutexes.into_iter().map(register).collect::<io::Result<_>>()?;
        let request = (ttl / 3).min(REQUEST);
        let seed = work.seed;
        let only_waits = work.job == Job::Crowd;
        Ok(Self { recorder, seed, ttl, request, mutexes, semaphore, groups, limiter, quota, only_waits })
    }

    /// Calls one kind of object again and again.
    pub(super) async fn run(&self, kind: Kind, task: u64) -> io::Result<()> {
        let recorder = self.recorder.task();
        let worker = u64::from(self.recorder.worker());
        let mut dice = StdRng::seed_from_u64(self.seed ^ (worker << 40) ^ task);
        loop {
            let well = match kind {
                Kind::Mutex => self.lock(&recorder, &mut dice, task).await?,
                Kind::Semaphore => self.acquire(&recorder, &mut dice).await?,
                Kind::WaitGroup => self.gather(&recorder, &mut dice).await?,
                Kind::Limiter => self.take(&recorder, &mut dice).await?,
                other => return Err(io::Error::other(format!("workers do not call {other:?}"))),
            };
            if !well {
                sleep(PAUSE).await;
            }
        }
    }

    fn acquisition(&self, weight: u32, permits: Option<u32>, waits: bool) -> Call {
        Call::Acquire { weight, permits, ttl: Some(micros(self.ttl)), waits }
    }

    async fn lock(&self, recorder: &Recorder, dice: &mut StdRng, task: u64) -> io::Result<bool> {
        let at = usize::try_from(task).unwrap_or_default() % self.mutexes.len();
        let (mutex, register) = &self.mutexes[at];
        let object = object(Kind::Mutex, mutex.name())?;
        let (operation, granted) = match dice.random_range(0..10) {
            0 if !self.only_waits => {
                let call = self.acquisition(1, None, false);
                let operation = recorder.invoke(&object, call, Some(micros(self.request)))?;
                (operation, mutex.try_lock().await)
            }
            1 | 2 if !self.only_waits => {
                let call = self.acquisition(1, None, true);
                let operation = recorder.invoke(&object, call, Some(micros(LIMIT)))?;
                (operation, mutex.lock_for(LIMIT).await)
            }
            _ => {
                let operation = recorder.invoke(&object, self.acquisition(1, None, true), None)?;
                (operation, mutex.lock().await.map(Some))
            }
        };
        let Some(held) = answered(operation, granted)? else { return Ok(false) };
        write(register, &held).await?;
        self.hold(&held, dice).await?;
        write(register, &held).await?;
        if dice.random_range(0..4) == 0 {
            drop(held);
            return Ok(true);
        }
        let (operation, guard) = held.releasing()?;
        released(&operation, guard.release().await)?;
        Ok(true)
    }

    /// Holds for some time, and records whether `is_held` stays true.
    async fn hold<G: Guard + Sync>(&self, held: &RecordedHold<G>, dice: &mut StdRng) -> io::Result<()> {
        held.believes()?;
        // Most holds are short; some are renewed once or twice.
        let millis = match dice.random_range(0..40) {
            0 => dice.random_range(0..1_000),
            _ => dice.random_range(0..12),
        };
        sleep(Duration::from_millis(millis)).await;
        held.believes()?;
        Ok(())
    }

    async fn acquire(&self, recorder: &Recorder, dice: &mut StdRng) -> io::Result<bool> {
        let Some(semaphore) = &self.semaphore else { return Ok(false) };
        let object = object(Kind::Semaphore, semaphore.name())?;
        let weight = dice.random_range(1..=2);
        let call = |waits| self.acquisition(weight, Some(PERMITS), waits);
        let (operation, granted) = match dice.random_range(0..10) {
            0 => {
                let operation = recorder.invoke(&object, call(false), Some(micros(self.request)))?;
                (operation, semaphore.try_acquire_many(weight).await)
            }
            1 | 2 => {
                let operation = recorder.invoke(&object, call(true), Some(micros(LIMIT)))?;
                (operation, semaphore.acquire_many_for(weight, LIMIT).await)
            }
            _ => {
                let operation = recorder.invoke(&object, call(true), None)?;
                (operation, semaphore.acquire_many(weight).await.map(Some))
            }
        };
        let Some(held) = answered(operation, granted)? else { return Ok(false) };
        self.hold(&held, dice).await?;
        let (operation, permit) = held.releasing()?;
        released(&operation, permit.release().await)?;
        Ok(true)
    }

    /// Joins a group in the first phase, and waits for it in the second.
    async fn gather(&self, recorder: &Recorder, dice: &mut StdRng) -> io::Result<bool> {
        let (phase, gathers) = (clock::now() / PHASE / 2, (clock::now() / PHASE).is_multiple_of(2));
        let at = usize::try_from(phase % GROUPS).unwrap_or_default();
        let Some(group) = self.groups.get(at) else { return Ok(false) };
        let object = object(Kind::WaitGroup, group.name())?;
        if gathers {
            let call = Call::Add { limit: None, ttl: Some(micros(self.ttl)) };
            let operation = recorder.invoke(&object, call, None)?;
            let Some(held) = answered(operation, group.add().await.map(Some))? else { return Ok(false) };
            self.hold(&held, dice).await?;
            let (operation, member) = held.releasing()?;
            released(&operation, member.done().await)?;
            return Ok(true);
        }
        let operation = recorder.invoke(&object, Call::Wait, Some(micros(LIMIT)))?;
        let (what, well) = match group.wait_for(LIMIT).await {
            Ok(Some(outcome)) => (
                What::Waited {
                    finished: outcome.finished,
                    abandoned: outcome.abandoned,
                    expired: outcome.expired,
                },
                false,
            ),
            Ok(None) => (What::Refused, true),
            Err(error) => (What::Failed { error: error.kind() }, false),
        };
        operation.record(what)?;
        Ok(well)
    }

    async fn take(&self, recorder: &Recorder, dice: &mut StdRng) -> io::Result<bool> {
        let Some(limiter) = &self.limiter else { return Ok(false) };
        let object = object(Kind::Limiter, limiter.name())?;
        let cost = dice.random_range(1..=3);
        if dice.random_range(0..8) == 0 {
            let call = Call::Reserve { cost, quota: self.quota };
            let operation = recorder.invoke(&object, call, Some(micros(LIMIT)))?;
            let what = match limiter.wait_n_for(cost, LIMIT).await {
                Ok(allowed) => What::Decided {
                    allowed,
                    store_time: None,
                    retry_after: None,
                    by: stanchion_core::DecidedBy::Store,
                },
                Err(error) => What::Failed { error: error.kind() },
            };
            operation.record(what)?;
            return Ok(false);
        }
        let call = Call::Take { cost, quota: self.quota };
        // The call has no lease that could bound it.
        let operation = recorder.invoke(&object, call, Some(micros(REQUEST)))?;
        let what = match limiter.allow_n(cost).await {
            Ok(decision) => What::Decided {
                allowed: decision.allowed,
                store_time: None,
                retry_after: decision.retry_after.map(micros),
                by: decision.decided_by,
            },
            Err(error) => What::Failed { error: error.kind() },
        };
        operation.record(what)?;
        Ok(false)
    }

    /// Takes all permits while no other worker runs, and checks that not one more can be taken
    /// (S4). Waiters that died in the queue may delay the first call (C5).
    pub(super) async fn drain(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let Some(semaphore) = &self.semaphore else { return Ok(()) };
        let began = clock::now();
        let all = definite(|| semaphore.acquire_many_for(PERMITS, DRAIN_LIMIT)).await?;
        let mut permits: Vec<_> = all.into_iter().collect();
        while let Some(permit) = definite(|| semaphore.try_acquire()).await? {
            permits.push(permit);
        }
        let taken = permits.iter().map(Permit::weight).sum();
        let object = object(Kind::Semaphore, semaphore.name())?;
        self.recorder.record(0, Some(&object), What::Drained { began, permits: taken })?;
        Ok(())
    }
}

fn mutex_name(number: usize) -> String {
    if number == 0 { "mutex".to_owned() } else { format!("mutex-{number}") }
}

fn group_name(number: u64) -> String {
    format!("group-{number}")
}

async fn write<G: Guard + Sync>(register: &Register, held: &RecordedHold<G>) -> io::Result<()> {
    let (token, ticket) = (Guard::token(&**held), Guard::ticket(&**held));
    for _ in 0..20 {
        let began = clock::now();
        let what = match register.write(token, ticket)? {
            Written::Yes(sequence) => What::Wrote { began, token, ticket, sequence },
            Written::No => What::WriteRefused { began, token, ticket },
            Written::Busy => {
                sleep(Duration::from_millis(1)).await;
                continue;
            }
        };
        held.operation().record(what)?;
        break;
    }
    Ok(())
}

/// Records the answer to an acquisition.
fn answered<G: Guard>(
    operation: Operation,
    granted: Result<Option<G>>,
) -> io::Result<Option<RecordedHold<G>>> {
    match granted {
        Ok(Some(guard)) => operation.granted(guard).map(Some),
        Ok(None) => operation.record(What::Refused).map(|_| None),
        Err(error) => operation.record(What::Failed { error: error.kind() }).map(|_| None),
    }
}

pub(super) fn released(operation: &Operation, answer: Result<()>) -> io::Result<()> {
    let what = match answer {
        Ok(()) => What::Released,
        Err(error) => What::ReleaseFailed { error: error.kind() },
    };
    operation.record(what).map(drop)
}
