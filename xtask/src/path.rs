//! `cargo xtask path`: the way of an uncontended call to the client library, and its allocations.

use crate::Outcome;
use crate::cli::Path;
use crate::workspace::cargo;

const PROGRAM: [&str; 4] = ["run", "--quiet", "--locked", "--package=stanchion-call-path"];

/// Measures the stacks in a debug build, where no frame is inlined, and allocations in a release
/// build.
pub(crate) fn run(options: &Path) -> Outcome {
    let mut frames = cargo(&PROGRAM);
    frames.args(["--", "frames"]).args(options.show.then_some("--show"));
    let mut allocations = cargo(&PROGRAM);
    allocations.args(["--release", "--", "allocations"]);
    Ok(frames.status()?.success() && allocations.status()?.success())
}
