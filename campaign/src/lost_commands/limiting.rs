//! Calls that take tokens.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{ErrorKind, Limiter, LimiterOptions, Quota, Reservation, Result};

use super::trial::{Checked, Ended, Setting, Trial, after_fault, soon};
use super::{Call, Contention};

const BURST: u64 = 10;
const COST: u64 = 4;
/// The interval between two tokens: none comes during a run.
const TOKEN: Duration = Duration::from_secs(1_000);

pub(super) struct Limiting {
    setting: Setting,
    own: Arc<dyn Limiter>,
    witness: Arc<dyn Limiter>,
}

impl Limiting {
    /// Returns the number of tokens; negative for a debt.
    async fn level(&self) -> Checked<i64> {
        let full_after = after_fault(self.witness.peek().await)?.reset_after;
        let missing = full_after.as_micros().div_ceil(TOKEN.as_micros());
        let missing = i64::try_from(missing).map_err(|_| "an absurd level".to_owned())?;
        Ok(BURST.cast_signed() - missing)
    }

    async fn is_one_of(&self, levels: &[i64]) -> Checked {
        let level = self.level().await?;
        if levels.contains(&level) { Ok(()) } else { Err(format!("a level of {level}, not of {levels:?}")) }
    }

    /// Returns the level before the call.
    fn full(&self) -> i64 {
        if self.setting.contention == Contention::Free { BURST.cast_signed() } else { 0 }
    }

    /// Checks the charge of a call that succeeded, and cancels its reservation.
    async fn check_grant(&self, place: Option<Reservation>) -> Checked {
        let charged = self.full() - COST.cast_signed();
        // C2: one charge.
        self.is_one_of(&[charged]).await?;
        let Some(place) = place else { return Ok(()) };
        let is_ahead = self.setting.contention == Contention::Held;
        let expected = if is_ahead { COST } else { 0 };
        let back = place.cancel().await.map_err(|error| format!("it could not be cancelled: {error:?}"))?;
        if back != expected {
            return Err(format!("{back} were given back, not {expected}"));
        }
        self.is_one_of(&[charged + expected.cast_signed()]).await
    }

    /// C18: checks that the same client gets answers again.
    async fn works_again(&self) -> Checked {
        soon(self.setting.bound(), || async { after_fault(self.own.peek().await).map(drop) }).await
    }
}

#[async_trait]
impl Trial for Limiting {
    /// The reservation, if the call returns one.
    type Grant = Option<Reservation>;

    async fn prepare(setting: Setting) -> Result<Self> {
        let options = || LimiterOptions::new(Quota::per(1, TOKEN).burst(BURST));
        let own = setting.own.limiter(&setting.name, options())?;
        let witness = setting.witness.limiter(&setting.name, options())?;
        if setting.contention == Contention::Held {
            witness.allow_n(BURST).await?;
        }
        Ok(Self { setting, own, witness })
    }

    async fn call(&self) -> Result<Option<Self::Grant>> {
        match self.setting.call {
            Call::Reserve => self.own.reserve_n(COST, TOKEN * 100).await.map(|place| place.map(Some)),
            Call::WaitTokens => self.own.wait_n(COST).await.map(|()| Some(None)),
            Call::WaitTokensFor => {
                self.own.wait_n_for(COST, self.setting.limit()).await.map(|waited| waited.then_some(None))
            }
            _ => self.own.allow_n(COST).await.map(|decision| decision.allowed.then_some(None)),
        }
    }

    async fn make_way(&self) -> Result<()> {
        Ok(())
    }

    async fn check(&self, ended: Ended<Self::Grant>) -> Checked {
        let reserves_ahead =
            self.setting.call == Call::Reserve && self.setting.contention == Contention::Held;
        if reserves_ahead {
            match &ended {
                Ended::Refused => return Err("refused although it may wait".to_owned()),
                Ended::Failed(error) => self.setting.check_error(error)?,
                Ended::Granted(_) | Ended::Dropped => {}
            }
        } else {
            self.setting.check_answer(&ended)?;
        }
        let full = self.full();
        let charged = full - COST.cast_signed();
        match ended {
            Ended::Granted(place) => self.check_grant(place).await?,
            Ended::Refused => self.is_one_of(&[full]).await?,
            Ended::Failed(error) if error.kind() == ErrorKind::Unavailable => self.is_one_of(&[full]).await?,
            // A reservation in the future is given back (C4, L7). An immediate charge stays, or was
            // never made.
            _ if self.setting.contention == Contention::Held => {
                let levels = [full];
                soon(self.setting.bound(), || self.is_one_of(&levels)).await?;
            }
            _ => self.is_one_of(&[full, charged]).await?,
        }
        self.works_again().await?;
        self.is_one_of(&[full, charged]).await
    }
}
