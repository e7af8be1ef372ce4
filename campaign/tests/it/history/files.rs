//! Recording into files and reading them.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind as IoErrorKind, Write};
use std::sync::Arc;

use stanchion_campaign::history::{
    self, Call, Change, History, HistoryError, ObjectId, Recorder, Rule, Target, What, clock,
};
use stanchion_core::{Kind, Name};

fn object() -> ObjectId {
    ObjectId::new(Kind::Semaphore, Name::new("100 % \"of\"\nthe 🔒").unwrap())
}

fn acquire() -> Call {
    Call::Acquire { weight: 2, permits: Some(3), ttl: None, waits: false }
}

#[test]
fn what_is_recorded_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(folder.path(), 3).unwrap();
    let nemesis = Recorder::create(folder.path(), 99).unwrap();
    nemesis.process(3, Change::Started).unwrap();
    let fault = nemesis.fault_began("cut off, both ways", Target::Worker(3), true).unwrap();
    let task = recorder.task();
    let operation = task.invoke(&object(), acquire(), Some(5)).unwrap();
    let number = operation.number();
    drop(operation);
    nemesis.fault_ended(fault).unwrap();

    let read = History::read(folder.path()).unwrap();
    let whats: Vec<_> = read.events().iter().map(|event| (event.worker, event.task, &event.what)).collect();
    let call = acquire();
    assert_eq!(whats.len(), 5);
    assert_eq!(whats[2], (3, 1, &What::Invoked { call, time_limit: Some(5) }));
    assert_eq!(whats[3], (3, 1, &What::Cancelled));
    assert_eq!(read.events()[3].object, Some(object()));
    assert_eq!((read.events()[3].operation, read.events()[4].operation), (number, fault));
    assert!(read.events().is_sorted_by_key(|event| event.at));

    let report = history::check(folder.path()).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.faults, report.tally(Kind::Semaphore).unknown), (1, 1));
    assert!(report.to_string().contains("no violation"), "{report}");
}

#[test]
fn tasks_write_whole_lines_beside_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(folder.path(), 1).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let task = recorder.task();
            std::thread::spawn(move || {
                for _ in 0..500 {
                    let operation = task.invoke(&object(), acquire(), None).unwrap();
                    operation.record(What::Refused).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let report = history::check(folder.path()).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.events, report.tally(Kind::Semaphore).calls), (4_000, 2_000));
}

#[test]
fn only_a_killed_process_may_leave_a_torn_line() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(folder.path(), 3).unwrap();
    recorder.record(0, None, What::FaultEnded).unwrap();
    let path = folder.path().join("worker-3.history");
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"v1 at=17 wor").unwrap();
    let error = History::read(folder.path()).unwrap_err();
    assert!(matches!(error, HistoryError::Torn { worker: 3, .. }), "{error}");

    let nemesis = Recorder::create(folder.path(), 99).unwrap();
    nemesis.process(3, Change::Killed).unwrap();
    let read = History::read(folder.path()).unwrap();
    assert_eq!((read.events().len(), read.torn()), (2, 1));

    // A broken line inside the file is an error for every worker.
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"ker=3\n").unwrap();
    let error = History::read(folder.path()).unwrap_err();
    assert!(matches!(error, HistoryError::Line { line: 2, .. }), "{error}");
}

#[test]
fn what_is_no_history_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(History::read(folder.path()), Err(HistoryError::Empty { .. })));
    assert!(matches!(History::read(folder.path().join("none")), Err(HistoryError::Io { .. })));
    let good = "v1 at=1 worker=1 task=0 op=0 what=lost";
    for bad in [
        "",
        "v1",
        "v2 at=1 worker=1 task=0 op=0 what=lost",
        "v1 at=1 worker=2 task=0 op=0 what=lost",
        "v1 at=-1 worker=1 task=0 op=0 what=lost",
        "v1 at=1 worker=1 task=0 op=0 what=gone",
        "v1 at=1 worker=1 task=0 op=0 what=lost more=1",
        "v1 at=1 worker=1 task=0 what=lost",
        "v1 at=1 worker=1 task=0 op=0 object=door:a what=lost",
        "v1 at=1 worker=1 task=0 op=0 object=mutex: what=lost",
    ] {
        fs::write(folder.path().join("worker-1.history"), format!("{good}\n{bad}\n")).unwrap();
        let error = History::read(folder.path()).unwrap_err();
        assert!(matches!(error, HistoryError::Line { line: 2, .. }), "{bad:?}: {error}");
    }
}

