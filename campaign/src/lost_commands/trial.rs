//! One call on an object of its own, of any kind.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::{Error, ErrorKind, Result, Store};

use super::{Call, Contention, TestedServer};
use stanchion_conformance::support::{CANCELLED, Stopwatch, pause};

/// The time limit of a call that is to succeed.
pub(super) const LONG: Duration = Duration::from_secs(10);
/// The time limit of a call that is to be refused.
pub(super) const SHORT: Duration = Duration::from_millis(400);
/// How long the other holder keeps its hold once the call waits.
pub(super) const KEEP: Duration = Duration::from_millis(40);

/// The error is the text of a [`Breach`](super::Breach).
pub(super) type Checked<T = ()> = Result<T, String>;

/// The end of a call.
#[derive(Debug)]
pub(super) enum Ended<T> {
    /// It succeeded.
    Granted(T),
    /// It got a definite no.
    Refused,
    /// It got an error.
    Failed(Error),
    /// Its future was dropped.
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

/// The setting of a trial.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) call: Call,
    pub(super) contention: Contention,
    pub(super) name: String,
    /// The client whose commands are lost.
    pub(super) own: Arc<dyn Store>,
    /// A client that is connected directly to the server.
    pub(super) witness: Arc<dyn Store>,
    pub(super) tested: Arc<dyn TestedServer>,
}

impl Setting {
    /// Returns the maximum time until a lost call has left nothing behind: the client notices the
    /// loss after the request timeout, and from then on the store answers (C4).
    pub(super) fn bound(&self) -> Duration {
        self.tested.request_timeout() + CANCELLED
    }

    /// Returns the time limit that is passed to the call.
    pub(super) fn limit(&self) -> Duration {
        if self.contention == Contention::Held { SHORT } else { LONG }
    }

    /// C3, C17: checks that the call may end with this error.
    pub(super) fn check_error(&self, error: &Error) -> Checked {
        let says_so = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
        if says_so && !self.call.rides_out() { Ok(()) } else { Err(format!("it failed: {error:?}")) }
    }

    /// C3: checks that a grant or a refusal is true.
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

/// A call, its contention, and the checks after it.
#[async_trait]
pub(super) trait Trial: Sized + Send + Sync + 'static {
    /// What the call returns if it succeeds.
    type Grant: Send;

    /// Sets up the object and its contention.
    async fn prepare(setting: Setting) -> Result<Self>;

    /// Makes the call.
    async fn call(&self) -> Result<Option<Self::Grant>>;

    /// Ends the contention. Under [`Contention::Releasing`], does so once the call waits.
    async fn make_way(&self) -> Result<()>;

    /// Checks the state after the call, and releases its hold. No command is lost any more.
    async fn check(&self, ended: Ended<Self::Grant>) -> Checked;
}

/// Turns an error of a client without faults into the text of a breach.
pub(super) fn after_fault<T>(answer: Result<T>) -> Checked<T> {
    answer.map_err(|error| format!("after the fault: {error:?}"))
}

/// Repeats a check until it succeeds, and returns what it found; its last error after `limit`. The
/// time in which the machine stood still does not count.
pub(super) async fn soon<T, F>(limit: Duration, mut look: impl FnMut() -> F) -> Checked<T>
where
    F: Future<Output = Checked<T>>,
{
    let watch = Stopwatch::start();
    loop {
        match look().await {
            Err(text) if watch.elapsed() < limit => {
                drop(text);
                pause(Duration::from_millis(5)).await;
            }
            Err(text) => return Err(format!("{text}, {limit:?} after the call")),
            found => return found,
        }
    }
}
