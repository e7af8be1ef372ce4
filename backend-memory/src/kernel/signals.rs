//! What a change of state must tell, once its lock is given back.

use std::sync::Arc;
use std::task::Waker;

use super::generations::Generation;

/// Wake-ups gathered under the lock and sent after it. The first waker lives inline: a hand-off does not allocate.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    first: Option<Waker>,
    more: Vec<Waker>,
    /// A hold ended otherwise than by its holder.
    pub(crate) lost: bool,
    /// A generation ended, or the time at which its members may end changed.
    pub(crate) generations: Vec<Arc<Generation>>,
}

impl Signals {
    pub(crate) fn wake(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.more.push(waker);
        }
    }

    pub(crate) fn wake_all(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        wakers.into_iter().for_each(|waker| self.wake(waker));
    }

    /// Wakes those queued and those who wait for a generation. Must not be called under the lock: a waker may run
    /// anything.
    pub(crate) fn send(self) {
        for generation in self.generations {
            generation.changed.notify_waiters();
        }
        for waker in self.first.into_iter().chain(self.more) {
            waker.wake();
        }
    }
}
