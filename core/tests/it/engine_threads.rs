//! The blocking face over the engine, where a thread ends.

#![cfg(feature = "blocking")]

use std::cell::RefCell;
use std::env;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use stanchion_core::blocking::{Mutex, MutexGuard};
use stanchion_core::{ErrorKind, MutexOptions, Result};

use crate::model::model;

/// Releases its guard as its thread ends.
struct AtEnd(Option<MutexGuard>, Sender<Result<()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            self.1.send(guard.release()).unwrap();
        }
    }
}

thread_local! {
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Set for the process in which the test does its work.
const ALONE: &str = "STANCHION_TEST_ALONE";

/// In a process of its own: once a test has paused a clock, tokio's clock panics where a thread
/// ends.
#[test]
fn c12_a_release_as_the_thread_ends_is_queued() {
    if env::var_os(ALONE).is_some() {
        return release_as_the_thread_ends();
    }
    let test = ["--exact", "engine_threads::c12_a_release_as_the_thread_ends_is_queued"];
    let ran = Command::new(env::current_exe().unwrap()).args(test).env(ALONE, "1").output().unwrap();
    assert!(ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("1 passed"), "{ran:?}");
}

fn release_as_the_thread_ends() {
    let (_model, engine) = model();
    let mutex = Mutex::from(engine.mutex("m", MutexOptions::default()).unwrap());
    let (released, is_released) = channel();
    let ending = mutex.clone();
    let thread = thread::spawn(move || {
        // Before tokio has variables of this thread: they are destroyed before it.
        AT_END.with(|at_end| *at_end.borrow_mut() = None);
        let guard = ending.lock().unwrap();
        AT_END.with(|at_end| *at_end.borrow_mut() = Some(AtEnd(Some(guard), released)));
    });
    thread.join().unwrap();
    let error = is_released.recv().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Unsupported, Some("release")), "{error}");
    assert!(mutex.lock_for(Duration::from_secs(5)).unwrap().is_some());
}
