//! What the stores count by the facade `metrics`: what the log tells, as numbers ([C29]). Without
//! the feature `metrics` nothing is counted, and nothing here costs anything.
//!
//! A program installs a recorder of its choice, such as that of `metrics-exporter-prometheus`,
//! *before* it opens its stores. The names and units follow [OpenMetrics]: seconds, and `_total`
//! for counters.
//!
//! | name | type | labels | what |
//! | --- | --- | --- | --- |
//! | `stanchion_grants_total` | counter | `store`, `kind`, `operation`, `group` | calls that got what they asked for |
//! | `stanchion_wait_seconds` | histogram | `store`, `kind`, `operation`, `group` | time from a call to its grant; on the memory store of those that had to wait only |
//! | `stanchion_refusals_total` | counter | `store`, `kind`, `operation`, `group` | calls that got nothing: a `try_…` that found it taken, and a time limit that was over |
//! | `stanchion_hold_seconds` | histogram | `store`, `kind`, `group` | time from a grant to its end by the guard; not on the memory store |
//! | `stanchion_losses_total` | counter | `store`, `kind`, `cause`, `group` | holds that were lost: `deadline`, `gone`, `forced`, `closed` |
//! | `stanchion_queue_length` | gauge | `store`, `kind`, `group` | waiters that the last `inspect` saw |
//! | `stanchion_decisions_total` | counter | `store`, `allowed`, `by`, `group` | decisions of `allow`, by `store` or `cache`, and those of any call that an outage policy made, by `policy` |
//! | `stanchion_late_renewals_total` | counter | `store`, `kind`, `group` | renewals before which less than a third of the time that a hold is believed in was left |
//! | `stanchion_request_seconds` | histogram | `store`, `step`, `outcome` | requests to a networked store, `ok` or `failed` (unanswered) |
//! | `stanchion_connects_total` | counter | `store`, `outcome` | attempts to connect for requests and wake-ups of a store that is connected, `made` or `failed` |
//! | `stanchion_outages_total` | counter | `store` | how often the store went away |
//! | `stanchion_store_away` | gauge | `store` | stores that are away now, of those that the process has opened: 1 or more during an outage |
//!
//! Losses, late renewals, outages and failed connects are zero from the first grant or from the
//! opening of the store on, so that the first one is an increase, which Prometheus sees only from
//! one scrape to the next.
//!
//! Waits, holds and requests take from 100 µs to minutes. For Prometheus, set buckets, since
//! quantiles cannot be added up over instances:
//! `PrometheusBuilder::set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &[…])`, with
//! bounds such as 0.0001, 0.0005, 0.001, 0.005, 0.02, 0.1, 0.5, 2, 10 and 60 s. `examples/metrics`
//! does, and has a dashboard for them.
//!
//! A name is never a label by itself: there may be millions of them. `group_by` puts names into a
//! few groups; without it there is no label `group`.
//!
//! [C29]: crate::contract#c29
//! [OpenMetrics]: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md

#[cfg(feature = "metrics")]
use std::collections::HashSet;
#[cfg(feature = "metrics")]
use std::sync::{LazyLock, Once, OnceLock, PoisonError, RwLock};
use std::time::Duration;

#[cfg(feature = "metrics")]
use crate::DecidedBy;
use crate::observe::loss_cause::LossCause;
use crate::{Decision, Kind, Name};

#[cfg(feature = "metrics")]
use metrics::{Counter, Label, SharedString, Unit, counter, gauge, histogram};

/// Returns the group of a name.
#[cfg(feature = "metrics")]
type Group = Box<dyn Fn(Kind, &str) -> SharedString + Send + Sync>;

#[cfg(feature = "metrics")]
static GROUP: OnceLock<Group> = OnceLock::new();

/// Sets the label `group` of everything that is counted for a name in this process, from now on.
/// The function is called when an object is opened, on networked stores at the end of each hold,
/// and when a hold is lost; it must not block or panic. Returns `false` if that was set before, and
/// changes nothing then.
///
/// Each group and kind makes some ten time series: return few different texts, such as the part of
/// the name in front of the first `/`, and never what a client sends.
///
/// # Examples
/// ```
/// stanchion::metering::group_by(|_, name| name.split('/').next().unwrap_or_default().to_owned().into());
/// ```
#[cfg(feature = "metrics")]
pub fn group_by(group: impl Fn(Kind, &str) -> SharedString + Send + Sync + 'static) -> bool {
    GROUP.set(Box::new(group)).is_ok()
}

#[cfg(feature = "metrics")]
fn group_of(kind: Kind, name: &str) -> Option<SharedString> {
    GROUP.get().map(|group| group(kind, name))
}

