//! Calls that acquire: locks, permits, places in a group, attaches.

use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{Detached, ErrorKind, FencingToken, Kind, MutexMode, Result, Ticket};
use tokio::sync::Mutex;

use super::acquirable::{Acquirable, Acquired};
use super::trial::{Checked, Ended, KEEP, LONG, Setting, Trial, after_fault, soon};
use super::{Call, Contention, LEASE};
use stanchion_conformance::support::{Stopwatch, definite, pause};

pub(super) struct Holding {
    setting: Setting,
    own: Acquirable,
    witness: Acquirable,
    detached: Option<Detached>,
    /// The other holder's hold, until it is released.
    held: Mutex<Option<Acquired>>,
    /// The token of the other holder's hold.
    before: Option<FencingToken>,
}

impl Holding {
    /// Returns whether an observer can see only that the mutex is held, but not by which ticket.
    fn is_kept_by_session(&self) -> bool {
        let mode = self.setting.witness.capabilities().mutex_mode;
        mode == MutexMode::Session && self.setting.call.kind() == Kind::Mutex
    }

    /// Returns the maximum time until nothing is held. A detached hold that was not attached stays
    /// for its lease (C24), and a session that was cut off for its TTL (C4): another connection
    /// than that cannot unlock what it holds.
    fn settling(&self) -> Duration {
        let stays = self.setting.call.attaches() || self.is_kept_by_session();
        self.setting.bound() + if stays { LEASE } else { Duration::ZERO }
    }

    /// Checks that exactly these tickets hold, and no caller waits.
    async fn holds_only(&self, expected: &[Ticket]) -> Checked {
        let state = after_fault(self.witness.inspect().await)?;
        let mut seen: Vec<_> = state.holders.iter().filter_map(|holder| holder.ticket).collect();
        seen.sort_unstable();
        let is_told = if self.is_kept_by_session() {
            // A hold of another process is known after a while.
            state.holders.len() == expected.len() && seen.iter().all(|ticket| expected.contains(ticket))
        } else {
            seen == expected
        };
        if is_told && state.waiters == 0 { Ok(()) } else { Err(format!("not only {expected:?}: {state:?}")) }
    }

    /// As [`holds_only`](Self::holds_only), but gives a session the time to give up the place in
    /// the queue of what it was granted: it does so later where somebody has the row of the object
    /// locked. Not once the holder knows that the hold is gone.
    async fn comes_to_hold_only(
        &self,
        expected: &[Ticket],
        is_held: impl Fn() -> bool + Send + Sync,
    ) -> Checked {
        if !self.is_kept_by_session() {
            return self.holds_only(expected).await;
        }
        let is_held = &is_held;
        let look = || async move {
            let seen = self.holds_only(expected).await;
            if is_held() { seen.map(Ok) } else { Ok(seen) }
        };
        soon(self.setting.bound(), look).await?
    }

    /// S4: checks that everything can be taken together within the bound, and only once. A request
    /// whose answer is late says nothing, and what it took is free again within the bound.
    async fn takes_all(&self) -> Checked {
        let take = || async {
            let all = after_fault(self.witness.try_take_all().await)?;
            all.ok_or_else(|| "not all can be taken".to_owned())
        };
        let all = soon(self.setting.bound(), take).await?;
        let more = after_fault(definite(|| self.witness.try_take_all()).await)?;
        if more.is_some() {
            return Err("all were taken twice".to_owned());
        }
        after_fault(all.give_back().await)
    }

