//! Requests, and a store to look at.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::request::Builder;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use stanchion_core::Store;
use stanchion_memory::MemoryStore;
use stanchion_web::Dashboard;
use tower::ServiceExt as _;

pub(crate) const TOKEN: &str = "s3cret";

pub(crate) fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Makes a dashboard that looks as often as it may.
pub(crate) fn dashboard(store: &Arc<dyn Store>) -> Dashboard {
    Dashboard::new(Arc::clone(store)).interval(Duration::from_millis(200))
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap().to_str().unwrap()
    }
}

pub(crate) fn request(path: &str) -> Builder {
    Request::builder().uri(path).header("host", "localhost:7717")
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

pub(crate) async fn get(router: &Router, path: &str) -> Answer {
    send(router, request(path).body(Body::empty()).unwrap()).await
}
