//! Waiting for one's turn.

use rustix::process::Signal;
use stanchion_testbed::servers::{RedisOptions, RedisServer};

use crate::common::{Fixture, on_each_store};

on_each_store!(
    a_held_lock_is_skipped,
    the_time_to_wait_is_limited,
    an_interrupted_waiter_leaves_the_queue,
    a_waiter_is_told_who_holds_the_lock,
);

fn a_held_lock_is_skipped(fixture: &Fixture) {
    let holder = fixture.start(&[], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    let output = fixture.output(&["run", "NAME", "--skip-if-held", "--", "touch", "/"]);
    assert_eq!(output.status.code(), Some(75));
    assert!(String::from_utf8(output.stderr).unwrap().contains("is held"));
    assert_eq!(fixture.ledger.is_exclusive().len(), 1);
    drop(holder);
}

fn the_time_to_wait_is_limited(fixture: &Fixture) {
    let holder = fixture.start(&[], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    for wait in ["0s", "300ms"] {
        let code = fixture.start(&["--wait", wait], &fixture.ledger.short_work()).code();
        assert_eq!(code, 124, "{wait}");
    }
    assert_eq!(fixture.ledger.is_exclusive().len(), 1);
    drop(holder);
}

fn an_interrupted_waiter_leaves_the_queue(fixture: &Fixture) {
    let holder = fixture.start(&[], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut waiter = fixture.start(&[], &fixture.ledger.short_work());
        fixture.wait_for_waiters(1);
        waiter.signal(signal);
        assert_eq!(waiter.code(), code);
        fixture.wait_for_waiters(0);
    }
    assert_eq!(fixture.ledger.is_exclusive().len(), 1);
    drop(holder);
}

fn a_waiter_is_told_who_holds_the_lock(fixture: &Fixture) {
    let holder = fixture.start(&["--label", "the \u{1b}[31mnightly"], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    let first = fixture.start(&[], "true");
    first.wait_for_error("held by \"the \\u{1b}[31mnightly\" for ");
    first.wait_for_error("next in line");
    let second = fixture.start(&[], "true");
    second.wait_for_error("number 2 in line at most");
    drop((holder, first, second));
}

/// A store that is started late is waited for.
#[test]
fn a_store_that_is_away_is_asked_again() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let fixture = Fixture::at(&server.url());
    server.kill().unwrap();
    let mut running = fixture.start(&["--wait", "60s"], &fixture.ledger.short_work());
    running.wait_for_error("trying again");
    server.restart().unwrap();
    assert_eq!(running.code(), 0, "{}", running.errors());
    assert_eq!(fixture.ledger.is_exclusive().len(), 1);
}
