//! The seed of a run's random choices.

use std::env;
use std::process::Command;

use crate::workspace::root;

/// Returns the given seed; in CI without one, a seed by the commit, so that the runs of successive
/// commits cover all slices; otherwise a seed by the clock.
pub(crate) fn choose(given: Option<u64>) -> u64 {
    given.or_else(of_commit).unwrap_or_else(of_clock)
}

/// Returns the number of commits up to this one, in CI.
fn of_commit() -> Option<u64> {
    env::var_os("CI")?;
    let counted =
        Command::new("git").args(["rev-list", "--count", "HEAD"]).current_dir(root()).output().ok()?;
    String::from_utf8(counted.stdout).ok()?.trim().parse().ok()
}

#[expect(clippy::disallowed_methods, reason = "a seed that nobody chose")]
fn of_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map(|now| now.as_secs()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_seed_is_taken() {
        assert_eq!(choose(Some(7)), 7);
        assert_ne!(choose(None), 0);
    }
}
