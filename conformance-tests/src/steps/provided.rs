//! The steps that a store provides. A case that needs a missing step cannot be shown.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{Answers, Lane, Object, Request, RequestKind, Response, Steps, WakeSource};
use stanchion_core::{ErrorKind, Result, Ticket};

use crate::gaps::cannot_show;

/// Ends the case, which needs `what`: the harness does not provide it.
pub(super) fn lacks(what: &str) -> ! {
    cannot_show(&format!("the harness does not provide {what}"));
    unreachable!("the case has ended")
}

/// No source of wake-ups.
#[derive(Debug)]
pub(super) struct NoWakeUps;

#[async_trait]
impl WakeSource for NoWakeUps {
    fn watch(&self, _: &Object, _: bool) {}

    async fn next(&self) -> Result<Vec<Ticket>> {
        lacks("a source of wake-ups")
    }
}

/// The steps that a store provides.
#[derive(Debug)]
pub(super) struct ProvidedSteps(pub(super) Arc<dyn Steps>);

/// Returns what a store may lack of which this is a request.
fn optional(kind: RequestKind) -> Option<&'static str> {
    match kind {
        RequestKind::Look | RequestKind::Split => Some("wait groups"),
        RequestKind::Decide | RequestKind::Refund | RequestKind::SetQuota | RequestKind::Reset => {
            Some("limiters")
        }
        RequestKind::List => Some("listings"),
        _ => None,
    }
}

#[async_trait]
impl Steps for ProvidedSteps {
    fn lane(&self, request: &Request) -> Lane {
        self.0.lane(request)
    }

    async fn send(&self, batch: &[Request], end: Instant) -> Answers<Response> {
        let answers = self.0.send(batch, end).await;
        for (request, answer) in batch.iter().zip(&answers) {
            let is_missing = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unsupported);
            if let Some(what) = optional(request.kind()).filter(|_| is_missing) {
                lacks(what);
            }
        }
        answers
    }

    fn request_timeout(&self) -> Duration {
        self.0.request_timeout()
    }

    fn maximum_positions(&self) -> usize {
        self.0.maximum_positions()
    }
}
