//! Tests with steps that record their batches.

#![allow(clippy::disallowed_methods, reason = "tests own their runtimes")]

use std::sync::{Mutex, PoisonError};

use stanchion_conformance::steps::StepCalls;
use stanchion_conformance::steps::drive::{ask, mutex, semaphore, wait_group};
use stanchion_core::Ticket;
use stanchion_core::spi::{Acquire, Acquired, Cancel, Object, Polled, RequestKind};

use super::*;

/// Steps that answer with their tag and with the index of the entry in its batch, and record their
/// batches.
#[derive(Debug)]
struct RecordingSteps {
    tag: u32,
    batches: Mutex<Vec<(RequestKind, Vec<String>)>>,
}

impl RecordingSteps {
    fn new(tag: u32) -> Arc<Self> {
        Arc::new(Self { tag, batches: Mutex::default() })
    }

    fn batches(&self) -> Vec<(RequestKind, Vec<String>)> {
        std::mem::take(&mut self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Steps for RecordingSteps {
    fn lane(&self, request: &Request) -> Lane {
        Lane::of_kind(7, request)
    }

    async fn send(&self, batch: &[Request], _: Instant) -> Answers<Response> {
        let names = batch.iter().filter_map(Request::object).map(|object| object.name.to_string()).collect();
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push((batch[0].kind(), names));
        // Lets the other part run in between.
        tokio::task::yield_now().await;
        let answer = |(epoch, request): (u64, &Request)| match request {
            Request::Acquire(_) => Ok(Response::Acquire(Acquired::Waiting { limit: self.tag, epoch })),
            Request::Poll(_) => Ok(Response::Poll(Polled { epoch: self.tag.into(), ..Polled::default() })),
            Request::Ping(_) => Ok(Response::Ping(())),
            other => Err(other.unsupported()),
        };
        (0..).zip(batch).map(answer).collect()
    }

    fn request_timeout(&self) -> Duration {
        Duration::from_secs(2)
    }
}

fn recorders() -> (Arc<RecordingSteps>, Arc<RecordingSteps>, Dispatch) {
    let (mutexes, rest) = (RecordingSteps::new(1), RecordingSteps::new(0));
    let dispatch = Dispatch {
        mutexes: Arc::<RecordingSteps>::clone(&mutexes),
        rest: Arc::<RecordingSteps>::clone(&rest),
    };
    (mutexes, rest, dispatch)
}

fn objects(names: &[&str]) -> Vec<Object> {
    let object = |name: &&str| match &name[..1] {
        "m" => mutex(name),
        "s" => semaphore(name),
        _ => wait_group(name),
    };
    names.iter().map(object).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[tokio::test]
async fn a_mixed_batch_is_split_and_answered_in_order() {
    let (mutexes, rest, dispatch) = recorders();
    let batch: Vec<Acquire> =
        objects(&["s1", "m1", "m2", "w1", "m3"]).into_iter().map(|object| ask(&object)).collect();
    let answers: Vec<_> = dispatch.acquire(&batch).await.into_iter().map(|answer| answer.unwrap()).collect();
    let waiting = |limit, epoch| Acquired::Waiting { limit, epoch };
    assert_eq!(answers, [waiting(0, 0), waiting(1, 0), waiting(1, 1), waiting(0, 1), waiting(1, 2)]);
    assert_eq!(mutexes.batches(), [(RequestKind::Acquire, names(&["m1", "m2", "m3"]))]);
    assert_eq!(rest.batches(), [(RequestKind::Acquire, names(&["s1", "w1"]))]);
    let servers: Vec<_> = batch.iter().map(|entry| dispatch.lane(&entry.clone().into()).server).collect();
    assert_eq!(servers, [7, 8, 8, 7, 8], "those of mutexes are others");
}

#[tokio::test]
async fn a_batch_of_one_part_goes_one_way() {
    let (mutexes, rest, dispatch) = recorders();
    assert_eq!(dispatch.poll(&objects(&["m1", "m2"])).await.len(), 2);
    assert_eq!((mutexes.batches().len(), rest.batches().len()), (1, 0));
    assert_eq!(dispatch.poll(&objects(&["s1", "w2"])).await.len(), 2);
    assert_eq!((mutexes.batches().len(), rest.batches().len()), (0, 1));
}

#[tokio::test]
async fn every_request_finds_its_way() {
    let (mutexes, rest, dispatch) = recorders();
    for object in objects(&["m1", "s1"]) {
        let cancel =
            Cancel { object: object.clone(), ticket: Ticket::random(), tombstone: Some(ask(&object).lease) };
        dispatch.cancel(&[cancel]).await;
        drop(dispatch.inspect(&object).await);
    }
    dispatch.ping().await.unwrap();
    let kinds = |recorder: &RecordingSteps| -> Vec<_> {
        recorder.batches().into_iter().map(|(kind, _)| kind).collect()
    };
    let common = [RequestKind::Cancel, RequestKind::Inspect];
    assert_eq!(kinds(&mutexes), common);
    assert_eq!(kinds(&rest), [&common[..], &[RequestKind::Ping]].concat(), "no object, no mutex");
}
