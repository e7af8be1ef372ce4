//! Steps with faults.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::{Instant, now};
use stanchion_core::spi::{Answers, Lane, Request, RequestKind, Response, Steps, refused};

use super::Faults;

/// The steps of a store with [`Faults`].
#[derive(Debug)]
pub struct FaultySteps {
    inner: Arc<dyn Steps>,
    faults: Arc<Faults>,
}

impl FaultySteps {
    /// Wraps a store's own steps.
    #[must_use]
    pub fn new(inner: Arc<dyn Steps>, faults: &Arc<Faults>) -> Self {
        Self { inner, faults: Arc::clone(faults) }
    }
}

/// Returns the kind that faults are ordered for: that of the releases, if there are some, or of the
/// first entry.
fn kind_of(batch: &[Request]) -> Option<RequestKind> {
    let mut kinds = batch.iter().map(Request::kind);
    let first = match kinds.next()? {
        RequestKind::KeepPlaces => RequestKind::Poll,
        first => first,
    };
    Some(kinds.find(|kind| *kind == RequestKind::Release).unwrap_or(first))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Steps for FaultySteps {
    fn lane(&self, request: &Request) -> Lane {
        self.inner.lane(request)
    }

    async fn send(&self, batch: &[Request], _: Instant) -> Answers<Response> {
        let Some(kind) = kind_of(batch) else { return Vec::new() };
        let limit = Request::time_limit_of(batch, self.faults.limit);
        // The second answer to a release without a call is an honest no.
        let again = batch
            .iter()
            .all(|request| !matches!(request, Request::Release(release) if release.call.is_none()));
        let (inner, asked) = (Arc::clone(&self.inner), batch.to_vec());
        let send = move || {
            let (inner, asked) = (Arc::clone(&inner), asked.clone());
            Box::pin(async move {
                // It may be sent long after its caller has given it up.
                let end = now() + Request::time_limit_of(&asked, inner.request_timeout());
                inner.send(&asked, end).await
            }) as super::Sending<_>
        };
        let answers = self.faults.carry(kind, limit, again, send).await;
        answers.unwrap_or_else(|error| refused(batch.len(), &error))
    }

    fn request_timeout(&self) -> Duration {
        self.inner.request_timeout()
    }

    fn maximum_positions(&self) -> usize {
        self.inner.maximum_positions()
    }
}
