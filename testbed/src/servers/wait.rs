//! Waits for events outside this process.

use std::thread;
use std::time::{Duration, Instant};

const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Calls `probe` again and again until it returns a value, for at most `limit`; returns `None`
/// after that.
///
/// Blocks the thread. The last call may come up to 50 ms after `limit`.
#[expect(
    clippy::disallowed_methods,
    reason = "test servers are other processes: there is nothing else to wait on"
)]
pub fn wait_until<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(answer) = probe() {
            return Some(answer);
        }
        if start.elapsed() >= limit {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
