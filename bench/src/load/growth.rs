//! Whether the cost of an operation grows with the number of other objects on the store.

use crate::Failure;
use crate::bench::Bench;
use crate::figure::Column;
use crate::load::crowd::{COUNTS, Kind};
use crate::measure::{Figures, Measure, Role};
use crate::target::{Against, Bound, Target};

/// A closure that measures one slice of one side.
pub type Slice<'a> = Box<dyn FnMut() -> Result<Figures, Failure> + 'a>;

/// Measures an uncontended pair beside 10 to 10,000 objects of each kind, in `rounds` rounds.
/// `side` makes the slice for a count of a kind, whose first figure is the median time of a pair.
///
/// # Errors
/// The errors of `side`.
pub fn beside<'a>(
    bench: &mut Bench,
    how: &str,
    columns: &[Column],
    rounds: usize,
    mut side: impl FnMut(Kind, usize) -> Result<Slice<'a>, Failure>,
) -> Result<(), Failure> {
    for kind in Kind::ALL {
        let (name, slug) = (kind.name(), format!("growth-{}", kind.name()));
        if !bench.wants(&slug) {
            continue;
        }
        let title = format!("Mutex beside 10 to 10,000 {name}");
        let about = format!("A pair that nobody else wants, while {}{how}.", kind.what());
        let mut measure = Measure::new(&slug, &title, &about, columns.to_vec());
        for count in COUNTS {
            measure = measure.side(&format!("{count} {name}"), Role::Ours, side(kind, count)?);
        }
        let few = Against::Side(format!("10 {name}"));
        let flat = Target::new(&format!("10000 {name}"), few, Bound::AtMost(1.25));
        bench.run(measure.target(flat), rounds);
    }
    Ok(())
}

/// Measures grants from a queue of 10 to 10,000 waiters, in `rounds` rounds. `side` makes the slice
/// for a queue of a given length, whose first figure is the rate.
///
/// # Errors
/// The errors of `side`.
pub fn queue<'a>(
    bench: &mut Bench,
    how: &str,
    columns: &[Column],
    rounds: usize,
    mut side: impl FnMut(usize) -> Result<Slice<'a>, Failure>,
) -> Result<(), Failure> {
    let about =
        format!("That many tasks of one process take the one mutex, give it back and ask again{how}.");
    let mut measure = Measure::new("growth-queue", "Mutex wanted by 10 to 10,000", &about, columns.to_vec());
    if !bench.wants(measure.slug()) {
        return Ok(());
    }
    for count in COUNTS {
        measure = measure.side(&format!("{count} waiters"), Role::Ours, side(count)?);
    }
    let few = Against::Side("10 waiters".to_owned());
    bench.run(measure.target(Target::new("10000 waiters", few, Bound::AtLeast(0.8))), rounds);
    Ok(())
}

/// How many dead waiters stand in front.
const DEAD: [usize; 4] = [0, 100, 1_000, 10_000];

/// Measures grants of a mutex while waiters of dead processes stand in front, in `rounds` rounds.
/// `side` makes the slice for a number of them, whose first figure is the rate.
///
/// # Errors
/// The errors of `side`.
pub fn behind_the_dead<'a>(
    bench: &mut Bench,
    how: &str,
    columns: &[Column],
    rounds: usize,
    mut side: impl FnMut(usize) -> Result<Slice<'a>, Failure>,
) -> Result<(), Failure> {
    let about = format!(
        "16 tasks of one process take the one mutex, give it back and ask again, behind that many waiters of a process \
         that ended without a word and whose leases are not over{how}."
    );
    let mut measure = Measure::new("growth-dead", "Mutex behind 0 to 10,000 dead", &about, columns.to_vec());
    if !bench.wants(measure.slug()) {
        return Ok(());
    }
    for count in DEAD {
        measure = measure.side(&format!("{count} dead"), Role::Ours, side(count)?);
    }
    let none = Against::Side("0 dead".to_owned());
    bench.run(measure.target(Target::new("10000 dead", none, Bound::AtLeast(0.8))), rounds);
    Ok(())
}
