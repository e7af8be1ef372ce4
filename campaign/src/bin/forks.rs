//! A program that forks while it uses a store. The tests of forks start it; it says by its exit
//! code whether the contract was kept.

#![expect(clippy::disallowed_methods, reason = "a program owns its runtimes")]

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::{Read, Write, pipe};
use std::process::exit;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use stanchion::{
    ErrorKind, LimiterOptions, MutexGuard, MutexOptions, Quota, SemaphoreOptions, Store, Ticket,
};
use stanchion_campaign::connected;
use stanchion_conformance::support::definite;
use tokio::runtime::{Builder, Runtime};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, url] = arguments.as_slice() else { return Err("arguments: the scenario, a URL".into()) };
    match what.as_str() {
        "tickets" => tickets(url),
        "inherited" => inherited(url),
        other => Err(format!("no scenario: {other}").into()),
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn ensure(held: bool, what: &str) -> Outcome {
    if held { Ok(()) } else { Err(what.into()) }
}

/// Ends the child with what it found.
fn end(outcome: Outcome) -> ! {
    match outcome {
        Ok(()) => exit(0),
        Err(error) => {
            eprintln!("child: {error}");
            exit(1)
        }
    }
}

fn await_child(pid: i32) -> Outcome {
    let status = waitpid(pid)?;
    ensure(status == 0, "the child did not end well")
}

async fn locked(url: &str, name: &str) -> Result<Option<(Arc<dyn Store>, MutexGuard)>, Box<dyn Error>> {
    let store = connected(url).await?;
    let mutex = store.mutex(name, MutexOptions::default())?;
    let guard = definite(|| mutex.try_lock()).await?;
    Ok(guard.map(|guard| (store, guard)))
}

/// Parent and child connect after the fork, from one state of the random generator, and lock one
/// name.
fn tickets(url: &str) -> Outcome {
    // Seeds the generator, which the child inherits.
    let _ = Ticket::random();
    let _ = Ticket::random_in_process();
    let (mut told, mut tell) = pipe()?;
    let (mut ended, may_end) = pipe()?;
    match fork()? {
        Fork::Child => end((|| {
            drop(may_end);
            let runtime = runtime()?;
            let held = runtime.block_on(locked(url, "forked"))?;
            tell.write_all(&[u8::from(held.is_some())])?;
            // Until the parent has tried.
            ended.read_to_end(&mut Vec::new())?;
            Ok(())
        })()),
        Fork::Parent(child) => {
            drop((tell, ended));
            let mut answer = [0];
            told.read_exact(&mut answer)?;
            ensure(answer == [1], "the child did not get the lock")?;
            let ours = runtime()?.block_on(locked(url, "forked"))?;
            drop(may_end);
            await_child(child)?;
            ensure(ours.is_none(), "both hold the lock")
        }
    }
}

/// The child uses and drops what it inherited, and ends; the parent goes on.
fn inherited(url: &str) -> Outcome {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (store, guard) = runtime.block_on(locked(url, "kept"))?.ok_or("the mutex is held")?;
    let semaphore = store.semaphore("permits", SemaphoreOptions::new(2))?;
    let permit = runtime.block_on(semaphore.try_acquire())?.ok_or("the semaphore is empty")?;
    let limiter = store.limiter("calls", LimiterOptions::new(Quota::per_second(5).burst(5)))?;
    runtime.block_on(limiter.allow())?;
    let waiting = runtime.spawn({
        let mutex = store.mutex("kept", MutexOptions::default())?;
        async move { mutex.lock().await }
    });
    // One is queued, and the request of the other is under way.
    let ask = || {
        let limiter = Arc::clone(&limiter);
        Box::pin(async move { limiter.peek().await })
    };
    let (mut asking, other) = (ask(), store.mutex("kept", MutexOptions::default())?);
    let mut queued = Box::pin(async move { other.lock().await });
    runtime.block_on(async {
        let queued = tokio::time::timeout(Duration::from_millis(200), &mut queued).await;
        ensure(queued.is_err(), "another caller got the lock")?;
        // Until one is not answered at once.
        while poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx).is_ready())).await {
            asking = ask();
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    let child = match fork()? {
        Fork::Child => {
            // A runtime's threads are not forked: this one would wait for its workers for ever.
            std::mem::forget(runtime);
            drop((asking, queued));
            end(use_inherited(store, guard, permit, limiter))
        }
        Fork::Parent(child) => child,
    };
    await_child(child)?;
    let answered = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(5), asking).await });
    answered.map_err(|_| "the child took the answer")??;
    drop(queued);
    // Longer than a lease of a second would last that nobody renews, were the child's end to stop
    // renewals.
    runtime.block_on(async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        ensure(guard.is_held(), "the parent's hold was lost")?;
        ensure(!waiting.is_finished(), "another caller got the lock")?;
        ensure(limiter.allow().await?.allowed, "no decision after the fork")?;
        permit.release().await?;
        guard.release().await?;
        let next = tokio::time::timeout(Duration::from_secs(5), waiting).await???;
        next.release().await?;
        store.close().await?;
        Ok(())
    })
}

fn use_inherited(
    store: Arc<dyn Store>,
    guard: MutexGuard,
    permit: stanchion::Permit,
    limiter: Arc<dyn stanchion::Limiter>,
) -> Outcome {
    let runtime = runtime()?;
    ensure(!guard.is_held(), "an inherited guard is held")?;
    ensure(guard.deadline().is_none(), "an inherited guard has a deadline")?;
    runtime.block_on(async {
        closed("ping", store.ping()).await?;
        let mutex = store.mutex("other", MutexOptions::default());
        ensure(mutex.is_err_and(|error| error.kind() == ErrorKind::Closed), "a mutex was made")?;
        closed("allow", limiter.allow()).await?;
        closed("release", permit.release()).await?;
        closed("drain", store.drain()).await?;
        closed("close", store.close()).await?;
        guard.lost().await;
        Ok::<_, Box<dyn Error>>(())
    })?;
    drop(guard);
    drop(limiter);
    drop(store);
    Ok(())
}

async fn closed<T>(call: &str, future: impl Future<Output = stanchion::Result<T>>) -> Outcome {
    match future.await {
        Err(error) if error.kind() == ErrorKind::Closed => Ok(()),
        Err(error) => Err(format!("{call}: {error}").into()),
        Ok(_) => Err(format!("{call} was done").into()),
    }
}
