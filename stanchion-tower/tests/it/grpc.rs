//! The layers around a service of tonic.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut};
use http::{Request, Response, StatusCode, Version};
use stanchion_core::{Quota, SemaphoreOptions};
use stanchion_memory::MemoryStore;
use stanchion_tower::{ConcurrencyLimitLayer, RateLimitLayer, key};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Status};
use tower::layer::Layer;
use tower::util::service_fn;
use tower::{Service, ServiceExt};

/// Messages that are their bytes.
#[derive(Clone, Default)]
struct Bytewise;

impl Codec for Bytewise {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytewise {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytewise {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).to_vec()))
    }
}

/// Answers each call with its message.
#[derive(Clone)]
struct Echo;

impl UnaryService<Vec<u8>> for Echo {
    type Response = Vec<u8>;
    type Future = Ready<Result<tonic::Response<Vec<u8>>, Status>>;

    fn call(&mut self, request: tonic::Request<Vec<u8>>) -> Self::Future {
        ready(Ok(tonic::Response::new(request.into_inner())))
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl Service<Request<Body>> for Echo {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async { Ok(Grpc::new(Bytewise).unary(Echo, request).await) })
    }
}

/// A status in the head of an answer that is a success to everybody else.
#[tokio::test]
async fn whatever_is_no_call_is_refused_by_the_status_of_the_answer() {
    const GRPC: &str = "application/grpc";
    const WEB: &str = "application/grpc-web-text+proto";
    for (method, version, kind, is_call) in [
        ("POST", Version::HTTP_2, GRPC, true),
        ("POST", Version::HTTP_2, "application/grpc+proto", true),
        ("POST", Version::HTTP_11, WEB, true),
        ("POST", Version::HTTP_2, "application/grpc-web", true),
        ("GET", Version::HTTP_2, GRPC, false),
        ("POST", Version::HTTP_11, GRPC, false),
        ("GET", Version::HTTP_11, WEB, false),
        ("POST", Version::HTTP_2, "application/grpcfoo", false),
        ("POST", Version::HTTP_2, "application/grpc-webfoo", false),
    ] {
        let quota = Quota::per_hour(1);
        let limit = RateLimitLayer::new(Arc::new(MemoryStore::new()), "http/", key::all(), quota).unwrap();
        let mut service =
            limit.layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
        let mut answers = Vec::new();
        for _ in 0..2 {
            let request = Request::builder().method(method).version(version).header("content-type", kind);
            answers.push(service.ready().await.unwrap().call(request.body(()).unwrap()).await.unwrap());
        }
        let refused = &answers[1];
        let expected = if is_call { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        assert_eq!(refused.status(), expected, "{method} {version:?} {kind}");
        assert_eq!(refused.headers().contains_key("grpc-status"), is_call, "{method} {version:?} {kind}");
        assert_eq!(refused.headers()["cache-control"], "no-store");
        assert!(!answers[0].headers().contains_key("cache-control"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_call_ends_with_a_status() {
    let store = Arc::new(MemoryStore::new());
    let concurrency =
        ConcurrencyLimitLayer::new(Arc::<MemoryStore>::clone(&store), "calls", SemaphoreOptions::new(5))
            .unwrap();
    let rate = RateLimitLayer::new(store, "http/", key::all(), Quota::per_hour(2)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().layer(rate).layer(concurrency).add_service(Echo);
    tokio::spawn(async move { server.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap() });

    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = tonic::client::Grpc::new(channel.connect().await.unwrap());
    for number in 0..3_u8 {
        client.ready().await.unwrap();
        let request = tonic::Request::new(vec![number]);
        let path = http::uri::PathAndQuery::from_static("/test.Echo/Echo");
        let answer = client.unary(request, path, Bytewise).await;
        if number < 2 {
            assert_eq!(answer.unwrap().into_inner(), [number]);
        } else {
            let status = answer.unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
            let told = status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap();
            assert!(told.parse::<u64>().unwrap() > 1_000, "{told}");
        }
    }
}
