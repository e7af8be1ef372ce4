//! A candidate in an election, who writes to a ledger while it leads. The test of elections starts
//! several.

#![expect(clippy::disallowed_methods, reason = "a program owns its runtime")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stanchion::{ElectionOptions, FencingToken, StoreExt};
use stanchion_campaign::connected;
use stanchion_core::clock::sleep;

/// Pause between two writes.
const BETWEEN: Duration = Duration::from_millis(5);

/// The way to the ledger.
struct Ledger(BufReader<TcpStream>);

impl Ledger {
    /// Writes with a token; the ledger accepts or refuses it. On loopback, and as short as a step
    /// of a task may be.
    fn write(&mut self, label: &str, token: FencingToken) -> std::io::Result<()> {
        self.0.get_mut().write_all(format!("{label} {token}\n").as_bytes())?;
        self.0.read_line(&mut String::new()).map(drop)
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, label, ledger, ttl] = arguments.as_slice() else {
        return Err("arguments: a URL, a label, the ledger's address, the lease in ms or `-`".into());
    };
    let link = TcpStream::connect(ledger.as_str())?;
    link.set_nodelay(true)?;
    let ledger = Arc::new(Mutex::new(Ledger(BufReader::new(link))));
    let store = connected(url).await?;
    let mut options = ElectionOptions::new().label(label.as_str()).pause(Duration::ZERO);
    if ttl != "-" {
        options = options.ttl(Duration::from_millis(ttl.parse()?));
    }
    let election = store.elect("leader", options, |token| {
        let ledger = Arc::clone(&ledger);
        async move {
            loop {
                let written = ledger.lock().unwrap_or_else(PoisonError::into_inner).write(label, token);
                if let Err(error) = written {
                    eprintln!("{label}: {error}");
                }
                sleep(BETWEEN).await;
            }
        }
    })?;
    Ok(election.run().await?)
}
