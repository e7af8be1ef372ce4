//! The results of one side of a measure.

use serde::{Deserialize, Serialize};

use crate::figure::Spread;

/// The role of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// This library.
    Ours,
    /// Hand-written and without any guarantee: the best that the store can do.
    Raw,
    /// Another library that a user could choose.
    Peer,
}

/// The figures of one slice, in the order of the columns.
pub type Figures = Vec<f64>;

/// The row of one side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The name of the side.
    pub side: String,
    /// The role of the side.
    pub role: Role,
    /// The figure of each column; `None` if there is no figure.
    pub figures: Vec<Option<Spread>>,
    /// The ratio of the first column to the raw side's: the median of the ratios of neighbouring
    /// slices.
    pub to_raw: Option<f64>,
    /// The same ratio to the best peer's.
    pub to_best_peer: Option<f64>,
    /// Why the side did not run to the end.
    pub failed: Option<String>,
    /// The figures of each slice.
    pub slices: Vec<Figures>,
}

impl Row {
    pub(crate) fn new(side: &str, role: Role, columns: usize) -> Self {
        Self {
            side: side.to_owned(),
            role,
            figures: vec![None; columns],
            to_raw: None,
            to_best_peer: None,
            failed: None,
            slices: Vec::new(),
        }
    }

    /// Returns the figure in a column.
    #[must_use]
    pub fn spread(&self, column: usize) -> Option<Spread> {
        self.figures.get(column).copied().flatten()
    }
}
