//! Timers without a runtime: one thread of the process wakes the tasks whose time has come.

use std::collections::BTreeMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use slab::Slab;

use super::monotonic;
use crate::runtime::contain_wake;

/// Times that are far away are rounded up to a multiple of this. Most are time limits that are
/// never reached: many of them share a place in the queue.
const COARSE: Duration = Duration::from_millis(4);

/// Maximum number of empty places of the queue that are kept for the next times.
const MAXIMUM_SPARE: usize = 16;

/// Wakers of a time, each with its number.
type Wakers = Slab<(u64, Waker)>;

/// All wake-ups of the process.
static TIMERS: Timers = Timers {
    queue: Mutex::new(Queue {
        wakers: BTreeMap::new(),
        spare: Vec::new(),
        last: 0,
        sleeps_until: None,
        thread_of: None,
    }),
    changed: Condvar::new(),
};

struct Timers {
    queue: Mutex<Queue>,
    /// Notified when the thread has to wake up earlier.
    changed: Condvar,
}

struct Queue {
    wakers: BTreeMap<Instant, Wakers>,
    /// Empty ones: a call sets a time or two and withdraws them, and so allocates nothing.
    spare: Vec<Wakers>,
    /// The last number: a place in a slab is used again.
    last: u64,
    /// Until when the thread sleeps; `None` is until it is notified.
    sleeps_until: Option<Instant>,
    /// The process that has started the thread: a forked child has none.
    thread_of: Option<u32>,
}

impl Timers {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread. It is started by the first wake-up and runs as long as the process.
    fn run(&self) {
        let mut queue = self.queue();
        loop {
            let now = monotonic();
            queue.sleeps_until = queue.wakers.first_key_value().map(|(first, _)| *first);
            match queue.wakers.first_entry() {
                Some(first) if *first.key() <= now => {
                    let due = first.remove();
                    drop(queue);
                    for (_, (_, waker)) in due {
                        contain_wake(|| waker.wake());
                    }
                    queue = self.queue();
                }
                Some(first) => {
                    let left = *first.key() - now;
                    let waited = self.changed.wait_timeout(queue, left);
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A wake-up at a time of the monotonic clock, withdrawn when dropped. It may come late, never
/// early.
#[derive(Debug)]
pub struct WakeUp {
    at: Instant,
    /// Where its waker is: the time in the queue, the place there, and its number.
    place: (Instant, usize, u64),
}

impl WakeUp {
    /// Wakes the waker at that time.
    #[must_use]
    pub fn at(at: Instant, waker: Waker) -> Self {
        Self::queued(at, at, waker)
    }

    /// Wakes the waker at that time, or up to 4 ms later. Cheaper where there are many.
    #[must_use]
    pub fn about(at: Instant, waker: Waker) -> Self {
        static BASE: LazyLock<Instant> = LazyLock::new(monotonic);
        let since = at.saturating_duration_since(*BASE);
        let beyond = since.subsec_nanos() % COARSE.subsec_nanos();
        let missing = if beyond == 0 { Duration::ZERO } else { COARSE - Duration::from_nanos(beyond.into()) };
        Self::queued(at, at.checked_add(missing).unwrap_or(at), waker)
    }

    fn queued(at: Instant, time: Instant, waker: Waker) -> Self {
        let process = Some(std::process::id());
        let mut queue = TIMERS.queue();
        queue.last += 1;
        let number = queue.last;
        let Queue { wakers, spare, .. } = &mut *queue;
        let place = wakers.entry(time).or_insert_with(|| spare.pop().unwrap_or_default());
        let index = place.insert((number, waker));
        // A thread that wakes up for a time that was withdrawn finds out by itself.
        let is_earlier = queue.sleeps_until.is_none_or(|until| time < until);
        if queue.thread_of != process {
            let thread = std::thread::Builder::new().name("stanchion-timers".into());
            match thread.spawn(|| TIMERS.run()) {
                Ok(_) => queue.thread_of = process,
                Err(error) => tracing::error!(
                    name: "stanchion.timers.no_thread",
                    {
                        exception.message = %error,
                    },
                    "no thread for timers: what waits for a time waits on"
                ),
            }
        }
        drop(queue);
        if is_earlier {
            TIMERS.changed.notify_one();
        }
        Self { at, place: (time, index, number) }
    }

    /// Returns the time that was asked for.
    #[must_use]
    pub fn time(&self) -> Instant {
        self.at
    }

    /// Replaces the waker; `false` if the time has come.
    #[must_use]
    pub fn set_waker(&self, waker: &Waker) -> bool {
        let (time, index, number) = self.place;
        let mut queue = TIMERS.queue();
        let kept = queue.wakers.get_mut(&time).and_then(|wakers| wakers.get_mut(index));
        let Some((_, kept)) = kept.filter(|(of, _)| *of == number) else { return false };
        let old = (!kept.will_wake(waker)).then(|| std::mem::replace(kept, waker.clone()));
        drop(queue);
        // Only here: dropping a waker may drop a task.
        drop(old);
        true
    }
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        let (time, index, number) = self.place;
        let mut queue = TIMERS.queue();
        let Some(wakers) = queue.wakers.get_mut(&time) else { return };
        let waker = wakers.get(index).is_some_and(|(of, _)| *of == number).then(|| wakers.remove(index));
        if wakers.is_empty() {
            let empty = queue.wakers.remove(&time);
            if queue.spare.len() < MAXIMUM_SPARE {
                queue.spare.extend(empty);
            }
        }
        drop(queue);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Wake;

    use super::*;

    /// Tells its number, and when it is woken.
    struct Told(usize, Sender<(usize, Instant)>);

    impl Wake for Told {
        fn wake(self: Arc<Self>) {
            let _ = self.1.send((self.0, monotonic()));
        }
    }

    #[test]
    fn each_wake_up_comes_once_and_not_early_and_a_withdrawn_one_never() {
        let (told, woken) = channel();
        let start = monotonic();
        let (mut kept, mut numbers, mut stood_still) = (Vec::new(), Vec::new(), false);
        for number in 0..300 {
            let waker = Waker::from(Arc::new(Told(number, told.clone())));
            let at = start + Duration::from_millis(300 + u64::try_from(number % 7).unwrap());
            let wake_up = if number % 2 == 0 { WakeUp::at(at, waker) } else { WakeUp::about(at, waker) };
            assert_eq!(wake_up.time(), at);
            // The next one takes the place of one that is withdrawn.
            if number % 3 > 0 {
                numbers.push(number);
                kept.push(wake_up);
            } else {
                drop(wake_up);
                stood_still |= monotonic() >= at;
            }
        }
        // Until no waker is left.
        drop(told);
        let mut heard: Vec<_> = woken.iter().collect();
        if stood_still {
            // The time of some came before they were withdrawn.
            heard.retain(|(number, _)| number % 3 > 0);
        }
        for (number, moment) in &heard {
            assert!(*moment >= kept[numbers.binary_search(number).unwrap()].time());
        }
        heard.sort_unstable();
        assert_eq!(heard.into_iter().map(|(number, _)| number).collect::<Vec<_>>(), numbers);
        assert!(kept.iter().all(|wake_up| !wake_up.set_waker(Waker::noop())));
    }
}
