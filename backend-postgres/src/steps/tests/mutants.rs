//! Bugs planted into the functions of the schema. The step case named for each bug catches it.

use std::time::Duration;

use stanchion_campaign::mutants::Detection;
use stanchion_conformance::steps::verdict;

use super::{Change, Fixture};

/// Timeout of a case: long enough for every case here, and short for one that a bug holds up.
const TIMEOUT: Duration = Duration::from_secs(20);

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
    "each_waiter",
    "lost := till <= p_now AND greatest(w.since, abs(heard)) + w.lease < p_now;",
    "lost := false;",
)];

stanchion_campaign::mutants! {
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

fn by(path: &str, changes: &'static [Change]) -> Detection {
    let fixture = Fixture::shared().changed(changes);
    // The schema is made before the case, so that the bug alone can make the case fail.
    tokio::runtime::Runtime::new().expect("a runtime").block_on(fixture.make_schema());
    let with = verdict(path, TIMEOUT, move || async move { fixture });
    Detection::by_case(path, with, &verdict(path, TIMEOUT, || async { Fixture::shared() }))
}
