//! What the endpoint answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use stanchion_pool::WorkerPool;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::batch::Batches;
use crate::collection::Collection;
use crate::settings::Settings;

/// In seconds.
const COME_BACK_AFTER: &str = "1";

/// What all requests share.
#[derive(Debug)]
pub struct Endpoint {
    pool: WorkerPool,
    batches: Arc<Batches>,
    room: Arc<Semaphore>,
    body_limit: u32,
    patience: Duration,
    accepted: AtomicU64,
}

impl Endpoint {
    /// An endpoint that queues in `pool` what goes to `batches`, within the bounds of the settings.
    pub fn new(pool: WorkerPool, batches: Arc<Batches>, settings: &Settings) -> Self {
        let room = Arc::new(Semaphore::new(settings.room.get().min(Semaphore::MAX_PERMITS)));
        let (body_limit, patience) = (settings.body, settings.patience);
        Self { pool, batches, room, body_limit, patience, accepted: AtomicU64::new(0) }
    }

    /// The pool.
    pub fn pool(&self) -> &WorkerPool {
        &self.pool
    }

    /// How many payloads were accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Acquire)
    }

    async fn take(&self, request: Request) -> Result<Response, Response> {
        // Before anything is read, so that bodies on their way are within the bounds too.
        let announced = self.announced(&request)?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(announced);
        let mut room = room.map_err(|_| come_back("too much is on its way to the store"))?;

        let body = timeout(self.patience, Bytes::from_request(request, &())).await;
        let body = body.map_err(|_| answer(StatusCode::REQUEST_TIMEOUT, "the body did not arrive"))?;
        let body = body.map_err(IntoResponse::into_response)?;
        let collection = Collection::read(&body)
            .map_err(|malformed| answer(StatusCode::BAD_REQUEST, &malformed.to_string()))?;
        drop(room.split(room.num_permits().saturating_sub(body.len().max(1))));
        drop(body);

        let payloads = collection.payloads();
        let batches = Arc::clone(&self.batches);
        let job = async move { batches.add(collection, room).await };
        // From here to the answer nothing waits, so that no request is counted without being queued.
        let job = self.pool.try_submit(job).map_err(|refused| come_back(&refused.refusal().to_string()))?;
        // It runs all the same; nobody waits for it.
        drop(job);
        self.accepted.fetch_add(payloads, Ordering::AcqRel);
        let answer = format!("{{\"accepted\":{payloads}}}\n");
        Ok((StatusCode::ACCEPTED, [(CONTENT_TYPE, "application/json")], answer).into_response())
    }

    /// How many bytes a request may turn out to have.
    fn announced(&self, request: &Request) -> Result<u32, Response> {
        let Some(length) = request.headers().get(CONTENT_LENGTH) else { return Ok(self.body_limit.max(1)) };
        let length: u64 = length.to_str().ok().and_then(|length| length.parse().ok()).unwrap_or(u64::MAX);
        u32::try_from(length)
            .ok()
            .filter(|length| *length <= self.body_limit)
            .map(|length| length.max(1))
            .ok_or_else(|| {
                answer(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    &format!("a body has at most {} bytes", self.body_limit),
                )
            })
    }
}

/// `POST /payloads`, and nothing else.
pub fn router(endpoint: Arc<Endpoint>) -> Router {
    let limit = usize::try_from(endpoint.body_limit).unwrap_or(usize::MAX);
    Router::new().route("/payloads", post(take)).layer(DefaultBodyLimit::max(limit)).with_state(endpoint)
}

async fn take(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    endpoint.take(request).await.unwrap_or_else(|refusal| refusal)
}

fn answer(status: StatusCode, text: &str) -> Response {
    (status, format!("{text}\n")).into_response()
}

fn come_back(text: &str) -> Response {
    let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(RETRY_AFTER, axum::http::HeaderValue::from_static(COME_BACK_AFTER));
    response
}
