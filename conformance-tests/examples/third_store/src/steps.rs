//! The steps: one request at a time, with the server locked once for a whole batch.
//!
//! Nothing here waits for other callers, retries, renews or sleeps: the engine does all that.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{Answers, Lane, Request, Response, Steps, Usage, refused};

use crate::client::Client;
use crate::moment::Moment;
use crate::record::Record;
use crate::server::Server;

/// The steps of one process.
#[derive(Clone, Debug)]
pub(crate) struct ThirdSteps {
    pub(crate) server: Arc<Server>,
    pub(crate) client: Client,
}

#[async_trait]
impl Steps for ThirdSteps {
    /// Requests of one kind share a lane: with one server, they can be on any names.
    fn lane(&self, request: &Request) -> Lane {
        Lane::of_kind(0, request)
    }

    async fn send(&self, batch: &[Request], end: Instant) -> Answers<Response> {
        let mut step = match self.server.enter(self.client, end).await {
            Ok(step) => step,
            Err(error) => return refused(batch.len(), &error),
        };
        let answer = |request: &Request| match request.object() {
            Some(object) => step.on(object, |record, at| answer(record, request, at)),
            None => match request {
                Request::Ping(_) => Ok(Response::Ping(())),
                _ => Err(request.unsupported()),
            },
        };
        let answers = batch.iter().map(answer).collect();
        step.wake();
        answers
    }

    fn request_timeout(&self) -> Duration {
        self.client.request_timeout
    }
}

/// Carries out one request on the record of its object.
fn answer(record: &mut Record, request: &Request, at: &mut Moment<'_>) -> Result<Response> {
    Ok(match request {
        Request::Acquire(acquire) => Response::Acquire(record.acquire(acquire, at)?),
        Request::Renew(renew) => Response::Renew(record.renew(renew, at)),
        Request::Release(release) => Response::Release(record.release(release, at)),
        Request::Cancel(cancel) => Response::Cancel(record.cancel(cancel, at)),
        Request::Poll(_) => Response::Poll(record.poll(at)),
        Request::KeepPlaces(_) => Response::KeepPlaces(Some(record.poll(at))),
        Request::Attach(attach) => Response::Attach(record.attach(attach, at)),
        Request::Inspect(_) => Response::Inspect(record.inspect(at)),
        Request::Total(_) => Response::Total(Usage::new(record.used(), record.limit_at(at))),
        Request::Resize(resize) => Response::Resize(record.resize(resize.limit, at)),
        Request::ForceRelease(release) => Response::ForceRelease(record.force(release.force, at)),
        // Wait groups, limiters and Bloom filters.
        _ => return Err(request.unsupported()),
    })
}
