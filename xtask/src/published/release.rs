//! `cargo xtask release`: what must hold before the crates are published, as far as it can be tried
//! without a registry.

use super::{Package, packages, rust_versions};
use crate::Outcome;
use crate::archive;
use crate::published;
use crate::stage::Stages;
use crate::workspace::cargo;

/// Runs every stage, even after one has failed.
pub(crate) fn run() -> Outcome {
    let packages = packages()?;
    let mut stages = Stages::default();
    stages.run("licences", || Ok(licences(&packages)))?;
    stages.run("docs", published::check_docs)?;
    stages.run("public interfaces", || published::check_api(false))?;
    stages.run("features", || features(&packages))?;
    stages.run("rust versions", rust_versions::check)?;
    // Each crate is built from its package alone, with the packages of the others in place of a
    // registry.
    let mut package = cargo(&["package", "--locked", "--allow-dirty"]);
    package.args(packages.iter().flat_map(|package| ["--package", &package.name]));
    stages.command("packages", &mut package)?;
    stages.run("archive", archive::run)?;
    Ok(stages.summary())
}

/// Builds every package with no feature, with each feature alone, with all pairs, and with all
/// features.
fn features(packages: &[Package]) -> Outcome {
    let mut failed = 0;
    for package in packages {
        for choice in choices(package) {
            let chosen = format!("--features={}", choice.join(","));
            let mut command = cargo(&["check", "--quiet", "--locked", "--lib", "--no-default-features"]);
            if !command.args(["--package", &package.name, &chosen]).status()?.success() {
                println!("FAILED: {} {chosen}", package.name);
                failed += 1;
            }
        }
    }
    Ok(failed == 0)
}

/// Returns whether every package has a README and the licences that it names.
fn licences(packages: &[Package]) -> bool {
    let mut complete = true;
    for package in packages {
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            if !package.folder().join(file).is_file() {
                println!("{} has no {file}", package.name);
                complete = false;
            }
        }
    }
    complete
}

/// Returns no feature, each feature alone, all pairs, and all features.
fn choices(package: &Package) -> Vec<Vec<&str>> {
    let names: Vec<&str> =
        package.features.keys().map(String::as_str).filter(|name| *name != "default").collect();
    let mut choices = vec![vec![]];
    choices.extend(names.iter().map(|name| vec![*name]));
    for (index, first) in names.iter().enumerate() {
        choices.extend(names[index + 1..].iter().map(|second| vec![*first, *second]));
    }
    if names.len() > 2 {
        choices.push(names);
    }
    choices
}
