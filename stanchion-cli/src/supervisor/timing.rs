//! When the command is ended before the deadline of its hold.

use std::time::Duration;

use super::clock::Moment;

const MAX_GRACE: Duration = Duration::from_secs(5);
const MAX_KILL: Duration = Duration::from_secs(1);

/// Times before the deadline.
///
/// A healthy renewal comes at a third of the lease, and its request ends within another third. What
/// is left then is a quarter of the lease or more, so that a command is not ended while its hold is
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// From `SIGTERM` to the deadline. From `SIGTERM` to `SIGKILL` at most, where the deadline is
    /// further away.
    pub(crate) grace: Duration,
    /// From `SIGKILL` to the deadline.
    pub(crate) kill: Duration,
}

impl Timing {
    pub(crate) fn of_lease(lease: Duration) -> Self {
        Self { grace: (lease / 5).min(MAX_GRACE), kill: (lease / 10).min(MAX_KILL) }
    }

    pub(crate) fn term_at(self, deadline: Moment) -> Moment {
        deadline.before(self.grace)
    }

    /// Returns when processes that were asked to end at `asked` are killed.
    pub(crate) fn kill_at(self, asked: Moment, deadline: Moment) -> Moment {
        asked.after(self.grace).min(deadline.before(self.kill))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_not_ended_while_renewals_succeed() {
        for seconds in [2, 3, 10, 30, 3600] {
            let lease = Duration::from_secs(seconds);
            let timing = Timing::of_lease(lease);
            // The deadline counts from when the last request was sent; the next one is answered two
            // thirds later at worst.
            let believed = stanchion::Ttl::new(lease).unwrap().belief();
            assert!(believed - lease * 2 / 3 > timing.grace, "{seconds}");
            assert!(
                timing.kill >= Duration::from_millis(200) && timing.grace >= timing.kill * 2,
                "{seconds}"
            );
        }
    }

    #[test]
    fn kill_comes_after_the_grace_and_before_the_deadline() {
        let timing = Timing::of_lease(Duration::from_secs(10));
        let start = Moment::from_nanos(1 << 40);
        let far = start.after(Duration::from_secs(100));
        assert_eq!(timing.kill_at(start, far), start.after(Duration::from_secs(2)));
        let near = start.after(Duration::from_secs(2));
        assert_eq!(timing.kill_at(start, near), start.after(Duration::from_secs(1)));
    }
}
