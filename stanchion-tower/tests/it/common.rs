//! Servers of a service, and clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use stanchion_core::Store;
use stanchion_memory::MemoryStore;
use stanchion_redis::RedisStore;
use stanchion_testbed::servers;
use tokio::net::TcpListener;

/// A client of one address.
#[derive(Clone)]
pub(crate) struct HttpClient {
    client: Client<HttpConnector, Empty<Bytes>>,
    address: SocketAddr,
}

/// An answer, as a client reads it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {self:?}")).to_str().unwrap()
    }

    /// Returns the `Retry-After`, which is whole seconds.
    pub(crate) fn retry_after(&self) -> Duration {
        Duration::from_secs(self.field("retry-after").parse().unwrap())
    }

    /// Returns a parameter of the first item of a field.
    pub(crate) fn parameter(&self, field: &str, name: &str) -> u64 {
        let prefix = format!("{name}=");
        let item = self.field(field).split(", ").next().unwrap_or_default();
        let mut parts = item.split(';');
        assert!(parts.next().is_some_and(|name| name.starts_with('"')), "{self:?}");
        let value = parts.find_map(|part| part.strip_prefix(&prefix));
        value.unwrap_or_else(|| panic!("no {name} in {self:?}")).parse().unwrap()
    }
}

impl HttpClient {
    pub(crate) fn new(address: SocketAddr, http2: bool) -> Self {
        let client = Client::builder(TokioExecutor::new()).http2_only(http2).build_http();
        Self { client, address }
    }

    pub(crate) async fn send(&self, path: &str, key: &str) -> Response<hyper::body::Incoming> {
        let request = Request::builder().uri(format!("http://{}{path}", self.address));
        let request = if key.is_empty() { request } else { request.header("x-api-key", key) };
        self.client.request(request.body(Empty::new()).unwrap()).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str, key: &str) -> Answer {
        let (parts, body) = self.send(path, key).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

/// Serves an application on a free port of loopback, as long as the runtime lives.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// Connects to the Redis that all tests share, as another instance does.
pub(crate) async fn redis(namespace: &str) -> Arc<dyn Store> {
    let url = servers::redis().unwrap().url();
    Arc::new(RedisStore::builder(url).unwrap().namespace(namespace).connect().await.unwrap())
}

/// A store of its own.
pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}
