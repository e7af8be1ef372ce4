//! Server-sent events: everything first, then the changes. A message is made once for all viewers
//! that have seen the same look before.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use serde::Serialize;
use stanchion_core::clock::timeout;

use crate::App;
use crate::api::{Asked, Filter, Refusal};
use crate::look::{Look, Point, Watch};
use crate::row::{Key, Millis, Row, millis};

/// Time after which a viewer that was sent nothing is sent an empty comment, so that nobody in
/// between takes the connection for idle.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Number of messages that are kept: viewers that are slow have seen different looks.
const MAX_KEPT: usize = 4;

/// The look that a viewer waits for.
type Next = BoxFuture<'static, Arc<Look>>;

/// All of a message but the time of its sending.
#[derive(Debug, Serialize)]
struct Message<'a> {
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

/// The messages that were made last, by the numbers of the look that their readers have seen
/// before, 0 for none, and of the look that they tell of.
#[derive(Debug, Default)]
pub(crate) struct Messages(Mutex<VecDeque<((u64, u64), Bytes)>>);

impl Messages {
    fn get(&self, numbers: (u64, u64), make: impl FnOnce() -> String) -> Bytes {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, message)) = kept.iter().find(|(of, _)| *of == numbers) {
            return message.clone();
        }
        let message = Bytes::from(make());
        kept.truncate(MAX_KEPT - 1);
        kept.push_front((numbers, message.clone()));
        message
    }
}

pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Asked(filter): Asked<Filter>,
) -> Result<Response, Refusal> {
    let watch = app.watch_of(&filter.scope()?)?;
    let pieces = stream::unfold((None::<Arc<Look>>, None::<Next>), move |(sent, next)| {
        let (app, watch) = (Arc::clone(&app), Arc::clone(&watch));
        async move {
            let number = sent.as_ref().map_or(0, |sent| sent.number);
            let mut next = next.unwrap_or_else(|| {
                let watch = Arc::clone(&watch);
                Box::pin(async move { watch.next(number).await })
            });
            // The look goes on meanwhile: it may be this viewer's, and take long.
            let Ok(look) = timeout(KEEP_ALIVE, &mut next).await else {
                return Some((vec![Bytes::from_static(b":\n\n")], (sent, Some(next))));
            };
            let message =
                watch.messages.get((number, look.number), || message(&app, &watch, &look, sent.as_deref()));
            // The rest of the message begins behind its first brace.
            let head = format!("event: look\ndata: {{\"now_ms\":{},", watch.now());
            let pieces = vec![Bytes::from(head), message.slice(1..), Bytes::from_static(b"\n\n")];
            Some((pieces, (Some(look), None)))
        }
    });
    let body = Body::from_stream(pieces.flat_map(stream::iter).map(Ok::<_, Infallible>));
    Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
}

fn message(app: &App, watch: &Watch, look: &Look, sent: Option<&Look>) -> String {
    let is_new = |key: &Key, row: &Arc<Row>| {
        let known = sent.and_then(|sent| sent.rows.get(key));
        known.is_none_or(|known| !Arc::ptr_eq(known, row) && known != row)
    };
    let gone = sent.iter().flat_map(|sent| sent.rows.keys());
    let newest = sent.and_then(|sent| sent.points.back()).map(|point| point.at_ms);
    let message = Message {
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
    serde_json::to_string(&message).unwrap_or_else(|_| "{}".to_owned())
}

fn points_after(points: &VecDeque<Point>, newest: Option<Millis>) -> Vec<&Point> {
    points.iter().filter(|point| newest.is_none_or(|newest| point.at_ms > newest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_made_once_for_those_that_have_seen_the_same() {
        let messages = Messages::default();
        let mut made = 0;
        for _ in 0..1_000 {
            for numbers in [(0, 9), (8, 9), (7, 9)] {
                let message = messages.get(numbers, || {
                    made += 1;
                    format!("{numbers:?}")
                });
                assert_eq!(message, format!("{numbers:?}"));
            }
        }
        assert_eq!(made, 3);
        (10..20).for_each(|number| drop(messages.get((number, number + 1), String::new)));
        assert_eq!(messages.0.lock().unwrap().len(), MAX_KEPT);
    }
}