/// Stores, kinds and groups whose rare events are counted.
#[cfg(feature = "metrics")]
type Awaited = HashSet<(&'static str, Kind, Option<SharedString>)>;

/// Says once what each metric is.
#[cfg(feature = "metrics")]
fn describe() {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(|| {
        for (name, text) in [
            ("stanchion_grants_total", "Calls that got what they asked for"),
            ("stanchion_refusals_total", "Calls that got nothing"),
            ("stanchion_losses_total", "Holds that were lost"),
            ("stanchion_decisions_total", "Decisions of limiters"),
            ("stanchion_late_renewals_total", "Renewals that came late"),
            ("stanchion_connects_total", "Attempts to connect"),
            ("stanchion_outages_total", "How often the store went away"),
        ] {
            metrics::describe_counter!(name, Unit::Count, text);
        }
        for (name, text) in [
            ("stanchion_wait_seconds", "Time from a call to its grant"),
            ("stanchion_hold_seconds", "Time from a grant to its end by the guard"),
            ("stanchion_request_seconds", "Requests to the store"),
        ] {
            metrics::describe_histogram!(name, Unit::Seconds, text);
        }
        metrics::describe_gauge!("stanchion_queue_length", Unit::Count, "Waiters that the last look saw");
        metrics::describe_gauge!("stanchion_store_away", Unit::Count, "Stores that are away");
    });
}

/// Counts what happens to one object. For stores that implement the traits themselves; those over
/// the engine have it from there.
///
/// The first counter of grants is kept, so that a grant costs a few nanoseconds.
#[derive(Debug)]
pub struct Meter {
    #[cfg(feature = "metrics")]
    store: &'static str,
    #[cfg(feature = "metrics")]
    kind: Kind,
    #[cfg(feature = "metrics")]
    group: Option<SharedString>,
    #[cfg(feature = "metrics")]
    grants: OnceLock<(&'static str, Kept)>,
    /// Of the store's own decisions, those that refused and those that allowed.
    #[cfg(feature = "metrics")]
    decisions: OnceLock<[Kept; 2]>,
}

#[cfg(feature = "metrics")]
struct Kept(Counter);

#[cfg(feature = "metrics")]
impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counter")
    }
}

