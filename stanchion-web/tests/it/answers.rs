//! The JSON API, the metrics and the page's files.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::StatusCode;
use stanchion_core::{LimiterOptions, MutexOptions, Quota, SemaphoreOptions, Store};

use crate::common::{TOKEN, dashboard, get, store};

/// Makes a mutex that is held and waited for, a permit, and a limiter that was asked.
async fn in_use(store: &Arc<dyn Store>) -> impl Drop {
    let mutex = store.mutex("jobs/report", MutexOptions::new().label("host a")).unwrap();
    let guard = mutex.lock().await.unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await.map(drop) });
    let semaphore = store.semaphore("exports", SemaphoreOptions::new(3)).unwrap();
    let permit = semaphore.acquire_many(2).await.unwrap();
    let quota = Quota::per(1, Duration::from_secs(3_600)).burst(5);
    store.limiter("api", LimiterOptions::new(quota)).unwrap().allow_n(2).await.unwrap();
    while store.mutex("jobs/report", MutexOptions::new()).unwrap().inspect().await.unwrap().waiters == 0 {
        tokio::task::yield_now().await;
    }
    InUse(Some((guard, permit)), waiting)
}

struct InUse<T>(Option<T>, tokio::task::JoinHandle<stanchion_core::Result<()>>);

impl<T> Drop for InUse<T> {
    fn drop(&mut self) {
        self.1.abort();
        self.0.take();
    }
}

