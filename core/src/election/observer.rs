//! The present leader of an election, as the store shows it.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{BoxStream, Stream, StreamExt, unfold};

use crate::clock::sleep;
use crate::{FencingToken, Holder, Mutex, Result};

/// Interval of the questions of [`ElectionObserver::changes`].
const INTERVAL: Duration = Duration::from_secs(1);

/// The candidate that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The label in its options.
    pub label: Option<String>,
    /// The fencing token of its term. `None`, as the label, during the first second of a term that
    /// a Postgres session of another process keeps.
    pub token: Option<FencingToken>,
}

/// Observes an election by questions to the store. Made by
/// [`StoreExt::observe_election`](crate::StoreExt::observe_election) or
/// [`ElectionHandle::observe`](super::ElectionHandle::observe).
#[derive(Clone, Debug)]
pub struct ElectionObserver {
    mutex: Arc<dyn Mutex>,
}

impl ElectionObserver {
    pub(crate) fn new(mutex: Arc<dyn Mutex>) -> Self {
        Self { mutex }
    }

    /// Returns the leader of this instant; `None` if there is none.
    ///
    /// # Errors
    /// As [`Mutex::inspect`].
    ///
    /// # Cancel safety
    /// Dropping the call has no effect.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> stanchion::Result<()> {
    /// # let store = stanchion::connect("memory:").await?;
    /// use stanchion::{MutexOptions, StoreExt};
    ///
    /// let guard = store.mutex("jobs/leader", MutexOptions::new().label("host a"))?.lock().await?;
    /// let leader = store.observe_election("jobs/leader")?.leader().await?.expect("the holder");
    /// assert_eq!(leader.label.as_deref(), Some("host a"));
    /// # guard.release().await
    /// # }
    /// ```
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let holder = self.mutex.inspect().await?.holders.into_iter().next();
        Ok(holder.map(|Holder { label, token, .. }| Leader { label, token }))
    }

    /// Returns a stream of leaders: the present one first, then each change that one question a
    /// second sees. A term that began and ended between two questions is not seen.
    ///
    /// An error reports an outage of the store, once. The stream goes on: it ends only when the
    /// store object is closed or refuses the question for good.
    pub fn changes(&self) -> LeaderChanges {
        let asked = Asked { observer: self.clone(), seen: None };
        LeaderChanges(unfold(asked, Asked::next).boxed())
    }
}

/// The last item of a stream.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Leads(Option<Leader>),
    Unknown,
    Over,
}

struct Asked {
    observer: ElectionObserver,
    seen: Option<Seen>,
}

impl Asked {
    async fn next(mut self) -> Option<(Result<Option<Leader>>, Self)> {
        if self.seen == Some(Seen::Over) {
            return None;
        }
        loop {
            if self.seen.is_some() {
                sleep(INTERVAL).await;
            }
            let answer = self.observer.leader().await;
            let seen = match &answer {
                Ok(leader) => Seen::Leads(leader.clone()),
                Err(error) if error.kind().is_final() => Seen::Over,
                Err(_) => Seen::Unknown,
            };
            if self.seen.as_ref() != Some(&seen) {
                self.seen = Some(seen);
                return Some((answer, self));
            }
        }
    }
}

/// A stream of leaders, made by [`ElectionObserver::changes`].
#[must_use = "a stream does nothing unless it is polled"]
pub struct LeaderChanges(BoxStream<'static, Result<Option<Leader>>>);

impl LeaderChanges {
    /// Waits for the next item; `None` after the end.
    ///
    /// # Cancel safety
    /// A dropped call loses nothing.
    pub async fn next(&mut self) -> Option<Result<Option<Leader>>> {
        poll_fn(|cx| self.0.poll_next_unpin(cx)).await
    }
}

impl Stream for LeaderChanges {
    type Item = Result<Option<Leader>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for LeaderChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderChanges").finish_non_exhaustive()
    }
}
