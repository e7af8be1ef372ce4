//! `cargo xtask check`: all checks of the sources that need no test run.

use crate::Outcome;
use crate::comments;
use crate::file_lengths;
use crate::log_events;
use crate::published;
use crate::stage::Stages;
use crate::workspace::{FEATURES, PEERS, cargo};

const CLIPPY: [&str; 9] =
    ["clippy", "--locked", "--workspace", "--all-targets", FEATURES, PEERS, "--", "-D", "warnings"];
const RUSTDOC: [&str; 6] = ["doc", "--locked", "--workspace", "--no-deps", FEATURES, PEERS];

/// Runs every check, even after one has failed.
pub(crate) fn run() -> Outcome {
    let mut stages = Stages::default();
    stages.command("formatting", &mut cargo(&["fmt", "--all", "--check"]))?;
    stages.command("clippy", &mut cargo(&CLIPPY))?;
    stages.command("rustdoc", cargo(&RUSTDOC).env("RUSTDOCFLAGS", "-D warnings"))?;
    stages.run("docs", published::check_docs)?;
    stages.run("public interfaces", || published::check_api(false))?;
    stages.run("log events", log_events::check)?;
    stages.run("file lengths", file_lengths::check)?;
    stages.run("comments", comments::check)?;
    Ok(stages.summary())
}
