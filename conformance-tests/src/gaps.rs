//! Known gaps: the cases that a store is known not to pass, each with a reason, as listed in the
//! call of a suite.
//!
//! A listed case becomes `#[ignore = "reason"]`, so that the test runner counts and names it. A
//! case that finds that the store or its harness lacks something it needs fails, unless it is
//! listed. A listed case that passes fails a separate test. So the list is complete and has no
//! extra entries, and no test is green that was not run.

/// One entry of the list: a case, or all cases of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The group of cases.
    pub group: &'static str,
    /// The case; `None` for the whole group.
    pub case: Option<&'static str>,
    /// The reason, in words for a user of the store.
    pub reason: &'static str,
}

impl Gap {
    /// Returns whether the entry lists the case with this path, `group::case`.
    #[must_use]
    pub fn lists(&self, path: &str) -> bool {
        match (path.split_once("::"), self.case) {
            (Some((group, case)), Some(own)) => (group, case) == (self.group, own),
            (Some((group, _)), None) => group == self.group,
            (None, _) => false,
        }
    }
}

/// Ends the case, because the store or its harness lacks `what`, which the case needs.
///
/// # Panics
/// Always, with a payload that the case runner recognizes.
pub fn cannot_show(what: &str) {
    std::panic::resume_unwind(Box::new(CannotShow(what.to_owned())));
}

/// The payload of [`cannot_show`].
#[derive(Debug)]
pub(crate) struct CannotShow(pub(crate) String);

/// Defines, for the rest of the scope, the macro `with_known_gap!`, which puts `#[ignore =
/// "reason"]` on the tests of listed cases, and the list `KNOWN_GAPS` of [`Gap`]s.
///
/// The first argument is a dollar sign: a macro cannot write one into another macro by itself.
#[doc(hidden)]
#[macro_export]
macro_rules! known_gaps {
    (($d:tt) $($list:tt)*) => {
        $crate::known_gaps! { @parse ($d) [] [] $($list)* }
    };
    (@parse $d:tt [$($cases:tt)*] [$($groups:tt)*] $group:ident :: $case:ident : $reason:literal $(, $($rest:tt)*)?) => {
        $crate::known_gaps! { @parse $d [$($cases)* ($group $case $reason)] [$($groups)*] $($($rest)*)? }
    };
    (@parse $d:tt [$($cases:tt)*] [$($groups:tt)*] $group:ident : $reason:literal $(, $($rest:tt)*)?) => {
        $crate::known_gaps! { @parse $d [$($cases)*] [$($groups)* ($group $reason)] $($($rest)*)? }
    };
    (@parse ($d:tt) [$(($group:ident $case:ident $reason:literal))*] [$(($whole:ident $why:literal))*]) => {
        #[allow(unused_macros)]
        macro_rules! with_known_gap {
            $(($group $case $d($d test:tt)*) => { #[ignore = $reason] $d($d test)* };)*
            $(($whole $d case:ident $d($d test:tt)*) => { #[ignore = $why] $d($d test)* };)*
            ($d group:ident $d case:ident $d($d test:tt)*) => { $d($d test)* };
        }

        /// The known gaps, as listed in the call of the suite.
        const KNOWN_GAPS: &[$crate::gaps::Gap] = &[
            $($crate::gaps::Gap {
                group: stringify!($group),
                case: Some(stringify!($case)),
                reason: $reason,
            },)*
            $($crate::gaps::Gap { group: stringify!($whole), case: None, reason: $why },)*
        ];
    };
}

#[cfg(test)]
mod tests {
    use super::Gap;

    known_gaps! { ($) mutex::m1_exclusion: "one", limiter: "no limiters" }

    with_known_gap! { mutex m2_tokens fn is_run() -> u8 { 2 } }

    #[test]
    fn a_list_names_cases_and_groups() {
        let [one, group] = KNOWN_GAPS else { panic!("{KNOWN_GAPS:?}") };
        assert_eq!(*one, Gap { group: "mutex", case: Some("m1_exclusion"), reason: "one" });
        assert!(one.lists("mutex::m1_exclusion") && !one.lists("mutex::m2_tokens"));
        assert!(group.lists("limiter::l1_any") && !group.lists("mutex::m1_exclusion"));
        assert_eq!(is_run(), 2);
    }
}
