//! Tests with steps that record their calls.

#![allow(clippy::disallowed_methods, reason = "tests own their runtimes")]

use std::sync::{Mutex, PoisonError};

use stanchion_conformance::steps::drive::{ask, mutex, semaphore, wait_group};
use stanchion_core::spi::Ending;
use stanchion_core::{Error, ErrorKind, Ticket, Ttl};

use super::*;

/// Steps that answer with their tag and with the index of the entry in its batch, and record their calls.
#[derive(Debug)]
struct RecordingSteps {
    tag: u32,
    calls: Mutex<Vec<(&'static str, Vec<String>)>>,
}

impl RecordingSteps {
    fn new(tag: u32) -> Arc<Self> {
        Arc::new(Self { tag, calls: Mutex::default() })
    }

    fn note<'a>(&self, step: &'static str, names: impl Iterator<Item = &'a Object>) {
        let names = names.map(|object| object.name.to_string()).collect();
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push((step, names));
    }

    fn calls(&self) -> Vec<(&'static str, Vec<String>)> {
        std::mem::take(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl PermitSteps for RecordingSteps {
    fn lane(&self, _: &Object) -> usize {
        7
    }

    fn exchange_lane(&self, _: &Object) -> Option<usize> {
        (self.tag == 1).then_some(3)
    }

    async fn acquire(&self, batch: &[Acquire]) -> Answers<Acquired> {
        self.note("acquire", batch.iter().map(|entry| &entry.object));
        // Lets the other half run in between.
        tokio::task::yield_now().await;
        (0..).zip(batch).map(|(epoch, _)| Ok(Acquired::Waiting { limit: self.tag, epoch })).collect()
    }

    async fn renew(&self, batch: &[Renew]) -> Answers<Kept> {
        self.note("renew", batch.iter().map(|entry| &entry.object));
        batch.iter().map(|_| Ok(if self.tag == 1 { Kept::Yes } else { Kept::No })).collect()
    }

    async fn release(&self, batch: &[Release]) -> Answers<Kept> {
        self.note("release", batch.iter().map(|entry| &entry.object));
        batch.iter().map(|_| Err(Error::new(ErrorKind::Unavailable, self.tag.to_string()))).collect()
    }

    async fn cancel(&self, batch: &[Cancel]) -> Answers<()> {
        self.note("cancel", batch.iter().map(|entry| &entry.object));
        batch.iter().map(|_| Ok(())).collect()
    }

    async fn poll(&self, batch: &[Object]) -> Answers<Polled> {
        self.note("poll", batch.iter());
        batch.iter().map(|_| Ok(Polled { epoch: self.tag.into(), ..Polled::default() })).collect()
    }

    async fn attach(&self, attach: &Attach) -> Result<Option<Attached>> {
        self.note("attach", std::iter::once(&attach.object));
        Ok(None)
    }

    async fn inspect(&self, object: &Object) -> Result<Inspection> {
        self.note("inspect", std::iter::once(object));
        Err(Error::new(ErrorKind::Unavailable, self.tag.to_string()))
    }

    async fn usage(&self, object: &Object) -> Result<Usage> {
        self.note("usage", std::iter::once(object));
        Ok(Usage::new(self.tag.into(), None))
    }

    async fn resize(&self, object: &Object, _: u32) -> Result<()> {
        self.note("resize", std::iter::once(object));
        Ok(())
    }

    async fn force(&self, object: &Object, _: Force) -> Result<u32> {
        self.note("force", std::iter::once(object));
        Ok(self.tag)
    }

    async fn ping(&self) -> Result<()> {
        self.note("ping", std::iter::empty());
        Ok(())
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

#[tokio::test]
async fn a_mixed_batch_is_split_and_answered_in_order() {
    let (mutexes, rest, dispatch) = recorders();
    let batch: Vec<_> =
        objects(&["s1", "m1", "m2", "w1", "m3"]).into_iter().map(|object| ask(&object)).collect();
    let answers: Vec<_> = dispatch.acquire(&batch).await.into_iter().map(|answer| answer.unwrap()).collect();
    let waiting = |limit, epoch| Acquired::Waiting { limit, epoch };
    assert_eq!(answers, [waiting(0, 0), waiting(1, 0), waiting(1, 1), waiting(0, 1), waiting(1, 2)]);
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(mutexes.calls(), [("acquire", names(&["m1", "m2", "m3"]))]);
    assert_eq!(rest.calls(), [("acquire", names(&["s1", "w1"]))]);
    let lanes: Vec<_> = batch.iter().map(|entry| dispatch.lane(&entry.object)).collect();
    assert_eq!(lanes, [0, 8, 8, 0, 8]);
    let lanes: Vec<_> = batch.iter().map(|entry| dispatch.exchange_lane(&entry.object)).collect();
    assert_eq!(lanes, [None, Some(3), Some(3), None, Some(3)], "as the steps of each kind say");
}

#[tokio::test]
async fn a_batch_of_one_kind_goes_one_way() {
    let (mutexes, rest, dispatch) = recorders();
    assert_eq!(dispatch.poll(&objects(&["m1", "m2"])).await.len(), 2);
    assert_eq!((mutexes.calls().len(), rest.calls().len()), (1, 0));
    assert_eq!(dispatch.poll(&objects(&["s1", "w2"])).await.len(), 2);
    assert_eq!((mutexes.calls().len(), rest.calls().len()), (0, 1));
}

#[tokio::test]
async fn every_step_finds_its_way() {
    let (mutexes, rest, dispatch) = recorders();
    let both = objects(&["m1", "s1"]);
    let ticket = Ticket::random();
    let renew = |object| Renew { object, ticket, lease: Ttl::DEFAULT };
    let renewed = dispatch.renew(&both.iter().cloned().map(renew).collect::<Vec<_>>()).await;
    assert!(matches!(renewed[..], [Ok(Kept::Yes), Ok(Kept::No)]), "{renewed:?}");
    let release = |object| Release { object, ticket, ending: Ending::Finished, tombstone: None, call: None };
    let released = dispatch.release(&both.iter().cloned().map(release).collect::<Vec<_>>()).await;
    let texts: Vec<_> = released.into_iter().map(|answer| answer.unwrap_err().to_string()).collect();
    assert!(texts[0].ends_with('1') && texts[1].ends_with('0'), "{texts:?}");
    let cancel = |object| Cancel { object, ticket, lease: Ttl::DEFAULT };
    assert_eq!(dispatch.cancel(&both.iter().cloned().map(cancel).collect::<Vec<_>>()).await.len(), 2);
    for object in &both {
        let attach =
            Attach { object: object.clone(), from: ticket, to: ticket, lease: Ttl::DEFAULT, label: None };
        dispatch.attach(&attach).await.unwrap();
        dispatch.inspect(object).await.unwrap_err();
        assert_eq!(dispatch.usage(object).await.unwrap().weight, u64::from(object.kind == Kind::Mutex));
        dispatch.resize(object, 2).await.unwrap();
        let freed = dispatch.force(object, Force::All).await.unwrap();
        assert_eq!(freed, u32::from(object.kind == Kind::Mutex));
    }
    dispatch.ping().await.unwrap();
    let steps =
        |recorder: &RecordingSteps| recorder.calls().into_iter().map(|(step, _)| step).collect::<Vec<_>>();
    let common = ["renew", "release", "cancel", "attach", "inspect", "usage", "resize", "force"];
    assert_eq!(steps(&mutexes), common);
    assert_eq!(steps(&rest), [&common[..], &["ping"]].concat());
}
