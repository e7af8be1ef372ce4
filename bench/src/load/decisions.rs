//! Decisions of limiters whose tokens never run out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::Failure;
use crate::decider::Decider;
use crate::figure::whole;
use crate::load::pace::Pace;
use crate::load::tasks::{clock, repeat, run_tasks};

/// Minimum fraction of admitted calls for a valid figure.
const ADMITTED: f64 = 0.9;

/// Runs `tasks` tasks for `time`, each asking for one of `names` names after the other; only
/// admitted calls count. The clock is read once for each batch of decisions.
///
/// # Errors
/// The errors of the side, and an error if less than nine of ten calls were admitted.
pub async fn decisions<G: Decider>(
    decider: &G,
    tasks: usize,
    names: usize,
    time: Duration,
    batch: usize,
) -> Result<Pace, Failure> {
    let end = clock() + time;
    let task = |decider: G, task: usize| async move {
        let (asked, admitted) = (AtomicUsize::new(task * names / tasks), AtomicUsize::new(0));
        let (_, times) = repeat(end, batch, || async {
            let name = asked.fetch_add(1, Ordering::Relaxed) % names;
            admitted.fetch_add(usize::from(decider.allow(name).await?), Ordering::Relaxed);
            Ok(())
        })
        .await?;
        Ok((times, admitted.into_inner()))
    };
    let (tasks, seconds) = run_tasks((0..tasks).map(|index| task(decider.clone(), index))).await?;
    let admitted = whole(tasks.iter().map(|(_, admitted)| admitted).sum());
    let mut times: Vec<f64> = tasks.into_iter().flat_map(|(times, _)| times).collect();
    let asked = whole(times.len()) * whole(batch);
    if admitted < ADMITTED * asked {
        return Err(format!("only {admitted} of {asked} were admitted").into());
    }
    Ok(Pace::of(admitted, seconds, &mut times))
}
