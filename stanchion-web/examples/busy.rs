//! A page over a store in which much happens, nested into an application: what the checks in a
//! browser look at.
//!
//! `cargo run -p stanchion-web --example busy -- [PORT] [NAMES] [CHANGES A SECOND]`

#![expect(clippy::disallowed_methods, reason = "a program has tasks of its own")]

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use stanchion_core::clock::sleep;
use stanchion_core::{LimiterOptions, MutexOptions, Quota, SemaphoreOptions, Store, Ttl, WaitGroupOptions};
use stanchion_memory::MemoryStore;
use stanchion_web::Dashboard;
use tokio::net::TcpListener;

type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The token that frees locks here.
const TOKEN: &str = "example";
/// Names that a page must show as they are, and not as what they look like.
const HOSTILE: [&str; 4] = [
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(1)</script>",
    "evil\u{202e}txt.exe\u{7}\u{1b}[2J",
    "\\u{202e} as letters",
];

#[tokio::main]
async fn main() -> Result {
    let mut arguments = env::args().skip(1);
    let mut number = |otherwise| arguments.next().map_or(Ok(otherwise), |text| text.parse::<u32>());
    let (port, names, changes) = (number(7718)?, number(1_000)?, number(100)?);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for name in HOSTILE {
        let mutex = store.mutex(name, MutexOptions::new().label(name))?;
        mutex.lock().await?.detach(Ttl::new(Duration::from_secs(3_600))?).await?;
    }
    for number in 0..4 {
        tokio::spawn(waits_its_turn(Arc::clone(&store), number));
    }
    tokio::spawn(uses_the_other_kinds(Arc::clone(&store)));
    tokio::spawn(changes_names(Arc::clone(&store), names, changes));

    let dashboard = Dashboard::new(store).title("A busy store").token(TOKEN).allow_unlock("example");
    let (locks, looks) = dashboard.watch()?;
    tokio::spawn(looks);
    let listener = TcpListener::bind(("127.0.0.1", u16::try_from(port)?)).await?;
    println!("http://{}/locks, the token is {TOKEN}", listener.local_addr()?);
    axum::serve(listener, Router::new().nest("/locks", locks)).await?;
    Ok(())
}

/// Holds `queue/report` for some seconds, again and again, beside others that do the same.
async fn waits_its_turn(store: Arc<dyn Store>, number: u32) -> Result {
    let mutex = store.mutex("queue/report", MutexOptions::new().label(format!("worker {number}")))?;
    loop {
        let lease = Ttl::new(Duration::from_secs(8))?;
        let held = mutex.lock().await?.detach(lease).await?;
        sleep(Duration::from_secs(4)).await;
        // Whoever freed it from the page has ended it before.
        if let Ok(guard) = mutex.attach(&held).await {
            guard.release().await?;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Keeps a semaphore, a wait group and a limiter in use.
async fn uses_the_other_kinds(store: Arc<dyn Store>) -> Result {
    let exports = store.semaphore("exports", SemaphoreOptions::new(5))?;
    let _permits = exports.acquire_many(3).await?;
    let partner = store.limiter("calls/partner", LimiterOptions::new(Quota::per_second(10).burst(50)))?;
    let batch = store.wait_group("batch", WaitGroupOptions::new())?;
    loop {
        for member in batch.add_many(10).await? {
            for _ in 0..9 {
                partner.allow_n(3).await?;
                sleep(Duration::from_millis(200)).await;
            }
            member.done().await?;
        }
    }
}

/// Takes and frees locks, so many a second, whose names are spread over the page.
async fn changes_names(store: Arc<dyn Store>, names: u32, changes: u32) -> Result {
    let lease = Ttl::new(Duration::from_secs(30))?;
    let mutexes = (0..names).map(|number| {
        let options = MutexOptions::new().label(format!("host {}", number % 7));
        store.mutex(&format!("job/{number:05}"), options)
    });
    let mutexes: Vec<_> = mutexes.collect::<stanchion_core::Result<_>>()?;
    for mutex in &mutexes {
        mutex.lock().await?.detach(lease).await?;
    }
    let pause = Duration::from_secs(1) / changes.max(1);
    for mutex in mutexes.iter().cycle().step_by(617) {
        mutex.force_unlock().await?;
        mutex.lock().await?.detach(lease).await?;
        sleep(pause).await;
    }
    Ok(())
}
