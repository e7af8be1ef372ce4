//! Small scenarios, recorded as a [history], for bugs that show only under a fault.

use std::time::Duration;

use stanchion_core::clock::{micros, now, sleep};
use stanchion_core::{Kind, LimiterOptions, MutexOptions, Name, Quota, Store};
use tempfile::tempdir;
use tokio::sync::Barrier;

use crate::history::{self, Call, ObjectId, Recorder, Report, What};

/// The interval between two `is_held` calls of a holder.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// The burst of the bucket; it hardly refills during a scenario.
const BURST: u64 = 10;

type ReportResult = Result<Report, Box<dyn std::error::Error + Send + Sync>>;

fn object(kind: Kind, name: &str) -> Result<ObjectId, stanchion_core::Error> {
    Ok(ObjectId::new(kind, Name::new(name)?))
}

/// Locks a mutex, waits at the barrier, checks `is_held` again and again for `time`, and releases.
/// The caller may inject a fault into the store meanwhile.
///
/// # Errors
/// As `lock`, and as recording and reading a history.
pub async fn holder(store: &dyn Store, ttl: Duration, others: &Barrier, time: Duration) -> ReportResult {
    let folder = tempdir()?;
    let recorder = Recorder::create(folder.path(), 1)?;
    let mutex = store.mutex("scenario", MutexOptions::default().ttl(ttl))?;
    let call = Call::Acquire { weight: 1, permits: None, ttl: Some(micros(ttl)), waits: true };
    let operation = recorder.invoke(&object(Kind::Mutex, mutex.name())?, call, None)?;
    let held = operation.granted(mutex.lock().await?)?;
    others.wait().await;
    let end = now() + time;
    loop {
        // The last check is made at `end` or later, also if the machine stood still until then.
        let is_over = now() >= end;
        if !held.believes()? || is_over {
            break;
        }
        sleep(CHECK_INTERVAL).await;
    }
    let (operation, guard) = held.releasing()?;
    operation.record(match guard.release().await {
        Ok(()) => What::Released,
        Err(error) => What::ReleaseFailed { error: error.kind() },
    })?;
    Ok(history::check(folder.path())?)
}

/// Takes as many tokens as one slowly refilling bucket has, one by one: first with the first
/// client, then with each of the others. The caller may inject a fault into the calls.
///
/// # Errors
/// As `allow`, and as recording and reading a history.
pub async fn bucket(clients: &[&dyn Store]) -> ReportResult {
    let folder = tempdir()?;
    let quota = Quota::per_hour(1).burst(BURST);
    for (worker, client) in (1..).zip(clients) {
        let recorder = Recorder::create(folder.path(), worker)?;
        let limiter = client.limiter("scenario", LimiterOptions::new(quota))?;
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
