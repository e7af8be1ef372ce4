//! Builds each published library with the oldest compiler that it promises to work with.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use super::{Package, packages};
use crate::Outcome;
use crate::workspace::{root, target};

/// The packages that promise the same minimum version.
type Promises<'a> = BTreeMap<&'a str, Vec<&'a Package>>;

/// Checks every published package with its minimum Rust version. Rustup installs a version that is
/// missing; a version that cannot be installed is reported and skipped.
pub(crate) fn check() -> Outcome {
    let packages = packages()?;
    let mut failed = 0;
    for (version, of_version) in &promises(&packages) {
        if !is_installed(version) && !install(version) {
            let names: Vec<_> = of_version.iter().map(|package| package.name.as_str()).collect();
            println!("skipped: Rust {version} cannot be installed here, for {}", names.join(", "));
            continue;
        }
        for package in of_version {
            let features = features_within(package, version, &packages);
            let chosen = format!("--features={}", features.join(","));
            println!("Rust {version}: {} {chosen}", package.name);
            if !check_with(version, package, &chosen)? {
                println!("FAILED: {} with Rust {version}", package.name);
                failed += 1;
            }
        }
    }
    Ok(failed == 0)
}

fn promises(packages: &[Package]) -> Promises<'_> {
    let mut promises = Promises::new();
    for package in packages {
        promises.entry(package.rust_version.as_deref().unwrap_or_default()).or_default().push(package);
    }
    promises.remove("");
    promises
}

/// Returns the features that need no newer compiler than the package promises: not those that turn
/// on a package of this workspace with a higher promise.
fn features_within<'a>(package: &'a Package, version: &str, all: &[Package]) -> Vec<&'a str> {
    let is_newer = |value: &String| {
        let turned_on = value.strip_prefix("dep:").unwrap_or(value);
        let own = all.iter().find(|other| other.name == turned_on);
        own.and_then(|own| own.rust_version.as_deref()).is_some_and(|needed| minor(needed) > minor(version))
    };
    let features = package.features.iter().filter(|(name, _)| *name != "default");
    features.filter(|(_, values)| !values.iter().any(is_newer)).map(|(name, _)| name.as_str()).collect()
}

/// Returns the second number of `1.88`.
fn minor(version: &str) -> u32 {
    version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0)
}

fn is_installed(version: &str) -> bool {
    rustup(&["run", version, "rustc", "--version"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

fn install(version: &str) -> bool {
    let install = ["toolchain", "install", version, "--profile=minimal", "--no-self-update"];
    rustup(&install).status().is_ok_and(|it| it.success())
}

/// Checks a package in a target folder of the version's own: compilers do not share what they
/// built.
fn check_with(version: &str, package: &Package, features: &str) -> std::io::Result<bool> {
    let folder = target()?.join(format!("rust-{version}"));
    let check =
        ["run", version, "cargo", "check", "--quiet", "--locked", "--no-default-features", "--package"];
    let mut command = rustup(&check);
    command.args([&package.name, features]).arg("--target-dir").arg(folder);
    Ok(command.status()?.success())
}

/// Returns a call of rustup in the workspace, without the variables by which rustup chose this
/// program's own toolchain.
fn rustup(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(arguments).current_dir(root());
    for variable in ["RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC", "CARGO"] {
        command.env_remove(variable);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, features: &[(&str, &[&str])]) -> Package {
        let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        Package {
            name: name.to_owned(),
            manifest_path: "Cargo.toml".into(),
            features: features.iter().map(|(name, values)| ((*name).to_owned(), owned(values))).collect(),
            publish: None,
            targets: Vec::new(),
            rust_version: Some(version.to_owned()),
        }
    }

    #[test]
    fn a_feature_that_needs_a_newer_compiler_is_left_out() {
        let all = [
            package(
                "facade",
                "1.9",
                &[
                    ("default", &["old"]),
                    ("new", &["dep:new-store"]),
                    ("old", &["dep:old-store"]),
                    ("tls", &["new-store?/tls", "old-store?/tls"]),
                ],
            ),
            package("new-store", "1.10", &[]),
            package("old-store", "1.9", &[]),
        ];
        assert_eq!(features_within(&all[0], "1.9", &all), ["old", "tls"]);
        assert_eq!(features_within(&all[0], "1.10", &all), ["new", "old", "tls"]);
        let promises = promises(&all);
        assert_eq!((promises["1.9"].len(), promises["1.10"].len()), (2, 1));
    }

    #[test]
    fn every_published_package_promises_a_version() {
        assert!(packages().unwrap().iter().all(|package| package.rust_version.is_some()));
    }
}
