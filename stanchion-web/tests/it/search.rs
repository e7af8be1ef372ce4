//! A store with more names than a look shows, and a part of a store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use stanchion_core::clock::timeout;
use stanchion_core::{LimiterOptions, MutexOptions, Quota, SemaphoreOptions, Store, WaitGroupOptions};

use crate::access::{free, unlocks};
use crate::common::{dashboard, get, store};
use crate::events::Events;
use crate::faulty::FaultyStore;

/// Makes limiters until there are more names than a look has.
async fn many(store: &Arc<dyn Store>) {
    for number in 0..2_001 {
        let options = LimiterOptions::new(Quota::per_hour(1));
        store.limiter(&format!("many/{number}"), options).unwrap().allow().await.unwrap();
    }
}

fn names(answer: &Value) -> &[Value] {
    answer["names"].as_array().unwrap()
}

#[tokio::test]
async fn the_whole_store_is_searched_where_not_all_names_are_shown() {
    let store = store();
    let router = dashboard(&store).into_router().unwrap();
    many(&store).await;
    let all = get(&router, "/api/v1/names").await.json();
    assert_eq!((names(&all).len(), &all["more"]), (2_000, &true.into()));
    let shown: Vec<_> = names(&all).iter().map(|row| row["name"].as_str().unwrap()).collect();
    let hidden = (0..2_001).map(|number| format!("many/{number}")).find(|name| !shown.contains(&&**name));
    let hidden = hidden.unwrap();
    let guard = store.mutex("wanted/a", MutexOptions::new()).unwrap().lock().await.unwrap();

    let found = get(&router, &format!("/api/v1/names?prefix={hidden}&kind=limiter")).await.json();
    assert_eq!((names(&found).len(), &found["more"]), (1, &false.into()));
    let found = get(&router, "/api/v1/names?prefix=wanted/").await.json();
    assert_eq!(found["names"][0]["holds"][0]["ticket"], guard.ticket().to_string());
    assert!(found["names"][0]["holds"][0]["granted_at_ms"].as_u64() <= found["now_ms"].as_u64());
    let found = get(&router, "/api/v1/names?kind=mutex").await.json();
    assert_eq!((&found["more"], names(&found).len()), (&false.into(), 1));
    assert_eq!(get(&router, "/api/v1/names/mutex/wanted%2Fa").await.status, StatusCode::OK);

    let mut events = Events::open(&router, "/events?kind=mutex&prefix=wanted/").await;
    let first = events.next().await;
    assert_eq!(
        (&first["full"], &first["more"], &first["set"][0]["name"]),
        (&true.into(), &false.into(), &"wanted/a".into())
    );
    let _other = store.mutex("wanted/b", MutexOptions::new()).unwrap().lock().await.unwrap();
    let appears = events.next_change().await;
    assert_eq!(appears["set"][0]["name"], "wanted/b");
    for wrong in ["kind=lock", "prefix=a%00"] {
        for path in ["/events", "/api/v1/names"] {
            let path = format!("{path}?{wrong}");
            assert_eq!(get(&router, &path).await.status, StatusCode::BAD_REQUEST, "{path}");
        }
    }
}

/// A search of something else each time must not make the store work without a pause, also if
/// nobody waits for its end.
#[tokio::test(start_paused = true)]
async fn searches_share_the_pause_between_looks() {
    const LOOK: Duration = Duration::from_secs(1);
    let faulty = FaultyStore::default();
    let faults = Arc::clone(&faulty.faults);
    faults.listing_ms.store(1_000, Ordering::Relaxed);
    let router = dashboard(&(Arc::new(faulty) as Arc<dyn Store>)).into_router().unwrap();
    for number in 0..5 {
        let mut waits = Events::open(&router, &format!("/events?prefix=a/{number}")).await;
        waits.next().await;
        // The pause, and half of a look.
        let mut leaves = Events::open(&router, &format!("/events?prefix=b/{number}")).await;
        assert!(timeout(4 * LOOK + LOOK / 2, leaves.next()).await.is_err());
    }
    let begun = faults.listings.lock().unwrap().clone();
    assert_eq!(begun.len(), 10);
    for (number, pair) in begun.windows(2).enumerate() {
        let look = if number % 2 == 0 { LOOK } else { LOOK / 2 };
        assert!(pair[1] - pair[0] >= 5 * look, "{number}: {:?}", pair[1] - pair[0]);
    }
}

#[tokio::test]
async fn what_is_in_use_is_shown_before_what_is_idle() {
    let store = store();
    // Idle semaphores, more than three pages of them, which a listing has before the names in use.
    for number in 0..3_100 {
        let semaphore = store.semaphore(&format!("many/{number}"), SemaphoreOptions::new(1)).unwrap();
        semaphore.acquire().await.unwrap().release().await.unwrap();
    }
    let permit = store.semaphore("wanted", SemaphoreOptions::new(2)).unwrap().acquire().await.unwrap();
    let member = store.wait_group("wanted", WaitGroupOptions::new()).unwrap().add().await.unwrap();
    let router = dashboard(&store).into_router().unwrap();
    let all = get(&router, "/api/v1/names").await.json();
    assert_eq!((names(&all).len(), &all["more"]), (2_000, &true.into()));
    for (kind, ticket) in [("semaphore", permit.ticket()), ("wait_group", member.ticket())] {
        let row = names(&all).iter().find(|row| row["kind"] == kind && row["name"] == "wanted");
        assert_eq!(row.unwrap()["holds"][0]["ticket"], ticket.to_string());
    }
    let metrics = get(&router, "/metrics").await.body;
    assert!(metrics.contains("stanchion_store_holds{kind=\"semaphore\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn a_dashboard_of_a_part_shows_and_frees_nothing_else() {
    let store = store();
    let router = unlocks(dashboard(&store).prefix("ours/"));
    let ours = store.mutex("ours/a", MutexOptions::new()).unwrap().lock().await.unwrap();
    let theirs = store.mutex("theirs/a", MutexOptions::new()).unwrap().lock().await.unwrap();
    let all = get(&router, "/api/v1/names").await.json();
    assert_eq!((names(&all).len(), &all["names"][0]["name"]), (1, &"ours/a".into()));
    for path in ["/api/v1/names/mutex/theirs%2Fa", "/events?prefix=theirs/", "/events?prefix=o"] {
        assert_eq!(get(&router, path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let mut events = Events::open(&router, "/events?kind=mutex").await;
    assert_eq!(events.next().await["set"].as_array().unwrap().len(), 1);
    let refused = free(&router, "mutex", "theirs/a", &theirs.ticket().to_string()).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
    assert!(theirs.is_held());
    let freed = free(&router, "mutex", "ours/a", &ours.ticket().to_string()).await;
    assert_eq!(freed.json(), json!({ "freed": true }));
}
