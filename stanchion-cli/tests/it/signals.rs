//! Signals that come to the program.

use rustix::process::Signal;
use stanchion_testbed::servers::wait_until;

use crate::common::{FOR_EVER, Fixture, on_each_store, state};

on_each_store!(ctrl_c_stops_the_command_and_releases_the_lock);

fn ctrl_c_stops_the_command_and_releases_the_lock(fixture: &Fixture) {
    let mut running = fixture.start(&[], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    running.signal(Signal::INT);
    assert_eq!(running.code(), 130);
    assert_eq!(fixture.processes(), []);
    let mut next = fixture.start(&["--skip-if-held"], &fixture.ledger.short_work());
    assert_eq!(next.code(), 0, "{}", next.errors());
    assert_eq!(fixture.ledger.is_exclusive().len(), 2);
}

#[test]
fn signals_are_passed_on() {
    let fixture = Fixture::redis();
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let ready = fixture.ledger.writes(name);
        let script = format!("trap 'exit 9' {name}; {ready}; while :; do sleep 0.01; done");
        let mut running = fixture.start(&[], &script);
        fixture.ledger.wait_for_word(name);
        running.signal(signal);
        assert_eq!(running.code(), 9, "{name}: {}", running.errors());
    }
}

#[test]
fn a_stopped_command_keeps_its_lock_and_goes_on() {
    let fixture = Fixture::redis();
    let mut running = fixture.start(&[], &format!("exec sh -c '{}; exec sleep 600'", "true"));
    let sleeper = wait_until(FOR_EVER, || fixture.processes().first().copied()).unwrap();
    let wait_for_state = |wanted: &str| {
        let seen = wait_until(FOR_EVER, || state(sleeper).ok().filter(|&state| wanted.contains(state)));
        assert!(seen.is_some(), "{:?}", state(sleeper));
    };
    running.signal(Signal::TSTP);
    wait_for_state("T");
    assert_eq!(fixture.code(&["run", "NAME", "--skip-if-held", "--", "true"]), 75);
    running.signal(Signal::CONT);
    wait_for_state("SR");
    running.signal(Signal::TSTP);
    wait_for_state("T");
    running.signal(Signal::TERM);
    assert_eq!(running.code(), 143, "a stopped one goes on to end");
}
