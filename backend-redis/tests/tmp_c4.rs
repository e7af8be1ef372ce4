#![allow(clippy::all, clippy::disallowed_methods)]
mod support;
use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;
use stanchion_core::MutexOptions;
use support::{Bed, until};
use tokio::time::{Instant, sleep, timeout};
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tmp() {
    let bed = Bed::start().await;
    let (store, wit) = (bed.store().await, bed.store().await);
    let (mut late, mut worst) = (0, Duration::ZERO);
    for round in 0..6000 {
        let name = format!("k{}", round % 7);
        let mutex = store.mutex(&name, MutexOptions::default()).unwrap();
        let witness = wit.mutex(&name, MutexOptions::default()).unwrap();
        let mut f = Box::pin(mutex.lock());
        let mut left = round % 6;
        if left > 0 {
        let _ = timeout(Duration::from_millis(100), poll_fn(|cx| {
            if let Poll::Ready(g) = f.as_mut().poll(cx) { std::mem::forget(g); unreachable_or(); return Poll::Ready(()); }
            left -= 1;
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })).await;
        }
        fn unreachable_or() {}
        drop(f);
        if left > 0 { witness.force_unlock().await.unwrap(); }
        until(witness.as_ref(), Duration::from_secs(1), "nothing", |i| i.waiters == 0 && i.holders.is_empty()).await;
        let start = Instant::now();
        let mut first = true;
        loop {
            if let Some(g) = witness.try_lock().await.unwrap() { g.release().await.unwrap(); break; }
            if first { late += 1; first = false; }
            assert!(start.elapsed() < Duration::from_secs(1), "leak");
            sleep(Duration::from_millis(1)).await;
        }
        if !first { worst = worst.max(start.elapsed()); }
    }
    println!("late {late} worst {worst:?}");
}
