//! How long a connection has been silent. A request with a short lease has little time, so that its
//! timeout says little about the connection that many callers share: a server that stalls for a
//! moment must not cost it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use stanchion_core::clock::{Instant, micros, real};
use stanchion_core::connect::{LATE_ANSWER, MAX_UNCHECKED_IDLE, late_pause};

/// Time without an answer after which a connection counts as broken: of requests under way, or
/// since the first of several that got none.
const MAX_SILENCE: Duration = Duration::from_secs(1);

/// The silence of one connection.
#[derive(Debug)]
pub(super) struct Silence {
    made: Instant,
    /// Time of the last answer, in µs since `made`.
    heard: AtomicU64,
    /// Number of requests under way. One whose caller does not poll it counts until the end of the
    /// last one.
    under_way: AtomicU32,
    busy_until: AtomicU64,
    /// Number of those that may take long although the connection lives.
    slow: AtomicU32,
    /// When the server may be asked about it again, over another connection.
    ask_after: AtomicU64,
    unanswered: Mutex<Unanswered>,
}

/// A request under way on a connection.
#[derive(Debug)]
pub(crate) struct UnderWay {
    silence: Weak<Silence>,
    is_slow: bool,
}

impl UnderWay {
    pub(super) fn new(silence: &Weak<Silence>, end: Instant, is_slow: bool) -> Self {
        if let Some(silence) = silence.upgrade() {
            silence.under_way.fetch_add(1, Ordering::Relaxed);
            silence.slow.fetch_add(u32::from(is_slow), Ordering::Relaxed);
            silence.busy_until.fetch_max(silence.micros(end), Ordering::Relaxed);
        }
        Self { silence: Weak::clone(silence), is_slow }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(silence) = self.silence.upgrade() {
            silence.under_way.fetch_sub(1, Ordering::Relaxed);
            silence.slow.fetch_sub(u32::from(self.is_slow), Ordering::Relaxed);
        }
    }
}

/// The time that requests have waited in vain since the last answer, in µs. What they waited at the
/// same time counts once.
#[derive(Debug, Default)]
struct Unanswered {
    total: u64,
    until: u64,
    /// When the first of these requests was sent, and how many there were.
    since: u64,
    count: u32,
}

impl Silence {
    pub(super) fn new() -> Self {
        Self {
            made: real(),
            heard: AtomicU64::new(0),
            under_way: AtomicU32::new(0),
            busy_until: AtomicU64::new(0),
            slow: AtomicU32::new(0),
            ask_after: AtomicU64::new(0),
            unanswered: Mutex::default(),
        }
    }

    /// Notes an answer.
    pub(super) fn end(&self) {
        self.heard.store(self.micros(real()), Ordering::Relaxed);
    }

    /// Returns whether nothing was asked or heard for so long that the connection may be gone.
    pub(super) fn is_idle(&self) -> bool {
        let is_free = self.under_way.load(Ordering::Relaxed) == 0
            || self.micros(real()) >= self.busy_until.load(Ordering::Relaxed);
        is_free && self.silent_for() >= MAX_UNCHECKED_IDLE
    }

    /// Returns the time since the last answer.
    fn silent_for(&self) -> Duration {
        let heard = self.heard.load(Ordering::Relaxed);
        Duration::from_micros(self.micros(real()).saturating_sub(heard))
    }

    /// Returns whether the server is to be asked now, over another connection, whether this one
    /// leads to it; not again before a while has passed.
    pub(super) fn is_question_due(&self) -> bool {
        let (now, after) = (self.micros(real()), self.ask_after.load(Ordering::Relaxed));
        let is_due =
            now >= after && self.slow.load(Ordering::Relaxed) == 0 && self.silent_for() >= LATE_ANSWER;
        let next = now + micros(late_pause());
        is_due && self.ask_after.compare_exchange(after, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns whether an answer came after that.
    pub(super) fn is_heard_since(&self, at: Instant) -> bool {
        self.heard.load(Ordering::Relaxed) > self.micros(at)
    }

    /// Notes a request that was not answered in time. Returns whether the connection counts as
    /// broken; `timeout` is that of a request without a short lease.
    pub(super) fn is_too_long(&self, sent: Instant, timeout: Duration) -> bool {
        let (sent, now) = (self.micros(sent), self.micros(real()));
        let heard = self.heard.load(Ordering::Relaxed);
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        if heard >= unanswered.until {
            *unanswered = Unanswered { total: 0, until: heard, since: sent.max(heard), count: 0 };
        }
        unanswered.count += 1;
        unanswered.total += now.saturating_sub(sent.max(unanswered.until));
        unanswered.until = now;
        // A timer may end a request a little early.
        let waited = unanswered.total + 1_000 >= micros(MAX_SILENCE.min(timeout));
        // Callers may pause between requests that are short.
        waited || (unanswered.count > 1 && now.saturating_sub(unanswered.since) >= micros(MAX_SILENCE))
    }

    fn micros(&self, at: Instant) -> u64 {
        micros(at.saturating_duration_since(self.made))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn c28_the_server_is_asked_about_a_silent_connection_by_one_caller_at_a_time() {
        let silence = Arc::new(Silence { made: real() - Duration::from_secs(60), ..Silence::new() });
        let slow = UnderWay::new(&Arc::downgrade(&silence), real(), true);
        let small = UnderWay::new(&Arc::downgrade(&silence), real(), false);
        assert!(!silence.is_question_due(), "a request may be slow to pass");
        drop((slow, small));
        assert!(silence.is_question_due() && !silence.is_question_due());
        silence.ask_after.store(0, Ordering::Relaxed);
        silence.end();
        assert!(!silence.is_question_due(), "it has answered");
    }

    #[test]
    fn what_requests_waited_at_the_same_time_counts_once() {
        let silence = Silence { made: real() - Duration::from_secs(60), ..Silence::new() };
        let timeout = Duration::from_secs(2);
        for _ in 0..10 {
            assert!(!silence.is_too_long(real() - Duration::from_millis(300), timeout));
        }
        silence.end();
        assert!(!silence.is_too_long(real() - Duration::from_millis(900), timeout), "it was heard since");
        let other = Silence { made: real() - Duration::from_secs(60), ..Silence::new() };
        assert!(other.is_too_long(real() - Duration::from_millis(1_000), timeout));
        let short = Silence { made: real() - Duration::from_secs(60), ..Silence::new() };
        assert!(short.is_too_long(real() - Duration::from_millis(250), Duration::from_millis(250)));
    }
}
