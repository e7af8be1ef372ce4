//! Calls that wait for the end of a group.

use std::sync::Arc;

use async_trait::async_trait;
use stanchion_core::{Member, Outcome, Result, WaitGroup, WaitGroupOptions};
use tokio::sync::Mutex;

use super::trial::{Checked, Ended, KEEP, LONG, Setting, Trial, after_fault};
use super::{Call, Contention, LEASE};
use stanchion_conformance::support::{pause, timeout};

pub(super) struct Waiting {
    setting: Setting,
    own: Arc<dyn WaitGroup>,
    witness: Arc<dyn WaitGroup>,
    member: Mutex<Option<Member>>,
}

#[async_trait]
impl Trial for Waiting {
    type Grant = Outcome;

    async fn prepare(setting: Setting) -> Result<Self> {
        let options = || WaitGroupOptions::default().ttl(LEASE);
        let own = setting.own.wait_group(&setting.name, options())?;
        let witness = setting.witness.wait_group(&setting.name, options())?;
        let member = match setting.contention {
            Contention::Free => None,
            Contention::Releasing | Contention::Held => Some(witness.add().await?),
        };
        Ok(Self { setting, own, witness, member: Mutex::new(member) })
    }

    async fn call(&self) -> Result<Option<Outcome>> {
        match self.setting.call {
            Call::WaitFor => self.own.wait_for(self.setting.limit()).await,
            _ => self.own.wait().await.map(Some),
        }
    }

    async fn make_way(&self) -> Result<()> {
        if self.setting.contention == Contention::Releasing {
            // No call returns the number of waiters of a group.
            pause(KEEP * 2).await;
        }
        let member = self.member.lock().await.take();
        match member {
            Some(member) => member.done().await,
            None => Ok(()),
        }
    }

    async fn check(&self, ended: Ended<Outcome>) -> Checked {
        self.setting.check_answer(&ended)?;
        let finished = u64::from(self.setting.contention != Contention::Free);
        let is_whole = |outcome: Outcome| {
            let whole = outcome.is_success() && outcome.finished == finished;
            if whole { Ok(()) } else { Err(format!("not {finished} finished: {outcome:?}")) }
        };
        if let Ended::Granted(outcome) = ended {
            is_whole(outcome)?;
        }
        // The same client and another one see the same end at once.
        for group in [&self.own, &self.witness] {
            // The time limit of the call itself would run out while the machine stands still.
            let waited = timeout(self.setting.bound(), group.wait_for(LONG)).await;
            let outcome = after_fault(waited.unwrap_or(Ok(None)))?.ok_or("it does not end")?;
            is_whole(outcome)?;
        }
        let state = after_fault(self.witness.inspect().await)?;
        if state.holders.is_empty() && state.waiters == 0 { Ok(()) } else { Err(format!("left: {state:?}")) }
    }
}
