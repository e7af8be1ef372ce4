//! The program of the workers that `faults` and `recovery` start.

use std::io;
use std::process::Command;

use crate::workspace::{BUT_BENCHES, FEATURES, cargo, root};

/// As `test` builds it: with the features of the whole workspace, so that neither builds the dependencies of the other
/// again.
const BUILD: [&str; 6] = ["build", "--locked", "--workspace", BUT_BENCHES, FEATURES, "--bin=fault-worker"];

/// Builds it; whether that went well.
pub(crate) fn build() -> io::Result<bool> {
    Ok(cargo(&BUILD).status()?.success())
}

/// What runs it, without its arguments.
pub(crate) fn command() -> Command {
    Command::new(root().join("target").join("debug").join("fault-worker"))
}
