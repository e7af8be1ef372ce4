//! Scenes with few actors, written down as a [history]: what a bug does that only a fault brings out.

use std::time::Duration;

use stanchion_core::clock::{now, sleep};
use stanchion_core::{Kind, LimiterOptions, MutexOptions, Name, Quota, Store};
use tempfile::tempdir;
use tokio::sync::Barrier;

use crate::history::{self, Call, ObjectId, Recorder, Report, What};

/// Between two questions of a holder.
const ASKS: Duration = Duration::from_millis(5);
/// How many tokens a bucket has that hardly fills.
const BURST: u64 = 10;

type ReportResult = Result<Report, Box<dyn std::error::Error + Send + Sync>>;

fn object(kind: Kind, name: &str) -> Result<ObjectId, stanchion_core::Error> {
    Ok(ObjectId::new(kind, Name::new(name)?))
}

/// Takes a mutex, waits for the others at a barrier, asks again and again for `time` whether it is still held, and gives
/// it up. What becomes of the store meanwhile is the caller's affair.
///
/// # Errors
/// As `lock`, and as writing and reading a history.
pub async fn holder(store: &dyn Store, ttl: Duration, others: &Barrier, time: Duration) -> ReportResult {
    let folder = tempdir()?;
    let recorder = Recorder::create(folder.path(), 1)?;
    let mutex = store.mutex("scene", MutexOptions::default().ttl(ttl))?;
    let call = Call::Acquire { weight: 1, permits: None, ttl: Some(micros(ttl)), waits: true };
    let operation = recorder.invoke(&object(Kind::Mutex, mutex.name())?, call, None)?;
    let held = operation.granted(mutex.lock().await?)?;
    others.wait().await;
    let end = now() + time;
    while now() < end && held.believes()? {
        sleep(ASKS).await;
    }
    let (operation, guard) = held.releasing()?;
    operation.record(match guard.release().await {
        Ok(()) => What::Released,
        Err(error) => What::ReleaseFailed { error: error.kind() },
    })?;
    Ok(history::check(folder.path())?)
}

/// Asks for all tokens of one bucket that hardly fills, one after the other: the first client, and then each of the
/// others. What becomes of the calls on their way is the caller's affair.
///
/// # Errors
/// As `allow`, and as writing and reading a history.
pub async fn bucket(clients: &[&dyn Store]) -> ReportResult {
    let folder = tempdir()?;
    let quota = Quota::per_hour(1).burst(BURST);
    for (worker, client) in (1..).zip(clients) {
        let recorder = Recorder::create(folder.path(), worker)?;
        let limiter = client.limiter("scene", LimiterOptions::new(quota))?;
        let object = object(Kind::Limiter, limiter.name())?;
        for _ in 0..BURST {
            let operation = recorder.invoke(&object, Call::Take { cost: 1, quota }, None)?;
            let decision = limiter.allow().await?;
            operation.record(What::Decided {
                allowed: decision.allowed,
                store_time: None,
                retry_after: decision.retry_after.map(micros),
                by: decision.decided_by,
            })?;
        }
    }
    Ok(history::check(folder.path())?)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
