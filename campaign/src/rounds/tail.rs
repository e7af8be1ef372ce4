//! Reads a worker's history while the worker writes it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::history::Event;

/// A reader of a growing history file; the file may not exist yet.
#[derive(Debug, Default)]
pub(crate) struct HistoryTail {
    file: Option<File>,
    torn: String,
}

impl HistoryTail {
    /// Returns the events since the last call. An incomplete line is left for the next call.
    pub(crate) fn look(&mut self, history: &Path) -> Vec<Event> {
        if self.file.is_none() {
            self.file = File::open(history).ok();
        }
        let Some(file) = &mut self.file else { return Vec::new() };
        if file.read_to_string(&mut self.torn).is_err() {
            return Vec::new();
        }
        let end = self.torn.rfind('\n').map_or(0, |end| end + 1);
        let rest = self.torn.split_off(end);
        let lines = std::mem::replace(&mut self.torn, rest);
        lines.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;
    use crate::history::What;

    #[test]
    fn a_half_written_line_is_left_for_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let mut tail = HistoryTail::default();
        assert_eq!(tail.look(&path), [], "there is no file yet");
        let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        let events = [1, 2].map(|at| Event::new(at, 3, 4, 5, What::Released));
        let lines = events.clone().map(|event| format!("{event}\n"));
        let (half, rest) = lines[1].split_at(lines[1].len() / 2);
        write!(file, "{}{half}", lines[0]).unwrap();
        assert_eq!(tail.look(&path), events[..1]);
        assert_eq!(tail.look(&path), []);
        write!(file, "{rest}").unwrap();
        assert_eq!(tail.look(&path), events[1..]);
    }
}
