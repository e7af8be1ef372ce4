//! Futures that are given up half way.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

/// Polls a future `polls` times at most and drops it; its output if it was ready.
pub async fn drop_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        sleep(Duration::from_millis(3)).await;
    }
    None
}
