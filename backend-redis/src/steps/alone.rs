//! Requests of the kinds that leave alone.

use stanchion_core::Result;
use stanchion_core::clock::Instant;
use stanchion_core::spi::{Request, Response};

use super::RedisSteps;

impl RedisSteps {
    /// Sends a request of a kind that leaves alone.
    pub(super) async fn send_one(&self, request: &Request, end: Instant) -> Result<Response> {
        match request {
            Request::Attach(attach) => self.attach(attach, end).await.map(Response::Attach),
            Request::Split(split) => self.split(split, end).await.map(Response::Split),
            Request::Inspect(inspect) => self.inspect(&inspect.object, end).await.map(Response::Inspect),
            Request::Total(total) => self.usage(&total.object, end).await.map(Response::Total),
            Request::Resize(resize) => self.resize(resize, end).await.map(Response::Resize),
            Request::ForceRelease(force) => self.force(force, end).await.map(Response::ForceRelease),
            Request::SetQuota(set) => self.set_quota(set, end).await.map(Response::SetQuota),
            Request::Reset(reset) => self.reset(reset, end).await.map(Response::Reset),
            #[cfg(feature = "bloom")]
            Request::Merge(merge) => self.merge(merge, end).await.map(Response::Merge),
            #[cfg(feature = "bloom")]
            Request::Clear(clear) => self.clear(&clear.object, end).await.map(Response::Clear),
            #[cfg(feature = "bloom")]
            Request::Survey(survey) => self.survey(survey, end).await.map(Response::Survey),
            #[cfg(feature = "bloom")]
            Request::Read(read) => self.read(read, end).await.map(Response::Read),
            Request::List(list) => self.list(list, end).await.map(Response::List),
            Request::Ping(_) => self.ping().await.map(Response::Ping),
            other => Err(other.unsupported()),
        }
    }
}
