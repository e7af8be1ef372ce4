//! Connections: their number, their timeouts and their end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::settings::Settings;

/// Maximum number of bytes read ahead on a connection.
const READ_AHEAD: usize = 64 * 1024;
/// Pause after a connection could not be accepted, for example because there are no more file
/// descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves at most [`Settings::connections`] connections at a time until `stop` resolves. Then
/// finishes the requests under way, for at most [`Settings::grace`], and ends the connections.
/// Returns how many had to be cut off.
///
/// A connection beyond the limit waits until another one ends.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    settings: &Settings,
    stop: impl Future<Output = ()>,
) -> usize {
    let slots = Arc::new(Semaphore::new(settings.connections.get().min(Semaphore::MAX_PERMITS)));
    let graceful = GracefulShutdown::new();
    let mut open = JoinSet::new();
    tokio::pin!(stop);
    loop {
        let (stream, slot) = tokio::select! {
            () = &mut stop => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(settings.patience)
            .max_buf_size(READ_AHEAD)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        let connection = graceful.watch(connection);
        open.spawn(async move {
            // An error of one client (gone, or not speaking HTTP) concerns no other.
            let _ = connection.await;
            drop(slot);
        });
        while open.try_join_next().is_some() {}
    }
    drop(listener);
    let finish = async {
        graceful.shutdown().await;
        while open.join_next().await.is_some() {}
    };
    let _ = timeout(settings.grace, finish).await;
    while open.try_join_next().is_some() {}
    let cut_off = open.len();
    open.shutdown().await;
    cut_off
}

async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed, so a slot always comes.
    let slot = Arc::clone(slots).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are short, and a client waits for each.
                let _ = stream.set_nodelay(true);
                return (stream, slot);
            }
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
