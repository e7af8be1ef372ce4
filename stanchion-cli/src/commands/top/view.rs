//! The picture.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;
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
/// Width from which on there is room for bars.
const WITH_BARS: u16 = 100;
const KEYS: &str = "up/down choose  Enter holders  f free  s sort  / filter  ? help  q quit";
const HELP: [(&str, &str); 11] = [
    ("up, down, k, j", "choose a row"),
    ("page up, page down, g, G", "a screen up or down, the first row, the last one"),
    ("Enter", "all holders of the chosen name"),
    ("f", "free the chosen hold, after a question"),
    ("s", "sort by the next of name, waiting, age and kind"),
    ("/", "show only the names with a text in them"),
    ("Esc", "back to all names; without the filter, while it is written"),
    ("r", "look now"),
    ("Space", "pause, and go on"),
    ("Ctrl-Z", "stop this program; fg makes it go on"),
    ("q, Ctrl-C", "quit"),
];

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
        Mode::Help => help(frame, table),
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
        Mode::Help => "any key goes back".to_owned(),
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
    let columns = Columns::of(area.width);
    let shown = model.rows().iter().skip(model.first).take(model.height);
    let lines: Vec<_> = shown.map(|row| line(model, row, &columns)).collect();
    let lease = if columns.has_bars { "lease or tokens" } else { "lease" };
    let waiting = if columns.has_bars { "waiting" } else { "wait" };
    let head = Line::new(["kind", "name", "held by", "for", lease, waiting]).style(bold());
    let table = Table::new(lines, columns.widths.map(Constraint::Length));
    let table = table.header(head).row_highlight_style(chosen());
    let mut state = TableState::new().with_selected(Some(index - model.first));
    frame.render_stateful_widget(table, area, &mut state);
}

/// The columns of the table. What tells names apart is the last to go.
struct Columns {
    widths: [u16; 6],
    has_bars: bool,
}

impl Columns {
    fn of(width: u16) -> Self {
        let has_bars = width >= WITH_BARS;
        let [kind, age, lease, waiting] = if has_bars { [5, 9, 17, 7] } else { [5, 7, 7, 5] };
        // Between two columns there is a blank.
        let rest = width.saturating_sub(kind + age + lease + waiting + 5);
        let name = if has_bars { rest * 3 / 5 } else { rest * 2 / 3 };
        Self { widths: [kind, name, rest - name, age, lease, waiting], has_bars }
    }
}

/// Returns the word for a kind that fits a narrow column.
fn short(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "mutex",
        Kind::Semaphore => "sem",
        Kind::WaitGroup => "group",
        Kind::Limiter => "limit",
        Kind::BloomFilter => "bloom",
        _ => kind.as_str(),
    }
}

/// Returns a text that fits this number of cells: names often differ at their ends, so that the
/// middle is left out.
fn fitting(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let cells = |letter: char| Span::raw(letter.to_string()).width();
    let within = |most: usize| {
        move |sum: &mut usize, letter: char| {
            *sum += cells(letter);
            (*sum <= most).then_some(letter)
        }
    };
    let tail: Vec<_> = text.chars().rev().scan(0, within(room.div_ceil(2))).collect();
    let taken: usize = tail.iter().copied().map(cells).sum();
    let head = text.chars().scan(0, within(room - taken));
    head.chain(['…']).chain(tail.iter().rev().copied()).collect()
}

fn line<'a>(model: &Model, row: &Row, columns: &Columns) -> Line<'a> {
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
        short(row.listed.kind).to_owned(),
        row.listed.name.as_str().to_owned(),
        held,
        age,
        gauge(model, row, holder, columns.has_bars),
        if waiters > 0 { waiters.to_string() } else { String::new() },
    ];
    let cells = cells.iter().zip(columns.widths);
    Line::new(cells.map(|(cell, width)| Cell::from(fitting(&printable(cell), width))))
}

fn label(holder: &Holder) -> String {
    holder.label.clone().unwrap_or_else(|| "no label".to_owned())
}

/// The rest of a lease, or the tokens of a limiter.
fn gauge(model: &Model, row: &Row, holder: Option<&Holder>, has_bar: bool) -> String {
    let shown = |part, whole, text: String| match has_bar {
        true => format!("{} {text}", bar(part, whole)),
        false => text,
    };
    if let (Some(tokens), Some(limit)) = (row.listed.tokens, row.listed.limit) {
        return shown(tokens, limit, tokens.to_string());
    }
    let Some(left) = holder.and_then(|holder| model.left(holder)) else { return String::new() };
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    shown(millis(left), millis(model.longest(row)), format!("{:.1}s", left.as_secs_f64()))
}

fn bar(part: u64, whole: u64) -> String {
    let cells = u64::try_from(BAR).unwrap_or_default();
    let full = part.min(whole).saturating_mul(cells).checked_div(whole).unwrap_or_default();
    let full = usize::try_from(full).unwrap_or(BAR).min(BAR);
    "█".repeat(full) + &"░".repeat(BAR - full)
}

/// What the keys do.
fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = HELP.map(|(key, meaning)| Line::new([key, meaning]));
    let widths = [Constraint::Length(24), Constraint::Fill(1)];
    let head = Line::new(["key", "what it does"]).style(bold());
    frame.render_widget(Table::new(lines, widths).header(head), area);
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
        assert!(lines[3].contains("limit ") && lines[3].contains("███░░░░░░░ 3"), "{lines:?}");
        assert!(lines[9].starts_with("up/down choose"), "{lines:?}");
    }

    /// Names that differ at their beginnings or ends alone, at the widths of common terminals.
    #[test]
    fn names_are_told_apart_in_narrow_terminals() {
        let path = "a/long/way/to/a/job/of/this/service";
        let names = ["x", "y"].map(|end| [format!("{path}/{end}"), format!("{end}/{path}")]).concat();
        let mut model = Model::new("redis");
        model.update(snapshot(names.iter().map(|name| row(Kind::WaitGroup, name, 2, 61)).collect()));
        for width in [50, 60, 80, 100, 132] {
            let lines = drawn(&mut model, width, 10);
            let shown: std::collections::HashSet<_> =
                lines[2..6].iter().map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect();
            assert_eq!(shown.len(), 4, "{width}: {lines:?}");
            assert_eq!(lines[2].contains('█'), width >= 100, "{lines:?}");
            for part in ["group ", "1m 1s", "2"] {
                assert!(lines[2].contains(part), "{width}: {part}: {lines:?}");
            }
        }
    }

    #[test]
    fn a_text_is_cut_in_its_middle() {
        let cut = |width| fitting("abcdefghij", width);
        assert_eq!([10, 9, 6, 2, 1].map(cut), ["abcdefghij", "abcd…ghij", "ab…hij", "…j", "…"]);
        assert_eq!(fitting("日本語日本語", 7), "日本…語", "a wide letter is not halved");
    }

    #[test]
    fn the_keys_are_explained() {
        let mut model = model();
        model.mode = Mode::Help;
        let lines = drawn(&mut model, 80, 14);
        assert!(lines.iter().any(|line| line.starts_with("Ctrl-Z") && line.contains("fg")), "{lines:?}");
        assert_eq!(lines[13], "any key goes back");
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
