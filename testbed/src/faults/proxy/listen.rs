//! The thread of a proxy: it listens and serves clients.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::address::Protocol;
use super::link;
use super::postgres::Postgres;
use super::redis::Redis;
use super::state::{Ledger, Shared};
use super::wire::Wire;

const PAUSE: Duration = Duration::from_millis(5);

/// Starts the thread. It ends when the state is set to stopped.
pub(super) fn spawn(
    listener: std::net::TcpListener,
    server: SocketAddr,
    protocol: Protocol,
    shared: Arc<Shared>,
) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _guard = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let run = async move {
        let serve = |client| serve(client, server, protocol, &shared);
        let mut listener = listener;
        loop {
            accept_all(&listener, &shared, serve).await;
            drop(listener);
            shared.change(|state| state.listening = false);
            if shared.until(|state| (state.stopped || !state.refusing).then_some(state.stopped)).await {
                return;
            }
            listener = bound(address).await;
            shared.change(|state| state.listening = true);
        }
    };
    thread::Builder::new().name("stanchion-proxy".to_owned()).spawn(move || runtime.block_on(run))
}

/// Accepts connections until the proxy refuses or stops.
async fn accept_all(listener: &TcpListener, shared: &Shared, serve: impl Fn(TcpStream) + Send + Sync) {
    let unwanted = shared.until(|state| (state.stopped || state.refusing).then_some(()));
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((client, _)) => serve(client),
                // Most likely out of file descriptors.
                Err(_) => sleep(PAUSE).await,
            }
        }
    };
    tokio::select! {
        () = unwanted => {}
        () = accept => {}
    }
}

/// Binds the port again; another process may use it for a moment.
async fn bound(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

fn serve(client: TcpStream, server: SocketAddr, protocol: Protocol, shared: &Arc<Shared>) {
    let wire: Box<dyn Wire> = match protocol {
        Protocol::Redis => Box::<Redis>::default(),
        Protocol::Postgres => Box::<Postgres>::default(),
    };
    tokio::spawn(link::serve(client, server, wire, Ledger::begin(shared)));
}
