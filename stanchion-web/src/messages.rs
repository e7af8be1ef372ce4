//! Server-sent events: everything first, then the changes.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, stream};
use serde::Serialize;

use crate::App;
use crate::api::{Filter, Refusal};
use crate::look::{Look, Point, Watch};
use crate::row::{Key, Millis, Row, millis};

#[derive(Debug, Serialize)]
struct Message<'a> {
    now_ms: Millis,
    store: &'a str,
    title: &'a str,
    unlock: bool,
    /// This is everything, and replaces all earlier messages.
    full: bool,
    took_ms: u64,
    more: bool,
    error: Option<&'a str>,
    set: Vec<&'a Row>,
    gone: Vec<&'a Key>,
    points: Vec<&'a Point>,
}

pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Query(filter): Query<Filter>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let watch = app.watch_of(&filter.scope()?)?;
    let stream = stream::unfold(None::<Arc<Look>>, move |sent| {
        let (app, watch) = (Arc::clone(&app), Arc::clone(&watch));
        async move {
            let look = watch.next(sent.as_ref().map_or(0, |sent| sent.number)).await;
            let text = message(&app, &watch, &look, sent.as_deref());
            Some((Ok(Event::default().event("look").data(text)), Some(look)))
        }
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()))
}

fn message(app: &App, watch: &Watch, look: &Look, sent: Option<&Look>) -> String {
    let is_new = |key: &Key, row: &Arc<Row>| {
        let known = sent.and_then(|sent| sent.rows.get(key));
        known.is_none_or(|known| !Arc::ptr_eq(known, row) && known != row)
    };
    let gone = sent.iter().flat_map(|sent| sent.rows.keys());
    let newest = sent.and_then(|sent| sent.points.back()).map(|point| point.at_ms);
    let message = Message {
        now_ms: watch.now(),
        store: watch.store.capabilities().store,
        title: &app.title,
        unlock: app.access.unlock.is_some(),
        full: sent.is_none(),
        took_ms: millis(look.took),
        more: look.more,
        error: look.error.as_deref(),
        set: look.rows.iter().filter(|(key, row)| is_new(key, row)).map(|(_, row)| &**row).collect(),
        gone: gone.filter(|key| !look.rows.contains_key(*key)).collect(),
        points: points_after(&look.points, newest),
    };
    // Numbers and texts are always written.
    serde_json::to_string(&message).unwrap_or_default()
}

fn points_after(points: &VecDeque<Point>, newest: Option<Millis>) -> Vec<&Point> {
    points.iter().filter(|point| newest.is_none_or(|newest| point.at_ms > newest)).collect()
}
