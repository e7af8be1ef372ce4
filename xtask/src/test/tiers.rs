//! The random part of the default tier: most cases on the variants of a store.
//!
//! Every clause runs on memory, on a Redis server and on Postgres with leases and with sessions. On
//! a variant (TLS, a cluster, Sentinel, a pooler, a role with the least rights), the cases that can
//! differ there run each time. Of the other cases a slice runs that the seed selects: ten
//! consecutive seeds cover all.

use xxhash_rust::xxh3::xxh3_64;

/// Number of slices.
const SLICES: u64 = 10;

/// A deployment of a store that differs little from its plain server.
#[derive(Debug)]
pub(crate) struct Variant {
    /// The package, and the prefix of its cases' names.
    package: &'static str,
    prefix: &'static str,
    /// Parts of the names of the cases that can differ there.
    always: &'static [&'static str],
}

/// The part of the names of the tests in which a suite prints and checks its own data.
const OF_THE_SUITE: &str = "gaps::";

pub(crate) const VARIANTS: [Variant; 8] = [
    // Calls are made by threads.
    Variant {
        package: "stanchion-memory",
        prefix: "blocking::",
        always: &["all_kinds::c12", "c12_drop_outlives", "c13_a_blocked", "c17_a_time", "c9_m8_a_forced"],
    },
    // Calls are made by threads, over the engine's connections.
    Variant {
        package: "stanchion-redis",
        prefix: "conformance::threads::",
        always: &["all_kinds::c12", "c12_drop_outlives", "c13_a_blocked", "c17_a_time", "c9_m8_a_forced"],
    },
    // Calls are made by threads, over the engine's connections.
    Variant {
        package: "stanchion-postgres",
        prefix: "conformance::threads::",
        always: &["all_kinds::c12", "c12_drop_outlives", "c13_a_blocked", "c17_a_time", "c9_m8_a_forced"],
    },
    // Connections are made in another way, and scripts are sent again and again.
    Variant {
        package: "stanchion-redis",
        prefix: "conformance::tls::",
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
    // Keys, mailboxes and batches are spread over nodes.
    Variant {
        package: "stanchion-redis",
        prefix: "conformance::cluster::",
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
    // Clients find the server by asking.
    Variant {
        package: "stanchion-redis",
        prefix: "conformance::sentinel::",
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
    // Clients have no session of their own, and no wake-ups.
    Variant {
        package: "stanchion-postgres",
        prefix: "conformance::pooled::",
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
    // Each step needs the right privileges.
    Variant {
        package: "stanchion-postgres",
        prefix: "conformance::role::",
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

/// Returns whether the default tier runs a test with this seed.
pub(crate) fn is_drawn(package: &str, test: &str, seed: u64) -> bool {
    let variant =
        VARIANTS.iter().find(|variant| variant.package == package && test.starts_with(variant.prefix));
    let Some(variant) = variant else { return true };
    let case = &test[variant.prefix.len()..];
    case.starts_with(OF_THE_SUITE)
        || variant.always.iter().any(|part| case.contains(part))
        || xxh3_64(test.as_bytes()).wrapping_add(seed).is_multiple_of(SLICES)
}

#[cfg(test)]
mod tests {
    use stanchion_conformance::{CASES, suite::Case};

    use super::*;

    fn drawn(variant: &Variant, seed: u64) -> usize {
        let test = |case: &Case| format!("{}{}", variant.prefix, case.path());
        CASES.iter().filter(|case| is_drawn(variant.package, &test(case), seed)).count()
    }

    #[test]
    fn ten_seeds_in_a_row_cover_all() {
        for variant in &VARIANTS {
            for case in CASES.iter() {
                let test = format!("{}{}", variant.prefix, case.path());
                assert!((95..105).any(|seed| is_drawn(variant.package, &test, seed)), "{test}");
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
            [("stanchion-redis", "conformance::server::"), ("stanchion-postgres", "conformance::session::")]
        {
            let test = |case: &Case| format!("{prefix}{}", case.path());
            assert!(CASES.iter().all(|case| is_drawn(package, &test(case), 3)));
        }
    }
}
