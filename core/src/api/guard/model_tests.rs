//! Several guards of one hold under a model checker: the last one gives it up, and it alone.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use async_trait::async_trait;

use super::{Hold, HoldBackend, MutexGuard};
use crate::clock::Instant;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::model::{GiveUp, Time, beside, draw, explore, pause};
use crate::{Detached, Error, ErrorKind, FencingToken, Result, Ticket, Ttl};

/// Counts how often the hold ended.
#[derive(Debug, Default)]
struct Counting {
    abandoned: AtomicU32,
    released: AtomicU32,
}

#[async_trait]
impl HoldBackend for Counting {
    fn is_held(&self, _: Ticket) -> bool {
        self.abandoned.load(SeqCst) + self.released.load(SeqCst) == 0
    }

    fn deadline(&self, _: Ticket) -> Option<Instant> {
        None
    }

    fn name(&self) -> &str {
        "x"
    }

    fn context(&self, operation: &'static str, error: Error) -> Error {
        error.context(operation, "model", "x")
    }

    async fn lost(&self, _: Ticket) {
        std::future::pending().await
    }

    fn abandon(&self, _: Ticket) {
        self.abandoned.fetch_add(1, SeqCst);
    }

    /// Half of the releases leave a doubt, after which the guard's drop has to give the hold up.
    async fn release(&self, _: Ticket) -> Result<()> {
        pause().await;
        if draw(2) == 0 {
            return Err(Error::new(ErrorKind::Unknown, "the reply is lost"));
        }
        self.released.fetch_add(1, SeqCst);
        Ok(())
    }

    async fn detach(&self, _: Ticket, _: FencingToken, _: Ttl) -> Result<Detached> {
        Err(Error::new(ErrorKind::Unsupported, "nobody detaches"))
    }
}

#[test]
fn m5_of_several_guards_the_last_one_gives_the_hold_up_once() {
    explore(1500, || {
        Time::scenario(|_| async move {
            let keeper = Arc::new(Counting::default());
            let token = FencingToken::new(1).unwrap();
            let kept = Arc::clone(&keeper);
            let first = MutexGuard::new(Hold::new(kept, Ticket::random(), token, 1));
            let guards = [first.reenter(), first.reenter(), first];
            let users = guards.map(|guard| {
                beside(async move {
                    let again = (draw(2) == 0).then(|| guard.reenter());
                    assert!(guard.is_held(), "given up by another guard");
                    match draw(3) {
                        0 => drop(guard),
                        1 => drop(guard.release().await),
                        _ => drop(GiveUp::Polls(1).wait(Box::pin(guard.release())).await),
                    }
                    assert!(again.is_none_or(|again| again.is_held()), "given up before the last guard");
                })
            });
            for user in users {
                user.await;
            }
            assert_eq!(keeper.abandoned.load(SeqCst) + keeper.released.load(SeqCst), 1);
        });
    });
}