#[test]
fn a_worker_that_is_started_again_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Recorder::create(folder.path(), 1).unwrap();
    assert_eq!(Recorder::create(folder.path(), 1).unwrap_err().kind(), IoErrorKind::AlreadyExists);
}

#[test]
fn instants_are_on_the_clock_of_the_history() {
    for _ in 0..100 {
        let before = clock::now();
        let between = clock::micros_of(stanchion_core::clock::now().into_std());
        let after = clock::now();
        assert!(before <= between + 100 && between <= after + 100, "{before} {between} {after}");
    }
}

#[test]
fn guards_are_recorded_from_their_grant_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(folder.path(), 1).unwrap();
    let nemesis = Recorder::create(folder.path(), 99).unwrap();
    nemesis.process(1, Change::Started).unwrap();
    let keeper: Arc<dyn stanchion_core::HoldBackend> = Arc::new(backend::Always);
    let guard = || stanchion_core::MutexGuard::new(backend::hold(&keeper));
    let object = ObjectId::new(Kind::Mutex, object().name);
    let call = Call::Acquire { weight: 1, permits: None, ttl: None, waits: true };

    let held = recorder.invoke(&object, call.clone(), None).unwrap().granted(guard()).unwrap();
    assert!(held.believes().unwrap());
    let (operation, guarded) = held.releasing().unwrap();
    drop(guarded);
    operation.record(What::Released).unwrap();
    drop(operation);
    drop(recorder.invoke(&object, call, None).unwrap().granted(guard()).unwrap());

    let read = History::read(folder.path()).unwrap();
    let own = read.events().iter().filter(|event| event.worker == 1);
    let words: Vec<String> = own.map(|event| format!("{:?}", event.what)).collect();
    let words: Vec<&str> = words.iter().map(|text| text.split(' ').next().unwrap()).collect();
    let expected =
        ["Invoked", "Granted", "Believed", "Releasing", "Released", "Invoked", "Granted", "Releasing"];
    assert_eq!(words, expected);
    let report = read.check();
    let rules: Vec<Rule> = report.violations.iter().map(|violation| violation.rule).collect();
    // The backend gives every hold the same token.
    assert_eq!(rules, [Rule::TokenOrder], "{report}");
}

mod backend {
    use std::sync::Arc;

    use async_trait::async_trait;
    use stanchion_core::clock::Instant;
    use stanchion_core::{Detached, Error, FencingToken, Hold, HoldBackend, Kind, Name, Result, Ticket, Ttl};

    /// Backs holds that last for ever.
    #[derive(Debug)]
    pub(super) struct Always;

    pub(super) fn hold(keeper: &Arc<dyn HoldBackend>) -> Hold {
        Hold::new(Arc::clone(keeper), Ticket::random(), FencingToken::new(7).unwrap(), 1)
    }

    #[async_trait]
    impl HoldBackend for Always {
        fn is_held(&self, _: Ticket) -> bool {
            true
        }
        fn deadline(&self, _: Ticket) -> Option<Instant> {
            None
        }
        fn name(&self) -> &str {
            "always"
        }
        fn context(&self, _: &'static str, error: Error) -> Error {
            error
        }
        async fn lost(&self, _: Ticket) {
            std::future::pending().await
        }
        fn abandon(&self, _: Ticket) {}
        async fn release(&self, _: Ticket) -> Result<()> {
            Ok(())
        }
        async fn detach(&self, ticket: Ticket, token: FencingToken, _: Ttl) -> Result<Detached> {
            Ok(Detached::new(Kind::Mutex, "", &Name::new("always")?, ticket, token))
        }
    }
}
