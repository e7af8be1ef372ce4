//! What the nemesis sees of a worker: its history so far.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::history::{Event, What};

/// A history that grows.
#[derive(Debug)]
pub(super) struct Sight {
    file: Option<File>,
    torn: String,
    waiting: HashSet<u64>,
    holding: HashSet<u64>,
    /// Grants so far.
    pub(super) grants: usize,
}

impl Sight {
    pub(super) fn new() -> Self {
        Self { file: None, torn: String::new(), waiting: HashSet::new(), holding: HashSet::new(), grants: 0 }
    }

    /// Reads on.
    pub(super) fn look(&mut self, history: &Path) {
        if self.file.is_none() {
            self.file = File::open(history).ok();
        }
        let Some(file) = &mut self.file else { return };
        if file.read_to_string(&mut self.torn).is_err() {
            return;
        }
        let end = self.torn.rfind('\n').map_or(0, |end| end + 1);
        let rest = self.torn.split_off(end);
        let lines = std::mem::replace(&mut self.torn, rest);
        for event in lines.lines().filter_map(|line| line.parse::<Event>().ok()) {
            self.see(&event);
        }
    }

    fn see(&mut self, event: &Event) {
        let operation = event.operation;
        match event.what {
            What::Invoked { .. } => {
                self.waiting.insert(operation);
            }
            What::Granted { .. } => {
                self.grants += 1;
                self.waiting.remove(&operation);
                self.holding.insert(operation);
            }
            What::Releasing { .. } | What::Lost => {
                self.holding.remove(&operation);
            }
            _ => {
                self.waiting.remove(&operation);
            }
        }
    }

    /// Whether it holds something.
    pub(super) fn holds(&self) -> bool {
        !self.holding.is_empty()
    }

    /// Whether it waits for something and holds nothing.
    pub(super) fn only_waits(&self) -> bool {
        self.holding.is_empty() && !self.waiting.is_empty()
    }
}
