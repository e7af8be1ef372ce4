//! Calls that acquire: locks, permits, places in a group, attaches.

use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{FencingToken, Kind, MutexMode, Result, Ticket};
use tokio::sync::Mutex;

use super::object::{Got, Object};
use super::trial::{Checked, Ended, KEEP, LONG, Setting, Trial, plain, soon};
use super::{Call, LEASE, Scene};
use stanchion_conformance::support::pause;

pub(super) struct Holding {
    setting: Setting,
    own: Object,
    witness: Object,
    detached: Ticket,
    /// What the other holder has, until it gives it back.
    held: Mutex<Option<Got>>,
    /// The token of that.
    before: Option<FencingToken>,
}

impl Holding {
    /// Whether an observer is told no more than that somebody holds.
    fn is_kept_by_session(&self) -> bool {
        let mode = self.setting.witness.capabilities().mutex_mode;
        mode == MutexMode::Session && self.setting.call.kind() == Kind::Mutex
    }

    /// How long something may be held. What an attach did not come to take over stays detached for its lease (C24).
    fn settling(&self) -> Duration {
        let detached = if self.setting.call.attaches() { LEASE } else { Duration::ZERO };
        self.setting.bound() + detached
    }

    /// Nobody but these holds, and nobody waits.
    async fn holds_only(&self, expected: &[Ticket]) -> Checked {
        let state = plain(self.witness.inspect().await)?;
        let mut seen: Vec<_> = state.holders.iter().map(|holder| holder.ticket).collect();
        seen.sort_unstable();
        let is_told = if self.is_kept_by_session() { seen.len() == expected.len() } else { seen == expected };
        if is_told && state.waiters == 0 { Ok(()) } else { Err(format!("not only {expected:?}: {state:?}")) }
    }

    /// S4: all can be taken, at once and no more than once.
    async fn takes_all(&self) -> Checked {
        let all = plain(self.witness.try_take_all().await)?.ok_or("not all can be taken")?;
        let more = plain(self.witness.try_take_all().await)?;
        if more.is_some() {
            return Err("all were taken twice".to_owned());
        }
        plain(all.give_back().await)
    }

    async fn check_grant(&self, got: Got) -> Checked {
        // C2: one hold, or as many as were asked for.
        let held = self.holds_only(&got.tickets()).await;
        let believed =
            if got.is_held() { Ok(()) } else { Err("the granted hold is not believed".to_owned()) };
        if let Err(text) = held.and(believed) {
            return self.check_ended_session(got, text).await;
        }
        if got.token() <= self.before {
            return Err(format!("the token {:?} came after {:?}", got.token(), self.before));
        }
        got.give_back().await.map_err(|error| format!("it could not be given back: {error:?}"))?;
        self.holds_only(&[]).await?;
        if self.is_kept_by_session() { Ok(()) } else { self.takes_all().await }
    }

    /// A command that was lost after the grant ends its session, and the hold with it: then its holder is told (C9).
    async fn check_ended_session(&self, got: Got, text: String) -> Checked {
        if !self.is_kept_by_session() {
            return Err(text);
        }
        let told = || async { if got.is_held() { Err(text.clone()) } else { Ok(()) } };
        soon(self.settling(), told).await?;
        drop(got);
        self.check_nothing().await
    }

    async fn check_nothing(&self) -> Checked {
        soon(self.settling(), || self.holds_only(&[])).await?;
        soon(self.setting.bound(), || self.takes_all()).await?;
        self.works_again().await?;
        self.holds_only(&[]).await
    }

    /// C18: the same client gets what it asks for; how soon is what the recovery measures.
    async fn works_again(&self) -> Checked {
        let limit = LONG;
        let call = match self.setting.call.kind() {
            Kind::Mutex => Call::TryLockFor,
            Kind::Semaphore => Call::TryAcquireFor,
            Kind::WaitGroup | Kind::Limiter | Kind::BloomFilter => Call::TryAddFor,
        };
        let got = plain(self.own.call(call, limit, self.detached).await)?;
        let got = got.ok_or_else(|| format!("the client gets nothing within {limit:?}"))?;
        plain(got.give_back().await)
    }
}

#[async_trait]
impl Trial for Holding {
    type Got = Got;

    async fn prepare(setting: Setting) -> Result<Self> {
        let (kind, name) = (setting.call.kind(), &setting.name);
        let own = Object::open(setting.own.as_ref(), kind, name)?;
        let witness = Object::open(setting.witness.as_ref(), kind, name)?;
        let detached = match setting.call.attaches() {
            true => witness.detached().await?,
            false => Ticket::random(),
        };
        let held = match setting.scene {
            Scene::Free => None,
            Scene::Releasing | Scene::Held => Some(witness.take_all().await?),
        };
        let before = held.as_ref().and_then(Got::token);
        Ok(Self { setting, own, witness, detached, held: Mutex::new(held), before })
    }

    async fn call(&self) -> Result<Option<Got>> {
        self.own.call(self.setting.call, self.setting.limit(), self.detached).await
    }

    async fn make_way(&self) -> Result<()> {
        if self.setting.scene == Scene::Releasing {
            // Which a client that was dropped before does not: then after the time that one needs to come.
            let waits = || async {
                let waiters = plain(self.witness.inspect().await)?.waiters;
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

    async fn check(&self, ended: Ended<Got>) -> Checked {
        self.setting.check_answer(&ended)?;
        if let Ended::Granted(got) = ended {
            return self.check_grant(got).await;
        }
        self.check_nothing().await
    }
}
