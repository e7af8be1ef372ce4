//! What a backend does by itself on the engine's thread.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time and fail by panics"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::model::{Model, model};
use async_trait::async_trait;
use stanchion_conformance::stopwatch::timeout;
use stanchion_conformance::support::AT_ONCE;
use stanchion_core::engine::{Background, Engine};
use stanchion_core::spi::{Chore, Reports};
use stanchion_core::{Capabilities, ErrorKind, MutexMode, MutexOptions, Ticket};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(30);

/// Says of each ticket that it is told that the store does not keep it any more.
#[derive(Debug)]
struct Teller {
    tickets: tokio::sync::Mutex<mpsc::UnboundedReceiver<(Ticket, oneshot::Sender<()>)>>,
    dropped: Arc<AtomicBool>,
}

struct Running<'a>(&'a AtomicBool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[async_trait]
impl Chore for Teller {
    async fn run(&self, reports: &Reports) {
        let _running = Running(&self.dropped);
        let mut tickets = self.tickets.lock().await;
        while let Some((ticket, told)) = tickets.recv().await {
            reports.gone(ticket);
            told.send(()).unwrap();
        }
        std::future::pending::<()>().await;
    }
}

type Tell = mpsc::UnboundedSender<(Ticket, oneshot::Sender<()>)>;

fn engine() -> (Arc<Model>, Engine, Tell, Arc<AtomicBool>) {
    let (model, _) = model();
    let steps = model.steps(Duration::from_secs(2));
    let (tell, tickets) = mpsc::unbounded_channel();
    let dropped = Arc::new(AtomicBool::new(false));
    let teller = Teller { tickets: tokio::sync::Mutex::new(tickets), dropped: Arc::clone(&dropped) };
    let own = Background { chores: vec![Arc::new(teller)], ..Background::new(Arc::clone(&steps)) };
    let capabilities = Capabilities::full("model", MutexMode::Session);
    (model, Engine::start(capabilities, steps, own).unwrap(), tell, dropped)
}

async fn gone(tell: &Tell, ticket: Ticket) {
    let (told, answered) = oneshot::channel();
    tell.send((ticket, told)).unwrap();
    answered.await.unwrap();
}

#[tokio::test]
async fn c9_a_hold_that_a_chore_calls_gone_is_lost_at_once() {
    let (_model, engine, tell, _) = engine();
    let options = MutexOptions::default().ttl(TTL);
    let guard = engine.mutex("m", options.clone()).unwrap().lock().await.unwrap();
    let other = engine.mutex("n", options).unwrap().lock().await.unwrap();
    gone(&tell, Ticket::random()).await;
    assert!(guard.is_held() && other.is_held(), "that was none of them");
    gone(&tell, guard.ticket()).await;
    assert!(!guard.is_held());
    timeout(AT_ONCE, guard.lost()).await.expect("the holder is told");
    assert!(other.is_held());
    gone(&tell, guard.ticket()).await;
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn a_chore_ends_with_the_engine() {
    let (_model, engine, tell, dropped) = engine();
    let guard = engine.mutex("m", MutexOptions::default().ttl(TTL)).unwrap().lock().await.unwrap();
    drop(engine);
    sleep(Duration::from_millis(50)).await;
    assert!(!dropped.load(SeqCst), "a guard is left");
    gone(&tell, guard.ticket()).await;
    assert!(!guard.is_held());
    drop(guard);
    let ended = async {
        while !dropped.load(SeqCst) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(AT_ONCE, ended).await.expect("the chore is dropped");
}
