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
    // `cargo run` tells us so which package we are. A build script that watches these variables, like `ring`'s, would
    // run again, and all that depends on it be built again, whenever we and a shell call `cargo` in turn.
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_ours) {
            command.env_remove(name);
        }
    }
    command
}

/// Whether a variable of the environment is about our own package.
fn is_ours(name: &str) -> bool {
    name == "OUT_DIR" || name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test is run with the same variables.
    #[test]
    fn a_build_does_not_hear_which_package_we_are() {
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(env::var_os(name).is_some(), "{name}");
            let command = cargo(&["build"]);
            let mut changed = command.get_envs();
            assert!(changed.any(|change| change == (name.as_ref(), None)), "{name} is passed on");
        }
        assert!(!is_ours("CARGO_TARGET_DIR") && !is_ours("CARGO_HOME"));
    }
}