#[tokio::test]
async fn names_and_their_holds_are_told() {
    let store = store();
    let _in_use = in_use(&store).await;
    let router = dashboard(&store).into_router().unwrap();
    let all = get(&router, "/api/v1/names").await;
    assert_eq!(all.header("content-type"), "application/json");
    let all = all.json();
    assert_eq!((&all["store"], &all["more"], &all["error"]), (&"memory".into(), &false.into(), &().into()));
    let of_kind = |kind: &str| {
        let names = all["names"].as_array().unwrap();
        names.iter().find(|row| row["kind"] == kind).unwrap().clone()
    };
    let mutex = of_kind("mutex");
    assert_eq!(
        (&mutex["name"], &mutex["waiters"], &mutex["limit"]),
        (&"jobs/report".into(), &1.into(), &1.into())
    );
    let hold = &mutex["holds"][0];
    assert_eq!(hold["label"], "host a");
    assert_eq!(hold["ticket"].as_str().unwrap().len(), 32);
    assert!(hold["token"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    assert!(hold["granted_at_ms"].as_u64() <= all["now_ms"].as_u64());
    let semaphore = of_kind("semaphore");
    assert_eq!(
        (&semaphore["holders"], &semaphore["weight"], &semaphore["limit"]),
        (&1.into(), &2.into(), &3.into())
    );
    let limiter = of_kind("limiter");
    assert_eq!((&limiter["tokens"], &limiter["limit"]), (&3.into(), &5.into()));

    let some = get(&router, "/api/v1/names?kind=mutex&prefix=jobs/").await.json();
    assert_eq!(some["names"].as_array().unwrap().len(), 1);
    let none = get(&router, "/api/v1/names?prefix=none").await.json();
    assert_eq!(none["names"].as_array().unwrap().len(), 0);
    assert_eq!(get(&router, "/api/v1/names?kind=lock").await.status, StatusCode::BAD_REQUEST);
}

/// An operator starts the page because a lock is stuck already.
#[tokio::test(start_paused = true)]
async fn a_hold_can_be_older_than_the_page() {
    const BEFORE: Duration = Duration::from_secs(1_800);
    let store = store();
    store.limiter("idle", LimiterOptions::new(Quota::per_hour(1))).unwrap().allow().await.unwrap();
    let _guard = store.mutex("stuck", MutexOptions::new()).unwrap().lock().await.unwrap();
    tokio::time::sleep(BEFORE).await;
    let all = get(&dashboard(&store).into_router().unwrap(), "/api/v1/names").await.json();
    let names = all["names"].as_array().unwrap();
    assert_eq!(names.len(), 2, "{all}");
    for row in names {
        let since =
            if row["kind"] == "mutex" { &row["holds"][0]["granted_at_ms"] } else { &row["used_at_ms"] };
        let age = Duration::from_millis(all["now_ms"].as_u64().unwrap() - since.as_u64().unwrap());
        assert!(BEFORE <= age && age < BEFORE + Duration::from_secs(10), "{row}");
    }
}

#[tokio::test]
async fn one_name_is_told() {
    let store = store();
    let _in_use = in_use(&store).await;
    let router = dashboard(&store).into_router().unwrap();
    let mutex = get(&router, "/api/v1/names/mutex/jobs%2Freport").await.json();
    assert_eq!((&mutex["name"], &mutex["holds"][0]["label"]), (&"jobs/report".into(), &"host a".into()));
    assert_eq!(get(&router, "/api/v1/names/limiter/api").await.json()["tokens"], 3);
    for (path, status) in [
        ("mutex/nobody", StatusCode::NOT_FOUND),
        ("limiter/nobody", StatusCode::NOT_FOUND),
        ("lock/api", StatusCode::BAD_REQUEST),
        ("mutex/a%00", StatusCode::BAD_REQUEST),
    ] {
        let answer = get(&router, &format!("/api/v1/names/{path}")).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.json()["error"].is_string());
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_said_to_be() {
    let store = store();
    let _in_use = in_use(&store).await;
    let router = dashboard(&store).into_router().unwrap();
    assert_eq!(get(&router, "/api/v1/health").await.json()["status"], "ok");
    store.close().await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    let health = get(&router, "/api/v1/health").await;
    assert_eq!(health.status, StatusCode::SERVICE_UNAVAILABLE);
    let names = get(&router, "/api/v1/names").await.json();
    assert_eq!(names["error"], health.json()["error"]);
    assert_eq!(names["names"].as_array().unwrap().len(), 3, "what was seen stays");
    let metrics = get(&router, "/metrics").await.body;
    assert!(metrics.contains("\nstanchion_store_up 0\n"));
    assert!(!metrics.contains("stanchion_store_holds"), "what was seen is not told as what is: {metrics}");
}

#[tokio::test]
async fn metrics_have_totals_by_kind() {
    let store = store();
    let _in_use = in_use(&store).await;
    let router = dashboard(&store).into_router().unwrap();
    let metrics = get(&router, "/metrics").await;
    assert_eq!(metrics.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    for line in [
        "# TYPE stanchion_store_holds gauge",
        "stanchion_store_names{kind=\"limiter\"} 1",
        "stanchion_store_holds{kind=\"semaphore\"} 1",
        "stanchion_store_holds{kind=\"wait_group\"} 0",
        "stanchion_store_waiters{kind=\"mutex\"} 1",
        "stanchion_store_up 1",
    ] {
        assert!(metrics.body.lines().any(|told| told == line), "{line}\n{}", metrics.body);
    }
    assert!(!metrics.body.contains("holds{kind=\"limiter\"}"), "a limiter has no holders");
    assert!(metrics.body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let router = dashboard(&store()).into_router().unwrap();
    let scripts = ["/page.js", "/list.js", "/model.js", "/rows.js", "/search.js", "/server.js", "/text.js"];
    let others = [("/", "text/html"), ("/page.css", "text/css"), ("/page.svg", "image/svg+xml")];
    for (path, kind) in scripts.map(|path| (path, "text/javascript")).into_iter().chain(others) {
        let file = get(&router, path).await;
        assert_eq!(file.status, StatusCode::OK);
        assert_eq!(file.header("content-type"), format!("{kind}; charset=utf-8"));
        assert!(file.header("content-security-policy").starts_with("default-src 'none'; "));
        assert_eq!(file.header("x-content-type-options"), "nosniff");
        // A namespace and a source are no requests.
        let foreign =
            file.body.replace("http://www.w3.org/2000/svg", "").replace("https://html.spec.whatwg.org/", "");
        assert!(
            !foreign.contains("http://") && !foreign.contains("https://") && !foreign.contains("url(//"),
            "{path}"
        );
    }
}

/// A browser asks for `/favicon.ico` of any page that names no icon.
#[tokio::test]
async fn the_page_names_an_icon_that_its_policy_allows() {
    let router = dashboard(&store()).token(TOKEN).token_to_read(true).into_router().unwrap();
    let page = get(&router, "/").await;
    assert!(page.body.contains(r#"<link rel="icon" href="page.svg" type="image/svg+xml">"#), "{}", page.body);
    assert!(page.header("content-security-policy").contains("; img-src 'self';"));
    let icon = get(&router, "/page.svg").await;
    assert_eq!(icon.status, StatusCode::OK, "a browser sends no token with it");
    assert!(icon.body.starts_with("<svg ") && !icon.body.contains("<script"), "{}", icon.body);
}

#[tokio::test]
async fn a_nested_page_finds_its_files() {
    let inner = || dashboard(&store()).token(TOKEN).token_to_read(true).into_router().unwrap();
    let odd = "/ops/%22%3E&\"a:b";
    let router = Router::new().nest("/ops/locks", inner()).nest_service("/ops/service", inner());
    let router = router.nest("/ops/{odd}", inner());
    for (path, folder) in [
        ("/ops/locks", "./locks/"),
        ("/ops/service", "./service/"),
        ("/ops/service/", ""),
        ("/ops/a:b", "./a:b/"),
    ] {
        let page = get(&router, path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        for file in ["page.css", "page.js", "page.svg"] {
            assert!(page.body.contains(&format!("\"{folder}{file}\"")), "{}", page.body);
            let file = format!("{}/{file}", path.trim_end_matches('/'));
            assert_eq!(get(&router, &file).await.status, StatusCode::OK, "{file}");
        }
        let names = format!("{}/api/v1/names", path.trim_end_matches('/'));
        assert_eq!(get(&router, &names).await.status, StatusCode::UNAUTHORIZED, "{names}");
    }
    assert!(get(&router, odd).await.body.contains("\"./%22%3E&amp;&quot;a:b/page.js\""));
}
