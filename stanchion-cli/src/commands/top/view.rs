//! The picture.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Cell, Paragraph, Row as Line, Table, TableState};
use stanchion::{Holder, Kind};

use super::model::{Mode, Model};
use super::snapshot::Row;
use crate::commands::shown;
use crate::output::printable;
use crate::values::rounded;

const MIN_WIDTH: u16 = 50;
const MIN_HEIGHT: u16 = 8;
/// The cells of a bar.
const BAR: usize = 10;
const KEYS: &str = "up/down choose  Enter holders  f free  s sort  / filter  Space pause  q quit";

/// Draws the whole picture.
pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let area = frame.area();
    if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        let text = format!("the terminal is too small: {MIN_WIDTH} x {MIN_HEIGHT} at least");
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let [head, table, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]).areas(area);
    frame.render_widget(Paragraph::new(heading(model)).style(bold()), head);
    match &model.mode {
        Mode::Holders(at) => holders(frame, model, *at, table),
        _ => names(frame, model, table),
    }
    frame.render_widget(Paragraph::new(foot_of(model)).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn chosen() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn heading(model: &Model) -> String {
    let Some(last) = &model.last else { return format!("{}: looking …", model.store) };
    let held = last.rows.iter().filter(|row| row.listed.holders != Some(0) && has_holders(row)).count();
    let waiting: u64 = last.rows.iter().map(Row::waiters).sum();
    let more = if last.is_cut { "+" } else { "" };
    let mut text = format!(
        "{}: {}{more} names, {held} held, {waiting} waiting, looked in {} ms, by {}",
        model.store,
        last.rows.len(),
        last.took.as_millis(),
        model.sort.word(),
    );
    if model.is_paused() {
        text.push_str(", paused");
    }
    if let Some(error) = &last.error {
        text = format!("{text}; {error}");
    }
    printable(&text).into_owned()
}

fn has_holders(row: &Row) -> bool {
    matches!(row.listed.kind, Kind::Mutex | Kind::Semaphore | Kind::WaitGroup)
}

fn foot_of(model: &Model) -> String {
    let text = match &model.mode {
        Mode::Filter => format!("filter: {}_  (Enter keeps it, Esc clears it)", model.filter),
        Mode::Asked(hold) => format!("free {:?}? y frees it, any other key does not", hold.key.1),
        _ => match &model.message {
            Some(message) => message.clone(),
            None if model.filter.is_empty() => KEYS.to_owned(),
            None => format!("filter {:?}  {KEYS}", model.filter),
        },
    };
    printable(&text).into_owned()
}

fn names(frame: &mut Frame<'_>, model: &mut Model, area: Rect) {
    model.height = usize::from(area.height.saturating_sub(1));
    let index = model.index();
    model.first = model.first.min(index).max((index + 1).saturating_sub(model.height));
    let lines: Vec<_> =
        model.rows().iter().skip(model.first).take(model.height).map(|row| line(model, row)).collect();
    let widths = [
        Constraint::Length(12),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(9),
        Constraint::Length(17),
        Constraint::Length(7),
    ];
    let head = Line::new(["kind", "name", "held by", "for", "lease or tokens", "waiting"]).style(bold());
    let table = Table::new(lines, widths).header(head).row_highlight_style(chosen());
    let mut state = TableState::new().with_selected(Some(index - model.first));
    frame.render_stateful_widget(table, area, &mut state);
}

fn line<'a>(model: &Model, row: &Row) -> Line<'a> {
    let holder = row.holders.iter().max_by_key(|holder| holder.age);
    let held = match (holder, row.listed.holders) {
        (Some(holder), Some(2..)) => {
            format!("{} and {} more", label(holder), row.holders.len().saturating_sub(1))
        }
        (Some(holder), _) => label(holder),
        (None, Some(count @ 1..)) => format!("{count} holders"),
        (None, _) => String::new(),
    };
    let age = holder.and_then(|holder| holder.age).map_or_else(String::new, |age| rounded(age).to_string());
    let waiters = row.waiters();
    let cells = [
        row.listed.kind.as_str().replace('_', "-"),
        row.listed.name.as_str().to_owned(),
        held,
        age,
        gauge(model, row, holder),
        if waiters > 0 { waiters.to_string() } else { String::new() },
    ];
    Line::new(cells.map(|cell| Cell::from(printable(&cell).into_owned())))
}

fn label(holder: &Holder) -> String {
    holder.label.clone().unwrap_or_else(|| "no label".to_owned())
}

/// The rest of a lease, or the tokens of a limiter.
fn gauge(model: &Model, row: &Row, holder: Option<&Holder>) -> String {
    if let (Some(tokens), Some(limit)) = (row.listed.tokens, row.listed.limit) {
        return format!("{} {tokens}", bar(tokens, limit));
    }
    let Some(left) = holder.and_then(|holder| model.left(holder)) else { return String::new() };
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    format!("{} {:.1}s", bar(millis(left), millis(model.longest(row))), left.as_secs_f64())
}

fn bar(part: u64, whole: u64) -> String {
    let cells = u64::try_from(BAR).unwrap_or_default();
    let full = part.min(whole).saturating_mul(cells).checked_div(whole).unwrap_or_default();
    let full = usize::try_from(full).unwrap_or(BAR).min(BAR);
    "█".repeat(full) + &"░".repeat(BAR - full)
}

/// All holders of the chosen name.
fn holders(frame: &mut Frame<'_>, model: &Model, at: usize, area: Rect) {
    let Some(row) = model.chosen() else { return };
    let (kind, name) = (row.listed.kind.as_str().replace('_', "-"), row.listed.name.as_str());
    let title = format!("{kind} {name:?}, {} waiting; Esc goes back", row.waiters());
    let lines = row.holders.iter().map(|holder| Line::new([printable(&shown::text(holder)).into_owned()]));
    let head = Line::new([printable(&title).into_owned()]).style(bold());
    let table = Table::new(lines, [Constraint::Fill(1)]).header(head).row_highlight_style(chosen());
    let mut state = TableState::new().with_selected(Some(at));
    frame.render_stateful_widget(table, area, &mut state);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::model::tests::{row, snapshot};
    use super::*;

    /// Returns the lines of the picture.
    fn drawn(model: &mut Model, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn model() -> Model {
        let mut model = Model::new("redis");
        let mut limiter = row(Kind::Limiter, "calls", 0, 0);
        limiter.holders.clear();
        (limiter.listed.holders, limiter.listed.tokens, limiter.listed.limit) = (None, Some(3), Some(10));
        model.update(snapshot(vec![row(Kind::Mutex, "a\u{1b}[2J", 4, 61), limiter]));
        model
    }

    #[test]
    fn holders_leases_queues_and_tokens_are_shown() {
        let lines = drawn(&mut model(), 110, 10);
        assert!(
            lines[0].starts_with("redis: 2 names, 1 held, 4 waiting, looked in 3 ms, by name"),
            "{lines:?}"
        );
        let mutex = &lines[2];
        for part in ["mutex", "a\\u{1b}[2J", "holder of a\\u{1b}[2J", "1m 1s", "█"] {
            assert!(mutex.contains(part), "{part}: {mutex}");
        }
        assert!(mutex.ends_with('4'), "{mutex}");
        assert!(lines[3].contains("limiter") && lines[3].contains("███░░░░░░░ 3"), "{lines:?}");
        assert!(lines[9].starts_with("up/down choose"), "{lines:?}");
    }

    #[test]
    fn a_small_terminal_says_so() {
        assert!(drawn(&mut model(), 49, 10)[0].starts_with("the terminal is too small"));
        assert!(drawn(&mut model(), 80, 7)[0].starts_with("the terminal is too small"));
        drawn(&mut model(), 1, 1);
    }

    #[test]
    fn the_chosen_row_is_on_the_screen() {
        let mut model = Model::new("redis");
        model.update(snapshot((0..100).map(|at| row(Kind::Mutex, &format!("n{at:03}"), 0, 1)).collect()));
        model.choose(77);
        assert!(drawn(&mut model, 80, 10).iter().any(|line| line.contains("n077")));
        assert!(model.on_screen().len() < 10);
        model.choose(3);
        assert!(drawn(&mut model, 80, 10).iter().any(|line| line.contains("n003")));
    }

    #[test]
    fn the_question_and_all_holders_are_shown() {
        let mut model = model();
        model.choose(0);
        model.mode = Mode::Holders(0);
        let lines = drawn(&mut model, 120, 10);
        assert!(lines[1].starts_with("mutex \"") && lines[2].contains("token 7"), "{lines:?}");
        model.mode = Mode::Asked(model.meant().unwrap());
        assert!(drawn(&mut model, 80, 10)[9].starts_with("free \"a\\u{1b}[2J\"? y frees it"));
    }

    #[test]
    fn a_bar_is_full_at_its_whole_and_empty_at_nothing() {
        assert_eq!((bar(0, 10), bar(10, 10), bar(99, 10)), ("░".repeat(10), "█".repeat(10), "█".repeat(10)));
        assert_eq!((bar(5, 10), bar(1, 0)), (format!("{}{}", "█".repeat(5), "░".repeat(5)), "░".repeat(10)));
    }
}
