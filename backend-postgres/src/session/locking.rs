//! How a mutex is had: a try, a place in the queue, and another try.

use std::time::Duration;

use stanchion_core::clock::{Instant, now, timeout_at};
use stanchion_core::steps::{Acquire, Acquired, Answers, PermitSteps, refused};
use stanchion_core::{Error, ErrorKind, Result};

use super::asks::{Asked, waiting};
use super::entry::Tried;
use super::notes::forgotten;
use super::steps::{SessionSteps, heard, unknown};

/// What the queue of one name, which somebody may keep locked, may cost the others of its lane (C27).
const PATIENCE: Duration = Duration::from_millis(400);

/// What became of an acquisition so far: the answer, or whether its ticket has a place.
type Outcome = std::result::Result<Result<Acquired>, bool>;

fn unsent() -> Error {
    Error::new(ErrorKind::Unavailable, "no session took the request within its time limit")
}

impl SessionSteps {
    /// Grants, or else queues and tries again: whoever unlocked it before the place was committed has not seen the place.
    pub(super) async fn lock(&self, asks: &[&Acquire]) -> Answers<Acquired> {
        let end = self.end();
        forgotten(&self.desk, asks).await;
        let mut patient = None;
        let mut outcomes = self.try_all(asks, end, &mut patient).await;
        let joining = self.joining(asks, &mut outcomes);
        if !joining.is_empty() {
            let of = |indices: &[usize]| -> Vec<&Acquire> { indices.iter().map(|at| asks[*at]).collect() };
            let joined = self.join(&of(&joining), end, &mut patient).await;
            let placed: Vec<usize> = joining
                .iter()
                .zip(&joined)
                .filter(|(_, joined)| joined.is_err())
                .map(|(at, _)| *at)
                .collect();
            for (at, joined) in joining.into_iter().zip(joined) {
                outcomes[at] = joined;
            }
            let again = of(&placed);
            forgotten(&self.desk, &again).await;
            let again = self.try_all(&again, end, &mut patient).await;
            for (at, again) in placed.into_iter().zip(again) {
                outcomes[at] = again;
            }
        }
        self.desk.with(|state| {
            let answer = |(outcome, ask): (Outcome, &&Acquire)| match outcome {
                Ok(Ok(Acquired::Granted { .. })) if state.holder(&ask.object.name, ask.ticket).is_none() => {
                    // The engine does not know of the hold yet, and would not be told of its end.
                    Err(Error::new(
                        ErrorKind::Unavailable,
                        "the session ended with the hold that it was granted",
                    ))
                }
                Ok(answer) => answer,
                Err(_) => Ok(waiting(state.place(ask.ticket).unwrap_or_default())),
            };
            outcomes.into_iter().zip(asks).map(answer).collect()
        })
    }

    /// Has all of them tried, and hears the answers.
    async fn try_all(&self, asks: &[&Acquire], end: Instant, patient: &mut Option<Instant>) -> Vec<Outcome> {
        let at = now();
        let asked: Vec<_> = self.desk.with(|state| asks.iter().map(|ask| state.acquire(ask, at)).collect());
        let mut outcomes = Vec::with_capacity(asked.len());
        for (ask, asked) in asks.iter().zip(asked) {
            outcomes.push(match self.tried(ask, asked, end).await {
                Err(error) => Ok(Err(error)),
                Ok(Tried::Answered(answer)) => Ok(Ok(answer)),
                Ok(Tried::Leaving(answer, left)) => {
                    // The first in the queue is to be somebody who waits.
                    let until = *patient.get_or_insert_with(|| end.min(now() + PATIENCE));
                    drop(timeout_at(until, left).await);
                    Ok(Ok(answer))
                }
                Ok(Tried::Refused { has_place }) => Err(has_place),
            });
        }
        outcomes
    }

    async fn tried(&self, ask: &Acquire, asked: Asked<Tried>, end: Instant) -> Result<Tried> {
        match asked {
            Asked::Done(answer) => answer,
            Asked::Sent(number, answer) => match heard(answer, end).await {
                Err(error) if error.kind() == ErrorKind::Unknown => {
                    let was_unsent = self.desk.with(|state| state.give_up(&ask.object.name, number));
                    Err(if was_unsent { unsent() } else { error })
                }
                answer => answer,
            },
            Asked::Probed(alive) => {
                let sent = heard(alive, end).await?;
                let claimed = self.desk.with(|state| state.claimed(ask, sent));
                Ok(claimed.map_or(Tried::Refused { has_place: false }, Tried::Answered))
            }
        }
    }

    /// Returns which of those that were refused are to join the queue, or to leave it, and notes that they may have a place: a
    /// cancel that comes from here on finds that; one that came before has left its mark.
    fn joining(&self, asks: &[&Acquire], outcomes: &mut [Outcome]) -> Vec<usize> {
        let at = now();
        self.desk.with(|state| {
            let mut joining = Vec::new();
            for (index, (ask, outcome)) in asks.iter().zip(outcomes).enumerate() {
                let Err(has_place) = *outcome else { continue };
                let joins = if ask.queue { !has_place } else { state.places.contains_key(&ask.ticket) };
                if joins && state.is_buried(ask.ticket, at) {
                    *outcome = Ok(Ok(Acquired::Cancelled));
                } else if joins && !state.stays(ask.ticket) {
                    let detail = "the place of its last grant is being given up";
                    *outcome = Ok(Err(Error::new(ErrorKind::Unavailable, detail)));
                } else if joins {
                    state.places.entry(ask.ticket).or_default().unanswered += 1;
                    joining.push(index);
                }
            }
            joining
        })
    }

    /// Has them join the queue, or leave it; the places are committed when this returns. Answers whoever is not to wait.
    async fn join(&self, asks: &[&Acquire], end: Instant, patient: &mut Option<Instant>) -> Vec<Outcome> {
        let requests: Vec<Acquire> = asks.iter().map(|ask| (*ask).clone()).collect();
        let until = *patient.get_or_insert_with(|| end.min(now() + PATIENCE));
        let joined = timeout_at(until, self.places.acquire(&requests)).await;
        let answers = joined.unwrap_or_else(|_| refused(requests.len(), &unknown()));
        self.desk.with(|state| {
            let outcome = |(ask, answer): (&Acquire, Result<Acquired>)| {
                // It is not there if the ticket was cancelled meanwhile.
                let mut place = state.places.get_mut(&ask.ticket);
                let is_answered =
                    answer.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::Unknown);
                if let Some(place) = &mut place {
                    place.unanswered = place.unanswered.saturating_sub(u32::from(is_answered));
                }
                match answer {
                    Ok(Acquired::Waiting { epoch, .. }) if ask.queue => {
                        if let Some(place) = place {
                            place.epoch = Some(epoch);
                        }
                        Err(true)
                    }
                    Ok(answer) => {
                        state.places.remove(&ask.ticket);
                        Ok(Ok(answer))
                    }
                    Err(error) => {
                        if place.is_some_and(|place| place.unanswered == 0 && place.epoch.is_none()) {
                            state.places.remove(&ask.ticket);
                        }
                        Ok(Err(error))
                    }
                }
            };
            requests.iter().zip(answers).map(outcome).collect()
        })
    }
}
