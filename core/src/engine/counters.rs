//! Metrics by the facade `metrics`: what the log tells, as numbers (C29). Without the feature `metrics` nothing is counted.
//!
//! | name | type | labels | what |
//! | --- | --- | --- | --- |
//! | `stanchion_outages_total` | counter | `store` | how often the store went away |
//! | `stanchion_store_away` | gauge | `store` | 1 while it is away |
//! | `stanchion_policy_decisions_total` | counter | `store` | decisions made by an outage policy |
//! | `stanchion_decisions_total` | counter | `store`, `allowed` | decisions made by the store |
//! | `stanchion_wait_seconds` | histogram | `store`, `kind` | time from a call to its grant |
//! | `stanchion_hold_seconds` | histogram | `store`, `kind` | time from a grant to its end by the guard |
//! | `stanchion_losses_total` | counter | `store`, `kind`, `cause` | holds that were lost |

use std::time::Duration;

use crate::Kind;

/// Makes functions that do nothing without the feature.
macro_rules! counters {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) $body:block)*) => {$(
        $(#[$doc])*
        #[cfg(feature = "metrics")]
        pub(crate) fn $name($($argument: $type),*) $body

        $(#[$doc])*
        #[cfg(not(feature = "metrics"))]
        #[inline]
        pub(crate) fn $name($(_: $type),*) {}
    )*};
}

counters! {
    /// The store went away.
    fn went_away(store: &'static str) {
        metrics::counter!("stanchion_outages_total", "store" => store).increment(1);
        metrics::gauge!("stanchion_store_away", "store" => store).set(1.0);
    }

    /// The store is back.
    fn came_back(store: &'static str) {
        metrics::gauge!("stanchion_store_away", "store" => store).set(0.0);
    }

    /// An outage policy decided.
    fn decided_by_policy(store: &'static str) {
        metrics::counter!("stanchion_policy_decisions_total", "store" => store).increment(1);
    }

    /// The store decided.
    fn decided(store: &'static str, allowed: bool) {
        let allowed = if allowed { "yes" } else { "no" };
        metrics::counter!("stanchion_decisions_total", "store" => store, "allowed" => allowed).increment(1);
    }

    /// A call got what it asked for.
    fn granted(store: &'static str, kind: Kind, waited: Duration) {
        let wait = metrics::histogram!("stanchion_wait_seconds", "store" => store, "kind" => kind.as_str());
        wait.record(waited);
    }

    /// A guard gave its hold up.
    fn given_up(store: &'static str, kind: Kind, held: Duration) {
        let hold = metrics::histogram!("stanchion_hold_seconds", "store" => store, "kind" => kind.as_str());
        hold.record(held);
    }

    /// A hold was lost.
    fn lost(store: &'static str, kind: Kind, cause: &'static str) {
        let labels = [("store", store), ("kind", kind.as_str()), ("cause", cause)];
        metrics::counter!("stanchion_losses_total", &labels).increment(1);
    }
}
