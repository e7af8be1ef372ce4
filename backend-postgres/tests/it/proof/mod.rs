//! What the proofs share: stores of both modes on a server of their own, and a link that can be cut.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use stanchion_core::{MutexMode, Store};
use stanchion_postgres::{PostgresBuilder, PostgresStore};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) const MODES: [MutexMode; 2] = [MutexMode::Lease, MutexMode::Session];
/// ε of the contract.
pub(crate) const EPSILON: Duration = Duration::from_millis(500);

pub(crate) fn server() -> PostgresServer {
    PostgresServer::start(PostgresOptions::default()).expect("a postgres")
}

/// A builder for a namespace that is that mode's.
pub(crate) fn builder(url: &str, mode: MutexMode) -> PostgresBuilder {
    let namespace = if mode == MutexMode::Session { "by-session" } else { "by-lease" };
    PostgresStore::builder(url).expect("a URL").namespace(namespace).mutex(mode)
}

pub(crate) async fn store(url: &str, mode: MutexMode, ttl: Duration) -> Arc<dyn Store> {
    Arc::new(builder(url, mode).session_ttl(ttl).connect().await.expect("a store"))
}

/// One row of an answer, over a connection of its own.
pub(crate) async fn row(url: &str, sql: &str) -> PgRow {
    let mut raw = PgConnection::connect(url).await.expect("a connection");
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&mut raw).await.expect("a row")
}

/// A link to a server that can be cut so that neither end hears of it.
#[derive(Debug)]
pub(crate) struct Link {
    port: u16,
    open: watch::Sender<bool>,
}

impl Link {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (open, is_open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(forward(from_client, to_server, is_open.clone()));
                tokio::spawn(forward(from_server, to_client, is_open.clone()));
            }
        });
        Self { port, open }
    }

    /// The same URL through this link.
    pub(crate) fn url(&self, url: &str, server: u16) -> String {
        url.replace(&format!(":{server}/"), &format!(":{}/", self.port))
    }

    /// From now on nothing passes, and nothing is closed.
    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }
}

async fn forward(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut open: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut bytes) => read,
            () = async { drop(open.wait_for(|open| !open).await) } => std::future::pending().await,
        };
        let Ok(length @ 1..) = read else { return };
        let is_open = *open.borrow();
        if !is_open {
            std::future::pending::<()>().await;
        }
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}
