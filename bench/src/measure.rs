//! Sides run alternately in short slices, so that other load on the machine affects all of them.

use crate::Failure;
use crate::figure::{Column, Spread};
use crate::row::Row;
use crate::table::Table;
use crate::target::Target;

pub use crate::row::{Figures, Role};

/// One side of a measure.
pub struct Side<'a> {
    name: String,
    role: Role,
    slice: Box<dyn FnMut() -> Result<Figures, Failure> + 'a>,
}

impl std::fmt::Debug for Side<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Side")
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// A measure: its columns, its sides and its targets.
#[derive(Debug)]
pub struct Measure<'a> {
    slug: String,
    title: String,
    about: String,
    columns: Vec<Column>,
    sides: Vec<Side<'a>>,
    targets: Vec<Target>,
}

impl<'a> Measure<'a> {
    /// Creates a measure without sides. Its slug names it on the command line and in files; ratios
    /// are computed from the first column.
    #[must_use]
    pub fn new(slug: &str, title: &str, about: &str, columns: Vec<Column>) -> Self {
        let (sides, targets) = (Vec::new(), Vec::new());
        Self {
            slug: slug.to_owned(),
            title: title.to_owned(),
            about: about.to_owned(),
            columns,
            sides,
            targets,
        }
    }

    /// Adds a side. A slice of it returns a figure for each column.
    #[must_use]
    pub fn side(
        mut self,
        name: &str,
        role: Role,
        slice: impl FnMut() -> Result<Figures, Failure> + 'a,
    ) -> Self {
        self.sides.push(Side { name: name.to_owned(), role, slice: Box::new(slice) });
        self
    }

    /// Adds a target.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.targets.push(target);
        self
    }

    /// Keeps only the sides whose names begin with one of `names`; keeps all if `names` is empty.
    #[must_use]
    pub fn with_sides(mut self, names: &[String]) -> Self {
        let is_wanted =
            |side: &Side<'_>| names.is_empty() || names.iter().any(|name| side.name.starts_with(name));
        self.sides.retain(is_wanted);
        self
    }

    /// Returns its slug.
    #[must_use]
    pub fn slug(&self) -> &str {
        &self.slug
    }

    /// Runs one slice of each side to warm up, and then `rounds` rounds, each in another order. A
    /// single round has long slices and no warm-up. A side that fails is left out from then on, and
    /// its row gives the error.
    #[must_use]
    pub fn run(mut self, rounds: usize) -> Table {
        let mut rows: Vec<Row> =
            self.sides.iter().map(|side| Row::new(&side.name, side.role, self.columns.len())).collect();
        for round in usize::from(rounds == 1)..=rounds {
            for turn in 0..self.sides.len() {
                let index = (round + turn) % self.sides.len();
                let row = &mut rows[index];
                if row.failed.is_some() {
                    continue;
                }
                match (self.sides[index].slice)() {
                    Ok(figures) if round > 0 => row.slices.push(figures),
                    Ok(_) => {}
                    Err(error) => row.failed = Some(error.to_string()),
                }
            }
        }
        for row in &mut rows {
            let of =
                |column: usize| Spread::of(row.slices.iter().filter_map(|slice| slice.get(column).copied()));
            row.figures = (0..self.columns.len()).map(of).collect();
        }
        Table::new(self.slug, self.title, self.about, self.columns, rows, &self.targets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Against, Bound};

    fn measure<'a>() -> Measure<'a> {
        Measure::new("pairs", "Pairs", "", vec![Column::rate("pairs"), Column::time("p50")])
    }

    #[test]
    fn sides_take_turns_and_the_first_slice_only_warms_up() {
        let order = std::cell::RefCell::new(Vec::new());
        let slice = |name: &'static str| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok(vec![1.0, 2.0])
            }
        };
        let measure = measure().side("a", Role::Ours, slice("a")).side("b", Role::Raw, slice("b"));
        let table = measure.run(3);
        assert_eq!(*order.borrow(), ["a", "b", "b", "a", "a", "b", "b", "a"]);
        assert!(table.rows.iter().all(|row| row.slices.len() == 3));
    }

    #[test]
    fn a_side_that_fails_is_out_and_says_why() {
        let mut turns = 0;
        let failing = move || {
            turns += 1;
            if turns < 3 { Ok(vec![1.0, 1.0]) } else { Err("it leaks".into()) }
        };
        let measure = measure().side("ours", Role::Ours, || Ok(vec![2.0, 1.0]));
        let table = measure.side("peer", Role::Peer, failing).run(5);
        assert_eq!(table.rows[1].failed.as_deref(), Some("it leaks"));
        assert_eq!(table.rows[1].slices.len(), 1);
        assert_eq!(table.rows[0].slices.len(), 5);
    }

    #[test]
    fn targets_are_ratios_of_neighbouring_slices() {
        let (mut ours, mut raw) = (0.0, 0.0);
        let target = Target::new("ours", Against::Raw, Bound::AtLeast(2.0));
        let measure = measure().side("ours", Role::Ours, move || {
            ours += 1.0;
            Ok(vec![2.0 * ours, 1.0])
        });
        let measure = measure.side("raw", Role::Raw, move || {
            raw += 1.0;
            Ok(vec![raw, 1.0])
        });
        let table = measure.target(target).run(5);
        assert_eq!(table.rows[0].to_raw, Some(2.0));
        assert!(table.verdicts[0].met, "{:?}", table.verdicts);
    }
}
