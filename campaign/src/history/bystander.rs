//! Bystanders: a fault that concerns some names costs the callers of other names nothing but ε
//! (C27).
//!
//! While a fault of another object lasts, a call that does not wait is answered within ε and
//! without an error, a release as well, and no hold is lost. What a call took before the fault
//! began does not count. Only calls are judged whose own
//! object, process and store had no fault, also not within 1 s before (C18), and only holds for
//! which that is so from the grant on.
//!
//! # Assumes
//! The time limit of a request is longer than ε; otherwise a call fails before its delay can be
//! seen.
//!
//! # Cannot see
//! Delays of calls that wait, apart from those that the liveness checker finds; losses that their
//! holder did not notice.

use stanchion_core::ErrorKind;

use super::digest::{Dossier, RecordedCall};
use super::spans::{Span, Spans};
use super::surroundings::Surroundings;
use super::{Bounds, Call, Event, Rule, Violation, What};

/// `around` are the surroundings of the dossier's object.
pub(super) fn check(
    dossier: &Dossier<'_>,
    around: &Surroundings,
    bounds: &Bounds,
    found: &mut Vec<Violation>,
) {
    let elsewhere = around.elsewhere(dossier.object);
    let bystander = Bystander { elsewhere: &elsewhere, around, bounds };
    for asked in &dossier.calls {
        let harms = [bystander.delay(asked), bystander.late_release(asked), bystander.loss(asked)];
        for text in harms.into_iter().flatten() {
            found.push(Violation::new(Rule::BystanderHarmed, Some(dossier.object), text, asked.events()));
        }
    }
}

struct Bystander<'a> {
    elsewhere: &'a Spans,
    around: &'a Surroundings,
    bounds: &'a Bounds,
}

impl Bystander<'_> {
    fn delay(&self, asked: &RecordedCall<'_>) -> Option<String> {
        let is_prompt = matches!(
            asked.call,
            Call::Acquire { waits: false, .. } | Call::Take { .. } | Call::Add { limit: None, .. }
        );
        if !is_prompt {
            return None;
        }
        self.harm("a call", asked, asked.invoked, asked.answer)
    }

    fn late_release(&self, asked: &RecordedCall<'_>) -> Option<String> {
        let lost = ErrorKind::Lost;
        let released = asked.released.filter(|event| event.what != What::ReleaseFailed { error: lost });
        self.harm("a release", asked, asked.releasing?, Some(released?))
    }

    fn harm(
        &self,
        what: &str,
        asked: &RecordedCall<'_>,
        begun: &Event,
        answer: Option<&Event>,
    ) -> Option<String> {
        let worker = asked.invoked.worker;
        let to = answer.map_or(self.around.end(), |answer| answer.at).min(self.around.death(worker));
        let span = (begun.at, to.max(begun.at).saturating_add(1));
        let fault = self.elsewhere.within(span).next()?;
        if !self.judges(worker, span) {
            return None;
        }
        let took = to.saturating_sub(begun.at.max(fault.0));
        let allowed = self.bounds.epsilon.saturating_add(self.around.stood_still(worker, span));
        let because = "while a fault concerned other names only";
        match answer.map(|answer| &answer.what) {
            Some(What::Failed { error } | What::ReleaseFailed { error }) => {
                Some(format!("{what} failed with {error:?} after {took} µs {because}"))
            }
            _ if took > allowed => Some(format!("{what} took {took} µs {because}")),
            _ => None,
        }
    }

    fn loss(&self, asked: &RecordedCall<'_>) -> Option<String> {
        let granted = asked.answer.filter(|_| asked.is_granted())?;
        let lost = ErrorKind::Lost;
        let refused = asked.released.filter(|event| event.what == What::ReleaseFailed { error: lost });
        let at = asked.lost.or(refused)?.at;
        let span = (granted.at, at.saturating_add(1));
        self.judges(granted.worker, span)
            .then(|| "a hold was lost while a fault concerned other names only".to_owned())
    }

    /// Returns whether a fault of other objects, and nothing else, can have disturbed a process in
    /// the span.
    fn judges(&self, worker: u32, span: Span) -> bool {
        let before = (span.0.saturating_sub(self.bounds.recovery), span.1);
        self.elsewhere.within(span).next().is_some() && self.around.undisturbed(worker, before)
    }
}
