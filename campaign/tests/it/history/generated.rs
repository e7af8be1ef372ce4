//! Legal histories are accepted, and one event that was made illegal is found.

use proptest::prelude::*;
use stanchion_campaign::history::{Event, History, Report, Rule, What};
use stanchion_core::{DecidedBy, Kind};

use crate::history::model::{Dice, Model};
use crate::history::scribe::token;

const ROUNDS: usize = 60;

fn report(events: &[Event]) -> Report {
    History::of(events.to_vec()).check()
}

fn model(kind: Kind, seed: u64, faults: bool) -> Model {
    Model::new(kind, 1, seed, faults)
}

/// Returns the indices of the events that `pick` accepts.
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

/// Returns a time after the invocation of a wait at which a member that was added before the wait
/// still lived.
fn too_early(events: &[Event], wait: usize) -> Option<u64> {
    let from = events.iter().find(|event| event.operation == events[wait].operation)?.at;
    events.iter().find_map(|granted| {
        let What::Granted { .. } = granted.what else { return None };
        let own = |event: &&Event| event.operation == granted.operation;
        let ends = |event: &&Event| matches!(event.what, What::Releasing { .. });
        let releasing = events.iter().filter(own).find(ends)?.at;
        (granted.at < from && releasing > from + 1).then_some(releasing - 1)
    })
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
        let granted = |index: &usize| matches!(events[*index].what, What::Granted { .. });
        let grant = (end..events.len()).find(granted).unwrap();
        events[grant].at = before;
        let operation = events[grant].operation;
        for event in events.iter_mut().filter(|event| event.operation == operation) {
            if let What::Invoked { .. } = event.what {
                event.at = event.at.min(before - 1);
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
        let drained = events.last_mut().map(|event| &mut event.what);
        let Some(What::Drained { permits, .. }) = drained else { unreachable!() };
        *permits -= 1;
        finds(&events, Rule::NotConserved)?;
    }

    #[test]
    fn a_wait_that_ends_before_its_members_is_found(seed: u64) {
        let mut events = model(Kind::WaitGroup, seed, false).wait_group(ROUNDS);
        let waits = places(&events, |what| matches!(what, What::Waited { .. }));
        let ends: Vec<(usize, u64)> =
            waits.into_iter().filter_map(|wait| Some((wait, too_early(&events, wait)?))).collect();
        prop_assume!(!ends.is_empty());
        let count = u64::try_from(ends.len()).unwrap();
        let (wait, end) = ends[usize::try_from(Dice::new(seed).below(count)).unwrap()];
        events[wait].at = end;
        finds(&events, Rule::WaitedTooShort)?;
    }

    #[test]
    fn a_decision_turned_round_is_found(seed: u64, allow: bool) {
        let mut events = model(Kind::Limiter, seed, false).limiter(ROUNDS, true);
        let other = |what: &What| matches!(what, What::Decided { allowed, .. } if *allowed != allow);
        let decisions = places(&events, other);
        let turned = chosen(&mut Dice::new(seed), &decisions);
        prop_assume!(turned.is_some());
        let What::Decided { allowed, by: DecidedBy::Store, .. } = &mut events[turned.unwrap()].what else {
            unreachable!()
        };
        *allowed = allow;
        finds(&events, if allow { Rule::OverTheRate } else { Rule::RefusedWithRoom })?;
    }
}
