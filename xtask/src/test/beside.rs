//! Endless loops beside the tests: a verdict must not depend on how busy the machine is.

use std::io;
use std::process::{Child, Command, Stdio};

/// Endless loops. They end when this value is dropped.
#[derive(Debug)]
pub(crate) struct Loops(Vec<Child>);

impl Loops {
    /// Starts `number` loops, at normal priority.
    pub(crate) fn start(number: usize) -> io::Result<Self> {
        let mut loops = Self(Vec::new());
        for _ in 0..number {
            loops.0.push(Command::new("yes").stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
        }
        Ok(loops)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
