//! A case as data.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use stanchion_core::{Capabilities, MutexMode};

use crate::harness::Harness;

/// A running case. It needs no `Send`: a thread of its own drives it.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One case: the smallest part of the contract that can hold or fail by itself. It runs on a
/// harness `H`.
pub struct Case<H: ?Sized + 'static = dyn Harness> {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) run: for<'a> fn(&'a H) -> Running<'a>,
}

impl<H: ?Sized> Copy for Case<H> {}

impl<H: ?Sized> Clone for Case<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: ?Sized> Case<H> {
    /// Returns the group: a module of the generated tests.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// Returns the name: clauses in lower case, then the assertion.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns group and name, as the test runner prints them.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}::{}", self.group, self.name)
    }
}

impl Case {
    /// Returns the clauses in the name of the case, written as in the contract: `C4`. A mutex's
    /// case that runs on a semaphore also shows [S8].
    ///
    /// [S8]: stanchion_core::contract#s8
    #[must_use]
    pub fn clauses(&self) -> Vec<String> {
        let is_clause = |word: &&str| {
            let digits = word.trim_start_matches(['c', 'm', 's', 'w', 'l', 'b']);
            digits.len() + 1 == word.len() && digits.parse::<u8>().is_ok()
        };
        let mut clauses: Vec<_> = self.name.split('_').take_while(is_clause).map(str::to_uppercase).collect();
        if self.group.starts_with("as_semaphore") {
            clauses.push("S8".to_owned());
        }
        clauses
    }

    /// Returns the reason if the case needs a capability that the store declares it does not have.
    pub(crate) fn undeclared(&self, capabilities: &Capabilities) -> Option<&'static str> {
        let is_of = |clause: &str| self.clauses().iter().any(|own| own == clause);
        // Sessions cannot transfer their mutexes; the store's other objects are kept by leases.
        let of_mutex = ["mutex", "as_mutex"].contains(&self.group);
        let detaches = capabilities.detach || capabilities.mutex_mode == MutexMode::Session && !of_mutex;
        match self.group {
            "wait_group" if !capabilities.wait_groups => Some("the store declares no wait groups"),
            "limiter" if !capabilities.limiters => Some("the store declares no limiters"),
            "bloom" if !capabilities.bloom_filters => Some("the store declares no Bloom filters"),
            "namespaces" if !capabilities.namespaces => Some("the store declares no namespaces"),
            "listing" if !capabilities.listing => Some("the store declares no listing"),
            _ if is_of("C24") && !detaches => Some("the store declares no detach"),
            _ => None,
        }
    }
}

impl<H: ?Sized> fmt::Debug for Case<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("group", &self.group).field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(group: &'static str, name: &'static str) -> Case {
        Case { group, name, run: |_| Box::pin(async {}) }
    }

    #[test]
    fn a_case_is_about_the_clauses_it_is_named_after() {
        assert_eq!(case("mutex", "m2_fencing_token_grows").clauses(), ["M2"]);
        assert_eq!(case("as_semaphore_of_one", "c9_m8_told").clauses(), ["C9", "M8", "S8"]);
        assert_eq!(case("all_kinds", "close_c1").clauses(), [""; 0]);
    }

    #[test]
    fn where_sessions_keep_mutexes_the_rest_detaches() {
        let mut by_session = Capabilities::full("any", MutexMode::Session);
        by_session.detach = false;
        let mut nowhere = Capabilities::full("any", MutexMode::Lease);
        nowhere.detach = false;
        let attach = |group| case(group, "c24_attach");
        assert!(attach("as_mutex").undeclared(&by_session).is_some());
        assert!(attach("mutex").undeclared(&by_session).is_some());
        for group in ["as_semaphore_of_one", "wait_group"] {
            assert!(attach(group).undeclared(&by_session).is_none());
            assert!(attach(group).undeclared(&nowhere).is_some());
        }
        assert!(case("as_mutex", "c23_inspect").undeclared(&by_session).is_none());
    }
}
