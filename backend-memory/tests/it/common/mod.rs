//! What the tests share.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::disallowed_methods, reason = "tests run tasks and time of their own")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use stanchion_core::{
    ErrorKind, Mutex, MutexOptions, Result, Semaphore, SemaphoreOptions, Store, WaitGroup, WaitGroupOptions,
};
use stanchion_memory::MemoryStore;

/// A short lease.
pub(crate) const TTL: Duration = Duration::from_secs(1);

pub(crate) fn mutex(store: &MemoryStore, name: &str) -> Arc<dyn Mutex> {
    store.mutex(name, MutexOptions::default()).unwrap()
}

pub(crate) fn leased(store: &MemoryStore, name: &str) -> Arc<dyn Mutex> {
    store.mutex(name, MutexOptions::default().ttl(TTL).renew(false)).unwrap()
}

pub(crate) fn semaphore(store: &MemoryStore, name: &str, permits: u32) -> Arc<dyn Semaphore> {
    store.semaphore(name, SemaphoreOptions::new(permits)).unwrap()
}

pub(crate) fn group(store: &MemoryStore, name: &str) -> Arc<dyn WaitGroup> {
    store.wait_group(name, WaitGroupOptions::default()).unwrap()
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// A waker that counts.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future polled by hand, without any runtime.
pub(crate) struct Polled<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
    wakes: Arc<Wakes>,
    polls: usize,
}

impl<'a, T> Polled<'a, T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default(), polls: 0 }
    }

    pub(crate) fn poll(&mut self) -> Option<T> {
        self.polls += 1;
        let waker = Waker::from(Arc::clone(&self.wakes));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    pub(crate) fn polls(&self) -> usize {
        self.polls
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }
}

/// The value of a future that must be ready at once.
pub(crate) fn now<'a, T>(future: impl Future<Output = T> + Send + 'a) -> T {
    Polled::new(future).poll().expect("ready at once")
}

/// Lets every task that can run do so.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Random numbers with a seed (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(below).unwrap()).unwrap()
    }
}
