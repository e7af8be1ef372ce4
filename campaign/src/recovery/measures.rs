//! The measures, and their bounds by the contract.

use std::fmt;
use std::time::Duration;

use stanchion_core::Ttl;
use stanchion_core::clock::micros;

use crate::history::Bounds;
use crate::rounds::Deployment;

/// The lease of holders that die or are cut off, and of holders whose store dies.
pub(super) const LEASE: Duration = Duration::from_secs(1);
/// The number of holders that die in a row.
pub(super) const DEAD: usize = 3;
/// Maximum poll floor `P`, in µs.
const POLL_FLOOR: i64 = 1_000_000;

/// A time from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Measure {
    /// A holder is killed: until the next grant.
    DeadHolder,
    /// Three holders are killed, each as soon as it holds: from the first kill to the grant of the
    /// fourth.
    DeadInARow,
    /// A holder and the three waiters in front are killed together: until the next grant.
    DeadAtOnce,
    /// A holder is cut off from the store: from the sending of its last renewal to `lost()`.
    CutOffLost,
    /// A holder is cut off: from the cut to the next grant.
    CutOffFree,
    /// A holder is cut off: from its deadline, when it stops believing, to the next grant.
    CutOffBelief,
    /// A holder is cut off: from its `lost()` to the next grant.
    CutOffMargin,
    /// A mutex is released and the wake-up gets lost: until the next grant.
    LostWakeUp,
    /// The server is killed together with a holder and restarted after the lease: from the server's
    /// first answer to the grant of a caller that waited all along.
    RestartWaiter,
    /// The same restart: from the server's first answer to the grant of a call that begins then, in
    /// a process that was connected before.
    RestartCall,
}

/// The bound of a measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The limit.
    pub limit: Limit,
    /// The clauses of the contract behind the limit, with their formula.
    pub clause: &'static str,
}

/// A limit, in µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this value.
    AtMost(i64),
    /// More than this value.
    MoreThan(i64),
}

