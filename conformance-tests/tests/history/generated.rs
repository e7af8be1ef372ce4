//! Legal histories are accepted, and one event that is made illegal is found.

use proptest::prelude::*;
use stanchion_conformance::history::{Event, History, Report, Rule, What};
use stanchion_core::{DecidedBy, Kind};

use crate::model::{Dice, Model};
use crate::scribe::token;

const ROUNDS: usize = 60;

fn report(events: &[Event]) -> Report {
    History::of(events.to_vec()).check()
}

fn model(kind: Kind, seed: u64, faults: bool) -> Model {
    Model::new(kind, 1, seed, faults)
}

/// The indices of the events that `pick` likes.
fn places(events: &[Event], pick: impl Fn(&What) -> bool) -> Vec<usize> {
    (0..events.len()).filter(|index| pick(&events[*index].what)).collect()
}

fn chosen(dice: &mut Dice, places: &[usize]) -> Option<usize> {
    let count = u64::try_from(places.len()).unwrap();
    (count > 0).then(|| places[usize::try_from(dice.below(count)).unwrap()])
}

fn finds(events: &[Event], rule: Rule) -> Result<(), TestCaseError> {
    let report = report(events);
    let found = report.violations.iter().any(|violation| violation.rule == rule);
    prop_assert!(found, "no {rule:?} in {report}");
    Ok(())
}

proptest! {
    #[test]
    fn legal_histories_are_accepted(seed: u64, faults: bool, exact: bool) {
        let histories = [
            model(Kind::Mutex, seed, faults).mutex(ROUNDS),
            model(Kind::Semaphore, seed, faults).semaphore(ROUNDS),
            model(Kind::WaitGroup, seed, faults).wait_group(ROUNDS),
            model(Kind::Limiter, seed, faults).limiter(ROUNDS, exact),
        ];
        for events in histories {
            let report = report(&events);
            prop_assert!(report.is_clean(), "{report}");
            prop_assert!(report.tallies[0].1.calls > 10);
        }
    }

    #[test]
    fn a_grant_moved_into_another_hold_is_found(seed: u64) {
        let mut events = model(Kind::Mutex, seed, false).mutex(ROUNDS);
        let ends = places(&events, |what| matches!(what, What::Releasing { .. }));
        let end = chosen(&mut Dice::new(seed), &ends[..ends.len() - 1]).unwrap();
        let before = events[end].at - 1;
        let grant = (end..events.len()).find(|index| matches!(events[*index].what, What::Granted { .. })).unwrap();
        events[grant].at = before;
        for index in 0..events.len() {
            if events[index].operation == events[grant].operation && matches!(events[index].what, What::Invoked { .. }) {
                events[index].at = events[index].at.min(before - 1);
            }
        }
        finds(&events, Rule::TwoHolders)?;
    }

    #[test]
    fn a_smaller_token_is_found(seed: u64) {
        let mut events = model(Kind::Mutex, seed, false).mutex(ROUNDS);
        let grants = places(&events, |what| matches!(what, What::Granted { .. }));
        let grant = chosen(&mut Dice::new(seed), &grants[1..]).unwrap();
        let What::Granted { token, .. } = &mut events[grant].what else { unreachable!() };
        *token = self::token(3);
        finds(&events, Rule::TokenOrder)?;
    }

    #[test]
    fn a_write_of_an_older_holder_is_found(seed: u64) {
        let mut events = model(Kind::Mutex, seed, false).mutex(ROUNDS);
        let writes = places(&events, |what| matches!(what, What::Wrote { .. }));
        let write = chosen(&mut Dice::new(seed), &writes[1..]).unwrap();
        let What::Wrote { token, .. } = &mut events[write].what else { unreachable!() };
        *token = self::token(3);
        finds(&events, Rule::StaleWriteTaken)?;
    }

    #[test]
    fn a_permit_too_many_is_found(seed: u64) {
        let mut events = model(Kind::Semaphore, seed, false).semaphore(ROUNDS);
        let grants = places(&events, |what| matches!(what, What::Granted { .. }));
        let grant = chosen(&mut Dice::new(seed), &grants).unwrap();
        let What::Granted { weight, .. } = &mut events[grant].what else { unreachable!() };
        *weight += 8;
        finds(&events, Rule::OverTheLimit)?;
    }

    #[test]
    fn a_permit_that_does_not_come_back_is_found(seed: u64) {
        let mut events = model(Kind::Semaphore, seed, true).semaphore(ROUNDS);
        let Some(Event { what: What::Drained { permits, .. }, .. }) = events.last_mut() else { unreachable!() };
        *permits -= 1;
        finds(&events, Rule::NotConserved)?;
    }

    #[test]
    fn a_wait_that_ends_before_its_members_is_found(seed: u64) {
        let mut events = model(Kind::WaitGroup, seed, false).wait_group(ROUNDS);
        let waits = places(&events, |what| matches!(what, What::Waited { .. }));
        // With a member from before the wait until after the new end of it.
        let ends: Vec<(usize, u64)> = waits.into_iter().filter_map(|wait| {
            let own = |event: &&Event| event.operation == events[wait].operation;
            let from = events.iter().find(own)?.at;
            let member = |granted: &Event| {
                let releasing = events.iter().find(|event| {
                    event.operation == granted.operation && matches!(event.what, What::Releasing { .. })
                })?;
                let spans = matches!(granted.what, What::Granted { .. }) && granted.at < from && releasing.at > from + 1;
                spans.then_some(releasing.at - 1)
            };
            Some((wait, events.iter().find_map(member)?))
        }).collect();
        prop_assume!(!ends.is_empty());
        let (wait, end) = ends[usize::try_from(Dice::new(seed).below(u64::try_from(ends.len()).unwrap())).unwrap()];
        events[wait].at = end;
        finds(&events, Rule::WaitedTooShort)?;
    }

    #[test]
    fn a_decision_turned_round_is_found(seed: u64, allow: bool) {
        let mut events = model(Kind::Limiter, seed, false).limiter(ROUNDS, true);
        let decisions = places(&events, |what| matches!(what, What::Decided { allowed, .. } if *allowed != allow));
        let turned = chosen(&mut Dice::new(seed), &decisions);
        prop_assume!(turned.is_some());
        let What::Decided { allowed, by: DecidedBy::Store, .. } = &mut events[turned.unwrap()].what else {
            unreachable!()
        };
        *allowed = allow;
        finds(&events, if allow { Rule::OverTheRate } else { Rule::RefusedWithRoom })?;
    }
}
