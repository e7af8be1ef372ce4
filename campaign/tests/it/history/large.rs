//! The checkers take no longer than sorting.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use stanchion_campaign::history::{Event, History};
use stanchion_core::Kind;

use crate::history::model::Model;

/// Returns a million events of four objects, a quarter for each. A checker that is not linear in
/// the events of one name takes hours.
fn million(faults: bool) -> Vec<Event> {
    let model = |kind, first_worker| Model::new(kind, first_worker, 7, faults);
    let mut events = model(Kind::Mutex, 1_000_000).mutex(40_000);
    events.extend(model(Kind::Semaphore, 2_000_000).semaphore(140_000));
    events.extend(model(Kind::WaitGroup, 3_000_000).wait_group(130_000));
    events.extend(model(Kind::Limiter, 4_000_000).limiter(70_000, true));
    events.extend(model(Kind::Limiter, 5_000_000).limiter(70_000, false));
    events
}

/// Returns the time that this thread has had on a processor, in which no other program runs.
fn worked() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

fn is_checked_in_seconds(events: Vec<Event>) {
    assert!(events.len() >= 1_000_000, "{}", events.len());
    let history = History::of(events);
    let began = worked();
    let report = history.check();
    let taken = worked() - began;
    assert!(report.is_clean(), "{report}");
    assert!(taken < Duration::from_secs(30), "{taken:?}");
}

#[test]
fn a_million_events_are_checked_in_seconds() {
    is_checked_in_seconds(million(false));
}

#[test]
fn a_million_events_under_faults_are_checked_in_seconds() {
    is_checked_in_seconds(million(true));
}
