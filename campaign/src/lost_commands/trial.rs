//! One call on an object of its own, whatever the object is.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{Error, ErrorKind, Result, Store};

use super::{Call, Contention, TestedServer};
use stanchion_conformance::support::{CANCELLED, pause};

/// The limit of calls that have one, if they are to succeed.
pub(super) const LONG: Duration = Duration::from_secs(10);
/// The limit of calls that have one, if they are to be refused.
pub(super) const SHORT: Duration = Duration::from_millis(400);
/// How long a holder keeps what is waited for, once somebody waits.
pub(super) const KEEP: Duration = Duration::from_millis(40);

/// What was not as it should be, in words for [`Breach`](super::Breach).
pub(super) type Checked<T = ()> = Result<T, String>;

/// How a call ended.
#[derive(Debug)]
pub(super) enum Ended<T> {
    /// With what was asked for.
    Granted(T),
    /// With a definite no.
    Refused,
    /// With an error.
    Failed(Error),
    /// It was dropped.
    Dropped,
}

impl<T> Ended<T> {
    pub(super) fn of(answer: Result<Option<T>>) -> Self {
        match answer {
            Ok(Some(got)) => Self::Granted(got),
            Ok(None) => Self::Refused,
            Err(error) => Self::Failed(error),
        }
    }
}

/// What a trial is made of.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) call: Call,
    pub(super) contention: Contention,
    pub(super) name: String,
    /// The client whose commands are lost.
    pub(super) own: Arc<dyn Store>,
    /// One that is connected straight to the server.
    pub(super) witness: Arc<dyn Store>,
    pub(super) tested: Arc<dyn TestedServer>,
}

impl Setting {
    /// How long something may be left behind: a lost command is noticed after the request's time limit, and from then on
    /// the store answers (C4).
    pub(super) fn bound(&self) -> Duration {
        self.tested.request_timeout() + CANCELLED
    }

    /// What a call's own time limit is.
    pub(super) fn limit(&self) -> Duration {
        if self.contention == Contention::Held { SHORT } else { LONG }
    }

    /// C3, C17: with which errors the call may end.
    pub(super) fn check_error(&self, error: &Error) -> Checked {
        let says_so = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
        if says_so && !self.call.rides_out() { Ok(()) } else { Err(format!("it failed: {error:?}")) }
    }

    /// C3: a no is true, and so is a yes.
    pub(super) fn check_answer<T>(&self, ended: &Ended<T>) -> Checked {
        match ended {
            Ended::Granted(_) if self.contention == Contention::Held => {
                Err("granted while another held all".to_owned())
            }
            Ended::Refused if self.contention != Contention::Held => {
                Err("refused while nobody else wanted it".to_owned())
            }
            Ended::Failed(error) => self.check_error(error),
            _ => Ok(()),
        }
    }
}

/// A call, what stands in its way, and what must be so afterwards.
#[async_trait]
pub(super) trait Trial: Sized + Send + Sync + 'static {
    /// What is asked for.
    type Grant: Send;

    /// Puts into the call's way what belongs there.
    async fn prepare(setting: Setting) -> Result<Self>;

    /// The call.
    async fn call(&self) -> Result<Option<Self::Grant>>;

    /// Takes what stands in the call's way out of it: in [`Contention::Releasing`] once the call waits.
    async fn make_way(&self) -> Result<()>;

    /// Looks at what is left, and gives back what was got; nothing is lost on the wire any more.
    async fn check(&self, ended: Ended<Self::Grant>) -> Checked;
}

/// What an error of a client without faults is in a breach.
pub(super) fn plain<T>(answer: Result<T>) -> Checked<T> {
    answer.map_err(|error| format!("after the fault: {error:?}"))
}

/// Looks until all is as it should be; what was last not so, after `limit`.
pub(super) async fn soon<F>(limit: Duration, mut look: impl FnMut() -> F) -> Checked
where
    F: Future<Output = Checked>,
{
    let end = stanchion_core::clock::now() + limit;
    loop {
        match look().await {
            Err(text) if stanchion_core::clock::now() < end => {
                drop(text);
                pause(Duration::from_millis(5)).await;
            }
            Err(text) => return Err(format!("{text}, {limit:?} after the call")),
            Ok(()) => return Ok(()),
        }
    }
}
