//! W1, W2, W4, W7.

use stanchion_campaign::history::{Call, Change, Rule, What};
use stanchion_core::Kind;

use crate::history::scribe::{Scribe, TTL, ticket};

fn scribe() -> Scribe {
    Scribe::new(Kind::WaitGroup)
}

fn add(scribe: &mut Scribe, op: u64, (from, to): (u64, u64)) {
    scribe.invoked(from, op, Call::Add { limit: Some(2), ttl: Some(TTL) });
    scribe.granted(to, op, op);
}

fn wait(scribe: &mut Scribe, op: u64, (from, to): (u64, u64), finished: u64, expired: u64) {
    scribe.invoked(from, op, Call::Wait);
    scribe.event(to, op, What::Waited { finished, abandoned: 0, expired });
}

fn count(scribe: &mut Scribe, op: u64, (from, to): (u64, u64), count: u64) {
    scribe.invoked(from, op, Call::Count);
    scribe.event(to, op, What::Counted { count });
}

#[test]
fn w1_wait_ends_at_zero() {
    let mut scribe = scribe();
    wait(&mut scribe, 5, (0, 5), 0, 0);
    add(&mut scribe, 1, (10, 20));
    add(&mut scribe, 2, (30, 40));
    scribe.released(100, 110, 1);
    scribe.released(200, 300, 2);
    wait(&mut scribe, 3, (50, 210), 2, 0);
    scribe.is_right();
    wait(&mut scribe, 4, (50, 199), 2, 0);
    scribe.breaks(&[Rule::WaitedTooShort]);
}

#[test]
fn w1_members_that_overlap_keep_a_wait() {
    let mut scribe = scribe();
    add(&mut scribe, 1, (10, 20));
    add(&mut scribe, 2, (30, 100));
    scribe.released(100, 110, 1);
    wait(&mut scribe, 3, (50, 150), 1, 0);
    // The second member was granted in the same µs in which the first began to end.
    scribe.breaks(&[Rule::WaitedTooShort]);
}

#[test]
fn w1_a_done_by_ticket_ends_a_member() {
    let mut scribe = scribe();
    add(&mut scribe, 1, (10, 20));
    scribe.invoked(100, 2, Call::Done { ticket: ticket(1) });
    scribe.event(200, 2, What::Answered);
    wait(&mut scribe, 3, (50, 101), 1, 0);
    scribe.is_right();
}

#[test]
fn w1_a_dead_member_lives_until_its_deadline() {
    let mut scribe = scribe();
    add(&mut scribe, 1, (10, 20));
    scribe.process(100, 1, Change::Killed);
    wait(&mut scribe, 3, (50, 1_200_000), 0, 1);
    scribe.is_right();
    wait(&mut scribe, 4, (50, 900_000), 0, 1);
    scribe.breaks(&[Rule::WaitedTooShort]);
}

#[test]
fn w4_a_death_is_not_silent() {
    let mut scribe = scribe();
    add(&mut scribe, 1, (10, 20));
    scribe.process(100, 1, Change::Killed);
    wait(&mut scribe, 3, (50, 1_200_000), 0, 0);
    scribe.breaks(&[Rule::SilentDeath]);
    // Another generation may have come and gone meanwhile.
    add(&mut scribe, 2, (1_000_000, 1_000_100));
    scribe.released(1_000_200, 1_000_300, 2);
    scribe.is_right();
}

#[test]
fn counts_lie_between_the_bounds() {
    let mut scribe = scribe();
    add(&mut scribe, 1, (10, 20));
    add(&mut scribe, 2, (30, 40));
    scribe.released(100, 110, 1);
    count(&mut scribe, 3, (35, 36), 1);
    count(&mut scribe, 4, (35, 36), 2);
    count(&mut scribe, 5, (50, 60), 2);
    count(&mut scribe, 6, (50, 105), 1);
    scribe.is_right();
    count(&mut scribe, 7, (50, 60), 1);
    scribe.breaks(&[Rule::WrongCount]);
    count(&mut scribe, 8, (120, 130), 2);
    scribe.breaks(&[Rule::WrongCount, Rule::WrongCount]);
}

#[test]
fn w7_members_over_the_limit_are_found() {
    let mut scribe = scribe();
    add(&mut scribe, 1, (10, 20));
    add(&mut scribe, 2, (30, 40));
    scribe.released(100, 110, 1);
    add(&mut scribe, 3, (50, 101));
    scribe.is_right();
    add(&mut scribe, 4, (50, 150));
    scribe.breaks(&[Rule::OverTheMembers]);
}
