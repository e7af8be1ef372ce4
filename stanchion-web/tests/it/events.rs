//! The stream of a page.

use axum::Router;
use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use stanchion_core::MutexOptions;
use tower::ServiceExt as _;

use crate::common::{dashboard, request, store};

pub(crate) struct Events {
    body: BodyDataStream,
    text: String,
}

impl Events {
    pub(crate) async fn open(router: &Router, path: &str) -> Self {
        let answer = router.clone().oneshot(request(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { body: answer.into_body().into_data_stream(), text: String::new() }
    }

    pub(crate) async fn next(&mut self) -> Value {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data =
                    event.strip_prefix("event: look\ndata: ").map(|data| serde_json::from_str(data).unwrap());
                self.text = rest.to_owned();
                match data {
                    Some(data) => return data,
                    None => continue,
                }
            }
            let more = self.body.next().await.unwrap().unwrap();
            self.text.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    /// Waits for a message that tells of a change.
    pub(crate) async fn next_change(&mut self) -> Value {
        loop {
            let message = self.next().await;
            assert_eq!(message["full"], false);
            if message["set"] != json!([]) || message["gone"] != json!([]) {
                return message;
            }
        }
    }
}

#[tokio::test]
async fn first_comes_everything_and_then_what_has_changed() {
    let store = store();
    let hostile = "<img src=x onerror=alert(1)>\u{1b}[2J\u{202e}";
    let other = store.mutex(hostile, MutexOptions::new()).unwrap().lock().await.unwrap();
    let router = dashboard(&store).title("Locks").into_router().unwrap();
    let mut events = Events::open(&router, "/events").await;
    let first = events.next().await;
    assert_eq!(
        (&first["full"], &first["title"], &first["unlock"]),
        (&true.into(), &"Locks".into(), &false.into())
    );
    assert_eq!(first["set"].as_array().unwrap().len(), 1);
    assert_eq!(first["set"][0]["name"], hostile);
    assert_eq!(first["points"].as_array().unwrap().len(), 1);

    let mutex = store.mutex("report", MutexOptions::new()).unwrap();
    let guard = mutex.lock().await.unwrap();
    let appears = events.next_change().await;
    assert_eq!(
        appears["set"].as_array().unwrap().len(),
        1,
        "what has not changed is not sent again: {appears}"
    );
    assert_eq!(appears["set"][0]["holds"][0]["ticket"], guard.ticket().to_string());
    assert_eq!(appears["points"][0]["held"], 2);
    assert!(appears["points"][0]["began_per_s"].as_f64().unwrap() > 0.0);

    let waiting = tokio::spawn(async move { mutex.lock().await.unwrap() });
    let joins = events.next_change().await;
    assert_eq!((&joins["set"][0]["name"], &joins["set"][0]["waiters"]), (&"report".into(), &1.into()));
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    let moves_up = events.next_change().await;
    assert_eq!(moves_up["set"][0]["waiters"], 0);
    assert_eq!(moves_up["set"][0]["holds"][0]["ticket"], next.ticket().to_string());

    // Another viewer gets everything, from the same look.
    let mut late = Events::open(&router, "/events").await;
    let full = late.next().await;
    assert_eq!(full["set"].as_array().unwrap().len(), 2);
    assert!(full["points"].as_array().unwrap().len() > 2, "what the first viewer's looks have seen");
    drop(other);
    next.release().await.unwrap();
    let freed = events.next_change().await;
    let free: Vec<_> = freed["set"].as_array().unwrap().iter().map(|row| &row["holders"]).collect();
    assert!(free.iter().all(|holders| **holders == json!(0)), "{freed}");
}
