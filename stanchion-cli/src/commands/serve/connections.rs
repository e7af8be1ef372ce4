//! The connections of the page: how many, and for how long.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use stanchion::spi::clock::{Alarm, Instant, now, sleep};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Pause after a connection could not be taken, for want of descriptors for instance.
const PAUSE: Duration = Duration::from_millis(100);
/// Descriptors that are kept for the store and this program itself.
const RESERVE: u64 = 64;
const MOST: usize = 1_000;
/// The answer to a connection too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 5\r\n\
    content-type: application/json\r\ncontent-length: 50\r\n\r\n\
    {\"error\":\"there are too many viewers\",\"kind\":null}";

/// Returns how many connections there can be at a time, so that some of the descriptors of this
/// process are left for the store.
pub(super) fn most() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors.saturating_sub(RESERVE)).unwrap_or(MOST).clamp(1, MOST)
}

/// Serves a router, on up to that many connections. One ends when it takes its client longer than
/// `idle` to send the head of a request, the next one too, or to take anything of what is sent.
///
/// By HTTP/1 only: a connection of HTTP/2 has many requests, and without TLS no browser makes one.
pub(super) async fn serve(listener: TcpListener, router: Router, most: usize, idle: Duration) -> Infallible {
    let room = Arc::new(Semaphore::new(most));
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = open.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            // What does not fit into the socket's buffer, this always does.
            let _ = stream.try_write(FULL);
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        open.spawn(async move {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(idle);
            // A client that goes away is no failure.
            let _ = server.serve_connection(TokioIo::new(Watched::new(stream, idle)), service).await;
            drop(place);
        });
    }
}

/// A connection that fails when its client has taken nothing for a time of what is sent to it.
#[derive(Debug)]
struct Watched {
    stream: TcpStream,
    idle: Duration,
    /// Since when it takes nothing.
    stalled: Option<Instant>,
    alarm: Alarm,
}

impl Watched {
    fn new(stream: TcpStream, idle: Duration) -> Self {
        Self { stream, idle, stalled: None, alarm: Alarm::default() }
    }

    /// Goes on with a write that was polled; fails if it waits for too long.
    fn watch(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let since = *self.stalled.get_or_insert_with(now);
        ready!(self.alarm.poll(cx, since.checked_add(self.idle)));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_connection_too_many_is_whole() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).unwrap()["error"].is_string());
    }

    #[test]
    fn some_descriptors_are_left_for_the_store() {
        assert!((1..=MOST).contains(&most()));
    }
}
