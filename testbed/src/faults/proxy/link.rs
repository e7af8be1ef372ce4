//! One connection through the proxy: two readers, two writers and their ends.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep_until;

use super::action::Then;
use super::state::{End, Ledger};
use super::wire::{Piece, Wire};

const TO_SERVER: usize = 0;
const TO_CLIENT: usize = 1;
const READ_SIZE: usize = 16 * 1024;

/// A message from a reader to the writer of the same direction.
#[derive(Debug)]
enum Parcel {
    Piece(Piece),
    /// The sender has ended its side.
    Fin,
    /// The sender is gone.
    Reset,
}

/// Serves a client until the connection has ended, in the same way on both sides.
pub(super) async fn serve(mut client: TcpStream, server: SocketAddr, wire: Box<dyn Wire>, ledger: Ledger) {
    let _ = client.set_nodelay(true);
    // For a client in a black hole, the server sees no connection at all.
    let connected = async {
        ledger.open_way(TO_SERVER).await;
        TcpStream::connect(server).await
    };
    let connected = tokio::select! {
        connected = connected => connected.map_err(|_| End::Reset),
        end = ledger.end() => Err(end),
    };
    match connected {
        Ok(mut server) => {
            let _ = server.set_nodelay(true);
            let end = relay(&mut client, &mut server, wire, &ledger).await;
            finish(client, end).await;
            finish(server, end).await;
        }
        Err(end) => finish(client, end).await,
    }
    ledger.ended();
}

/// Forwards bytes until both sides have ended, or one direction demands the end of both.
async fn relay(client: &mut TcpStream, server: &mut TcpStream, wire: Box<dyn Wire>, ledger: &Ledger) -> End {
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let (requests, to_send) = unbounded_channel();
    let (replies, to_answer) = unbounded_channel();
    let wire = Mutex::new(wire);
    let ways = async {
        tokio::try_join!(
            read(from_client, requests, &wire, ledger, TO_SERVER),
            read(from_server, replies, &wire, ledger, TO_CLIENT),
            write(to_server, to_send, ledger, TO_SERVER),
            write(to_client, to_answer, ledger, TO_CLIENT),
        )
    };
    tokio::select! {
        all = ways => all.err().unwrap_or(End::Fin),
        end = ledger.end() => end,
    }
}

/// Reads until the end, also bytes that are held back: so the proxy counts everything that was
/// sent.
async fn read(
    mut from: ReadHalf<'_>,
    queue: UnboundedSender<Parcel>,
    wire: &Mutex<Box<dyn Wire>>,
    ledger: &Ledger,
    way: usize,
) -> Result<(), End> {
    let mut bytes = vec![0; READ_SIZE];
    loop {
        let read = from.read(&mut bytes).await;
        let mut wire = wire.lock().unwrap_or_else(PoisonError::into_inner);
        let (pieces, end) = match read {
            Ok(length @ 1..) if way == TO_SERVER => (wire.client_sent(&bytes[..length], ledger), None),
            Ok(length @ 1..) => (wire.server_sent(&bytes[..length], ledger), None),
            Ok(0) => (vec![Piece::now(wire.rest(way))], Some(Parcel::Fin)),
            Err(_) => (vec![], Some(Parcel::Reset)),
        };
        let is_end = end.is_some();
        // A silent writer has dropped its end of the queue: the rest is read and discarded.
        pieces.into_iter().map(Parcel::Piece).chain(end).for_each(|parcel| drop(queue.send(parcel)));
        if is_end {
            return Ok(());
        }
    }
}

/// Writes the pieces that may pass, in order. An error ends the connection.
async fn write(
    mut to: WriteHalf<'_>,
    mut queue: UnboundedReceiver<Parcel>,
    ledger: &Ledger,
    way: usize,
) -> Result<(), End> {
    while let Some(parcel) = queue.recv().await {
        if let Parcel::Piece(Piece { at: Some(at), .. }) = parcel {
            sleep_until(at).await;
        }
        ledger.open_way(way).await;
        match parcel {
            Parcel::Piece(piece) => {
                if to.write_all(&piece.bytes).await.is_err() {
                    // The reader of that side reports how it ended.
                    return Ok(());
                }
                match piece.then {
                    None => {}
                    Some(Then::Fin) => return Err(End::Fin),
                    Some(Then::Reset) => return Err(End::Reset),
                    Some(Then::Silence) => return Ok(()),
                }
            }
            Parcel::Fin => drop(to.shutdown().await),
            Parcel::Reset => return Err(End::Reset),
        }
    }
    Ok(())
}

/// Ends one side. Bytes that it has sent are read first: unread, they would turn an orderly end
/// into a reset.
async fn finish(mut stream: TcpStream, end: End) {
    match end {
        End::Fin => {
            let _ = stream.shutdown().await;
            let mut bytes = vec![0; READ_SIZE];
            while stream.try_read(&mut bytes).is_ok_and(|length| length > 0) {}
        }
        End::Reset => drop(stream.set_zero_linger()),
    }
}