    async fn check_grant(&self, got: Acquired) -> Checked {
        // C2: one hold, or one for each requested member.
        let held = self.comes_to_hold_only(&got.tickets(), || got.is_held()).await;
        let believed =
            if got.is_held() { Ok(()) } else { Err("the granted hold is not believed".to_owned()) };
        if let Err(text) = held.and(believed) {
            return self.check_ended_session(got, text).await;
        }
        if got.token() <= self.before {
            return Err(format!("the token {:?} came after {:?}", got.token(), self.before));
        }
        if let Err(error) = got.give_back().await {
            // C3, C9: a session that was cut off may not have heard of it, and the server ends that
            // by its TTL; or it had ended before, and the holder is told so.
            let tells = [ErrorKind::Unknown, ErrorKind::Lost].contains(&error.kind());
            if self.is_kept_by_session() && tells {
                return self.check_nothing().await;
            }
            return Err(format!("it could not be given back: {error:?}"));
        }
        if self.is_kept_by_session() {
            return self.comes_to_hold_only(&[], || true).await;
        }
        self.holds_only(&[]).await?;
        self.takes_all().await
    }

    /// Accepts a hold that is gone because a command lost after the grant ended its session, if the
    /// holder is told (C9).
    async fn check_ended_session(&self, got: Acquired, text: String) -> Checked {
        if !self.is_kept_by_session() {
            return Err(text);
        }
        let told = || async { if got.is_held() { Err(text.clone()) } else { Ok(()) } };
        soon(self.settling(), told).await?;
        drop(got);
        self.check_nothing().await
    }

    async fn check_nothing(&self) -> Checked {
        let watch = Stopwatch::start();
        soon(self.settling(), || self.holds_only(&[])).await?;
        self.takes_all().await?;
        self.works_again().await?;
        // A request that was under way when the call ended can arrive after the first look: its
        // place has the same time (C4).
        soon(self.settling().saturating_sub(watch.elapsed()), || self.holds_only(&[])).await
    }

    /// C18: checks that the same client can acquire again. The recovery trials measure how soon.
    async fn works_again(&self) -> Checked {
        let limit = LONG;
        let call = match self.setting.call.kind() {
            Kind::Mutex => Call::TryLockFor,
            Kind::Semaphore => Call::TryAcquireFor,
            _ => Call::TryAddFor,
        };
        let got = after_fault(self.own.call(call, limit, self.detached.as_ref()).await)?;
        let got = got.ok_or_else(|| format!("the client gets nothing within {limit:?}"))?;
        after_fault(got.give_back().await)
    }
}

#[async_trait]
impl Trial for Holding {
    type Grant = Acquired;

    async fn prepare(setting: Setting) -> Result<Self> {
        let (kind, name) = (setting.call.kind(), &setting.name);
        let own = Acquirable::open(setting.own.as_ref(), kind, name)?;
        let witness = Acquirable::open(setting.witness.as_ref(), kind, name)?;
        let detached = match setting.call.attaches() {
            true => Some(witness.detached().await?),
            false => None,
        };
        let held = match setting.contention {
            Contention::Free => None,
            Contention::Releasing | Contention::Held => Some(witness.take_all().await?),
        };
        let before = held.as_ref().and_then(Acquired::token);
        Ok(Self { setting, own, witness, detached, held: Mutex::new(held), before })
    }

    async fn call(&self) -> Result<Option<Acquired>> {
        self.own.call(self.setting.call, self.setting.limit(), self.detached.as_ref()).await
    }

    async fn make_way(&self) -> Result<()> {
        if self.setting.contention == Contention::Releasing {
            // Waits until the call queues. A dropped call may never queue: then the wait ends after
            // the time limit.
            let waits = || async {
                let waiters = after_fault(self.witness.inspect().await)?.waiters;
                if waiters > 0 { Ok(()) } else { Err("nobody waits".to_owned()) }
            };
            let _ = soon(self.setting.bound(), waits).await;
            pause(KEEP).await;
        }
        let held = self.held.lock().await.take();
        match held {
            Some(held) => held.give_back().await,
            None => Ok(()),
        }
    }

    async fn check(&self, ended: Ended<Acquired>) -> Checked {
        self.setting.check_answer(&ended)?;
        if let Ended::Granted(got) = ended {
            return self.check_grant(got).await;
        }
        self.check_nothing().await
    }
}
