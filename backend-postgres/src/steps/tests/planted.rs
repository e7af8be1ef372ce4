//! Bugs planted into the functions of the schema: each is caught by the case about steps that is named for it.

use std::time::Duration;

use stanchion_campaign::plant::{Catch, planted};
use stanchion_conformance::steps::verdict;

use super::{Bed, Change};

/// Long enough for every case here, and short enough for one that a bug holds up.
const LIMIT: Duration = Duration::from_secs(20);

const CHARGED_AGAIN: &[Change] =
    &[("limit_decide", "IF known.number >= in_number THEN", "IF known.number > in_number THEN")];
const CLOCK_BEFORE_LOCK: &[Change] = &[
    ("acquire", "    clock := stanchion.now();\n", ""),
    (
        "acquire",
        "    PERFORM stanchion.enter();\n",
        "    PERFORM stanchion.enter();\n    clock := stanchion.now();\n",
    ),
];
const PLACE_OUTLIVES_LEASE: &[Change] = &[(
    "walk",
    "lost := till <= p_now AND greatest(w.since, abs(heard)) + w.lease < p_now;",
    "lost := false;",
)];

planted! {
    PostgresSteps;
    l5_charged_again: ChargedAgain => |_| vec![
        by("flights::l5_a_flight_is_charged_once_whatever_its_retry_asks", CHARGED_AGAIN).saying("a retry"),
    ];
    c7_clock_before_lock: ClockBeforeLock => |_| vec![
        by("grants::c7_c8_expiry_is_judged_by_the_clock_after_the_wait_for_a_record", CLOCK_BEFORE_LOCK)
            .saying("not granted but Waiting"),
    ];
    c16_place_outlives_lease: PlaceOutlivesLease => |_| vec![
        by("liveness::c16_a_silent_waiter_loses_its_place_after_its_lease", PLACE_OUTLIVES_LEASE)
            .saying("its place ended with its lease"),
    ];
}

fn by(path: &str, changes: &'static [Change]) -> Catch {
    let bed = Bed::shared().changed(changes);
    // Before the case, whose failure must be the bug's.
    tokio::runtime::Runtime::new().expect("a runtime").block_on(bed.make_schema());
    let with = verdict(path, LIMIT, move || async move { bed });
    Catch::by_case(path, with, &verdict(path, LIMIT, || async { Bed::shared() }))
}
