//! Ours and a peer's in one run: short slices in turn, so that what else the machine does meets both.

use std::time::{Duration, Instant};

/// The two sides of one comparison.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// Median time of one operation of ours.
    pub ours: Duration,
    /// Median time of one operation of the peer's.
    pub peer: Duration,
    /// Median of the ratios of neighbouring slices, ours by the peer's.
    pub median: f64,
}

/// Measures in turn, `rounds` slices of each side. A side runs as many operations as it is told and gives the time it
/// took.
pub fn measure(
    rounds: usize,
    operations: u32,
    mut ours: impl FnMut(u32) -> Duration,
    mut peer: impl FnMut(u32) -> Duration,
) -> Ratio {
    ours(operations);
    peer(operations);
    let slices: Vec<(Duration, Duration)> = (0..rounds)
        .map(|round| {
            if round % 2 == 0 {
                let ours = ours(operations);
                (ours, peer(operations))
            } else {
                let peer = peer(operations);
                (ours(operations), peer)
            }
        })
        .collect();
    Ratio {
        ours: median(slices.iter().map(|slice| slice.0)) / operations,
        peer: median(slices.iter().map(|slice| slice.1)) / operations,
        median: middle(slices.iter().map(|slice| slice.0.as_secs_f64() / slice.1.as_secs_f64()).collect()),
    }
}

/// The time that something takes.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn middle(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_unstable_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}
