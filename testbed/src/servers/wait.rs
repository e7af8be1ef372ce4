//! Waiting for something outside this process.

use std::thread;
use std::time::{Duration, Instant};

const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Asks `probe` again and again until it has an answer, for at most `limit`; `None` when it had none by then.
///
/// It blocks its thread, and the last question may be asked up to 50 ms after `limit`.
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
