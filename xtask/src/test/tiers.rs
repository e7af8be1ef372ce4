//! The random part of the default tier: most cases on the variants of a store.
//!
//! Every clause runs on memory, on a Redis server and on Postgres with leases. On a variant
//! (Postgres with sessions, the blocking face, TLS, a cluster, Sentinel, a pooler, a role with the
//! least rights), the cases that can differ there run each time. Of the other cases a slice runs
//! that the seed selects: ten consecutive seeds cover all.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// Number of slices.
const SLICES: u64 = 10;

/// A deployment of a store that differs little from its plain server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The package, and the prefix of its cases' names.
    package: &'static str,
    prefix: &'static str,
    /// What can differ there, and so runs each time; the reason why the rest need not.
    reason: &'static str,
    /// Parts of the names of the cases that can differ there.
    always: &'static [&'static str],
}

/// The part of the names of the tests in which a suite prints and checks its own data.
const OF_THE_SUITE: &str = "gaps::";

pub(crate) static VARIANTS: [Variant; 10] = [
    Variant {
        package: "stanchion-postgres",
        prefix: "conformance::session::",
        reason: "sessions keep mutexes alone; the other kinds are the code that runs with leases",
        always: &[
            "mutex",
            "elections::",
            "threads::",
            "namespaces::",
            "listing::c23",
            "listing::c25",
            "all_kinds::c12",
            "all_kinds::c21",
            "all_kinds::c22",
            "all_kinds::c28",
            "all_kinds::c29",
        ],
    },
    Variant {
        package: "stanchion-memory",
        prefix: "blocking::",
        reason: "threads make the calls; the rest is the code that tasks run",
        always: &["all_kinds::c12", "c12_drop_outlives", "c13_a_blocked", "c17_a_time", "c9_m8_a_forced"],
    },
    Variant {
        package: "stanchion-redis",
        prefix: "conformance::threads::",
        reason: "threads make the calls, over the engine's connections; the rest is the code that tasks run",
        always: &["all_kinds::c12", "c12_drop_outlives", "c13_a_blocked", "c17_a_time", "c9_m8_a_forced"],
    },
    Variant {
        package: "stanchion-postgres",
        prefix: "conformance::threads::",
        reason: "threads make the calls, over the engine's connections; the rest is the code that tasks run",
        always: &["all_kinds::c12", "c12_drop_outlives", "c13_a_blocked", "c17_a_time", "c9_m8_a_forced"],
    },
    Variant {
        package: "stanchion-redis",
        prefix: "conformance::tls::",
        reason: "connections are made in another way, and scripts are sent again and again",
        always: &[
            "all_kinds::c12",
            "all_kinds::c19",
            "all_kinds::c21",
            "all_kinds::c22",
            "c14_",
            "c18_",
            "c12_close",
            "c12_drop_outlives",
            "b1_a_batch_may_be_large",
        ],
    },
    Variant {
        package: "stanchion-redis",
        prefix: "conformance::bare::",
        reason: "the user lacks what can be missing, so that waiters proceed by the poll floor",
        always: &["all_kinds::c12", "all_kinds::c21", "all_kinds::c22", "c14_", "c16_", "w3_"],
    },
    Variant {
        package: "stanchion-redis",
        prefix: "conformance::cluster::",
        reason: "keys, mailboxes and batches are spread over nodes",
        always: &[
            "all_kinds::c12",
            "all_kinds::c19",
            "all_kinds::c21",
            "all_kinds::c22",
            "c13_",
            "c14_",
            "c15_",
            "c16_",
            "c23_",
            "w3_",
            "l5_",
            "b1_",
            "b4_",
            "lose",
            "loss",
        ],
    },
    Variant {
        package: "stanchion-redis",
        prefix: "conformance::sentinel::",
        reason: "clients find the server by asking",
        always: &[
            "all_kinds::c12",
            "all_kinds::c19",
            "all_kinds::c21",
            "all_kinds::c22",
            "c14_",
            "c18_",
            "w3_",
        ],
    },
    Variant {
        package: "stanchion-postgres",
        prefix: "conformance::pooled::",
        reason: "clients have no session of their own, and no wake-ups",
        always: &[
            "all_kinds::c12",
            "all_kinds::c19",
            "all_kinds::c21",
            "all_kinds::c22",
            "c14_",
            "c15_",
            "c16_",
            "c5_",
            "w3_",
            "l5_",
        ],
    },
    Variant {
        package: "stanchion-postgres",
        prefix: "conformance::role::",
        reason: "each step needs the right privileges",
        always: &[
            "all_kinds::c12",
            "all_kinds::c19",
            "all_kinds::c21",
            "all_kinds::c22",
            "c8_an",
            "c14_",
            "c23_",
            "c24_attach",
            "m2_",
            "m8_",
            "m9_",
            "s6_",
            "w4_",
            "w8_",
            "l7_",
            "l8_",
            "c20_",
            "b4_",
            "b5_",
        ],
    },
];

