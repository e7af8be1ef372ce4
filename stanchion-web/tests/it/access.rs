//! Who may read, and who may free.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use stanchion_core::{ErrorKind, MutexOptions, SemaphoreOptions, Store, WaitGroupOptions};
use stanchion_web::Dashboard;

use crate::common::{Answer, TOKEN, dashboard, get, request, send, store};
use crate::faulty::FaultyStore;

pub(crate) fn unlocks(dashboard: Dashboard) -> Router {
    dashboard.token(TOKEN).allow_unlock("an operator").into_router().unwrap()
}

fn post(body: &Value, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = request("/api/v1/unlock").method("POST").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::from(body.to_string())).unwrap()
}

pub(crate) async fn free(router: &Router, kind: &str, name: &str, ticket: &str) -> Answer {
    let bearer = format!("Bearer {TOKEN}");
    let body = json!({ "kind": kind, "name": name, "ticket": ticket });
    send(router, post(&body, &[("authorization", &bearer)])).await
}

#[tokio::test]
async fn the_hold_that_was_seen_is_freed() {
    let store = store();
    let router = unlocks(dashboard(&store));
    let guard = store.mutex("a/b", MutexOptions::new()).unwrap().lock().await.unwrap();
    let other = "0".repeat(32);
    assert_eq!(free(&router, "mutex", "a/b", &other).await.json()["freed"], false);
    assert!(guard.is_held());
    let ticket = guard.ticket().to_string();
    assert_eq!(free(&router, "mutex", "a/b", &ticket).await.json()["freed"], true);
    guard.lost().await;
    assert!(!guard.is_held());
    assert_eq!(free(&router, "mutex", "a/b", &ticket).await.json()["freed"], false);

    let permit = store.semaphore("s", SemaphoreOptions::new(2)).unwrap().acquire().await.unwrap();
    assert_eq!(free(&router, "semaphore", "s", &permit.ticket().to_string()).await.json()["freed"], true);
    permit.lost().await;
    let member = store.wait_group("w", WaitGroupOptions::new()).unwrap().add().await.unwrap();
    let refused = free(&router, "wait_group", "w", &member.ticket().to_string()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(member.is_held());
    for (kind, name, ticket) in [("lock", "a", &*ticket), ("mutex", "a", "zz"), ("mutex", "", &ticket)] {
        assert_eq!(free(&router, kind, name, ticket).await.status, StatusCode::BAD_REQUEST, "{kind} {name}");
    }
}

#[tokio::test]
async fn nothing_is_freed_without_the_token_or_for_another_site() {
    let store = store();
    let guard = store.mutex("a", MutexOptions::new()).unwrap().lock().await.unwrap();
    let body = json!({ "kind": "mutex", "name": "a", "ticket": guard.ticket().to_string() });
    let right = format!("Bearer {TOKEN}");
    let router = unlocks(dashboard(&store));
    for (headers, status) in [
        (&[][..], StatusCode::UNAUTHORIZED),
        (&[("authorization", "Bearer other")], StatusCode::UNAUTHORIZED),
        (&[("authorization", "Bearer ")], StatusCode::UNAUTHORIZED),
        (&[("authorization", "Basic czNjcmV0")], StatusCode::UNAUTHORIZED),
        (&[("authorization", &*right), ("sec-fetch-site", "cross-site")], StatusCode::FORBIDDEN),
        (&[("authorization", &*right), ("sec-fetch-site", "same-site")], StatusCode::FORBIDDEN),
        (&[("authorization", &*right), ("origin", "http://evil.example")], StatusCode::FORBIDDEN),
        (&[("authorization", &*right), ("origin", "null")], StatusCode::FORBIDDEN),
    ] {
        assert_eq!(send(&router, post(&body, headers)).await.status, status, "{headers:?}");
    }
    let long = json!({ "kind": "mutex", "name": "a".repeat(8 * 1024), "ticket": "" });
    let refused = send(&router, post(&long, &[("authorization", &right)])).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(refused.json()["error"].is_string());
    assert_eq!(send(&router, post(&long, &[])).await.status, StatusCode::UNAUTHORIZED);
    // A form of another site can send no JSON.
    let form = request("/api/v1/unlock").method("POST").header("authorization", &*right);
    let form = form.header("content-type", "text/plain").body(Body::from(body.to_string())).unwrap();
    assert_eq!(send(&router, form).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(get(&router, "/api/v1/unlock").await.status, StatusCode::METHOD_NOT_ALLOWED);

    let reads_only = dashboard(&store).token(TOKEN).into_router().unwrap();
    let refused = send(&reads_only, post(&body, &[("authorization", &*right)])).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(guard.is_held());
    // The host is that of the address bar, or what a proxy made of it.
    for own in [
        &[("origin", "http://localhost:7717")][..],
        &[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:7717")],
        &[("sec-fetch-site", "same-origin"), ("origin", "https://locks.example")],
    ] {
        let headers = [&[("authorization", &*right)], own].concat();
        assert_eq!(send(&router, post(&body, &headers)).await.status, StatusCode::OK, "{own:?}");
    }
    assert!(!guard.is_held());
}

/// A page of another site can make a reader's browser send such requests, although it does not get
/// the answers.
#[tokio::test]
async fn other_sites_have_nothing_looked_at() {
    let faulty = FaultyStore::default();
    let faults = Arc::clone(&faulty.faults);
    let store: Arc<dyn Store> = Arc::new(faulty);
    let router = dashboard(&store).into_router().unwrap();
    let ask = async |path: &str, method: &str, headers: &[(&str, &str)]| {
        let asked = headers
            .iter()
            .fold(request(path).method(method), |asked, (name, value)| asked.header(*name, *value));
        send(&router, asked.body(Body::empty()).unwrap()).await.status
    };
    let cross = ("sec-fetch-site", "cross-site");
    let paths = ["/api/v1/names?prefix=a", "/api/v1/names/mutex/a", "/api/v1/health", "/metrics", "/events"];
    for path in paths {
        for (method, headers) in [
            ("GET", &[cross, ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "empty")][..]),
            ("GET", &[cross, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")]),
            ("GET", &[("sec-fetch-site", "same-site")]),
            ("GET", &[("origin", "http://evil.example")]),
            ("POST", &[cross, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]),
        ] {
            assert_eq!(
                ask(path, method, headers).await,
                StatusCode::FORBIDDEN,
                "{path} {method} {headers:?}"
            );
        }
    }
    assert!(faults.listings.lock().unwrap().is_empty());
    // The page itself, and a link to an answer.
    for path in ["/", "/page.js"] {
        assert_eq!(ask(path, "GET", &[cross]).await, StatusCode::OK, "{path}");
    }
    let visit = [cross, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    for headers in [&visit[..], &[("sec-fetch-site", "same-origin")], &[("sec-fetch-site", "none")], &[]] {
        assert_eq!(ask("/api/v1/names", "GET", headers).await, StatusCode::OK, "{headers:?}");
    }
}

/// The request was carried out, and its answer was lost: whoever asked must not take it for a no
/// (C3).
#[tokio::test]
async fn an_unknown_outcome_is_told_as_one() {
    let faulty = FaultyStore::default();
    faulty.faults.loses_answers.store(true, Ordering::Relaxed);
    let store: Arc<dyn Store> = Arc::new(faulty);
    let router = unlocks(dashboard(&store));
    let guard = store.mutex("a", MutexOptions::new()).unwrap().lock().await.unwrap();
    let answer = free(&router, "mutex", "a", &guard.ticket().to_string()).await;
    assert_eq!((answer.status, &answer.json()["kind"]), (StatusCode::BAD_GATEWAY, &"unknown".into()));
    guard.lost().await;
    let refused = free(&router, "mutex", "", &guard.ticket().to_string()).await;
    assert_eq!(refused.json()["kind"], "invalid_argument");
    let refused = get(&router, "/api/v1/names?kind=lock").await.json();
    assert_eq!((refused.get("kind"), refused["error"].is_string()), (Some(&Value::Null), true));
}

#[tokio::test]
async fn reads_can_need_the_token() {
    let router = dashboard(&store()).token(TOKEN).token_to_read(true).into_router().unwrap();
    for path in ["/api/v1/names", "/api/v1/names/mutex/a", "/api/v1/health", "/metrics", "/events"] {
        let refused = get(&router, path).await;
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (StatusCode::UNAUTHORIZED, "Bearer")
        );
    }
    // The page asks for it.
    for path in ["/", "/page.css", "/page.js", "/list.js"] {
        assert_eq!(get(&router, path).await.status, StatusCode::OK, "{path}");
    }
    let shown = request("/api/v1/health").header("authorization", format!("bearer {TOKEN}"));
    assert_eq!(send(&router, shown.body(Body::empty()).unwrap()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn only_known_hosts_are_answered() {
    let router = dashboard(&store()).hosts(["localhost:7717", "[::1]"]).into_router().unwrap();
    let ask = |host: Option<&str>| {
        let request = Request::builder().uri("/api/v1/health");
        let request =
            host.map_or(Request::builder().uri("/api/v1/health"), |host| request.header("host", host));
        request.body(Body::empty()).unwrap()
    };
    for host in ["localhost", "localhost:7717", "LOCALHOST:1", "[::1]:7717", "[::1]"] {
        assert_eq!(send(&router, ask(Some(host))).await.status, StatusCode::OK, "{host}");
    }
    for host in
        [None, Some("evil.example"), Some("evil.example:7717"), Some("localhost.evil.example"), Some("")]
    {
        assert_eq!(send(&router, ask(host)).await.status, StatusCode::MISDIRECTED_REQUEST, "{host:?}");
    }
}

/// HTTP/2 names the host in the address of the request.
#[tokio::test]
async fn a_host_without_a_header_is_known() {
    let router = unlocks(dashboard(&store()).hosts(["locks.example"]));
    for (host, origin, status) in [
        ("locks.example", "https://locks.example", StatusCode::OK),
        ("locks.example", "https://evil.example", StatusCode::FORBIDDEN),
        ("locks.example", "null", StatusCode::FORBIDDEN),
        ("evil.example", "https://evil.example", StatusCode::MISDIRECTED_REQUEST),
    ] {
        let body = json!({ "kind": "mutex", "name": "a", "ticket": "0".repeat(32) });
        let request = Request::builder().method("POST").uri(format!("https://{host}/api/v1/unlock"));
        let request = request.header("content-type", "application/json").header("origin", origin);
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let answer = send(&router, request.body(Body::from(body.to_string())).unwrap()).await;
        assert_eq!(answer.status, status, "{host} {origin}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let store = store();
    for wrong in [
        dashboard(&store).allow_unlock("an operator"),
        dashboard(&store).token("").allow_unlock("an operator"),
        dashboard(&store).token_to_read(true),
        dashboard(&store).token("a token"),
        dashboard(&store).token("schlüssel"),
        dashboard(&store).interval(std::time::Duration::from_millis(199)),
        dashboard(&store).interval(std::time::Duration::from_secs(3_601)),
    ] {
        assert_eq!(wrong.into_router().unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

/// Wrong tokens are told from none: those are answered at once, these one after the other.
#[tokio::test(start_paused = true)]
async fn guesses_of_the_token_take_time() {
    let router = dashboard(&store()).token(TOKEN).token_to_read(true).into_router().unwrap();
    let ask = |token: &str| {
        let request = request("/api/v1/health").header("authorization", format!("Bearer {token}"));
        let (router, request) = (router.clone(), request.body(Body::empty()).unwrap());
        async move { send(&router, request).await.status }
    };
    let begin = tokio::time::Instant::now();
    for _ in 0..100 {
        assert_eq!(get(&router, "/api/v1/health").await.status, StatusCode::UNAUTHORIZED);
        assert_eq!(ask(TOKEN).await, StatusCode::OK);
    }
    assert_eq!(begin.elapsed(), std::time::Duration::ZERO);
    let guesses = futures_util::future::join_all((0..20).map(|number| ask(&number.to_string())));
    let right = async {
        assert_eq!(ask(TOKEN).await, StatusCode::OK);
        begin.elapsed()
    };
    let (guesses, right) = futures_util::future::join(guesses, right).await;
    assert!(guesses.iter().all(|status| *status == StatusCode::UNAUTHORIZED));
    assert!(right < std::time::Duration::from_millis(250), "whoever knows it does not wait: {right:?}");
    assert!(begin.elapsed() >= std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
    // No more than a number of them waits.
    let crowd = futures_util::future::join_all((0..100).map(|number| ask(&number.to_string()))).await;
    let refused = crowd.iter().filter(|status| **status == StatusCode::TOO_MANY_REQUESTS).count();
    assert_eq!((refused, ask(TOKEN).await), (68, StatusCode::OK));
}

#[tokio::test]
async fn whatever_is_refused_is_json() {
    let router = dashboard(&store()).into_router().unwrap();
    let nested = Router::new().nest("/locks", dashboard(&store()).into_router().unwrap());
    for (path, method, status) in [
        ("/no/such/path", "GET", StatusCode::NOT_FOUND),
        ("/api/v1/names/mutex", "GET", StatusCode::NOT_FOUND),
        ("/api/v1/names", "DELETE", StatusCode::METHOD_NOT_ALLOWED),
        ("/api/v1/names?kind=mutex&kind=mutex", "GET", StatusCode::BAD_REQUEST),
        ("/api/v1/names?kind=lock", "GET", StatusCode::BAD_REQUEST),
        ("/events?prefix=%00", "GET", StatusCode::BAD_REQUEST),
        ("/api/v1/names/mutex/%ff", "GET", StatusCode::BAD_REQUEST),
        ("/api/v1/names/lock/a", "GET", StatusCode::BAD_REQUEST),
    ] {
        for (router, below) in [(&router, ""), (&nested, "/locks")] {
            let request = request(&format!("{below}{path}")).method(method);
            let answer = send(router, request.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.status, status, "{below}{path}: {}", answer.body);
            assert_eq!(answer.header("content-type"), "application/json", "{below}{path}");
            assert!(answer.json()["error"].is_string() && answer.header("x-frame-options") == "DENY");
        }
    }
}
