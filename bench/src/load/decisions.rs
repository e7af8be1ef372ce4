//! Rates that never run out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::Failure;
use crate::figure::whole;
use crate::gate::Gate;
use crate::load::crew::{clock, crew, repeat};
use crate::load::pace::Pace;

/// At least this part is to be admitted, or the figure is none.
const ADMITTED: f64 = 0.9;

/// So many tasks ask for one name after another, of so many, for a while; only what is admitted counts. The clock is
/// read once for each batch of decisions.
///
/// # Errors
/// The side's, and if less than nine of ten were admitted.
pub async fn decisions<G: Gate>(
    gate: &G,
    tasks: usize,
    names: usize,
    time: Duration,
    batch: usize,
) -> Result<Pace, Failure> {
    let end = clock() + time;
    let task = |gate: G, task: usize| async move {
        let (asked, admitted) = (AtomicUsize::new(task * names / tasks), AtomicUsize::new(0));
        let (_, times) = repeat(end, batch, || async {
            let name = asked.fetch_add(1, Ordering::Relaxed) % names;
            admitted.fetch_add(usize::from(gate.allow(name).await?), Ordering::Relaxed);
            Ok(())
        })
        .await?;
        Ok((times, admitted.into_inner()))
    };
    let (tasks, seconds) = crew((0..tasks).map(|index| task(gate.clone(), index))).await?;
    let admitted = whole(tasks.iter().map(|(_, admitted)| admitted).sum());
    let mut times: Vec<f64> = tasks.into_iter().flat_map(|(times, _)| times).collect();
    let asked = whole(times.len()) * whole(batch);
    if admitted < ADMITTED * asked {
        return Err(format!("only {admitted} of {asked} were admitted").into());
    }
    Ok(Pace::of(admitted, seconds, &mut times))
}