/// Tests of a variant that the default tier leaves to other seeds and to `--full`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    variant: &'static Variant,
    tests: usize,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variant: Variant { package, prefix, reason, .. }, tests } = self;
        write!(f, "left to --full: {tests:>4} tests of {package} {prefix} ({reason})")
    }
}

/// Returns the variant that a test is of, if it is of one.
fn variant_of(package: &str, test: &str) -> Option<&'static Variant> {
    VARIANTS.iter().find(|variant| variant.package == package && test.starts_with(variant.prefix))
}

/// Removes the tests that the default tier does not run with this seed. Returns how many it
/// removed.
pub(crate) fn draw(package: &str, tests: &mut Vec<String>, seed: u64) -> Vec<Left> {
    let mut left: Vec<Left> = Vec::new();
    tests.retain(|test| {
        let Some(variant) = variant_of(package, test) else { return true };
        let drawn = variant.runs(test, seed);
        if !drawn {
            match left.iter_mut().find(|left| left.variant == variant) {
                Some(left) => left.tests += 1,
                None => left.push(Left { variant, tests: 1 }),
            }
        }
        drawn
    });
    left
}

impl Variant {
    /// Returns whether the default tier runs a test of this variant with this seed.
    fn runs(&self, test: &str, seed: u64) -> bool {
        let case = &test[self.prefix.len()..];
        case.starts_with(OF_THE_SUITE)
            || self.always.iter().any(|part| case.contains(part))
            || xxh3_64(test.as_bytes()).wrapping_add(seed).is_multiple_of(SLICES)
    }
}

#[cfg(test)]
mod tests {
    use stanchion_conformance::{CASES, suite::Case};

    use super::*;

    fn test(variant: &Variant, case: &Case) -> String {
        format!("{}{}", variant.prefix, case.path())
    }

    fn drawn(variant: &Variant, seed: u64) -> usize {
        CASES.iter().filter(|case| variant.runs(&test(variant, case), seed)).count()
    }

    #[test]
    fn ten_seeds_in_a_row_cover_all() {
        for variant in &VARIANTS {
            for test in CASES.iter().map(|case| test(variant, case)) {
                assert!((95..105).any(|seed| variant.runs(&test, seed)), "{test}");
            }
        }
    }

    #[test]
    fn most_cases_of_a_variant_are_left_out() {
        for variant in &VARIANTS {
            let most = (0..SLICES).map(|seed| drawn(variant, seed)).max().unwrap();
            assert!(most * 2 < CASES.len(), "{}: {most} of {}", variant.prefix, CASES.len());
        }
    }

    #[test]
    fn what_can_differ_is_the_name_of_a_case() {
        for variant in &VARIANTS {
            for part in variant.always {
                assert!(CASES.iter().any(|case| case.path().contains(part)), "{}: {part}", variant.prefix);
            }
        }
    }

    #[test]
    fn every_clause_runs_on_the_plain_servers() {
        for (package, prefix) in
            [("stanchion-redis", "conformance::server::"), ("stanchion-postgres", "conformance::lease::")]
        {
            assert_eq!(variant_of(package, &format!("{prefix}mutex::a_case")), None);
        }
    }

    #[test]
    fn all_that_a_session_keeps_runs_each_time() {
        let sessions = VARIANTS.iter().find(|variant| variant.prefix.contains("session")).unwrap();
        let of_mutexes = CASES.iter().filter(|case| ["mutex", "as_mutex"].contains(&case.group()));
        assert!(of_mutexes.map(|case| test(sessions, case)).all(|test| sessions.runs(&test, 3)));
    }

    #[test]
    fn what_is_left_out_is_counted_with_the_reason() {
        let mut tests: Vec<_> = CASES.iter().map(|case| test(&VARIANTS[0], case)).collect();
        let all = tests.len();
        tests.push("crashes::a_test".to_owned());
        let left = draw(VARIANTS[0].package, &mut tests, 3);
        assert_eq!((left.len(), left[0].tests), (1, all + 1 - tests.len()));
        assert!(tests.contains(&"crashes::a_test".to_owned()));
        assert!(left[0].to_string().contains(VARIANTS[0].reason));
    }
}