fn signed_micros(duration: Duration) -> i64 {
    signed(micros(duration))
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// Returns the time from the sending of a granting or renewing request to the deadline `D`, in µs.
pub(super) fn belief() -> i64 {
    Ttl::new(LEASE).map_or(0, |lease| signed_micros(lease.belief()))
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::DeadHolder,
        Self::DeadInARow,
        Self::DeadAtOnce,
        Self::CutOffLost,
        Self::CutOffFree,
        Self::CutOffBelief,
        Self::CutOffMargin,
        Self::LostWakeUp,
        Self::RestartWaiter,
        Self::RestartCall,
    ];

    /// Returns a description.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DeadHolder => "dead holder: kill to next grant",
            Self::DeadInARow => "3 holders dead in a row: first kill to next grant",
            Self::DeadAtOnce => "dead holder, 3 dead in line: kill to next grant",
            Self::CutOffLost => "cut-off holder: last renewal to lost()",
            Self::CutOffFree => "cut-off holder: cut to next grant",
            Self::CutOffBelief => "cut-off holder: its deadline to next grant",
            Self::CutOffMargin => "cut-off holder: lost() to next grant",
            Self::LostWakeUp => "lost wake-up: release to next grant",
            Self::RestartWaiter => "store restart: up to a waiter's grant",
            Self::RestartCall => "store restart: up to a new call's grant",
        }
    }

    /// Returns the bound by the contract; `None` if there is nothing to measure. With sessions, the
    /// server's lock manager hands a lock over, without a wake-up that could get lost. The clients
    /// of a cluster find its nodes by themselves, past any link that could be cut, and one node
    /// that restarts has a part of the names.
    #[must_use]
    pub fn bound(self, deployment: Deployment) -> Option<Bound> {
        let Bounds { epsilon, silence, recovery } = Bounds::default();
        let (epsilon, silence, recovery) = (signed(epsilon), signed(silence), signed(recovery));
        let (lease, dead) = (signed_micros(LEASE), i64::try_from(DEAD).unwrap_or(i64::MAX));
        let of_session = deployment == Deployment::PostgresSessions;
        let of_one_server = [
            Self::CutOffLost,
            Self::CutOffFree,
            Self::CutOffBelief,
            Self::CutOffMargin,
            Self::LostWakeUp,
            Self::RestartWaiter,
            Self::RestartCall,
        ];
        if deployment == Deployment::RedisCluster && of_one_server.contains(&self) {
            return None;
        }
        let at_most = |limit, clause| Bound { limit: Limit::AtMost(limit), clause };
        let more_than = |limit, clause| Bound { limit: Limit::MoreThan(limit), clause };
        let bound = match self {
            Self::DeadHolder if of_session => at_most(epsilon, "C8, session mode: ε"),
            Self::DeadHolder => at_most(lease + epsilon, "C8: TTL + ε"),
            Self::DeadInARow if of_session => at_most(dead * epsilon, "M7, session mode: k·ε"),
            Self::DeadInARow => at_most(dead * lease + epsilon, "M7: k·TTL + ε"),
            Self::DeadAtOnce if of_session => at_most(epsilon + silence, "C5, session mode: ε + 2 s"),
            Self::DeadAtOnce => at_most(lease + epsilon + silence, "C8, C5: TTL + ε + 2 s"),
            Self::CutOffLost => at_most(belief() + epsilon, "C9: D + ε"),
            Self::CutOffFree => at_most(lease + epsilon, "C8: TTL + ε"),
            Self::CutOffBelief => more_than(0, "M1: D before the next"),
            Self::CutOffMargin => more_than(lease - belief() - epsilon, "C8, C9: TTL − (D + ε)"),
            Self::LostWakeUp if of_session => return None,
            Self::LostWakeUp => at_most(POLL_FLOOR + epsilon, "C14: P + ε"),
            Self::RestartWaiter | Self::RestartCall => at_most(recovery + epsilon, "C18: 1 s + ε"),
        };
        Some(bound)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Limit {
    /// Returns whether a time is within the limit.
    #[must_use]
    pub fn holds(self, micros: i64) -> bool {
        match self {
            Self::AtMost(limit) => micros <= limit,
            Self::MoreThan(limit) => micros > limit,
        }
    }

    /// Returns the worst time: the nearest to the limit, or the farthest beyond it.
    pub(super) fn worst(self, times: impl Iterator<Item = i64>) -> Option<i64> {
        match self {
            Self::AtMost(_) => times.max(),
            Self::MoreThan(_) => times.min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(measure: Measure, deployment: Deployment) -> Limit {
        measure.bound(deployment).unwrap().limit
    }

    #[test]
    fn a_limit_is_kept_on_its_own_side() {
        assert!(Limit::AtMost(5).holds(5) && !Limit::AtMost(5).holds(6));
        assert!(Limit::MoreThan(0).holds(1) && !Limit::MoreThan(0).holds(0));
        assert_eq!(Limit::AtMost(5).worst([1, 7, 3].into_iter()), Some(7));
        assert_eq!(Limit::MoreThan(5).worst([1, 7, 3].into_iter()), Some(1));
    }

    /// Compares with the figures of the contract for a lease of 1 s.
    #[test]
    fn c5_c8_c9_c14_c18_m1_m7_the_bounds_are_those_of_the_contract() {
        for deployment in [Deployment::Redis, Deployment::Postgres] {
            let limits = Measure::ALL.map(|measure| limit(measure, deployment));
            assert_eq!(
                limits,
                [
                    Limit::AtMost(1_500_000),
                    Limit::AtMost(3_500_000),
                    Limit::AtMost(3_500_000),
                    Limit::AtMost(1_440_000),
                    Limit::AtMost(1_500_000),
                    Limit::MoreThan(0),
                    Limit::MoreThan(-440_000),
                    Limit::AtMost(1_500_000),
                    Limit::AtMost(1_500_000),
                    Limit::AtMost(1_500_000),
                ]
            );
        }
        let session = |measure| limit(measure, Deployment::PostgresSessions);
        assert_eq!(session(Measure::DeadHolder), Limit::AtMost(500_000));
        assert_eq!(session(Measure::DeadInARow), Limit::AtMost(1_500_000));
        assert_eq!(session(Measure::DeadAtOnce), Limit::AtMost(2_500_000));
        assert_eq!(session(Measure::CutOffFree), Limit::AtMost(1_500_000));
        assert_eq!(Measure::LostWakeUp.bound(Deployment::PostgresSessions), None);
    }
}
