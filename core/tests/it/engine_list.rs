//! What the engine makes of the step that lists names.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::model::Model;
use async_trait::async_trait;
use stanchion_core::clock;
use stanchion_core::engine::{Background, Engine};
use stanchion_core::spi::{Answers, Ask, Lane, List, ListPart, Request, Response, Steps};
use stanchion_core::{Capabilities, Cursor, ErrorKind, Kind, ListOptions, Listed, MutexMode, Name, Result};

/// The answer to each request, by its number.
type Answer = Box<dyn Fn(usize) -> Result<ListPart> + Send + Sync>;

struct Script {
    asked: Mutex<Vec<List>>,
    answer: Answer,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

#[async_trait]
impl Steps for Script {
    fn lane(&self, request: &Request) -> Lane {
        Lane::of_kind(0, request)
    }

    async fn send(&self, batch: &[Request], _: clock::Instant) -> Answers<Response> {
        let list = |request: &Request| {
            let list = List::of(request).ok_or_else(|| request.unsupported())?;
            let number = {
                let mut asked = self.asked.lock().unwrap();
                asked.push(list.clone());
                asked.len() - 1
            };
            (self.answer)(number).map(Response::List)
        };
        batch.iter().map(list).collect()
    }

    fn request_timeout(&self) -> Duration {
        Duration::from_secs(2)
    }
}

fn listing(answer: impl Fn(usize) -> Result<ListPart> + Send + Sync + 'static) -> (Arc<Script>, Engine) {
    let script = Arc::new(Script { asked: Mutex::default(), answer: Box::new(answer) });
    let steps = || Arc::clone(&script) as Arc<dyn Steps>;
    let own = Background { namespace: Arc::from("ns"), ..Background::new(steps()) };
    let engine = Engine::start(Capabilities::full("scripted", MutexMode::Lease), steps(), own).unwrap();
    (script, engine)
}

fn names(from: usize, count: usize) -> Vec<Listed> {
    (from..from + count).map(|n| Listed::new(Kind::Mutex, Name::new(&n.to_string()).unwrap())).collect()
}

#[tokio::test]
async fn a_page_is_made_of_parts_until_it_has_the_names_that_were_asked_for() {
    let part = |number: usize| Ok(ListPart { entries: names(3 * number, 3), next: Some(number.to_string()) });
    let (script, engine) = listing(part);
    let page = engine.list(ListOptions::new().kind(Kind::Mutex).prefix("p").page(7)).await.unwrap();
    assert_eq!(page.entries, names(0, 9), "a part is not cut");
    assert_eq!(page.next, Some(Cursor::new("scripted", "ns", "2")));
    let after: Vec<_> =
        script.asked.lock().unwrap().iter().map(|list| (list.count, list.after.clone())).collect();
    assert_eq!(after, [(7, None), (4, Some("0".to_owned())), (1, Some("1".to_owned()))]);
    assert!(
        script.asked.lock().unwrap().iter().all(|list| list.prefix == "p" && list.kind == Some(Kind::Mutex))
    );
    let next = page.next.unwrap().to_string().parse().unwrap();
    engine.list(ListOptions::new().page(1).after(next)).await.unwrap();
    assert_eq!(script.asked.lock().unwrap()[3].after.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_listing_of_many_other_keys_gives_pages_without_names() {
    let (script, engine) =
        listing(|number| Ok(ListPart { entries: Vec::new(), next: Some(number.to_string()) }));
    let page = engine.list(ListOptions::new()).await.unwrap();
    let asked = script.asked.lock().unwrap().len();
    assert_eq!(
        (page.entries.len(), page.next),
        (0, Some(Cursor::new("scripted", "ns", &(asked - 1).to_string())))
    );
}

#[tokio::test]
async fn c21_an_error_of_a_later_part_is_the_error_of_the_page() {
    let part = |number: usize| match number {
        0 => Ok(ListPart { entries: names(0, 1), next: Some("x".to_owned()) }),
        _ => Err(stanchion_core::Error::new(ErrorKind::Unauthorized, "not allowed")),
    };
    let (_, engine) = listing(part);
    let error = engine.list(ListOptions::new()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation(), error.store()),
        (ErrorKind::Unauthorized, Some("list"), Some("scripted"))
    );
}

#[tokio::test]
async fn c27_a_panic_of_the_step_closes_the_store() {
    let (_, engine) = listing(|_| panic!("of the step"));
    assert_eq!(engine.list(ListOptions::new()).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(engine.ping().await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn c19_nothing_is_asked_for_a_bad_listing() {
    let (script, engine) = listing(|_| Ok(ListPart::default()));
    for options in [
        ListOptions::new().page(0),
        ListOptions::new().after(Cursor::new("other", "ns", "0")),
        ListOptions::new().after(Cursor::new("scripted", "other", "0")),
    ] {
        assert_eq!(engine.list(options).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    engine.close().await.unwrap();
    assert_eq!(engine.list(ListOptions::new()).await.unwrap_err().kind(), ErrorKind::Closed);
    assert!(script.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn c22_a_store_without_the_step_does_not_list() {
    let model = Model::new();
    let steps = || model.steps(Duration::from_secs(2));
    let mut capabilities = Capabilities::full("scripted", MutexMode::Lease);
    capabilities.listing = false;
    let engine = Engine::start(capabilities, steps(), Background::new(steps())).unwrap();
    assert!(!engine.capabilities().listing);
    assert_eq!(engine.list(ListOptions::new()).await.unwrap_err().kind(), ErrorKind::Unsupported);
}
