//! A parameter that a handle and its store agree on: a limit, a quota, the terms of a filter (C20).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::OnMismatch;
use crate::spi::ParameterCheck;

/// A parameter of one handle ([C20]).
///
/// The first call that takes something compares it with the stored value, by [`OnMismatch`]; from
/// then on the handle follows the store. A call that takes nothing compares nothing.
///
/// # Examples
/// ```
/// use stanchion_core::OnMismatch;
/// use stanchion_core::engine::Agreed;
///
/// let permits = Agreed::new(5, OnMismatch::Adopt);
/// let in_force = permits.settle(Some(7)).unwrap();
/// assert_eq!(in_force, 7);
/// permits.learn(in_force);
/// assert_eq!(permits.value(), 7);
/// ```
///
/// [C20]: crate::contract#c20
#[derive(Debug)]
pub struct Agreed<P> {
    given: P,
    on_mismatch: OnMismatch,
    compares_always: bool,
    is_compared: AtomicBool,
    /// The value in the last answer, once an answer differed from the given value.
    learnt: OnceLock<Mutex<P>>,
}

impl<P: Copy + PartialEq> Agreed<P> {
    /// Returns the parameter of a new handle, as its options give it.
    #[must_use]
    pub fn new(given: P, on_mismatch: OnMismatch) -> Self {
        let (is_compared, learnt) = (AtomicBool::new(false), OnceLock::new());
        Self { given, on_mismatch, compares_always: false, is_compared, learnt }
    }

    /// As [`new`](Self::new), for a parameter that every call compares: the terms of a Bloom filter
    /// ([B5]).
    ///
    /// [B5]: crate::contract#b5
    #[must_use]
    pub fn compared_always(given: P, on_mismatch: OnMismatch) -> Self {
        Self { compares_always: true, ..Self::new(given, on_mismatch) }
    }

    /// Returns the value in force, as far as the handle knows: the given one until it learns of
    /// another. Locks nothing until then.
    pub fn value(&self) -> P {
        let learnt = self.learnt.get();
        learnt.map_or(self.given, |learnt| *learnt.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether the first comparison was made: the handle follows the store.
    #[inline]
    pub fn is_compared(&self) -> bool {
        self.is_compared.load(Ordering::Relaxed)
    }

    /// Returns whether the next call can succeed although the stored value is another.
    #[inline]
    pub fn follows(&self) -> bool {
        self.is_compared() || self.on_mismatch == OnMismatch::Adopt
    }

    /// Returns how the store compares the next call. `takes` says whether the call takes something.
    pub fn check(&self, takes: bool) -> ParameterCheck {
        let follows = self.is_compared() || !takes;
        if follows { ParameterCheck::Follow } else { ParameterCheck::First(self.on_mismatch) }
    }

    /// Compares the next call that takes something with the stored value, if one is stored, and
    /// returns the value that is in force for it. The handle [learns](Self::learn) it only if the
    /// call is not refused for another reason.
    ///
    /// # Errors
    /// The stored value, if it differs and the options refuse that.
    #[inline]
    pub fn settle(&self, stored: Option<P>) -> Result<P, P> {
        match stored {
            None => Ok(self.value()),
            Some(stored) if self.follows() || stored == self.value() => Ok(stored),
            Some(_) if self.on_mismatch == OnMismatch::Replace => Ok(self.value()),
            Some(stored) => Err(stored),
        }
    }

    /// Notes the value in force after a call that compared or changed it.
    #[inline]
    pub fn learn(&self, in_force: P) {
        if self.learnt.get().is_some() || in_force != self.given {
            let learnt = self.learnt.get_or_init(|| Mutex::new(in_force));
            *learnt.lock().unwrap_or_else(PoisonError::into_inner) = in_force;
        }
        self.compared();
    }

    /// Notes that a call compared or changed the stored value: as [`learn`](Self::learn), for a
    /// store that looks at the stored value itself and needs no memory of it.
    #[inline]
    pub fn compared(&self) {
        if !self.compares_always {
            self.is_compared.store(true, Ordering::Relaxed);
        }
    }

    /// Notes the value that a call which took nothing found. Before the first comparison it says
    /// nothing: it may be the handle's own, where nothing is stored.
    pub fn follow(&self, found: P) {
        if self.is_compared() {
            self.learn(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OnMismatch::{Adopt, Refuse, Replace};

    #[test]
    fn c20_the_first_call_compares_and_later_ones_follow() {
        for (on_mismatch, in_force) in [(Refuse, Err(7)), (Adopt, Ok(7)), (Replace, Ok(5))] {
            let agreed = Agreed::new(5, on_mismatch);
            assert_eq!(agreed.check(true), ParameterCheck::First(on_mismatch));
            assert_eq!(agreed.settle(Some(7)), in_force, "{on_mismatch:?}");
            assert_eq!(agreed.settle(Some(5)), Ok(5));
            assert_eq!(agreed.settle(None), Ok(5), "what is not stored yet is the handle's");
            assert_eq!(agreed.follows(), on_mismatch == Adopt);
            assert!(!agreed.is_compared(), "a call that is refused later has agreed on nothing");
            agreed.compared();
            assert!(agreed.is_compared() && agreed.follows());
            assert_eq!(agreed.check(true), ParameterCheck::Follow);
            assert_eq!(agreed.settle(Some(7)), Ok(7), "another handle changed it");
            assert_eq!((agreed.value(), agreed.settle(None)), (5, Ok(5)), "as far as is known");
        }
    }

    #[test]
    fn c20_a_call_that_takes_nothing_compares_and_learns_nothing() {
        let agreed = Agreed::new(5, Refuse);
        assert_eq!(agreed.check(false), ParameterCheck::Follow);
        agreed.follow(7);
        assert_eq!((agreed.value(), agreed.is_compared()), (5, false));
        agreed.learn(5);
        agreed.follow(7);
        assert_eq!(agreed.value(), 7);
    }

    #[test]
    fn c20_the_last_answer_is_what_is_known() {
        let agreed = Agreed::new(5, Adopt);
        for in_force in [5, 7, 9, 5] {
            agreed.learn(in_force);
            assert_eq!((agreed.value(), agreed.settle(None)), (in_force, Ok(in_force)));
        }
    }

    #[test]
    fn b5_the_terms_of_a_filter_are_compared_by_every_call() {
        let [refuses, adopts] = [Refuse, Adopt].map(|by| Agreed::compared_always(5, by));
        for agreed in [&refuses, &adopts] {
            agreed.learn(5);
            assert!(!agreed.is_compared());
        }
        assert_eq!(refuses.settle(Some(7)), Err(7));
        assert_eq!(adopts.settle(Some(7)), Ok(7));
        adopts.learn(7);
        assert_eq!((adopts.value(), adopts.settle(Some(5))), (7, Ok(5)));
    }
}
