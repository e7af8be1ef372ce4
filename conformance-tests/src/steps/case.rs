//! A case about steps as data.

use std::fmt;

use crate::case::Running;

/// One case for a harness `H`.
pub struct Case<H: ?Sized + 'static> {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) run: for<'a> fn(&'a H) -> Running<'a>,
}

impl<H: ?Sized> Copy for Case<H> {}

impl<H: ?Sized> Clone for Case<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: ?Sized> Case<H> {
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

impl<H: ?Sized> fmt::Debug for Case<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("group", &self.group).field("name", &self.name).finish_non_exhaustive()
    }
}
