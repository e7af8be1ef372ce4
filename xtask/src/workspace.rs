//! The workspace: its folders, packages and features.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use serde::Deserialize;

/// The stores of the contract; the backend of each is in the folder `backend-<store>`.
pub(crate) const STORES: [&str; 3] = ["memory", "redis", "postgres"];

/// Every feature of the workspace but `containers`, which takes longer to build than all the rest;
/// `cargo xtask containers` builds it separately. Builds share dependencies only with the same
/// features.
pub(crate) const FEATURES: &str = "--features=blocking,bloom,metrics,postgres,redis,serde";

/// The feature of the benches' peers: they take long to build, and enable more features of the
/// stores' clients. Only `check` and `bench` turn it on.
pub(crate) const PEERS: &str = "--features=stanchion-bench/peers";

/// Returns the folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Returns the paths of the source files: Rust, Lua and SQL.
pub(crate) fn sources() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.lua", "*.sql"])
        .current_dir(root())
        .output()?;
    if !listed.status.success() {
        return Err(String::from_utf8_lossy(&listed.stderr).trim().into());
    }
    // A deleted file stays listed until the deletion is committed.
    let paths = String::from_utf8(listed.stdout)?;
    Ok(paths.lines().filter(|path| root().join(path).exists()).map(str::to_owned).collect())
}

/// Returns cargo's target folder, wherever the environment or a configuration puts it.
pub(crate) fn target() -> io::Result<PathBuf> {
    #[derive(Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let output = cargo(&["metadata", "--locked", "--no-deps", "--format-version=1"]).output()?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    Ok(metadata.target_directory)
}

/// Returns a command for the `cargo` that runs this program, in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    // `cargo run` sets these variables to our package. A build script that watches them, like
    // `ring`'s, would run again, with all that depends on it, whenever we and a shell call `cargo`
    // alternately.
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_ours) {
            command.env_remove(name);
        }
    }
    command
}

/// Returns a command that runs a program in its own session. Linux divides the processor by
/// sessions first (`sched_autogroup_enabled`): so other busy processes take the same share from
/// each program.
pub(crate) fn in_its_own_session(program: &Path) -> Command {
    if !cfg!(target_os = "linux") {
        return Command::new(program);
    }
    // `setsid` replaces itself by the program, so the child's process id is the program's.
    let mut command = Command::new("setsid");
    command.arg(program);
    command
}

/// Returns whether a variable of the environment describes our own package.
fn is_ours(name: &str) -> bool {
    name == "OUT_DIR" || name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    use super::*;

    /// A test runs with the same variables.
    #[test]
    fn a_build_does_not_hear_which_package_we_are() {
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME"] {
            assert!(env::var_os(name).is_some(), "{name}");
            let command = cargo(&["build"]);
            let mut changed = command.get_envs();
            assert!(changed.any(|change| change == (name.as_ref(), None)), "{name} is passed on");
        }
        assert!(!is_ours("CARGO_TARGET_DIR") && !is_ours("CARGO_HOME"));
    }

    /// Returns the features of each package in a dependency tree.
    fn features_in_tree(arguments: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
        let mut tree = cargo(&["tree", "--locked", "--prefix=none", "--format={p}|{f}"]);
        let output = tree.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut packages = BTreeMap::<_, BTreeSet<_>>::new();
        let text = String::from_utf8(output.stdout).unwrap();
        // An empty line ends each member's tree.
        for (package, features) in text.lines().filter_map(|line| line.split_once('|')) {
            let features = features.trim_end_matches(" (*)");
            let features = features.split(',').filter(|feature| !feature.is_empty()).map(str::to_owned);
            packages.entry(package.to_owned()).or_default().extend(features);
        }
        packages
    }

    #[test]
    fn nothing_that_the_tests_use_is_built_twice() {
        let own = features_in_tree(&["--package=xtask", "--edges=normal,build"]);
        let all = features_in_tree(&["--workspace", FEATURES, "--edges=normal,build,dev"]);
        for (package, features) in own {
            assert_eq!(features, all[&package], "{package}: the features are to agree, see xtask/Cargo.toml");
        }
    }

    /// Returns the features that a manifest declares, without the default ones.
    fn optional_features(manifest: &str) -> BTreeSet<String> {
        let section = manifest.split("\n[features]\n").nth(1).unwrap_or_default();
        let lines = section.lines().take_while(|line| !line.starts_with('['));
        let declared =
            lines.filter_map(|line| line.split_once(" = ")).filter(|(name, _)| !name.starts_with('#'));
        let declared: Vec<_> = declared.collect();
        let usual = declared.iter().find(|(name, _)| *name == "default").map_or("", |(_, value)| *value);
        let names = declared.iter().map(|(name, _)| *name).filter(|name| *name != "default");
        names.filter(|name| !usual.contains(&format!("\"{name}\""))).map(str::to_owned).collect()
    }

    #[test]
    fn only_containers_and_peers_are_left_out_of_the_features() {
        let mut found = optional_features(&fs::read_to_string(root().join("Cargo.toml")).unwrap());
        for entry in fs::read_dir(root()).unwrap() {
            let manifest = fs::read_to_string(entry.unwrap().path().join("Cargo.toml"));
            found.extend(optional_features(&manifest.unwrap_or_default()));
        }
        // The stores that have a server switch it on.
        assert!(found.remove("net"));
        let listed = FEATURES.trim_start_matches("--features=").split(',').chain(["containers", "peers"]);
        assert_eq!(found, listed.map(str::to_owned).collect());
    }
}
