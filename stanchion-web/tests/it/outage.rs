//! A store that is away for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use stanchion_core::clock::now;
use stanchion_core::{MutexOptions, Store};
use stanchion_web::Dashboard;
use tokio::time::sleep;

use crate::common::get;
use crate::events::Events;
use crate::faulty::{FaultyStore, TIMEOUT};

#[tokio::test(start_paused = true)]
async fn its_return_is_seen_soon_and_the_stream_goes_on() {
    let faulty = FaultyStore::default();
    let faults = Arc::clone(&faulty.faults);
    let _guard = faulty.mutex("a", MutexOptions::new()).unwrap().lock().await.unwrap();
    let router = Dashboard::new(Arc::new(faulty)).into_router().unwrap();
    let mut events = Events::open(&router, "/events").await;
    assert_eq!(events.next().await["set"].as_array().unwrap().len(), 1);

    faults.is_away.store(true, Ordering::Relaxed);
    let away = events.next().await;
    assert!(away["error"].as_str().unwrap().contains("nobody answers"), "{away}");
    assert_eq!(away["gone"].as_array().unwrap().len(), 0, "what was seen stays");
    assert_eq!(get(&router, "/api/v1/health").await.status, StatusCode::SERVICE_UNAVAILABLE);

    faults.is_away.store(false, Ordering::Relaxed);
    let back = now();
    while events.next().await["error"].is_string() {}
    assert!(back.elapsed() <= 2 * TIMEOUT, "{:?}", back.elapsed());
    assert_eq!(get(&router, "/api/v1/health").await.status, StatusCode::OK);
}

/// With each name that is asked for then, its whole time limit would go by.
#[tokio::test(start_paused = true)]
async fn an_outage_in_the_middle_of_a_look_is_said_at_once() {
    let faulty = FaultyStore::default();
    let faults = Arc::clone(&faulty.faults);
    let mut guards = Vec::new();
    for number in 0..200 {
        let mutex = faulty.mutex(&format!("a/{number}"), MutexOptions::new()).unwrap();
        guards.push(mutex.lock().await.unwrap());
    }
    let router = Dashboard::new(Arc::new(faulty)).into_router().unwrap();
    assert_eq!(get(&router, "/api/v1/health").await.status, StatusCode::OK);
    faults.goes_away.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    let away = now();
    assert_eq!(get(&router, "/api/v1/health").await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(away.elapsed() <= TIMEOUT, "{:?}", away.elapsed());
    let metrics = get(&router, "/metrics").await.body;
    assert!(
        metrics.contains("\nstanchion_store_up 0\n") && !metrics.contains("stanchion_store_holds"),
        "{metrics}"
    );
    let names = get(&router, "/api/v1/names").await.json();
    assert!(names["error"].as_str().unwrap().contains("nobody answers"), "{names}");
    assert_eq!(names["names"].as_array().unwrap().len(), 200, "what was seen stays");

    faults.goes_away.store(false, Ordering::Relaxed);
    faults.is_away.store(false, Ordering::Relaxed);
    let back = now();
    while get(&router, "/api/v1/health").await.status != StatusCode::OK {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(back.elapsed() <= 2 * TIMEOUT, "{:?}", back.elapsed());
}
