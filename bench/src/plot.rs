//! The tables as pictures: a bar for each side, with the smallest and the largest slice.

use plotters::prelude::*;

use crate::Failure;
use crate::bench::Report;
use crate::measure::Role;
use crate::table::Table;

const WIDTH: u32 = 1000;
/// Height of a side's bar with its margin, and of a table's heading with its axis.
const BAR: u32 = 26;
const HEAD: u32 = 90;
/// Position at which the bars begin; names are to their left.
const NAMES: u32 = 330;

/// Draws the first column of each table on a logarithmic scale, one below the other.
///
/// # Errors
/// If the picture cannot be drawn.
pub fn page(report: &Report) -> Result<String, Failure> {
    let tables: Vec<&Table> = report.tables.iter().filter(|table| range(table).is_some()).collect();
    let heights: Vec<u32> = tables.iter().map(|table| HEAD + BAR * count(table.rows.len())).collect();
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, heights.iter().sum::<u32>().max(1)))
            .into_drawing_area();
        area.fill(&WHITE)?;
        let mut rest = area.clone();
        for (table, height) in tables.iter().zip(heights) {
            let (mine, below) = rest.split_vertically(height);
            draw(table, &mine)?;
            rest = below;
        }
        area.present()?;
    }
    Ok(svg)
}

fn draw(table: &Table, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<(), Failure> {
    let (Some(column), Some((min, max))) = (table.columns.first(), range(table)) else { return Ok(()) };
    let rows = i32::try_from(table.rows.len())?;
    let title = format!("{}: {}", table.title, column.name);
    // This gives labels even if all figures lie within a few octaves.
    let base = if max / min > 30.0 { 10.0 } else { 2.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(8)
        .margin_right(30)
        .x_label_area_size(28)
        .y_label_area_size(NAMES)
        .build_cartesian_2d((min / 1.5..max * 1.5).log_scale().base(base), 0..rows * 2)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .x_labels(6)
        .x_label_formatter(&|value| column.show(*value).to_string())
        .draw()?;
    for (index, row) in (0..rows).rev().zip(&table.rows) {
        let middle = index * 2 + 1;
        let colour = match row.role {
            Role::Ours => RGBColor(21, 101, 192),
            Role::Raw => RGBColor(120, 120, 120),
            Role::Peer => RGBColor(239, 148, 56),
        };
        let place = chart.backend_coord(&(min / 1.5, middle));
        let end = plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Right,
            plotters::style::text_anchor::VPos::Center,
        );
        let name = if row.failed.is_some() { format!("{} (failed)", row.side) } else { row.side.clone() };
        let style = ("sans-serif", 13).into_text_style(area).pos(end);
        area.draw_text(&name, &style, area_place(area, place))?;
        let Some(spread) = row.spread(0).filter(|spread| spread.min > 0.0) else { continue };
        chart.draw_series([
            Rectangle::new([(min / 1.5, index * 2), (spread.median, middle + 1)], colour.mix(0.8).filled()),
            Rectangle::new([(min / 1.5, index * 2), (spread.median, middle + 1)], WHITE.stroke_width(4)),
        ])?;
        chart.draw_series([PathElement::new(
            vec![(spread.min, middle), (spread.max, middle)],
            BLACK.stroke_width(2),
        )])?;
    }
    Ok(())
}

/// Converts a position on the whole picture to a position in this part.
fn area_place(area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, place: (i32, i32)) -> (i32, i32) {
    let (left, top) = area.get_base_pixel();
    (place.0 - left - 8, place.1 - top)
}

/// Returns the smallest and the largest figure of the first column.
fn range(table: &Table) -> Option<(f64, f64)> {
    let spreads = || table.rows.iter().filter_map(|row| row.spread(0)).filter(|spread| spread.min > 0.0);
    let min = spreads().map(|spread| spread.min).min_by(f64::total_cmp)?;
    Some((min, spreads().map(|spread| spread.max).max_by(f64::total_cmp)?))
}

fn count(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}
