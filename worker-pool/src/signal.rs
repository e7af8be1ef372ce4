//! Wakes the tasks that wait for a condition.

use std::pin::pin;

use tokio::sync::Notify;

/// Tasks that wait until a condition holds, and check it at each signal.
#[derive(Default)]
pub(crate) struct Signal {
    notify: Notify,
}

impl Signal {
    /// Lets all waiting tasks check their conditions again.
    pub(crate) fn tell(&self) {
        self.notify.notify_waiters();
    }

    /// Waits until `check` returns a value. It is called at once, and after every
    /// [`tell`](Self::tell).
    pub(crate) async fn until<R>(&self, check: impl Fn() -> Option<R>) -> R {
        loop {
            let told = self.notify.notified();
            let mut told = pin!(told);
            told.as_mut().enable();
            if let Some(value) = check() {
                return value;
            }
            told.await;
        }
    }
}