/// Makes methods that do nothing without the feature.
macro_rules! metered {
    ($($(#[$doc:meta])* $visibility:vis fn $name:ident(&$self:ident $(, $argument:ident: $type:ty)*) $body:block)*) => {$(
        $(#[$doc])*
        #[cfg(feature = "metrics")]
        #[inline]
        $visibility fn $name(&$self $(, $argument: $type)*) $body

        $(#[$doc])*
        #[cfg(not(feature = "metrics"))]
        #[inline]
        #[allow(clippy::unused_self, reason = "the method does nothing without the feature")]
        $visibility fn $name(&self $(, _: $type)*) {}
    )*};
}

impl Meter {
    /// Makes the meter of an object.
    #[must_use]
    #[cfg_attr(not(feature = "metrics"), allow(unused_variables, reason = "nothing is counted"))]
    pub fn new(store: &'static str, kind: Kind, name: &Name) -> Self {
        #[cfg(feature = "metrics")]
        {
            describe();
            let (group, grants, decisions) =
                (group_of(kind, name.as_str()), OnceLock::new(), OnceLock::new());
            Self { store, kind, group, grants, decisions }
        }
        #[cfg(not(feature = "metrics"))]
        Self {}
    }

    #[cfg(feature = "metrics")]
    fn labels(&self, more: &[(&'static str, &'static str)]) -> Vec<Label> {
        let mut labels = vec![Label::from_static_parts("store", self.store)];
        labels.push(Label::from_static_parts("kind", self.kind.as_str()));
        labels.extend(more.iter().map(|(name, value)| Label::from_static_parts(name, value)));
        labels.extend(self.group.clone().map(|group| Label::new("group", group)));
        labels
    }

    #[cfg(feature = "metrics")]
    fn losses(&self, cause: LossCause) -> Counter {
        counter!("stanchion_losses_total", self.labels(&[("cause", cause.as_str())]))
    }

    #[cfg(feature = "metrics")]
    fn late_renewals(&self) -> Counter {
        counter!("stanchion_late_renewals_total", self.labels(&[]))
    }

    /// Counts zero of what is rare: Prometheus sees the increase of a counter only from one scrape
    /// to the next.
    #[cfg(feature = "metrics")]
    fn await_rare_events(&self) {
        static AWAITED: LazyLock<RwLock<Awaited>> = LazyLock::new(RwLock::default);
        let key = (self.store, self.kind, self.group.clone());
        if AWAITED.read().unwrap_or_else(PoisonError::into_inner).contains(&key) {
            return;
        }
        for cause in LossCause::ALL {
            self.losses(*cause).increment(0);
        }
        self.late_renewals().increment(0);
        AWAITED.write().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    #[cfg(feature = "metrics")]
    #[cold]
    fn first_grants(&self, operation: &'static str) -> Counter {
        self.await_rare_events();
        self.grants(operation)
    }

    #[cfg(feature = "metrics")]
    #[cold]
    fn grants(&self, operation: &'static str) -> Counter {
        counter!("stanchion_grants_total", self.labels(&[("operation", operation)]))
    }

    #[cfg(feature = "metrics")]
    #[cold]
    fn decisions(&self, allowed: &'static str, by: &'static str) -> Counter {
        let mut labels = vec![Label::from_static_parts("store", self.store)];
        labels.push(Label::from_static_parts("allowed", allowed));
        labels.push(Label::from_static_parts("by", by));
        labels.extend(self.group.clone().map(|group| Label::new("group", group)));
        counter!("stanchion_decisions_total", labels)
    }

    metered! {
        /// A call got what it asked for.
        pub fn granted(&self, operation: &'static str) {
            let (kept, grants) = self.grants.get_or_init(|| (operation, Kept(self.first_grants(operation))));
            if std::ptr::eq(*kept, operation) {
                grants.0.increment(1);
            } else {
                self.grants(operation).increment(1);
            }
        }

        /// A call that had to wait got what it asked for: counted beside
        /// [`granted`](Self::granted).
        pub fn waited(&self, operation: &'static str, waited: Duration) {
            histogram!("stanchion_wait_seconds", self.labels(&[("operation", operation)])).record(waited);
        }

        /// A call got nothing.
        pub fn refused(&self, operation: &'static str) {
            counter!("stanchion_refusals_total", self.labels(&[("operation", operation)])).increment(1);
        }

        /// A call got what it asked for, or nothing.
        pub fn ended(&self, operation: &'static str, is_granted: bool) {
            if is_granted { self.granted(operation) } else { self.refused(operation) }
        }

        /// A guard gave its hold up.
        pub fn given_up(&self, held: Duration) {
            histogram!("stanchion_hold_seconds", self.labels(&[])).record(held);
        }

        /// A hold was lost.
        pub fn lost(&self, cause: LossCause) {
            self.losses(cause).increment(1);
        }

        /// A hold was renewed when little of its lease was left.
        pub(crate) fn renewed_late(&self) {
            self.late_renewals().increment(1);
        }

        /// A look at the object saw so many waiters.
        #[allow(clippy::cast_precision_loss, reason = "a gauge is a float")]
        pub fn queue(&self, waiters: u64) {
            gauge!("stanchion_queue_length", self.labels(&[])).set(waiters as f64);
        }

        /// An outage policy made a reservation, or refused one.
        pub(crate) fn decided_by_policy(&self, allowed: bool) {
            self.decisions(if allowed { "yes" } else { "no" }, "policy").increment(1);
        }

        /// A limiter decided.
        pub fn decided(&self, decision: &Decision) {
            match decision.decided_by {
                DecidedBy::Store => {
                    let decisions = self.decisions.get_or_init(|| {
                        ["no", "yes"].map(|allowed| Kept(self.decisions(allowed, "store")))
                    });
                    decisions[usize::from(decision.allowed)].0.increment(1);
                }
                by => {
                    let by = if by == DecidedBy::LocalCache { "cache" } else { "policy" };
                    self.decisions(if decision.allowed { "yes" } else { "no" }, by).increment(1);
                }
            }
        }
    }
}

/// Counts what happens between a process and a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreMeter {
    #[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nothing is counted"))]
    pub(crate) store: &'static str,
}

impl StoreMeter {
    metered! {
        /// The store is used: counts zero of what is rare.
        pub(crate) fn opened(&self) {
            describe();
            counter!("stanchion_outages_total", "store" => self.store).increment(0);
            gauge!("stanchion_store_away", "store" => self.store).increment(0.0);
            for outcome in ["made", "failed"] {
                self.connects(outcome).increment(0);
            }
        }

        /// The store went away.
        pub(crate) fn went_away(&self) {
            counter!("stanchion_outages_total", "store" => self.store).increment(1);
            gauge!("stanchion_store_away", "store" => self.store).increment(1.0);
        }

        /// The store is back, or was closed while it was away.
        pub(crate) fn came_back(&self) {
            gauge!("stanchion_store_away", "store" => self.store).decrement(1.0);
        }

        /// A request was answered, or not.
        pub(crate) fn requested(&self, step: &'static str, answered: bool, time: Duration) {
            let outcome = if answered { "ok" } else { "failed" };
            let labels = [("store", self.store), ("step", step), ("outcome", outcome)];
            histogram!("stanchion_request_seconds", &labels).record(time);
        }

        /// An attempt to connect has ended.
        pub(crate) fn connected(&self, made: bool) {
            self.connects(if made { "made" } else { "failed" }).increment(1);
        }
    }

    #[cfg(feature = "metrics")]
    fn connects(&self, outcome: &'static str) -> Counter {
        counter!("stanchion_connects_total", &[("store", self.store), ("outcome", outcome)])
    }
}
