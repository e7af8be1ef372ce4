//! Targets of a measure, and whether they are met.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::figure::Spread;
use crate::row::{Role, Row};

/// The divisor of this library's figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Against {
    /// No divisor.
    Nothing,
    /// The raw side.
    Raw,
    /// The best peer in the column, among the peers that did not fail.
    BestPeer,
    /// The side with this name.
    Side(String),
}

/// The bound that a target sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At least this value.
    AtLeast(f64),
    /// At most this value.
    AtMost(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(formatter, "≥ {bound}"),
            Self::AtMost(bound) => write!(formatter, "≤ {bound}"),
        }
    }
}

/// A target for one of this library's sides.
#[derive(Clone, Debug)]
pub struct Target {
    side: String,
    column: usize,
    against: Against,
    bound: Bound,
}

/// The verdict on a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The target in words.
    pub wanted: String,
    /// The measured value.
    pub value: Option<f64>,
    /// Whether the target is met.
    pub met: bool,
}

impl Target {
    /// Creates a target for the first column.
    #[must_use]
    pub fn new(side: &str, against: Against, bound: Bound) -> Self {
        Self { side: side.to_owned(), column: 0, against, bound }
    }

    /// Moves the target to another column.
    #[must_use]
    pub fn column(mut self, column: usize) -> Self {
        self.column = column;
        self
    }

    /// Judges the target by the rows. A target against the best peer is met if all peers have
    /// failed.
    pub(crate) fn judge(&self, rows: &[Row], columns: &[crate::figure::Column]) -> Verdict {
        let column = columns.get(self.column);
        let name = column.map_or("", |column| column.name.as_str());
        let wanted = match &self.against {
            Against::Nothing => format!("{}: {name} {}", self.side, self.bound),
            Against::Raw => format!("{}: {name} {} × raw", self.side, self.bound),
            Against::BestPeer => format!("{}: {name} {} × the best peer", self.side, self.bound),
            Against::Side(side) => format!("{}: {name} {} × {side}", self.side, self.bound),
        };
        let ours = rows.iter().find(|row| row.side == self.side && row.failed.is_none());
        let other = match &self.against {
            Against::Nothing => None,
            Against::Raw => rows.iter().find(|row| row.role == Role::Raw),
            Against::BestPeer => column.and_then(|column| best_peer(rows, self.column, column.better)),
            Against::Side(side) => rows.iter().find(|row| row.side == *side),
        };
        let value = match (ours, &self.against, other) {
            (Some(ours), Against::Nothing, _) => ours.spread(self.column).map(|spread| spread.median),
            (Some(ours), _, Some(other)) => ratio(ours, other, self.column),
            _ => None,
        };
        let alone = ours.is_some() && self.against == Against::BestPeer && other.is_none();
        Verdict { wanted, value, met: alone || value.is_some_and(|value| self.bound.holds(value)) }
    }
}

/// Returns the peer with the best median, among the peers that did not fail.
pub(crate) fn best_peer(rows: &[Row], column: usize, better: crate::figure::Better) -> Option<&Row> {
    let peers = rows.iter().filter(|row| row.role == Role::Peer && row.failed.is_none());
    let median = |row: &&Row| row.spread(column).map_or(f64::NAN, |spread| spread.median);
    let peers = peers.filter(|row| median(row).is_finite());
    match better {
        crate::figure::Better::More => peers.max_by(|a, b| median(a).total_cmp(&median(b))),
        crate::figure::Better::Less => peers.min_by(|a, b| median(a).total_cmp(&median(b))),
    }
}

/// Returns the median of the ratios of slices of the same round.
pub(crate) fn ratio(ours: &Row, other: &Row, column: usize) -> Option<f64> {
    let pairs = ours.slices.iter().zip(&other.slices);
    let ratios = pairs.filter_map(|(ours, other)| Some(ours.get(column)? / other.get(column)?));
    Spread::of(ratios).map(|spread| spread.median)
}
