//! Where things are, and who is in the workspace.

use std::env;
use std::path::Path;
use std::process::Command;

/// The stores of the contract; the backend of each is in the folder `backend-<store>`.
pub(crate) const STORES: [&str; 3] = ["memory", "redis", "postgres"];

/// The folder of the whole workspace.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// `cargo`, the same one that runs this, in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}
