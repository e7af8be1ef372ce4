//! The results of one measure.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::figure::{Column, Spread};
use crate::row::Role;
use crate::target::{Target, Verdict, best_peer, ratio};

pub use crate::row::Row;

/// All sides of one measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Its name in files and on the command line.
    pub slug: String,
    /// Its heading.
    pub title: String,
    /// What the measure does, and how it counts.
    pub about: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The sides.
    pub rows: Vec<Row>,
    /// The verdicts on its targets.
    pub verdicts: Vec<Verdict>,
}

impl Table {
    pub(crate) fn new(
        slug: String,
        title: String,
        about: String,
        columns: Vec<Column>,
        mut rows: Vec<Row>,
        targets: &[Target],
    ) -> Self {
        let raw = rows.iter().find(|row| row.role == Role::Raw).cloned();
        let peer = columns.first().and_then(|column| best_peer(&rows, 0, column.better)).cloned();
        for row in &mut rows {
            row.to_raw = raw.as_ref().and_then(|raw| ratio(row, raw, 0));
            row.to_best_peer = peer.as_ref().and_then(|peer| ratio(row, peer, 0));
        }
        let verdicts = targets.iter().map(|target| target.judge(&rows, &columns)).collect();
        Self { slug, title, about, columns, rows, verdicts }
    }
}

/// Writes the table as Markdown.
impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "### {}\n\n{}\n", self.title, self.about)?;
        let heads: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
        writeln!(formatter, "| side | {} | to raw | to the best peer |", heads.join(" | "))?;
        writeln!(formatter, "| --- |{} ---: | ---: |", " ---: |".repeat(heads.len()))?;
        for row in &self.rows {
            let side = if row.role == Role::Ours { format!("**{}**", row.side) } else { row.side.clone() };
            write!(formatter, "| {side} |")?;
            for (column, figure) in self.columns.iter().zip(&row.figures) {
                match figure {
                    Some(Spread { median, min, max }) if min == max => {
                        write!(formatter, " {} |", column.show(*median))?;
                    }
                    Some(Spread { median, min, max }) => {
                        let show = |figure| column.show(figure);
                        write!(formatter, " {} ({}–{}) |", show(*median), show(*min), show(*max))?;
                    }
                    None => write!(formatter, " - |")?,
                }
            }
            let times = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            writeln!(formatter, " {} | {} |", times(row.to_raw), times(row.to_best_peer))?;
        }
        for row in &self.rows {
            if let Some(why) = &row.failed {
                writeln!(formatter, "\n{} failed: {why}", row.side)?;
            }
        }
        for verdict in &self.verdicts {
            let value = verdict.value.map_or("no figure".to_owned(), |value| format!("{value:.2}"));
            let word = if verdict.met { "met" } else { "**missed**" };
            writeln!(formatter, "\n- target {}: {value}, {word}", verdict.wanted)?;
        }
        Ok(())
    }
}
