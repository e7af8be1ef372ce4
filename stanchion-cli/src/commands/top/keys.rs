//! The effects of keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::model::{Hold, Mode, Model};

/// The request of a key to the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    /// Ask the store now.
    Look,
    Free(Hold),
    /// As the terminal's key for it, which is one as others here.
    Stop,
    Quit,
}

pub(super) fn press(model: &mut Model, key: KeyEvent) -> Wish {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Wish::Quit,
            KeyCode::Char('z') => Wish::Stop,
            _ => Wish::Nothing,
        };
    }
    match model.mode.clone() {
        Mode::Filter => of_filter(model, key.code),
        Mode::Help => {
            model.mode = Mode::Table;
            Wish::Nothing
        }
        Mode::Asked(hold) => {
            model.mode = Mode::Table;
            match key.code {
                KeyCode::Char('y' | 'Y') => return Wish::Free(hold),
                _ => model.say("nothing was freed".to_owned()),
            }
            Wish::Nothing
        }
        Mode::Table | Mode::Holders(_) => of_list(model, key.code),
    }
}

fn of_filter(model: &mut Model, code: KeyCode) -> Wish {
    match code {
        KeyCode::Char(letter) => model.filter.push(letter),
        KeyCode::Backspace => drop(model.filter.pop()),
        KeyCode::Esc => {
            model.filter.clear();
            model.mode = Mode::Table;
        }
        KeyCode::Enter => model.mode = Mode::Table,
        _ => {}
    }
    model.arrange();
    Wish::Nothing
}

fn of_list(model: &mut Model, code: KeyCode) -> Wish {
    let page = model.height.max(1);
    match code {
        KeyCode::Char('q') => return Wish::Quit,
        KeyCode::Up | KeyCode::Char('k') => go(model, |at| at.saturating_sub(1)),
        KeyCode::Down | KeyCode::Char('j') => go(model, |at| at + 1),
        KeyCode::PageUp => go(model, |at| at.saturating_sub(page)),
        KeyCode::PageDown => go(model, |at| at + page),
        KeyCode::Home | KeyCode::Char('g') => go(model, |_| 0),
        KeyCode::End | KeyCode::Char('G') => go(model, |_| usize::MAX),
        KeyCode::Enter if model.chosen().is_some() => {
            model.mode = Mode::Holders(0);
            return Wish::Look;
        }
        KeyCode::Esc => model.mode = Mode::Table,
        KeyCode::Char('?') => model.mode = Mode::Help,
        KeyCode::Char('s') => model.sort_by_next(),
        KeyCode::Char('/') => model.mode = Mode::Filter,
        KeyCode::Char('r') => return Wish::Look,
        KeyCode::Char(' ') => model.pause(),
        KeyCode::Char('f') => match model.meant() {
            Some(hold) => model.mode = Mode::Asked(hold),
            None => model.say("there is no hold of a mutex or semaphore to be freed".to_owned()),
        },
        _ => {}
    }
    Wish::Nothing
}

/// Chooses another row, or another holder where these are shown.
fn go(model: &mut Model, to: impl FnOnce(usize) -> usize) {
    model.message = None;
    match model.mode {
        Mode::Holders(at) => {
            let last = model.chosen().map_or(0, |row| row.holders.len().saturating_sub(1));
            model.mode = Mode::Holders(to(at).min(last));
        }
        _ => model.choose(to(model.index())),
    }
}

#[cfg(test)]
mod tests {
    use stanchion::Kind;

    use super::super::model::tests::{row, snapshot};
    use super::*;

    fn press_all(model: &mut Model, keys: &[KeyCode]) -> Wish {
        let press = |code: &KeyCode| press(model, KeyEvent::new(*code, KeyModifiers::NONE));
        keys.iter().map(press).last().unwrap()
    }

    fn model() -> Model {
        let mut model = Model::new("redis");
        model.update(snapshot(vec![row(Kind::Mutex, "a", 0, 1), row(Kind::Semaphore, "b", 2, 3)]));
        model
    }

    #[test]
    fn a_hold_is_freed_after_a_yes_alone() {
        let mut model = model();
        let free = KeyCode::Char('f');
        assert_eq!(press_all(&mut model, &[KeyCode::Down, free, KeyCode::Enter]), Wish::Nothing);
        assert_eq!(model.message.as_deref(), Some("nothing was freed"));
        let Wish::Free(hold) = press_all(&mut model, &[free, KeyCode::Char('y')]) else { panic!("no yes") };
        assert_eq!(hold.key, (Kind::Semaphore, "b".to_owned()));
        assert_eq!(model.mode, Mode::Table);
    }

    #[test]
    fn keys_choose_filter_and_quit() {
        let mut model = model();
        assert_eq!(press_all(&mut model, &[KeyCode::End, KeyCode::Char('k'), KeyCode::Enter]), Wish::Look);
        assert_eq!((model.index(), &model.mode), (0, &Mode::Holders(0)));
        assert_eq!(press_all(&mut model, &[KeyCode::Down]), Wish::Nothing);
        assert_eq!(model.mode, Mode::Holders(0), "there is one holder");
        press_all(&mut model, &[KeyCode::Esc, KeyCode::Char('/'), KeyCode::Char('b')]);
        assert_eq!((model.rows().len(), &*model.filter), (1, "b"));
        assert_eq!(press_all(&mut model, &[KeyCode::Char('q')]), Wish::Nothing, "a letter of the filter");
        assert_eq!(press_all(&mut model, &[KeyCode::Esc, KeyCode::Char('q')]), Wish::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(press(&mut model, interrupt), Wish::Quit);
        let stop = KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL);
        assert_eq!(press(&mut model, stop), Wish::Stop);
        press_all(&mut model, &[KeyCode::Char('?')]);
        assert_eq!(model.mode, Mode::Help);
        assert_eq!(press_all(&mut model, &[KeyCode::Char('q')]), Wish::Nothing, "any key ends the help");
        assert_eq!(model.mode, Mode::Table);
    }
}
